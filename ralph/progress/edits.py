"""Edits of a progress file: each changes the lines it means to change and no other byte."""

import json
import re
from collections.abc import Sequence

from ralph.progress.reading import BOM, BY_RALPH, SPENT, Line, Scan, scan, verified_below
from ralph.words import shortened

_NESTED = re.compile(rb"(?:[ \t]+[^\s][^\n]*(?:\n|\Z))*")
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    "|(?:\x1b[]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, pictures
    "|\x1b[ -/]*[0-~]"
)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, other line ends, and what turns the direction of writing."""
_MOST_LINES = 60
_MOST_CHARACTERS = 6000
_LONGEST_LINE = 300
_CUT = "…"
_SIGNED = b"<!-- ralph writes this section, %d lines of reasons%b, and removes it when done holds -->"
_OF_OUTPUT = b" and %d of output"
_REFUSAL = re.compile(
    rb"\s*<!-- ralph writes this section, (\d{1,6}) (?:lines of reasons and (\d{1,6}) of output)?[^\n]*\s*"
    rb"(?:RALPH_DONE was taken back, because:\s*\n)?"
)
_ITEM = re.compile(rb"- [^\n]*(?:\n|\Z)")
_BLANK_ABOVE_QUOTE = re.compile(rb"[ \t]*\r?\n(?=>)")
_QUOTE = re.compile(rb">[^\n]*(?:\n|\Z)")


def fresh(name: str, plan: str, started: str) -> bytes:
    """The text of a new progress file."""
    plain = plan == plan.strip() and plan.isprintable() and not plan.startswith('"')
    where = plan if plain else json.dumps(plan, ensure_ascii=False)
    head = f"# Progress: {' '.join(name.split())}\n\nPlan: {where}\nStarted: {started}\n"
    text = head + "\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n## Notes\n"
    return encoded(text)


def without_done(text: bytes) -> bytes:
    """The same with every RALPH_DONE that counts put back to IN_PROGRESS, and not verified."""
    text = without_verified(text)
    for line in reversed(scan(text).done):
        back = text[line.start : line.end].replace(b"RALPH_DONE", b"IN_PROGRESS")
        text = text[: line.start] + back + text[line.end :]
    return text


def with_verified(text: bytes, note: str) -> bytes:
    """The same with this note as the only Verified line, below RALPH_DONE where that stands."""
    text = without_verified(text)
    line = encoded(f"Verified: {' '.join(note.split()) or 'passed'}")
    return insert(text, done[0].end, [line]) if (done := scan(text).done) else text


def without_verified(text: bytes) -> bytes:
    """The same without what stands as Verified below a RALPH_DONE: that word is ralph's alone."""
    kept, at = [], 0
    for start, end in (place for done in scan(text).done for place in verified_below(text, done)):
        kept.append(text[at:start])
        at = end
    return b"".join([*kept, text[at:]])


def with_spent(text: bytes, spent_usd: float) -> bytes:
    """The same with what the plan cost so far, in its head."""
    now = scan(text)
    for line in now.head:
        if found := SPENT.fullmatch(line.body):
            name, known, rest = found.groups()
            gap = b"" if known or not rest[:1].strip() else b" "
            said = b"%b $%.4f%b%b" % (name, spent_usd, gap, rest)
            return text[: line.start] + text[line.start : line.end].replace(line.body, said, 1) + text[line.end :]
    mark = BOM if text.startswith(BOM) else b""
    above = _above_spent(now)
    said = b"Spent: $%.4f" % spent_usd
    return insert(text, above.end, [said]) if above else mark + insert(text[len(mark) :], 0, [said])


def _above_spent(now: Scan) -> Line | None:
    """The line that Spent belongs below."""
    places = [line for name in (b"Started:", b"Plan:") for line in now.head if line.body.startswith(name)]
    for line, level, title in now.headings:
        if level > 1:
            break
        if title.casefold().startswith("progress"):
            places.append(line)
    return places[0] if places else None


def in_progress(text: bytes) -> bytes:
    """The same with IN_PROGRESS as its status, whatever the status was."""
    text = without_done(text)
    now = scan(text)
    if any(word == b"IN_PROGRESS" for _, word, _ in now.words):
        return text
    status = next((line for line, _, title in now.headings if title.casefold() == "status"), None)
    if status is None:
        return insert(text, len(text), [b"", b"## Status", b"", b"IN_PROGRESS"])
    return insert(text, status.end, [b"", b"IN_PROGRESS"])


