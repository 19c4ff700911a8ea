"""The options of the command line that stand for settings, and what a command line asks for by them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph import completion
from ralph.errors import RalphError
from ralph.settings import BY_VARIABLE, ON_COMMAND_LINE, Given, Setting, Source, texts_of

if TYPE_CHECKING:
    from ralph.start import Asked

VERBS = ("status", "log", "report", "export", "rehearse", "doctor", "notify", "config")
"""First words that are no plan. The commands are in a module of their own, which a run need not load."""
FOLDER = ("-C", "folder")
_VALUES = {
    "FILE": completion.a_path("file"),
    "DIR": completion.a_path("dir"),
    "COMMAND": completion.a_path("file"),
    "GLOB": completion.a_path("file"),
    "BOOL": completion.one_of(("true", "false")),
}
"""What the shell offers as a value, by what kind of value it is."""


_SHORT_FORMS = {
    "auto-commit": "the same as --auto-commit false",
    "wait": "the same as --wait false",
    "strict": "not strict, where a file or the environment says RALPH_STRICT: true",
}


def settings() -> list[click.Option]:
    """An option for each setting, and the short forms."""
    return [
        *map(_option, ON_COMMAND_LINE),
        *(click.Option([f"--no-{name}"], is_flag=True, help=meaning) for name, meaning in _SHORT_FORMS.items()),
    ]


def _option(setting: Setting) -> click.Option:
    names = [setting.field, f"--{setting.name}", *([f"--{setting.alias}"] * bool(setting.alias))]
    shown = f"{setting.meaning}  [{setting.variable}; default: {setting.default}]"
    if not setting.metavar:
        return click.Option(names, is_flag=True, help=shown)
    return click.Option(
        names,
        metavar=setting.metavar,
        multiple=setting.many,
        help=shown,
        shell_complete=completion.one_of(setting.words) if setting.words else _VALUES.get(setting.metavar),
    )


def _first_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    offer = completion.modes if context.params.get("requirements") else completion.plans
    return offer(context, parameter, incomplete)


def words() -> list[click.Parameter]:
    """What stands in front of them: plan, mode and number; and the plan as an option."""
    return [
        click.Argument(["plan"], required=False, shell_complete=_first_word),
        click.Argument(["mode"], required=False, default=None, shell_complete=completion.modes),
        click.Argument(["number"], required=False, default=None, metavar="[MAX_ITERATIONS]"),
        click.Option(
            ["--requirements"],
            metavar="FILE",
            help="the plan, in place of PLAN: MODE is the first word then",
            shell_complete=_VALUES["FILE"],
        ),
    ]


def folder() -> click.Option:
    """The one that changes the folder first."""
    return click.Option(
        list(FOLDER), metavar="DIR", help="change to DIR first, for cron", shell_complete=_VALUES["DIR"]
    )


def asked(said: Mapping[str, Any], rest: Sequence[str], **more: Any) -> "Asked":
    """What these words and options ask for; `rest` is for the agent, `more` are further fields of Asked."""
    from ralph.start import Asked  # noqa: PLC0415 - --help need not load it

    plan, mode, number = _taken_apart(said)
    given = [
        Given(variable=s.variable, text=text, source=Source.COMMAND_LINE, where=f"--{s.name}")
        for s in ON_COMMAND_LINE
        for text in _texts(said[s.field])
    ]
    if number is not None:
        given.append(_given("RALPH_MAX_ITERATIONS", number, "MAX_ITERATIONS"))
    for name in _SHORT_FORMS:
        if said[f"no_{name.replace('-', '_')}"]:
            given.insert(0, _given("RALPH_" + name.upper().replace("-", "_"), "false", f"--no-{name}"))
    return Asked(
        plan=plan or "",
        mode=mode or "build",
        given=given,
        agent_arguments=rest,
        folder=said["folder"],
        **more,
    )


def _texts(value: str | tuple[str, ...] | bool | None) -> Sequence[str]:
    """What an option says: nothing, one thing or several; one that stands alone says true."""
    if isinstance(value, tuple):
        return value
    return [] if value is None or value is False else ["true" if value is True else value]


def _taken_apart(said: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Plan, mode and number; with --requirements the plan may be missing, and the others stand one word earlier."""
    plan, mode, number = said["plan"], said["mode"], said["number"]
    if (file := said["requirements"]) is not None:
        if plan is not None and not _is_same(plan, file):
            if not re.fullmatch(r"[\w-]+", plan):  # the form of a mode
                raise RalphError(f"{plan} and --requirements {file} are two plans; leave one of them out")
            if number is not None:
                raise RalphError(f"{number} is a word too many: with --requirements there are MODE and MAX_ITERATIONS")
            mode, number = plan, mode
        plan = file
    if mode is not None and mode.isdigit():
        mode, number = None, mode
    return plan, mode, number


def _is_same(plan: str, other: str) -> bool:
    try:
        return Path(plan) == Path(other) or Path(plan).samefile(other)
    except OSError:
        return False


def _given(variable: str, text: str, where: str) -> Given:
    if not text.strip():
        raise RalphError(f"{where}: is empty")
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=where)


def arguments(asked: "Asked") -> list[str]:
    """The words after `ralph` that ask for the same, in the folder that it changed to."""
    given: dict[str, list[str]] = {}
    for one in asked.given:
        texts = given.setdefault(one.variable, [])
        if not texts or BY_VARIABLE[one.variable].many:  # else the first is the one that counts
            texts += texts_of(one)
    said = [word for name, texts in given.items() for text in texts for word in _words_for(BY_VARIABLE[name], text)]
    return [_as_plan(asked.plan), asked.mode, *said, *(["--", *asked.agent_arguments] if asked.agent_arguments else [])]


def _words_for(setting: Setting, text: str) -> Sequence[str]:
    if setting.metavar:
        return [f"--{setting.name}", text]
    return [f"--{setting.name}" if setting.parse(text) else f"--no-{setting.name}"]


def shown(asked: "Asked", hide: Callable[[str], str]) -> str:
    """The command line that asks for the same, for people; `hide` makes of a text one without secrets."""
    import shlex  # noqa: PLC0415 - no run needs it

    return hide(shlex.join(["ralph", *map(hide, arguments(asked))]))  # in words, as quotes within quotes confuse it


def _as_plan(name: str) -> str:
    """The name as a word that is neither a verb nor an option."""
    return f"./{name}" if name in (*VERBS, "help") or name.startswith("-") else name
