"""The rehearsal: ralph started for real with a stand-in agent, in a sample or in a copy, and what came of it.

What a stand-in cannot show, it does not show: whether the real agent is logged in, and how well it works.
"""

import contextlib
import os
import shlex
import site
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ralph import changes, files, journal, lock, options, progress, start
from ralph.agent import command as agent
from ralph.errors import RalphError
from ralph.look.doctor import Check, bad, checks, warning
from ralph.look.plans import ending
from ralph.options import Asked
from ralph.process import MARK, call, foreground, signals
from ralph.rehearsal import sample
from ralph.rehearsal.copy import Copy
from ralph.screen.screen import Screen
from ralph.screen.text import hung
from ralph.start import Start
from ralph.state import State
from ralph.verdict import Reason
from ralph.words import counted, named

_SHELL_S = 60.0
_INTRO = """All of it is real but the agent, a stand-in: no key, no cost, and a throwaway
copy of {top}
"""
_SAMPLE_INTRO = """In a throwaway git repository ralph plans and builds a sample.
All of it is real but the agent, a stand-in: no key, no network, no cost.
"""
_SAMPLE_OUTRO = """\
It works, and the repository is gone again. Your turn: write down in feature.md
what you want, then

  ralph feature.md plan
  ralph feature.md build --max-iterations 50"""


def rehearse(asked: Asked) -> int:
    """Shows what a start would do, and what would go wrong; 1 when something would, else 0.

    Wrong is whatever ends a start otherwise than with 0 or at a limit, a notice that does not get through, what keeps
    the agent from working, and a repository that is not as it was. Raises RalphError where a start would, before
    anything is copied, and when no copy can be made.
    """
    signals.install()  # Ctrl+C and Ctrl+Z are for what runs in front; this one has to clean up
    is_sample = not asked.plan
    with tempfile.TemporaryDirectory(prefix="ralph-rehearsal-", ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        for inner in ("home", "state", "tmp", "bin"):
            (folder / inner).mkdir()
        if is_sample:
            asked = replace(asked, plan="sample.md", verbose=True)
            _make_sample(folder / "home" / "sample")
        this = Rehearsal(asked, folder, is_sample=is_sample)
        with contextlib.suppress(KeyboardInterrupt):
            this.play()
    if (number := signals.interrupted()) is not None:
        this.screen.close()
        signals.die_by(number)
    return this.close()


def _found(asked: Asked) -> Start:
    found = start.find(asked)
    found.prompt()
    agent.chosen(found.settings, found.asked.agent_arguments)
    return found


def _make_sample(top: Path) -> None:
    """Makes it the working directory; what is the person's own in the environment does not count. Raises RalphError."""
    base = site.getuserbase()
    for name in [one for one in os.environ if one.startswith(("RALPH_", "GIT_", "XDG_")) and one != MARK]:
        del os.environ[name]  # by the mark an outer ralph knows what it started
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])  # a python3
    os.environ.update(HOME=str(top.parent), GIT_CONFIG_NOSYSTEM="1", PYTHONUSERBASE=base, PATH=path)
    top.mkdir()
    for name, text in sample.FILES.items():
        (top / name).write_text(text, encoding="utf-8")
    done = call(["sh", "-c", sample.BEGINS], timeout_s=_SHELL_S, cwd=str(top))
    if done.code:
        what = f"git does not work: {changes.complaint(done)}"
        raise RalphError(what, 1, fix="install git, or mend it; a rehearsal commits for real")
    os.chdir(top)


def _told(found: Sequence[Check]) -> list[str]:
    return [f"- {one.subject}: {one.said}\n  {one.fix}" for one in found]


