"""What an agent says of its task with its final words: that it is done, or blocked, and what its commit says."""

import re
import textwrap
from dataclasses import dataclass

from ralph.agent.turn import said_of_work
from ralph.progress.reading import blocks
from ralph.words import shortened

_SIGNAL = re.compile(
    r"""<task-(done|blocked)((?:\s+[a-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*)\s*>((?:(?!</?task-).)*)</task-\1\s*>"""
)
_ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*["']\s*([^<>]*?)\s*["'](?=\s|\Z)""")
_TAG = re.compile(r"<\s*/?\s*task[-_ ]?(?:done|blocked)\b", re.IGNORECASE)
"""Anything that is meant as a signal, well formed or not."""
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LONGEST_ID = 80
_SUBJECT = 60
"""Characters of a first line that is a subject as it is; the prompt asks for it."""
_WIDTH = 72
_BODY = 1000

_SILENT = "it ended without a <task-done> signal; its last words must be that signal, alone on a line"
_MISPLACED = (
    "the signal stands within a quotation, code or a line of other text; it counts only alone on a line, without markup"
)
_MALFORMED = (
    'the signal is malformed; write <task-done session="SESSION">ID</task-done> or <task-blocked session="SESSION" '
    'id="ID">why</task-blocked> on one line, with session and id from the prompt'
)
_FOREIGN = "the signal bears the session of another run; the one that counts stands in the prompt"
_BOTH = "it sent a <task-done> and a <task-blocked> signal; only one of them can be true"


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
    lines = [line.body.decode().strip() for line in blocks(said.strip().encode(errors="replace")).lines]
    claims = []
    for place, line in enumerate(lines, 1):
        whole = _SIGNAL.search(line)
        if _TAG.match(line) and not (whole and whole.end() < len(line)):
            claims.append(_claim(line, token, task_id))
        elif place == len(lines) and whole and whole.end() == len(line):
            before = line[: whole.start()]
            if not before.startswith(">") and before.count("`") % 2 == 0:
                claims.append(_claim(whole[0], token, task_id))
    if not claims:
        return Claim(rejected=_MISPLACED if _TAG.search(said) else _SILENT)
    if len({claim.done for claim in claims}) > 1 and not any(claim.rejected for claim in claims):
        return Claim(rejected=_BOTH)
    reasons = dict.fromkeys(claim.blocked for claim in claims)
    rejected = next((claim for claim in claims if claim.rejected), None)
    return rejected or Claim(done=claims[0].done, blocked="; ".join(reasons))


def _claim(text: str, token: str, task_id: str) -> Claim:
    """What this one signal claims."""
    found = _SIGNAL.fullmatch(text)
    kind, said, held = found.groups() if found else ("", "", "")
    attributes = dict(_ATTRIBUTE.findall(said))
    held = " ".join(held.split())
    if kind == "done":
        attributes.setdefault("id", held)
    if not held or not {"session", "id"} <= attributes.keys():
        return Claim(rejected=_MALFORMED)
    if not token or attributes["session"] != token:
        return Claim(rejected=_FOREIGN)
    held = held.replace(token, "SESSION")  # on its way into files that later runs and other agents can read
    named = {attributes["id"], held if kind == "done" else task_id}
    if other := sorted(named - {task_id}):
        what = shortened(other[0].replace(token, "SESSION"), _LONGEST_ID)
        return Claim(rejected=f"the signal is for {what}, and the task was {task_id}")
    return Claim(done=True) if kind == "done" else Claim(blocked=held)


def message(task_id: str, text: str, said: str) -> str:
    """What the commit of a task says: the agent's words, the first line with the id in front; the task's without any.

    Of a longer line its first sentence is the subject, cut where that is too long as well. A line of the body that git
    would take for a comment or a trailer is indented.
    """
    words = said_of_work(said) or text
    subject, _, rest = words.partition("\n")
    if len(subject) > _SUBJECT:
        sentence, *left = re.split(r"(?<=[.!?])\s+", subject, maxsplit=1)
        subject = textwrap.shorten(sentence, _WIDTH, placeholder=" …")
        rest = "\n".join([*left, rest]) if subject == sentence else words
    lines = [textwrap.fill(line, _WIDTH) for line in rest.strip()[:_BODY].splitlines()]
    body = re.sub(r"^(?=#|[\w-]+:)", " ", "\n".join(lines).strip(), flags=re.MULTILINE)
    return "\n\n".join(filter(None, [f"{task_id}: {subject.rstrip('.')}", body, f"Ralph-Task: {task_id}"])) + "\n"
