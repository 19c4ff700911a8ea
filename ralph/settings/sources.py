"""Collects the settings given for a run: in the environment, env files, the plan and the template."""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from ralph import files
from ralph.errors import RalphError, did_you_mean
from ralph.plan import prompt
from ralph.plan.progress.reading import read_unfenced_lines_and_fences
from ralph.settings.table import (
    AGENT_OF,
    BELONGS,
    BY_VARIABLE,
    PRIVATE,
    GivenSetting,
    Settings,
    Source,
    agent_variable_name,
)

_DIRECTIVE = re.compile(r"[ ]{0,3}(?!RALPH_(?:DONE|STOP|BLOCKED):)(RALPH_[A-Z0-9_]+):(.*)")
OF_AGENTS = ("RALPH_AGENT", "RALPH_MODEL", "RALPH_EFFORT", "RALPH_REASONING")
"""Settings meant for the agent of all modes; a mode's own agent gets none of them."""
# The comment that a template begins with; it may hold settings, and is not for the agent.
_LEADING_COMMENT = re.compile(r"\A\s*\{#(.*?)#\}[ \t]*\r?\n?", re.DOTALL)
# How similar to a setting's name, from 0 to 1, a RALPH_ name in the environment must be to count as a typo.
_NEAR = 0.9


def home_settings_path() -> Path:
    """The path of the user's own env file."""
    return Path.home() / ".ralph.env"


def read_env_file(path: Path, source: Source) -> Iterator[GivenSetting]:
    """Yields the RALPH_ names that an env file sets.

    Raises RalphError if the file cannot be read, or at a malformed line, which may swallow those below it.
    """
    if not path.exists():
        return
    with files.os_errors_as_ralph_errors(path, "read"):
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    from dotenv.parser import parse_stream  # noqa: PLC0415 - 20 ms that a run without env files should not pay

    for one in parse_stream(StringIO(text)):
        original = one.original.string
        blank_lines = len(original) - len(original.lstrip("\n"))
        where = f"{path}:{one.original.line + blank_lines}"
        if one.error:
            raise RalphError(f'{where}: not NAME="value" (a quote left open?)', fix="fix that first")
        if one.key and one.key.startswith("RALPH_") and one.value is not None:
            yield GivenSetting(one.key, one.value, source, where)


def read_directives(text: bytes, name: str, source: Source = Source.PLAN) -> Iterator[GivenSetting]:
    """Yields the directives of a plan or a template's comment: lines of their own, outside code fences.

    A task list in JSON implies strict.
    """
    if name.endswith(".json"):
        yield GivenSetting("RALPH_STRICT", "true", source, name)
    for line in read_unfenced_lines_and_fences(text).unfenced_lines:
        number = text.count(b"\n", 0, line.start) + 1
        where = f"{name}:{number}"
        if found := _DIRECTIVE.fullmatch(line.body.decode(errors="replace")):
            yield GivenSetting(found[1], found[2], source, where)
        elif line.body.strip() == b"DO_NOT_COMMIT":
            yield GivenSetting("RALPH_AUTO_COMMIT", "false", Source.DO_NOT_COMMIT, where)


def collect_settings(plan: Path, given: Iterable[GivenSetting] = ()) -> list[GivenSetting]:
    """Collects all settings except those of templates, which differ by mode; `given` are the command line's."""
    # all others are ignored
    in_environment = [
        GivenSetting(name, text, Source.ENVIRONMENT, "environment")
        for name, text in os.environ.items()
        if name.startswith(AGENT_OF)
        or (name.startswith("RALPH_") and difflib.get_close_matches(name, BY_VARIABLE, n=1, cutoff=_NEAR))
    ]
    in_files = list(read_env_file(Path(".ralph.env"), Source.PROJECT_FILE))
    in_files += read_env_file(home_settings_path(), Source.HOME_FILE)
    # If a file sets a name twice, the last one counts.
    return [*given, *read_directives(files.read_or_empty(plan), plan.name), *in_environment, *reversed(in_files)]


