"""The options of the command line that stand for settings, and what a command line asks for by them."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph import prompt
from ralph.errors import RalphError
from ralph.screen import Detail
from ralph.settings import BY_VARIABLE, DROPPED, ON_COMMAND_LINE, Given, Setting, Source, texts_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ralph.start import Asked

VERBS = ("status", "log", "report", "export", "rehearse", "doctor", "notify", "config")
"""First words that are no plan."""


class Words(click.Choice[str]):
    """Offered by the shell; whether it is one of them is said later, with all else that is wrong."""

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> Any:
        """The text as it is."""
        return value


class _Place(click.Path):
    """The same of a file or a folder."""

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> Any:
        return value


FILE, FOLDER = _Place(), _Place(file_okay=False)
_KINDS = {"FILE": FILE, "DIR": FOLDER, "COMMAND": FILE, "GLOB": FILE}


def plans(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """What may be a plan in this folder; where nothing is, the shell looks for a file itself, in other folders too."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks for it

    return [CompletionItem(name) for name in _plans_here() if name.startswith(incomplete)] or [
        CompletionItem(incomplete, type="file")
    ]


def _plans_here() -> list[str]:
    found = (path for path in sorted(Path().glob("[!.]*")) if path.suffix in (".md", ".json"))
    return [path.name for path in found if not path.name.endswith("_PROGRESS.md")]


def _modes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [mode for mode in prompt.modes(prompt.folders(None)) if mode.startswith(incomplete)]


def _first_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[Any]":
    offer: Callable[..., list[Any]] = _modes if context.params.get("requirements") else plans
    return offer(context, parameter, incomplete)


def of_a_run() -> list[click.Parameter]:
    """Plan, mode and number, and an option for each setting."""
    return [
        click.Argument(["plan"], required=False, shell_complete=_first_word),
        click.Argument(["mode"], required=False, shell_complete=_modes),
        click.Argument(["number"], required=False, metavar="[MAX_ITERATIONS]"),
        click.Option(["--requirements"], type=FILE, hidden=True),  # the plan, as ralph1 has it
        *map(_option, ON_COMMAND_LINE),
        *(click.Option([variable, _name(variable)], hidden=True) for variable in DROPPED),
    ]


def _name(variable: str) -> str:
    return "--" + variable.removeprefix("RALPH_").lower().replace("_", "-")


def _option(setting: Setting) -> click.Option:
    default = f"; default: {setting.default}" if setting.default else ""
    shown = f"{setting.meaning}  [{setting.variable}{default}]"
    if not setting.metavar:
        return click.Option([f"--{setting.name}/--no-{setting.name}"], default=None, help=shown)
    return click.Option(
        [setting.field, f"--{setting.name}", *([f"--{setting.alias}"] if setting.alias else [])],
        metavar=setting.metavar,
        multiple=setting.many,
        help=shown,
        type=Words(setting.words) if setting.words else _KINDS.get(setting.metavar),
    )


def asked(said: Mapping[str, Any], rest: Sequence[str]) -> "Asked":
    """What these words and options ask for; `rest` is for the agent."""
    from ralph.start import Asked  # noqa: PLC0415 - --help need not load it

    plan, mode, number = _words(said)
    given = [
        _given(setting.variable, text, f"--{setting.name}")
        for setting in ON_COMMAND_LINE
        for text in _texts(said[setting.field])
    ]
    given += [_given(name, text, _name(name)) for name in DROPPED for text in _texts(said[name])]
    if number is not None:
        given.append(_given("RALPH_MAX_ITERATIONS", number, "MAX_ITERATIONS"))
    return Asked(
        plan=plan or "",
        mode=mode or "build",
        given=given,
        agent_arguments=rest,
        dry_run=said.get("dry_run", False),
        detail=Detail.of(quiet=said.get("quiet", False), verbose=said.get("verbose", False)),
        spinner=not said.get("no_spinner", False),
        rehearsal=said.get("rehearsal", False),
    )


def _given(variable: str, text: str, where: str) -> Given:
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=where)


def _texts(value: str | tuple[str, ...] | bool | None) -> Sequence[str]:
    """What an option says: nothing, one thing or several."""
    if isinstance(value, tuple):
        return value
    return [] if value is None else [str(value).lower() if isinstance(value, bool) else value]


def _words(said: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Plan, mode and number; with --requirements the plan may be missing, and the others stand one word earlier."""
    words = [word for word in (said["plan"], said["mode"], said["number"]) if word is not None]
    if (file := said["requirements"]) is not None:
        if words and _is_same(words[0], file):
            words = words[1:]
        elif words and not re.fullmatch(r"[\w-]+", words[0]):  # the form of a mode
            raise RalphError(f"{words[0]} and --requirements {file} are two plans", fix="leave one of them out")
        words = [file, *words]
    plan, mode, number, *more = [*words, None, None, None]
    if mode and re.fullmatch("[0-9]+", mode):
        mode, number, more = None, mode, [number, *more]
    if many := next(filter(None, more), None):
        raise RalphError(f"{many} is a word too many", fix="write ralph PLAN MODE MAX_ITERATIONS, in this order")
    if said_of_a_flag := {mode, number} & {"true", "false"}:
        fix = "--wait and --auto-commit take no value: write --no-wait or --no-auto-commit for false"
        raise RalphError(f"{said_of_a_flag.pop()} is a word too many", fix=fix)
    return plan, mode, number


def _is_same(plan: str, other: str) -> bool:
    try:
        return Path(plan) == Path(other) or Path(plan).samefile(other)
    except OSError:
        return False


def meant(asked: "Asked") -> str:
    """What is likely meant where the first word is no plan: a verb, a plan, or a mode that stands first."""
    import difflib  # noqa: PLC0415 - only a typing mistake needs it

    modes = prompt.modes(prompt.folders(None))
    near = "".join(difflib.get_close_matches(asked.plan, [*modes, *VERBS, *_plans_here()], n=1, cutoff=0.7))
    plan = asked.mode if Path(asked.mode).is_file() else ""
    words = [plan or "PLAN", near] if near in modes else [near, plan] if near in VERBS else [near, asked.mode]
    return f"did you mean ralph {shlex.join(filter(None, words))}?" if near else ""


def arguments(asked: "Asked") -> list[str]:
    """The words after `ralph` that ask for the same."""
    given: dict[str, list[str]] = {}
    for one in asked.given:
        if one.variable in BY_VARIABLE:
            texts = given.setdefault(one.variable, [])
            if not texts or BY_VARIABLE[one.variable].many:  # else the first is the one that counts
                texts += texts_of(one)
    said = [word for name, texts in given.items() for text in texts for word in _words_for(BY_VARIABLE[name], text)]
    plan = f"./{asked.plan}" if asked.plan in (*VERBS, "help") or asked.plan.startswith("-") else asked.plan
    return [plan, asked.mode, *said, *(["--", *asked.agent_arguments] if asked.agent_arguments else [])]


def _words_for(setting: Setting, text: str) -> Sequence[str]:
    if setting.metavar:
        return [f"--{setting.name}", text]
    return [f"--{setting.name}" if setting.parse(text) else f"--no-{setting.name}"]


def shown(asked: "Asked", hide: Callable[[str], str]) -> str:
    """The command line that asks for the same, for people; `hide` makes of a text one without secrets."""
    return hide(shlex.join(["ralph", *map(hide, arguments(asked))]))  # in words, as quotes within quotes confuse it