class Rehearsal:
    """What is rehearsed and where, and what came of it so far."""

    def __init__(self, asked: Asked, folder: Path, *, is_sample: bool) -> None:
        self.last, self.is_sample = _found(asked), is_sample
        self.asked = replace(asked, mode="all" if asked.mode == "all" else self.last.mode)
        self.copy = Copy(lock.working_tree(Path.cwd().resolve()), folder)
        there = self.copy.counterpart(self.last.progress_path)
        self.file = there if there.is_relative_to(self.copy.top) else folder / there.name
        """The progress file in the copy, beside it where it lies outside of the working tree."""
        self.screen = Screen()
        self.screen.open()
        self.code = 0
        """The last start's exit code."""
        self.happened: list[str] = []
        self.found: list[Check] = []

    def play(self) -> None:
        """All of it, up to the last start. Raises KeyboardInterrupt once a signal came."""
        asked, last, top = self.asked, self.last, self.copy.original
        if holder := lock.holder(top):
            raise RalphError(f"another run works in {top}: {holder}", lock.LOCKED, fix="rehearse when it is over")
        text = last.progress_path.read_bytes() if last.progress_path.is_file() else b""
        now = progress.parse(text)
        is_planned = bool(last.settings.once or last.imported or now.tasks or now.done)
        if not self.is_sample:  # of a task list that is still to be planned the doctor need not speak
            without = ("login", "cron", "" if is_planned else "plan")
            self.found = [one for one in checks(asked, without=without) if one.level != "ok"]
        state = State(last.name, last.progress_path)
        if is_planned and (early := start.ends_at_once(last, now, state, text)):
            self.happened = [f"exit code {early.exit_code} at once: {early.what}"]
            return
        before = changes.tree(top)
        self.screen.agent(_SAMPLE_INTRO if self.is_sample else _INTRO.format(top=top))
        self._show("cat", "sample.md")
        if not self.copy.make():
            fix = "what needs the rest, such as the verify command, may fail here only"
            self.found.append(warning("not all could be copied, see above", fix, "copy"))
        if text:  # also from outside; the plan that it names is that of the copy
            files.replace(self.file, os.fsencode(self.copy.moved(os.fsdecode(text))))
        if not is_planned and asked.mode != "all":
            self._start(replace(asked, mode="plan"))
        if self.code == 0:
            self._start(asked)
        self._show("git", "log", "--oneline")
        self._show("cat", "sample_PROGRESS.md")
        after = changes.tree(top)
        if names := changes.changed(before, after, top) if before and after else ():
            fix = "if that was not you, a hook or the verify command reaches out of the copy: look what it does there"
            self.found.append(bad(f"not as it was before the rehearsal: {named(names)}", fix, "repository"))

    def close(self) -> int:
        """Says what would have happened, and what would have gone wrong; the exit code."""
        wrong, look = ([one for one in self.found if one.level == level] for level in ("bad", "warning"))
        sections = {
            "WHAT WOULD HAVE HAPPENED": self.happened,
            "WHAT WOULD HAVE GONE WRONG": _told(wrong) or ["nothing that a rehearsal can show"],
            "WORTH A LOOK": _told(look),
        }
        for heading, lines in sections.items():
            if lines:
                self.screen.say(heading)
                for row in hung("  ", "\n".join(lines)):
                    self.screen.agent(row)
                self.screen.agent("")
        if self.is_sample and not wrong:
            self.screen.agent(_SAMPLE_OUTRO)
        self.screen.close()
        return 1 if wrong else 0

    def _show(self, *command: str) -> None:
        """What a command prints in the sample's copy."""
        if self.is_sample:
            top = self.copy.top if self.copy.top.exists() else self.copy.original
            self.screen.say(f"$ {shlex.join(command)}")
            self.screen.agent(os.fsdecode(call(command, timeout_s=_SHELL_S, cwd=str(top)).stdout).rstrip() + "\n")

    def _start(self, asked: Asked) -> None:
        """A real start of ralph in the copy and in this terminal; and what came of it."""
        name, complaints = shlex.join(["ralph", asked.plan, asked.mode]), self.copy.folder / "complaints"
        self.screen.say(f"$ {name}")
        self.screen.close()  # what was said before comes before
        argv, cwd = self._command(asked), str(self.copy.counterpart(Path.cwd()))
        self.code = foreground(argv, env=self.copy.environment(), cwd=cwd, errors=complaints)
        said = complaints.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in said:
            self.screen.complain(line)
        self.screen.agent("")
        journals = self.copy.folder.glob("state/ralph/*/journal.jsonl")
        runs = [one for path in journals for one in journal.read(path) if one.event == "run"]
        outcome = f"`{name}`: exit code {self.code}"
        for one in runs[len(self.happened) :]:
            done = "" if asked.mode == "plan" else f"{one.done} of "
            parts = [done + counted(one.total or 0, "task"), counted(one.iterations, "iteration")]
            outcome = " · ".join([outcome, ending(one), *parts, counted(one.commits, "commit")])
        self.happened.append(outcome)
        if any(": not sent: " in line for line in said):
            self.found.append(bad("not all got through, see above", "try them with ralph notify test", "notices"))
        if self.code == Reason.LIMIT.code:
            self.found.append(warning(outcome, "allow it more, or let cron start it again", "run"))
        elif self.code:
            fix = "mend it; the real agent would meet it too, but for a check of what the stand-in did not build"
            self.found.append(bad(outcome, fix, "run"))

    def _command(self, asked: Asked) -> list[str]:
        """Ralph for what was asked, with settings of the rehearsal's own behind it, which win."""
        settings, plan, copy = _found(asked).settings, Path(asked.plan), self.copy
        there = copy.counterpart(plan.parent) / plan.name  # where that is a link, its name counts
        stand_in = copy.folder / "bin" / "claude"  # of whom nothing can be asked that it would not understand
        commits = settings.auto_commit and (copy.top / ".git").is_dir()
        python = [sys.executable, "-P", "-m"]
        mode = "build" if not settings.once else "validate" if "done" in settings.then else "plan"
        mode = "all" if asked.mode == "all" else mode
        turn = [*python, "ralph.rehearsal.standin", mode, str(there), str(self.file), "commit" * commits]
        stand_in.write_text(f"#!/bin/sh\ntrap '' INT\nexec {shlex.join(turn)}\n")  # it dies of Ctrl+C in its own way
        stand_in.chmod(0o700)
        said = {
            "--progress-file": str(self.file),
            "--agent": shlex.quote(str(stand_in)),
            "--delay": "0",
            "--max-failures": "1",  # it does not do better the second time
            "--verify": copy.moved(settings.verify) if settings.verify else "",
            "--wrap": "env" if settings.wrap else "",  # a sandbox does not know where the copy is
            "--roles": "build" if settings.roles else "",  # nor does it know which of them it is
            "--only": "**" if settings.only else "",  # the stand-in does not know where it may write
        }
        given = [one for one in asked.given if one.variable != "RALPH_ROLES"]  # those of one place add up
        words = options.arguments(replace(asked, plan=str(there), given=given, agent_arguments=[]))
        words += [word for option, value in said.items() if value for word in (option, value)]
        return [*python, "ralph", *words, *([] if asked.verbose else ["--quiet"])]
