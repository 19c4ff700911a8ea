"""The lines of a markdown text that lie outside code fences."""

import re
from dataclasses import dataclass
from typing import NamedTuple

_FENCE = re.compile(rb"(?:\xef\xbb\xbf)?((?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}|~{3,})(.*)", re.DOTALL)
_FENCE_START = rb"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?:```|~~~)"


class Line(NamedTuple):
    """One line of a text: `text[start:end]`, its line end included. A tuple, since a text may have a million."""

    start: int
    end: int
    body: bytes
    """The line without its line end and without a byte order mark."""


@dataclass(frozen=True, slots=True)
class _Fence:
    column: int
    mark: bytes
    length: int
    opens: bool
    closes: bool


def outside_fences(text: bytes, pattern: bytes) -> tuple[list[Line], int | None]:
    """The lines that begin with `pattern` (a regular expression) and stand in no code fence; and an unclosed fence.

    A fence is three or more backticks or tildes, closed by at least as many of the same (CommonMark 4.5), at any
    indentation, since lists may hold it. One never closed is no fence; the offset of the first such is returned.
    Only the lines asked for are looked at, so a file of 100 MB takes some tenths of a second.
    """
    begin = rb"(?:\xef\xbb\xbf)?(?:" + _FENCE_START + rb"|" + pattern + rb")"
    starts = [0] if re.match(begin, text) else []
    starts += (found.start() + 1 for found in re.finditer(rb"\n" + begin, text))  # four times as fast as ^
    lines = [_line(text, start) for start in starts]
    fences = [_fence(line.body) for line in lines]
    reach = _closers_from(fences)
    kept: list[Line] = []
    unclosed: int | None = None
    at = 0
    while at < len(lines):
        fence = fences[at]
        if fence is None:
            kept.append(lines[at])
        elif fence.opens:
            if any(_closes(end, fence) for end in reach[at + 1].values()):
                at = next(place for place in range(at + 1, len(lines)) if _closes(fences[place], fence))
            elif unclosed is None:
                unclosed = lines[at].start
        at += 1
    return kept, unclosed


def _line(text: bytes, start: int) -> Line:
    end = text.find(b"\n", start) + 1 or len(text)
    return Line(start, end, text[start:end].rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf"))


def _fence(body: bytes) -> _Fence | None:
    found = _FENCE.match(body) if b"```" in body or b"~~~" in body else None
    if found is None:
        return None
    before, marks, info = found.groups()
    return _Fence(
        column=len(before.expandtabs(4)),
        mark=marks[:1],
        length=len(marks),
        opens=not (marks[:1] == b"`" and b"`" in info),
        closes=not info.strip() and not before.strip(),
    )


def _closers_from(fences: list[_Fence | None]) -> list[dict[tuple[bytes, int], _Fence]]:
    """At each place the longest closing fence of each kind and column still to come; so unclosed ones cost no search.

    Columns above 40 count as 40: nobody nests that deep, and a text that does must not be slow.
    """
    reach: list[dict[tuple[bytes, int], _Fence]] = [{}]
    for fence in reversed(fences):
        known = reach[-1]
        if fence and fence.closes:
            kind = (fence.mark, min(fence.column, 40))
            if kind not in known or known[kind].length < fence.length:
                known = {**known, kind: fence}
        reach.append(known)
    return reach[::-1]


def _closes(end: _Fence | None, opener: _Fence) -> bool:
    return (
        end is not None
        and end.closes
        and end.mark == opener.mark
        and end.length >= opener.length
        and end.column <= opener.column + 3
    )
