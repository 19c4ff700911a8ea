"""A real terminal: a shell in a tmux server of its own, and what of its contents stays."""

import re
import subprocess
import uuid
from pathlib import Path

from ralph_driver import eventually


class Tmux:
    """A shell in a terminal of its own tmux server."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self._name, self._cwd, self._env = f"ralph-test-{uuid.uuid4().hex}", str(cwd), env

    def open(self, width: int = 80, height: int = 40) -> None:
        """Starts it with what the environment is now."""
        more = {"TMUX_TMPDIR": self._env["TMPDIR"], "TERM": "xterm", "PS1": "$ ", "PS2": "", "SHELL": "/bin/sh"}
        self._env = self._env | more
        window = ("-x", str(width), "-y", str(height), "-c", self._cwd)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "main", *window, "sh")
        eventually(lambda: self.rows[0].startswith("$"))  # what is typed before the prompt would stand in front of it

    def _tmux(self, *args: str, check: bool = True) -> str:
        command = ["tmux", "-u", "-L", self._name, *args]
        return subprocess.run(command, env=self._env, check=check, capture_output=True, text=True).stdout

    def enter(self, line: str, after: str = "") -> None:
        """Types a line and Enter, once this is on the screen."""
        eventually(lambda: after in self.screen)
        self._tmux("send-keys", "-t", "main", "-l", line)
        self._tmux("send-keys", "-t", "main", "Enter")

    def press(self, key: str) -> None:
        """One key, as tmux calls it: C-c, C-s, C-q, C-z."""
        self._tmux("send-keys", "-t", "main", key)

    def resize(self, width: int) -> None:
        """Makes the window so many columns wide; what stands there is wrapped anew."""
        self._tmux("resize-window", "-t", "main", "-x", str(width))

    @property
    def screen(self) -> str:
        """What stands on the screen, with what has scrolled away; lines that were wrapped are joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-500", "-t", "main")

    @property
    def rows(self) -> list[str]:
        """The same as it is seen, row by row, without the empty ones at the end."""
        return self._tmux("capture-pane", "-p", "-S", "-500", "-t", "main").rstrip("\n").split("\n")

    def exit_code(self) -> int:
        """Of the command before, as the shell sees it once it asks for the next."""
        eventually(lambda: self.screen.rstrip().endswith("\n$"))
        self.enter("echo code=$?=")
        after = eventually(lambda: [line for line in self.screen.splitlines() if line.startswith("code=")])
        return int(after[-1].split("=")[1])

    def end(self) -> None:
        """Closes the window."""
        self._tmux("kill-server", check=False)


def lines_only(text: str) -> str:
    """What was written to a terminal without the live area, its erasing and colors: the lines that stay."""
    area = r"(\x1b\[2m)?\x1b\[\?7l.*?\x1b\[\?7h(\x1b\[0m)?"
    return re.sub(rf"{area}(\r?\n(?={area}))?|\x1b\[[0-9]*[mJA]|\r", "", text)
