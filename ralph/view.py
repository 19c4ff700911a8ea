"""The agent's stream as lines for a person: its words, one line per tool call, retries, and a sign of life."""

import os
import time
from collections.abc import Callable
from typing import Any

from ralph.stream import Event
from ralph.words import duration

_SILENCE_S = 30.0
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


class View:
    """Shows one agent after another; `say` prints a line.

    On a terminal, whose `width` is given, long calls are cut to it and a long silence is broken by signs of life.
    `pays` says whether somebody pays for this agent.
    """

    def __init__(self, say: Callable[[str], None], *, width: int | None, pays: bool) -> None:
        self._say = say
        self._width = width
        self._pays = pays
        self._here = os.getcwd() + "/"  # noqa: PTH109 - a string is what is compared
        self._account = ""
        self._doing = "thinking"
        self._since = self._spoke = time.monotonic()

    def begin(self) -> None:
        """A new agent starts."""
        self._doing = "starting"
        self._since = self._spoke = time.monotonic()

    def show(self, event: Event) -> None:
        """The lines of one event; unknown ones have none."""
        self._since = self._spoke = time.monotonic()
        shower = {
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "result": self._result,
        }.get(event["type"])
        for line in shower(event) if shower else []:
            self._say("  " + line)

    def ending(self) -> None:
        """It is being ended, which may take some seconds."""
        self._say("ralph: ending the agent and what it started; ask once more and it gets no time for that")

    def tell(self, line: str) -> None:
        """A line of text."""
        self._since = self._spoke = time.monotonic()
        self._say("  " + line)

    def quiet(self) -> None:
        """After a long silence says what goes on; on a terminal only."""
        now = time.monotonic()
        if self._width is not None and now - self._spoke >= _SILENCE_S:
            self._spoke = now
            self._say(f"  … {self._doing}, silent for {duration(now - self._since)}")

    def _assistant(self, event: Event) -> list[str]:
        indent = _indent(event)
        lines = []
        for block in _blocks(event):
            if block.get("type") == "text":
                self._doing = "thinking"
                lines += [indent + line for line in str(block.get("text", "")).split("\n")]
            elif block.get("type") == "tool_use":
                self._doing = self._call(block)
                lines.append(f"{indent}▸ {self._doing}")
        return lines

    def _user(self, event: Event) -> list[str]:
        self._doing = "thinking"
        failed = [block for block in _blocks(event) if block.get("type") == "tool_result" and block.get("is_error")]
        return [f"{_indent(event)}✗ {_first_line(_flat(block.get('content')), self._room())}" for block in failed]

    def _system(self, event: Event) -> list[str]:
        kind = event.get("subtype")
        if kind == "init":
            return self._init(event)
        if kind == "api_retry":
            delay = float(event.get("retry_delay_ms") or 0) / 1000
            error = f"{event.get('error_status') or 'no answer'} {event.get('error') or ''}".strip()
            self._doing = f"retrying ({error})"
            return [f"… {error}: try {event.get('attempt')} of {event.get('max_retries')} in {duration(delay)}"]
        if kind == "compact_boundary":
            return ["… context compacted"]
        if kind == "model_fallback":
            return [f"… {event.get('content') or 'fell back to another model'}"]
        return []

    def _init(self, event: Event) -> list[str]:
        """Which model, and once who pays: a forgotten key in the environment has cost people hundreds."""
        source = str(event.get("apiKeySource") or "none")
        payer = "your login pays" if source == "none" else f"the API key in {source} pays"
        account = f"{event.get('model')}" + (f" · {payer}" if self._pays else "")
        self._doing = "thinking"
        if account == self._account:
            return []
        self._account = account
        return [account]

    def _result(self, event: Event) -> list[str]:
        return [f"✗ {error}" for error in errors] if isinstance(errors := event.get("errors"), list) else []

    def _room(self) -> int:
        return 160 if self._width is None else max(20, self._width - 16)

    def _call(self, block: dict[str, Any]) -> str:
        given = block.get("input")
        arguments = given if isinstance(given, dict) else {}
        named = next((arguments[name] for name in _TELLING if isinstance(arguments.get(name), str)), "")
        telling = named or next((value for value in arguments.values() if isinstance(value, str)), "")
        return f"{block.get('name')} {_first_line(telling.removeprefix(self._here), self._room())}".rstrip()


def _blocks(event: Event) -> list[dict[str, Any]]:
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _indent(event: Event) -> str:
    return "    " if event.get("parent_tool_use_id") else ""


def _first_line(text: str, room: int) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0][:room] + (" …" if len(lines) > 1 or len(lines[0]) > room else "")


def _flat(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
