"""A start: everything found and checked before money is spent."""

import os
import re
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files, lock, progress, sources
from ralph.errors import RalphError
from ralph.options import Asked
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.prompt import Prompt, Value, folders
from ralph.screen.text import attended
from ralph.settings import Settings
from ralph.state import State
from ralph.verdict import Reason, Stop, Tally, verdict
from ralph.words import plain

if TYPE_CHECKING:
    from ralph.run import Pace
    from ralph.taskjson import Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a start found: settings, texts and files, before anything is checked against the progress file."""

    asked: Asked
    plan: Path
    """Absolute, links followed."""
    name: str
    settings: Settings
    template: Path
    template_text: str
    imported: "Imported | None"
    """The tasks that the plan holds as JSON."""
    progress_path: Path
    rehearsal: bool
    """A part of a rehearsal: notices say so, and no monitor is told."""

    @property
    def strict(self) -> bool:
        """Whether ralph picks the tasks; a mode that is one iteration, such as plan, works on none."""
        return self.settings.strict and not self.settings.once

    @property
    def values(self) -> dict[str, Value]:
        """The variables of the template that stay the same in every iteration."""
        return {
            "PLAN_FILE": str(self.plan),
            "PROGRESS_FILE": str(self.progress_path),
            "PLAN_NAME": self.name,
            "AUTO_COMMIT": self.settings.auto_commit,
            "MAX_ITERATIONS": self.settings.max_iterations or "",
            "STRICT": self.settings.strict,
            "VERIFY": self.settings.verify or "",
            "ONLY": self.settings.only,
            "HISTORY_FILE": str(self.settings.history.absolute()) if self.settings.history else "",
        }

    @property
    def own(self) -> list[Path]:
        """Ralph's own files in the working tree, which are nobody's change."""
        return [self.progress_path, *([self.settings.history] if self.settings.history else [])]

    def prompt(self) -> Prompt:
        """The template, compiled and rendered once to see that it can be."""
        made = Prompt(self.template, self.template_text, folders(self.settings.prompts), self.values)
        made.render({"ITERATION": 1})
        return made

    def warnings(self) -> list[str]:
        """What deserves a word before the first iteration."""
        path = sources.home_file()
        secrets = f"{path} can be read by others and may hold secrets: chmod 600 {path}"
        return [*self.settings.dropped, *([secrets] if sources.open_to_others(path) else [])]


def run(asked: Asked, pace: "Pace | None" = None) -> int:
    """Does what was asked; the exit code. Another pace is for who has less time."""
    start = find(asked)
    if asked.dry_run:
        return _show(start)
    state = State(start.name, start.progress_path)
    held = lock.acquire(lock.working_tree(Path.cwd()))
    file = ProgressFile(start.progress_path, state)
    if (stop := _early_stop(start, file, state, held)) is None:
        from ralph.session import session  # noqa: PLC0415 - a start on a finished plan need not load all of it

        code = session(start, file, state, held, pace)
    else:
        code = stop.reason.code
        if attended():
            lines = [told(start, file.last, stop).message]
            if start.imported:
                from ralph import taskjson  # noqa: PLC0415 - few plans hold JSON

                if missing := taskjson.left_out(start.imported, file.text, start.progress_path):
                    lines.append("; ".join(missing))
            print("\n".join(f"ralph: {plain(line)}" for line in lines))
    held.release()
    return code


def find(asked: Asked) -> Start:
    """What a start finds, before anything is done. Raises RalphError with all that is wrong."""
    plan = Path(asked.plan)
    text = _text(plan)
    name = files.plan_name(plan)
    of_plan = sources.of_plan(text, plan.name)
    settings, template, template_text = sources.everywhere(asked.given, of_plan, asked.mode)
    progress_path = settings.progress_file or Path(f"{name}_PROGRESS.md")
    if settings.history:
        from ralph import tries  # noqa: PLC0415 - few keep one

        tries.check(settings.history, settings.said["history"], plan=plan, progress_path=progress_path)
    return Start(
        asked=asked,
        plan=Path(os.path.realpath(plan)),
        name=name,
        settings=settings,
        template=template,
        template_text=template_text,
        imported=_tasks_in_json(plan, text),
        progress_path=progress_path,
        rehearsal="RALPH_REHEARSAL" in os.environ,
    )


def _text(plan: Path) -> bytes:
    try:
        if not stat.S_ISREG(plan.stat().st_mode):
            raise RalphError(f"{plan}: is no file", fix="a plan is a text that says what to build")
        text = plan.read_bytes()
    except OSError as error:
        raise RalphError(f"{plan}: {error.strerror}", fix="name the plan first") from error
    if not text:
        raise RalphError(f"{plan}: is empty", fix="write what shall be built")
    return text


def _show(start: Start) -> int:
    from ralph.agent import command as agent  # noqa: PLC0415 - a start on a finished plan needs none

    earlier = State(start.name, start.progress_path).iterations
    values = {**_of_task(start), "ITERATION": earlier + 1}
    text = start.prompt().render(values | ({"MAX_ITERATIONS": ""} if earlier else {}))
    thinking = "MAX_THINKING_TOKENS=0 " if start.settings.effort == "none" else ""  # claude has no flag for it
    print(thinking + shlex.join(agent.argv(start.settings, start.asked.agent_arguments)))
    print()
    print(text.encode(errors="surrogateescape").decode(errors="replace"), end="")
    return 0


def _tasks_in_json(plan: Path, text: bytes) -> "Imported | None":
    """What a plan that may hold tasks in JSON says of them."""
    if not plan.name.endswith(".json") and not re.search(rb"(?:```|~~~)[ \t]*json", text, re.IGNORECASE):
        return None
    from ralph import taskjson  # noqa: PLC0415 - few plans hold JSON, and it needs what else only strict does

    return taskjson.of_plan(plan, text)


def _of_task(start: Start) -> dict[str, Value]:
    """What the prompt would say of the first task, under --strict."""
    if not start.strict:
        return {}
    from ralph import tasklist, tasks  # noqa: PLC0415 - nothing else needs it so early

    text = start.progress_path.read_bytes() if start.progress_path.is_file() else b""
    if start.imported and not progress.parse(text).tasks:
        text = progress.with_tasks(text, tasks.lines(start.imported.tasks))
    listed = tasklist.check(text, start.progress_path.name, start.settings)
    if (task := tasks.select(listed)) is None:
        stop = tasklist.stuck(listed, start.progress_path.name)
        raise RalphError(f"there is no prompt to show: {stop.why if stop else 'every task is ticked'}", 4)
    return tasklist.values(task, listed, tasklist.token())


def _early_stop(start: Start, file: ProgressFile, state: State, held: lock.Lock) -> Stop | None:
    """Why there is nothing to do; None when there is."""
    now = file.read() if file.exists() else None
    check_place(start, now)
    if now is None or held.dead_run():
        return None  # what a dead run left running has to be ended, whatever the file says
    return ends_at_once(start, now, state, file.text)


def ends_at_once(start: Start, now: Progress, state: State, text: bytes) -> Stop | None:
    """Why a start that finds this progress file has nothing to do; None when it has. `text` are the file's bytes."""
    if now.blocked_by_ralph and attended():
        now = progress.parse(progress.without_own_block(text))
    if now.done and state.died() is not None:
        now = progress.parse(progress.without_done(text))  # what a run wrote that died was never checked
    stop = verdict(now, Tally(), start.settings)
    ready = bool(now.tasks and not now.open) or bool(start.imported and not now.tasks)
    if stop is None and start.strict and not ready and state.died() is None:
        from ralph import tasklist  # noqa: PLC0415 - other starts need not load it

        name = start.progress_path.name
        stop = tasklist.stuck(tasklist.check(text, name, start.settings), name)
    return stop


