"""The one table of settings, and what a start makes of all the places that may set them."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from pathlib import Path

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
    meaning: str
    default: str
    """As it is shown to people."""
    parse: Callable[[str], object]
    """From text to value; raises ValueError with what is allowed."""
    value: object = None
    sources: Source = Source.ANYWHERE
    alias: str = ""
    """Another name of its option."""

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
    keep_transcripts: int = 200_000_000
    """Bytes."""
    heartbeat_url: str | None = None
    notify_frequency: int | None = 5
    auto_commit: bool = True
    agent: tuple[str, ...] = ("claude",)
    model: str | None = None
    effort: str | None = None
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


def _whole(none: str | None = None) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        if none and text.lower() == none:
            return None
        if re.fullmatch(r"\d{1,9}", text) and int(text) > 0:
            return int(text)
        raise ValueError("write a whole number from 1" + (f", or {none}" if none else ""))

    return parse


def _duration(text: str) -> float:
    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s?)?", text, re.ASCII)
    if not text or found is None:
        raise ValueError("is no duration; write 2s, 90m, 4h or 1h30m")
    hours, minutes, seconds = found.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _at_most(none: str) -> Callable[[str], float | None]:
    """A duration that bounds something."""

    def parse(text: str) -> float | None:
        if text.lower() == none:
            return None
        try:
            seconds = _duration(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {none}") from None
        if not seconds:
            raise ValueError(f"leaves no time; write 90m, 4h or 1h30m, or {none}")
        return seconds

    return parse


def _usd(text: str) -> float | None:
    if text.lower() == "unlimited":
        return None
    if re.fullmatch(r"\$?\d{1,7}(\.\d{1,4})?", text) and (cost := float(text.removeprefix("$"))) > 0:
        return cost
    raise ValueError("write US dollars such as 5 or 2.50, or unlimited")


def _part(text: str) -> float | None:
    if text.lower() == "off":
        return None
    if re.fullmatch(r"\d{1,2}%", text) and (percent := int(text[:-1])) > 0:
        return percent / 100
    raise ValueError("write a part of the context such as 60%, or off")


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})\s*([kMG]B)", text)
    if found is None:
        raise ValueError("write a size such as 200MB or 2GB")
    return int(found[1]) * {"kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]]


def _address(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError("is no web address; write https://…")
    return text


def _truth(text: str) -> bool:
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise ValueError("write true or false")


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _effort(text: str) -> str:
    # The real agent takes any other word without complaint and ignores it.
    if text.lower() not in ("low", "medium", "high", "xhigh", "max"):
        raise ValueError("write low, medium, high, xhigh or max")
    return text.lower()


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"is no command: {error}") from error
    if not words:
        raise ValueError("write a command, such as claude")
    return words


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser()


TABLE = (
    Setting(
        name="max-iterations",
        metavar="N",
        default="unlimited",
        parse=_whole("unlimited"),
        meaning="iterations of this start",
    ),
    Setting(
        name="max-time",
        alias="duration",
        metavar="TIME",
        default="unlimited",
        parse=_at_most("unlimited"),
        meaning="time that this start may take, such as 90m, 4h or 1h30m; a running iteration is ended then",
    ),
    Setting(
        name="max-cost",
        metavar="USD",
        default="unlimited",
        parse=_usd,
        meaning="US dollars that this start may cost",
    ),
    Setting(
        name="max-iteration-cost",
        metavar="USD",
        default="unlimited",
        parse=_usd,
        meaning="US dollars that one iteration may cost",
    ),
    Setting(
        name="max-total-cost",
        metavar="USD",
        default="unlimited",
        parse=_usd,
        meaning="US dollars that the plan may cost in all; a line Spent: in the progress file keeps the sum",
    ),
    Setting(
        name="max-failures",
        metavar="N",
        default="3",
        value=3,
        parse=_whole("off"),
        meaning="failed iterations, or refused claims of done, in a row before ralph gives up; off = never",
    ),
    Setting(
        name="max-stalls",
        metavar="N",
        default="5",
        value=5,
        parse=_whole("off"),
        meaning="iterations in a row that change nothing before ralph gives up; off = never",
    ),
    Setting(name="delay", metavar="TIME", default="2s", value=2.0, parse=_duration, meaning="pause between iterations"),
    Setting(
        name="idle-timeout",
        metavar="TIME",
        default="30m",
        value=1800.0,
        parse=_at_most("off"),
        meaning="silence after which the agent is taken for hung and ended; off = never",
    ),
    Setting(
        name="iteration-timeout",
        metavar="TIME",
        default="off",
        parse=_at_most("off"),
        meaning="time that one iteration may take before the agent is ended",
    ),
    Setting(
        name="max-context",
        metavar="PERCENT",
        default="off",
        parse=_part,
        meaning="part of the model's context, such as 60%, after which the next iteration starts fresh",
    ),
    Setting(
        name="wait",
        metavar="BOOL",
        default="true",
        value=True,
        parse=_truth,
        meaning="whether to wait for the end of a reached usage limit, or stop with exit 3",
    ),
    Setting(
        name="verify",
        metavar="COMMAND",
        default="none",
        parse=_text,
        meaning="shell command that must pass before RALPH_DONE counts",
    ),
    Setting(
        name="verify-timeout",
        metavar="TIME",
        default="30m",
        value=1800.0,
        parse=_at_most("off"),
        meaning="time that the verify command may take; off = any",
    ),
    Setting(
        name="notify-frequency",
        metavar="N",
        default="5",
        value=5,
        parse=_whole("off"),
        meaning="a progress notice after iteration 1 and every N; off = none in between",
    ),
    Setting(
        name="heartbeat-url",
        metavar="URL",
        default="none",
        parse=_address,
        sources=Source.PRIVATE,
        meaning="address that is fetched after every iteration, and every 5 minutes of waiting",
    ),
    Setting(
        name="keep-transcripts",
        metavar="SIZE",
        default="200MB",
        value=200_000_000,
        parse=_size,
        meaning="how much of this plan's finished transcripts is kept, the newest",
    ),
    Setting(
        name="auto-commit",
        metavar="BOOL",
        default="true",
        value=True,
        parse=_truth,
        meaning="whether the agent commits after each task",
    ),
    Setting(
        name="agent",
        metavar="COMMAND",
        default="claude",
        value=("claude",),
        parse=_words,
        sources=Source.PRIVATE,
        meaning="the agent: claude, or any command that reads a prompt on standard input",
    ),
    Setting(name="model", metavar="NAME", default="the agent's own", parse=_text, meaning="the model claude uses"),
    Setting(
        name="effort",
        metavar="LEVEL",
        default="the agent's own",
        parse=_effort,
        meaning="how hard claude thinks: low, medium, high, xhigh, max",
    ),
    Setting(
        name="max-turns",
        metavar="N",
        default="the agent's own",
        parse=_whole(),
        meaning="turns of claude in one iteration",
    ),
    Setting(
        name="prompts",
        metavar="DIR",
        default="none",
        parse=_path,
        sources=Source.BEFORE_TEMPLATE,
        meaning="a folder of PROMPT_<mode>.md files, looked in before ./.ralph, ~/.ralph and the built-in ones",
    ),
    Setting(
        name="progress-file",
        metavar="FILE",
        default="<plan>_PROGRESS.md",
        parse=_path,
        sources=Source.BEFORE_TEMPLATE,
        meaning="the file that holds the state",
    ),
    Setting(
        name="once",
        metavar="BOOL",
        default="false",
        value=False,
        parse=_truth,
        sources=Source.TEMPLATE,
        meaning="the mode is one iteration that changes nothing but the progress file",
    ),
)
BY_VARIABLE = {setting.variable: setting for setting in TABLE}
ON_COMMAND_LINE = tuple(setting for setting in TABLE if Source.COMMAND_LINE in setting.sources)


def resolve(given: Iterable[Given], also_known: Sequence[str] = (), problems: Sequence[str] = ()) -> Settings:
    """The settings of this start; the strongest source of each wins, whatever the order of `given`.

    Raises RalphError that lists every problem in one go: unknown names, malformed values, and places that may not set
    what they set. `also_known` are the names that channels read, `problems` what was found wrong before.
    """
    problems = list(problems)
    values: dict[str, object] = {}
    said: dict[str, str] = {}
    strongest = sorted(given, key=lambda one: one.source.value)
    for one in strongest:
        setting = BY_VARIABLE.get(one.variable)
        if setting is None:
            problems += _unknown(one, also_known)
        elif one.source not in setting.sources:
            problems.append(f"{one.where}: {one.variable} {_elsewhere(setting)}")
        elif one.text.strip() or one.source is Source.COMMAND_LINE:
            try:
                values.setdefault(setting.field, setting.parse(one.text.strip()))
                said.setdefault(setting.field, one.where)
            except ValueError as error:
                problems.append(_malformed(one, str(error)))
    if problems:
        raise RalphError("\n".join(problems))
    return Settings(**values, said=said)  # type: ignore[arg-type]


def _malformed(one: Given, allowed: str) -> str:
    joint = " " if allowed.startswith("is ") else ": "
    name = "" if one.source is Source.COMMAND_LINE else f"{one.variable}: "
    return f'{one.where}: {name}"{one.text.strip()}"{joint}{allowed}'


def _unknown(one: Given, also_known: Sequence[str]) -> list[str]:
    if one.variable in also_known:
        if one.source in Source.PRIVATE:
            return []
        return [f"{one.where}: {one.variable} belongs in ~/.ralph.env, where the agent does not write"]
    if one.source is Source.ENVIRONMENT:
        return []
    import difflib  # noqa: PLC0415 - only a typing mistake needs it

    near = difflib.get_close_matches(one.variable, [*BY_VARIABLE, *also_known], n=1)
    return [f"{one.where}: {one.variable} is no setting" + (f"; did you mean {near[0]}?" if near else "")]


def _elsewhere(setting: Setting) -> str:
    if setting.sources == Source.PRIVATE:
        return "belongs on the command line, in the environment or in ~/.ralph.env, where the agent does not write"
    return "belongs in a prompt template" if setting.sources == Source.TEMPLATE else "comes too late in a template"
