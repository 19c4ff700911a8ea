"""kill -9 at random moments to whom it may hit, and the same command again and again until the plan is done.

The seed decides who is hit and after how long; the machine decides what they were doing then.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from ralph_driver import MARK, Project, eventually, progress_text
from ralphs import Ralphs, ralphs_in
from written_down import AGENT, IN_PLACE, TASKS, Record, without_marks

BUILD = ("feature.md", "build", "--delay", "0")
LOCKED = 75
LONGEST_CALM_S = 0.2
VICTIMS = {
    "ralph": ("ralph",),
    "the agent": ("agent",),
    "its tool": ("tool",),
    "its keeper": ("keeper",),
    "ralph and its keeper": ("ralph", "keeper"),
    "everything": ("ralph", "keeper", "agent", "tool"),
}


class Storm:
    """One plan in a folder of its own, its agent, and what is killed there."""

    def __init__(self, project: Project, seed: str, *, saves: str, victims: Sequence[str], kills: int) -> None:
        self._chance = random.Random(seed)
        self._victims, self._kills = victims, kills
        self._leaves_empty = saves == IN_PLACE
        self._seed, mine = seed, f"{seed}-{project.env[MARK]}"
        self._mine = f"STORM={mine}".encode()
        self.progress, self.record = project.progress, Record(project.outputs / "record")
        self._agent = project.home / f"agent-{seed}"
        self._agent.write_text(AGENT.replace("SAVE", saves))
        self._agent.chmod(0o755)
        about = {"STORM": mine, "RALPH_AGENT": str(self._agent), "RECORD": str(self.record.file)}
        self._place = (project.root, project.env | about, project.outputs)
        self.progress.write_text(progress_text(*TASKS))
        self._whole = self.progress.read_text()
        self._ralph = 0
        self.killed = 0

    def rages(self) -> None:
        """From the first start until the plan is done, nothing runs any more and all is as it must be."""
        with ralphs_in(*self._place) as ralphs:
            try:
                self._go_on_until_done(ralphs)
                self._calms_down()
            except AssertionError as error:
                error.add_note(f"seed {self._seed}\n{self.record.tail()}\n{ralphs.said(self._ralph)[-2000:]}")
                raise

    def _go_on_until_done(self, ralphs: Ralphs) -> None:
        self._ralph = ralphs.start(*BUILD)
        while (code := ralphs.codes().get(self._ralph)) != 0:
            if code is not None:
                if code not in (-signal.SIGKILL, LOCKED):
                    assert "the keeper was killed" in ralphs.said(self._ralph), ralphs.said(self._ralph)
                if code == LOCKED:
                    self._waits()  # for the keeper
                self._ralph = ralphs.start(*BUILD)
            elif self.killed < self._kills:
                self._waits()
                self._strikes(self._chance.choice(self._victims))
            else:
                ralphs.code(self._ralph, within_s=30)

    def _waits(self) -> None:
        time.sleep(self._chance.random() ** 2 * LONGEST_CALM_S)

    def _strikes(self, whom: str) -> None:
        there = self._roles()
        victims = [pid for role in VICTIMS[whom] for pid, is_it in there.items() if is_it == role]
        if not victims:
            return
        self.record.write("kill", whom)
        self.killed += sum(map(kill, [self._chance.choice(victims)] if whom == "its tool" else victims)) > 0
        while whom == "everything" and (born := self._roles()):
            sum(map(kill, born))
        self.record.write("killed", "-")
        ends = whom == "everything" or (whom == "ralph" and "keeper" in there.values())
        if ends and self._chance.random() < 0.5:  # else the next start is at once, which is what ends the rest
            eventually(lambda: not any(words(Path(f"/proc/{pid}/cmdline")) for pid in there))
            self._calms_down()

    def _calms_down(self) -> None:
        """Nothing runs any more, and all is as it must be."""
        eventually(lambda: not self._roles())
        text = self.progress.read_text()
        if text or not self._leaves_empty:
            assert without_marks(text) == self._whole
        self.record.check(text)

    def _roles(self) -> dict[int, str]:
        return roles(self._mine, self._agent, self._ralph)


def roles(mark: bytes, agent: Path, ralph: int) -> dict[int, str]:
    """What everything is that carries this mark in its environment."""
    processes = Path("/proc").glob("[0-9]*")
    here = [int(folder.name) for folder in processes if mark in words(folder / "environ")]
    return {pid: role for pid in here if (role := _role(pid, agent, ralph))}


def _role(pid: int, agent: Path, ralph: int) -> str:
    line = words(Path(f"/proc/{pid}/cmdline"))
    if pid == ralph:
        return "ralph"
    if line[2:4] == [b"-m", b"ralph"]:
        return "keeper"
    return "agent" if str(agent).encode() in line else "tool" if line else ""


def words(file: Path) -> list[bytes]:
    """The words in a file of proc(5); none when the process has gone or is a zombie."""
    try:
        return file.read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Whether it was there to be killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
