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
from pathlib import Path
from typing import NamedTuple

from ralph import __version__, files
from ralph.agent import command as agent
from ralph.commands import run as start
from ralph.errors import RalphError
from ralph.git import changes
from ralph.notify import channels
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock
from ralph.process.programs import call_program
from ralph.screen.text import terminal_width, wrap
from ralph.settings import options, sources, table
from ralph.words import join_names, plural, without_control_codes


class _Check(NamedTuple):
    """The result of looking at one thing."""

    subject: str
    # `ok`; `warning`, which the user should know; `bad`, which needs fixing before a run.
    level: str
    # What was found.
    said: str
    # What to do about it; after a line break, a command to copy.
    fix: str = ""


# The levels from the best to the worst, each with its mark on the screen.
_MARKS = {"ok": "ok", "warning": "warn", "bad": "BAD"}
_INDENT = 17
_REPORTS = (
    "load_settings_and_list",
    "report_plan",
    "report_agent_and_login",
    "report_sandbox_of_agents",
    "report_repository",
    "report_machine_and_folder",
    "list_notices_channels",
    "report_cron_line",
)
"""The methods that doctor calls; the second word is the subject that it prints."""
Results = Iterator[tuple[str, ...]]
"""The level and what was found, and perhaps what to do about it."""


def doctor(asked: options.Invocation) -> int:
    """Checks everything and prints the results, those that need fixing last; returns 1 if there are any, else 0.

    Prints one line for a subject that is in order, unless the user wants everything.
    """
    seen = [*{one.said: one for one in _examine(asked)}.values()]
    wrong = dict.fromkeys(one.subject for one in seen if one.level == "bad")
    if asked.as_json:
        print(json.dumps({"ok": not wrong, "checks": [one._asdict() for one in seen]}))
        return 1 if wrong else 0
    done = {one.subject for one in seen if one.level != "ok"}
    edge = terminal_width()
    for one in sorted(seen, key=lambda one: [*_MARKS].index(one.level)):
        if asked.verbose or one.level != "ok" or one.subject not in done:
            remedy, _, command = one.fix.partition("\n")  # a command stays on one line, so that it can be copied
            rows = [*wrap(one.said + f"\n→ {remedy}" * bool(remedy), edge and edge - _INDENT)]
            rows += without_control_codes(command).splitlines()
            print(f"{_MARKS[one.level]:5}{one.subject:12}" + f"\n{'':{_INDENT}}".join(rows))
        done.add(one.subject)
    print(
        f"{plural(len(wrong), 'problem')} to fix: {', '.join(wrong)}." if wrong else "A run would find what it needs."
    )
    return 1 if wrong else 0


def _examine(asked: options.Invocation) -> Iterator[_Check]:
    """Yields all checks, subject by subject; one subject that fails does not hide the others."""
    doctor = _Doctor(asked)
    for name in _REPORTS:
        subject = name.split("_")[1]
        try:
            for result in getattr(doctor, name)():
                yield _Check(subject, *result)
        except RalphError as error:
            for wrong in error.problems:
                yield _Check(subject, "bad", wrong.what, wrong.fix or "fix that")


