"""The loop's world for real: the progress file, the agent, git, the screen and the channels."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import directives, git, notices, progress
from ralph.agent import Stream, is_claude, why_not_started
from ralph.channels import Outbox
from ralph.errors import RalphError
from ralph.lock import working_tree
from ralph.loop import Iteration, Judgement, Reason, Stop
from ralph.process import Care, Files, follow, signals
from ralph.progress import Progress
from ralph.progress_file import ProgressFile
from ralph.prompt import Prompt
from ralph.screen import Screen
from ralph.start import Start
from ralph.state import State
from ralph.turn import Commits, Outcome, Turn
from ralph.view import View

_LARGE_BYTES = 50_000
_ROTATE_EVERY = 50
"""Iterations; looking through the transcripts takes longer the more there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a run has to do; nothing of it changes on the way."""

    start: Start
    prompt: Prompt
    argv: Sequence[str]
    env: Mapping[str, str]
    run_id: str


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
        self._directives = list(job.start.directives)
        self._plan = job.start.plan
        self._plan_seen = self._plan.stat()
        self._once = job.start.settings.once
        self._top = Path.cwd()
        self._tree = working_tree(self._top)
        self._head = git.head(self._top)
        self._index_lock = git.index_lock()
        self._began = time.monotonic()
        self._said: set[str] = set()
        self._text_before = b""
        self._files: Files | None = None
        self.run = notices.Run(
            plan=job.start.name,
            mode=job.start.mode,
            repo=self._top.name,
            progress_file=file.path.name,
            once=self._once,
            max_iterations=job.start.settings.max_iterations,
        )

    def interrupted(self) -> Stop | None:
        """Whether a signal came."""
        number = signals.interrupted()
        return None if number is None else Stop(Reason.INTERRUPTED, signals.name(number))

    def read(self) -> Progress:
        """The progress file, with a word about what in it deserves one."""
        now = self._file.read()
        name = self._file.path.name
        if now.unclosed_fence is not None:
            self._say_once("fence", f"{name}:{now.unclosed_fence}: this code fence is never closed; read as text")
        if now.size > _LARGE_BYTES:
            self._say_once("size", f"{name} has {now.size // 1000} kB, and every iteration pays for reading it")
        return now

    def _say_once(self, what: str, line: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._screen.complain(f"ralph: {line}")

    def iterate(self, number: int, before: Progress) -> Iteration:
        """One turn of the agent, with everything it started ended again, and what it changed."""
        self._check_place()
        if number % _ROTATE_EVERY == 0:
            self._state.rotate()
        prompt = self._job.prompt.render({**self._job.start.values, "ITERATION": number})
        self._files = self._state.transcripts(self._job.run_id, number, prompt)
        self._begin(number, before)
        was = git.tree(self._tree) if self._once else None
        locked = git.identity(self._index_lock)
        turn = self._turn(self._files)
        if git.remove_orphaned_lock(self._index_lock, locked):
            self._screen.complain(f"ralph: removed {self._index_lock}, left behind by the agent")
        strays = git.changed(was, git.tree(self._tree), self._tree) if was else []
        after = self.read()
        commits = self._commits()
        strays = [name for name in strays if not self._is_progress_file(name)]
        return Iteration(number=number, before=before, after=after, turn=turn, commits=commits, strays=tuple(strays))

    def _begin(self, number: int, before: Progress) -> None:
        self._text_before = self._file.text
        self._state.begin()
        if number == 1:
            self._outbox.send(notices.started(self.run))
        else:
            self._screen.say("")
        self.run = replace(self.run, iterations=number)
        self._screen.say(f"ralph: {notices.heading(self.run, before)}")

    def _is_progress_file(self, name: str) -> bool:
        return os.path.realpath(self._tree / name) == os.path.realpath(self._file.path)

    def _check_place(self) -> None:
        """Raises RalphError before money is spent on an iteration that cannot come to anything."""
        if not self._top.is_dir():
            raise RalphError(f"{self._top}: the working directory is gone", 1)
        if not self._plan.is_file():
            raise RalphError(f"{self._plan}: the plan is gone", 1)
        self._state.check_room()
        self._file.check_writable()

    def _turn(self, files: Files) -> Turn:
        stream = Stream(self._view)
        self._view.begin()
        began = time.monotonic()
        try:
            ended = follow(self._job.argv, self._job.env, files, stream, self._care)
        except OSError as error:
            return Turn(outcome=Outcome.HOPELESS, why=why_not_started(self._job.argv, error))
        return stream.turn(ended, time.monotonic() - began)

    def _commits(self) -> Commits:
        old, self._head = self._head, git.head(self._top)
        return git.commits(old, self._head)

    def accept_done(self) -> Progress:
        """RALPH_DONE holds: what an earlier refusal left in the file is no longer true."""
        return self._file.edit(progress.without_refusal)

    def refuse_done(self, judged: Judgement) -> Progress:
        """Takes RALPH_DONE back, with the reasons and the missing tasks for the next iteration to read."""
        for reason in judged.refused:
            self._screen.complain(f"ralph: RALPH_DONE refused: {reason}")

        def take_back(text: bytes) -> bytes:
            text = progress.with_tasks(progress.without_done(text), [task.raw for task in judged.missing])
            return progress.with_refusal(text, judged.refused)

        return self._file.edit(take_back)

    def stay_in_progress(self) -> Progress:
        """IN_PROGRESS, whatever the agent left as the status."""
        if self._file.last.done:
            self._screen.complain("ralph: RALPH_DONE put back to IN_PROGRESS, since work begins now")
        return self._file.edit(progress.in_progress)

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        """The summary line, and what deserves a line of its own."""
        turn = iteration.turn
        costs = [cost for cost in (self.run.cost_usd, turn.cost_usd) if cost is not None]
        self.run = replace(
            self.run,
            commits=self.run.commits + iteration.commits.count,
            took_s=time.monotonic() - self._began,
            cost_usd=sum(costs) if costs else None,
            at_least=self.run.at_least or turn.at_least,
            failed=bool(judged.failed),
            last_summary=notices.summary(iteration, judged),
        )
        for line in self._remarks(iteration, judged):
            self._screen.complain(f"ralph: {line}")
        self._screen.say(self.run.last_summary)
        self._state.end()

    def _remarks(self, iteration: Iteration, judged: Judgement) -> Iterator[str]:
        turn = iteration.turn
        for command in turn.left_over:
            yield f"ended what the agent left running: {command}"
        if judged.missing and not judged.refused:
            kept = self._state.keep(self._file.path.name, self._text_before)
            count = notices.counted(len(judged.missing), "open task")
            yield f"{count} gone from the list without being ticked; the file before that is {kept}"
        if self._once and turn.outcome is Outcome.OK and not iteration.after.tasks:
            yield f"there is no task in {self._file.path.name}; see what the agent wrote there"
        if turn.outcome in (Outcome.FAILED, Outcome.HOPELESS) and self._files:
            yield f"the record of this iteration is {self._files.output}"
        yield from self._changed_directives()

    def _changed_directives(self) -> Iterator[str]:
        with contextlib.suppress(OSError):
            seen = self._plan.stat()
            if (seen.st_mtime_ns, seen.st_ino) == (self._plan_seen.st_mtime_ns, self._plan_seen.st_ino):
                return
            self._plan_seen = seen
            now = directives.of_plan(self._plan.read_bytes(), self._plan.name)
            said = {(one.variable, one.text) for one in self._directives}
            self._directives = now
            if changed := {(one.variable, one.text) for one in now} ^ said:
                names = ", ".join(sorted({variable for variable, _ in changed}))
                yield f"{names} changed in {self._plan.name}; it counts from the next start on"

    def notice_progress(self) -> None:
        """Tells whoever is away."""
        self._outbox.send(notices.progressed(self.run))

    def block(self, why: str) -> None:
        """Leaves the breaker open in the file."""
        self._file.edit(lambda text: progress.blocked(text, why))

    def pause(self) -> None:
        """The delay between iterations."""
        signals.pause(self._job.start.settings.delay)
