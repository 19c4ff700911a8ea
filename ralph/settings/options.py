"""The command-line options for settings, and the parser that turns a command line into an `Invocation`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ralph.errors import RalphError, did_you_mean
from ralph.plan import prompt
from ralph.settings.table import ON_COMMAND_LINE, SUBJECTS, GivenSetting, Setting, Settings, Source, agent_variable_name

if TYPE_CHECKING:
    from ralph.process.clock import ClockAndLimits

FILE = click.Path(readable=False)


class Invocation(NamedTuple):
    """A parsed command line."""

    plan: str
    mode: str
    """Empty if none is named; `all` goes from mode to mode."""
    given: Sequence[GivenSetting]
    agent_arguments: Sequence[str]
    clock: "ClockAndLimits | None"
    """None for the real clock; tests pass a faster one."""
    in_place: bool = False
    """Whether the plan is a list of requirements, in which ralph also updates each task's status."""
    dry_run: bool = False
    quiet: bool = False
    verbose: bool = False
    no_spinner: bool = False
    """Whether to leave out the status line on a terminal."""
    as_json: bool = False


def _mode_names() -> list[str]:
    return [*prompt.available_modes(None), "all"]


def _complete_plan_then_mode(context: click.Context, argument: click.Parameter, typed: str) -> list[Any]:
    """Returns what Tab offers: a plan, then a mode."""
    words = context.params["words"]
    if not words:
        return FILE.shell_complete(context, argument, typed)
    return [mode for mode in _mode_names() if mode.startswith(typed) and len(words) == 1]


def _option(setting: Setting) -> click.Option:
    shown = setting.meaning + f"  [{setting.default}]" * bool(setting.default)
    if not setting.metavar:
        return click.Option([f"--{setting.hyphenated_name}/--no-{setting.hyphenated_name}"], default=None, help=shown)
    names = [f"--{name}" for name in (setting.hyphenated_name, setting.alias) if name]
    return click.Option(names, metavar=setting.metavar, multiple=setting.many, help=shown, type=FILE)


class CommandWithGroupedHelp(click.Command):
    """A command whose help lists its own options first, then the options of a run, if it takes them, in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes each group of options under its title."""
        groups, title = dict[str, list[tuple[str, str]]](), ""
        for option in self.get_params(ctx):
            name = option.name or ""
            title = SUBJECTS.get(name, title if hasattr(Settings, name) else "Options")
            if record := option.get_help_record(ctx):
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


OF_A_RUN = (
    click.Argument(
        ["words"], nargs=-1, metavar="[PLAN] [MODE] [MAX_ITERATIONS]", shell_complete=_complete_plan_then_mode
    ),
    click.Option(["--requirements"], type=FILE, hidden=True),  # ralph1's option for the plan
    *map(_option, ON_COMMAND_LINE),
)
"""The parameters of a run: plan, mode and maximum number of iterations, and an option for each setting."""


def parse_command_line(
    chosen: dict[str, Any], agent_arguments: Sequence[str], clock: "ClockAndLimits | None"
) -> Invocation:
    """Parses words and options; `agent_arguments` are for the agent. Raises RalphError if there are too many words."""
    requirements = chosen.pop("requirements")
    words = [word for word in (requirements, *chosen.pop("words")) if word]
    if words[1:2] and words[1].isdecimal():
        words.insert(1, "")
    if words[3:]:
        raise RalphError(f"{words[3]} is a word too many", fix="write ralph PLAN MODE MAX_ITERATIONS, in this order")
    plan, mode, number = [*words, "", "", ""][:3]
    if number:
        chosen["max_iterations"] = number
    given = []
    if requirements and chosen["strict"] is not False:  # as in ralph1
        implied = (("RALPH_STRICT", "true"), ("RALPH_ON_FAILURE", "restore"))
        given += [GivenSetting(*each, Source.PLAN, "--requirements") for each in implied]
    if mode == "all":
        given.append(GivenSetting("RALPH_VALIDATE_EVERY", "5", Source.TEMPLATE, "all"))
    for one in chosen.pop("agent_for"):
        of_mode, _, agent = one.partition("=")
        given.append(GivenSetting(agent_variable_name(of_mode), agent, Source.COMMAND_LINE, "--agent-for"))
    chosen["only"] = map(shlex.quote, chosen["only"])  # here each pattern is a single word, blanks included
    for setting in ON_COMMAND_LINE:
        text = chosen.pop(setting.field, ())
        text = " ".join(text) or None if setting.many else text
        if text is not None:
            where = f"--{'no-' * (text is False)}{setting.hyphenated_name}"
            given.append(GivenSetting(setting.variable, str(text), Source.COMMAND_LINE, where))
    return Invocation(plan, mode, given, agent_arguments, clock, bool(requirements), **chosen)


def suggest_for_missing_plan(first_word: str, mode: str) -> str:
    """Suggests what was likely meant if the first word is not a plan: a verb, a plan, or a mode before its plan."""
    known = {one: f"ralph {mode or 'PLAN'} {one}" for one in _mode_names()}
    root: Any = click.get_current_context().find_root().command
    known |= {word: f"ralph {word} {mode}".rstrip() for word in (*root.commands, *map(str, Path().glob("*.md")))}
    return did_you_mean(first_word, known)
