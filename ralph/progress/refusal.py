"""The Verification section: why RALPH_DONE was taken back, for the next iteration to read."""

import re
from collections.abc import Sequence

from ralph.progress.edits import encoded, insert
from ralph.progress.output import harmless_output
from ralph.progress.reading import scan

_SIGNED = b"<!-- ralph writes this section, %d lines of reasons%b, and removes it when done holds -->"
_OF_OUTPUT = b" and %d of output"
_REFUSAL = re.compile(
    rb"\s*<!-- ralph writes this section, (\d{1,6}) (?:lines of reasons and (\d{1,6}) of output)?[^\n]*\s*"
    rb"(?:RALPH_DONE was taken back, because:\s*\n)?"
)
_ITEM = re.compile(rb"- [^\n]*(?:\n|\Z)")
_BLANK_ABOVE_QUOTE = re.compile(rb"[ \t]*\r?\n(?=>)")
_QUOTE = re.compile(rb">[^\n]*(?:\n|\Z)")


def with_refusal(text: bytes, reasons: Sequence[str], output: str = "") -> bytes:
    """The same with a Verification section that says why RALPH_DONE does not hold, in place of an older one.

    `output` is what the check printed, as it came.
    """
    text = without_refusal(text)
    items = [encoded(f"- {_harmless(' '.join(reason.split()))}") for reason in reasons]
    quote = _quoted(harmless_output(output))
    signed = _SIGNED % (len(items), _OF_OUTPUT % len(quote) if quote else b"")
    said = [b"RALPH_DONE was taken back, because:", b"", *items, *([b"", *quote] if quote else [])]
    return insert(text, len(text), [b"", b"## Verification", b"", signed, b"", *said])


def _harmless(reason: str) -> str:
    """A reason quotes what an agent wrote; at the start of an item that could be a task or a fence."""
    return f'"{reason}"' if re.match(r"[^\w\"]|\d+[.)]", reason) else reason


def _quoted(output: str) -> list[bytes]:
    """A code fence within a quotation, of which no line means anything, whatever it says.

    A fence alone would not do: its end, or one in the output, would close a fence above that was left open.
    """
    if not output:
        return []
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", output)), default=0))
    lines = [f"{fence}text", *output.split("\n"), fence]
    return [encoded(f"> {line}".rstrip()) for line in lines]


def without_refusal(text: bytes) -> bytes:
    """The same without the Verification section that ralph wrote; a person's own, and what was added below, stays."""
    for line, _, title in reversed(scan(text).headings):
        if title == "Verification" and (section := _REFUSAL.match(text, line.end)):
            end = _after(text, section.end(), _ITEM, int(section[1]))
            if section[2]:
                blank = _BLANK_ABOVE_QUOTE.match(text, end)
                end = _after(text, blank.end() if blank else end, _QUOTE, int(section[2]))
            text = text[: line.start - _blank_above(text, line.start)] + text[end:]
    return text


def _after(text: bytes, at: int, line: re.Pattern[bytes], most: int) -> int:
    """The end of so many lines of that kind, or of as many as there still are."""
    for _ in range(most):
        if not (found := line.match(text, at)):
            break
        at = found.end()
    return at


def _blank_above(text: bytes, at: int) -> int:
    """The length of the blank line before `at`, 0 when there is none."""
    return 2 if text.endswith(b"\n\r\n", 0, at) else int(text.endswith(b"\n\n", 0, at))
