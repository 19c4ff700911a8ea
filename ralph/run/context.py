"""The context of a run: what is set once, what changes during the run, and its clock."""

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ralph import files
from ralph.agent import command as agent
from ralph.errors import RalphError
from ralph.git.changes import Changes
from ralph.git.settings import GitConfigWatch
from ralph.notify import channels
from ralph.plan.progress import LARGE_BYTES, Progress
from ralph.plan.progress.file import ProgressFile
from ralph.plan.prompt import Value
from ralph.process import signals
from ralph.process.lock import Lock
from ralph.process.pace import Pace
from ralph.process.supervisor import Command, Ended, OnOutput, ShouldEnd, Supervisor
from ralph.run.agents import AgentPool
from ralph.run.command_runner import CommandRunner
from ralph.run.console import Console
from ralph.run.controllers import Controller
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason, Stop, Tally, stop_reason
from ralph.screen.screen import Screen
from ralph.screen.view import View
from ralph.settings import sources
from ralph.settings.table import Settings
from ralph.store import journal
from ralph.store.state import State
from ralph.words import plural

_WINDOW_ELSEWHERE = 4
_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would continue alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)


@dataclass(frozen=True, kw_only=True)
class CurrentIteration:
    """The current or last iteration."""

    number: int = 0
    """Counted over all runs of the plan; 0 before the first iteration of this run."""
    task: str = ""
    """The id of its task, if ralph chose one."""
    text_before: bytes = b""
    """The text of the progress file when it began."""
    transcript: Path | None = None
    """The file with what its agent printed."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What the prompt may say about the task that ralph chose."""


