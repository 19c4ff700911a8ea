"""A transcript, shown as it was seen live, also while it grows."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ralph.agent.stream import Stream
from ralph.screen.detail import Detail
from ralph.screen.terminal import is_terminal, plain, size
from ralph.screen.view import View

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
        self._files: dict[Path, BinaryIO] = {}
        shown.begin()
        self._stream = Stream(shown)
        self._end, self.quiet = shown.end, shown.quiet

    def more(self) -> None:
        """Shows what is new."""
        self._feed(self.path, self._stream.sees)
        self._feed(self.path.with_suffix(".err"), self._stream.complains)

    def rest(self) -> None:
        """Shows all that is left, a last line without an end and words that broke off too."""
        self.more()
        self._stream.finish()
        self._end()
        for file in self._files.values():
            file.close()

    def _feed(self, path: Path, sees: Callable[[bytes], None]) -> None:
        """The file stays open: another may take its name, shorter than what has been read of this one."""
        if path not in self._files and path.is_file():
            self._files[path] = path.open("rb")
        if file := self._files.get(path):
            while block := file.read(_BLOCK_BYTES):
                sees(block)
