"""The one table of settings, and what a start makes of all the places that may set them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from pathlib import Path
from typing import Any, Literal

from ralph import values
from ralph.errors import RalphError


class Source(Flag):
    """The places a setting may come from, the strongest first."""

    COMMAND_LINE = auto()
    ENVIRONMENT = auto()
    PLAN = auto()
    PROJECT_FILE = auto()
    """`./.ralph.env`"""
    HOME_FILE = auto()
    """`~/.ralph.env`"""
    TEMPLATE = auto()

    PRIVATE = COMMAND_LINE | ENVIRONMENT | HOME_FILE
    """The others are files of the project, which the agent can write."""
    BEFORE_TEMPLATE = PRIVATE | PLAN | PROJECT_FILE
    ANYWHERE = BEFORE_TEMPLATE | TEMPLATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table: `--name`, `RALPH_NAME` and the `Settings` field of that name are one thing."""

    name: str
    metavar: str
    """Empty where its option stands alone: `--name` means true then, and `--no-name` false."""
    meaning: str
    default: str
    """As it is shown to people."""
    parse: Callable[[str], object]
    """From text to value; raises ValueError with what is allowed."""
    value: object = None
    sources: Source = Source.ANYWHERE
    alias: str = ""
    """Another name of its option."""
    words: tuple[str, ...] = ()
    """All that it can be, where that is one of a few words."""
    many: bool = False
    """What one place says of it several times adds up; but for the command line, a text may hold several values."""

    @property
    def variable(self) -> str:
        """Its name in the environment, in env files, plans and templates."""
        return "RALPH_" + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        """Its name in `Settings`."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one start works with. None means no limit, or the agent's own choice."""

    max_iterations: int | None = None
    max_time: float | None = None
    """Seconds, as all times here."""
    max_cost: float | None = None
    """US dollars, as all costs here."""
    max_iteration_cost: float | None = None
    max_total_cost: float | None = None
    max_failures: int | None = 3
    max_stalls: int | None = 5
    delay: float = 2.0
    idle_timeout: float | None = 1800.0
    iteration_timeout: float | None = None
    max_context: float | None = None
    """A part of 1."""
    wait: bool = True
    verify: str | None = None
    verify_timeout: float | None = 1800.0
    strict: bool = False
    max_tries: int | None = 3
    on_failure: Literal["keep", "restore"] = "keep"
    on_tamper: Literal["undo", "abort"] = "undo"
    criteria: Literal["lenient", "strict"] = "lenient"
    base_url: str | None = None
    only: tuple[str, ...] = ()
    """Patterns; without one an iteration may change any file."""
    history: Path | None = None
    keep_transcripts: int = 200_000_000
    """Bytes."""
    heartbeat_url: str | None = None
    notify_frequency: int | None = 5
    auto_commit: bool = True
    agent: tuple[str, ...] = ("claude",)
    model: str | None = None
    effort: str | None = None
    """`none` turns thinking off."""
    max_turns: int | None = None
    prompts: Path | None = None
    progress_file: Path | None = None
    once: bool = False
    said: Mapping[str, str] = field(default_factory=dict)
    """Where each field that somebody set was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A setting as somebody wrote it; `where` is for messages: `feature.md:12`, `--delay`."""

    variable: str
    text: str
    source: Source
    where: str


