"""Acceptance criteria: what one line of text asks for, and whether it is so, found out by doing what it says."""

import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.channels import http
from ralph.errors import RalphError
from ralph.words import shortened

if TYPE_CHECKING:
    from ralph.verify import CommandRun

_RUN = re.compile(
    r"run\s+(`.+`)\s*(?:[-–—:,]+\s*)?"  # noqa: RUF001 - people and models write these dashes
    r"exit(?:s|ed)?(?:\s+with)?(?:\s+(?:exit\s+)?(?:code|status))?\s+([0-9]{1,9})",
    re.IGNORECASE | re.DOTALL,
)
_FILE = re.compile(r"file\s+(`+[^`]+`+)\s+(?:exists|contains\s+(`.+`))", re.IGNORECASE)
_HTTP = re.compile(
    r"(`?)([A-Z]{2,20}|(?i:get|head|post|put|patch|delete|options))\s+(`?)(/[^\s`]*)\3\1"
    r"\s+returns\s+(?:(?i:HTTP|status)(?:\s+(?:code|status))?\s+)?([0-9]{3})"
)
_BROWSER = re.compile(r"agent-browser\s*:\s*(.+)", re.IGNORECASE | re.DOTALL)
_ACTION = re.compile(
    r"""((?:"(?:\\.|[^"\\])*"|'[^']*'|[^"'])*?)(?<=\S)\s+[-–—]+\s.*""",  # noqa: RUF001 - as above
    re.DOTALL,
)
_SECOND_EXIT = re.compile(r"`\s*[-–—]+\s*exit", re.IGNORECASE)  # noqa: RUF001 - as above
_AGENT_BROWSER = "agent-browser"
_ANSWER_S = 10.0
"""Seconds in which a server has to answer; a signal to stop waits for them."""
_SHOWN = 150
_CHUNK = 1 << 20


class Kind(Enum):
    """Ways to find out whether a criterion is met."""

    RUN = "a command's exit code"
    FILE = "a file that exists, or a text in it"
    HTTP = "a server's answer"
    BROWSER = "an action in a browser"
    UNCHECKED = "not machine-checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion; only what its kind needs is filled."""

    text: str
    kind: Kind = Kind.UNCHECKED
    problem: str = ""
    """Why it can never be met, for the person who wrote it; mostly empty."""
    command: str = ""
    wanted: int = 0
    """The exit code that the command shall have, or the status of the answer."""
    path: str = ""
    holds: str = ""
    """The text that the file shall contain; empty when it only has to exist."""
    method: str = ""
    url: str = ""
    """What stands behind the base URL: a path, and a query."""
    action: Sequence[str] = ()
    """The words for agent-browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What criteria are checked in and with."""

    project: Path
    run: "Callable[[str], CommandRun | None]"
    """Runs a shell command; None when a signal ended it."""
    base_url: str | None = None
    over: Callable[[], bool] = lambda: False
    """Whether a signal asked ralph to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What came of checking a criterion."""

    criterion: Criterion
    met: bool
    why: str
    """What was found, and where it is something else, what should have been: one line."""
    output: str = ""
    """The end of what a command printed or the beginning of a server's answer, when it is not met."""


def parse(text: str) -> Criterion:
    """The criterion on this line; one that fits no pattern is UNCHECKED. Raises nothing.

    `Run `cmd` - exits with code N`, `File `path` exists`, `File `path` contains `text``, `METHOD /url returns STATUS`,
    `agent-browser: action - result`; as a bullet too, with a full stop, and with the dash or the words of `exits with`
    that people use in their place. A code span may hold backticks, as in markdown.
    """
    line = re.sub(r"\A[-*+]\s+", "", text.strip()).removesuffix(".").rstrip()
    for said in (line, line.replace("\\`", "`")):  # escaped where somebody copied it out of a table
        for read in (_command, _file, _request, _action):
            if found := read(said):
                problem = "it holds a NUL character" if "\0" in text else found.problem
                return replace(found, text=text.strip(), problem=problem)
    return Criterion(text=text.strip())


def _command(said: str) -> Criterion | None:
    found = _RUN.fullmatch(said)
    command = _code(found[1]).strip() if found else ""
    if not found or not command or _SECOND_EXIT.search(command):
        return None
    code = int(found[2])
    problem = "" if code < 256 else f"no program exits with {code}; the codes are 0 to 255"
    return Criterion(text=said, kind=Kind.RUN, command=command, wanted=code, problem=problem)


def _file(said: str) -> Criterion | None:
    found = _FILE.fullmatch(said)
    path, holds = (_code(found[1]).strip(), _code(found[2] or "")) if found else ("", "")
    if not found or not path or (found[2] and not holds):
        return None
    out = path.startswith(("/", "~")) or ".." in path.split("/")
    problem = f"`{path}` may lead out of the project; write it from the project's top folder on" if out else ""
    return Criterion(text=said, kind=Kind.FILE, path=path, holds=holds, problem=problem)


def _request(said: str) -> Criterion | None:
    found = _HTTP.fullmatch(said)
    if not found:
        return None
    status = int(found[5])
    problem = "" if 100 <= status < 600 else f"{status} is no HTTP status; they are 100 to 599"
    return Criterion(text=said, kind=Kind.HTTP, method=found[2].upper(), url=found[4], wanted=status, problem=problem)


def _action(said: str) -> Criterion | None:
    found = _BROWSER.fullmatch(said)
    if not found:
        return None
    action = cut[1] if (cut := _ACTION.fullmatch(found[1])) else found[1]
    try:
        words = shlex.split(_code(action.strip()) or action)
    except ValueError:
        return Criterion(text=said, kind=Kind.BROWSER, problem="a quotation mark of its action is never closed")
    return Criterion(text=said, kind=Kind.BROWSER, action=words) if "".join(words).strip("`") else None


