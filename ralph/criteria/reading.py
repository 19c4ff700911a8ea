"""What a criterion asks for, read from its line."""

import re
import shlex
from dataclasses import dataclass, replace
from enum import Enum

_RUN = re.compile(
    r"run\s+(`.+`)\s*(?:[-–—:,]+\s*)?"  # noqa: RUF001 - people and models write these dashes
    r"exit(?:s|ed)?(?:\s+with)?(?:\s+(?:exit\s+)?(?:code|status))?\s+([0-9]{1,9})",
    re.IGNORECASE | re.DOTALL,
)
_EXISTS = re.compile(r"file\s+(`[^`]+`)\s+exists", re.IGNORECASE)
_CONTAINS = re.compile(r"file\s+(`+[^`]+`+)\s+contains\s+(`.+`)", re.IGNORECASE)
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


class Kind(Enum):
    """Ways to find out whether a criterion is met."""

    RUN = "a command's exit code"
    EXISTS = "a file that exists"
    CONTAINS = "a text in a file"
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
    code: int = 0
    """The exit code that the command shall have."""
    path: str = ""
    holds: str = ""
    """The text that the file shall contain."""
    method: str = ""
    url: str = ""
    """What stands behind the base URL: a path, and a query."""
    status: int = 0
    action: tuple[str, ...] = ()
    """The words for agent-browser."""


def parse(text: str) -> Criterion:
    """The criterion on this line; one that fits no pattern is UNCHECKED. Raises nothing.

    `Run `cmd` - exits with code N`, `File `path` exists`, `File `path` contains `text``, `METHOD /url returns STATUS`,
    `agent-browser: action - result`; as a bullet too, with a full stop, and with the dash or the words of `exits with`
    that people use in their place. A code span may hold backticks, as in markdown.
    """
    line = re.sub(r"\A[-*+]\s+", "", text.strip()).removesuffix(".").rstrip()
    for said in (line, line.replace("\\`", "`")):  # escaped where somebody copied it out of a table
        for read in (_command, _file, _text, _request, _action):
            if found := read(said):
                return replace(found, text=text.strip(), problem=_unusable(text) or found.problem)
    return Criterion(text=text.strip())


def _unusable(text: str) -> str:
    """Why no program and no file can ever be given this text."""
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return "it holds half a character"
    return "it holds a NUL character" if "\0" in text else ""


def _command(said: str) -> Criterion | None:
    found = _RUN.fullmatch(said)
    command = _code(found[1]).strip() if found else ""
    if not found or not command or _SECOND_EXIT.search(command):
        return None
    code = int(found[2])
    problem = "" if code < 256 else f"no program exits with {code}; the codes are 0 to 255"
    return Criterion(text=said, kind=Kind.RUN, command=command, code=code, problem=problem)


def _file(said: str) -> Criterion | None:
    found = _EXISTS.fullmatch(said)
    path = _code(found[1]).strip() if found else ""
    return Criterion(text=said, kind=Kind.EXISTS, path=path, problem=_outside(path)) if path else None


def _text(said: str) -> Criterion | None:
    found = _CONTAINS.fullmatch(said)
    path, holds = (_code(found[1]).strip(), _code(found[2])) if found else ("", "")
    if not path or not holds:
        return None
    return Criterion(text=said, kind=Kind.CONTAINS, path=path, holds=holds, problem=_outside(path))


def _outside(path: str) -> str:
    """Why this path leaves the project, as far as its text shows."""
    if path.startswith(("/", "~/")) or path == "~":
        return f"`{path}` is no path within the project; write it from the project's top folder on"
    return f"`{path}` may not go up with `..`; write it from the top folder on" if ".." in path.split("/") else ""


def _request(said: str) -> Criterion | None:
    found = _HTTP.fullmatch(said)
    if not found:
        return None
    status = int(found[5])
    problem = "" if 100 <= status < 600 else f"{status} is no HTTP status; they are 100 to 599"
    return Criterion(text=said, kind=Kind.HTTP, method=found[2].upper(), url=found[4], status=status, problem=problem)


def _action(said: str) -> Criterion | None:
    found = _BROWSER.fullmatch(said)
    if not found:
        return None
    action = cut[1] if (cut := _ACTION.fullmatch(found[1])) else found[1]
    try:
        words = tuple(shlex.split(_code(action.strip()) or action))
    except ValueError:
        return Criterion(text=said, kind=Kind.BROWSER, problem="a quotation mark of its action is never closed")
    return Criterion(text=said, kind=Kind.BROWSER, action=words) if "".join(words).strip("`") else None


def _code(span: str) -> str:
    """What a code span holds; "" when the text is none.

    Its end is as many backticks as its beginning (CommonMark 6.1). Where these occur in pairs within, they are taken
    for a shell's own: `echo `date``.
    """
    length = len(span) - len(span.lstrip("`"))
    held = span[length:-length] if length else ""
    if not held.strip() or not span.endswith("`" * length):
        return ""
    if len(re.findall(rf"(?<!`)`{{{length}}}(?!`)", held)) % 2:
        return ""
    padded = held.startswith(" ") and held.endswith(" ")
    return held[1:-1] if padded else held
