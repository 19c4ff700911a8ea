"""The rehearsal: runs the real ralph with a fake agent, in a sample or in a copy, and reports the result.

It cannot show whether the real agent is logged in, or how well it works.
"""

import os
import re
import shlex
import shutil
import site
import sys
import tempfile
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from ralph import files
from ralph.commands import run as start
from ralph.commands.rehearsal import sample
from ralph.errors import RalphError
from ralph.git import changes
from ralph.plan import progress
from ralph.process import lock, signals
from ralph.process.programs import MARK, call_program, run_in_front
from ralph.run.stop_rules import Reason
from ralph.screen.text import is_foreground
from ralph.settings.options import Invocation
from ralph.store import journal
from ralph.store.state import State
from ralph.words import join_names, without_control_codes

_SHELL_S = 60.0
_INTRO = """Everything is real except the agent, a fake one: no key, no cost, and a throwaway
copy of {top}
(Whether the agent itself is there and logged in, ralph doctor says.)
"""
_SAMPLE_INTRO = """In a throwaway git repository ralph plans and builds a sample.
Everything is real except the agent, a fake one: no key, no network, no cost.
"""
_SAMPLE_OUTRO = """
It works, and the repository is gone again. Your turn: write down in feature.md
what you want, then

  ralph feature.md plan
  ralph feature.md build --max-iterations 50"""
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")
"""Variables that would lead git back to the original."""


def rehearse(asked: Invocation) -> int:
    """Shows what a run would do, and what would go wrong; returns 1 if something would, else 0.

    A run goes wrong if it ends other than with 0 or at a limit, or if the original repository changes. Raises
    RalphError if the settings are wrong, before anything is copied, or if no copy can be made.
    """
    signals.install_handlers()  # Ctrl+C and Ctrl+Z are for what runs in front; this one has to clean up
    is_sample = not asked.plan
    with tempfile.TemporaryDirectory(prefix="ralph-rehearsal-", ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        (folder / "tmp").mkdir()
        if is_sample:
            asked = asked._replace(plan="sample.md", verbose=True)
            _enter_sample(folder / "home" / "sample")
        this = Rehearsal(asked, folder, is_sample=is_sample)
        with _reading_pace(this.pauses) if is_sample and os.isatty(0) and is_foreground() else nullcontext():
            this.play()
    if signals.interrupted():
        raise KeyboardInterrupt
    return this.close()


def _enter_sample(top: Path) -> None:
    """Makes the sample repository, changes to it, and drops the user's own settings. Raises RalphError if git fails."""
    base = site.getuserbase()
    for name in [one for one in os.environ if one.startswith(("RALPH_", "GIT_", "XDG_")) and one != MARK]:
        del os.environ[name]  # an outer ralph finds its processes by the mark
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])  # a python3
    os.environ.update(HOME=str(top.parent), GIT_CONFIG_NOSYSTEM="1", PYTHONUSERBASE=base, PATH=path)
    top.mkdir(parents=True)
    done = call_program(["sh", "-c", sample.BEGINS], timeout_s=_SHELL_S, cwd=top, stdin=sample.PLAN.encode())
    if done.code:
        what = f"git does not work: {changes.error_text(done)}"
        raise RalphError(what, 1, fix="install git, or fix it; a rehearsal commits for real")
    os.chdir(top)


@contextmanager
def _reading_pace(pauses: Path) -> Iterator[None]:
    """Within this context the fake agent works at reading speed, until a key is pressed, which removes the file."""

    def wait_for_key() -> None:
        while os.read(0, 1):
            pauses.unlink(missing_ok=True)

    pauses.touch()
    before = termios.tcgetattr(0)
    tty.setcbreak(0, termios.TCSANOW)
    threading.Thread(target=wait_for_key, daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)  # the shell should not get the key


def _say(text: str, *, heading: bool = False) -> None:
    click.secho(without_control_codes(text), bold=heading)


