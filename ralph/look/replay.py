"""A transcript, shown as it was seen live, also while it grows."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ralph.agent.stream import Stream
from ralph.screen import Detail
from ralph.screen.text import is_terminal, plain, terminal_size
from ralph.screen.view import View

_BLOCK_BYTES = 1 << 20


def say(line: str) -> None:
    """Prints a line that cannot drive the terminal. Unlike a run it waits for whoever reads."""
    print(plain(line))


def view(*, verbose: bool, pays: bool) -> View:
    """What shows a transcript here; words are wrapped to a terminal's width."""
    detail = Detail.VERBOSE if verbose else Detail.NORMAL
    sees = is_terminal(1)
    return View(say, lambda: terminal_size().columns if sees else None, pays=pays, detail=detail, breaks_silence=sees)


class Replay:
    """Shows the transcript at `path`, and with it what the agent wrote to its standard error."""

    def __init__(self, path: Path, shown: View) -> None:
        self.path = path
        self._files: dict[Path, BinaryIO] = {}
        self._stream = Stream(shown.show, shown.tell)
        shown.begin(self._stream)
        self.quiet = shown.quiet

    def more(self) -> None:
        """Shows what is new."""
        self._feed(self.path, self._stream.sees)
        self._feed(self.path.with_suffix(".err"), self._stream.complains)

    def rest(self) -> None:
        """Shows all that is left, a last line without an end too."""
        self.more()
        self._stream.finish()
        for file in self._files.values():
            file.close()

    def _feed(self, path: Path, sees: Callable[[bytes], None]) -> None:
        """The file stays open: another may take its name, shorter than what has been read of this one."""
        if path not in self._files and path.is_file():
            self._files[path] = path.open("rb")
        if file := self._files.get(path):
            while block := file.read(_BLOCK_BYTES):
                sees(block)
