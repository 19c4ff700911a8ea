"""Collects the settings given for a run: in the environment, env files, the plan and the template."""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from ralph import files
from ralph.errors import RalphError
from ralph.plan import prompt
from ralph.plan.progress.reading import read_lines_and_fences
from ralph.settings.table import (
    AGENT_OF,
    BY_VARIABLE,
    GivenSetting,
    Settings,
    Source,
    agent_variable_name,
    resolve_settings,
)

_DIRECTIVE = re.compile(r"[ ]{0,3}(?!RALPH_(?:DONE|STOP|BLOCKED):)(RALPH_[A-Z0-9_]+):(.*)")

_NAMES = [name.removeprefix("RALPH_") for name in BY_VARIABLE]
OF_AGENTS = ("RALPH_AGENT", "RALPH_MODEL", "RALPH_EFFORT", "RALPH_REASONING")
"""Settings meant for the agent of all modes; a mode's own agent gets none of them."""
_NEAR = 0.8
"""How similar to a setting's name, from 0 to 1, a RALPH_ name in the environment must be to count as a typo."""


def home_settings_path() -> Path:
    """The path of the user's own env file."""
    return Path.home() / ".ralph.env"


def read_env_file(path: Path, source: Source) -> Iterator[GivenSetting]:
    """Yields the RALPH_ names that an env file sets, and a problem for each malformed line or an unreadable file."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except FileNotFoundError:
        return
    except OSError as error:
        yield GivenSetting("", f"{path}: cannot be read: {error.strerror}", source, str(path))
        return
    from dotenv.parser import parse_stream  # noqa: PLC0415 - 20 ms that a run without env files should not pay

    for one in parse_stream(StringIO(text)):
        original = one.original.string
        blank_lines = len(original) - len(original.lstrip("\n"))
        where = f"{path}:{one.original.line + blank_lines}"
        if one.error:
            yield GivenSetting("", f'{where}: not NAME="value" (a quote left open?)', source, where)
        elif one.key and one.key.startswith("RALPH_") and one.value is not None:
            yield GivenSetting(one.key, one.value, source, where)


def read_plan_settings(text: bytes, name: str) -> Iterator[GivenSetting]:
    """Yields the directives of a plan: lines of their own, outside code fences; a task list in JSON implies strict."""
    if name.endswith(".json"):
        yield GivenSetting("RALPH_STRICT", "true", Source.PLAN, name)
    for line in read_lines_and_fences(text).lines:
        number = text.count(b"\n", 0, line.start) + 1
        where = f"{name}:{number}"
        found = _DIRECTIVE.fullmatch(line.body.decode(errors="replace"))
        if found:
            yield GivenSetting(found[1], found[2], Source.PLAN, where)
        elif line.body.strip() == b"DO_NOT_COMMIT":
            yield GivenSetting("RALPH_AUTO_COMMIT", "false", Source.DO_NOT_COMMIT, where)


def read_template_settings(text: str, path: Path) -> Iterator[GivenSetting]:
    """Yields the directives in a template's leading `{# … #}` comment."""
    comment = prompt.LEADING_COMMENT.match(text)
    lines = text[: comment.end(1)].splitlines() if comment else []
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.fullmatch(line.strip().removeprefix("{#").strip())
        if not found or (found[1] == "RALPH_ONLY" and "RALPH_REHEARSAL" in os.environ):
            continue  # a fake agent does not know where it may write
        yield GivenSetting(found[1], found[2], Source.TEMPLATE, f"{path}:{number}")


def collect_settings(plan: Path, given: Iterable[GivenSetting] = ()) -> list[GivenSetting]:
    """Collects all settings except those of templates, which differ by mode; `given` are the command line's."""
    message = [*given, *read_plan_settings(files.read_or_empty(plan), plan.name)]
    for name, text in os.environ.items():
        is_near = name.startswith("RALPH_") and difflib.get_close_matches(name[6:], _NAMES, n=1, cutoff=_NEAR)
        if name in BY_VARIABLE or is_near or name.startswith(AGENT_OF):  # all others are ignored
            message.append(GivenSetting(name, text, Source.ENVIRONMENT, "environment"))
    in_files = list(read_env_file(Path(".ralph.env"), Source.PROJECT_FILE))
    in_files += read_env_file(home_settings_path(), Source.HOME_FILE)
    return [*message, *reversed(in_files)]  # reversed: if a file sets a name twice, the last one counts


def settings_of_mode(given: Sequence[GivenSetting], mode: str) -> tuple[Settings, Path, str]:
    """Returns the settings of a mode, and its template's path and text. Raises RalphError with all problems."""
    template, text = Path(), ""
    names = list[str]()
    own = [one for one in given if one.variable == agent_variable_name(mode) and "RALPH_REHEARSAL" not in os.environ]
    if own := [one for one in own if one.text.strip() or one.source is Source.COMMAND_LINE]:
        given = [one for one in given if one not in own and one.variable not in OF_AGENTS]
        given += [one._replace(variable="RALPH_AGENT", where=f"{one.where}: {one.variable}") for one in own]
    try:
        known = resolve_only(given, "RALPH_PROMPTS", "RALPH_STRICT")
        places = prompt.template_folders(known.prompts)
        names += map(agent_variable_name, prompt.available_modes(places))
        name = "task" if known.strict and mode == "build" else mode
        template, text = prompt.find_template(name, places)
    except RalphError as error:
        given = [*given, GivenSetting("", error.message, Source.TEMPLATE, "")]
    given = [*given, *read_template_settings(text, template)]
    if any(one.variable not in {*BY_VARIABLE, *names} for one in given):
        from ralph.notify import channels  # noqa: PLC0415 - 20 ms that a run of a finished plan should not pay

        for channel in channels.load_channels().values():
            names += channel.setting_names
    settings = resolve_settings(given, names)
    settings.has_own_agent = bool(own)
    return settings, template, text


def collect_settings_of_mode(plan: Path, given: Iterable[GivenSetting] = (), mode: str = "") -> Settings:
    """Returns the settings of a mode, whatever the progress file says. Raises RalphError with all problems.

    Without a mode, or for `all`, they are those of build.
    """
    return settings_of_mode(collect_settings(plan, given), "build" if mode in ("", "all") else mode)[0]


def resolve_only(given: Iterable[GivenSetting], *variables: str) -> Settings:
    """Resolves only the settings with these variables, whatever is wrong with others."""
    return resolve_settings([one for one in given if one.variable in variables])


def channel_values() -> Mapping[str, str]:
    """Returns the values that channels may use: RALPH_ names of `~/.ralph.env`, overridden by the environment's."""
    values = {one.variable: one.text for one in read_env_file(home_settings_path(), Source.HOME_FILE)}
    return values | {name: text.strip() for name, text in os.environ.items() if name.startswith("RALPH_")}