class Rehearsal:
    """A rehearsal: what it runs and where, and the results so far."""

    def __init__(self, asked: Invocation, folder: Path, *, is_sample: bool) -> None:
        self.asked = asked
        self.found = start.find_start(asked)
        self.mode = "all" if asked.mode == "all" else self.found.mode
        self.folder = folder
        self.is_sample = is_sample
        self.original = lock.working_tree(Path.cwd().resolve())
        self.top = folder / "tree" / self.original.name
        """The copy; it has the same name as the original, since notices show it."""
        self.pauses = folder / "pauses"
        self.happened: list[str] = []
        """The result of each run, one line each."""
        self.wrong: list[str] = []
        """What went wrong, one line each."""

    def play(self) -> None:
        """Plays the rehearsal up to the last run. Raises KeyboardInterrupt after a signal."""
        found = self.found
        top = self.original
        if holder := lock.read_holder(top):
            raise RalphError(f"another run works in {top}: {holder}", lock.LOCKED, fix="rehearse when it is over")
        text = files.read_or_empty(found.progress_path)
        now = progress.parse(text)
        if now.done and (early := start.why_nothing_to_do(found, State(found.name, found.progress_path), text)):
            self.happened.append(f"exit code {early.exit_code} at once: {early.what}")
            return
        watched = changes.Changes(top, ())
        watched.begin()
        _say(_SAMPLE_INTRO if self.is_sample else _INTRO.format(top=top))
        self._copy_tree()
        self._show_command("cat", "sample.md")
        file = self._path_in_copy(found.progress_path)
        if not file.is_relative_to(self.top):
            file = self.folder / file.name
        if text:  # also from outside; the plan that it names is that of the copy
            files.replace_file(file, os.fsencode(self._with_copied_paths(os.fsdecode(text))))
        is_planned = found.imported or now.tasks or now.done or found.settings.once
        if is_planned or self.mode == "all" or self._run_mode("plan", file) == 0:
            self._run_mode(self.mode, file)
        self._show_command("git", "log", "--oneline")
        self._show_command("cat", "sample_PROGRESS.md")
        _, names = watched.take_changes()
        if names:
            message = f"your repository is not as it was before the rehearsal: {join_names(names)}"
            self.wrong.append(f"{message}; if that was not you, a hook or the verify command reaches out of the copy")

    def close(self) -> int:
        """Prints what happened, what went wrong, and what to type next; returns the exit code."""
        _say("WHAT HAPPENED", heading=True)
        _say("  " + "\n  ".join(self.happened) + "\n")
        _say("WHAT WENT WRONG", heading=True)
        nothing = "nothing" + ", and your files are as they were" * (not self.is_sample)
        _say("  " + "\n  ".join(self.wrong or [nothing]))
        command = shlex.join(["ralph", self.asked.plan, self.mode])
        if not self.wrong:
            same = ", with the same options" * bool(self.asked.given)
            _say(_SAMPLE_OUTRO if self.is_sample else f"\nTo run it for real{same}:\n\n  {command}")
        return 1 if self.wrong else 0

    def _show_command(self, *command: str) -> None:
        """Prints a command and its output, in the sample."""
        if self.is_sample:
            _say(f"$ {shlex.join(command)}", heading=True)
            _say(os.fsdecode(call_program(command, timeout_s=_SHELL_S, cwd=self.top).stdout))

    def _copy_tree(self) -> None:
        """Copies the working tree, including ignored files. Raises RalphError if it cannot be copied."""
        if self.folder.is_relative_to(self.original):
            what = f"no copy of {self.original} fits into itself"
            raise RalphError(what, 1, fix="set TMPDIR to a folder outside of it")
        common = own = self.original / ".git"
        if own.is_file():  # of a linked working tree, or of a submodule
            found = changes.run_git("rev-parse", "--git-common-dir", "--git-dir", cwd=self.original).stdout
            common, own = [self.original / line for line in os.fsdecode(found).splitlines()] or [own, own]
            if common == own:
                what = f"a copy of {self.original} would share its repository with others"
                raise RalphError(what, 1, fix="rehearse in a clone")
        self._copy_entry(self.original, self.top)
        if common != own:
            (self.top / ".git").unlink()
            self._copy_entry(common, self.top / ".git")
            shutil.rmtree(self.top / ".git" / "worktrees")
            for name in ("HEAD", "index"):
                shutil.copy2(own / name, self.top / ".git" / name)
        for setting in (("core.bare", "false"), ("--unset-all", "core.worktree")):  # its tree is the copy, and no other
            changes.run_git("config", "--file", str(self.top / ".git" / "config"), *setting)

    def _copy_entry(self, what: Path, to: Path) -> None:
        to.mkdir(parents=True)
        if run_in_front(["cp", "-a", f"{what}/.", f"{to}/"]):
            _say("not all could be copied; what needs the rest may fail here only")

    def _path_in_copy(self, path: Path) -> Path:
        """Returns the path in the copy; outside the working tree, the path itself with links followed."""
        return Path(self._with_copied_paths(os.path.realpath(path)))

    def _with_copied_paths(self, text: str) -> str:
        """The text with the path of the original replaced by that of the copy."""
        return re.sub(re.escape(str(self.original)) + r"(?![\w.-])", lambda _: str(self.top), text)

    def _environment(self) -> dict[str, str]:
        """The user's environment, without what would lead back to the original, and with a state folder of its own."""
        env = {name: self._with_copied_paths(value) for name, value in os.environ.items() if name not in _ELSEWHERE}
        own = {
            "push.recurseSubmodules": "nothing-is-pushed-in-a-rehearsal",  # git push fails over it
            "core.fsmonitor": "false",  # else it starts a process that stays
            "safe.directory": "*",
        }
        for key in ("user.name", "user.email"):  # which may depend on the original's path
            if who := changes.run_git("config", key, cwd=self.original).stdout:
                own[key] = os.fsdecode(who).rstrip("\n")
        for number, (key, value) in enumerate(own.items()):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env | {
            "GIT_CONFIG_COUNT": str(len(own)),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "RALPH_REHEARSAL": "1",
        }

    def _run_mode(self, mode: str, file: Path) -> int:
        """Runs ralph in the copy, in this terminal; records the result and returns the exit code."""
        settings = self.found.settings
        plan = Path(self.asked.plan)
        plan = self._path_in_copy(plan.parent) / plan.name  # if it is a link, its own name counts
        here = self._path_in_copy(Path.cwd())
        python = [sys.executable, "-P", "-m"]
        commits = "commit" if settings.auto_commit and (self.top / ".git").exists() else ""
        stand_in = self.folder / "claude"  # with the name of claude, which takes every setting
        once = "once" if settings.once and mode != "all" else ""
        words = [once, str(plan), str(file), commits, str(self.pauses)]
        turn = shlex.join([*python, "ralph.commands.rehearsal.standin", *words])
        stand_in.write_text(f"#!/bin/sh\ntrap '' INT\nexec {turn}\n")  # it handles Ctrl+C itself
        stand_in.chmod(0o700)
        env = self._environment() | {one.variable: one.text for one in self.asked.given}
        env |= {
            "RALPH_PROGRESS_FILE": os.path.relpath(file, here),
            "RALPH_AGENT": shlex.quote(str(stand_in)),
            "RALPH_DELAY": "0",
            "RALPH_MAX_FAILURES": "1",  # it would not do better the second time
        }
        if settings.verify:
            env["RALPH_VERIFY"] = self._with_copied_paths(settings.verify)
        if settings.wrap:
            env["RALPH_WRAP"] = "env"  # a sandbox does not know where the copy is
        if settings.only:
            env["RALPH_ONLY"] = "**"  # the fake agent does not know where it may write
        name = shlex.join(["ralph", self.asked.plan, mode])
        _say(f"$ {name}", heading=True)
        word = self.asked.plan if (here / self.asked.plan).resolve() == plan.resolve() else str(plan)
        argv = [*python, "ralph", word, mode]
        if not self.asked.verbose:
            argv.append("--quiet")
        code = run_in_front(argv, env=env, cwd=here)
        _say("")
        outcome = f"`{name}`: exit code {code}"
        for path in self.folder.glob("state/ralph/*/journal.jsonl"):
            last = journal.read(path)[-1]
            outcome += f" · {last.summary} · {last.so_far}"
        self.happened.append(outcome)
        if code not in (0, Reason.LIMIT.code):
            but = "the real agent would meet that too, unless a check failed because the fake one builds nothing"
            self.wrong.append(f"`{name}` exits with {code}; {but}")
        return code
