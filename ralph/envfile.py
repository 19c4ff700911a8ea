"""Env files: read as python-dotenv reads them, edited without touching what was not asked for."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import files
from ralph.errors import RalphError

HEADER = "# Settings of ralph for all projects; `ralph notify setup` writes here, and so may you.\n\n"
PRIVATE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One `NAME=value` of an env file."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One binding, comment or broken line; `lead + text + end` of all pieces is the whole file again."""

    lead: str
    """White space before it, which includes the blank lines above."""
    text: str
    end: str
    """The line end, as it was; "" at the end of a file without one."""
    line: int
    name: str | None
    value: str | None
    broken: bool


def read(path: Path) -> tuple[list[Entry], list[str]]:
    """What the file sets, in order, and its problems as "path:line: ..." for people; nothing if it is missing."""
    try:
        text = _text(path)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{path}: cannot be read: {error.strerror}"]
    pieces = _pieces(text)
    entries = [
        Entry(name=piece.name, value=piece.value, line=piece.line)
        for piece in pieces
        if piece.name is not None and piece.value is not None
    ]
    return entries, _problems(path, pieces)


def update(path: Path, values: Mapping[str, str | None]) -> None:
    """Sets names, or removes those that are None; every other byte stays, and only the owner may read the file.

    A file that dotenv cannot wholly parse is left alone: an edit could land inside somebody's open quote.
    """
    lines = {name: None if value is None else f"export {name}={quoted(value)}" for name, value in values.items()}
    if path.exists() and not path.is_file():  # a link to /dev/null, say
        raise RalphError(f"{path}: is no regular file, so it is not edited", 1)
    try:
        text = _text(path)
    except FileNotFoundError:
        text = HEADER
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}", 1) from error
    pieces = _pieces(text)
    if problems := _problems(path, pieces):
        raise RalphError("\n".join([*problems, "Mend that first; nothing was changed."]), 1)
    try:
        files.replace(path, _edited(pieces, lines).encode("utf-8", "surrogateescape"), mode=PRIVATE)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error


def open_to_others(path: Path) -> bool:
    """Whether somebody besides the owner may read or write the file."""
    return path.exists() and bool(path.stat().st_mode & 0o077)


def quoted(value: str) -> str:
    r"""The value in quotes that python-dotenv and a POSIX shell both read back exactly.

    The two agree on "..." only without $ and `, which a shell expands there, and on '...' only without ' and \\,
    which dotenv unescapes there. A final \ would swallow the closing quote in dotenv 1.2.2 and before.
    """
    if re.search(r"[\n\r\0]", value):
        raise RalphError("a value must be a single line")
    if value.endswith("\\"):
        raise RalphError("a value must not end in a backslash")
    if not re.search(r"[$`]", value):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    if "'" in value or "\\\\" in value:
        raise RalphError("a value with $ or ` in it must hold neither ' nor a double backslash")
    return f"'{value}'"


def _text(path: Path) -> str:
    """The file's text; bytes that are not UTF-8 survive in it."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _pieces(text: str) -> list[_Piece]:
    from dotenv.parser import parse_stream  # noqa: PLC0415 - 20 ms that a start without env files need not pay

    bom = text[: text.startswith("\ufeff")]
    pieces: list[_Piece] = []
    line = 1
    for binding in parse_stream(io.StringIO(text[len(bom) :])):
        whole = binding.original.string
        body = whole.lstrip()
        text_only = body.rstrip("\r\n")
        lead = whole.removesuffix(body)
        pieces.append(
            _Piece(
                lead=lead if pieces else bom + lead,
                text=text_only,
                end=body.removeprefix(text_only),
                line=line + lead.count("\n"),
                name=binding.key,
                value=binding.value,
                broken=binding.error,
            )
        )
        line += whole.count("\n")
    return pieces


def _problems(path: Path, pieces: Sequence[_Piece]) -> list[str]:
    return [f'{path}:{piece.line}: is no NAME="value" (a quote left open?)' for piece in pieces if piece.broken]


def _edited(pieces: Sequence[_Piece], lines: Mapping[str, str | None]) -> str:
    """The file with each name's first line replaced, its further lines removed, and new names at the end."""
    missing = {name: line for name, line in lines.items() if line is not None}
    text = ""
    for piece in pieces:
        if piece.name not in lines:
            text += piece.lead + piece.text + piece.end
        elif piece.name in missing:
            text += piece.lead + missing.pop(piece.name) + piece.end
        else:
            text += re.sub(r"[^\r\n\ufeff]*\Z", "", piece.lead)  # the blank lines above stay, its indentation goes
    newline = "\r\n" if "\r\n" in text else "\n"
    if missing and text.strip("\ufeff") and not text.endswith("\n"):
        text += newline
    return text + "".join(line + newline for line in missing.values())
