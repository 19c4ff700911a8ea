"""Processes that a test's agent starts, known by the pid they write down however they hide; and a run's supervisor.

The marks of conftest.py are in the environment; these may have cleaned theirs.
"""

import contextlib
import os
import shlex
from pathlib import Path

from ralph_driver import alive, eventually


class Offspring:
    """Shell commands for a story, and what became of the processes they start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def sleeper(self, name: str, *, before: str = "") -> str:
        """A command that writes down its pid and then sleeps; `before` is shell that it does first."""
        file = shlex.quote(str(self._folder / name))
        return f"sh -c {shlex.quote(f'{before} echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600')}"

    def daemon(self, name: str) -> str:
        """A sleeper in a session of its own, without environment, without parent."""
        return f"(env -i setsid {self.sleeper(name)} &)"

    def hidden(self, name: str) -> str:
        """A sleeper in a session of its own and without environment that keeps its parent."""
        return f"exec env -i setsid -w {self.sleeper(name)}"

    def stubborn(self, name: str) -> str:
        """A sleeper that only SIGKILL ends."""
        return "setsid " + self.sleeper(name, before="trap '' INT TERM HUP QUIT;")

    def until(self, name: str) -> str:
        """A command that ends when that sleeper is there."""
        return f"until [ -e {shlex.quote(str(self._folder / name))} ]; do sleep 0.02; done"

    def pid(self, name: str) -> int:
        """The sleeper's pid, once it is there."""
        file = self._folder / name
        eventually(file.exists)
        return int(file.read_text())

    def alive(self) -> list[str]:
        """The names of those that run."""
        files = sorted(file for file in self._folder.iterdir() if file.suffix != ".new")
        return [file.name for file in files if alive(int(file.read_text()))]


def supervisor_of(ralph: int) -> int:
    """The pid of this ralph's supervisor, once it is there: its oldest child in a session of its own that is ralph.

    A program of ralph's own looks the same for the moment before it is one, but is younger.
    """

    def found() -> int:
        children = map(int, Path(f"/proc/{ralph}/task/{ralph}/children").read_text().split())
        with contextlib.suppress(OSError):  # it has gone meanwhile
            lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (ralph, *children)}
            same = [pid for pid, line in lines.items() if line == lines[ralph] and os.getsid(pid) == pid]
            return next((pid for pid in same if pid != ralph), 0)
        return 0

    return eventually(found)
