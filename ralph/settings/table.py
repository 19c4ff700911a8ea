"""The table of settings, which defines options, variables, directives and help: one row for each."""

import os
import re
import shlex
from collections.abc import Callable
from enum import IntFlag
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ralph.errors import RalphError


class Source(IntFlag):
    """Where a setting may be given, the strongest first."""

    COMMAND_LINE = 1
    DO_NOT_COMMIT = 2  # that word in a plan forbids commits, whatever the environment says
    ENVIRONMENT = 4
    PLAN = 8
    PROJECT_FILE = 16  # ./.ralph.env
    HOME_FILE = 32  # ~/.ralph.env
    TEMPLATE = 64


PRIVATE = Source.COMMAND_LINE | Source.ENVIRONMENT | Source.HOME_FILE
"""The other sources are files of the project, which the agent can write."""
_BEFORE_TEMPLATE = ~Source.TEMPLATE
BELONGS = {
    PRIVATE: "belongs on the command line, in the environment or in ~/.ralph.env, where the agent does not write",
    _BEFORE_TEMPLATE: "comes too late in a template",
    Source.TEMPLATE: "belongs in a prompt template",
}
AGENT_OF = "RALPH_AGENT_"
"""How the variable begins that names the agent of a mode."""
DENY_LISTS = {
    "git-write": (
        (
            "git commit, git push, git pull, git merge, git rebase, git checkout, git reset, git stash, "
            "git cherry-pick, git revert, git branch -d, git branch -D, git branch --delete"
        ),
        "leave your changes in the working tree; who reads them commits",
    ),
    "not-uv": (
        (
            "pip, pip3, python -m pip, python3 -m pip, conda, poetry, pipenv, virtualenv, python -m venv, "
            "python3 -m venv, pytest, python -m pytest, python3 -m pytest"
        ),
        "`uv add`, `uv sync`, `uv run pytest`",
    ),
}
"""Each list's commands, denied whatever follows them, and what to do instead. `git-write` has what changes the
repository's history or branches, or takes work out of the working tree; `not-uv` has the ways to install Python
packages, and to run tests, other than uv."""


class GivenSetting(NamedTuple):
    """A setting as somebody wrote it; `where` is for messages: `feature.md:12`, `--delay`."""

    variable: str
    text: str
    source: Source
    where: str

    @property
    def label(self) -> str:
        """How messages name it."""
        return self.where if self.source is Source.COMMAND_LINE else f"{self.where}: {self.variable}"


Parser = Callable[[str], Any]
"""Turns a setting's text into its value; raises ValueError with what is allowed."""
Words = tuple[str, ...]


def parse_matching(form: str, convert: Parser, allowed: str) -> Parser:
    """Returns a parser that converts texts that match `form`, and rejects all others."""

    def parse(text: str) -> Any:
        if not re.fullmatch(f"(?ai:{form})", text):  # in any case, and \d for ASCII digits alone
            raise ValueError(f"write {allowed}")
        return convert(text)

    return parse


def parse_matching_or_off(form: str, convert: Parser, allowed: str) -> Parser:
    """Returns such a parser that also reads "off" and "unlimited", as None."""
    return parse_matching(
        f"off|unlimited|{form}",
        lambda text: None if text.lower() in ("off", "unlimited") else convert(text),
        f"{allowed}, off or unlimited",
    )


def _sum_seconds(text: str) -> float:
    parts = re.findall(r"([\d.]+)([hm]?)", text.lower())
    return sum(float(number) * {"h": 3600, "m": 60}.get(unit, 1) for number, unit in parts)


