"""What an agent claims of its task with its final words: that it is done, or that it is blocked."""

import hmac
import re
from dataclasses import dataclass

from ralph.progress.reading import Line, outside_fences

_ATTRIBUTE = r"""\s+(?P<name>[a-z]+)\s*=\s*(?:"(?P<double>[^"<>]*)"|'(?P<single>[^'<>]*)')"""
_ATTRIBUTES = r"""(?P<attributes>(?:\s+[a-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*"""
_SIGNAL = re.compile(rf"<task-(?P<kind>done|blocked){_ATTRIBUTES}>(?P<held>(?:(?!</?task-)[^\n])*)</task-(?P=kind)\s*>")
_TAG = re.compile(r"<\s*/?\s*task[-_ ]?(?:done|blocked)\b", re.IGNORECASE)
"""Anything that is meant as a signal, well formed or not."""
_KNOWN = {"done": {"session", "id"}, "blocked": {"session", "id"}}
_NEEDED = {"done": {"session"}, "blocked": {"session", "id"}}
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST_ID = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Exactly one of the three holds."""

    done: bool = False
    blocked: str = ""
    """Why the agent cannot go on."""
    rejected: str = ""
    """Why its words count for nothing, said so that the next try does better; the token is never in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signal:
    kind: str
    session: str
    ids: frozenset[str]
    why: str


def heard(said: str, *, token: str, task_id: str) -> Claim:
    """What the final words of an agent claim of this task.

    A signal counts alone on its line, or at the very end of the last line; never in code, in a quotation or within a
    sentence. A wrong one spoils the right ones beside it.
    """
    standing = _standing(_COLOUR.sub("", said))
    signals = [_signal(text) for text in standing]
    good = [signal for signal in signals if signal]
    wrong = [reason for signal in good if (reason := _wrong(signal, token, task_id))]
    if not standing:
        return Claim(rejected=_MISPLACED if _TAG.search(said) else _SILENT)
    if wrong or len(good) < len(signals):
        return Claim(rejected=wrong[0] if wrong else _malformed(task_id))
    if len({signal.kind for signal in good}) > 1:
        return Claim(rejected=_BOTH)
    if good[0].kind == "done":
        return Claim(done=True)
    return Claim(blocked="; ".join(dict.fromkeys(_without(token, signal.why) for signal in good)))


_SILENT = "it ended without a <task-done> signal; its last words must be that signal, alone on a line"
_MISPLACED = (
    "the signal stands within a quotation, code or a line of other text; it counts only alone on a line, without markup"
)
_BOTH = "it sent a <task-done> and a <task-blocked> signal; only one of them can be true"
_FOREIGN = "the signal bears the session of another run; the one that counts stands in the prompt"


def _malformed(task_id: str) -> str:
    done = f'<task-done session="SESSION">{task_id}</task-done>'
    blocked = f'<task-blocked session="SESSION" id="{task_id}">why</task-blocked>'
    return f"the signal is malformed; write {done} or {blocked} on one line, with the session from the prompt"


def _standing(said: str) -> list[str]:
    """What stands where a signal counts, well formed or not."""
    text = said.encode(errors="replace")
    end = len(text.rstrip())
    lines, _ = outside_fences(text, rb"[^\n]*<")
    found = [_on_line(line, last=line.start < end <= line.end) for line in lines]
    return [signal for signal in found if signal]


def _on_line(line: Line, *, last: bool) -> str:
    """The signal that this line is, or ends with if it is the last one."""
    text = line.body.decode().strip()
    signal = _SIGNAL.match(text)
    if _TAG.match(text) and not (signal and signal.end() < len(text)):
        return text
    tag = _TAG.search(text)
    if not tag or not last or text.startswith(">"):
        return ""
    before, rest = text[: tag.start()], text[tag.start() :]
    return rest if before.count("`") % 2 == 0 and _SIGNAL.fullmatch(rest) else ""


def _signal(text: str) -> _Signal | None:
    """The signal, None when it is malformed."""
    found = _SIGNAL.fullmatch(text)
    if not found:
        return None
    kind, held = found["kind"], " ".join(found["held"].split())
    pairs = [
        (one["name"], one["double"] or one["single"] or "") for one in re.finditer(_ATTRIBUTE, found["attributes"])
    ]
    attributes = dict(pairs)
    if len(attributes) < len(pairs) or not _NEEDED[kind] <= attributes.keys() <= _KNOWN[kind] or not held:
        return None
    ids = {attributes[name].strip() for name in attributes if name == "id"} | ({held} if kind == "done" else set())
    return _Signal(kind=kind, session=attributes["session"].strip(), ids=frozenset(ids), why=held)


def _wrong(signal: _Signal, token: str, task_id: str) -> str:
    """Why this one is not about the task of this run; "" when it is."""
    if not token or not hmac.compare_digest(signal.session.encode(), token.encode()):
        return _FOREIGN
    other = sorted(signal.ids - {task_id})
    return f"the signal is for {_without(token, other[0])[:_LONGEST_ID]}, and the task was {task_id}" if other else ""


def _without(token: str, text: str) -> str:
    """What an agent wrote, on its way into files that later runs and other agents can read."""
    return text.replace(token, "SESSION")
