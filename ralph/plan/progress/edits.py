"""Edits of the progress file's text: each changes only the lines it means to change, and no other byte."""

import re
from collections.abc import Iterable, Sequence
from typing import AnyStr

from ralph.plan.progress.reading import BOM, BY_RALPH, parse
from ralph.words import shorten, timestamp

_NOISE = re.compile(
    r"^[^\n]*\r(?=[^\r\n])"  # what was overprinted: progress bars return to the start of their line
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colors, cursor movements
    "|(?:\x1b[]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, pictures
    "|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]",  # other controls, except tab and newline
    re.MULTILINE,
)
_MOST_LINES = 60
_LONGEST_LINE = 200
# The indented lines below a task.
_NESTED = re.compile(rb"(?:[ \t]+\S.*\n?)*")
_TAKEN_BACK = "RALPH_DONE was taken back, because"
_SIGNED = b"<!-- ralph writes this section, as far as it is quoted, and removes it when done holds -->"
_REFUSAL = re.compile(
    rb"(?:(?<=\n)\r?\n)?^## Verification\s*<!-- ralph writes this section, [^\n]*\n(?:\s*(?:>[^\n]*\n)+)?(?:\r?\n)?",
    re.MULTILINE,
)


def new_progress_text(name: str, plan: str) -> bytes:
    """The text of a new progress file."""
    head = f"# Progress: {' '.join(name.split())}\n\nPlan: {' '.join(plan.splitlines())}\nStarted: {timestamp()}\n"
    return encode_text(head + "\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n## Notes\n")


def with_status(text: bytes, word: str) -> bytes:
    """The text with `word`, RALPH_DONE or IN_PROGRESS, in place of the other, and without Verified lines."""
    text = without_control_lines(text, "Verified")
    words = parse(text).words
    if others := words.get("IN_PROGRESS" if word == "RALPH_DONE" else "RALPH_DONE"):
        return replace_ranges(text, [(line.start, line.start + len(line.body), word.encode()) for line in others])
    return text if word in words else with_lines_added(text, "Status", [word.encode()])


def with_done_verified(text: bytes, note: str) -> bytes:
    """The text with this note as its only Verified line, below RALPH_DONE; without RALPH_DONE it gets none."""
    return _with_line_replaced(text, "Verified", note if parse(text).done else "", "RALPH_DONE")


def with_spent(text: bytes, spent_usd: float) -> bytes:
    """The text with the cost of the plan so far, as the Spent line in its head."""
    return _with_line_replaced(text, "Spent", f"${spent_usd:.4f}", "Started", "Plan")


def with_mode(text: bytes, mode: str, rounds: str | None = None) -> bytes:
    """The text with this Mode line in its head, or without one for build alone; `rounds` None keeps the count."""
    if rounds is None:
        rounds = parse(text).rounds
    message = f"{mode} {rounds}".strip()
    return _with_line_replaced(text, "Mode", "" if message == "build" else message, "Started", "Plan")


def _with_line_replaced(text: bytes, name: str, value: str, *above: str) -> bytes:
    """The text with the line `name: value` as the only one of its name; an empty value removes it.

    It is put below the first line of the first of these words that the text has, else at its start.
    """
    text = without_control_lines(text, name)
    if not value:
        return text
    words = parse(text).words
    at = next((words[word][0].end for word in above if word in words), 0)
    return insert_lines(text, at, [encode_text(f"{name}: {value}".rstrip())])


def with_run_blocked(text: bytes, why: str) -> bytes:
    """The text with ralph's own RALPH_BLOCKED line in the Status section."""
    return with_lines_added(text, "Status", [encode_text(f"RALPH_BLOCKED: {BY_RALPH}{' '.join(why.split())}")])


def without_control_lines(text: bytes, word: str) -> bytes:
    """The text without the lines that begin with this word, as far as they are in `Progress.words`."""
    return replace_ranges(text, [(line.start, line.end, b"") for line in parse(text).words.get(word, ())])


def with_tasks_added(text: bytes, lines: Sequence[bytes]) -> bytes:
    """The text with these lines at the end of the task list."""
    tasks = parse(text).tasks
    if not tasks:
        return with_lines_added(text, "Task List", lines)
    nested = next(_NESTED.finditer(text, tasks[-1].line.end))
    return insert_lines(text, nested.end(), lines)