def _expand_home(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path raises at ~nobody


_ABOVE_ZERO = "(?=.*[1-9])"
# A number without a unit is seconds, but only on its own: people read the 30 in `1h30` as minutes.
_DURATION = r"(?=.)(?:(?:\d{1,6}h)?(?:\d{1,8}m)?(?:\d{1,9}(?:\.\d{1,6})?s)?|\d{1,9}(?:\.\d{1,6})?)"
# A tool's name and what it is limited to, in parentheses, where commas and blanks do not separate names.
_NAME = r"(?:[^\s,()]|\((?:[^()]|\([^()]*\))*\))+"
_COUNT = (r"[1-9]\d{0,8}", int, "a whole number from 1")
_any_text = parse_matching(r"[^\0]+", str, "something, without NUL bytes")
_any_path = parse_matching(r"[^\0]+", _expand_home, "a path")
truth = parse_matching(
    "true|yes|on|1|false|no|off|0", lambda text: text.lower() in ("true", "yes", "on", "1"), "true or false"
)
_name_list = parse_matching(
    rf"{_NAME}(?:[\s,]+{_NAME})*", lambda text: tuple(re.findall(_NAME, text)), "names such as Read, Bash(ls:*)"
)
_file_pattern = parse_matching(
    r"(?!/|(?:.*/)?\.\.(?:/|$)).+",
    lambda text: text.removeprefix("./"),
    "a pattern of files in the project such as 'tests/**'",
)


def _parse_folder(text: str) -> Path:
    found: Path = _any_path(text)
    if not found.is_dir():
        raise ValueError("is not a folder")
    return found


def _split_like_shell(text: str) -> Words:
    return tuple(shlex.split(_any_text(text)))


def _parse_deny_list(text: str) -> Words:
    names: Words = _name_list(text)
    for name in names:
        if re.fullmatch("[a-z]+-[a-z-]+", name) and name not in DENY_LISTS:  # no tool has such a name
            raise ValueError(f"{name} is not a list; there are {', '.join(DENY_LISTS)}")
    return names


def _as_one_group(names: Words) -> tuple[Words]:
    """Makes one group of them, which is empty if "none" is there."""
    return (() if "none" in names else names,)


class Setting(NamedTuple):
    """A row of the table."""

    metavar: str
    """Empty if its option takes no value: `--name` means true then, and `--no-name` false."""
    meaning: str
    default: str = ""
    """As a user would write it; empty if there is no default."""
    parse: Parser = _any_text
    alias: str = ""
    """A second name."""
    many: bool = False
    """Whether it is a list: the values from one source add up, and the template's are added to those of the strongest
    source."""
    modes_own: bool = False
    """Whether a template's value applies to its mode, and overrides the plan and the env files."""
    sources: Source = ~Source(0)
    """Where it may be given: anywhere, unless the row says otherwise."""
    needs: str = ""
    """The settings without which it has no effect."""
    field: str = ""
    """Its name in `Settings`."""

    @property
    def hyphenated_name(self) -> str:
        """The name of its option, without `--`."""
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment, in env files, plans and templates."""
        return f"{AGENT_OF}<MODE>" if self.field == "agent_for" else f"RALPH_{self.field.upper()}"


# Any, so that a field can be declared with the type of its value, as these do for rows of one kind.
_row: Any = Setting
_flag: Callable[..., bool] = partial(_row, "", default="false", parse=truth)
_command = partial(_row, "COMMAND", parse=_split_like_shell, sources=PRIVATE)
_number: Callable[..., int] = partial(_row, "N", parse=parse_matching(*_COUNT))
_limit: Callable[..., int | None] = partial(_row, "N", parse=parse_matching_or_off(*_COUNT))
_list: Callable[..., Words] = partial(_row, "NAMES", parse=_name_list, many=True)
_time: Callable[..., float | None] = partial(
    _row, "TIME", parse=parse_matching_or_off(_ABOVE_ZERO + _DURATION, _sum_seconds, "a time such as 90m, 4h or 1h30m")
)
_url: Callable[..., str | None] = partial(
    _row, "URL", parse=parse_matching(r"\w+://[^\s/]+\S*", str, "an address such as https://…")
)
_usd: Callable[..., float | None] = partial(
    _row,
    "USD",
    default="unlimited",
    parse=parse_matching_or_off(
        _ABOVE_ZERO + r"\$?\d{1,7}(?:\.\d{1,4})?", lambda text: float(text.lstrip("$")), "US dollars such as 5 or 2.50"
    ),
)


def _choice_row(words_between_bars: str, *more: str, **others: Any) -> str:
    """Returns a row whose value is one of these words, which are separated by bars; `med` is ralph1's for medium."""
    form = words_between_bars.replace("medium", "medium|med")
    parse = parse_matching(
        form, lambda text: re.sub("^med$", "medium", text.lower()), words_between_bars.replace("|", " or ")
    )
    row: str = _row(words_between_bars, *more, parse=parse, **others)
    return row


class Settings:
    """The settings of one run. Times are seconds, costs US dollars; None means no limit, or the agent's own choice.

    On the class itself, each attribute is its row of the table.
    """

    max_iterations = _limit("maximum iterations of this run", "unlimited")
    max_time = _time("maximum time of this run; ends the running iteration too", "unlimited", alias="duration")
    max_cost = _usd("maximum cost of this run in US dollars")
    max_iteration_cost = _usd("maximum cost of one iteration in US dollars")
    max_total_cost = _usd("maximum cost of the plan over all runs in US dollars; counts its Spent: line")
    max_failures = _limit(
        "give up after this many failed iterations, blocked tasks or rejected claims in a row; off = never", "3"
    )
    max_stalls = _limit("give up after this many iterations in a row that change nothing; off = never", "5")
    delay: float = _row(
        "TIME",
        "pause between iterations",
        "2s",
        parse_matching(_DURATION, _sum_seconds, "a time such as 2s, 90m, 4h or 1h30m"),
    )
    idle_timeout = _time("kill the agent after this long without output", "30m")
    iteration_timeout = _time("maximum time of one iteration", "off")
    max_context: float | None = _row(
        "PERCENT",
        "end an iteration once it has used this part of the model's context",
        "off",
        parse_matching_or_off(r"[1-9]\d?%", lambda text: int(text[:-1]) / 100, "a part of the context such as 60%"),
    )
    wait = _flag("at a usage limit wait until it is over; otherwise stop with exit code 3", default="true")
    verify: str | None = _row(
        "COMMAND", "shell command that must pass before RALPH_DONE counts; with --strict before each tick"
    )
    verify_timeout = _time("maximum time of the verify command", "30m")
    strict = _flag("ralph picks, checks, ticks and commits each task; the agent only proposes")
    task: str | None = _row("ID", "work only on this task", sources=PRIVATE, needs="strict")
    max_tries = _limit("failed attempts at a task before it is marked [!]; off = never", "3", needs="strict")
    on_failure = _choice_row(
        "keep|restore", "a failed attempt's changes: kept for the next one, or undone", "keep", needs="strict"
    )
    on_tamper = _choice_row(
        "undo|abort", "what the agent changed in the tasks: undone, or the run ends too", "undo", needs="strict"
    )
    criteria = _choice_row(
        "lenient|strict", "strict rejects tasks with verify: lines that no machine can check", "lenient", needs="strict"
    )
    evidence: bool = _row(
        "on|off",
        "run a task's checks before its first attempt, and all checks again before done",
        "on",
        truth,
        needs="strict",
    )
    base_url = _url("the server for checks such as `GET /path returns 200`", needs="strict")
    jobs = _number("work on this many tasks at the same time, each in a clone", "1", alias="max-agents", needs="strict")
    setup: str | None = _row("COMMAND", "shell command that prepares a clone, such as 'npm ci'", needs="strict jobs")
    setup_copy = _list(
        "ignored files that a clone needs, such as .env; may be repeated", parse=_split_like_shell, needs="strict jobs"
    )
    allow_dirty = _flag("start even if tracked files have uncommitted changes", needs="strict jobs")
    keep_clones = _flag("keep the clones, so that you can inspect them", needs="strict jobs")
    runner: Words | None = _command("a command in front of each attempt, such as 'srun -N1'", needs="strict jobs")
    landing_window: int | None = _number(
        "finished tasks checked at the same time before they are merged; 1, or 4 with --executor or --runner",
        needs="strict jobs",
    )
    executor = _url("a Dask cluster for the attempts, dask://HOST:8786", sources=PRIVATE, needs="strict jobs")
    only: tuple[Words, ...] = _row(
        "GLOB",
        "files that an iteration may change, such as 'tests/**'; may be repeated; none = only the progress file",
        parse=lambda text: _as_one_group(tuple(map(_file_pattern, _split_like_shell(text)))),
        many=True,
    )
    """Groups of patterns: a file may change if it matches one of each group, so with an empty group none may."""
    tools: tuple[Words, ...] = _row(
        "NAMES",
        "the tools that the agent has, such as Read,Grep; none = no tool",
        parse=lambda text: _as_one_group(_name_list(text)),
        many=True,
    )
    """Groups, too: the agent has the tools that are in every group."""
    deny = _list(
        "what the agent may not use: WebFetch, Bash(rm:*), the lists git-write and not-uv", parse=_parse_deny_list
    )
    roles = _list(
        "modes that each task goes through in turn, such as test,build,review", sources=_BEFORE_TEMPLATE, needs="strict"
    )
    max_rounds = _number("maximum rounds of build and validate with `all`; then ralph needs you", "3")
    validate_every = _limit("validate after this many ticks, and after all tasks of a heading; 5 with all", "off")
    history: Path | None = _row(
        "FILE",
        "a JSONL file; each attempt is appended to it",
        parse=parse_matching(r"[^\0]+\.jsonl", _expand_home, "a file of its own such as attempts.jsonl"),
        sources=_BEFORE_TEMPLATE,
    )
    notify_frequency = _limit("notify about progress after iteration 1 and every N iterations; off = never", "5")
    heartbeat_url = _url("fetch this URL after every iteration, and every 5 minutes while waiting", sources=PRIVATE)
    auto_commit = _flag("commit after each task: ralph with --strict, else the agent", default="true")
    agent: Words = _command(
        "claude, codex, gemini, opencode, or a command that reads a prompt; a,b = b while a is at its limit", "claude"
    )
    agent_for: Words = _row("MODE=AGENT", "the agent of a mode or role; may be repeated", many=True, sources=PRIVATE)
    wrap: Words | None = _command("sandbox command in front of the agent, verify and hooks, such as bwrap …")
    mcp = _flag("give the agent the tools of `ralph mcp`")
    model: Words | None = _row(
        "NAME",
        "the model; a,b = b where a failed",
        parse=parse_matching(
            "[^,]+(?:,[^,]+)*", lambda text: tuple(map(str.strip, text.split(","))), "models as haiku,opus"
        ),
        modes_own=True,
    )
    effort: str | None = _choice_row(
        "none|low|medium|high|xhigh|max", "how hard the model thinks", alias="reasoning", modes_own=True
    )
    max_turns: int | None = _number("maximum turns of the agent in one iteration")
    prompts: Path | None = _row(
        "DIR", "a folder with PROMPT_<mode>.md files, searched first", parse=_parse_folder, sources=_BEFORE_TEMPLATE
    )
    progress_file: Path | None = _row(
        "FILE", "the progress file, if not <plan>_PROGRESS.md", parse=_any_path, sources=_BEFORE_TEMPLATE
    )
    once = _flag("one iteration that changes nothing but the progress file", sources=Source.TEMPLATE)
    then = _list("the mode that follows, and others that may", sources=Source.TEMPLATE)
    interactive = _flag("you talk to the agent in a terminal", sources=Source.TEMPLATE)

    def __init__(self, **found: Any):
        self.given = dict[str, GivenSetting]()
        """For each field that somebody set, the given setting that decided its value."""
        self.has_own_agent = False
        """Whether the mode has its own agent instead of the one for all modes."""
        # The template of the mode.
        self.template, self.template_text = Path(), ""
        self.remarks = list[RalphError]()
        """Warnings: what is not an error but worth telling the user."""
        for one in TABLE:
            default = one.parse(one.default) if one.default else () if one.many else None
            setattr(self, one.field, found.get(one.field, default))

    @property
    def next_mode_or_empty(self) -> str:
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
