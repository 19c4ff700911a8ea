"""A night: the loop in its surroundings, and an orderly way out however it ends."""

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import channels, files, journal, judge, loop, progress, recovery, sources
from ralph.agent import command as agent
from ralph.channels import notices
from ralph.clock import Pace
from ralph.errors import RalphError
from ralph.journal import Journal
from ralph.lock import Lock
from ralph.process import Keeper, end_own, signals
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.screen.screen import Screen
from ralph.screen.text import attended
from ralph.start import Start
from ralph.state import Death, State
from ralph.verdict import Reason, Stop, Tallies
from ralph.world import RealWorld, Told, Work

if TYPE_CHECKING:
    from ralph.taskjson import Imported

_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would go on alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)
_LAST_WRITES_S = 15.0
"""Seconds that an agent may go on after the last word on its record, until the keeper has ended it."""
_SEND_S = 10.0
"""Seconds that the end of a run waits for notices still on their way."""


def night(start: Start, file: ProgressFile, state: State, held: Lock, pace: Pace | None = None) -> int:
    """Runs the loop to its end; the exit code, 128 + its number where a signal ended it.

    An error of ralph's own leaves the keeper and the lock in place: the one still has an agent to end.
    """
    screen, pace = Screen(start.detail, spinner=start.spinner), pace or Pace()
    file.say = lambda line: screen.complain(f"ralph: {line}")
    told = _told(start, state, screen)
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    try:
        recovery.after_death(held, state, told, pace.patience)
        agent.check_there(agent.argv(start.settings, start.agent_arguments))
        prompt = start.prompt()
        _prepare(start, file, state, screen)
    except RalphError as error:
        with contextlib.suppress(OSError):
            by = journal.Identity(run=run_id, mode=start.mode, iteration=0, now=pace.clock.now())
            told.journal.append(journal.of_failed_start(by, error.message))
        screen.open()  # what was done until here is said all the same
        screen.close()
        raise
    litter = Path(tempfile.mkdtemp(prefix="ralph-"))
    env = agent.environment(os.environ, run=run_id, tmux=litter, effort=start.settings.effort)
    work = Work(start=start, prompt=prompt, env=env, run_id=run_id, pace=pace)
    signals.install(lambda: screen.say(_NO_SUSPENSION))
    held.begin(run_id)
    keeper = Keeper(
        run_id,
        pace.patience,
        state.keepers_error(run_id),
        holds=[held.fd],
        after_death=lambda: shutil.rmtree(litter, ignore_errors=True),
    )
    screen.open()  # the first thread
    try:
        code = _loop(_world(start)(work, file, state, told, keeper), start, file, state, told)
    except BaseException:
        screen.close()  # a traceback does not go into the status line
        raise
    shutil.rmtree(litter, ignore_errors=True)
    keeper.dismiss()
    held.begin("")
    screen.close()
    return code


def _world(start: Start) -> type[RealWorld]:
    if not start.strict:
        return RealWorld
    from ralph.strict_world import StrictWorld  # noqa: PLC0415 - 20 ms that only --strict pays

    return StrictWorld


def _told(start: Start, state: State, screen: Screen) -> Told:
    def complain(line: str) -> None:
        screen.complain(f"ralph: {line}")

    values = sources.channel_values()
    ready = channels.configured(channels.load(channels.default_folders()), values)
    outbox: type[channels.Outbox] = channels.Outbox
    if start.rehearsal:
        from ralph.rehearsal import marked  # noqa: PLC0415 - not needed by a run

        outbox = marked.Outbox
    return Told(
        screen=screen,
        outbox=outbox(ready, values, complain),
        heartbeat=channels.Heartbeat(None if start.rehearsal else start.settings.heartbeat_url, complain),
        journal=Journal(state.journal),
    )


