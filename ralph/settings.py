"""The settings: one table, of which options, variables, directives and help are made; and what counts of all said."""
# ruff: noqa: RUF009 - a row is a field(), as a dataclass wants it

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ralph import values
from ralph.errors import RalphError
from ralph.values import unless


class Source(IntEnum):
    """Where something may be said about a setting, the strongest first."""

    COMMAND_LINE = 1
    DO_NOT_COMMIT = 2
    """That word in a plan: it forbids, whatever the environment says."""
    ENVIRONMENT = 3
    PLAN = 4
    PROJECT_FILE = 5
    """`./.ralph.env`"""
    HOME_FILE = 6
    """`~/.ralph.env`"""
    TEMPLATE = 7


ANYWHERE = frozenset(Source)
PRIVATE = frozenset({Source.COMMAND_LINE, Source.ENVIRONMENT, Source.HOME_FILE})
"""The others are files of the project, which the agent can write."""
_BEFORE_TEMPLATE = ANYWHERE - {Source.TEMPLATE}
_OF_TEMPLATES = frozenset({Source.TEMPLATE})
_BELONGS = {
    PRIVATE: "belongs on the command line, in the environment or in ~/.ralph.env, where the agent does not write",
    _BEFORE_TEMPLATE: "comes too late in a template",
    _OF_TEMPLATES: "belongs in a prompt template",
}


