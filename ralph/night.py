"""A night: the loop in its surroundings, and an orderly way out however it ends."""

import os
import secrets
import shutil
import tempfile
import time
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
from ralph.terminal import attended
from ralph.world import Job, RealWorld, Told

_NO_SUSPENSION = (
    "ralph: not suspended, since the agent would go on alone; Ctrl+C ends it now, "
    "RALPH_STOP in the progress file after this iteration"
)
_SEND_S = 10.0
"""Seconds that the end of a run waits for notices still on their way."""


def night(start: Start, file: ProgressFile, state: State, held: Lock) -> int:
    """Runs the loop to its end; the exit code, 128 + its number where a signal ended it.

    An error of ralph's own leaves the guardian and the lock in place: the one still has an agent to end.
    """
    screen = Screen()
    for line in start.warnings():
        screen.complain(f"ralph: {line}")
    file.say = lambda line: screen.complain(f"ralph: {line}")
    told = Told(screen=screen, outbox=_outbox(screen))
    run_id = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
    argv = agent.argv(start.settings, start.agent_arguments)
    agent.check_there(argv)
    prompt = start.prompt()
    _prepare(start, file, state, screen)
    litter = Path(tempfile.mkdtemp(prefix="ralph-"))
    env = agent.environment(os.environ, run=run_id, tmux=litter)
    job = Job(start=start, prompt=prompt, argv=argv, env=env, run_id=run_id)
    signals.install(lambda: screen.say(_NO_SUSPENSION))
    patience = Patience()
    guardian = Guardian(mark=run_id, keep_open=held.fd, litter=litter, patience=patience)
    screen.open()  # the first thread; the guardian was forked before it
    be_subreaper()
    care = Care(kin=Family(ralph=os.getpid(), mark=run_id), guardian=guardian, patience=patience)
    code = _loop(RealWorld(job, file, state, told, care), start, file, told)
    shutil.rmtree(litter, ignore_errors=True)
    guardian.dismiss()
    screen.close()
    return code


def _outbox(screen: Screen) -> channels.Outbox:
    values = said.channel_values()
    ready = channels.configured(channels.load(channels.default_folders()), values)
    return channels.Outbox(ready, values, lambda line: screen.complain(f"ralph: {line}"))


def _prepare(start: Start, file: ProgressFile, state: State, screen: Screen) -> None:
    """What must be there before the first iteration, or a clear error; the last checks before money is spent."""
    state.rotate()
    state.check_room()
    if not file.exists():
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(Path.cwd()) else str(start.plan)
        file.create(progress.fresh(start.name, where, time.strftime("%Y-%m-%d %H:%M:%S")))
    now = file.read()
    file.check_writable()
    if now.blocked_by_ralph and attended():
        screen.complain(f"ralph: took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_own_block)
    if now.done and not start.settings.once:
        why = "ralph was ended before it could check it"
        screen.complain(f"ralph: RALPH_DONE refused: {why}")
        file.edit(lambda text: progress.with_refusal(progress.without_done(text), [why]))
    state.end()


def _loop(world: RealWorld, start: Start, file: ProgressFile, told: Told) -> int:
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    code = 1
    try:
        stop = loop.run(world, start.limits)
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
    told.screen.say(f"ralph: {notices.closing(world.run, stop, file.last)}")
    if stop.reason.code == 1:
        told.screen.complain(f"ralph: {stop.why}")
    if world.run.iterations:
        told.outbox.send(notices.ended(world.run, stop, file.last))
    hurried = signals.impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + _SEND_S
    while told.outbox.pending() and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    told.outbox.close(0)
    end_own()