def declared_done(text: bytes) -> bytes:
    """The same with RALPH_DONE in place of IN_PROGRESS."""
    if scan(text).done:
        return text
    text = in_progress(text)
    line = next(line for line, word, _ in scan(text).words if word == b"IN_PROGRESS")
    return text[: line.start] + text[line.start : line.end].replace(b"IN_PROGRESS", b"RALPH_DONE") + text[line.end :]


def blocked(text: bytes, why: str) -> bytes:
    """The same with ralph's own RALPH_BLOCKED line in the Status section."""
    now = scan(text)
    status = [line for line, word, _ in now.words if word == b"IN_PROGRESS"]
    status += [line for line, _, title in now.headings if title.casefold() == "status"]
    line = encoded(f"RALPH_BLOCKED: {BY_RALPH}{' '.join(why.split()) or 'gave up'}")
    return insert(text, status[0].end if status else len(text), [line])


def without_own_block(text: bytes) -> bytes:
    """The same without the RALPH_BLOCKED lines that ralph wrote."""
    for line, word, why in reversed(scan(text).words):
        if word == b"RALPH_BLOCKED" and why.startswith(BY_RALPH):
            mark = BOM if text.startswith(BOM, line.start) else b""
            text = text[: line.start] + mark + text[line.end :]
    return text


def with_tasks(text: bytes, lines: Sequence[bytes]) -> bytes:
    """The same with these lines at the end of the task list."""
    if not lines:
        return text
    now = scan(text)
    if now.tasks:
        last = now.tasks[-1][0].end
        nested = _NESTED.match(text, last)
        longer = insert(text, nested.end() if nested else last, lines)
        within = len(scan(longer).tasks) == len(now.tasks)  # a fence that begins among the nested goes on below them
        return insert(text, last, lines) if within else longer
    for line, _, title in now.headings:
        if title.casefold().startswith("task"):
            return insert(text, line.end, [b"", *lines])
    return insert(text, len(text), [b"", b"## Task List", b"", *lines])


def encoded(text: str) -> bytes:
    """UTF-8; bytes of file names as they are, halves of characters that programs leave when they cut as a mark."""
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text).encode(errors="surrogateescape")


def insert(text: bytes, at: int, lines: Sequence[bytes]) -> bytes:
    """Puts whole lines in at the start of a line, with the line ends the text has."""
    newline = b"\r\n" if text[: text.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
    lead = newline if at and not text[:at].endswith(b"\n") else b""
    return text[:at] + lead + b"".join(line + newline for line in lines) + text[at:]


def with_refusal(text: bytes, reasons: Sequence[str], output: str = "") -> bytes:
    """The same with a Verification section that says why RALPH_DONE does not hold, in place of an older one.

    `output` is what the check printed, as it came.
    """
    text = without_refusal(text)
    items = [encoded(f"- {_harmless(' '.join(reason.split()))}") for reason in reasons]
    quote = _quotation(harmless_output(output))
    signed = _SIGNED % (len(items), _OF_OUTPUT % len(quote) if quote else b"")
    said = [b"RALPH_DONE was taken back, because:", b"", *items, *([b"", *quote] if quote else [])]
    return insert(text, len(text), [b"", b"## Verification", b"", signed, b"", *said])


def _harmless(reason: str) -> str:
    """A reason quotes what an agent wrote; at the start of an item that could be a task or a fence."""
    return f'"{reason}"' if re.match(r"[^\w\"]|\d+[.)]", reason) else reason


def _quotation(output: str) -> list[bytes]:
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


def harmless_output(raw: str) -> str:
    """The last lines of it, for people and agents to read; lines that a program printed over count as it left them.

    At most 60 lines of 300 characters, and 6000 characters in all; a first line `…` where there was more.
    """
    text = _ESCAPE.sub("", re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", raw))
    lines = "\n".join(_as_left(line) for line in text.split("\n")).rstrip("\n").split("\n")
    kept: list[str] = []
    room = _MOST_CHARACTERS - len(_CUT)
    for line in reversed(lines[-_MOST_LINES:]):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*([_CUT] if len(kept) < len(lines) else []), *reversed(kept)])


def _as_left(line: str) -> str:
    """What a terminal shows of a line in the end: progress bars go back to its start again and again."""
    last = _UNSEEN.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
    return shortened(last, _LONGEST_LINE)
