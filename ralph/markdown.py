"""The lines of a markdown text that lie outside code fences."""

import re
from dataclasses import dataclass

_FENCE = re.compile(rb"(?:\xef\xbb\xbf)?((?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}|~{3,})(.*)", re.DOTALL)
_FENCE_START = rb"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?:```|~~~)"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text: `text[start:end]`, its line end included."""

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
    Only the lines asked for are looked at, so a file of 100 MB takes about a second.
    """
    starts = re.compile(rb"^(?:\xef\xbb\xbf)?(?:" + _FENCE_START + rb"|" + pattern + rb")", re.MULTILINE)
    lines = [_line(text, found.start()) for found in starts.finditer(text)]
    fences = [_fence(line.body) for line in lines]
    reach = _longest_closer_from(fences)
    kept: list[Line] = []
    unclosed: int | None = None
    at = 0
    while at < len(lines):
        fence = fences[at]
        if fence is None:
            kept.append(lines[at])
        elif fence.opens:
            closer = _closer(fences, at) if reach[at + 1].get(fence.mark, 0) >= fence.length else None
            if closer is not None:
                at = closer
            elif unclosed is None:
                unclosed = lines[at].start
        at += 1
    return kept, unclosed


def _line(text: bytes, start: int) -> Line:
    end = text.find(b"\n", start) + 1 or len(text)
    return Line(start, end, text[start:end].rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf"))


def _fence(body: bytes) -> _Fence | None:
    found = _FENCE.match(body)
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


def _longest_closer_from(fences: list[_Fence | None]) -> list[dict[bytes, int]]:
    """At each place the longest closing run still to come, so that unclosed fences cost no search."""
    reach: list[dict[bytes, int]] = [{}]
    for fence in reversed(fences):
        known = reach[-1]
        if fence and fence.closes and fence.length > known.get(fence.mark, 0):
            known = {**known, fence.mark: fence.length}
        reach.append(known)
    return reach[::-1]


def _closer(fences: list[_Fence | None], at: int) -> int | None:
    opener = fences[at]
    assert opener is not None
    for place in range(at + 1, len(fences)):
        fence = fences[place]
        if (
            fence
            and fence.closes
            and fence.mark == opener.mark
            and fence.length >= opener.length
            and fence.column <= opener.column + 3
        ):
            return place
    return None
