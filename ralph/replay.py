"""A transcript, shown as it was seen live, also while it grows."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from ralph.display.detail import Detail
from ralph.display.view import View
from ralph.stream import Stream
from ralph.terminal import is_terminal, plain, size

_BLOCK_BYTES = 1 << 20


def say(line: str) -> None:
    """Prints a line that cannot drive the terminal. Unlike a run it waits for whoever reads."""
    print(plain(line))


def view(*, verbose: bool, pays: bool) -> View:
    """What shows a transcript here; words are wrapped to a terminal's width."""
    width = size().columns if is_terminal(1) else None
    return View(say, width=width, pays=pays, detail=Detail.of(quiet=False, verbose=verbose))


class Replay:
    """Shows the transcript at `path`, and with it what the agent wrote to its standard error."""

    def __init__(self, path: Path, shown: View) -> None:
        self.path = path
        self._at = {path: 0, path.with_suffix(".err"): 0}
        shown.begin()
        self._stream = Stream(shown)
        self.quiet = shown.quiet

    def more(self) -> None:
        """Shows what is new."""
        for path, sees in zip(self._at, (self._stream.sees, self._stream.complains), strict=True):
            self._feed(path, sees)

    def rest(self) -> None:
        """Shows all that is left, a last line without an end too."""
        self.more()
        self._stream.finish()

    def _feed(self, path: Path, sees: Callable[[bytes], None]) -> None:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(self._at[path])
            while block := file.read(_BLOCK_BYTES):
                self._at[path] += len(block)
                sees(block)
