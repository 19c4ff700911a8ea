"""A run: what it has to do, with what, who hears of it, what it has come to, and how time goes for it."""

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ralph import files
from ralph.agent import command as agent
from ralph.errors import RalphError
from ralph.git.changes import Changes
from ralph.git.settings import GitConfigWatch
from ralph.notify import channels
from ralph.plan.progress import LARGE_BYTES, Progress
from ralph.plan.progress.file import ProgressFile
from ralph.plan.prompt import Prompt, Value
from ralph.process import signals
from ralph.process.lock import Lock
from ralph.process.pace import Pace
from ralph.process.supervisor import Command, Ended, Hear, Over, Supervisor
from ralph.run.agents import AgentPool
from ralph.run.controllers import Controller
from ralph.run.prepared import PreparedStart
from ralph.run.verdict import Reason, Stop, Tally, stop_reason
from ralph.screen.screen import Screen
from ralph.screen.view import View
from ralph.settings import sources
from ralph.settings.table import Settings
from ralph.store import journal
from ralph.store.state import State
from ralph.words import plural

_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would go on alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)


@dataclass(frozen=True, kw_only=True)
class CurrentIteration:
    """The iteration that runs, or that was the last."""

    number: int = 0
    """Of the plan; 0 before the first of this start."""
    task: str = ""
    """The id of the task that it works on, where ralph chose it."""
    text_before: bytes = b""
    """The progress file when it began."""
    transcript: Path | None = None
    """What its agent printed."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What the prompt may say of the task that ralph chose."""


