"""The context of a run: what is set once, what changes during the run, and its clock."""

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ralph.agent.command import Agent
from ralph.errors import RalphError
from ralph.git.changes import ChangeFinder, remove_orphaned_locks
from ralph.git.settings import GitConfigChangeFinder
from ralph.notify.channels import Outbox
from ralph.plan.progress import Progress
from ralph.plan.progress.file import ProgressFile
from ralph.plan.prompt import Value
from ralph.process import signals
from ralph.process.clock import ClockAndLimits
from ralph.process.supervisor import Command, Ended, OnOutput, ShouldEnd, Supervisor
from ralph.run.command_runner import CommandRunner
from ralph.run.console import Console
from ralph.run.judge import BaseController
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason, Stop, Tally, stop_reason
from ralph.screen.screen import Screen
from ralph.screen.view import AgentView
from ralph.settings.table import Settings
from ralph.store import journal
from ralph.store.state import State
from ralph.words import plural


class CurrentIteration(NamedTuple):
    """The current or last iteration."""

    number: int = 0
    """Counted over all runs of the plan; 0 before the first iteration of this run."""
    task: str = ""
    """The id of its task, if ralph chose one."""
    agent: str = ""
    """The name of its agent; empty under --jobs, where each attempt has its own choice."""
    began: float = math.inf
    """Under --jobs, when its attempt began, by `clock.boot_clock_s()`."""
    text_before: bytes = b""
    """The text of the progress file when it began."""
    transcript: Path = Path()
    """The file with what its agent printed."""
    prompt_values: Mapping[str, Value] = {}
    """What the prompt may say about the task that ralph chose."""


