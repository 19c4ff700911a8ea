"""The message of the commit that ralph makes for a task under --strict. Pure."""

import re
import textwrap

_SIGNAL = re.compile(r"<task-(?:done|blocked)\b.*?(?:</task-(?:done|blocked)>|$)", re.DOTALL)
_SUBJECT = 72
_WIDTH = 72
_BODY = 1000


def message(task_id: str, text: str, said: str) -> str:
    """The agent's words, the first sentence with the id in front as the subject; the task's where it said nothing."""
    words = said_of_work(said) or text
    first, _, rest = words.partition("\n")
    sentence = re.match(r"(.+?[.!?])(?:\s+(.*))?$", first, re.DOTALL)
    subject, left = (sentence[1], sentence[2] or "") if sentence else (first, "")
    head = textwrap.shorten(f"{task_id}: {subject.rstrip('.')}", _SUBJECT, placeholder=" …")
    whole = f"{subject} " if head.endswith("…") else ""
    body = _wrapped(f"{whole}{left}\n{rest}".strip()[:_BODY])
    return "\n\n".join([head, *([body] if body else []), f"Ralph-Task: {task_id}"]) + "\n"


def said_of_work(said: str) -> str:
    """What the agent said, without its signal."""
    return re.sub(r"[^\S\n]+", " ", _SIGNAL.sub("", said)).strip()


def _wrapped(text: str) -> str:
    """Its paragraphs; a line that git would take for a comment or a trailer is indented."""
    lines = [textwrap.fill(line, _WIDTH) for line in text.splitlines()]
    return re.sub(r"^(?=#|[\w-]+:)", " ", "\n".join(lines).strip(), flags=re.MULTILINE)