def _prepare(start: Start, file: ProgressFile, state: State, screen: Screen) -> None:
    """What must be there before the first iteration, or a clear error; the last checks before money is spent."""
    for line in start.warnings():
        screen.complain(f"ralph: {line}")
    state.rotate()
    state.check_room()
    _recover(start, state, screen)  # first: what stands in the way of a commit may be of the dead
    _check_repository(start)
    if not file.exists() and not file.text:
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(Path.cwd()) else str(start.plan)
        file.create(progress.fresh(start.name, where, time.strftime("%Y-%m-%d %H:%M:%S")))
        state.close_breaker()
    now = file.read()
    files.sweep(file.path)
    file.check_writable()
    if start.imported:
        now = _with_tasks_of_plan(start, start.imported, file, screen)
    if start.strict:
        _prepare_strict(start, file, state, screen)
        now = file.read()
    if now.blocked_by_ralph and attended():
        screen.complain(f"ralph: took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_own_block)
    if now.done and state.died():
        _judge_claim(start, file, now, screen)
    state.end()


def _with_tasks_of_plan(start: Start, imported: "Imported", file: ProgressFile, screen: Screen) -> Progress:
    """The tasks that the plan holds as JSON become the list on first use; later the ones that it lacks are told."""
    from ralph import taskjson  # noqa: PLC0415 - few plans are JSON

    now = file.read()
    if not now.tasks and not now.done:
        screen.complain(f"ralph: {taskjson.taken_over(imported)}")
        return file.edit(lambda text: progress.with_tasks(text, taskjson.lines(imported.tasks)))
    if names := taskjson.missing(imported, file.text):
        screen.complain(f"ralph: {'; '.join(taskjson.left_out(imported, names, start.progress_path))}")
    return now


def _check_repository(start: Start) -> None:
    """Raises RalphError where something is asked for that only a repository can give."""
    settings, top = start.settings, Path.cwd()
    if not (start.strict or settings.only):
        return
    from ralph import worktree  # noqa: PLC0415 - 10 ms that other runs need not pay

    if worktree.is_repository(top):
        if start.strict and settings.auto_commit:
            worktree.check_can_commit(top)
    elif settings.only or (start.strict and settings.on_failure == "restore"):
        what = "--only" if settings.only else "--on-failure restore"
        raise RalphError(f"{what} needs a git repository, and {top} is in none; git init makes one")


def _prepare_strict(start: Start, file: ProgressFile, state: State, screen: Screen) -> None:
    """The list of tasks is as it should be before money is spent; also after a death in an iteration, or a clear error.

    What was changed there since that iteration began may be its doing, so it is undone, and kept.
    """
    from ralph import strict  # noqa: PLC0415 - only --strict gets here
    from ralph.tasks.mending import mend  # noqa: PLC0415 - same

    before, left = state.before_death(), file.text
    if before:
        planned = (death := state.died()) is not None and death.mode == "plan"
        file.edit(lambda text: strict.planned(before, text) if planned else mend(before, text).text)
        if file.text != left:
            screen.complain(
                f"ralph: what changed in the tasks of {file.path.name} since ralph was killed is undone, "
                f"since the agent may have done it; as it was left it is {state.keep(file.path.name, left)}"
            )
    strict.check(strict.tidied(file.text), file.path.name, start.settings)


def _recover(start: Start, state: State, screen: Screen) -> None:
    """After a death in an iteration that was watched: what it may not have changed is put back."""
    death, task = state.died(), state.noted("task")
    for store in state.stores():  # of runs that died when nothing was to be put right
        if death is None or store.name != death.run:
            shutil.rmtree(store, ignore_errors=True)
    if death is None:
        return
    _settings_back(start, state, death, screen)
    if not (start.strict or start.settings.only):
        return
    from ralph import tasks  # noqa: PLC0415 - as above
    from ralph.guard import Guard, Rules  # noqa: PLC0415 - as above

    settings = start.settings
    rules = Rules(only=settings.only, strict=start.strict, commits=settings.auto_commit, run=death.run)
    with contextlib.suppress(OSError):  # without the record nobody knows when that was
        since = death.record.with_suffix(".prompt.md").stat().st_mtime
        until = death.record.stat().st_mtime + _LAST_WRITES_S
        guard = Guard(
            Path.cwd(), state, start.own, rules, lambda line: screen.complain(f"ralph: after a death: {line}")
        )
        ticked = any(one.id == task and one.done for one in tasks.flat(tasks.read(state.before_death())))
        guard.recover(task, since, until, ticked=ticked)


def _settings_back(start: Start, state: State, death: Death, screen: Screen) -> None:
    """Raises RalphError where a strict iteration that died had changed what ralph is started with."""
    saved = state.governing
    if not saved.exists():
        return
    from ralph.governing import Governing  # noqa: PLC0415 - as above

    governing = Governing(start.plan, start.settings.prompts)
    with contextlib.suppress(OSError):
        governing.load(saved, death.record.stat().st_mtime + _LAST_WRITES_S)
        changed = [str(path) for path, _ in governing.settle(state.keep)]
        saved.unlink()
        if changed:
            screen.complain(f"ralph: put back as before the iteration in which ralph died: {', '.join(changed)}")
            raise RalphError("its settings may have been others than yours; start it again", 1)


def _judge_claim(start: Start, file: ProgressFile, now: Progress, screen: Screen) -> None:
    """A claim that nobody judged, because ralph died: it is verified, or taken back where nothing can tell."""
    why = judge.open_tasks(now)
    if not why and start.settings.verify:
        file.edit(progress.without_verified)
        return
    why = why or ["ralph was ended before it could check it"]
    screen.complain(f"ralph: RALPH_DONE refused: {why[0]}")
    file.edit(lambda text: progress.with_refusal(progress.without_done(text), why))


def _loop(world: RealWorld, start: Start, file: ProgressFile, state: State, told: Told) -> int:
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    code = 1
    try:
        stop = loop.run(world, start.limits, Tallies(half_open=state.breaker()))
        code = stop.reason.code
        if stop.reason is Reason.INTERRUPTED:
            code += signals.interrupted() or 0
        elif stop.reason is Reason.HOPELESS:
            file.uncreate()
    except RalphError as error:
        stop, code = Stop(Reason.HOPELESS, error.message), error.exit_code
    finally:
        _tell(world, stop, file, told)
    return code


def _tell(world: RealWorld, stop: Stop, file: ProgressFile, told: Told) -> None:
    """The last line, the last notice."""
    world.close(stop)
    told.screen.say(f"ralph: {notices.closing(world.run, stop, file.last)}")
    if stop.reason.code == 1:
        told.screen.complain(f"ralph: {stop.why}")
    if world.run.began:
        told.outbox.send(notices.ended(world.run, stop, file.last))
    hurried = signals.impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + _SEND_S
    while (told.outbox.pending() or told.heartbeat.pending()) and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    told.outbox.close(0)
    told.heartbeat.close(0)
    end_own()
