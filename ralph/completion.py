"""What the shell offers at Tab: verbs and plans first, then modes and options. By click, for bash, zsh and fish."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SPECIAL = re.compile(r"([^\w@%+=:,./~-])")
_ESCAPED = r"\\\1"
_LIST = re.compile(rb'"(?:requirements|tasks|userStories|stories)"\s*:')
VARIABLE = "_RALPH_COMPLETE"
"""Where the shell says what it wants; the scripts that click makes for the shells set it."""

_Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem] | list[str]"]


class _Words(click.Group):
    """The command line as a whole: verb first, or plan first for a run."""

    def __init__(self, run: click.Command, verbs: dict[str, click.Command]) -> None:
        super().__init__("ralph", commands=verbs)
        self._run = run

    def resolve_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's own signature
        args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A verb with what follows it, else a run with all of it."""
        verb = self.commands.get(args[0])
        return (args[0], verb, args[1:]) if verb else ("ralph", self._run, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The first word: a verb or a plan, or an option of a run."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks for it

        run = self._run.make_context("ralph", [], parent=ctx, resilient_parsing=True)
        if incomplete.startswith("-"):
            return self._run.shell_complete(run, incomplete)
        verbs = [name for name in sorted(self.commands) if name.startswith(incomplete)]
        return [CompletionItem(word) for word in (*verbs, *plans(run, self._run.params[0], incomplete))]


def complete(run: click.Command, instruction: str) -> int:
    """Prints what the shell asked for: the script that sets it up, or what may stand next; the exit code."""
    from click.shell_completion import shell_complete  # noqa: PLC0415 - only the shell asks for it

    from ralph.verbs import VERBS  # noqa: PLC0415 - as above

    _teach_bash()
    words = _Words(run, VERBS)
    words.context_settings = {"ignore_unknown_options": True, "help_option_names": []}
    return shell_complete(words, {}, "ralph", VARIABLE, instruction)


def _teach_bash() -> None:
    """Names with blanks or quotes come escaped, and after a folder one can go on."""
    from click.shell_completion import BashComplete, add_completion_class  # noqa: PLC0415 - only the shell asks for it

    class Bash(BashComplete):
        source_template = BashComplete.source_template.replace("read type", "read -r type").replace(
            "COMPREPLY+=($value)", 'COMPREPLY+=("$value"); [[ $value == */ ]] && compopt -o nospace'
        )

        def format_completion(self, item: "CompletionItem") -> str:
            return f"{item.type},{re.sub(_SPECIAL, _ESCAPED, item.value)}"

    add_completion_class(Bash)


def plans(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Markdown files but for the progress files, JSON with a list of tasks, and folders that may hold some."""
    folder, _, begun = incomplete.rpartition("/")
    base = Path(context.params.get("folder") or ".")
    place = base / Path(folder or ("/" if incomplete.startswith("/") else ".")).expanduser()
    before = incomplete[: len(incomplete) - len(begun)]
    return [
        before + path.name + "/" * path.is_dir()
        for path in sorted(place.glob("*"))
        if path.name.startswith(begun) and not path.name.startswith(".") and _is_offered(path)
    ]


def _is_offered(path: Path) -> bool:
    if path.is_dir() or path.suffix == ".md":
        return not path.name.endswith("_PROGRESS.md")
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as file:
            return _LIST.search(file.read(4096)) is not None
    except OSError:
        return False


def modes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Every mode that has a template."""
    from ralph import prompt  # noqa: PLC0415 - only asked for at the second word

    return [mode for mode in prompt.modes(prompt.folders(None)) if mode.startswith(incomplete)]


def one_of(words: Sequence[str]) -> _Offer:
    """These words."""

    def offer(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offer


def a_path(kind: str) -> _Offer:
    """What the shell itself knows best: `file` or `dir`."""

    def offer(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks for it

        return [CompletionItem(incomplete, type=kind)]

    return offer
