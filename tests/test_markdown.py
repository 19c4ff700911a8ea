"""Lines outside code fences: ralph's reading beside a plain one that goes line by line."""

import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.progress.reading import blocks

BOM = b"\xef\xbb\xbf"


class Fence(NamedTuple):
    column: int
    mark: bytes
    length: int
    opens: bool
    closes: bool


def fence_of(body: bytes) -> Fence | None:
    """The fence on this line, read byte by byte; it may stand behind the bullets of a list."""
    column, rest, listed = 0, body, False
    while rest:
        marker = _bullet(rest)
        if rest[:1] not in (b" ", b"\t") and not marker:
            break
        width = len(marker) or 1
        column, rest, listed = column + width, rest[width:], listed or bool(marker)
    mark = rest[:1]
    length = len(rest) - len(rest.lstrip(mark)) if mark in (b"`", b"~") else 0
    info = rest[length:]
    opens = not (mark == b"`" and b"`" in info)
    return Fence(column, mark, length, opens, closes=not info.strip() and not listed) if length >= 3 else None


def _bullet(rest: bytes) -> bytes:
    """`-`, `*`, `+`, `1.`, `1)` at the start, if white space follows."""
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    marker = rest[: digits + 1] if digits else rest[:1]
    named = marker[-1:] in (b".", b")") and digits < 10 if digits else marker in (b"-", b"*", b"+")
    follows = rest[len(marker) : len(marker) + 1]
    return marker if named and follows in (b" ", b"\t") else b""


class Plain(NamedTuple):
    """A line with its number, its place, and what it says without line end."""

    number: int
    start: int
    end: int
    body: bytes


def plain_lines(text: bytes) -> list[Plain]:
    """Each line; a byte order mark at the beginning belongs to none."""
    found = []
    start = len(BOM) if text.startswith(BOM) else 0
    for number, line in enumerate(text[start:].split(b"\n"), 1):
        end = min(start + len(line) + 1, len(text))
        if end > start:
            found.append(Plain(number, start, end, line.rstrip(b"\r")))
        start = end
    return found


def plain_outside(text: bytes) -> tuple[list[Plain], Plain | None]:
    """All lines but those of closed fences, and the first fence that is never closed: the rule, written down slowly."""
    lines = plain_lines(text)
    kept, unclosed, at = [], None, 0
    while at < len(lines):
        opener = fence_of(lines[at].body)
        closer = next((n for n in range(at + 1, len(lines)) if opener and _ends(opener, lines[n].body)), None)
        if opener and opener.opens and closer is not None:
            at = closer
        else:
            kept.append(lines[at])
            if opener and opener.opens and unclosed is None:
                unclosed = lines[at]
        at += 1
    return kept, unclosed


def _ends(opener: Fence, body: bytes) -> bool:
    closer = fence_of(body)
    return bool(closer and closer.closes and closer.mark == opener.mark and closer.length >= opener.length)


line_ends = st.sampled_from([b"\n", b"\n", b"\r\n"])
fences = st.builds(
    lambda mark, length, info: mark * length + info,
    st.sampled_from([b"`", b"~"]),
    st.integers(2, 6),
    st.sampled_from([b"", b"", b"", b" ", b"\t", b"sh", b" a b", b"a`b", b" ~", b"`"]),
)
prefixes = st.sampled_from(
    [b"", b"", b"", b" ", b"   ", b"    ", b" " * 6, b"\t", b" \t", b"- ", b"* \t", b"10) - ", b"> "]
)
words = st.sampled_from([b"word", b"   word", b"", b"<!--", b"# x", b"caf\xe9", b"\x00", b"wor\rd"])
lines = st.builds(lambda prefix, rest: prefix + rest, prefixes, fences) | words


def texts_of(line: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Texts of such lines, with any line ends, perhaps a byte order mark, perhaps no final newline."""
    whole = st.lists(st.tuples(line, line_ends), max_size=14).map(lambda all_: b"".join(a + b for a, b in all_))
    return st.builds(lambda bom, text, last: bom + text + last, st.sampled_from([b"", BOM]), whole, line | st.just(b""))


@given(texts_of(lines) | st.binary(max_size=200))
def test_the_quick_reading_is_the_plain_one(text: bytes) -> None:
    found, _, unclosed = blocks(text)
    kept, never_closed = plain_outside(text)
    assert [tuple(line) for line in found] == [tuple(line)[1:] for line in kept]
    assert unclosed == (tuple(never_closed)[1:] if never_closed else None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"```a\n" * 100_000, id="a hundred thousand that are never closed"),
        pytest.param(b"~~~~a\n" * 10_000 + b"````\n~~~\n", id="ten thousand whose only ends are of other kinds"),
        pytest.param(b" \t" * 500_000 + b"- " * 500_000, id="a megabyte of white space and bullets in one line"),
        pytest.param(b"`" * 1_000_000, id="a megabyte of backticks in one line"),
    ],
)
def test_no_text_is_slow(text: bytes) -> None:
    """A hundred times as long would be a quadratic one's."""
    began = time.process_time()
    blocks(text)
    assert time.process_time() - began < 10
