"""A session: the loop in its surroundings, and an orderly way out however it ends."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import channels, files, journal, progress, recovery, sources
from ralph.agent import command as agent
from ralph.changes import Changes
from ralph.channels import notices
from ralph.errors import RalphError
from ralph.lock import Lock
from ralph.loop import loop
from ralph.process import Keeper, end_own, signals
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.run import Pace, Run
from ralph.screen.screen import Screen
from ralph.screen.text import attended
from ralph.screen.view import Status, View
from ralph.state import State
from ralph.tries import Tries
from ralph.verdict import Reason, Stop, one_try

if TYPE_CHECKING:
    from ralph.start import Start
    from ralph.taskjson import Imported

_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would go on alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)


def session(start: "Start", file: ProgressFile, state: State, held: Lock, pace: Pace | None = None) -> int:
    """Runs the loop to its end; the exit code, 128 + its number where a signal ended it.

    An error of ralph's own leaves the keeper and the lock in place: the one still has an agent to end.
    """
    screen, pace, settings = Screen(start.asked.detail, spinner=start.asked.spinner), pace or Pace(), start.settings

    def complain(line: str) -> None:
        screen.complain(f"ralph: {line}")

    file.say = complain
    outbox = _outbox(start, complain)
    run_id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
    try:
        recovery.after_death(held, state, complain, pace.patience)
        agent.check_there(agent.argv(settings, start.asked.agent_arguments))
        prompt = start.prompt()
        _prepare(start, file, state, complain)
    except RalphError as error:
        line = journal.line(
            "run",
            run=run_id,
            mode=start.asked.mode,
            iteration=0,
            at=pace.clock.now(),
            success=False,
            message=error.message,
            ended=Reason.HOPELESS.name.lower(),
            iterations=0,
        )
        with contextlib.suppress(OSError):
            journal.append(state.journal, line)
        screen.open()  # what was done until here is said all the same
        screen.close()
        raise
    litter = Path(tempfile.mkdtemp(prefix="ralph-"))
    env = agent.environment(os.environ, run=run_id, tmux=litter, effort=settings.effort)
    signals.install(lambda: screen.say(_NO_SUSPENSION))
    held.begin(run_id, start.plan.name, start.progress_path)
    keeper = Keeper(
        run_id,
        pace.patience,
        state.keepers_error(run_id),
        lock=held.fd,
        at_last=lambda: shutil.rmtree(litter, ignore_errors=True),
    )
    screen.open()  # the first thread
    try:
        view = _view(start, screen)
        run = Run(
            id=run_id,
            start=start,
            prompt=prompt,
            env=env,
            pace=pace,
            top=Path.cwd(),
            file=file,
            state=state,
            keeper=keeper,
            screen=screen,
            view=view,
            status=Status(view, pace.clock.running),
            outbox=outbox,
            changes=Changes(Path.cwd(), start.own),
            tries=Tries(settings.history),
            tally=one_try(state.noted("breaker"), settings),
            earlier=state.iterations,
            began=pace.clock.running(),
        )
        state.note("breaker", "")
        screen.status = run.status.line
        _watch_over(run)
        code = _loop(run)
    except BaseException:
        screen.close()  # a traceback does not go into the status line
        raise
    keeper.dismiss()
    held.forget()
    screen.close()
    return code


def _view(start: "Start", screen: Screen) -> View:
    view = View(
        screen.agent,
        lambda: screen.width,
        pays=agent.is_claude(start.settings.agent) and not start.rehearsal,
        detail=screen.detail,
        breaks_silence=screen.width is not None and not screen.is_live,
    )
    view.aloud = screen.say
    return view


def _watch_over(run: Run) -> None:
    """Who watches the agent, where somebody shall: under --strict and --only."""
    settings, strict = run.settings, run.start.strict
    if strict or settings.only:
        from ralph.strict.guard import Guard  # noqa: PLC0415 - 10 ms that only --strict and --only pay

        run.guard = Guard(run.start, run.state, run.id, run.complain, run.tries if strict else None)
        if strict:
            from ralph.strict.attempts import Strict  # noqa: PLC0415 - 20 ms that only --strict pays

            run.strict = Strict(run, run.guard)


def _outbox(start: "Start", complain: Callable[[str], None]) -> channels.Outbox:
    values = sources.channel_values()
    ready = channels.configured(channels.load(), values)
    monitor = None if start.rehearsal else start.settings.heartbeat_url
    return channels.Outbox(ready, values, complain, monitor=monitor)


def _prepare(start: "Start", file: ProgressFile, state: State, complain: Callable[[str], None]) -> None:
    """What must be there before the first iteration, or a clear error; the last checks before money is spent."""
    for line in start.warnings():
        complain(line)
    state.make_room()
    recovery.clear_up(start, file, state, complain)  # first: what stands in the way of a commit may be of the dead
    _check_can_commit(start)
    if not file.exists() and not file.text:
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(Path.cwd()) else str(start.plan)
        file.create(progress.fresh(start.name, where, time.strftime("%Y-%m-%d %H:%M:%S")))
        state.note("breaker", "")
    now = file.read()
    files.sweep(file.path)
    file.check_writable()
    if start.imported:
        now = _with_tasks_of_plan(start, start.imported, file, complain)
    if start.strict:
        recovery.check_strict(start, file, state, complain)
        now = file.read()
    if now.blocked_by_ralph and attended():
        complain(f"took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_own_block)
    if now.done and state.died():
        recovery.judge_claim(start, file, now, complain)
    state.end()


def _with_tasks_of_plan(
    start: "Start", imported: "Imported", file: ProgressFile, complain: Callable[[str], None]
) -> Progress:
    """The tasks that the plan holds as JSON become the list on first use; later the ones that it lacks are told."""
    from ralph import taskjson, tasks  # noqa: PLC0415 - few plans are JSON

    now = file.read()
    if not now.tasks and not now.done:
        complain(taskjson.taken_over(imported))
        return file.edit(lambda text: progress.with_tasks(text, tasks.lines(imported.tasks)))
    if told := taskjson.left_out(imported, file.text, start.progress_path):
        complain("; ".join(told))
    return now


def _check_can_commit(start: "Start") -> None:
    """Raises RalphError where ralph shall commit and could not."""
    if not (start.strict and start.settings.auto_commit):
        return
    from ralph.strict import jj  # noqa: PLC0415 - 10 ms that other runs need not pay
    from ralph.strict.repository import Repository  # noqa: PLC0415 - same

    if root := jj.root_around(Path.cwd()):
        jj.check(root)
    elif repository := Repository.around(Path.cwd()):
        repository.check_can_commit()


def _loop(run: Run) -> int:
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    code = 1
    try:
        stop = loop(run)
        code = stop.reason.code
        if stop.reason is Reason.INTERRUPTED:
            code += signals.interrupted() or 0
    except RalphError as error:
        stop, code = Stop(Reason.HOPELESS, error.message), error.exit_code
    finally:
        _close(run, stop)
    return code


def _close(run: Run, stop: Stop) -> None:
    """The last line, also of the journal, and the last notice."""
    if run.strict:
        run.strict.close()
    if run.guard:
        run.guard.close()
    run.status.does("sending the last notice")
    now, tally = run.file.last, run.tally
    if run.files:
        run.write_down(
            "run",
            success=stop.reason.code == 0,
            message=stop.why,
            ended=stop.reason.name.lower(),
            iterations=tally.iterations,
            duration_s=round(run.elapsed_s(), 3),
            waits=tally.waits,
            waited_s=round(tally.waited_s, 3),
            cost_usd=tally.cost_usd,
            cost_at_least=tally.at_least,
            done=now.ticked,
            total=len(now.tasks),
            commits=tally.commits,
        )
    run.screen.say(f"ralph: {notices.closing(run, stop, now)}")
    if stop.reason.code == 1:
        run.complain(stop.why)
    if run.files:
        run.outbox.send(notices.ended(run, stop, now))
    hurried = signals.impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + run.pace.patience.send_s
    while run.outbox.pending() and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    run.outbox.close()
    end_own()