class Setting(NamedTuple):
    """A row of the table."""

    field: str
    """Its name in `Settings`."""
    metavar: str
    """Empty where its option stands alone: `--name` means true then, and `--no-name` false."""
    parse: Callable[[str], object]
    """From text to value; raises ValueError with what is allowed."""
    default: str
    """As people write it; empty where nothing is the default."""
    meaning: str
    alias: str = ""
    """Another name of its option."""
    words: tuple[str, ...] = ()
    """All that it can be, where that is one of a few words."""
    many: bool = False
    """What one place says of it several times adds up; but for the command line, a text may hold several values."""
    sources: frozenset[Source] = ANYWHERE

    @property
    def name(self) -> str:
        """Its option is this with `--`."""
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment, in env files, plans and templates."""
        return f"RALPH_{self.field.upper()}"

    def texts(self, one: "Given") -> Sequence[str]:
        """Each value that this text holds: one, or where a setting has many, as many as it has words.

        On the command line every option holds one, as it stands. Raises ValueError for an open quote.
        """
        text = one.text.strip()
        return values.words(text) if self.many and one.source is not Source.COMMAND_LINE else (text,)

    def value(self, one: "Given") -> Any:
        """What that means. Raises ValueError with what is allowed."""
        meant = tuple(map(self.parse, self.texts(one)))
        return meant if self.many else meant[0]


class Given(NamedTuple):
    """A setting as somebody wrote it; `where` is for messages: `feature.md:12`, `--delay`."""

    variable: str
    text: str
    source: Source
    where: str


def _row(metavar: str, parse: Callable[[str], object], default: str, meaning: str, **more: Any) -> Any:
    """A field of `Settings` that can be set, with what stands in its row of the table."""
    value = () if more.get("many") else parse(default) if default else None
    row = {"metavar": metavar, "parse": parse, "default": default, "meaning": meaning, **more}
    return field(default=value, metadata=row)


def _word(metavar: str, words: tuple[str, ...], meaning: str) -> Any:
    """One of these words; the first is the default."""
    return _row(metavar, values.one_of(*words), words[0], meaning, words=words)


_count = partial(_row, "N", unless("off", values.count))
_time = partial(_row, "TIME", unless("off", values.bound))
_usd = partial(_row, "USD", unless("unlimited", values.usd), "unlimited")
_url = partial(_row, "URL", values.address, "")
_flag = partial(_row, "", values.truth)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)  # each start pays for what these make
class Settings:
    """What one start works with. Times are seconds, costs US dollars; None is no limit, or the agent's own choice."""

    max_iterations: int | None = _row("N", unless("unlimited", values.count), "unlimited", "iterations of this start")
    max_time: float | None = _row(
        "TIME",
        unless("unlimited", values.bound),
        "unlimited",
        "time of this start; a running iteration is ended then",
        alias="duration",
    )
    max_cost: float | None = _usd("US dollars of this start")
    max_iteration_cost: float | None = _usd("US dollars of one iteration")
    max_total_cost: float | None = _usd("US dollars of the plan for ever, on its line Spent:")
    max_failures: int | None = _count(
        "3", "failed iterations, tasks given up or refused claims in a row before ralph gives up; off = never"
    )
    max_stalls: int | None = _count("5", "iterations in a row that change nothing before ralph gives up; off = never")
    delay: float = _row("TIME", values.duration, "2s", "pause between iterations")
    idle_timeout: float | None = _time("30m", "silence after which the agent is taken for hung and ended")
    iteration_timeout: float | None = _time("off", "time that one iteration may take")
    max_context: float | None = _row(
        "PERCENT",
        unless("off", values.percent),
        "off",
        "part of the model's context after which the next iteration starts fresh",
    )
    wait: bool = _flag("true", "wait for the end of a reached usage limit, or stop with exit 3")
    verify: str | None = _row(
        "COMMAND",
        values.some,
        "",
        "shell command that must pass before RALPH_DONE counts; strict: before each task does",
    )
    verify_timeout: float | None = _time("30m", "time that the verify command may take")
    strict: bool = _flag("false", "ralph picks each task, checks it, ticks it and commits it; the agent only proposes")
    max_tries: int | None = _count("3", "failed tries of a task before it is marked [!]; off = never (with --strict)")
    on_failure: Literal["keep", "restore"] = _word(
        "WHAT",
        ("keep", "restore"),
        "a failed try's changes: kept for the next, or the last good commit (with --strict)",
    )
    on_tamper: Literal["undo", "abort"] = _word(
        "WHAT", ("undo", "abort"), "what the agent changed in the tasks: undone, or the run ends too (with --strict)"
    )
    criteria: Literal["lenient", "strict"] = _word(
        "HOW", ("lenient", "strict"), "strict refuses tasks whose verify: lines no machine can check (with --strict)"
    )
    base_url: str | None = _url("where `GET /path returns 200` is asked (with --strict)")
    only: tuple[str, ...] = _row(
        "GLOB", values.pattern, "", "files that an iteration may change, such as 'tests/**'; may be repeated", many=True
    )
    history: Path | None = _row(
        "FILE", values.path, "", "a JSONL file to which each try is appended", sources=_BEFORE_TEMPLATE
    )
    notify_frequency: int | None = _count("5", "a progress notice after iteration 1 and every N; off = none")
    heartbeat_url: str | None = _url("fetched after every iteration and every 5 minutes of waiting", sources=PRIVATE)
    auto_commit: bool = _flag("true", "commit after each task; with --strict ralph does, else the agent")
    agent: tuple[str, ...] = _row(
        "COMMAND",
        values.words,
        "claude",
        "claude, or any command that reads a prompt on standard input",
        sources=PRIVATE,
    )
    model: str | None = _row("NAME", values.some, "", "the model claude uses")
    effort: str | None = _row(
        "LEVEL", values.effort, "", "how hard claude thinks; none = not at all", alias="reasoning", words=values.EFFORTS
    )
    max_turns: int | None = _row("N", values.count, "", "turns of claude in one iteration")
    prompts: Path | None = _row(
        "DIR", values.path, "", "a folder of PROMPT_<mode>.md files, looked in first", sources=_BEFORE_TEMPLATE
    )
    progress_file: Path | None = _row(
        "FILE", values.path, "", "the file that holds the state, if not <plan>_PROGRESS.md", sources=_BEFORE_TEMPLATE
    )
    once: bool = _flag("false", "one iteration that changes nothing but the progress file", sources=_OF_TEMPLATES)
    said: Mapping[str, str] = field(default_factory=dict)
    """Where each field that somebody set was set."""
    dropped: Sequence[str] = ()
    """A word about each setting that somebody made and that does nothing any more."""