@dataclass(kw_only=True)
class LiveState:
    """What changes during a run."""

    start: PreparedStart
    """The mode in force, with its settings and prompt; replaced as a whole."""
    controller: Controller = field(default_factory=Controller)
    """What picks, checks, ticks and commits tasks in that mode."""
    iteration: CurrentIteration = CurrentIteration()
    tally: Tally = field(default_factory=Tally)
    file_mode: str
    """The mode that the progress file named when ralph last read it; empty if it named none."""
    is_switched: bool = False
    """Whether the mode is another than the run began with."""
    summaries: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    """The summary lines of the last iterations."""
    validations: tuple[int, int, int] | None = None
    """How often validate has run during build, and how many tasks and headings were done the last time."""
    put_back: dict[str, int] = field(default_factory=dict)
    """What was put back in this iteration; see `count_put_back`."""
    put_backs: deque[str] = field(default_factory=lambda: deque(maxlen=5))
    """What was put back in the last iterations, one line for each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The context that every part of a run gets: what is set once, and in `live` what changes."""

    id: str
    live: LiveState
    file: ProgressFile
    state: State
    pace: Pace
    began: float
    """When the run began, by `pace.uptime_s()`."""
    top: Path
    """The working directory."""
    console: Console
    view: View
    """Shows the user what the agent prints."""
    outbox: channels.Outbox
    pool: AgentPool
    changes: Changes
    git_settings: GitConfigWatch
    history: Path | None
    """The user's own record of attempts, to which ralph appends; runs may share it."""
    env: Mapping[str, str]
    """The environment of the agent and of the project's commands."""
    earlier: int
    """How many iterations of the plan there were before this run."""
    supervisor: Supervisor
    supervisors: Sequence[Supervisor]
    """Under `--jobs`, one for each attempt or check that may run at the same time."""
    make_controller: Callable[["Run"], Controller]
    modes: dict[tuple[str, bool], PreparedStart] = field(default_factory=dict)
    """The modes entered so far, by name and whether it is a role, so that each template is read once."""

    @property
    def start(self) -> PreparedStart:
        """The mode in force, with what the user asked for."""
        return self.live.start

    @property
    def mode(self) -> str:
        """The name of the mode, or of the role, that is in force."""
        return self.live.start.mode

    @property
    def settings(self) -> Settings:
        """The settings of that mode."""
        return self.live.start.settings

    @property
    def controller(self) -> Controller:
        """What picks, checks, ticks and commits tasks in that mode."""
        return self.live.controller

    @property
    def current(self) -> CurrentIteration:
        """The current or last iteration."""
        return self.live.iteration

    @property
    def tally(self) -> Tally:
        """What has happened in the run so far."""
        return self.live.tally

    @property
    def screen(self) -> Screen:
        """Where lines for the user go."""
        return self.console.screen

    @property
    def is_attempt(self) -> bool:
        """Whether this run is an attempt at one task, under a coordinator, which sends the notices."""
        return _is_attempt()

    @property
    def command_runner(self) -> CommandRunner:
        """Runs the project's commands with the settings of the mode in force."""
        return CommandRunner(
            console=self.console,
            changes=self.changes,
            supervised=self.run_supervised,
            env=self.env,
            wrap=self.settings.wrap or (),
            timeout_s=self.settings.verify_timeout,
            new_record=lambda: self.state.new_record(self.id, self.current.number),
        )

    def use_mode(self, mode: str, *, as_role: bool = False) -> None:
        """Switches to that mode's settings and template. Raises RalphError if they are missing or wrong."""
        self.modes.setdefault((self.mode, self.start.is_role), self.start)
        start = self.modes.get((mode, as_role)) or self.start.in_mode(mode, as_role=as_role)
        start.load_prompt()
        self.pool.use_agents(start.agents)
        self.live.start = self.modes[mode, as_role] = start
        self.print_setting_remarks(self.settings)

    def print_setting_remarks(self, settings: Settings) -> None:
        """Prints the warnings about the settings, each once."""
        for one in settings.remarks:
            self.console.complain(one.message, once=one.message)

    def update_iteration(self, **values: Any) -> None:
        """Replaces these values of the current iteration."""
        self.live.iteration = replace(self.live.iteration, **values)

    def elapsed_s(self) -> float:
        """The seconds since the run began, including those when the machine was suspended."""
        return self.pace.uptime_s() - self.began

    def stop_if_interrupted(self) -> Stop | None:
        """Returns a Stop if a signal asked ralph to end, else None."""
        return Stop(Reason.INTERRUPTED, signals.describe_signal()) if signals.describe_signal() else None

    def stop_if_git_tampered(self) -> Stop | None:
        """Returns a Stop if git's settings were changed, so that no git may run until the user has decided."""
        return Stop(Reason.TAMPERED, self.git_settings.block_reason) if self.git_settings.serious else None

    def run_supervised(self, job: Command, on_output: OnOutput, should_end: ShouldEnd) -> Ended:
        """Runs a program that is an agent, or that one may have written; see `Supervisor.run`."""
        try:
            return self.supervisor.run(job, on_output, should_end, self.pace.awake_s)
        finally:
            self.git_settings.compare()

    def read_progress(self) -> Progress:
        """Reads the progress file, which is put back first if it is gone, and prints warnings about it."""
        now = self.file.read()
        name = self.file.path.name
        if now.unclosed:
            self.console.complain(f"{name}: a code fence in it is never closed; read as text", once="fence")
        if now.size > LARGE_BYTES:
            what = f"{name} has {now.size // 1000} kB, and every iteration pays for reading it"
            self.console.complain(what, once="size")
        return now

    def write_statuses_to_plan(self) -> None:
        """Updates the statuses in a list of requirements, if the user asked for that."""
        if self.start.asked.in_place:
            from ralph.plan import taskjson  # noqa: PLC0415 - 10 ms that only plans in JSON pay

            try:
                with files.os_errors_as_ralph_errors(self.start.plan, "written"):
                    taskjson.update_statuses(self.start.plan, self.file.text)
            except RalphError as error:  # someone is editing it; the next iteration's end is soon enough
                self.console.complain(error.message)

    def stop_reason(self) -> Stop | None:
        """Returns why to stop, by the file as it was last read and by what has happened, or None."""
        if self.controller.is_busy:  # running agents may finish
            return None
        if stop := self.stop_if_interrupted() or self.stop_if_git_tampered():
            return stop
        return stop_reason(self.file.last, self.tally, self.settings, self.elapsed_s())

    def write_journal(self, event: str, *, message: str, **more: object) -> dict[str, object]:
        """Appends a line to the journal, if it can be written; times in seconds, costs in US dollars."""
        about = {"run": self.id, "mode": self.mode, "round": self.file.last.round, "iteration": self.current.number}
        line = journal.journal_line(event, self.pace.now(), message=message, **about | more)
        try:
            journal.append_line(self.state.journal, line)
        except OSError as error:
            self.console.complain(f"{self.state.journal}: cannot be written: {error.strerror}", once="journal")
        return line

    def count_put_back(self, what: Mapping[str, int]) -> None:
        """Counts what was put back, by its kind; a count of 0 means a file of that name."""
        for name, count in what.items():
            self.live.put_back[name] = self.live.put_back.get(name, 0) + count

    def write_down_put_back(self, iteration: int) -> None:
        """Writes one journal line with all that was put back in that iteration."""
        if self.live.put_back:
            message = ", ".join(plural(count, what) if count else what for what, count in self.live.put_back.items())
            self.write_journal("tamper", success=False, message=message, iteration=iteration)
            self.live.put_backs.append(f"put back in #{iteration}: {message}")
            self.live.put_back.clear()