class _Doctor:
    """Checks everything about a run that the user asks for; each of `_REPORTS` is a method."""

    def __init__(self, asked: options.Invocation):
        self.asked, self.settings = asked, table.Settings()
        self.agents: list[agent.Agent] = []  # if the settings are wrong

    def load_settings_and_list(self) -> Results:
        """Lists what is set, and where, and what limits a run. Raises RalphError with all that is wrong."""
        asked = self.asked
        self.settings = settings = sources.collect_settings_of_mode(Path(asked.plan), asked.given, asked.mode)
        self.agents = agent.choose_agents(settings, asked.agent_arguments)
        for one in settings.given.values():
            yield "ok", f"{one.variable} {' '.join(_text_without_secret(one).split())} ({one.where})"
        for remark in settings.remarks:
            yield "warning", remark.what, remark.fix
        limits = settings.once, settings.max_iterations, settings.max_time, settings.max_cost, settings.max_total_cost
        if not any(limits):
            fix = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
            yield "warning", "no limits set: a run stops only when done, on failure, or by Ctrl+C", fix
        if not settings.verify:
            yield "ok", "no verify command: done is what the agent and the task list say"
        # The program after assignments; anything else is for the shell to read.
        first = re.match(r"\s*(?:\w+=\S*\s+)*([\w./+-]+)(?=\s|$)", settings.verify or "")
        if first and not settings.wrap and call_program(["sh", "-c", f"command -v {first[1]}"], timeout_s=10).code:
            yield (
                "bad",
                f"{settings.given['verify'].where}: the verify command begins with {first[1]}, which is not found",
                "install or correct it",
            )

    def report_plan(self) -> Results:
        """Checks the prompt, the progress file and the tasks as a run would; raises what a run would raise."""
        if not self.agents or not self.asked.plan:
            return
        found = start.find_start(self.asked)
        for other in found.copies_for_modes_with_own_agent():
            self.agents += other.agents
            yield from (("warning", one.what, one.fix) for one in other.settings.remarks)
        found.load_mode_prompt()
        path = found.progress_path
        file = ProgressFile(path, found.state_folder)
        now = start.read_progress_if_begun(found, file)
        yield "ok", f"{path}: {now.ticked_of_total}" if now else f"there is no {path} yet; the first run makes it"
        if early := start.why_nothing_to_do(found, found.with_imported_tasks(file.text)):
            yield "bad" if early.exit_code else "warning", f"{early.what}: a run ends at once", early.fix

    def report_agent_and_login(self) -> Results:
        """Checks that each agent is found, and who pays for it. Raises RalphError if one is missing."""
        agent.check_installed(self.agents, self.settings)
        for one in self.agents:
            place, login = shutil.which(one.command[0]), one.doctor.get("login")
            pays = next(filter(os.environ.get, one.doctor.get("keys", ())), "its own login")
            env = {**agent.base_agent_environment(run="doctor", tmux_folder=os.devnull), **one.env}
            if not place or not one.doctor or self.settings.wrap:
                yield "ok", f"{one.name} at {place or 'a place that only its sandbox knows'}"
            elif login and pays not in os.environ and call_program([place, *login], timeout_s=30, env=env).code:
                yield "bad", f"{one.name}: nobody is logged in", one.doctor.get("login_fix", f"log in to {one.name}")
            else:
                yield "ok", f"{one.name} at {place}: {pays} pays"

    def report_sandbox_of_agents(self) -> Results:
        """Checks whether the agent runs as root, and which sandbox confines it."""
        yield "ok", (self.settings.wrap or ["none: the agent can do anything you can"])[0]
        for one in self.agents:
            sandbox = one.doctor.get("sandbox")
            if sandbox and not os.geteuid() and os.environ.get(sandbox) != "1":
                fix = f"use an account of its own, or in a container (in the crontab too):\nexport {sandbox}=1"
                yield "bad", f"you are root, and {one.name} refuses to run without asking for root", fix

    def report_repository(self) -> Results:
        """Checks whether commits work, and which uncommitted files could get into them."""
        tree = lock.working_tree(Path.cwd())
        if not (tree / ".git").exists():
            yield "warning", f"{tree} is not a repository: nothing can be committed, or undone", "git init, and commit"
            return
        asked = "status --porcelain -z --no-renames --untracked-files=all -- :!*_PROGRESS.md"
        done = changes.run_git(*asked.split(), cwd=tree)
        if done.code:
            yield "bad", f"{tree}: {changes.error_text(done)}", "fix what git complains about"
            return
        who = changes.run_git("var", "GIT_COMMITTER_IDENT", cwd=tree)
        if who.code:
            message = "git does not know who commits here, so that commits fail"
            fix = 'tell it:\ngit config --global user.name "You"\ngit config --global user.email you@example.org'
            yield "bad" if self.settings.auto_commit else "warning", message, fix
        else:
            yield "ok", f"commits are by {who.stdout.decode(errors='replace').rpartition('>')[0]}>"
        if names := [entry[3:] for entry in changes.names_in(done.stdout)]:
            message = f"{plural(len(names), 'uncommitted file')}: {join_names(names, 3)}"
            yield "warning", message, "commit or stash first; the agent may change them, and commit them with its own"

    def report_machine_and_folder(self) -> Results:
        """Checks that there is room to write here. Raises RalphError if there is none."""
        yield "ok", f"ralph {__version__}, Python {platform.python_version()}, {platform.system()}"
        files.check_folder_writable(Path.cwd())

    def list_notices_channels(self) -> Results:
        """Lists the channels that are set up."""
        ready = channels.configured_channels(sources.channel_values())
        for channel in ready:
            yield "ok", f"{channel.name}: set up, `ralph notify test` tries it"
        if not ready:
            yield "ok", "no channel is set up: nobody hears how a run ends", "ralph notify setup"

    def report_cron_line(self) -> Results:
        """Prints a line for the crontab, and which variables cron would not have."""
        asked = self.asked
        if not asked.plan:
            return
        needed = ["PATH", *(one.doctor.get("sandbox", "") for one in self.agents)]
        words = ["env", *(f"{one.variable}={_text_without_secret(one)}" for one in asked.given)]
        words += [f"{name}={os.environ[name]}" for name in needed if name in os.environ]
        words += ["ralph", *["--requirements"] * asked.in_place, asked.plan, *filter(None, [asked.mode])]
        words += ["--", *asked.agent_arguments] if asked.agent_arguments else []
        line = f"\ncd {shlex.quote(str(Path.cwd()))} && {shlex.join(words)}".replace("%", r"\%")  # % ends a command
        message = "this line of a crontab gives a run all that it finds here"
        if lost := sorted(name for name in os.environ if name.startswith("RALPH_")):
            fix = f"write that into {sources.home_settings_path()}{line}"
            yield "warning", f"{message}, except {join_names(lost)}", fix
        else:
            yield "ok", message, line


def _text_without_secret(one: table.GivenSetting) -> str:
    """The value of a setting, without a URL that may contain a secret."""
    return "***" if one.variable == "RALPH_HEARTBEAT_URL" else one.text
