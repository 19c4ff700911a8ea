"""What an agent says of its task with its final words: done, blocked or rejected; and what its commit says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralph.agent.turn import without_signals
from ralph.plan.progress.reading import read_lines_and_fences
from ralph.words import shorten

_FORM = (
    r"""<task-(done|blocked|reject)((?:\s+[a-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*>"""
    r"""((?:(?!</?task-).)*)</task-\1\s*>"""
)
_SIGNAL = re.compile(_FORM)
_AT_THE_END = re.compile(rf"(?!>)(?:[^`]|`[^`]*`)*?{_FORM}")
"""Of a line that is not a quotation, and not within code."""
_MODE = re.compile(r"""<mode\s+session\s*=\s*["']([^"'<>]*)["']\s*>\s*([\w-]+)\s*</mode\s*>""")
_ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*["']\s*([^<>]*?)\s*["'](?=\s|\Z)""")
_WIDTH = 72
_SILENT = (
    "it ended without a <task-done> or <task-blocked> signal that counts: alone on a line, without markup, "
    "with session and id from the prompt"
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of an attempt at a task; a pass when nothing is set."""

    failed: str = ""
    """The reason, and on further lines the end of the output; the session is never in it."""
    blocked: str = ""
    """The agent says that the task cannot continue without the user, and why."""
    unproved: str = ""
    """All is green, and nothing says that the attempt did it: why."""
    red: bool = False
    """It failed since a check did not pass."""
    rejected: bool = False
    """It failed since a reviewer says so."""


def read_claim(message: str, call: Mapping[str, Any], *, token: str, task_id: str) -> Finding:
    """What the final words of an agent claim of this task, and its last call of a tool of ralph's that says so.

    A signal counts alone on its line, or at the very end of the last line; never in code, in a quotation or within a
    sentence. All that count have to say the same.
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
        what = "it sent signals that differ, such as <task-done> and <task-blocked>; only one of them can be true"
        return Finding(failed=what)
    return claims.pop() if claims else Finding(failed=_SILENT)


def requested_mode(message: str, token: str) -> str:
    """The mode that the final words of an agent ask for, alone on a line; empty where they ask for none."""
    found = [_MODE.fullmatch(line) for line in _lines_outside_fences(message)]
    return next((one[2] for one in found if one and one[1] == token), "")


def _lines_outside_fences(message: str) -> list[str]:
    """Its lines outside of code fences, except those that are blank at its end."""
    return [
        line.body.decode().strip() for line in read_lines_and_fences(message.strip().encode(errors="replace")).lines
    ]


def _claim(kind: str, about: Mapping[str, str], content: str, token: str, task_id: str) -> Finding:
    """What one signal claims, or one call of a tool."""
    if about.get("session") != token:
        what = "the signal bears the session of another run; the one that counts is in the prompt"
        return Finding(failed=what)
    content = " ".join(content.replace(token, "SESSION").split())  # on its way into files that other agents can read
    for named in (about.get("id", task_id), content if kind == "done" else task_id):
        if named != task_id:
            what = shorten(named.replace(token, "SESSION"), 80)
            return Finding(failed=f"the signal is for {what}, and the task was {task_id}")
    if kind == "reject":
        return Finding(failed=f"rejected: {content}", rejected=True)
    return Finding(blocked=content or "it gave no reason") if kind == "blocked" else Finding()


def commit_message(task_id: str, text: str, message: str, role: str) -> str:
    """What the commit of a task says: the agent's words, the first line with the id in front; the task's without any.

    A first line that is too long is cut, and is below in full. A line of the body that git would take for a comment
    or a trailer is indented.
    """
    words = without_signals(message) or text
    first, _, rest = words.partition("\n")
    body = (rest if len(first) <= _WIDTH else words).strip()[:1000]
    body = re.sub(r"^(?=#|[\w-]+:)", " ", body, flags=re.MULTILINE)
    trailers = f"Ralph-Task: {task_id}" + (f"\nRalph-Role: {role}" if role else "")
    subject = shorten(first, _WIDTH).rstrip(".")
    return "\n\n".join(filter(None, [f"{task_id}: {subject}", body, trailers])) + "\n"
