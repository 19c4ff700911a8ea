"""Prompt templates: found by mode, and rendered to the agent's prompt."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph import files
from ralph.errors import RalphError

Value = str | int | bool | Sequence[str]
"""The value of a variable: a text appears unchanged, whatever is in it; a list is for `{% for %}`."""

# The variables of an iteration that a template may use; those without a value are empty.
_VARIABLES = (
    "ITERATION",
    "MEMORY",
    "RED_START",
    "TASK_ID",
    "TASK",
    "CRITERIA",
    "HELD",
    "CLAIMED",
    "UNCHECKED",
    "FAILURES",
    "TOUCHED",
    "TEST_CHANGES",
    "TRY",
    "SESSION",
    "CAN_RUN",
)
# How templates of ralph.sh write a variable.
_OF_RALPH_SH = re.compile(r"\$\{(PLAN_FILE|PROGRESS_FILE|PLAN_NAME|AUTO_COMMIT)\}")
# A hint for commands in templates, which may well contain `{{` or `{#`.
_AS_TEXT = "around what is not Jinja, write {% raw %} and {% endraw %}"


def _template_folders(extra_prompts: Path | None) -> tuple[Path, ...]:
    """The folders to search for templates, beginning with the user's own `extra_prompts`; the first match wins."""
    places = (extra_prompts, Path(".ralph"), Path.home() / ".ralph", files.builtin_folder("prompts"))
    return tuple(place for place in places if place)


def custom_template_texts(extra_prompts: Path | None) -> dict[str, str]:
    """The text of each template that is not ralph's own, by file name."""
    weakest_first = reversed(_template_folders(extra_prompts)[:-1])
    return {
        path.name: files.read_or_empty(path).decode(errors="surrogateescape")
        for place in weakest_first
        for path in place.glob("*.md")
    }


def available_modes(extra_prompts: Path | None) -> list[str]:
    """Every mode that has a template somewhere."""
    found = (path for place in _template_folders(extra_prompts) for path in place.glob("PROMPT_*.md"))
    return sorted({path.stem.removeprefix("PROMPT_") for path in found})


def find_template(mode: str, extra_prompts: Path | None) -> tuple[Path, str]:
    """The path and text of a mode's template. Raises RalphError, with the modes that there are."""
    for place in _template_folders(extra_prompts) if re.fullmatch(r"[\w-]+", mode) else ():
        path = place / f"PROMPT_{mode}.md"
        with files.os_errors_as_ralph_errors(path, "read"):
            if path.is_file():
                return path, path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    there = f"there are {', '.join(available_modes(extra_prompts))} (a mode is a PROMPT_<mode>.md)"
    raise RalphError(f'"{mode}" is not a mode', fix=there)


class PromptTemplate:
    """A template that can be rendered. Its constructor raises RalphError for anything that is wrong with it.

    `values` are the variables that stay the same.
    """

    def __init__(self, path: Path, text: str, prompts: Path | None, values: dict[str, Value]):
        from jinja2 import (  # noqa: PLC0415 - 33 ms that a run with nothing to do should not pay
            FileSystemLoader,
            TemplateSyntaxError,
            meta,
            sandbox,
        )

        self._path = path
        environment = sandbox.SandboxedEnvironment(
            finalize=lambda value: str(value).lower() if isinstance(value, bool) else value,
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
            loader=FileSystemLoader(_template_folders(prompts)),
        )
        try:
            tree = environment.parse(_OF_RALPH_SH.sub(r"{{ \1 }}", text))
            known = (*values, *_VARIABLES)
            for name in sorted(meta.find_undeclared_variables(tree).difference(known)):
                raise RalphError(f"{path}: {name} is not a variable; there are {', '.join(known)}", fix=_AS_TEXT)
            self._template = environment.from_string(tree, globals=values)
        except TemplateSyntaxError as error:
            raise RalphError(f"{path}:{error.lineno}: {error.message}", fix=_AS_TEXT) from error
        self.render({"ITERATION": 1})

    def render(self, values: Mapping[str, Value]) -> str:
        """Returns what the agent reads on its standard input; names and texts appear in it unchanged."""
        try:
            text = self._template.render(values).lstrip("\n")
        except Exception as error:  # a template can cause any error, such as by including itself
            raise RalphError(f"{self._path}: {error}") from error
        if not text.strip():
            raise RalphError(f"{self._path}: renders to nothing", fix="write what the agent should do")
        # The real agent takes a leading `/` for one of its own commands and does nothing.
        return "\n" + text if text.startswith("/") else text