TABLE = (
    Setting(
        name="max-iterations",
        metavar="N",
        default="unlimited",
        parse=values.whole("unlimited"),
        meaning="iterations of this start",
    ),
    Setting(
        name="max-time",
        alias="duration",
        metavar="TIME",
        default="unlimited",
        parse=values.at_most("unlimited"),
        meaning="time that this start may take, such as 90m, 4h or 1h30m; a running iteration is ended then",
    ),
    Setting(
        name="max-cost",
        metavar="USD",
        default="unlimited",
        parse=values.usd,
        meaning="US dollars that this start may cost",
    ),
    Setting(
        name="max-iteration-cost",
        metavar="USD",
        default="unlimited",
        parse=values.usd,
        meaning="US dollars that one iteration may cost",
    ),
    Setting(
        name="max-total-cost",
        metavar="USD",
        default="unlimited",
        parse=values.usd,
        meaning="US dollars that the plan may cost in all; a line Spent: in the progress file keeps the sum",
    ),
    Setting(
        name="max-failures",
        metavar="N",
        default="3",
        value=3,
        parse=values.whole("off"),
        meaning="failed iterations, tasks given up or refused claims in a row before ralph gives up; off = never",
    ),
    Setting(
        name="max-stalls",
        metavar="N",
        default="5",
        value=5,
        parse=values.whole("off"),
        meaning="iterations in a row that change nothing before ralph gives up; off = never",
    ),
    Setting(
        name="delay", metavar="TIME", default="2s", value=2.0, parse=values.duration, meaning="pause between iterations"
    ),
    Setting(
        name="idle-timeout",
        metavar="TIME",
        default="30m",
        value=1800.0,
        parse=values.at_most("off"),
        meaning="silence after which the agent is taken for hung and ended; off = never",
    ),
    Setting(
        name="iteration-timeout",
        metavar="TIME",
        default="off",
        parse=values.at_most("off"),
        meaning="time that one iteration may take before the agent is ended",
    ),
    Setting(
        name="max-context",
        metavar="PERCENT",
        default="off",
        parse=values.part,
        meaning="part of the model's context, such as 60%, after which the next iteration starts fresh",
    ),
    Setting(
        name="wait",
        metavar="BOOL",
        default="true",
        value=True,
        parse=values.truth,
        meaning="whether to wait for the end of a reached usage limit, or stop with exit 3",
    ),
    Setting(
        name="verify",
        metavar="COMMAND",
        default="none",
        parse=values.some,
        meaning="shell command that must pass before RALPH_DONE counts; with --strict, before each task does",
    ),
    Setting(
        name="verify-timeout",
        metavar="TIME",
        default="30m",
        value=1800.0,
        parse=values.at_most("off"),
        meaning="time that the verify command may take; off = any",
    ),
    Setting(
        name="strict",
        metavar="",
        default="false",
        value=False,
        parse=values.truth,
        meaning="ralph picks each task, checks it, ticks it and commits it; the agent only proposes",
    ),
    Setting(
        name="max-tries",
        metavar="N",
        default="3",
        value=3,
        parse=values.whole("off"),
        meaning="failed tries of a task before it is marked [!]; off = never (with --strict)",
    ),
    Setting(
        name="on-failure",
        metavar="WHAT",
        default="keep",
        value="keep",
        words=("keep", "restore"),
        parse=values.one_of("keep", "restore"),
        meaning="a failed try's changes: keep them for the next one, or restore the last good commit (with --strict)",
    ),
    Setting(
        name="on-tamper",
        metavar="WHAT",
        default="undo",
        value="undo",
        words=("undo", "abort"),
        parse=values.one_of("undo", "abort"),
        meaning="what the agent changed in the tasks or the status: undo it, or abort the run too (with --strict)",
    ),
    Setting(
        name="criteria",
        metavar="HOW",
        default="lenient",
        value="lenient",
        words=("lenient", "strict"),
        parse=values.one_of("lenient", "strict"),
        meaning="strict refuses, at the start, tasks whose verify: lines no machine can check (with --strict)",
    ),
    Setting(
        name="base-url",
        metavar="URL",
        default="none",
        parse=values.address,
        meaning="where `GET /path returns 200` is asked (with --strict)",
    ),
    Setting(
        name="only",
        metavar="GLOB",
        default="none",
        parse=values.pattern,
        many=True,
        meaning="files that an iteration may change, such as 'tests/**'; all others are put back; may be repeated",
    ),
    Setting(
        name="history",
        metavar="FILE",
        default="none",
        parse=values.path,
        sources=Source.BEFORE_TEMPLATE,
        meaning="a JSONL file to which each try is appended, and which the agent reads: timestamp, requirement_id, "
        "success, message",
    ),
    Setting(
        name="notify-frequency",
        metavar="N",
        default="5",
        value=5,
        parse=values.whole("off"),
        meaning="a progress notice after iteration 1 and every N; off = none in between",
    ),
    Setting(
        name="heartbeat-url",
        metavar="URL",
        default="none",
        parse=values.address,
        sources=Source.PRIVATE,
        meaning="address that is fetched after every iteration, and every 5 minutes of waiting",
    ),
    Setting(
        name="keep-transcripts",
        metavar="SIZE",
        default="200MB",
        value=200_000_000,
        parse=values.size,
        meaning="how much of this plan's finished transcripts is kept, the newest",
    ),
    Setting(
        name="auto-commit",
        metavar="BOOL",
        default="true",
        value=True,
        parse=values.truth,
        meaning="whether the agent commits after each task; with --strict ralph does",
    ),
    Setting(
        name="agent",
        metavar="COMMAND",
        default="claude",
        value=("claude",),
        parse=values.words,
        sources=Source.PRIVATE,
        meaning="the agent: claude, or any command that reads a prompt on standard input",
    ),
    Setting(
        name="model", metavar="NAME", default="the agent's own", parse=values.some, meaning="the model claude uses"
    ),
    Setting(
        name="effort",
        alias="reasoning",
        metavar="LEVEL",
        default="the agent's own",
        words=values.EFFORTS,
        parse=values.effort,
        meaning="how hard claude thinks: none (not at all), low, medium (or med), high, xhigh, max",
    ),
    Setting(
        name="max-turns",
        metavar="N",
        default="the agent's own",
        parse=values.whole(),
        meaning="turns of claude in one iteration",
    ),
    Setting(
        name="prompts",
        metavar="DIR",
        default="none",
        parse=values.path,
        sources=Source.BEFORE_TEMPLATE,
        meaning="a folder of PROMPT_<mode>.md files, looked in before ./.ralph, ~/.ralph and the built-in ones",
    ),
    Setting(
        name="progress-file",
        metavar="FILE",
        default="<plan>_PROGRESS.md",
        parse=values.path,
        sources=Source.BEFORE_TEMPLATE,
        meaning="the file that holds the state",
    ),
    Setting(
        name="once",
        metavar="BOOL",
        default="false",
        value=False,
        parse=values.truth,
        sources=Source.TEMPLATE,
        meaning="the mode is one iteration that changes nothing but the progress file",
    ),
)
BY_VARIABLE = {setting.variable: setting for setting in TABLE}
ALIASES = {"RALPH_" + setting.alias.upper(): setting for setting in TABLE if setting.alias}
"""Names that no variable has, though an option has."""
ON_COMMAND_LINE = tuple(setting for setting in TABLE if Source.COMMAND_LINE in setting.sources)