def _code(span: str) -> str:
    """What a code span holds, whose end is as many backticks as its beginning; "" when the text is none."""
    length = len(span) - len(span.lstrip("`"))
    held = span[length:-length] if length and span.endswith("`" * length) else ""
    padded = held.startswith(" ") and held.endswith(" ") and held.strip()
    return held[1:-1] if padded else held if held.strip() else ""


def check_each(criteria: Iterable[Criterion], around: Around) -> Iterator[Met | None]:
    """Whether each of them is met, found out when it is asked for; None when a signal ended that, and nothing after it.

    An UNCHECKED one counts as met, with a note that nobody looked. Browser actions that follow one another share one
    browser, else no click would find the page that was opened.
    """
    for browsing, some in groupby(criteria, lambda one: one.kind is Kind.BROWSER and not one.problem):
        group = list(some)
        for met in _browsed(group, around) if browsing else (_checked(one, around) for one in group):
            yield met
            if met is None:
                return


def _checked(criterion: Criterion, around: Around) -> Met | None:
    if criterion.problem:
        return _unmet(criterion, f"{_shown(criterion.text)}: {criterion.problem}")
    if criterion.kind is Kind.FILE:
        return _looked_at(criterion, around.project)
    if criterion.kind is Kind.HTTP:
        return _asked(criterion, around)
    if criterion.kind is Kind.UNCHECKED:
        return Met(criterion=criterion, met=True, why=f"not machine-checked, nobody looked: {_shown(criterion.text)}")
    run = around.run(criterion.command)
    if run is None:
        return None
    what, code = f"Run `{_shown(criterion.command)}` {run.what}", criterion.wanted
    if run.code == code:
        return Met(criterion=criterion, met=True, why=what)
    known = run.code is not None and run.code >= 0
    return _unmet(criterion, f"{what}, {'not' if known else 'and should have exited with'} {code}", run.output)


def _looked_at(criterion: Criterion, project: Path) -> Met:
    """Of the project alone, wherever links lead; a folder exists as well."""
    path, holds = criterion.path, criterion.holds
    try:
        top = project.resolve()
        target = (top / path).resolve()
        if not target.is_relative_to(top):
            odd = "is a link that leads out of the project"
        elif not target.exists():
            odd = "does not exist"
        elif not target.is_dir() and (path.endswith("/") or not target.is_file()):
            odd = "is no folder" if path.endswith("/") else "is no file"
        else:
            odd = f"does not contain `{_shown(holds)}`" if holds and not _is_in(target, holds) else ""
    except (OSError, RuntimeError) as error:  # before Python 3.13 links in a circle are a RuntimeError
        odd = f"cannot be read: {getattr(error, 'strerror', None) or 'its links form a circle'}"
    as_wanted = f"contains `{_shown(holds)}`" if holds else "exists"
    return Met(criterion=criterion, met=not odd, why=f"File `{_shown(path)}` {odd or as_wanted}")


def _is_in(file: Path, words: str) -> bool:
    """Whether they stand in the file, of which two pieces at most are held in memory."""
    wanted, kept = words.encode(errors="surrogateescape"), b""
    with file.open("rb") as text:
        while more := text.read(_CHUNK):
            if wanted in kept + more:
                return True
            kept = (kept + more)[-len(wanted) :]
    return False


def _asked(criterion: Criterion, around: Around) -> Met | None:
    """A redirect is an answer and is not followed; a request has no content and bears no secret."""
    what, base_url = f"{criterion.method} {_shown(criterion.url)}", around.base_url or ""
    try:
        status, said = http.ask(criterion.method, base_url.rstrip("/") + criterion.url, timeout_s=_ANSWER_S)
    except RalphError as error:
        status, said = 0, error.message
    if around.over():
        return None
    if not status:
        return _unmet(criterion, f"{what}, which should return {criterion.wanted}: {http.origin(base_url)}: {said}")
    if status == criterion.wanted:
        return Met(criterion=criterion, met=True, why=f"{what} returned {status}")
    return _unmet(criterion, f"{what} returned {status}, not {criterion.wanted}", said)


def _browsed(criteria: Sequence[Criterion], around: Around) -> Iterator[Met | None]:
    """Met where `agent-browser` exits with 0; what stands behind the dash is for people, and nobody checks it."""
    lines = [shlex.join((_AGENT_BROWSER, *one.action)) for one in criteria]
    installed = shutil.which(_AGENT_BROWSER) is not None
    script = "\n".join(f"{line} || exit {number}" for number, line in enumerate(lines, 1))
    run = around.run(script) if installed else None
    for number, (one, line) in enumerate(zip(criteria, lines, strict=True), 1):
        action = f"`{_shown(line)}`"
        if not installed:
            yield _unmet(one, f"{_AGENT_BROWSER} is not installed, so {action} was not tried")
        elif run is None:
            yield None
        elif run.code is None or run.code < 0:
            yield _unmet(one, f"{action}, which should exit with 0: it {run.what}", run.output)
        elif run.code == 0 or number < run.code:
            yield Met(criterion=one, met=True, why=f"{action} exited with 0")
        elif number == run.code:
            yield _unmet(one, f"{action} failed, and should exit with 0", run.output)
        else:
            yield _unmet(one, f"{action} was not tried, since an action before it failed")


def _unmet(criterion: Criterion, why: str, output: str = "") -> Met:
    return Met(criterion=criterion, met=False, why=why, output=output)


def _shown(text: str) -> str:
    """The text on one line, and not so long that what was found is cut off behind it."""
    return shortened(" ".join(text.split()), _SHOWN)
