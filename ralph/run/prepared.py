"""A prepared start: settings, texts and files, before any of it is checked against the progress file."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.progress import Progress, Task
from ralph.plan.prompt import PromptTemplate, Value, available_modes
from ralph.settings import sources
from ralph.settings.options import Invocation
from ralph.settings.table import DENY_LISTS, GivenSetting, Settings, agent_variable_name
from ralph.store.state import State

if TYPE_CHECKING:
    from ralph.agent.command import Agent
    from ralph.plan.taskjson import ImportedTasks  # 10 ms that only plans in JSON pay


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedStart:
    """What a start found, for one mode: settings, texts and files."""

    asked: Invocation
    plan: Path
    """An absolute path, with links followed."""
    name: str
    given: Sequence[GivenSetting]
    """All given settings except those of templates."""
    progress_before: Progress
    """The progress file as it was found."""
    imported: "ImportedTasks | None"
    """The tasks in a plan in JSON."""
    progress_path: Path
    rehearsal: bool
    """Whether this is a rehearsal: notices say so, and no monitor is pinged."""
    mode: str = ""
    """The mode in force."""
    is_role: bool = False
    """Whether that mode is a role of the current task."""
    settings: Settings = field(default_factory=Settings)

    def in_mode(self, mode: str, *, as_role: bool = False) -> "PreparedStart":
        """Returns a copy for that mode. Raises RalphError with all that is wrong with its settings and template.

        A role never ends after one iteration: it ends with its task, or when the next role begins.
        """
        settings = sources.settings_of_mode(self.given, mode)
        settings.once &= not as_role
        if settings.mcp and not find_spec("mcp"):
            raise RalphError(f"{settings.given['mcp'].where}: needs the mcp package", fix="pip install 'mcp>=2'")
        return replace(self, mode=mode, is_role=as_role, settings=settings)

    @property
    def is_strict_loop(self) -> bool:
        """Whether ralph picks the tasks; in a mode of one iteration, such as plan, it does not."""
        return self.settings.strict and not self.settings.once

    @cached_property
    def state_folder(self) -> State:
        """The plan's state folder."""
        return State(self.name, self.progress_path)

    @cached_property
    def agents(self) -> "list[Agent]":
        """The agents of the mode. Raises RalphError if one of them cannot do what the settings ask."""
        from ralph.agent.command import choose_agents  # noqa: PLC0415 - only a run that continues pays

        return choose_agents(self.settings, self.asked.agent_arguments)

    def copies_for_modes_with_own_agent(self) -> list["PreparedStart"]:
        """Returns a copy for each mode that has an agent of its own."""
        modes = available_modes(self.settings.prompts)
        named = {one.variable for one in self.given}
        return [self.in_mode(mode) for mode in modes if agent_variable_name(mode) in named]

    @property
    def files_ralph_writes(self) -> list[Path]:
        """The files in the working tree that are ralph's own and never count as changes."""
        return [path for path in (self.progress_path, self.settings.history) if path]

    @cached_property
    def tools_server_as_json(self) -> str:
        """The tools server in the form that claude takes; empty without one. Under --strict it only proposes."""
        if not self.settings.mcp:
            return ""
        words = ["-P", "-m", "ralph", "mcp", str(self.plan), "--progress-file", str(self.progress_path.absolute())]
        words += ["--propose"] if self.is_strict_loop else []
        return json.dumps({"mcpServers": {"ralph": {"command": sys.executable, "args": words, "alwaysLoad": True}}})

    def with_imported_tasks(self, progress_text: bytes) -> bytes:
        """Returns the progress file's text with the tasks of a plan in JSON, if it has none yet."""
        if not self.imported or progress.parse(progress_text).tasks:
            return progress_text
        return progress.with_tasks_added(progress_text, self.imported.lines)

    def read_valid_tasks(self, text: bytes) -> Sequence[Task]:
        """Returns the tidied tasks of this progress file. Raises RalphError with all that is wrong with them."""
        from ralph.run.acceptance import validate_list  # noqa: PLC0415 - 40 ms that only --strict pays

        return validate_list(text, self.progress_path.name, self.settings)

    def has_tree_changed_since_verified(self, now: Progress) -> bool:
        """Whether something has changed since ralph last checked all ticked tasks."""
        from ralph.git.changes import ChangeFinder  # noqa: PLC0415 - only --strict on a finished plan pays

        changes = ChangeFinder(Path.cwd(), self.files_ralph_writes)
        changes.take_first_look()
        return self.settings.evidence and now.verified_tree_version != changes.tree_version()

    @cache  # noqa: B019 - a run has one for each of its modes
    def load_mode_prompt(self) -> PromptTemplate:
        """Returns the prompt template of this mode, with the variables that are the same in every iteration.

        Raises RalphError with all that is wrong with it.
        """
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
            "DENIED": [
                "{} ({})".format(*DENY_LISTS[one]) if one in DENY_LISTS else f"`{one}`" for one in settings.deny
            ],
            "BROWSER": bool(settings.wrap or shutil.which("agent-browser")),
            "HISTORY_FILE": str(settings.history.absolute()) if settings.history else "",
        }
        return PromptTemplate(settings.template, settings.template_text, settings.prompts, values)
