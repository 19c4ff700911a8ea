"""A start: everything found and checked before money is spent."""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import denied, files, lock, options, progress, sources
from ralph.errors import RalphError
from ralph.options import Asked
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.prompt import Prompt, Value, folders
from ralph.screen.text import attended
from ralph.settings import Given, Settings
from ralph.state import State
from ralph.verdict import Reason, Stop, Tally, verdict
from ralph.words import plain

if TYPE_CHECKING:
    from ralph.taskjson import Imported


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What a start found: settings, texts and files, before anything is checked against the progress file."""

    asked: Asked
    plan: Path
    """Absolute, links followed."""
    name: str
    said: Sequence[Given]
    """What is said of settings everywhere but in templates."""
    said_mode: str
    """The mode that the progress file named; empty where that was none."""
    imported: "Imported | None"
    """The tasks that the plan holds as JSON."""
    progress_path: Path
    rehearsal: bool
    """A part of a rehearsal: notices say so, and no monitor is told."""
    mode: str = ""
    """The one that holds; with its settings and its template."""
    is_role: bool = False
    """That mode is a role of the task that is worked on."""
    settings: Settings = field(default_factory=Settings)
    template: Path = Path()
    template_text: str = ""

    def entered(self, mode: str, *, as_role: bool = False) -> "Start":
        """The same in that mode. Raises RalphError with all that is wrong with its settings and its template.

        A role is over once its task is, or when it is another one's turn, and never after one iteration.
        """
        settings, template, text = sources.of_mode(self.said, mode)
        settings.once &= not as_role
        if settings.mcp and not find_spec("mcp"):
            raise RalphError(f"{settings.said['mcp'].where}: needs the mcp package", fix="pip install 'ralph-sh[mcp]'")
        return replace(self, mode=mode, is_role=as_role, settings=settings, template=template, template_text=text)

    @property
    def strict(self) -> bool:
        """Whether ralph picks the tasks; a mode that is one iteration, such as plan, works on none."""
        return self.settings.strict and not self.settings.once

    @property
    def own(self) -> list[Path]:
        """Ralph's own files in the working tree, which are nobody's change."""
        return [path for path in (self.progress_path, self.settings.history) if path]

    @cached_property
    def tools_server(self) -> str:
        """The server of the task tools, as claude takes it; empty without one. Under strict they only propose."""
        if not self.settings.mcp:
            return ""
        words = ["-P", "-m", "ralph", "mcp", str(self.plan), "--progress-file", str(self.progress_path.absolute())]
        words += ["--propose"] if self.strict else []
        return json.dumps({"mcpServers": {"ralph": {"command": sys.executable, "args": words, "alwaysLoad": True}}})

    def begun(self, text: bytes) -> bytes:
        """The text of a progress file with the tasks of a plan in JSON, where it has none yet."""
        if not self.imported or progress.parse(text).tasks:
            return text
        return progress.with_tasks(text, self.imported.lines())

    def lacks(self, text: bytes) -> list[RalphError]:
        """What a plan in JSON has that the progress file with this text lacks."""
        told = self.imported and self.imported.left_out(text)
        return [RalphError(told)] if told else []

    def stuck(self, text: bytes) -> Stop | None:
        """Why --strict can begin nothing with this progress file. Raises RalphError with all that is wrong with it."""
        from ralph import tasklist  # noqa: PLC0415 - 40 ms that only --strict pays

        return tasklist.stuck(tasklist.check(text, self.progress_path.name, self.settings))

    def is_stale(self, now: Progress) -> bool:
        """Whether something has changed since ralph checked all that is ticked."""
        from ralph.changes import Changes  # noqa: PLC0415 - only --strict on a finished plan pays

        return self.settings.evidence and now.verified_commit != Changes(Path.cwd(), self.own).commit()

    def prompt(self) -> Prompt:
        """The template of this mode, compiled, with the variables that stay the same in every iteration."""
        settings = self.settings
        values: dict[str, Value] = {
            "PLAN_FILE": str(self.plan),
            "PROGRESS_FILE": str(self.progress_path),
            "PLAN_NAME": self.name,
            "AUTO_COMMIT": settings.auto_commit,
            "MAX_ITERATIONS": settings.max_iterations or "",
            "STRICT": settings.strict,
            "JOBS": settings.jobs,
            "VERIFY": settings.verify or "",
            "ONLY": [" & ".join(each) for each in product(*settings.only)] if settings.only else [],
            "DENIED": denied.told(settings.deny),
            "BROWSER": bool(settings.wrap or shutil.which("agent-browser")),
            "HISTORY_FILE": str(settings.history.absolute()) if settings.history else "",
        }
        return Prompt(self.template, self.template_text, folders(settings.prompts), values)


def run(asked: Asked) -> int:
    """Does what was asked; the exit code."""
    try:
        start = find(asked)
    except RalphError:
        if not _has_plan_back(asked):
            raise
        start = find(asked)
    state = State(start.name, start.progress_path)
    if asked.dry_run:
        from ralph.dry_run import show  # noqa: PLC0415 - as `session` below

        return show(start, state)
    if start.settings.interactive:
        from ralph.talk import talk  # noqa: PLC0415 - same

        following = talk(start, state)
        return run(following) if following else 0
    held = lock.acquire(lock.working_tree(Path.cwd()))
    file = ProgressFile(start.progress_path, state)
    now = file.read() if file.exists() else None
    check_place(start, now)
    if now and not held.dead_run() and (early := ends_at_once(start, state, file.text)):
        raise RalphError.of([early, *start.lacks(file.text)])
    from ralph.session import session  # noqa: PLC0415 - 60 ms that a start with nothing to do need not pay

    files.sweep(file.path)
    return session(start, file, state, held)


def find(asked: Asked) -> Start:
    """What a start finds, before anything is done. Raises RalphError with all that is wrong."""
    if not asked.plan:
        raise RalphError("no plan is named", fix="write ralph PLAN; ralph --help says more")
    plan = Path(asked.plan)
    text = files.held(plan)
    if not text and files.is_file(plan):
        raise RalphError(f"{plan}: has nothing in it that can be read", fix="write there what shall be done")
    if not text:
        raise RalphError(f"{plan}: No such file", fix=options.meant(asked.plan) or "name the plan first")
    name = files.plan_name(plan)
    said = sources.collected(plan, asked.given)
    progress_path = _progress_path(name, said)
    imported = None
    if plan.name.endswith(".json") or re.search(rb"(?:```|~~~)[ \t]*json", text, re.IGNORECASE):
        from ralph import taskjson  # noqa: PLC0415 - 10 ms that only plans in JSON pay

        imported = taskjson.of_plan(plan, text)
    now = progress.parse(files.held(progress_path))
    start = Start(
        asked=asked,
        plan=Path(os.path.realpath(plan)),
        name=name,
        said=said,
        said_mode=now.mode,
        imported=imported,
        progress_path=progress_path,
        rehearsal="RALPH_REHEARSAL" in os.environ,
    )
    mode = asked.mode
    if mode == "all" and not (now.mode or now.done or now.tasks or imported):
        mode = "plan"
    elif mode in ("", "all"):
        mode = "build" if now.done else now.mode or "build"
    try:
        return start.entered(mode)
    except RalphError as error:
        if mode == asked.mode or mode != now.mode:
            raise
        entered = start.entered("build")
        entered.settings.remarks.append(RalphError(f"{progress_path}: Mode: {mode} is ignored: {error.message}"))
        return entered


def _progress_path(name: str, said: Sequence[Given]) -> Path:
    return sources.alone(said, "RALPH_PROGRESS_FILE").progress_file or Path(f"{name}_PROGRESS.md")


def _has_plan_back(asked: Asked) -> bool:
    """Whether the plan is there again, since it was an iteration that removed it in which ralph died."""
    plan = Path(asked.plan)
    if not asked.plan or os.path.lexists(plan):
        return False
    from ralph.recovery import put_plan_back  # noqa: PLC0415 - 60 ms, after a death alone

    name = files.plan_name(plan)
    with contextlib.suppress(OSError):  # the folder that we are in may be gone
        if put_plan_back(State(name, _progress_path(name, sources.collected(plan, asked.given))), plan):
            print(plain(f"ralph: {plan} was removed in the iteration in which ralph died: put back"), file=sys.stderr)
            return True
    return False


def ends_at_once(start: Start, state: State, text: bytes) -> RalphError | None:
    """Why a start that finds this progress file has nothing to do, and what there is to do; None when it has."""
    path = start.progress_path
    now = progress.parse(text)
    if now.blocked_by_ralph and attended():
        now = progress.parse(progress.without_own_block(text))
    if state.died() and now.blocked is None:
        return None  # what the run wrote that died was never checked
    stop = verdict(now, Tally(), start.settings)
    if stop and stop.reason is Reason.DONE and start.strict and start.is_stale(now):
        return None
    ready = (now.tasks and not now.open) or (start.imported and not now.tasks)
    if not stop and start.strict and not ready:
        stop = start.stuck(text)
    if not stop:
        return None
    what = f"is {stop.reason.label}"
    fix = stop.next_move(str(path)) or f"edit {path}"
    if stop.reason is Reason.LIMIT:
        what = "goes no further"
        fix = "allow it more to go on"
    elif stop.reason is Reason.DONE:
        fix = f"take RALPH_DONE out of {path} to go on"
    return RalphError(f"{start.name} {what}: {stop.why}".removesuffix(": "), stop.reason.code, fix=fix, for_people=True)


def check_place(start: Start, now: Progress | None) -> None:
    """Raises RalphError where the progress file, None if it is missing, is another plan's, or lies elsewhere.

    Two plans of one name would share their progress, and cron in the wrong folder would start all over.
    """
    path = start.progress_path
    beside = start.plan.with_name(f"{start.name}_PROGRESS.md")
    other = Path(now.plan or start.plan) if now else start.plan
    if other.exists() and not other.samefile(start.plan):
        fix = "rename one of them, or give this one its own with --progress-file"
        raise RalphError(f"{path} belongs to another plan, {other}", fix=fix)
    if not now and not start.settings.progress_file and beside.exists():
        fix = f"start ralph with -C {shlex.quote(str(beside.parent))}"
        raise RalphError(f"{path} is not in {Path.cwd()}, but there is one beside the plan", fix=fix)