def open_run(  # noqa: PLR0913 - what a session begins with
    start: PreparedStart,
    file: ProgressFile,
    state: State,
    held_lock: Lock,
    *,
    after_death: Callable[[], None],
    make_controller: Callable[[Run], Controller],
) -> Run:
    """Starts the supervisors and returns the context of a run."""
    settings, asked = start.settings, start.asked
    pace = asked.pace or Pace()
    run_id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
    console = Console(Screen(quiet=asked.quiet, verbose=asked.verbose, spinner=not asked.no_spinner), pace)
    file.say = console.complain
    monitor = "" if start.rehearsal else settings.heartbeat_url or ""
    values = {**sources.channel_values(), "RALPH_HEARTBEAT_URL": monitor}
    configured = [] if _is_attempt() else channels.configured_channels(values)
    temporary = tempfile.mkdtemp(prefix="ralph-")
    signals.install_handlers(lambda: console.screen.say(_NO_SUSPENSION))
    top = Path.cwd()
    git_settings = GitConfigWatch(top, state)

    def at_last() -> None:
        shutil.rmtree(temporary, ignore_errors=True)
        git_settings.end()
        after_death()

    begin_supervisor = partial(Supervisor, patience=pace.patience, folder=state.folder, lock=held_lock.fd)
    jobs = settings.jobs + merge_window(settings) if settings.jobs > 1 and settings.strict else 0
    return Run(
        id=run_id,
        live=LiveState(start=start, file_mode=start.file_mode),
        file=file,
        state=state,
        pace=pace,
        began=pace.uptime_s(),
        top=top,
        console=console,
        view=View(console.screen.say_for_agent, whole=console.screen.verbose),
        outbox=channels.Outbox(configured, values, lambda line: console.complain(line, once=line)),
        pool=AgentPool(start.agents, pace),
        changes=Changes(top, start.own_files),
        git_settings=git_settings,
        history=None if start.rehearsal or _is_attempt() or not settings.history else settings.history.resolve(),
        env=agent.agent_environment(run=run_id, tmux=temporary),
        earlier=journal.count_iterations(state.journal),
        supervisors=[begin_supervisor(f"{run_id}-{number}", at_last=lambda: None) for number in range(jobs)],
        supervisor=begin_supervisor(run_id, at_last=at_last),
        make_controller=make_controller,
    )


def merge_window(settings: Settings) -> int:
    """How many finished tasks are checked at the same time; on one machine checks compete with agents for its cores."""
    return settings.landing_window or (_WINDOW_ELSEWHERE if settings.runner or settings.executor else 1)


def _is_attempt() -> bool:
    return "RALPH_ATTEMPT" in os.environ
