"""Processes that a test's agent starts: known by the pid they write down, however they hide.

The marks of conftest.py are in the environment; these may have cleaned theirs.
"""

import contextlib
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
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

    def pid(self, name: str) -> int:
        """The sleeper's pid, once it is there."""
        file = self._folder / name
        eventually(file.exists)
        return int(file.read_text())

    def alive(self) -> list[str]:
        """The names of those that run."""
        return [file.name for file in self._files() if alive(int(file.read_text()))]

    def end(self) -> None:
        for name in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid(name), signal.SIGKILL)

    def _files(self) -> list[Path]:
        return [file for file in sorted(self._folder.iterdir()) if file.suffix != ".new"]


@contextmanager
def offspring_in(folder: Path) -> Iterator[Offspring]:
    """An Offspring whose last survivors are ended here, so that a failed test leaves nothing behind."""
    offspring = Offspring(folder)
    try:
        yield offspring
    finally:
        offspring.end()
