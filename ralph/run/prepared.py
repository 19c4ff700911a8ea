"""A start that is prepared: what was found, before anything is checked against the progress file."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.progress import Progress
from ralph.plan.prompt import Prompt, Value, available_modes, template_folders
from ralph.run.verdict import Stop
from ralph.settings import denied, sources
from ralph.settings.options import Invocation
from ralph.settings.table import GivenSetting, Settings, agent_variable_name

if TYPE_CHECKING:
    from ralph.agent.command import Agent
    from ralph.plan.taskjson import ImportedTasks  # 10 ms that only plans in JSON pay


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedStart:
    """What a start found: settings, texts and files, before anything is checked against the progress file."""

    asked: Invocation
    plan: Path
    """Absolute, links followed."""
    name: str
    given: Sequence[GivenSetting]
    """The settings given everywhere but in templates."""
    said_mode: str
    """The mode that the progress file named; empty where that was none."""
    imported: "ImportedTasks | None"
    """The tasks that the plan holds as JSON."""
    progress_path: Path
    rehearsal: bool
    """A part of a rehearsal: notices say so, and no monitor hears of it."""
    mode: str = ""
    """The one that holds; with its settings and its template."""
    is_role: bool = False
    """That mode is a role of the task that is worked on."""
    settings: Settings = field(default_factory=Settings)
    template: Path = Path()
    template_text: str = ""

    def in_mode(self, mode: str, *, as_role: bool = False) -> "PreparedStart":
        """The start in that mode. Raises RalphError with all that is wrong with its settings and its template.

        A role is over once its task is, or when it is another one's turn, and never after one iteration.
        """
        settings, template, text = sources.settings_of_mode(self.given, mode)
        settings.once &= not as_role
        if settings.mcp and not find_spec("mcp"):
            raise RalphError(f"{settings.given['mcp'].where}: needs the mcp package", fix="pip install 'mcp>=2'")
        return replace(self, mode=mode, is_role=as_role, settings=settings, template=template, template_text=text)

    @property
    def is_strict_build(self) -> bool:
        """Whether ralph picks the tasks; a mode that is one iteration, such as plan, works on none."""
        return self.settings.strict and not self.settings.once

    @cached_property
    def agents(self) -> "list[Agent]":
        """Those of the mode. Raises RalphError for what one of them cannot do."""
        from ralph.agent.command import choose_agents  # noqa: PLC0415 - only a run that continues pays

        return choose_agents(self.settings, self.asked.agent_arguments)

    def with_own_agents(self) -> list["PreparedStart"]:
        """The start in each mode for which an agent of its own is named."""
        modes = available_modes(template_folders(self.settings.prompts))
        return [
            self.in_mode(mode) for mode in modes if agent_variable_name(mode) in {one.variable for one in self.given}
        ]

    @property
    def own_files(self) -> list[Path]:
        """Ralph's own files in the working tree, which are nobody's change."""
        return [path for path in (self.progress_path, self.settings.history) if path]

    @cached_property
    def tools_server(self) -> str:
        """The server of the task tools, as claude takes it; empty without one. Under strict they only propose."""
        if not self.settings.mcp:
            return ""
        words = ["-P", "-m", "ralph", "mcp", str(self.plan), "--progress-file", str(self.progress_path.absolute())]
        words += ["--propose"] if self.is_strict_build else []
        return json.dumps({"mcpServers": {"ralph": {"command": sys.executable, "args": words, "alwaysLoad": True}}})

    def with_imported_tasks(self, text: bytes) -> bytes:
        """The text of a progress file with the tasks of a plan in JSON, where it has none yet."""
        if not self.imported or progress.parse(text).tasks:
            return text
        return progress.with_tasks(text, self.imported.lines())

    def imported_tasks_missing_from(self, text: bytes) -> list[RalphError]:
        """What a plan in JSON has that the progress file with this text lacks."""
        message = self.imported and self.imported.missing_from(text)
        return [RalphError(message)] if message else []

    def why_stuck(self, text: bytes) -> Stop | None:
        """Why --strict can begin nothing with this progress file. Raises RalphError with all that is wrong with it."""
        from ralph.run import tasklist  # noqa: PLC0415 - 40 ms that only --strict pays

        return tasklist.stop_where_stuck(tasklist.validate_list(text, self.progress_path.name, self.settings))

    def is_verified_stale(self, now: Progress) -> bool:
        """Whether something has changed since ralph checked all that is ticked."""
        from ralph.git.changes import Changes  # noqa: PLC0415 - only --strict on a finished plan pays

        changes = Changes(Path.cwd(), self.own_files)
        changes.begin()
        return self.settings.evidence and now.verified_commit != changes.identify_tree()

    def load_prompt(self) -> Prompt:
        """The template of this mode, compiled once. Raises RalphError with all that is wrong with it."""
        return self._prompt

    @cached_property
    def _prompt(self) -> Prompt:
        """With the variables that stay the same in every iteration."""
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
            "DENIED": denied.describe_denied(settings.deny),
            "BROWSER": bool(settings.wrap or shutil.which("agent-browser")),
            "HISTORY_FILE": str(settings.history.absolute()) if settings.history else "",
        }
        return Prompt(self.template, self.template_text, template_folders(settings.prompts), values)
