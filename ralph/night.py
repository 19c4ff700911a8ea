"""A night: the loop in its surroundings, and an orderly way out however it ends."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ralph import agent, channels, loop, notices, progress, said
from ralph.errors import RalphError
from ralph.lock import Lock
from ralph.loop import Reason, Stop
from ralph.process import Care, Family, Guardian, Patience, be_subreaper, end_own, signals
from ralph.progress_file import ProgressFile
from ralph.screen import Screen
from ralph.start import Start
from ralph.state import State
from ralph.world import Job, RealWorld, Told

_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would go on alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)
_SEND_S = 10.0
"""Seconds that the end of a run waits for notices still on their way."""


def night(start: Start, state: State, held: Lock, said_before: Sequence[str]) -> int:
    """Runs the loop to its end; the exit code, 128 + its number where a signal ended it."""
    argv = agent.argv(start.settings, start.agent_arguments)
    agent.check_there(argv)
    prompt = start.prompt()
    screen = Screen()
    for line in said_before:
        screen.complain(f"ralph: {line}")
    file = ProgressFile(start.progress_path, state, lambda line: screen.complain(f"ralph: {line}"))
    told = Told(screen=screen, outbox=_outbox(screen))
    _prepare(start, file, state)
    signals.install(lambda: screen.say(_NO_SUSPENSION))
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    litter = Path(tempfile.mkdtemp(prefix="ralph-"))
    patience = Patience()
    guardian = Guardian(mark=run_id, keep_open=held.fd, litter=litter, patience=patience)
    screen.open()  # the first thread; the guardian was forked before it
    be_subreaper()
    care = Care(kin=Family(ralph=os.getpid(), mark=run_id), guardian=guardian, patience=patience)
    job = Job(
        plan=start.plan,
        name=start.name,
        mode=start.mode,
        settings=start.settings,
        prompt=prompt,
        argv=argv,
        env=agent.environment(os.environ, run=run_id, tmux=litter),
        directives=start.directives,
        run_id=run_id,
        values=start.values,
    )
    world = RealWorld(job, file, state, told, care)
    stop, code = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed"), 1
    try:
        stop, code = _loop(world, start, file)
    finally:
        _tell(world, stop, file, told)
    state.rotate()
    shutil.rmtree(litter, ignore_errors=True)
    guardian.dismiss()
    screen.close()
    return code


def _outbox(screen: Screen) -> channels.Outbox:
    values = said.channel_values()
    ready = channels.configured(channels.load(channels.default_folders()), values)
    return channels.Outbox(ready, values, lambda line: screen.complain(f"ralph: {line}"))


def _prepare(start: Start, file: ProgressFile, state: State) -> None:
    """What must be there before the first iteration, or a clear error."""
    state.check_room()
    if not file.exists():
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(Path.cwd()) else str(start.plan)
        file.create(progress.fresh(start.name, where, time.strftime("%Y-%m-%d %H:%M:%S")))
    file.read()
    file.check_writable()


def _loop(world: RealWorld, start: Start, file: ProgressFile) -> tuple[Stop, int]:
    try:
        stop = loop.run(world, start.limits)
    except RalphError as error:
        return Stop(Reason.HOPELESS, error.message), error.exit_code
    if stop.reason is Reason.INTERRUPTED:
        return stop, 128 + (signals.interrupted() or 0)
    if stop.reason is Reason.HOPELESS:
        file.uncreate()
    return stop, stop.reason.code


def _tell(world: RealWorld, stop: Stop, file: ProgressFile, told: Told) -> None:
    """The last line, the last notice."""
    now = file.last
    told.screen.say(f"ralph: {notices.closing(world.run, stop, now)}")
    if stop.reason.code == 1:
        told.screen.complain(f"ralph: {stop.why}")
    if world.run.iterations:
        told.outbox.send(notices.ended(world.run, stop, now))
    hurried = signals.impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + _SEND_S
    while told.outbox.pending() and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    told.outbox.close(0)
    end_own()
