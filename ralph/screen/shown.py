"""What an agent does and what comes of it, as lines for a person."""

import json
import re
from typing import Any

from ralph.words import counted, duration

Block = dict[str, Any]
_TELLING = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "description",
    "query",
    "url",
    "path",
    "skill",
)
"""Of a tool's arguments the one that says most, the first that is there."""
_EXPECTED = ("Edit", "MultiEdit", "Write", "NotebookEdit", "TodoWrite", "Skill")
"""Tools whose success says nothing new."""
_AGENTS = ("Task", "Agent")
_RULES = "=-*#_~"
"""What lines are drawn with."""


def call(block: Block, here: str) -> str:
    """`Bash pytest -q`: the tool, and the first line of what it is for; paths below `here` are shown from there."""
    given = block.get("input")
    arguments = given if isinstance(given, dict) else {}
    named = next((arguments[name] for name in _TELLING if isinstance(arguments.get(name), str)), "")
    telling = named or next((value for value in arguments.values() if isinstance(value, str)), "")
    return f"{block.get('name')} {_first_line(telling.removeprefix(here))}".rstrip()


def whole_call(block: Block) -> list[str]:
    """The tool and all its arguments."""
    given = block.get("input")
    arguments = given if isinstance(given, dict) else {"": given}
    lines = [str(block.get("name"))]
    for name, value in arguments.items():
        first, *more = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split("\n")
        lines += [f"  {name}: {first}", *(f"    {line}" for line in more)]
    return lines


def outcome(tool: str, block: Block) -> str:
    """What came of a call in one line, with ✗ when it failed; empty when it says nothing new."""
    lines = _flat(block.get("content")).strip().splitlines()
    if block.get("is_error"):
        return f"✗ {_error(lines)}"
    if not lines or tool in _EXPECTED:
        return ""
    if tool == "Read":
        return f"⎿ {counted(len(lines), 'line')}"
    telling = _last(lines) if tool == "Bash" else lines[0]
    rest = len(lines) - 1 if tool not in _AGENTS else 0
    return f"⎿ {telling}" + (f" … +{counted(rest, 'line')}" if rest else "")


def whole_outcome(block: Block) -> list[str]:
    """All that came of a call."""
    sign = "✗" if block.get("is_error") else "⎿"
    first, *more = _flat(block.get("content")).split("\n")
    return [f"{sign} {first}", *(f"  {line}" for line in more)]


def retry(event: dict[str, Any]) -> tuple[str, str]:
    """The error after which the agent tries again by itself, and when it does."""
    error = f"{event.get('error_status') or 'no answer'} {event.get('error') or ''}".strip()
    delay_s = float(event.get("retry_delay_ms") or 0) / 1000
    return error, f"try {event.get('attempt')} of {event.get('max_retries')} in {duration(delay_s)}"


def _error(lines: list[str]) -> str:
    """`Exit code 1` alone says little: with it goes the last line."""
    first = re.sub("</?tool_use_error>", "", lines[0]).strip() if lines else ""
    if len(lines) > 1 and first.startswith("Exit code"):
        return f"{first}: {_last(lines)}"
    return first + " …" * (len(lines) > 1)


def _last(lines: list[str]) -> str:
    """The last line with words, without what is drawn around them, as in `==== 12 passed in 0.3s ====`."""
    line = next((line for line in reversed(lines) if any(map(str.isalnum, line))), lines[-1]).strip()
    return line.strip(f"{_RULES} ") if line[:3] in [3 * rule for rule in _RULES] else line


def _first_line(text: str) -> str:
    first, _, more = text.strip().partition("\n")
    return first + " …" * bool(more)


def _flat(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else "" if content is None else str(content)