TABLE = tuple(Setting(field=one.name, **one.metadata) for one in dataclasses.fields(Settings) if one.metadata)
BY_VARIABLE = {setting.variable: setting for setting in TABLE}
ALIASES = {f"RALPH_{setting.alias.upper()}": setting for setting in TABLE if setting.alias}
"""Names that no variable has, though an option has."""
ON_COMMAND_LINE = tuple(setting for setting in TABLE if Source.COMMAND_LINE in setting.sources)
DROPPED = {"RALPH_KEEP_TRANSCRIPTS": "the newest 200 MB of transcripts are kept"}
"""Settings of earlier versions, and what holds now; a cron job that says them goes on."""


def resolve(given: Iterable[Given], also_known: Sequence[str] = (), problems: Iterable[RalphError] = ()) -> Settings:
    """The settings of this start: of each the strongest source wins, and within one the first that is given.

    Raises RalphError with everything that is wrong: unknown names, malformed values, places that may not set what they
    set, and `problems`, found before. `also_known` are the names that channels read.
    """
    problems, dropped = list(problems), list[str]()
    found, first = dict[str, Any](), dict[str, Given]()
    for one in sorted(given, key=lambda one: one.source):
        setting = BY_VARIABLE.get(one.variable)
        if one.variable in DROPPED:
            dropped.append(f"{one.where}: {one.variable} does nothing any more: {DROPPED[one.variable]}")
        elif setting is None or one.source not in setting.sources:
            problems += _misplaced(one, setting, also_known)
        elif one.text.strip() or one.source is Source.COMMAND_LINE:
            try:
                value = setting.value(one)
            except ValueError as error:
                problems.append(_malformed(one, setting, str(error)))
                continue
            if first.setdefault(setting.field, one) is one:
                found[setting.field] = value
            elif setting.many and first[setting.field].source is one.source:
                found[setting.field] += value
    settings = Settings(**found, said={name: one.where for name, one in first.items()}, dropped=tuple(dropped))
    if settings.strict and settings.on_failure == "restore" and not settings.auto_commit:
        restore, forbids = settings.said["on_failure"], settings.said["auto_commit"]
        what = f"{restore}: restore goes back to a good commit, and {forbids} forbids commits"
        problems.append(RalphError(what, fix="leave one of them out"))
    if problems:
        raise RalphError.of(problems)
    return settings


def _malformed(one: Given, setting: Setting, allowed: str) -> RalphError:
    where = f"{one.where}: {one.variable}"
    if one.source is Source.COMMAND_LINE:
        where = one.where + (f" (or --{setting.alias})" if setting.alias else "")
    return RalphError(f'{where}: "{one.text.strip()}"{" " if allowed.startswith("is ") else ": "}{allowed}')


def _misplaced(one: Given, setting: Setting | None, also_known: Sequence[str]) -> list[RalphError]:
    """What is wrong with its name, or with where it stands: nothing, or one thing."""
    if setting or (one.variable in also_known and one.source not in PRIVATE):
        return [RalphError(f"{one.where}: {one.variable} {_BELONGS[setting.sources if setting else PRIVATE]}")]
    if one.variable in also_known or (one.source is Source.ENVIRONMENT and one.variable not in ALIASES):
        return []
    import difflib  # noqa: PLC0415 - only a typing mistake needs it

    near = difflib.get_close_matches(one.variable, [*BY_VARIABLE, *ALIASES, *also_known], n=1)
    meant = "".join(f"did you mean {ALIASES[name].variable if name in ALIASES else name}?" for name in near)
    return [RalphError(f"{one.where}: {one.variable} is no setting", fix=meant)]
