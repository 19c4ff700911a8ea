"""Settings that stand in texts: `RALPH_NAME: value` lines of a plan, of a template's leading comment; DO_NOT_COMMIT."""

import re
from pathlib import Path

from ralph.progress.reading import outside_fences
from ralph.settings import Given, Source

_DIRECTIVE = re.compile(r"[ ]{0,3}(RALPH_[A-Z0-9_]+):(.*)")
_NO_COMMIT = re.compile(r"\s*DO_NOT_COMMIT\s*")
_CONTROL = ("RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED")
_LEADING_COMMENT = re.compile(r"\A\ufeff?\s*\{#(.*?)#\}[ \t]*\r?\n?", re.DOTALL)


def of_plan(text: bytes, name: str) -> list[Given]:
    """The directives of a plan, each with its line for messages."""
    given = []
    lines, _ = outside_fences(text, rb"[ ]{0,3}RALPH_|[ \t\f\v]*DO_NOT_COMMIT")
    for line in lines:
        body = line.body.decode(errors="replace")
        number = text.count(b"\n", 0, line.start) + 1
        where = f"{name}:{number}"
        if found := _DIRECTIVE.fullmatch(body):
            if found[1] not in _CONTROL:
                given.append(Given(variable=found[1], text=found[2], source=Source.PLAN, where=where))
        elif _NO_COMMIT.fullmatch(body):
            # The original's word forbids, whatever the environment says; only the command line is stronger.
            given.append(Given(variable="RALPH_AUTO_COMMIT", text="false", source=Source.ENVIRONMENT, where=where))
    return given


def of_template(text: str, path: Path) -> list[Given]:
    """The directives in a template's leading `{# ... #}` comment."""
    comment = _LEADING_COMMENT.match(text)
    given = []
    for number, line in enumerate(comment[0].splitlines() if comment else [], 1):
        if found := _DIRECTIVE.fullmatch(line.replace("{#", "", 1).split("#}")[0].strip()):
            where = f"{path}:{number}"
            given.append(Given(variable=found[1], text=found[2], source=Source.TEMPLATE, where=where))
    return given


def without_comment(text: str) -> str:
    """The template without its leading comment."""
    return _LEADING_COMMENT.sub("", text, count=1)
