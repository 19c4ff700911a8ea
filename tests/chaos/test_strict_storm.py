"""--strict under kill -9, TERM and INT: each task is done once, and a person's uncommitted work stays as it is."""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import strict_story
from ralph_driver import MARK, Project, eventually
from ralphs import Ralphs, ralphs_in
from storm import LOCKED, kill, roles
from strict_story import MADE, ONLY, VERIFY
from written_down import Record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")

KILLS = int(os.environ.get("STORM_KILLS", "7"))
KINDS = {
    "only": ("--only", ONLY),
    "restore": ("--only", ONLY, "--on-failure", "restore"),
    "anywhere": (),
}
LONGEST_CALM_S = 0.4
BUILD = ("feature.md", "build", "--strict", "--delay", "0", "--verify", VERIFY)
SEED = os.environ.get("STORM_NAME", "")
"""Another name is another storm; for nights of them."""
UNBOUNDED = {"RALPH_MAX_FAILURES": "off", "RALPH_MAX_STALLS": "off", "RALPH_MAX_TRIES": "off"}
WHAT: dict[str, tuple[signal.Signals, tuple[str, ...]]] = {
    "kill -9": (signal.SIGKILL, ("ralph",)),
    "kill -9 with the keeper": (signal.SIGKILL, ("ralph", "keeper")),
    "kill -9 of all": (signal.SIGKILL, ("ralph", "keeper", "agent", "tool")),
    "kill -9 of the agent": (signal.SIGKILL, ("agent",)),
    "TERM": (signal.SIGTERM, ("ralph",)),
    "INT": (signal.SIGINT, ("ralph",)),
}
ENDED = (-signal.SIGKILL, LOCKED, -signal.SIGINT, 128 + signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM)


class StrictStorm:
    """One repository, its agent, and what is done to ralph there."""

    def __init__(self, project: Project, seed: str, *arguments: str) -> None:
        self._chance, self._seed, self._arguments = random.Random(seed), seed, arguments
        self.project, self.record = project, Record(project.outputs / "record")
        where = project.home / f"agent-{seed}"
        self._agent = strict_story.agent(where, sys.executable, keeps_to_it="--only" not in arguments)
        mine = f"{seed}-{project.env[MARK]}"
        self._mine = f"STORM={mine}".encode()
        about = {"STORM": mine, "STORM_SEED": seed, "RALPH_AGENT": str(self._agent), "RECORD": str(self.record.file)}
        self._place = (project.root, project.env | UNBOUNDED | about, project.outputs)
        strict_story.furnish(project)
        self._first = project.git("rev-parse", "HEAD").strip()
        self._persons = strict_story.persons(project)
        self._ralph = 0
        self._all: list[int] = []
        self.killed = 0

    def rages(self) -> None:
        """From the first start until the list is done, and all is as it must be."""
        with ralphs_in(*self._place) as ralphs:
            try:
                self._goes_on_until_done(ralphs)
                eventually(lambda: not self._roles())
                self._is_as_it_must_be(ralphs)
            except AssertionError as error:
                error.add_note(f"seed {self._seed} in {self.project.root}\n{self.record.tail()}")
                error.add_note("\n".join(f"--- {pid}\n{ralphs.said(pid)[-1500:]}" for pid in self._all[-4:]))
                raise

    def _starts(self, ralphs: Ralphs) -> None:
        self._ralph = ralphs.start(*BUILD, *self._arguments)
        self._all.append(self._ralph)
        self.record.write("start", str(self._ralph))

    def _goes_on_until_done(self, ralphs: Ralphs) -> None:
        self._starts(ralphs)
        while (code := ralphs.codes().get(self._ralph)) != 0:
            if code is not None:
                assert code in ENDED, f"exit {code}"
                if code == LOCKED:
                    time.sleep(0.02)  # for the keeper
                self._starts(ralphs)
            elif self.killed < KILLS:
                time.sleep(self._chance.random() * LONGEST_CALM_S)
                self._strikes(ralphs)
            else:
                with contextlib.suppress(KeyError):
                    ralphs.code(self._ralph, within_s=60)

    def _strikes(self, ralphs: Ralphs) -> None:
        how = self._chance.choice([*WHAT])
        number, whom = WHAT[how]
        there = self._roles()
        self.record.write("kill", how)
        self.killed += sum(kill(pid, number) for role in whom for pid, it in there.items() if it == role) > 0
        if number is not signal.SIGKILL and self._ralph in there:
            ralphs.code(self._ralph, within_s=30)

    def _roles(self) -> dict[int, str]:
        return roles(self._mine, self._agent, self._ralph)

    def _is_as_it_must_be(self, ralphs: Ralphs) -> None:
        text = self.project.progress.read_text()
        assert [text.count(f"- [x] {task}: ") for task in MADE] == [1] * len(MADE)
        assert "\nRALPH_DONE\nVerified: " in text
        assert "- [ ]" not in text
        found = strict_story.commits(self.project, self._first)
        assert sorted(found) == sorted(MADE.items())
        assert self.project.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
        assert strict_story.persons(self.project) == self._persons
        assert strict_story.locks(self.project.root) == []
        strict_story.fsck(self.project)
        assert strict_story.left_over(self.project) == set()
        for file in self.project.state.glob("ralph/*-*/journal.jsonl"):
            for line in file.read_text().splitlines():
                json.loads(line)
        for pid in self._all:
            assert "/ralph/" not in ralphs.said(pid).partition("Traceback")[2], ralphs.said(pid)


def places(project: Project) -> Iterator[Project]:
    """A repository for each storm in one project, each with the plan."""
    for name in KINDS:
        root, outputs = project.root / name, project.outputs / name
        outputs.mkdir()
        shutil.copytree(project.root / ".git", root / ".git")
        made = replace(project, root=root, outputs=outputs)
        made.git("checkout", "-q", "--", ".")
        yield made


def test_whatever_is_killed_each_task_is_done_and_committed_once(project: Project) -> None:
    where = zip(KINDS.items(), places(project), strict=True)
    storms = [StrictStorm(place, name + SEED, *arguments) for (name, arguments), place in where]
    with ThreadPoolExecutor(len(storms)) as threads:
        list(threads.map(StrictStorm.rages, storms))
    assert len([*project.state.glob("ralph/*-*/before/*")]) <= len(KINDS), "of the last death of each, if at all"
    assert sum(storm.killed for storm in storms) >= len(storms) * 2, "a calm storm proves little"