@dataclass(kw_only=True)
class LiveState:
    """What changes during a run."""

    prepared_mode: PreparedStart
    """The mode in force, with its settings and prompt; replaced as a whole."""
    controller: BaseController = field(default_factory=BaseController)
    """What picks, checks, ticks and commits tasks in that mode."""
    iteration: CurrentIteration = CurrentIteration()  # noqa: RUF009 - immutable
    file_mode: str
    """The mode that the progress file named when ralph last read it; empty if it named none."""
    validations: tuple[int, int, int] | None = None
    """How often validate has run during build, and how many tasks and headings were done the last time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The context that every part of a run gets: what is set once, and in `live` what changes."""

    id: str
    live: LiveState
    tally: Tally = field(default_factory=Tally)
    """What has happened in the run so far."""
    put_back: Counter[str] = field(default_factory=Counter)
    """What was put back in this iteration; a count of 0 means a file of that name."""
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=6))
    """What the last iterations came to, and what was put back in them, for the last notice."""
    modes: dict[tuple[str, bool], PreparedStart]
    """The modes entered so far, by name and whether it is a role, so that each template is read once."""
    make_controller: Callable[["Run"], BaseController]
    file: ProgressFile
    state: State
    clock: ClockAndLimits
    began: float
    """When the run began, by `clock.boot_clock_s()`."""
    top: Path
    """The working directory."""
    console: Console
    view: AgentView
    """Shows the user what the agent prints."""
    outbox: Outbox
    limited_until: dict[str, float] = field(default_factory=dict)
    """When the usage limit of an agent ends, by its name, in seconds since 1970."""
    changes: ChangeFinder
    git_settings: GitConfigChangeFinder
    history: Path | None
    """The user's own record of attempts, to which ralph appends; runs may share it."""
    env: Mapping[str, str]
    """The environment of the agent and of the project's commands."""
    earlier: int
    """How many iterations of the plan there were before this run."""
    is_attempt: bool
    """Whether this run is an attempt at one task, under a coordinator, which sends the notices."""
    supervisor: Supervisor
    job_supervisors: Sequence[Supervisor]
    """Under `--jobs`, one for each attempt or check that may run at the same time."""

    @property
    def prepared_mode(self) -> PreparedStart:
        """The mode in force, with what the user asked for."""
        return self.live.prepared_mode

    @property
    def mode(self) -> str:
        """The name of the mode, or of the role, that is in force."""
        return self.prepared_mode.mode

    @property
    def settings(self) -> Settings:
        """The settings of that mode."""
        return self.prepared_mode.settings

    @property
    def controller(self) -> BaseController:
        """What picks, checks, ticks and commits tasks in that mode."""
        return self.live.controller

    @property
    def iteration(self) -> CurrentIteration:
        """The current or last iteration."""
        return self.live.iteration

    @property
    def screen(self) -> Screen:
        """Where lines for the user go."""
        return self.console.screen

    @property
    def command_runner(self) -> CommandRunner:
        """Runs the project's commands with the settings of the mode in force."""
        return CommandRunner(
            console=self.console,
            supervised=self.run_supervised,
            remove_locks=self.remove_orphaned_locks,
            env=self.env,
            settings=self.settings,
            new_log_path=lambda: self.state.new_log_path(self.id, self.iteration.number),
        )

    def use_settings_of_mode(self, mode: str, *, as_role: bool = False) -> None:
        """Switches to that mode's settings and template. Raises RalphError if they are missing or wrong."""
        start = self.modes.get((mode, as_role)) or self.prepared_mode.in_mode(mode, as_role=as_role)
        start.load_mode_prompt()
        self.live.prepared_mode = self.modes[mode, as_role] = start
        self.print_setting_remarks(start.settings)

    def print_setting_remarks(self, settings: Settings) -> None:
        """Prints the warnings about the settings, each once."""
        for one in settings.remarks:
            self.console.complain(one.message, once=one.message)

    def free_agents(self) -> list[Agent]:
        """Returns the agents of the mode that are not at their usage limit; the first of them works next."""
        return [
            one
            for one in self.prepared_mode.agents
            if self.limited_until.get(one.name, 0.0) <= self.clock.unix_time_s()
        ]

    def replace_iteration_values(self, **values: Any) -> None:
        """Replaces these values of the current iteration."""
        self.live.iteration = self.iteration._replace(**values)

    def elapsed_s(self) -> float:
        """The seconds since the run began, including those when the machine was suspended."""
        return self.clock.boot_clock_s() - self.began

    def remaining_s(self) -> float:
        """The seconds until max-time is over; infinite without one."""
        return (self.settings.max_time or math.inf) - self.elapsed_s()

    def stop_if_interrupted(self) -> Stop | None:
        """Returns a Stop if a signal asked ralph to end, else None."""
        why = signals.describe_signal()
        return Stop(Reason.INTERRUPTED, why) if why else None

    def stop_if_git_tampered(self) -> Stop | None:
        """Returns a Stop if git's settings were changed, so that no git may run until the user has decided."""
        why = self.git_settings.why_settings_block_git
        return Stop(Reason.TAMPERED, why) if why else None

    def run_supervised(self, what: str, job: Command, on_output: OnOutput, should_end: ShouldEnd) -> Ended:
        """Runs a program that is an agent, or that one may have written; see `Supervisor.run`.

        Reports the processes that it left running, and calls it `what`.
        """
        try:
            ended = self.supervisor.run(job, on_output, should_end)
        finally:
            self.changes.disturbed = True
            self.git_settings.collect_new_changes()
        for command in ended.left_over:
            self.console.complain(f"ended what {what} left running: {command}")
        return ended

    def remove_orphaned_locks(self, left_by: str, since: float | None = None) -> None:
        """Removes git locks whose owner is gone, and reports them; by default only those of this iteration."""
        for lock in remove_orphaned_locks(self.changes.tree, since or self.changes.locks_since):
            self.console.complain(f"removed {lock}, left behind by {left_by}")

    def read_progress(self) -> Progress:
        """Reads the progress file, which is put back first if it is gone, and warns once if it is too large."""
        now = self.file.read_or_restore()
        if now.size > 50_000:
            what = f"{self.file.path.name} has {now.size // 1000} kB, and every iteration pays for reading it"
            self.console.complain(what, once="size")
        return now

    def write_statuses_to_plan(self) -> None:
        """Updates the statuses in a list of requirements, if the user asked for that."""
        if self.prepared_mode.asked.in_place:
            from ralph.plan import taskjson  # noqa: PLC0415 - 10 ms that only plans in JSON pay

            try:
                taskjson.update_statuses(self.prepared_mode.plan, self.file.text)
            except (RalphError, OSError) as error:  # someone is editing it; the next iteration's end is soon enough
                self.console.complain(str(error))

    def stop_reason(self) -> Stop | None:
        """Returns why to stop, by the file as it was last read and by what has happened, or None."""
        if self.controller.has_work_to_finish:  # running agents may finish
            return None
        stop = self.stop_if_interrupted() or self.stop_if_git_tampered()
        return stop or stop_reason(self.file.last, self.tally, self.settings, self.elapsed_s())

    def write_journal(self, event: str, *, message: str, **more: object) -> dict[str, object]:
        """Appends a line to the journal, if it can be written; times in seconds, costs in US dollars."""
        about = {
            "run": self.id,
            "mode": self.mode,
            "round": self.file.last.round,
            "iteration": self.iteration.number,
        }
        line = journal.journal_line(event, self.clock.unix_time_s(), message=message, **about | more)
        try:
            journal.append_line(self.state.journal, line)
        except OSError as error:
            self.console.complain(f"{self.state.journal}: cannot be written: {error.strerror}", once="journal")
        return line

    def write_tampering_to_journal(self, iteration: int) -> None:
        """Writes one journal line with all that was put back in that iteration."""
        if self.put_back:
            message = ", ".join(plural(count, what) if count else what for what, count in self.put_back.items())
            self.write_journal("tamper", message=message, iteration=iteration)
            self.last_lines.append(f"put back in #{iteration}: {message}")
            self.put_back.clear()


def merges_checked_at_once(settings: Settings) -> int:
    """How many finished tasks are checked at the same time; on one machine checks compete with agents for its cores."""
    return settings.landing_window or (4 if settings.runner or settings.executor else 1)