def told(start: Start, now: Progress, stop: Stop) -> RalphError:
    """The same in words, with what there is to do."""
    path = str(start.progress_path)
    left = f" ({len(now.open)} of {len(now.tasks)} tasks unticked)" if stop.reason is Reason.DONE and now.open else ""
    what = "goes no further" if stop.reason is Reason.LIMIT else f"is {stop.reason.label}{left}"
    others = {Reason.DONE: f"take RALPH_DONE out of {path} to go on", Reason.LIMIT: "allow it more to go on"}
    fix = stop.next_move(path) or others.get(stop.reason, f"edit {path}")
    why = "" if not stop.why or stop.reason is Reason.STOPPED else f": {stop.why}"
    return RalphError(f"{start.name} {what}{why}", stop.reason.code, fix=fix)


def check_place(start: Start, now: Progress | None) -> None:
    """Raises RalphError where the progress file, None if it is missing, is another plan's, or lies elsewhere.

    Two plans of one name would share their progress, and cron in the wrong folder would start all over.
    """
    path, beside = start.progress_path, start.plan.with_name(f"{start.name}_PROGRESS.md")
    if now and now.plan and (other := Path(now.plan)).exists() and not other.samefile(start.plan):
        fix = "rename one of them, or give this one its own with --progress-file"
        raise RalphError(f"{path} belongs to another plan, {other}", fix=fix)
    if now or start.settings.progress_file or not beside.exists() or beside.parent == Path.cwd().resolve():
        return
    what = f"{path} is not in {Path.cwd()}, but there is one beside the plan"
    raise RalphError(what, fix=f"start ralph with -C {shlex.quote(str(beside.parent))}")
