"""The loop's world for real: the progress file, the agent, git, the screen and the channels."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import directives, git, notices, progress
from ralph.agent import Stream, is_claude
from ralph.channels import Outbox
from ralph.errors import RalphError
from ralph.loop import Iteration, Judgement, Reason, Stop
from ralph.process import Care, Files, follow, signals
from ralph.progress import Progress
from ralph.progress_file import ProgressFile
from ralph.prompt import Prompt
from ralph.screen import Screen
from ralph.settings import Given, Settings
from ralph.state import State
from ralph.turn import Commits, Outcome, Turn
from ralph.view import View

_LARGE_BYTES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a start has to do; nothing of it changes during the run."""

    plan: Path
    """Absolute."""
    name: str
    mode: str
    settings: Settings
    prompt: Prompt
    argv: Sequence[str]
    env: Mapping[str, str]
    directives: Sequence[Given]
    run_id: str
    values: Mapping[str, str | int | bool]
    """The template's variables but ITERATION."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who hears of a run: the person at the screen, and those who are away."""

    screen: Screen
    outbox: Outbox


class RealWorld:
    """Does what the loop needs done, and keeps the sums of the run."""

    def __init__(self, job: Job, file: ProgressFile, state: State, told: Told, care: Care) -> None:
        self._job, self._file, self._state, self._care = job, file, state, care
        self._screen, self._outbox = told.screen, told.outbox
        self._view = View(told.screen.agent, width=told.screen.width, pays=is_claude(job.argv))
        self._directives = list(job.directives)
        self._plan_seen = job.plan.stat()
        self._top = Path.cwd()
        self._head = git.head()
        self._index_lock = git.index_lock()
        self._began = time.monotonic()
        self._said: set[str] = set()
        self._text_before = b""
        self.run = notices.Run(plan=job.name, mode=job.mode, repo=self._top.name, progress_file=file.path.name)

    def interrupted(self) -> Stop | None:
        """Whether a signal came."""
        number = signals.interrupted()
        return None if number is None else Stop(Reason.INTERRUPTED, signals.name(number))

    def read(self) -> Progress:
        """The progress file, with a word about what in it deserves one."""
        now = self._file.read()
        if now.unclosed_fence is not None:
            self._say_once(
                f"{self._file.path.name}:{now.unclosed_fence}: this code fence is never closed; read as text"
            )
        if now.size > _LARGE_BYTES:
            self._say_once(f"{self._file.path.name} is {now.size // 1000} kB, and every iteration pays for reading it")
        return now

    def _say_once(self, line: str) -> None:
        what = line.split(" is ", maxsplit=1)[0]
        if what not in self._said:
            self._said.add(what)
            self._screen.complain(f"ralph: {line}")

    def iterate(self, number: int, before: Progress) -> Iteration:
        """One turn of the agent, with everything it started ended again, and what it changed."""
        self._check_place()
        prompt = self._job.prompt.render({**self._job.values, "ITERATION": number})
        files = self._state.transcripts(self._job.run_id, number, prompt)
        if number == 1:
            self._outbox.send(notices.started(self.run))
        if number > 1:
            self._screen.say("")
        self._screen.say(f"ralph: {notices.heading(self.run, number, self._job.settings.max_iterations, before)}")
        self._text_before = self._file.text
        once = self._job.settings.once
        was = git.tree(self._top) if once else None
        locked = git.identity(self._index_lock)
        turn = self._turn(files)
        self._unlock_index(locked)
        strays = git.changed(was, git.tree(self._top), self._top) if was else []
        return Iteration(
            number=number,
            before=before,
            after=self.read(),
            turn=turn,
            commits=self._commits(),
            strays=tuple(
                name for name in strays if os.path.realpath(self._top / name) != os.path.realpath(self._file.path)
            ),
        )

    def _check_place(self) -> None:
        """Raises RalphError before money is spent on an iteration that cannot come to anything."""
        if not self._top.is_dir():
            raise RalphError(f"{self._top}: the working directory is gone", 1)
        if not self._job.plan.is_file():
            raise RalphError(f"{self._job.plan}: the plan is gone", 1)
        self._state.check_room()
        self._file.check_writable()

    def _turn(self, files: Files) -> Turn:
        stream = Stream(self._view.show, self._view.quiet)
        self._view.begin()
        began = time.monotonic()
        try:
            ended = follow(self._job.argv, self._job.env, files, stream, self._care)
        except OSError as error:
            return Turn(outcome=Outcome.HOPELESS, why=f"{self._job.argv[0]} cannot be started: {error.strerror}")
        with contextlib.suppress(OSError):
            errors = files.errors.read_bytes()[-20_000:].decode(errors="replace")
            return stream.turn(ended, errors, time.monotonic() - began)
        return stream.turn(ended, "", time.monotonic() - began)

    def _unlock_index(self, before: object) -> None:
        if git.remove_orphaned_lock(self._index_lock, before):
            self._screen.say(f"ralph: removed {self._index_lock}, left behind by the agent")

    def _commits(self) -> Commits:
        old, self._head = self._head, git.head()
        return git.commits(old, self._head)

    def settle_done(self, judged: Judgement, *, hold: bool) -> Progress:
        """Lets RALPH_DONE stand, or takes it back with reasons and missing tasks."""
        if hold:
            return self._file.edit(progress.without_refusal)
        if not judged.refused:
            self._screen.say("ralph: RALPH_DONE put back to IN_PROGRESS: planning does not declare done")
            return self._file.edit(progress.without_done)
        for reason in judged.refused:
            self._screen.say(f"ralph: RALPH_DONE refused: {reason}")

        def take_back(text: bytes) -> bytes:
            text = progress.with_tasks(progress.without_done(text), [task.raw for task in judged.missing])
            return progress.with_refusal(text, judged.refused)

        return self._file.edit(take_back)

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        """The summary line, and what deserves a line of its own."""
        turn = iteration.turn
        costs = [cost for cost in (self.run.cost_usd, turn.cost_usd) if cost is not None]
        self.run = replace(
            self.run,
            iterations=iteration.number,
            commits=self.run.commits + iteration.commits.count,
            took_s=time.monotonic() - self._began,
            cost_usd=sum(costs) if costs else None,
            at_least=self.run.at_least or turn.at_least,
            last_summary=notices.summary(iteration, judged),
        )
        for command in turn.left_over:
            self._screen.say(f"ralph: ended what the agent left running: {command}")
        if judged.missing and not judged.refused:
            kept = self._state.keep(self._file.path.name, self._text_before)
            self._screen.complain(
                f"ralph: {len(judged.missing)} open tasks are gone from the list; it was kept in {kept}"
            )
        if self._job.settings.once and not iteration.after.tasks:
            self._screen.complain(f"ralph: there is no task in {self._file.path.name}; see what the agent wrote there")
        self._say_changed_directives()
        self._screen.say(self.run.last_summary)

    def _say_changed_directives(self) -> None:
        with contextlib.suppress(OSError):
            seen = self._job.plan.stat()
            if (seen.st_mtime_ns, seen.st_ino) == (self._plan_seen.st_mtime_ns, self._plan_seen.st_ino):
                return
            self._plan_seen = seen
            now = directives.of_plan(self._job.plan.read_bytes(), self._job.plan.name)
            said = {(one.variable, one.text) for one in self._directives}
            if changed := {(one.variable, one.text) for one in now} ^ said:
                names = ", ".join(sorted({variable for variable, _ in changed}))
                self._screen.complain(
                    f"ralph: {names} changed in {self._job.plan.name}; it counts from the next start on"
                )
            self._directives = now

    def notice_progress(self) -> None:
        """Tells whoever is away."""
        self._outbox.send(notices.progressed(self.run))

    def block(self, why: str) -> None:
        """Leaves the breaker open in the file."""
        self._file.edit(lambda text: progress.blocked(text, why))

    def pause(self) -> None:
        """The delay between iterations."""
        signals.pause(self._job.settings.delay)
