"""The table of settings, which defines options, variables, directives and help; and which of the given values wins."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ralph.errors import RalphError, did_you_mean
from ralph.settings import denied, values
from ralph.settings.values import or_unlimited


class Source(IntEnum):
    """Where a setting may be given, the strongest first."""

    COMMAND_LINE = 1
    DO_NOT_COMMIT = 2  # that word in a plan forbids commits, whatever the environment says
    ENVIRONMENT = 3
    PLAN = 4
    PROJECT_FILE = 5  # ./.ralph.env
    HOME_FILE = 6  # ~/.ralph.env
    TEMPLATE = 7


_ANYWHERE = frozenset(Source)
PRIVATE = frozenset({Source.COMMAND_LINE, Source.ENVIRONMENT, Source.HOME_FILE})
"""The other sources are files of the project, which the agent can write."""
_BEFORE_TEMPLATE = _ANYWHERE - {Source.TEMPLATE}
_OF_TEMPLATES = frozenset({Source.TEMPLATE})
OF_MODES, AGENT_OF = "MODE=AGENT", "RALPH_AGENT_"
"""How the command line names the agent of a mode, and the prefix of the variable that does."""
_BELONGS = {
    PRIVATE: "belongs on the command line, in the environment or in ~/.ralph.env, where the agent does not write",
    _BEFORE_TEMPLATE: "comes too late in a template",
    _OF_TEMPLATES: "belongs in a prompt template",
}


class GivenSetting(NamedTuple):
    """A setting as somebody wrote it; `where` is for messages: `feature.md:12`, `--delay`.

    With an empty variable it is not a setting but a problem, which the text describes.
    """

    variable: str
    text: str
    source: Source
    where: str


class Setting(NamedTuple):
    """A row of the table."""

    metavar: str
    """Empty if its option takes no value: `--name` means true then, and `--no-name` false."""
    meaning: str
    default: str = ""
    """As a user would write it; empty if there is no default."""
    parse: Callable[[str], Any] = values.some
    """Turns the text into a value; raises ValueError with what is allowed."""
    alias: str = ""
    """A second name."""
    many: bool = False
    """Whether it is a list: the values from one source add up, and the template's are added to those of the strongest
    source."""
    modes_own: bool = False
    """Whether a template's value applies to its mode, and overrides the plan and the env files."""
    sources: frozenset[Source] = _ANYWHERE
    needs: str = ""
    """The setting without which it has no effect."""
    field: str = ""
    """Its name in `Settings`."""

    @property
    def name(self) -> str:
        """The name of its option, without `--`."""
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment, in env files, plans and templates."""
        return f"{AGENT_OF}<MODE>" if self.metavar == OF_MODES else f"RALPH_{self.field.upper()}"


def _row(metavar: str, meaning: str, default: str = "", parse: Any = values.some, needs: str = "", **more: Any) -> Any:
    """Returns a row of the table, as Any, so that a field can be declared with the type of its value."""
    return Setting(metavar, meaning + f" (with --{needs})" * bool(needs), default, parse, needs=needs, **more)


def _word(words: str, meaning: str, default: str = "", **more: Any) -> Any:
    """Returns a row whose value is one of these words, which are separated by bars."""
    return _row(words, meaning, default, values.parse_one_of(words), **more)


_flag = partial(_row, "", parse=values.truth)
_command = partial(_row, "COMMAND", parse=values.parse_words, sources=PRIVATE)
_count = partial(_row, "N", parse=or_unlimited(values.count))
_list = partial(_row, "NAMES", parse=values.names, many=True)
_path = partial(_row, parse=values.path, sources=_BEFORE_TEMPLATE)
_time = partial(_row, "TIME", parse=or_unlimited(values.bound))
_url = partial(_row, "URL", parse=values.address)
_usd = partial(_row, "USD", default="unlimited", parse=or_unlimited(values.usd))


class Settings:
    """The settings of one run. Times are seconds, costs US dollars; None means no limit, or the agent's own choice.

    On the class itself, each attribute is its row of the table.
    """

    max_iterations: int | None = _count("iterations of this run", "unlimited")
    max_time: float | None = _time("time of this run; a running iteration ends then", "unlimited", alias="duration")
    max_cost: float | None = _usd("US dollars of this run")
    max_iteration_cost: float | None = _usd("US dollars of one iteration")
    max_total_cost: float | None = _usd("US dollars of the plan for ever, on its line Spent:")
    max_failures: int | None = _count(
        "failed iterations, tasks given up or refused claims in a row before ralph gives up; off = never", "3"
    )
    max_stalls: int | None = _count("iterations in a row that change nothing before ralph gives up; off = never", "5")
    delay: float = _row("TIME", "pause between iterations", "2s", values.duration)
    idle_timeout: float | None = _time("silence after which ralph kills the agent", "30m")
    iteration_timeout: float | None = _time("time that one iteration may take", "off")
    max_context: float | None = _row(
        "PERCENT",
        "part of the model's context after which an iteration starts fresh",
        "off",
        or_unlimited(values.percent),
    )
    wait: bool = _flag("wait for the end of a reached usage limit, or stop with exit 3", "true")
    verify: str | None = _row(
        "COMMAND", "shell command that must pass before RALPH_DONE counts; strict: before each task does"
    )
    verify_timeout: float | None = _time("time that the verify command may take", "30m")
    strict: bool = _flag("ralph picks each task, checks it, ticks it and commits it; the agent only proposes", "false")
    task: str | None = _row("ID", "work on this task alone", sources=PRIVATE, needs="strict")
    max_tries: int | None = _count(
        "failed attempts at a task before it is marked [!]; off = never", "3", needs="strict"
    )
    on_failure: str = _word(
        "keep|restore", "a failed attempt's changes: kept for the next one, or undone", "keep", needs="strict"
    )
    on_tamper: str = _word(
        "undo|abort", "what the agent changed in the tasks: undone, or the run ends too", "undo", needs="strict"
    )
    criteria: str = _word(
        "lenient|strict", "strict refuses tasks whose verify: lines no machine can check", "lenient", needs="strict"
    )
    evidence: bool = _row(
        "on|off",
        "run checks before a task's first attempt, and all again before done",
        "on",
        values.truth,
        needs="strict",
    )
    base_url: str | None = _url("where `GET /path returns 200` is asked", needs="strict")
    jobs: int = _row(
        "N", "tasks tried at the same time, each in a clone", "1", values.count, alias="max-agents", needs="strict"
    )
    setup: str | None = _row("COMMAND", "shell command that makes a clone ready, such as 'npm ci'", needs="jobs")
    setup_copy: tuple[str, ...] = _list(
        "ignored files that a clone needs, such as .env; may be repeated", parse=values.parse_words, needs="jobs"
    )
    allow_dirty: bool = _flag("begin though tracked files have changes that are not committed", "false", needs="jobs")
    keep_clones: bool = _flag("leave the clones there, for looking", "false", needs="jobs")
    runner: tuple[str, ...] | None = _command("a command in front of each attempt, such as 'srun -N1'", needs="jobs")
    landing_window: int | None = _row(
        "N",
        "finished tasks checked at the same time before they are merged; 1, or 4 with --executor or --runner",
        parse=values.count,
        needs="jobs",
    )
    executor: str | None = _url("a Dask cluster for the attempts, dask://HOST:8786", sources=PRIVATE, needs="jobs")
    only: tuple[tuple[str, ...], ...] = _row(
        "GLOB",
        "files that an iteration may change, such as 'tests/**'; may be repeated; none = only the progress file",
        parse=values.as_group(values.parse_patterns),
        many=True,
    )
    """Groups of patterns: a file may change if it matches one of each group, so with an empty group none may."""
    tools: tuple[tuple[str, ...], ...] = _list(
        "the tools that the agent has, such as Read,Grep; none = no tool", parse=values.as_group(values.names)
    )
    """Groups, too: the agent has the tools that are in every group."""
    deny: tuple[str, ...] = _list(
        "what the agent may not use: WebFetch, Bash(rm:*), the lists git-write and not-uv", parse=denied.parse_deny_list
    )
    roles: tuple[str, ...] = _list(
        "modes that each task passes in turn, such as test,build,review", sources=_BEFORE_TEMPLATE, needs="strict"
    )
    max_rounds: int = _row("N", "rounds of build and validate with `all` before it needs you", "3", values.count)
    validate_every: int | None = _count("ticks, or a heading's tasks, after which validate looks; 5 with all", "off")
    history: Path | None = _path("FILE", "a JSONL file to which each attempt is appended", parse=values.jsonl)
    notify_frequency: int | None = _count("a progress notice after iteration 1 and every N; off = none", "5")
    heartbeat_url: str | None = _url("fetched after every iteration and every 5 minutes of waiting", sources=PRIVATE)
    auto_commit: bool = _flag("commit after each task; with --strict ralph does, else the agent", "true")
    agent: tuple[str, ...] = _command(
        "claude, codex, gemini, opencode, or a command that reads a prompt; a,b = b while a is at its limit", "claude"
    )
    agent_for: tuple[str, ...] = _row(
        OF_MODES, "the agent of a mode or role; may be repeated", many=True, sources=PRIVATE
    )
    wrap: tuple[str, ...] | None = _command("a command in front of the agent, of verify and of hooks, such as bwrap …")
    mcp: bool = _flag("give the agent the tools of `ralph mcp`", "false")
    model: tuple[str, ...] | None = _row("NAME", "the model; a,b = b where a failed", "", values.ladder, modes_own=True)
    effort: str | None = _word(
        "none|low|medium|high|xhigh|max", "how hard the agent thinks", alias="reasoning", modes_own=True
    )
    max_turns: int | None = _row("N", "turns of the agent in one iteration", parse=values.count)
    prompts: Path | None = _path(
        "DIR", "a folder of PROMPT_<mode>.md files, looked in first", parse=values.parse_folder
    )
    progress_file: Path | None = _path("FILE", "the file that holds the state, if not <plan>_PROGRESS.md")
    once: bool = _flag("one iteration that changes nothing but the progress file", "false", sources=_OF_TEMPLATES)
    then: tuple[str, ...] = _list("the mode that follows, and others that may", sources=_OF_TEMPLATES)
    interactive: bool = _flag("you talk to the agent, on a terminal", "false", sources=_OF_TEMPLATES)

    def __init__(self, **found: Any) -> None:
        self.given = dict[str, GivenSetting]()
        """For each field that somebody set, the given setting that decided its value."""
        self.has_own_agent = False
        """Whether the mode has its own agent instead of the one for all modes."""
        self.remarks = list[RalphError]()
        """Warnings: what is not an error but worth telling the user."""
        for one in TABLE:
            default = one.parse(one.default) if one.default else () if one.many else None
            setattr(self, one.field, found.get(one.field, default))

    @property
    def next_mode(self) -> str:
        """The first mode that the template lists as following, other than `done`; empty if it lists none."""
        return next((mode for mode in self.then if mode != "done"), "")


TABLE = tuple(row._replace(field=name) for name, row in vars(Settings).items() if isinstance(row, Setting))
BY_VARIABLE = {one.variable: one for one in TABLE}
BY_VARIABLE |= {f"RALPH_{one.alias.replace('-', '_').upper()}": one for one in TABLE if one.alias}
SUBJECTS = {
    "max_iterations": "Limits",
    "delay": "Pauses and timeouts",
    "verify": "Checks",
    "strict": "Strict tasks",
    "jobs": "Parallel tasks",
    "only": "What the agent may do",
    "roles": "Modes and roles",
    "history": "Records and notices",
    "auto_commit": "Commits",
    "agent": "The agent",
    "prompts": "Files",
}
"""The subject of each group of rows, by the field of its first row."""

ON_COMMAND_LINE = tuple(one for one in TABLE if Source.COMMAND_LINE in one.sources)


def agent_variable_name(mode: str) -> str:
    """The variable, in the environment and in env files, that sets the agent of that mode."""
    return AGENT_OF + mode.upper().replace("-", "_")


def resolve_settings(given: Iterable[GivenSetting], also_known: Sequence[str] = ()) -> Settings:
    """Returns the settings of this run: for each, the strongest source wins, and within a source the first value.

    Raises RalphError with everything that is wrong: unknown names, malformed values, sources that may not set what
    they set. `also_known` are names outside the table, such as those that channels read.
    """
    problems, settings = list[RalphError](), Settings()
    for one in _strongest_first(given):
        try:
            _apply_setting(one, settings, also_known)
        except RalphError as problem:
            # The environment may name a mode of another project.
            is_of_a_mode = one.source is Source.ENVIRONMENT and one.variable.startswith(AGENT_OF)
            (settings.remarks if is_of_a_mode else problems).append(problem)
    if "git-write" in settings.deny and not settings.strict:
        settings.auto_commit, settings.given["auto_commit"] = False, settings.given["deny"]
    problems += _ineffective_settings(settings)
    if problems:
        raise RalphError.of(problems)
    return settings


def _ineffective_settings(settings: Settings) -> list[RalphError]:
    """Returns a problem for settings on the command line that need another setting; other sources' become remarks."""
    has = {"strict": settings.strict, "jobs": "jobs" in settings.given}
    idle = defaultdict[tuple[bool, str], list[str]](list)
    for setting in TABLE:
        one = settings.given.get(setting.field)
        missing = " ".join(f"--{name}" for name in has if not has[name] and setting.needs in (name, "jobs"))
        if one and missing:
            asked = one.source is Source.COMMAND_LINE
            idle[asked, missing].append(one.where if asked else f"{one.where}: {one.variable}")
    problems = list[RalphError]()
    for (asked, missing), where in idle.items():
        what = f"{', '.join(where)}: no effect without {missing}"
        found = problems if asked else settings.remarks
        found.append(RalphError(what, fix=f"add {missing} or leave that out"))
    return problems


