"""`ralph doctor`: checks whether a run would find what it needs, subject by subject, with the remedy.

Changes nothing.
"""

import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ralph import __version__, files
from ralph.agent import command as agent
from ralph.commands import run as start
from ralph.errors import RalphError
from ralph.git import changes
from ralph.notify import channels
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock
from ralph.process.programs import call_program
from ralph.screen.text import can_move_cursor, terminal_width, wrap
from ralph.settings import sources
from ralph.settings.options import Invocation
from ralph.settings.table import ON_COMMAND_LINE, GivenSetting, Settings
from ralph.store.state import State
from ralph.words import join_names, plural, without_control_codes


class _Check(NamedTuple):
    """The result of looking at one thing."""

    level: str
    """`ok`; `warning`, which the user should know; `bad`, which needs fixing before a run."""
    said: str
    """What was found."""
    fix: str = ""
    """What to do about it; after a line break, a command to copy."""
    subject: str = ""


ok, warning, bad = (partial(_Check, level) for level in ("ok", "warning", "bad"))


class _Doctor:
    """Checks everything about a run that the user asks for; each of `_SUBJECTS` has a method."""

    def __init__(self, asked: Invocation) -> None:
        self.asked, self.settings = asked, Settings()
        self.agents: list[agent.Agent] = []
        """Empty if the settings are wrong."""

    def check_settings(self) -> Iterator[_Check]:
        """Lists what is set, and where, and what limits a run. Raises RalphError with all that is wrong."""
        asked = self.asked
        self.settings = settings = sources.collect_settings_of_mode(Path(asked.plan), asked.given, asked.mode)
        self.agents = agent.choose_agents(settings, self.asked.agent_arguments)
        for setting in ON_COMMAND_LINE:
            if one := settings.given.get(setting.field):
                yield ok(f"{setting.name} {' '.join(_without_secret(one).split())} ({one.where})")
        for remark in settings.remarks:
            yield warning(remark.what, remark.fix)
        limits = settings.once, settings.max_iterations, settings.max_time, settings.max_cost, settings.max_total_cost
        if not any(limits):
            fix = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
            yield warning("no limits set: a run stops only when done, on failure, or by Ctrl+C", fix)
        if not settings.verify:
            yield ok("no verify command: done is what the agent and the task list say")
        elif not settings.wrap and (word := _find_unknown_program(settings.verify)):
            where = settings.given["verify"].where
            yield bad(f"{where}: the verify command begins with {word}, which is not found", "install or correct it")

    def check_plan(self) -> Iterator[_Check]:
        """Checks the prompt, the progress file and the tasks as a run would; raises what a run would raise."""
        if not self.agents or not self.asked.plan:
            return
        found = start.find_start(self.asked)
        known = {one.what for one in self.settings.remarks}
        for other in found.with_own_agents():
            self.agents += other.agents
            yield from (warning(one.what, one.fix) for one in other.settings.remarks if one.what not in known)
        found.load_prompt()
        path, state = found.progress_path, State(found.name, found.progress_path)
        there = ProgressFile(path, state).exists()
        text = path.read_bytes() if there else b""
        now = progress.parse(text)
        start.check_progress_owner(found, now if there else None)
        yield ok(f"{path}: {now.task_counts}" if there else f"there is no {path} yet; the first run makes it")
        text = found.with_imported_tasks(text)
        if early := start.why_nothing_to_do(found, state, text):
            yield (bad if early.exit_code else warning)(f"{early.what}: a run ends at once", early.fix)

    def check_agent(self) -> Iterator[_Check]:
        """Checks that each agent is found, and who pays for it. Raises RalphError if one is missing."""
        agent.check_installed(self.agents, self.settings)
        for one in self.agents:
            place, about = shutil.which(one.command[0]), one.doctor
            if not place or not about or self.settings.wrap:
                yield ok(f"{one.name} at {place or 'a place that only its sandbox knows'}")
                continue
            pays = next((key for key in about.get("keys", ()) if os.environ.get(key)), "")
            if not pays and "login" in about:
                env = {**agent.agent_environment(run="doctor", tmux=os.devnull), **one.env}
                if call_program([place, *about["login"]], timeout_s=30, env=env).code:
                    yield bad(f"{one.name}: nobody is logged in", about.get("login_fix", f"log in to {one.name}"))
                    continue
            yield ok(f"{one.name} at {place}: {pays or 'its own login'} pays")

    def check_permissions(self) -> Iterator[_Check]:
        """Checks whether the agent runs as root, and which sandbox confines it."""
        wrap = self.settings.wrap
        yield ok(f"sandbox: {wrap[0]}" if wrap else "no sandbox: the agent can do anything you can")
        for one in self.agents:
            sandbox = one.doctor.get("sandbox")
            if sandbox and not os.geteuid() and os.environ.get(sandbox) != "1":
                fix = f"use an account of its own, or in a container (in the crontab too):\nexport {sandbox}=1"
                yield bad(f"you are root, and {one.name} refuses to run without asking for root", fix)

    def check_repository(self) -> Iterator[_Check]:
        """Checks whether commits work, and which uncommitted files could get into them."""
        tree = lock.working_tree(Path.cwd())
        if not (tree / ".git").exists():
            yield warning(f"{tree} is not a repository: nothing can be committed, or undone", "git init, and commit")
            return
        done = changes.run_git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", cwd=tree)
        if done.code:
            yield bad(f"{tree}: {changes.error_text(done)}", "fix what git complains about")
            return
        who = changes.run_git("var", "GIT_COMMITTER_IDENT", cwd=tree)
        if who.code:
            message = "git does not know who commits here, so that commits fail"
            fix = 'tell it:\ngit config --global user.name "You"\ngit config --global user.email you@example.org'
            yield (bad if self.settings.auto_commit else warning)(message, fix)
        else:
            yield ok(f"commits are by {who.stdout.decode(errors='replace').rpartition('>')[0]}>")
        for left in changes.find_locks(tree):
            yield bad(f"{left} is there: a git works here, or one that was killed left it", f"remove it:\nrm {left}")
        changed = [entry[3:] for entry in changes.names_in(done.stdout)]
        if names := [name for name in changed if not name.endswith("_PROGRESS.md")]:
            message = f"{plural(len(names), 'uncommitted file')}: {join_names(names, 3)}"
            yield warning(message, "commit or stash first; the agent may change them, and commit them with its own")

    def check_machine(self) -> Iterator[_Check]:
        """Checks that there is room to write. Raises RalphError if there is none."""
        yield ok(f"ralph {__version__}, Python {platform.python_version()}, {platform.system()}")
        for path in (Path.cwd(), files.state_home()):
            files.check_room(next(place for place in (path, *path.parents) if place.exists()))

    def check_notices(self) -> Iterator[_Check]:
        """Lists the channels that are set up."""
        ready = channels.configured_channels(sources.channel_values())
        for channel in ready:
            yield ok(f"{channel.name}: set up, `ralph notify test` tries it")
        if not any("done" in channel.events for channel in ready):
            yield ok("no channel is set up: nobody hears how a run ends", "ralph notify setup")

    def check_cron(self) -> Iterator[_Check]:
        """Prints a line for the crontab, and which variables cron would not have."""
        if not self.asked.plan:
            return
        words = ["env", *(f"{one.variable}={_without_secret(one)}" for one in self.asked.given)]
        needed = ["PATH", *(one.doctor.get("sandbox", "") for one in self.agents)]
        words += [f"{name}={os.environ[name]}" for name in needed if name in os.environ]
        words += ["ralph", *["--requirements"] * self.asked.in_place, self.asked.plan]
        if self.asked.mode:
            words.append(self.asked.mode)
        if self.asked.agent_arguments:
            words += ["--", *self.asked.agent_arguments]
        line = f"\ncd {shlex.quote(str(Path.cwd()))} && {shlex.join(words)}".replace("%", r"\%")  # % ends a command
        message = "this line of a crontab gives a run all that it finds here"
        if lost := sorted(name for name in os.environ if name.startswith("RALPH_")):
            fix = f"write that into {sources.home_settings_path()}{line}"
            yield warning(f"{message}, except {join_names(lost)}", fix)
        else:
            yield ok(message, line)


