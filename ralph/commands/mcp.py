"""`ralph mcp PLAN`: the task list as tools for any agent, over the Model Context Protocol on standard input and output.

Each call edits the progress file as ralph itself does, and adds a line to the journal. If an agent may only propose, as
in a strict run, the task list does not change: ralph reads the calls from the agent's output and checks them.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal

from ralph import __version__
from ralph.commands import plans, status
from ralph.errors import RalphError
from ralph.plan import progress, taskjson, tasks
from ralph.plan.progress.file import ProgressFile
from ralph.plan.tasks import Note, Task, edits
from ralph.process.programs import call_program
from ralph.run import acceptance
from ralph.settings import sources
from ralph.store import journal
from ralph.words import join_names, timestamp, without_control_codes

try:  # an extra
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ModuleNotFoundError as error:
    raise RalphError("ralph mcp needs the mcp package", 1, fix="pip install 'mcp>=2'") from error

Answer = dict[str, Any]

_HOW = "Take a task, mark it in progress, do it, check it, mark it complete or blocked. Record what others must know."


def serve_tools(plan_word: str | None, *, progress_file: str | None, propose: bool) -> None:
    """Serves the tools until the client disconnects."""
    server = MCPServer("ralph", version=__version__, instructions=_HOW, log_level="ERROR")
    plan = plans.find_plan(plan_word, progress_file)
    tools = TaskTools(plan, only_propose=propose)
    for name in vars(TaskTools):
        if not name.startswith("_"):
            server.add_tool(_as_mcp_tool(plan.state_folder.journal, getattr(tools, name)), name=f"ralph_{name}")
    server.run("stdio")


def _as_mcp_tool(journal_path: Path, tool: Callable[..., Answer]) -> Callable[..., Any]:
    """Wraps a tool: adds a journal line for each call, turns errors into words, and allows one call at a time."""

    @wraps(tool)
    async def call(**arguments: object) -> Answer:
        line = journal.journal_line("tool", time.time(), message="", tool=f"ralph_{tool.__name__}", arguments=arguments)
        try:
            return tool(**arguments)
        except RalphError as error:
            line["message"] = error.message
            raise ToolError(error.message) from error
        finally:
            with contextlib.suppress(OSError):  # a full disk is reported where it matters
                journal.append_line(journal_path, line)

    return call


class TaskTools:
    """The tools of a plan: the public methods, whose docstrings the agent reads as descriptions."""

    def __init__(self, plan: plans.Plan, *, only_propose: bool):
        self._plan, self._proposes = plan, only_propose
        self._settings = sources.collect_settings_of_mode(plan.path)
        self._file = ProgressFile(plan.progress_path, plan.state_folder)
        self._file.load_text_of_dead_run()
        self._file.say = partial(print, "ralph:", file=sys.stderr)  # standard output is the client's

    def get_next_task(self) -> Answer:
        """The task to work on: the one in progress, else by priority the first that waits for no other."""
        listed = self._read_tasks()
        if task := next((one for one in listed if one.mark == "~"), tasks.select_next(listed)):
            return {"task": _task_facts(task)}
        return {"task": None, "why": tasks.why_stuck(listed) or "every task is complete"}

    def mark_task_in_progress(self, task_id: str) -> Answer:
        """Says that you begin to work on this task."""
        return self._edit_unless_proposing(task_id, edits.with_mark, "~", task_id)

    def mark_task_complete(self, task_id: str, verification_notes: str = "") -> Answer:
        """Says that this task is done and its checks pass; with notes on how you saw that."""
        task = self._find(task_id)
        done = {one.id for one in self._read_tasks() if one.is_done}
        if waits_for := [name for name in task.prerequisite_ids if name not in done]:
            raise RalphError(f"{task_id} waits for {join_names(waits_for)}")
        if not self._proposes and (red := self._why_checks_fail(task)):
            raise RalphError(f"{task_id} is not done: {'; '.join(red)}")
        answer = self._edit_unless_proposing(
            task_id, edits.with_mark, "x", *(one.id for one in task.self_and_completed_parents)
        )
        if verification_notes:
            self._add_note(f"{task_id}: {verification_notes}")
        return answer

    def mark_task_blocked(self, task_id: str, reason: str) -> Answer:
        """Says that this task cannot continue without the user, and why."""
        return self._edit_unless_proposing(task_id, edits.with_mark, "!", task_id, note="blocked", why=reason)

    def append_learning(
        self, learning: str, category: Literal["pattern", "antipattern", "architecture", "debugging", "build"]
    ) -> Answer:
        """Records what whoever works on this after you should know, in one line."""
        return self._add_note(f"{category.upper()}: {learning}")

    def get_plan_summary(self) -> Answer:
        """Every task, and how many there are of each status."""
        listed = self._read_tasks()
        return {
            "total_tasks": len(listed),
            **{status: sum(task.status == status for task in listed) for status in tasks.STATUSES.values()},
            "tasks": [_task_facts(task) for task in listed],
        }

    def get_state_summary(self) -> Answer:
        """How the plan stands: whether a run works on it, its last iterations, what they cost, what it waits for."""
        return status.status_facts(plans.inspect_plan(self._plan))

    def add_task(
        self,
        description: str,
        priority: int | None = None,
        dependencies: Sequence[str] = (),
        verification_criteria: Sequence[str] = (),
    ) -> Answer:
        """Adds a task; the lower its priority, the sooner; dependencies are ids of tasks that must be done before.

        A check is a command in backticks that must succeed, or a sentence.
        """
        known = [task.id for task in self._read_tasks()]
        task_id = tasks.new_id(description, known)
        notes = [Note("verify", _one_line(criterion)) for criterion in verification_criteria]
        notes += [Note("after", name) for name in dependencies]
        notes += [] if priority is None else [Note("priority", str(priority))]
        if unknown := set(dependencies).difference(known):
            raise RalphError(f"{task_id} comes after {join_names(sorted(unknown))}, which is not a task")
        lines = tasks.format_task_lines([Task(id=task_id, text=_one_line(description), mark=" ", notes=notes)])
        if self._proposes:
            self._edit(progress.with_lines_added, "Proposed", lines)
        else:
            self._edit(progress.with_status, "IN_PROGRESS")  # with RALPH_DONE no run would begin it
            self._edit(progress.with_tasks_added, lines)
        return {"task_id": task_id, "status": "proposed" if self._proposes else "pending"}

    def increment_retry(self, task_id: str, reason: str = "") -> Answer:
        """Says that an attempt at this task failed, and why; after too many it is blocked."""
        return self._edit_unless_proposing(task_id, edits.with_failure, task_id, reason, self._settings.max_tries)

    def update_memory(self, addition: str) -> Answer:
        """Adds what the next iterations must know, in one line, to what ralph tells them anyway."""
        return self._add_note(f"MEMORY: {addition}")

    def _read_tasks(self) -> Sequence[Task]:
        """Returns the tasks, each with the id that an edit would give it."""
        self._file.read_or_restore()
        return tasks.read_tasks(edits.with_ids(self._file.text))

    def _find(self, task_id: str) -> Task:
        listed = self._read_tasks()
        if (task := tasks.find_task(listed, task_id)) is None:
            there = join_names([one.id for one in listed], 20) or "none"
            raise RalphError(f"there is no task {task_id}; there are: {there}")
        if self._proposes and task.mark != "~":
            raise RalphError(f"{task_id} is not the task of this iteration; ralph_get_next_task tells which is")
        return task

    def _why_checks_fail(self, task: Task) -> list[str]:
        """Returns why checks of the task fail, each with the end of its output."""
        settings = self._settings

        def run(command: str) -> acceptance.CheckResult:
            done = call_program(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=settings.verify_timeout or math.inf)
            return acceptance.CheckResult(done.code, f"ended with {done.code}", done.stdout.decode(errors="replace"))

        checks = acceptance.join_browser_actions(acceptance.parse_checks_of_tasks(task.self_and_completed_parents))
        ended = [
            acceptance.evaluate_check(one, base_url=settings.base_url or "", run_unless_interrupted=run)
            for one in checks
        ]
        return [one.failure_with_output for one in ended if one and one.why_failed]

    def _edit(self, change: Callable[..., bytes], *more: object, **named: str) -> None:
        new = progress.new_progress_text(self._plan.name, str(self._plan.path))
        self._file.edit(lambda text: change(edits.with_ids(text or new), *more, **named))

    def _edit_unless_proposing(self, task_id: str, change: Callable[..., bytes], *more: object, **named: str) -> Answer:
        """Edits the task, unless calls are only proposals; returns its status."""
        self._find(task_id)
        if not self._proposes:
            self._edit(change, *more, **named)
        answer = {"task_id": task_id, "status": self._find(task_id).status}
        if self._proposes:
            answer["note"] = "ralph checks it when your turn is over, and only then ticks it"
        return answer

    def _add_note(self, message: str) -> Answer:
        line = f"- [{timestamp()}] {_one_line(message)}"
        self._edit(progress.with_lines_added, "Notes", [line.encode(errors="replace")])
        return {"noted": line}


def _one_line(message: str) -> str:
    if not (line := " ".join(without_control_codes(message).split())):
        raise RalphError("there is no text")
    return line


def _task_facts(task: Task) -> Answer:
    why = task.note_values("failed") + task.note_values("blocked")
    return {**taskjson.task_as_json(task, "plan"), "retry_count": task.failed_tries, "why": why}