def _strongest_first(given: Iterable[GivenSetting]) -> Iterable[GivenSetting]:
    """Returns one entry for each variable and source, the strongest first; several lines of a list become one."""
    message = dict[tuple[str, Source], GivenSetting]()
    for one in sorted(given, key=lambda one: one.source):
        key = one.variable or one.text, one.source
        first, setting = message.setdefault(key, one), BY_VARIABLE.get(one.variable)
        if first is not one and setting and setting.many:
            message[key] = first._replace(text=f"{first.text} {one.text}")
    return message.values()


def _apply_setting(one: GivenSetting, settings: Settings, also_known: Sequence[str]) -> None:
    """Applies a given setting, unless a stronger source did. Raises RalphError if its name, source or text is wrong."""
    if not one.variable:
        raise RalphError(one.text)
    setting, text = BY_VARIABLE.get(one.variable), one.text.strip()
    if not setting and one.variable not in also_known:
        fix = did_you_mean(one.variable, {name: name for name in (*BY_VARIABLE, *also_known)})
        raise RalphError(f"{one.where}: {one.variable} is not a setting", fix=fix)
    sources = setting.sources if setting else PRIVATE
    if one.source not in sources:
        raise RalphError(f"{one.where}: {one.variable} {_BELONGS[sources]}")
    of_command_line, of_template = one.source is Source.COMMAND_LINE, one.source is Source.TEMPLATE
    if not setting or not (text or of_command_line):
        return
    if "\0" in text:
        raise RalphError(f"{one.where}: {one.variable} has a NUL byte in it, which no command can take")
    try:
        value = setting.parse(text)
    except ValueError as error:
        name = "" if of_command_line else f": {one.variable}"
        raise RalphError(f'{one.where}{name}: "{text}": {error}') from None
    stronger = settings.given.get(setting.field)
    if not stronger or (of_template and setting.modes_own and stronger.source > Source.ENVIRONMENT):
        settings.given[setting.field] = one
        setattr(settings, setting.field, value)
    elif of_template and setting.many:
        setattr(settings, setting.field, getattr(settings, setting.field) + value)