def section_range(text: bytes, title: str) -> tuple[int, int]:
    """The start and end of the section whose title begins with `title`, without the heading; if missing, the end."""
    return _find_section(text, title) or (len(text), len(text))


def _find_section(text: bytes, title: str) -> tuple[int, int] | None:
    """The same for the first such section, ignoring case; None if there is none."""
    found, end = None, len(text)
    for line, level, name in reversed(parse(text).headings):
        if name.casefold().startswith(title.casefold()):
            found = line.end, end
        if level <= 2:
            end = line.start
    return found


def section_lines(text: bytes, title: str) -> list[bytes]:
    """The lines of that section, stripped, without blank ones."""
    start, end = section_range(text, title)
    return [line.strip() for line in text[start:end].split(b"\n") if line.strip()]


def with_lines_added(text: bytes, title: str, lines: Sequence[bytes]) -> bytes:
    """The text with these lines at the end of the section whose title begins with the first word of `title`.

    Adds that section at the end of the text if there is none.
    """
    if not lines:
        return text
    section = _find_section(text, title.split(maxsplit=1)[0])
    if not section:
        return insert_lines(text, len(text), [b"", encode_text(f"## {title}"), b"", *lines])
    start, end = section
    body = text[start:end].rstrip()
    if not body:
        return insert_lines(text, start, [b"", *lines])
    return insert_lines(text, text.find(b"\n", start + len(body)) + 1 or len(text), lines)


def with_refusal(text: bytes, reasons: Sequence[str], output: str = "", *, what: str = _TAKEN_BACK) -> bytes:
    """The text with a Verification section with the reasons why RALPH_DONE does not hold; replaces an older one.

    All of it is quoted, since ralph ignores quoted lines. `output` is the raw output of the check. The blank line at
    the end separates the section from a quotation that somebody appends.
    """
    quoted_lines = [f"{what}:", "", *(f"- {' '.join(reason.split())}" for reason in reasons)]
    if shown := shorten_output(output):
        quoted_lines += ["", *(f"    {line}" for line in shown.split("\n"))]
    quote = [encode_text(f"> {line}".rstrip()) for line in quoted_lines]
    text = without_refusal(text)
    return insert_lines(text, len(text), [b"", b"## Verification", b"", _SIGNED, b"", *quote, b""])


def without_refusal(text: bytes) -> bytes:
    """The text without the Verification section that ralph wrote; keeps the user's own, and what was added below."""
    return _REFUSAL.sub(b"", text)


def shorten_output(raw: str) -> str:
    """The last 60 lines of the output, safe for people and agents to read; overprinted lines appear as they ended up.

    Each line has at most 200 characters; a first line `…` means that there were more lines.
    """
    lines = [shorten(line.rstrip(), _LONGEST_LINE) for line in _NOISE.sub("", raw).rstrip().split("\n")]
    return "\n".join(lines if len(lines) <= _MOST_LINES else ["…", *lines[-_MOST_LINES:]])


def encode_text(text: str) -> bytes:
    """Encodes the text as UTF-8, and restores the original bytes of file names.

    Halves of characters, which programs leave when they cut a text, become a replacement character.
    """
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text).encode(errors="surrogateescape")


def insert_lines(text: bytes, offset: int, lines: Sequence[bytes]) -> bytes:
    """The text with these whole lines inserted at byte `offset`, where a line begins, with its own line ends."""
    newline = b"\r\n" if re.match(rb"[^\n]*\r\n", text) else b"\n"
    first = len(BOM) if text.startswith(BOM) else 0
    offset = max(offset, first)
    lead = newline if offset > first and not text[:offset].endswith(b"\n") else b""
    return text[:offset] + lead + b"".join(line + newline for line in lines) + text[offset:]


def replace_ranges(text: AnyStr, changes: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """The text with these changes, each a start, an end, and the replacement for that range; no two may overlap."""
    for start, end, new in sorted(changes, key=lambda change: change[:2])[::-1]:
        text = text[:start] + new + text[end:]
    return text
