"""What an agent says of its task with its final words: that it is done, or blocked, and what its commit says."""

import re
import textwrap
from dataclasses import dataclass

from ralph.agent.turn import said_of_work
from ralph.progress.reading import blocks

_SIGNAL = re.compile(
    r"""<task-(?P<kind>done|blocked)(?P<attributes>(?:\s+[a-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*>"""
    r"(?P<held>(?:(?!</?task-)[^\n])*)</task-(?P=kind)\s*>"
)
_ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*["']([^<>]*?)["'](?=\s|\Z)""")
_TAG = re.compile(r"<\s*/?\s*task[-_ ]?(?:done|blocked)\b", re.IGNORECASE)
"""Anything that is meant as a signal, well formed or not."""
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST_ID = 80
_SUBJECT = 60
"""Characters of a first line that is a subject as it is; the prompt asks for it."""
_WIDTH = 72
_BODY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Exactly one of the three holds."""

    done: bool = False
    blocked: str = ""
    """Why the agent cannot go on."""
    rejected: str = ""
    """Why its words count for nothing, said so that the next try does better; the token is never in it."""


def heard(said: str, *, token: str, task_id: str) -> Claim:
    """What the final words of an agent claim of this task.

    A signal counts alone on its line, or at the very end of the last line; never in code, in a quotation or within a
    sentence. A wrong one spoils the right ones beside it.
    """
    said = _COLOUR.sub("", said)
    standing = _standing(said)
    claims = [_claim(signal, token, task_id) for signal in standing]
    if not standing:
        return Claim(rejected=_MISPLACED if _TAG.search(said) else _SILENT)
    if rejected := [claim for claim in claims if claim.rejected]:
        return rejected[0]
    if len({claim.done for claim in claims}) > 1:
        return Claim(rejected=_BOTH)
    return Claim(done=claims[0].done, blocked="; ".join(dict.fromkeys(claim.blocked for claim in claims)))


_SILENT = "it ended without a <task-done> signal; its last words must be that signal, alone on a line"
_MISPLACED = (
    "the signal stands within a quotation, code or a line of other text; it counts only alone on a line, without markup"
)
_BOTH = "it sent a <task-done> and a <task-blocked> signal; only one of them can be true"
_FOREIGN = "the signal bears the session of another run; the one that counts stands in the prompt"


def _standing(said: str) -> list[str]:
    """What stands where a signal counts, well formed or not."""
    found = []
    lines = [line.body.decode().strip() for line in blocks(said.strip().encode(errors="replace")).lines]
    for place, line in enumerate(lines, 1):
        tag, whole = _TAG.search(line), _SIGNAL.search(line)
        if tag and tag.start() == 0 and not (whole and whole.end() < len(line)):
            found.append(line)
        elif place == len(lines) and whole and whole.end() == len(line) and not line.startswith(">"):
            found += [whole[0]] if line[: whole.start()].count("`") % 2 == 0 else []
    return found


def _claim(text: str, token: str, task_id: str) -> Claim:
    """What this one signal claims."""
    found = _SIGNAL.fullmatch(text)
    held = " ".join(found["held"].split()) if found else ""
    attributes = {name: value.strip() for name, value in _ATTRIBUTE.findall(found["attributes"])} if found else {}
    if not found or not held or "session" not in attributes or (found["kind"] == "blocked" and "id" not in attributes):
        done = f'<task-done session="SESSION">{task_id}</task-done>'
        blocked = f'<task-blocked session="SESSION" id="{task_id}">why</task-blocked>'
        how = f"write {done} or {blocked} on one line, with the session from the prompt"
        return Claim(rejected=f"the signal is malformed; {how}")
    if not token or attributes["session"] != token:
        return Claim(rejected=_FOREIGN)
    held = held.replace(token, "SESSION")  # on its way into files that later runs and other agents can read
    ids = {attributes.get("id", task_id), held if found["kind"] == "done" else task_id}
    if other := sorted(ids - {task_id}):
        named = other[0].replace(token, "SESSION")[:_LONGEST_ID]
        return Claim(rejected=f"the signal is for {named}, and the task was {task_id}")
    return Claim(done=True) if found["kind"] == "done" else Claim(blocked=held)


def message(task_id: str, text: str, said: str) -> str:
    """What the commit of a task says: the agent's words, the first line with the id in front; the task's without any.

    Of a longer line its first sentence is the subject, cut where that is too long as well.
    """
    words = said_of_work(said) or text
    subject, _, rest = words.partition("\n")
    if len(subject) > _SUBJECT:
        sentence, *left = re.split(r"(?<=[.!?])\s+", subject, maxsplit=1)
        short = textwrap.shorten(sentence, _WIDTH, placeholder=" …")
        subject, rest = (short, "\n".join([*left, rest])) if short == sentence else (short, words)
    head = f"{task_id}: {subject.rstrip('.')}"
    body = _wrapped(rest.strip()[:_BODY])
    return "\n\n".join([head, *([body] if body else []), f"Ralph-Task: {task_id}"]) + "\n"


def _wrapped(text: str) -> str:
    """Its paragraphs; a line that git would take for a comment or a trailer is indented."""
    lines = [textwrap.fill(line, _WIDTH) for line in text.splitlines()]
    return re.sub(r"^(?=#|[\w-]+:)", " ", "\n".join(lines).strip(), flags=re.MULTILINE)
