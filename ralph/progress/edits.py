"""Edits of a progress file: each changes the lines it means to change and no other byte."""

import re
from collections.abc import Sequence

from ralph.markdown import Line
from ralph.progress.reading import BY_RALPH, SPENT, Scan, scan, verified_below

_NESTED = re.compile(rb"(?:[ \t]+[^\s][^\n]*(?:\n|\Z))*")
_BOM = b"\xef\xbb\xbf"


def fresh(name: str, plan: str, started: str) -> bytes:
    """The text of a new progress file."""
    plain = plan == plan.strip() and plan.isprintable() and not plan.startswith('"')
    where = plan if plain else _quoted(plan)
    head = f"# Progress: {' '.join(name.split())}\n\nPlan: {where}\nStarted: {started}\n"
    text = head + "\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n## Notes\n"
    return encoded(text)


def _quoted(name: str) -> str:
    import json  # noqa: PLC0415 - nearly no plan has such a name

    return json.dumps(name, ensure_ascii=False)


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
    mark = _BOM if text.startswith(_BOM) else b""
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
            mark = _BOM if text.startswith(_BOM, line.start) else b""
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