def _find_unknown_program(command: str) -> str:
    """Returns the program that a shell command begins with, after its assignments, if it is not found; else empty."""
    first = re.match(r"\s*(?:\w+=\S*\s+)*([\w./+-]+)(?=\s|$)", command)  # anything else is for the shell to read
    if not first or call_program(["sh", "-c", 'command -v "$1"', "sh", first[1]], timeout_s=10).code == 0:
        return ""
    return first[1]


def _without_secret(one: GivenSetting) -> str:
    """The value of a setting, without a URL that may contain a secret."""
    return "***" if one.variable == "RALPH_HEARTBEAT_URL" else one.text


_SUBJECTS = ("settings", "plan", "agent", "permissions", "repository", "machine", "notices", "cron")


def _checks(asked: Invocation) -> Iterator[_Check]:
    """Yields all checks, subject by subject; one subject that fails does not hide the others."""
    doctor = _Doctor(asked)
    for subject in _SUBJECTS:
        try:
            for one in getattr(doctor, f"check_{subject}")():
                yield one._replace(subject=subject)
        except RalphError as error:
            for wrong in error.problems:
                yield bad(wrong.what, wrong.fix or "fix that", subject)
        except OSError as error:
            yield bad(f"{error.filename}: {error.strerror}", "fix that", subject)


_MARKS = {"ok": ("ok  ", "✓", "32"), "warning": ("warn", "!", "33"), "bad": ("BAD ", "✗", "31")}
"""From the best level to the worst: a word, and for a terminal a sign and its color."""


def doctor(asked: Invocation) -> int:
    """Checks everything and prints the results, those that need fixing last; returns 1 if there are any, else 0.

    Prints one line for a subject that is in order, unless the user wants everything.
    """
    seen = list(dict.fromkeys(_checks(asked)))
    wrong = dict.fromkeys(one.subject for one in seen if one.level == "bad")
    if asked.as_json:
        print(json.dumps({"ok": not wrong, "checks": [one._asdict() for one in seen]}))
        return 1 if wrong else 0
    worst = {one.subject: one for level in _MARKS for one in reversed(seen) if one.level == level}
    for level in _MARKS:
        for one in seen:
            if one.level == level and (asked.verbose or level != "ok" or one is worst[one.subject]):
                _print(one)
    found = f"{plural(len(wrong), 'problem')} to fix: {', '.join(wrong)}."
    print(found if wrong else "A run would find what it needs.")
    return 1 if wrong else 0


def _print(check: _Check) -> None:
    """Prints a check, and below it the remedy; a command gets a line of its own, so that it can be copied."""
    mark, sign, color = _MARKS[check.level]
    remedy, _, command = check.fix.partition("\n")
    if can_move_cursor():
        mark = sign if os.environ.get("NO_COLOR") else f"\x1b[{color}m{sign}\x1b[0m"
    indent = " " * (len(sign if can_move_cursor() else mark) + 13)
    edge = terminal_width()
    room = edge and edge - len(indent)
    rows = [*wrap(check.said, room), *(wrap(f"→ {remedy}", room) if remedy else ())]
    print(f"{mark} {check.subject:12}" + f"\n{indent}".join(rows))
    for line in command.splitlines():
        print(f"    {without_control_codes(line)}")
