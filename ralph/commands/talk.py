"""`ralph PLAN talk`: the user talks with the agent about a plan; then a run works without more questions."""

import contextlib
import os
import shlex
import sys
from pathlib import Path

from ralph import files
from ralph.agent import command
from ralph.errors import RalphError
from ralph.notify import channels
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock, signals
from ralph.process.lock import Lock
from ralph.process.programs import run_in_front
from ralph.run.notices import prompt_memory
from ralph.run.prepared import PreparedStart
from ralph.settings import sources
from ralph.settings.options import Invocation
from ralph.store import journal
from ralph.store.notes import AnnouncedConversation
from ralph.store.state import State
from ralph.words import plural, without_control_codes


def talk(start: PreparedStart, state: State) -> Invocation | None:
    """Holds the conversation. Returns the run to start afterwards, or None. Raises RalphError without a terminal."""
    file = ProgressFile(start.progress_path, state)
    if start.rehearsal:
        raise RalphError(f"{start.mode} is a conversation, which cannot be rehearsed", fix="name another mode")
    if not (os.isatty(0) and os.isatty(1)):
        _call(start, state)
    signals.install_handlers()
    held_lock = _acquire_lock(start, file)
    try:
        changed = _converse(start, state)
    finally:
        os.close(held_lock.fd)
    print(without_control_codes(f"ralph: {changed} · what this cost is not known here"))
    mode = start.settings.next_mode or "build"
    if not _says_yes(f"continue with {mode}?"):
        return None
    if start.file_mode == start.mode:
        file.edit(progress.with_mode, mode)
    return start.asked._replace(mode=mode) if start.asked.mode == start.mode else start.asked


def _call(start: PreparedStart, state: State) -> None:
    """Raises RalphError that a terminal is needed; sends one notice if the progress file asked for the conversation."""
    fix = f"start ralph {shlex.quote(str(start.asked.plan))} {start.mode} in a terminal"
    wanted = RalphError(f"{start.name}: {start.mode} is a conversation", 4, fix=fix)
    wanted_before = state.load_note(AnnouncedConversation)
    if start.asked.mode != start.mode and not (wanted_before and wanted_before.mode == start.mode):
        state.save_note(AnnouncedConversation(mode=start.mode))
        values = sources.channel_values()
        notice = channels.Notice("blocked", "Ralph Blocked", f"Plan: {start.name}\n{wanted.message}")
        for channel in channels.configured_channels(values):
            if failure := channels.deliver_notice(channel, notice, values):
                print(without_control_codes(f"ralph: {channel.name}: not sent: {failure}"), file=sys.stderr)
    raise wanted


def _acquire_lock(start: PreparedStart, file: ProgressFile) -> Lock:
    """Takes the lock of the tree; first stops a run that works on the plan after its iteration, if the user agrees."""
    tree = lock.working_tree(Path.cwd())
    try:
        return lock.acquire_lock(tree)
    except RalphError as error:
        holder = lock.read_holder(tree)
        if not holder or holder.progress != os.path.realpath(start.progress_path):
            raise
        if not _says_yes(f"{error.what}: stop it after its iteration?"):
            raise
    is_theirs = file.read().stop
    if not is_theirs:
        file.edit(progress.with_status_line, "RALPH_STOP")
    try:
        print("ralph: it ends after this iteration; Ctrl+C waits no longer")
        while signals.interrupted() is None:
            with contextlib.suppress(RalphError):
                return lock.acquire_lock(tree)
            signals.wait(0.5)
    finally:
        if not is_theirs:
            file.edit(progress.without_lines, "RALPH_STOP")
    raise KeyboardInterrupt


def _converse(start: PreparedStart, state: State) -> str:
    """Runs the agent in this terminal. Returns a summary of what changed in the plan and the progress file."""
    agent, *_ = start.agents
    if not agent.talk:
        raise RalphError(f"the agent {agent.name} cannot be talked to", fix="see --agent")
    command.check_installed([agent], start.settings)
    prompt = start.load_prompt().render(
        {"ITERATION": journal.count_iterations(state.journal) + 1, "MEMORY": prompt_memory(state)}
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("RALPH_")}
    plan, before = files.read_or_empty(start.plan), progress.parse(files.read_or_empty(start.progress_path))
    code = run_in_front(agent.command_line(start.settings, prompt), env=env)
    state.remove_note(AnnouncedConversation)
    now = progress.parse(files.read_or_empty(start.progress_path))
    ended = f"the agent exited with {code} · " if code else ""
    message = f"{ended}{start.plan.name} {'is as it was' if files.read_or_empty(start.plan) == plan else 'changed'}"
    return f"{message} · {plural(len(now.tasks), 'task')} ({len(now.tasks) - len(before.tasks):+}), {now.ticked} ticked"


def _says_yes(question: str) -> bool:
    print(without_control_codes(f"ralph: {question} [y/N] "), end="", flush=True)
    while not signals.wait(3600, 0):
        if signals.interrupted() is not None:
            raise KeyboardInterrupt
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
