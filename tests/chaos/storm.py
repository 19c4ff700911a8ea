"""Signals at random moments to whom they may hit, and the same command again and again until the plan is done.

The seed decides who is hit and after how long; the machine decides what they were doing then.
"""

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest
from ralph_driver import MARK, Project, Running, eventually, executable, marked

UNBOUNDED = {f"RALPH_MAX_{what}": "off" for what in ("FAILURES", "STALLS", "TRIES")}
LOCKED = 75
LONGEST_CALM_S = 0.2
ENDED = (-SIGKILL, LOCKED, -SIGINT, 128 + SIGINT, -SIGTERM, 128 + SIGTERM)
Blow = tuple[Signals, tuple[str, ...]]
"""A signal, and to whom."""
TO_RALPH: tuple[Blow, ...] = (
    (SIGKILL, ("ralph",)),
    (SIGKILL, ("ralph", "supervisor")),
    (SIGKILL, ("ralph", "supervisor", "agent", "tool")),
    (SIGTERM, ("ralph",)),
    (SIGINT, ("ralph",)),
)
TO_OTHERS: tuple[Blow, ...] = ((SIGKILL, ("agent",)), (SIGKILL, ("tool",)), (SIGKILL, ("supervisor",)))


class Storm:
    """One plan, its agent (a script, which writes what it does into the file RECORD), and what hits them."""

    def __init__(self, project: Project, seed: str, script: str, blows: Sequence[Blow], *, kills: int) -> None:
        if sys.platform != "linux":
            pytest.skip("looks at /proc and uses setsid(1)")
        self._chance, self._blows, self._kills = random.Random(seed), blows, kills
        self._project = project
        self._agent = executable(project.home / "agent", script)
        self.record = project.outputs / "record"
        self.record.touch()
        self.runs: list[Running] = []
        self.killed = 0

    def rages(self, *words: str, calm: Callable[[], None] = lambda: None) -> None:
        """From the first start until the plan is done; `calm` looks at what must hold whenever nothing runs."""
        try:
            run = self._start(words)
            while (code := run.poll()) != 0:
                if code is not None:
                    hit = ("the supervisor died", ": -9\n")  # the supervisor, or a git of ralph's own
                    assert code in ENDED or any(one in run.stderr for one in hit), f"exit {code}"
                    if self._chance.random() < 0.5:  # else the next start is at once, and ends what is left
                        eventually(lambda: not self._roles())
                        calm()
                    run = self._start(words)
                elif self.killed < self._kills:
                    time.sleep(self._chance.random() ** 2 * LONGEST_CALM_S)
                    self._strikes(*self._chance.choice(self._blows))
                else:
                    run.wait(600)
            eventually(lambda: not self._roles())
            calm()
        except AssertionError as error:
            record = "\n".join(self.record.read_text().splitlines()[-20:])
            said = "\n---\n".join((run.stdout + run.stderr)[-1500:] for run in self.runs[-3:])
            error.add_note(f"{record}\n{said}")
            raise
        finally:
            for run in self.runs:
                run.process.kill()

    def _start(self, words: Sequence[str]) -> Running:
        env = {"RALPH_AGENT": str(self._agent), "RECORD": str(self.record)} | UNBOUNDED
        self.runs.append(self._project.start("feature.md", "build", "--delay", "0", *words, env=env))
        return self.runs[-1]

    def _strikes(self, number: Signals, whom: Sequence[str]) -> None:
        victims = [pid for pid, role in self._roles().items() if role in whom]
        if victims:
            with self.record.open("a") as file:
                file.write(f"kill {','.join(whom)} 0\n")
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            self.killed += 1

    def _roles(self) -> dict[int, str]:
        """What everything is that carries the test's mark in its environment."""
        return {pid: role for pid in marked(self._project.env[MARK]) if (role := self._role(pid))}

    def _role(self, pid: int) -> str:
        line = list[bytes]()
        with contextlib.suppress(OSError):  # it has gone
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        if line[2:4] == [b"-m", b"ralph"]:
            return "ralph" if pid == self.runs[-1].pid else "supervisor"
        return "agent" if str(self._agent).encode() in line else "tool" if line else ""
