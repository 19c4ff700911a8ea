"""Many starts of ralph for little time: real processes, forked by nursery.py."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ralph_driver import eventually

NURSERY = Path(__file__).with_name("nursery.py")


class Ralphs:
    """Starts ralphs in one folder; knows how each of them has ended, and what it has said."""

    def __init__(self, folder: Path, env: Mapping[str, str], outputs: Path) -> None:
        self._outputs, self._ends = outputs, outputs / "ends"
        self._ends.touch()
        self._said: dict[int, Path] = {}
        self._nursery = subprocess.Popen(
            [sys.executable, "-P", str(NURSERY), str(self._ends)],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.parent = self._nursery.pid

    def start(self, *args: str) -> int:
        """Starts `ralph ARGS`; its pid."""
        return self.start_many(1, *args)[0]

    def start_many(self, count: int, *args: str) -> list[int]:
        """Starts `ralph ARGS` so many times in one moment; their pids."""
        files = [self._outputs / f"{len(self._said) + number}.txt" for number in range(count)]
        request = json.dumps({"argv": args, "outputs": [str(file) for file in files]})
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._nursery.stdin.write(request + "\n")
        self._nursery.stdin.flush()
        pids: list[int] = json.loads(self._nursery.stdout.readline())
        self._said |= dict(zip(pids, files, strict=True))
        return pids

    def codes(self) -> dict[int, int]:
        """The exit code of each that has ended, by its pid; negative for a death by that signal."""
        lines = self._ends.read_text().splitlines(keepends=True)
        return {int(pid): int(code) for pid, code in (line.split() for line in lines if line.endswith("\n"))}

    def code(self, pid: int, within_s: float = 20) -> int:
        """The exit code of this one, once it has ended."""
        eventually(lambda: pid in self.codes(), within_s)
        return self.codes()[pid]

    def said(self, pid: int) -> str:
        return self._said[pid].read_text("utf-8", "replace")

    def close(self) -> None:
        try:
            self._nursery.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # one of them runs on; the test has failed already
            self._nursery.kill()
            self._nursery.communicate()


@contextmanager
def ralphs_in(folder: Path, env: Mapping[str, str], outputs: Path) -> Iterator[Ralphs]:
    ralphs = Ralphs(folder, env, outputs)
    try:
        yield ralphs
    finally:
        ralphs.close()
