"""What a start does without the loop: it shows the next turn (`--dry-run`), or lets the user talk with the agent."""

import contextlib
import os
import shlex
import sys
import time
from pathlib import Path

import click

from ralph import files
from ralph.agent import command
from ralph.errors import RalphError
from ralph.notify import channels
from ralph.plan import progress, prompt, tasks
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock, programs, signals
from ralph.run import acceptance, notices
from ralph.run.prepared import PreparedStart
from ralph.settings import options, sources
from ralph.store import journal
from ralph.store.state import AnnouncedConversation
from ralph.strict.roles import role_order_of
from ralph.words import without_control_codes


def show_dry_run(start: PreparedStart) -> None:
    """Prints the command line and the prompt of the next iteration; starts nothing."""
    for remark in start.settings.remarks:
        print(without_control_codes(f"ralph: {remark.message}"), file=sys.stderr)
    values = _next_iteration_values(start)
    if start.is_strict_loop:
        listed = start.read_valid_tasks(start.with_imported_tasks(files.read_or_empty(start.progress_path)))
        if (task := tasks.select_next(listed)) is None:
            raise RalphError(f"there is no prompt to show: {acceptance.nothing_to_begin(listed).why}", 4)
        if role := role_order_of(start).role_of_task(task):
            start = start.in_mode(role, as_role=True)
        values = _next_iteration_values(start, task.id) | acceptance.task_prompt_values(
            task, acceptance.new_run_token(), start.state_folder
        )
    agent = start.agents[0]._replace(model_index=int(str(values.get("TRY", 1))) - 1)
    text = start.load_mode_prompt().render({**values, "CAN_RUN": agent.can_run_commands(start.settings)})
    print(shlex.join(agent.command_line(start.settings, "…", file="…", mcp=start.tools_server_as_json)), end="\n\n")
    print(text, end="")


def _next_iteration_values(start: PreparedStart, task_id: str = "") -> dict[str, prompt.Value]:
    """Returns the variables of the next iteration's prompt that no task gives."""
    return {
        "ITERATION": journal.last_counted_iteration(start.state_folder.journal) + 1,
        "MEMORY": notices.describe_last_iterations_for_prompt(start.state_folder, already_told_task=task_id),
    }


def talk(start: PreparedStart) -> options.Invocation | None:
    """Holds the conversation. Returns the run to start afterwards, or None.

    Raises RalphError without a terminal; sends one notice first if the progress file asked for the conversation.
    """
    file = ProgressFile(start.progress_path, start.state_folder)
    if start.rehearsal:
        raise RalphError(f"{start.mode} is a conversation, which cannot be rehearsed", fix="name another mode")
    if not (os.isatty(0) and os.isatty(1)):
        fix = f"start ralph {shlex.quote(start.asked.plan)} {start.mode} in a terminal"
        wanted = RalphError(f"{start.name}: {start.mode} is a conversation", 4, fix=fix)
        note = AnnouncedConversation(mode=start.mode)
        if start.asked.mode != start.mode and start.state_folder.load_note(AnnouncedConversation) != note:
            start.state_folder.save_note(note)
            values = sources.channel_values()
            notice = channels.Notice("blocked", "Ralph Blocked", f"Plan: {start.name}\n{wanted.message}")
            for channel in channels.configured_channels(values):
                channels.deliver_notice(channel, notice, values)
        raise wanted
    held_lock = _acquire_lock_or_stop_holder(start, file)
    signals.install_handlers()  # from here on they are passed on to the agent
    changed = _converse_and_describe_changes(start, file)
    os.close(held_lock.fd)
    print(without_control_codes(f"ralph: {changed} · what this cost is not known here"))
    mode = start.settings.next_mode_or_empty or "build"
    if not click.confirm(f"ralph: continue with {mode}?"):
        return None
    if start.progress_before.mode == start.mode:
        file.edit(progress.with_mode, mode)
    return start.asked._replace(mode=mode) if start.asked.mode == start.mode else start.asked


def _acquire_lock_or_stop_holder(start: PreparedStart, file: ProgressFile) -> lock.Lock:
    """Takes the lock of the tree; first stops a run that works on the plan after its iteration, if the user agrees."""
    tree = lock.working_tree(Path.cwd())
    try:
        return lock.acquire_lock(tree)
    except RalphError as error:
        holder = lock.read_holder(tree)
        is_ours = holder and holder.progress == os.path.realpath(start.progress_path)
        question = without_control_codes(f"ralph: {error.what}: stop it after its iteration?")
        if not is_ours or not click.confirm(question):
            raise
    file.edit(progress.with_lines_added, "Status", [b"RALPH_STOP"])
    try:
        print("ralph: it ends after this iteration; Ctrl+C waits no longer")
        while True:
            with contextlib.suppress(RalphError):
                return lock.acquire_lock(tree)
            time.sleep(0.5)
    finally:
        file.edit(progress.without_control_lines, "RALPH_STOP")


def _converse_and_describe_changes(start: PreparedStart, file: ProgressFile) -> str:
    """Runs the agent in this terminal. Returns a summary of what changed in the plan and the progress file."""
    agent, *_ = start.agents
    if not agent.talk:
        raise RalphError(f"the agent {agent.name} cannot be talked to", fix="see --agent")
    command.check_installed([agent], start.settings)
    env = {name: value for name, value in os.environ.items() if not name.startswith("RALPH_")}
    plan, before = files.read_or_empty(start.plan), file.read_or_restore()
    argv = agent.command_line(start.settings, start.load_mode_prompt().render(_next_iteration_values(start)))
    programs.run_in_front(argv, env=env)
    start.state_folder.remove_note(AnnouncedConversation)
    changed = "is as it was" if files.read_or_empty(start.plan) == plan else "changed"
    return (
        f"{start.plan.name} {changed} · {before.ticked_of_total} before, {file.read_or_restore().ticked_of_total} now"
    )
