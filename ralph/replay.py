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


class Replay:
    """Shows the transcript at `path`, and with it what the agent wrote to its standard error."""

    def __init__(self, path: Path, *, verbose: bool) -> None:
        self.path = path
        self._at = {path: 0, path.with_suffix(".err"): 0}
        width = size().columns if is_terminal(1) else None
        self._stream = Stream(View(say, width=width, pays=True, detail=Detail.of(quiet=False, verbose=verbose)))

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