def resolve(given: Iterable[Given], also_known: Sequence[str] = (), problems: Sequence[str] = ()) -> Settings:
    """The settings of this start; the strongest source of each wins, whatever the order of `given`.

    Raises RalphError that lists every problem in one go: unknown names, malformed values, and places that may not set
    what they set. `also_known` are the names that channels read, `problems` what was found wrong before.
    """
    problems = list(problems)
    found: dict[str, Any] = {}
    first: dict[str, Given] = {}
    for one in sorted(given, key=lambda one: one.source.value):
        setting = BY_VARIABLE.get(one.variable)
        if setting is None:
            problems += _unknown(one, also_known)
        elif one.source not in setting.sources:
            problems.append(f"{one.where}: {one.variable} {_elsewhere(setting)}")
        elif one.text.strip() or one.source is Source.COMMAND_LINE:
            try:
                value = _value(setting, one)
            except ValueError as error:
                problems.append(_malformed(one, str(error)))
                continue
            if (strongest := first.setdefault(setting.field, one)) is one:
                found[setting.field] = value
            elif setting.many and strongest.source is one.source:
                found[setting.field] += value
    settings = Settings(**found, said={name: one.where for name, one in first.items()})
    problems += _conflicts(settings)
    if problems:
        raise RalphError("\n".join(dict.fromkeys(problems)))
    return settings


def texts_of(one: Given) -> list[str]:
    """Each value that this text holds: one, or where a setting has many, as many as it has words.

    On the command line every option holds one, as it stands. Raises ValueError for an open quote.
    """
    text = one.text.strip()
    return values.split(text) if BY_VARIABLE[one.variable].many and one.source is not Source.COMMAND_LINE else [text]


def _value(setting: Setting, one: Given) -> object:
    meant = tuple(setting.parse(text) for text in texts_of(one))
    return meant if setting.many else meant[0]


def _conflicts(settings: Settings) -> list[str]:
    """What is well said each by itself, and makes no sense together."""
    if not settings.strict or settings.on_failure != "restore" or settings.auto_commit:
        return []
    restore, forbids = settings.said["on_failure"], settings.said["auto_commit"]
    return [f"{restore}: restore goes back to a good commit, and {forbids} forbids commits; leave one of them out"]


def _malformed(one: Given, allowed: str) -> str:
    joint = " " if allowed.startswith("is ") else ": "
    where = f"{one.where}: {one.variable}"
    if one.source is Source.COMMAND_LINE:
        alias = BY_VARIABLE[one.variable].alias
        where = one.where + (f" (or --{alias})" if alias else "")
    return f'{where}: "{one.text.strip()}"{joint}{allowed}'


def _unknown(one: Given, also_known: Sequence[str]) -> list[str]:
    if one.variable in also_known:
        if one.source in Source.PRIVATE:
            return []
        return [f"{one.where}: {one.variable} belongs in ~/.ralph.env, where the agent does not write"]
    if one.source is Source.ENVIRONMENT and one.variable not in ALIASES:
        return []
    import difflib  # noqa: PLC0415 - only a typing mistake needs it

    near = difflib.get_close_matches(one.variable, [*BY_VARIABLE, *ALIASES, *also_known], n=1)
    meant = (ALIASES[name].variable if name in ALIASES else name for name in near)
    return [f"{one.where}: {one.variable} is no setting" + "".join(f"; did you mean {name}?" for name in meant)]


def _elsewhere(setting: Setting) -> str:
    if setting.sources == Source.PRIVATE:
        return "belongs on the command line, in the environment or in ~/.ralph.env, where the agent does not write"
    return "belongs in a prompt template" if setting.sources == Source.TEMPLATE else "comes too late in a template"
