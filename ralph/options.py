"""The options of the command line that stand for settings, and what a command line asks for by them."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph import prompt
from ralph.errors import RalphError
from ralph.screen import Detail
from ralph.settings import DROPPED, ON_COMMAND_LINE, Given, Setting, Source

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = ("status", "log", "report", "export", "rehearse", "doctor", "notify", "config")
"""First words that are no plan."""

FILE, FOLDER = click.Path(readable=False), click.Path(file_okay=False, readable=False)
_KINDS = {"FILE": FILE, "DIR": FOLDER, "COMMAND": FILE, "GLOB": FILE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command line, taken apart."""

    plan: str
    mode: str
    given: Sequence[Given]
    agent_arguments: Sequence[str]
    dry_run: bool = False
    detail: Detail = Detail.NORMAL
    spinner: bool = True
    """Whether a terminal gets a live last line."""


class Words(click.Choice[str]):
    """Offered by the shell; whether it is one of them is said later, with all else that is wrong."""

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> Any:
        """The text as it is."""
        return value


def plans(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """What may be a plan in this folder; where nothing is, the shell looks for a file itself, in other folders too."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks for it

    found = [CompletionItem(name) for name in _plans_here() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def _plans_here() -> list[str]:
    found = (path for path in sorted(Path().glob("[!.]*")) if path.suffix in (".md", ".json"))
    return [path.name for path in found if not path.name.endswith("_PROGRESS.md")]


def _modes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [mode for mode in prompt.modes(prompt.folders(None)) if mode.startswith(incomplete)]


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


OF_A_RUN: Sequence[click.Parameter] = (
    click.Argument(["plan"], required=False, shell_complete=plans),
    click.Argument(["mode"], required=False, shell_complete=_modes),
    click.Argument(["number"], required=False, metavar="[MAX_ITERATIONS]"),
    click.Option(["--requirements"], type=FILE, hidden=True),  # the plan, as ralph1 has it
    *map(_option, ON_COMMAND_LINE),
    *(click.Option([variable, _name(variable)], hidden=True) for variable in DROPPED),
)
"""Plan, mode and number, and an option for each setting."""


def asked(said: Mapping[str, Any], rest: Sequence[str]) -> Asked:
    """What these words and options ask for; `rest` is for the agent."""
    plan, mode, number = _words(said)
    given = [_given(one.variable, text) for one in ON_COMMAND_LINE for text in _texts(said[one.field])]
    given += [_given(name, text) for name in DROPPED for text in _texts(said[name])]
    if number:
        given.append(_given("RALPH_MAX_ITERATIONS", number)._replace(where="MAX_ITERATIONS"))
    return Asked(
        plan=plan,
        mode=mode or "build",
        given=given,
        agent_arguments=rest,
        dry_run=said.get("dry_run", False),
        detail=Detail.of(quiet=said.get("quiet", False), verbose=said.get("verbose", False)),
        spinner=not said.get("no_spinner", False),
    )


def _given(variable: str, text: str) -> Given:
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=_name(variable))


def _texts(value: str | tuple[str, ...] | bool | None) -> Sequence[str]:
    """What an option says: nothing, one thing or several."""
    if isinstance(value, tuple):
        return value
    return [] if value is None else [str(value).lower() if isinstance(value, bool) else value]


def _words(said: Mapping[str, Any]) -> tuple[str, str, str]:
    """Plan, mode and number; with --requirements the plan may be missing, and the others stand one word earlier."""
    words = [word for word in (said["plan"], said["mode"], said["number"]) if word is not None]
    if (file := said["requirements"]) is not None:
        if words and Path(words[0]) == Path(file):
            words = words[1:]
        elif words and not re.fullmatch(r"[\w-]+", words[0]):  # the form of a mode
            raise RalphError(f"{words[0]} and --requirements {file} are two plans", fix="leave one of them out")
        words = [file, *words]
    if re.fullmatch("[0-9]+", "".join(words[1:2])):
        words.insert(1, "")
    plan, mode, number, *more = [*words, "", "", ""]
    if many := "".join(more):
        raise RalphError(f"{many} is a word too many", fix="write ralph PLAN MODE MAX_ITERATIONS, in this order")
    return plan, mode, number


def meant(asked: Asked) -> str:
    """What is likely meant where the first word is no plan: a verb, a plan, or a mode that stands first."""
    import difflib  # noqa: PLC0415 - only a typing mistake needs it

    modes = prompt.modes(prompt.folders(None))
    near = "".join(difflib.get_close_matches(asked.plan, [*modes, *VERBS, *_plans_here()], n=1, cutoff=0.7))
    plan = asked.mode if Path(asked.mode).is_file() else ""
    words = [plan or "PLAN", near] if near in modes else [near, plan] if near in VERBS else [near, asked.mode]
    return f"did you mean ralph {shlex.join(filter(None, words))}?" if near else ""


def arguments(asked: Asked) -> list[str]:
    """The words after `ralph` that ask for the same."""
    said = []
    for setting in ON_COMMAND_LINE:
        given = [one for one in asked.given if one.variable == setting.variable]
        for text in [text for one in given[: None if setting.many else 1] for text in setting.texts(one)]:
            no = "" if setting.metavar or setting.parse(text) else "no-"
            said += [f"--{no}{setting.name}", *([text] if setting.metavar else [])]
    plan = f"./{asked.plan}" if asked.plan in (*VERBS, "help") or asked.plan.startswith("-") else asked.plan
    return [plan, asked.mode, *said, *(["--", *asked.agent_arguments] if asked.agent_arguments else [])]


def shown(asked: Asked, hide: Callable[[str], str]) -> str:
    """The command line that asks for the same, for people; `hide` makes of a text one without secrets."""
    return hide(shlex.join(["ralph", *map(hide, arguments(asked))]))  # in words, as quotes within quotes confuse it