class Run:
    """The one context that is handed down; with it the supervisor begins."""

    prompt: Prompt
    changes: Changes
    phase: tuple[str, float, float | None] | None
    """What ralph itself does, since when, and how long where that is known; None while the agent works."""
    controller = Controller()
    """Who picks, checks, ticks and commits."""
    todo = ""
    """What is left for the person, in a line."""
    switched = False
    """The mode is not the one that this start began with."""

    def __init__(  # noqa: PLR0913 - what a session begins with
        self,
        start: PreparedStart,
        file: ProgressFile,
        state: State,
        held_lock: Lock,
        *,
        after_death: Callable[[], None],
        make_controller: Callable[["Run"], Controller],
    ) -> None:
        settings = start.settings
        asked = start.asked
        self.start = start
        self.file = file
        self.state = state
        self.pace = asked.pace or Pace()
        self.pool = AgentPool(agent.choose_agents(settings, asked.agent_arguments), self.pace)
        self.current = CurrentIteration()
        self._make_controller = make_controller
        self.id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
        self.top = Path.cwd()
        self.git_settings = GitConfigWatch(self.top, state)
        self._began = self.pace.running()
        self.screen = Screen(quiet=asked.quiet, verbose=asked.verbose, spinner=not asked.no_spinner)
        self.view = View(self.screen.agent, whole=self.screen.verbose)
        self.set_activity("starting")
        file.say = self.complain
        monitor = "" if start.rehearsal else settings.heartbeat_url or ""
        values = {**sources.channel_values(), "RALPH_HEARTBEAT_URL": monitor}
        configured = [] if self.is_attempt else channels.configured_channels(values)
        self.outbox = channels.Outbox(configured, values, lambda line: self.complain(line, once=line))
        self.history = settings.history.resolve() if settings.history and not start.rehearsal else None
        """A person's own record of tries, to which ralph appends. Runs may share it; agents learn from it."""
        litter = tempfile.mkdtemp(prefix="ralph-")
        self.env = agent.agent_environment(run=self.id, tmux=litter)
        """What the agent and the project's commands get of the environment."""
        self._modes = dict[tuple[str, bool], tuple[PreparedStart, Prompt]]()
        """By name, and whether it is a role."""
        self.said_mode = start.said_mode
        """The mode that the progress file named when it was looked for last; empty for none."""
        self.tally = Tally()
        self.earlier = journal.count_iterations(state.journal)
        """Iterations of the plan before this start."""
        self.summaries = deque[str](maxlen=5)
        """The lines of the last iterations."""
        self.put_back = dict[str, int]()
        """What was put back in this iteration, by `count_put_back`."""
        self.put_backs = deque[str](maxlen=5)
        """What was put back in the last iterations, a line each."""
        self._said = set[str]()
        signals.install_handlers(lambda: self.screen.say(_NO_SUSPENSION))
        self.supervisors = list[Supervisor]()
        """Under `--jobs` those of the attempts at the same time."""
        self.supervisor = self._start_supervisors(held_lock, litter, after_death)

    def _start_supervisors(self, held_lock: Lock, litter: str, after_death: Callable[[], None]) -> Supervisor:
        """The supervisor of this run; those of its attempts are in `supervisors`."""
        start = partial(Supervisor, patience=self.pace.patience, folder=self.state.folder, lock=held_lock.fd)
        for number in range(self.settings.jobs if self.settings.jobs > 1 and self.settings.strict else 0):
            self.supervisors.append(start(f"{self.id}-{number}", at_last=lambda: None))

        def at_last() -> None:
            shutil.rmtree(litter, ignore_errors=True)
            self.git_settings.end()
            after_death()

        return start(self.id, at_last=at_last)

    @property
    def is_attempt(self) -> bool:
        """Whether it is one of a task, under a coordinator, which sends the notices."""
        return "RALPH_ATTEMPT" in os.environ

    @property
    def mode(self) -> str:
        """The mode that holds: a role, where one is at work."""
        return self.start.mode

    @property
    def settings(self) -> Settings:
        """Those of that mode."""
        return self.start.settings

    def enter_mode(self, mode: str, *, as_role: bool = False) -> None:
        """Takes that mode's settings and template from now on. Raises RalphError where it has none, or a wrong one."""
        self._modes[self.mode, self.start.is_role] = self.start, self.prompt
        if (mode, as_role) not in self._modes:  # a template is read once
            start = self.start.in_mode(mode, as_role=as_role)
            agent.choose_agents(start.settings, start.asked.agent_arguments)  # what it cannot do is remarked
            self._modes[mode, as_role] = start, start.load_prompt()
        self.start, self.prompt = self._modes[mode, as_role]
        self.print_setting_remarks()

    def print_setting_remarks(self) -> None:
        """Says what is odd about the settings, each once."""
        for one in self.settings.remarks:
            self.complain(one.message, once=one.message)

    def switch_mode(self, mode: str) -> None:
        """Enters a mode other than the one that this start began with."""
        self.enter_mode(mode)
        self.switched = True

    def set_file_mode(self, mode: str) -> None:
        """Notes the mode that the progress file names."""
        self.said_mode = mode

    def load_prompt(self) -> None:
        """Reads the template of the mode. Raises RalphError with all that is wrong with it."""
        self.prompt = self.start.load_prompt()

    def look_at_tree(self) -> None:
        """Looks at the working tree; what changes from now on is an iteration's."""
        self.changes = Changes(self.top, self.start.own_files)

    def begin_control(self) -> None:
        """Has the controller that the mode needs. Raises RalphError where it cannot work here."""
        self.controller = self._make_controller(self)

    def end_control(self) -> None:
        """Closes the controller; nobody picks or works any more."""
        self.controller.close()
        self.controller = Controller()

    def leave_to_person(self, todo: str) -> None:
        """Says at the end of the run what a person has to do."""
        self.todo = todo

    def elapsed_s(self) -> float:
        """How long this start has been going on, a suspended machine's sleep included."""
        return self.pace.running() - self._began

    def set_activity(self, doing: str, seconds: float | None = None) -> None:
        """Says what ralph itself does from now on, and how long it takes where that is known."""
        self.phase = doing, self.pace.running(), seconds

    def end_activity(self) -> None:
        """Says that the agent works."""
        self.phase = None

    def announce_end(self, what: str) -> None:
        """Says that this is being ended, which may take some seconds."""
        self.set_activity(f"ending {what}")
        self.screen.say(f"ralph: ending {what} and what it started; ask once more and it gets no time for that")

    def stop_if_interrupted(self) -> Stop | None:
        """Whether somebody asked ralph to end, by a signal."""
        return Stop(Reason.INTERRUPTED, signals.describe_signal()) if signals.describe_signal() else None

    def stop_if_tampered(self) -> Stop | None:
        """Whether something changed git's settings, so that none may run until a person has decided."""
        return Stop(Reason.TAMPERED, self.git_settings.block_reason) if self.git_settings.serious else None

    def run_supervised(self, job: Command, hear: Hear, over: Over) -> Ended:
        """What became of a program that is an agent's, or may have been written by one; as `Supervisor.run` says."""
        try:
            return self.supervisor.run(job, hear, over, self.pace.awake)
        finally:
            self.git_settings.compare()

    def read_progress(self) -> Progress:
        """The progress file as it is now, brought back first if it was lost; with a word about what deserves one."""
        now = self.file.read()
        name = self.file.path.name
        if now.unclosed:
            self.complain(f"{name}: a code fence in it is never closed; read as text", once="fence")
        if now.size > LARGE_BYTES:
            self.complain(f"{name} has {now.size // 1000} kB, and every iteration pays for reading it", once="size")
        return now

    def update_plan(self) -> None:
        """Has a list of requirements say what is done, where that was asked for."""
        if self.start.asked.in_place:
            from ralph.plan import taskjson  # noqa: PLC0415 - 10 ms that only plans in JSON pay

            try:
                with files.os_errors_as_ralph_errors(self.start.plan, "written"):
                    taskjson.update_statuses(self.start.plan, self.file.text)
            except RalphError as error:  # somebody is about to edit it; the next iteration's end is soon enough
                self.complain(error.message)

    def stop_reason(self) -> Stop | None:
        """Why to stop, by what the file said when it was read last, and by what has happened."""
        if (stop := self.stop_if_interrupted()) or self.controller.is_busy:  # who works may finish
            return stop
        if stop := self.stop_if_tampered():
            return stop
        return stop_reason(self.file.last, self.tally, self.settings, self.elapsed_s())

    def complain(self, line: str, *, once: str = "") -> None:
        """A line of ralph's for a person; of those of one name only the first."""
        if once not in self._said:
            self._said |= {once} - {""}
            self.screen.complain(f"ralph: {line}")

    def write_journal(self, event: str, *, message: str, **more: object) -> dict[str, object]:
        """Adds a line to the journal, as long as that can be written; times in seconds, costs in US dollars."""
        about = {"run": self.id, "mode": self.mode, "round": self.file.last.round, "iteration": self.current.number}
        line = journal.journal_line(event, self.pace.now(), message=message, **about | more)
        try:
            journal.append_line(self.state.journal, line)
        except OSError as error:
            self.complain(f"{self.state.journal}: cannot be written: {error.strerror}", once="journal")
        return line

    def count_put_back(self, what: Mapping[str, int]) -> None:
        """Notes that so many of each were put back; 0 stands for a file of that name."""
        for name, count in what.items():
            self.put_back[name] = self.put_back.get(name, 0) + count

    def write_down_put_back(self, iteration: int) -> None:
        """One line of the journal says all that was put back in that iteration, for the morning after."""
        if self.put_back:
            message = ", ".join(plural(count, what) if count else what for what, count in self.put_back.items())
            self.write_journal("tamper", success=False, message=message, iteration=iteration)
            self.put_backs.append(f"put back in #{iteration}: {message}")
            self.put_back = {}

    def remove_orphaned_locks(self, of: str) -> None:
        """Removes the locks of git that somebody left behind, and says so."""
        for lock in self.changes.remove_orphaned_locks():
            self.complain(f"removed {lock}, left behind by {of}")
