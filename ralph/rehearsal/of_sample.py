"""A rehearsal: ralph plans and builds a sample for real, with an agent that needs no key and no network."""

import os
import shlex
import shutil
import site
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import progress
from ralph.errors import RalphError
from ralph.process import MARK, call, foreground, signals
from ralph.progress import Progress
from ralph.rehearsal import sample
from ralph.rehearsal.itself import program
from ralph.rehearsal.stage import throwaway
from ralph.screen.screen import Screen

_INTRO = """A rehearsal: in a throwaway git repository ralph plans and builds a sample.
All of it is real but the agent, a stand-in: no key, no network, no cost.
"""
_OUTRO = """It works, and the repository is gone again. Your turn: write down in feature.md
what you want, then

  ralph feature.md plan
  ralph feature.md build --max-iterations 50"""
_MODES = {"plan": ("sample.md", "plan"), "build": ("sample.md", "build", "--max-iterations", "10")}
_PACE_S = 0.06
"""Seconds after each step of the stand-in on a terminal, so that a person can follow."""
_FEW_TASKS = 10
_GIT_S = 30.0


def rehearse() -> int:
    """Plans and builds the sample, shows what came of it, and removes it; 0 when it all happened as it should.

    Raises RalphError that says what did not.
    """
    if not shutil.which("git"):
        path = os.environ.get("PATH", "(unset)")
        raise RalphError(f"git is not on the PATH, which is {path}; install git, a rehearsal commits for real", 1)
    signals.install(lambda: None)  # Ctrl+C and Ctrl+Z are for the ralph that runs in front; this one has to clean up
    screen = Screen()
    screen.open()
    try:
        with throwaway() as folder:
            wrong = _Rehearsal(folder=Path(folder).resolve(), screen=screen).run()
        screen.close()
        if (number := signals.interrupted()) is not None:
            signals.die_by(number)
        if wrong:
            raise RalphError(f"the rehearsal went wrong: {'; '.join(wrong)}", 1)
        screen.agent(_OUTRO)
    finally:
        screen.close()
    return 0


def pace_s(screen: Screen, tasks: int) -> float:
    """Seconds between two steps of the stand-in; none where nobody can follow them all."""
    return _PACE_S if screen.width is not None and tasks <= _FEW_TASKS else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rehearsal:
    """One rehearsal, in a folder that belongs to it."""

    folder: Path
    screen: Screen

    @property
    def repository(self) -> Path:
        return self.folder / "sample"

    @property
    def _progress(self) -> Path:
        return self.repository / "sample_PROGRESS.md"

    def run(self) -> list[str]:
        """Everything from the first commit to the last look; what went wrong."""
        self.screen.agent(_INTRO)
        self._make_repository()
        self._show("cat", "sample.md")
        wrong = self._plan_and_build()
        if signals.interrupted() is not None:
            return []
        self._show("git", "log", "--oneline")
        text = self._progress.read_bytes() if self._progress.exists() else b""
        if text:
            self._show("cat", self._progress.name)
        return wrong or problems(
            progress.parse(text), commits=int(self._call("git", "rev-list", "--count", "HEAD")) - 1
        )

    def _plan_and_build(self) -> list[str]:
        for mode, words in _MODES.items():
            if signals.interrupted() is None and (code := self._ralph(mode, words)):
                return [f"`{shlex.join(['ralph', *words])}` {_ended(code)}"]
        return []

    def _make_repository(self) -> None:
        for folder in (self.repository, self.folder / "home", self.folder / "tmp"):
            folder.mkdir()
        for name, text in sample.FILES.items():
            (self.repository / name).write_text(text, encoding="utf-8")
        self._call("git", "-c", "init.defaultBranch=main", "init", "-q", "--template=")
        self._call("git", "config", "user.name", "Ralph Rehearsal")
        self._call("git", "config", "user.email", "rehearsal@example.invalid")
        self._call("git", "add", "--", *sample.FILES)
        self._call("git", "commit", "-q", "-m", "A plan")

    def _ralph(self, mode: str, words: Sequence[str]) -> int:
        """A real start of ralph in this terminal; its exit code."""
        self._say_command("ralph", *words)
        pace = pace_s(self.screen, len(sample.WORK))
        standin = [*program("ralph.rehearsal.standin"), mode, "sample.md", "sample_PROGRESS.md", "--pace", str(pace)]
        hidden = ["--delay", f"{2 * pace}s", "--agent", shlex.join(standin)]
        self.screen.close()  # what was said before comes before
        code = foreground([*program("ralph.cli"), *words, *hidden], env=self._environment(), cwd=str(self.repository))
        if signals.interrupted() is None:
            self.screen.agent("")
        return code

    def _environment(self) -> dict[str, str]:
        """The person's environment without their settings, secrets, home and git configuration."""
        kept = ("GIT_EXEC_PATH", MARK)  # git may need the one; by the other an outer ralph knows what it started
        env = {n: v for n, v in os.environ.items() if n in kept or not n.startswith(("RALPH_", "GIT_", "XDG_"))}
        return env | {
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "TMPDIR": str(self.folder / "tmp"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONUSERBASE": site.getuserbase(),
        }

    def _say_command(self, *words: str) -> None:
        self.screen.say(f"$ {shlex.join(words)}")

    def _show(self, *command: str) -> None:
        self._say_command(*command)
        self.screen.agent(self._call(*command).rstrip() + "\n")

    def _call(self, *command: str) -> str:
        """What a small program prints. Raises RalphError when it fails."""
        done = call(command, timeout_s=_GIT_S, env=self._environment(), cwd=str(self.repository))
        if done.code:
            why = done.stderr.decode(errors="replace").strip() or f"exit code {done.code}"
            raise RalphError(f"the rehearsal went wrong: {shlex.join(command)}: {why}", 1)
        return done.stdout.decode(errors="replace")


def problems(now: Progress, *, commits: int) -> list[str]:
    """What a build that says it went well left undone; `commits` are those after the first."""
    found = []
    if not now.done:
        found.append("the progress file does not say RALPH_DONE")
    if not now.tasks or now.open:
        found.append(f"{now.ticked} of {len(now.tasks)} tasks are ticked")
    if commits != len(now.tasks):
        found.append(f"there are {commits} commits for {len(now.tasks)} tasks")
    return found


def _ended(code: int) -> str:
    return f"was ended by {signals.name(-code)}" if code < 0 else f"ended with exit code {code}"
