"""The message of the commit that ralph makes for a task under --strict. Pure."""

import re
import textwrap

from ralph.agent.turn import said_of_work

_SUBJECT = 60
"""Characters of a first line that is a subject as it is; the prompt asks for it."""
_WIDTH = 72
_BODY = 1000


def message(task_id: str, text: str, said: str) -> str:
    """The agent's words, the first line with the id in front as the subject; the task's where it said nothing.

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
