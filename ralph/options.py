"""The options of the command line that stand for settings, and what a command line asks for by them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ralph import completion
from ralph.errors import RalphError
from ralph.settings import BY_VARIABLE, ON_COMMAND_LINE, Given, Source

if TYPE_CHECKING:
    from ralph.start import Asked

VERBS = ("status", "log", "report", "rehearse", "doctor", "notify", "config")
"""First words that are no plan. The commands are in a module of their own, which a run need not load."""
FOLDER = ("-C", "folder")
_VALUES = {
    "FILE": completion.a_path("file"),
    "DIR": completion.a_path("dir"),
    "COMMAND": completion.a_path("file"),
    "BOOL": completion.one_of(("true", "false")),
    "LEVEL": completion.one_of(("low", "medium", "high", "xhigh", "max")),
}
"""What the shell offers as a value, by what kind of value it is."""


def settings() -> list[click.Option]:
    """An option for each setting, and the short forms."""
    return [
        *(
            click.Option(
                [setting.field, f"--{setting.name}", *([f"--{setting.alias}"] * bool(setting.alias))],
                metavar=setting.metavar,
                help=f"{setting.meaning}  [{setting.variable}; default: {setting.default}]",
                shell_complete=_VALUES.get(setting.metavar),
            )
            for setting in ON_COMMAND_LINE
        ),
        click.Option(["--no-auto-commit"], is_flag=True, help="the same as --auto-commit false"),
        click.Option(["--no-wait"], is_flag=True, help="the same as --wait false"),
    ]


def words() -> list[click.Argument]:
    """What stands in front of them: plan, mode and number."""
    return [
        click.Argument(["plan"], required=True, shell_complete=completion.plans),
        click.Argument(["mode"], required=False, default=None, shell_complete=completion.modes),
        click.Argument(["number"], required=False, default=None, metavar="[MAX_ITERATIONS]"),
    ]


def folder() -> click.Option:
    """The one that changes the folder first."""
    return click.Option(
        list(FOLDER), metavar="DIR", help="change to DIR first, for cron", shell_complete=_VALUES["DIR"]
    )


def asked(said: Mapping[str, Any], rest: Sequence[str], **more: Any) -> "Asked":
    """What these words and options ask for; `rest` is for the agent, `more` are further fields of Asked."""
    from ralph.start import Asked  # noqa: PLC0415 - --help need not load it

    mode, number = said["mode"], said["number"]
    if mode is not None and mode.isdigit():
        mode, number = None, mode
    given = [
        Given(variable=s.variable, text=text, source=Source.COMMAND_LINE, where=f"--{s.name}")
        for s in ON_COMMAND_LINE
        if (text := said[s.field]) is not None
    ]
    if number is not None:
        given.append(_given("RALPH_MAX_ITERATIONS", number, "MAX_ITERATIONS"))
    if said["no_auto_commit"]:
        given.insert(0, _given("RALPH_AUTO_COMMIT", "false", "--no-auto-commit"))
    if said["no_wait"]:
        given.insert(0, _given("RALPH_WAIT", "false", "--no-wait"))
    return Asked(
        plan=said["plan"] or "",
        mode=mode or "build",
        given=given,
        agent_arguments=rest,
        folder=said["folder"],
        **more,
    )


def _given(variable: str, text: str, where: str) -> Given:
    if not text.strip():
        raise RalphError(f"{where}: is empty")
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=where)


def arguments(asked: "Asked") -> list[str]:
    """The words after `ralph` that ask for the same, in the folder that it changed to."""
    given: dict[str, str] = {}
    for one in asked.given:
        given.setdefault(BY_VARIABLE[one.variable].name, one.text)  # the first of a setting is the one that counts
    said = [word for name, text in given.items() for word in (f"--{name}", text)]
    return [_as_plan(asked.plan), asked.mode, *said, *(["--", *asked.agent_arguments] if asked.agent_arguments else [])]


def shown(asked: "Asked", hide: Callable[[str], str]) -> str:
    """The command line that asks for the same, for people; `hide` makes of a text one without secrets."""
    import shlex  # noqa: PLC0415 - no run needs it

    return hide(shlex.join(["ralph", *map(hide, arguments(asked))]))  # in words, as quotes within quotes confuse it


def _as_plan(name: str) -> str:
    """The name as a word that is neither a verb nor an option."""
    return f"./{name}" if name in (*VERBS, "help") or name.startswith("-") else name
