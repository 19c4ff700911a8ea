"""Reads an agent's final words: whether its task is done, blocked or rejected; and writes the commit message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralph.agent.turn import without_signals
from ralph.plan.progress.reading import read_unfenced_lines_and_fences
from ralph.words import shorten

_FORM = (
    r"""<task-(done|blocked|reject)((?:\s+[a-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*>"""
    r"""((?:(?!</?task-).)*)</task-\1\s*>"""
)
_SIGNAL = re.compile(_FORM)
# A signal at the end of a line that is not a quotation, and not within code.
_AT_THE_END = re.compile(rf"(?!>)(?:[^`]|`[^`]*`)*?{_FORM}")
_MODE = re.compile(r"""<mode\s+session\s*=\s*["']([^"'<>]*)["']\s*>\s*([\w-]+)\s*</mode\s*>""")
_ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*["']\s*([^<>]*?)\s*["'](?=\s|\Z)""")
_WIDTH = 72
_SILENT = (
    "it ended without a <task-done> or <task-blocked> signal that counts: alone on a line, without markup, "
    "with session and id from the prompt"
)


@dataclass(frozen=True, kw_only=True)
class JudgedAttempt:
    """The result of judging an attempt; it passed if nothing speaks against it."""

    why_failed: str = ""
    """The reason, and on further lines the end of the output; never contains the run token."""
    why_blocked: str = ""
    """Why the task cannot continue without the user, as the agent says."""
    why_unproved: str = ""
    """Why nothing proves that the attempt did it, although everything is green."""
    red: bool = False
    """Whether it failed because a check did not pass."""
    rejected: bool = False
    """Whether it failed because a reviewer rejected it."""
    note: str = ""
    """What the tick needs as a note."""

    @property
    def is_pass(self) -> bool:
        """Whether nothing speaks against the attempt."""
        return not (self.why_failed or self.why_blocked or self.why_unproved)


def read_agents_claim(message: str, call: Mapping[str, Any], *, token: str, task_id: str) -> JudgedAttempt:
    """Returns what the agent's final words, or its last call of one of ralph's tools, claim about this task.

    A signal counts if it is alone on its line, or at the very end of the last line; not in code, in a quotation or
    within a sentence. All signals that count must agree.
    """
    lines = _lines_outside_fences(message)
    signals = [*map(_SIGNAL.fullmatch, lines), *map(_AT_THE_END.fullmatch, lines[-1:])]
    claimed = [(one[1], dict(_ATTRIBUTE.findall(one[2])), one[3]) for one in signals if one]
    kind = {"complete": "done", "blocked": "blocked"}.get(str(call.get("name")).rpartition("_")[2], "")
    if kind:
        given = call["input"]
        named = str(given["task_id"])
        claimed.append((kind, {"session": token, "id": named}, named if kind == "done" else str(given.get("reason"))))
    claims = {_claim(*one, token, task_id) for one in claimed}
    if len(claims) > 1:
        differ = "it sent signals that differ, such as <task-done> and <task-blocked>; only one of them can be true"
        return JudgedAttempt(why_failed=differ)
    return claims.pop() if claims else JudgedAttempt(why_failed=_SILENT)


def requested_mode(message: str, token: str) -> str:
    """Returns the mode that the final words ask for, alone on a line; empty if they ask for none."""
    found = [_MODE.fullmatch(line) for line in _lines_outside_fences(message)]
    return next((one[2] for one in found if one and one[1] == token), "")


def _lines_outside_fences(message: str) -> list[str]:
    """The lines outside code fences, without blank lines at the end."""
    lines = read_unfenced_lines_and_fences(message.strip().encode(errors="replace")).unfenced_lines
    return [line.body.decode().strip() for line in lines]


def _claim(kind: str, about: Mapping[str, str], content: str, token: str, task_id: str) -> JudgedAttempt:
    """Returns what one signal, or one call of a tool, claims."""
    if about.get("session") != token:
        return JudgedAttempt(
            why_failed="the signal bears the session of another run; the one that counts is in the prompt"
        )
    content = " ".join(content.replace(token, "SESSION").split())  # it goes into files that other agents can read
    for named in (about.get("id", task_id), content if kind == "done" else task_id):
        if named != task_id:
            what = shorten(named.replace(token, "SESSION"), 80)
            return JudgedAttempt(why_failed=f"the signal is for {what}, and the task was {task_id}")
    if kind == "reject":
        return JudgedAttempt(why_failed=f"rejected: {content}", rejected=True)
    return JudgedAttempt(why_blocked=content or "it gave no reason") if kind == "blocked" else JudgedAttempt()


def commit_message(task_id: str, task_text: str, final_words: str, role: str) -> str:
    """The commit message: the agent's words, or without any the task's text; the id is in front of the first line.

    A first line that is too long is shortened, and repeated in full below.
    """
    words = without_signals(final_words) or task_text
    first, _, rest = words.partition("\n")
    body = (rest if len(first) <= _WIDTH else words).strip()[:1000]
    trailers = f"Ralph-Task: {task_id}\nRalph-Role: {role}" if role else f"Ralph-Task: {task_id}"
    subject = shorten(first, _WIDTH).rstrip(".")
    return "\n\n".join(filter(None, [f"{task_id}: {subject}", body, trailers])) + "\n"
