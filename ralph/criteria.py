"""Acceptance criteria: what one line of text asks for, and whether it is so, found out by doing what it says."""

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.channels import http, without_secrets
from ralph.words import shortened

if TYPE_CHECKING:
    from ralph.verify import CommandRun

_ANSWER_S = 10.0
"""Seconds in which a server has to answer; a signal to stop waits for them."""
_SHOWN = 150
_DASH = "-–—"  # noqa: RUF001 - people and models write all three


class Kind(Enum):
    """Ways to find out whether a criterion is met."""

    RUN = "a command's exit code"
    FILE = "a file that exists, or a text in it"
    HTTP = "a server's answer"
    BROWSER = "actions in a browser"
    UNCHECKED = "not machine-checked"


def _code(name: str, held: str) -> str:
    """A pattern for a code span that is not blank, whose end is as many backticks as its beginning."""
    return rf"(?P<_{name}>`+)(?!`|\s+(?P=_{name}))(?P<{name}>{held})(?P=_{name})"


_COMMAND = _code("command", rf"(?:(?!`\s*[{_DASH}]+\s*exit).)+")
_PATTERNS = {
    Kind.RUN: re.compile(
        rf"(?is:run\s+{_COMMAND}\s*(?:[{_DASH}:,]+\s*)?"
        r"exit(?:s|ed)?(?:\s+with)?(?:\s+(?:exit\s+)?(?:code|status))?\s+(?P<wanted>25[0-5]|2[0-4]\d|1?\d?\d))"
    ),
    Kind.FILE: re.compile(rf"(?i:file\s+{_code('path', '[^`]+')}\s+(?:exists|contains\s+{_code('holds', '.+')}))"),
    Kind.HTTP: re.compile(
        r"`?(?P<method>[A-Z]{2,20}|(?i:get|head|post|put|patch|delete|options))\s+`?(?P<url>/[^\s`]*)`?"
        r"\s+returns\s+(?:(?i:HTTP|status)(?:\s+(?:code|status))?\s+)?(?P<wanted>[1-5]\d\d)"
    ),
    Kind.BROWSER: re.compile(r"(?is:agent-browser\s*:\s*(?P<action>.+))"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion; only what its kind needs is filled."""

    text: str
    kind: Kind = Kind.UNCHECKED
    command: str = ""
    path: str = ""
    holds: str = ""
    """The text that the file shall contain; empty when it only has to exist."""
    method: str = ""
    url: str = ""
    """What stands behind the base URL: a path, and a query."""
    wanted: int = 0
    """The exit code that the command shall have, or the status of the answer."""


class Met(NamedTuple):
    """What came of checking a criterion."""

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
    for kind, pattern in _PATTERNS.items():
        if not (found := pattern.fullmatch(line)) or "\0" in line:
            continue
        said = {name: value or "" for name, value in found.groupdict().items() if not name.startswith("_")}
        if kind is Kind.BROWSER:
            said["command"] = _browser_command(said.pop("action"))
            if not said["command"]:
                continue
        wanted = int(said.pop("wanted", "0"))
        for name in {"command", "path"} & said.keys():
            said[name] = said[name].strip()
        return Criterion(text=text.strip(), kind=kind, wanted=wanted, **said)
    return Criterion(text=text.strip())


def _browser_command(action: str) -> str:
    """The words for agent-browser up to the first dash; what stands behind it is for people, and nobody checks it."""
    lexer = shlex.shlex(action, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words = []
    try:
        for word in lexer:
            if word and not word.strip(_DASH):
                break
            words.append(word.strip("`"))
    except ValueError:  # a quotation mark that is never closed
        return ""
    return shlex.join(["agent-browser", *words]) if any(words) else ""


def in_one_browser(criteria: Iterable[Criterion]) -> list[Criterion]:
    """The same with actions that follow one another as one: else no click would find the page that was opened."""
    found: list[Criterion] = []
    for one in criteria:
        last = found[-1] if found else one
        if found and last.kind is one.kind is Kind.BROWSER:
            text, command = f"{last.text}; {one.text}", f"{last.command} && {one.command}"
            found[-1] = replace(last, text=text, command=command)
        else:
            found.append(one)
    return found


def check(
    criterion: Criterion, *, project: Path, base_url: str | None, run: "Callable[[str], CommandRun | None]"
) -> Met | None:
    """Whether it is met; an UNCHECKED one is, with a note that nobody looked. None when a signal ended the command.

    `run` runs a shell command, `base_url` is where the server is that answers.
    """
    if criterion.kind is Kind.FILE:
        return _looked_at(criterion, project)
    if criterion.kind is Kind.HTTP:
        return _asked(criterion, base_url or "")
    if criterion.kind is Kind.UNCHECKED:
        return Met(True, f"not machine-checked, nobody looked: {_shown(criterion.text)}")
    ended = run(criterion.command)
    if ended is None:
        return None
    what = f"Run `{_shown(criterion.command)}` {ended.what}"
    if ended.code == criterion.wanted:
        return Met(True, what)
    known = ended.code is not None and ended.code >= 0
    return Met(False, f"{what}, {'not' if known else 'and should have exited with'} {criterion.wanted}", ended.output)


def _looked_at(criterion: Criterion, project: Path) -> Met:
    """Of the project alone, wherever links lead; a folder exists as well."""
    holds = criterion.holds
    try:
        target = (project.resolve() / criterion.path).resolve()
        if not target.is_relative_to(project.resolve()):
            odd = "leads out of the project; write it from the project's top folder on"
        elif not target.exists():
            odd = "does not exist"
        elif holds and not target.is_file():  # nobody waits for a named pipe
            odd = "is no file"
        elif holds and holds.encode(errors="surrogateescape") not in target.read_bytes():
            odd = f"does not contain `{_shown(holds)}`"
        else:
            odd = ""
    except (OSError, RuntimeError) as error:  # before Python 3.13 links in a circle are a RuntimeError
        odd = f"cannot be read: {getattr(error, 'strerror', None) or 'its links form a circle'}"
    as_wanted = f"contains `{_shown(holds)}`" if holds else "exists"
    return Met(not odd, f"File `{_shown(criterion.path)}` {odd or as_wanted}")


def _asked(criterion: Criterion, base_url: str) -> Met:
    """A redirect is an answer and is not followed; a request has no content and bears no secret."""
    what, wanted = f"{criterion.method.upper()} {_shown(criterion.url)}", criterion.wanted
    status, said = http.ask(criterion.method.upper(), base_url.rstrip("/") + criterion.url, timeout_s=_ANSWER_S)
    if not status:
        return Met(False, f"{what}, which should return {wanted}: {without_secrets(base_url)}: {said}")
    if status == wanted:
        return Met(True, f"{what} returned {status}")
    return Met(False, f"{what} returned {status}, not {wanted}", said)


def _shown(text: str) -> str:
    """The text on one line, and not so long that what was found is cut off behind it."""
    return shortened(" ".join(text.split()), _SHOWN)
