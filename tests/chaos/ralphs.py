"""Many ralphs in one folder, in one moment where that is asked for: real processes, as forks.py starts them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from forks import SERVER, Forked
from ralph_driver import COMMAND, eventually


class Ralphs:
    """Starts ralphs in one folder; knows how each of them has ended, and what it has said."""

    def __init__(self, folder: Path, env: Mapping[str, str], outputs: Path) -> None:
        self._folder, self._env, self._outputs = folder, env, outputs
        self._said: dict[int, Path] = {}
        self._started: dict[int, Forked] = {}

    def start(self, *args: str) -> int:
        """Starts `ralph ARGS`; its pid."""
        return self.start_many(1, *args)[0]

    def start_many(self, count: int, *args: str) -> list[int]:
        """Starts `ralph ARGS` so many times in one moment; their pids."""
        gate, opens = os.pipe()
        pids = [self._start(args, gate) for _ in range(count)]
        os.close(gate)
        os.close(opens)
        return pids

    def _start(self, args: tuple[str, ...], gate: int) -> int:
        file = self._outputs / f"{len(self._said)}.txt"
        with file.open("wb") as output, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - as in ralph_driver
            said, none, argv = output.fileno(), nothing.fileno(), [*COMMAND, *args]
            ralph = SERVER.start(argv, env=self._env, cwd=self._folder, stdin=none, stdout=said, stderr=said, gate=gate)
        self._said[ralph.pid], self._started[ralph.pid] = file, ralph
        return ralph.pid

    def codes(self) -> dict[int, int]:
        """The exit code of each that has ended, by its pid; negative for a death by that signal."""
        return {pid: code for pid, ralph in self._started.items() if (code := ralph.poll()) is not None}

    def code(self, pid: int, within_s: float = 20) -> int:
        """The exit code of this one, once it has ended."""
        eventually(lambda: pid in self.codes(), within_s)
        return self.codes()[pid]

    def said(self, pid: int) -> str:
        return self._said[pid].read_text("utf-8", "replace")

    def close(self) -> None:
        """Ends what still runs, where the test has failed."""
        for ralph in self._started.values():
            ralph.kill()


@contextmanager
def ralphs_in(folder: Path, env: Mapping[str, str], outputs: Path) -> Iterator[Ralphs]:
    ralphs = Ralphs(folder, env, outputs)
    try:
        yield ralphs
    finally:
        ralphs.close()