def settings_of_mode(given: Sequence[GivenSetting], mode: str) -> Settings:
    """Returns the settings of a mode, with its template. Raises RalphError with all problems."""
    is_rehearsal = "RALPH_REHEARSAL" in os.environ
    own_agents = [
        one._replace(variable="RALPH_AGENT")
        for one in given
        if one.variable == agent_variable_name(mode) and not is_rehearsal
    ]
    has_own_agent = any(one.text.strip() or one.source is Source.COMMAND_LINE for one in own_agents)
    if has_own_agent:
        given = [one for one in given if one.variable not in OF_AGENTS] + own_agents
    known = resolve_only(given, "RALPH_PROMPTS", "RALPH_STRICT")
    template, text = prompt.find_template("task" if known.strict and mode == "build" else mode, known.prompts)
    comment = _LEADING_COMMENT.match(text)
    directives = re.sub(r"(?m)^[ \t]+", "", comment[1]) if comment else ""
    given = [*given, *read_directives(directives.encode(), str(template), Source.TEMPLATE)]
    names = [agent_variable_name(each) for each in prompt.available_modes(known.prompts)]
    if {one.variable for one in given} - {*BY_VARIABLE, *names}:
        from ralph.notify import channels  # noqa: PLC0415 - 20 ms that a run of a finished plan should not pay

        for channel in channels.read_channel_files().values():
            names += channel.setting_names
    settings = resolve_settings(given, names)
    settings.has_own_agent, settings.template, settings.template_text = has_own_agent, template, text
    if is_rehearsal:
        settings.only = ()  # nor does a template's say where the fake agent may write
    return settings


def collect_settings_of_mode(plan: Path, given: Iterable[GivenSetting] = (), mode: str = "") -> Settings:
    """Returns the settings of a mode, whatever the progress file says. Raises RalphError with all problems.

    Without a mode, or for `all`, they are those of build.
    """
    return settings_of_mode(collect_settings(plan, given), "build" if mode in ("", "all") else mode)


def resolve_only(given: Iterable[GivenSetting], *variables: str) -> Settings:
    """Resolves only the settings with these variables, whatever is wrong with others."""
    return resolve_settings([one for one in given if one.variable in variables])


def channel_values() -> Mapping[str, str]:
    """Returns the values that channels may use: RALPH_ names of `~/.ralph.env`, overridden by the environment's."""
    values = {one.variable: one.text for one in read_env_file(home_settings_path(), Source.HOME_FILE)}
    return values | {name: text.strip() for name, text in os.environ.items() if name.startswith("RALPH_")}


def resolve_settings(all_given: Iterable[GivenSetting], also_known: Sequence[str] = ()) -> Settings:
    """Returns the settings of this run: for each, the strongest source wins, and within a source the first value.

    Raises RalphError with everything that is wrong: unknown names, malformed values, sources that may not set what
    they set. `also_known` are names outside the table, such as those that channels read.
    """
    problems = []
    settings, lines = Settings(), dict[tuple[str, Source], GivenSetting]()
    for one in sorted(all_given, key=lambda one: one.source):
        setting, key = BY_VARIABLE.get(one.variable), (one.variable, one.source)
        first = lines.setdefault(key, one)
        if first is not one and setting and setting.many:  # several lines of a list become one
            lines[key] = first._replace(text=f"{first.text} {one.text}")
    for one in lines.values():
        try:
            _apply_unless_given(one, settings, also_known)
        except RalphError as problem:
            problems.append(problem)
    if "git-write" in settings.deny and not settings.strict:
        settings.auto_commit, settings.given["auto_commit"] = False, settings.given["deny"]
    has = {"strict": settings.strict, "jobs": "jobs" in settings.given}
    for field, one in settings.given.items():
        missing = " ".join(f"--{name}" for name in getattr(Settings, field).needs.split() if not has[name])
        if missing:
            idle = RalphError(f"{one.label}: no effect without {missing}", fix=f"add {missing} or leave that out")
            (problems if one.source is Source.COMMAND_LINE else settings.remarks).append(idle)
    if problems:
        raise RalphError.of(problems)
    return settings


def _apply_unless_given(one: GivenSetting, settings: Settings, also_known: Sequence[str]) -> None:
    """Applies a given setting, unless a stronger source did. Raises RalphError if its name, source or text is wrong."""
    setting, text = BY_VARIABLE.get(one.variable), one.text.strip()
    if not setting and one.variable not in also_known:
        fix = did_you_mean(one.variable, {name: name for name in (*BY_VARIABLE, *also_known)})
        raise RalphError(f"{one.where}: {one.variable} is not a setting", fix=fix)
    sources = setting.sources if setting else PRIVATE
    if one.source not in sources:
        raise RalphError(f"{one.where}: {one.variable} {BELONGS[sources]}")
    of_template = one.source is Source.TEMPLATE
    if not setting or not (text or one.source is Source.COMMAND_LINE):
        return
    try:
        value = setting.parse(text)
    except ValueError as error:
        raise RalphError(f'{one.label}: "{text}": {error}') from None
    stronger = settings.given.get(setting.field)
    if not stronger or (of_template and setting.modes_own and stronger.source > Source.ENVIRONMENT):
        settings.given[setting.field] = one
        setattr(settings, setting.field, value)
    elif of_template and setting.many:
        setattr(settings, setting.field, getattr(settings, setting.field) + value)
