"""`--dry-run`: prints the command and the prompt of the next iteration; starts nothing."""

import shlex
import sys

from ralph import files
from ralph.errors import RalphError
from ralph.plan import tasks
from ralph.plan.prompt import Value
from ralph.run import tasklist
from ralph.run.memory import prompt_memory
from ralph.run.prepared import PreparedStart
from ralph.store import journal
from ralph.store.state import State
from ralph.strict.roles import roles_of
from ralph.words import without_control_codes


def show_dry_run(start: PreparedStart, state: State) -> int:
    """Prints the agent's command line and prompt; returns 0."""
    for remark in start.settings.remarks:
        print(without_control_codes(f"ralph: {remark.message}"), file=sys.stderr)
    values: dict[str, Value] = {
        "ITERATION": journal.count_iterations(state.journal) + 1,
        "MEMORY": prompt_memory(state),
    }
    if start.is_strict_build:
        path = start.progress_path
        listed = tasklist.validate_list(start.with_imported_tasks(files.read_or_empty(path)), path.name, start.settings)
        if (task := tasks.select_next(listed)) is None:
            raise RalphError(f"there is no prompt to show: {tasklist.nothing_to_begin(listed).why}", 4)
        if role := roles_of(start).role_of_task(task):
            start = start.in_mode(role, as_role=True)
        values |= tasklist.prompt_values(task, tasklist.new_session_token(), state) | {
            "MEMORY": prompt_memory(state, task=task.id)
        }
    first, *_ = start.agents
    text = start.load_prompt().render(values | {"CAN_RUN": first.can_run(start.settings)})
    first = first._replace(rung=int(str(values.get("TRY", 1))) - 1)
    argv = first.command_line(start.settings, "…", file="…", mcp=start.tools_server)
    print(shlex.join(argv), end="\n\n")
    print(text.encode(errors="surrogateescape").decode(errors="replace"), end="")
    return 0
