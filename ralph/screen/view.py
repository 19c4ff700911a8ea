"""The agent's stream as a person sees it: its words as they come, and a line for each thing that it does."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ralph.agent.context import Context
from ralph.agent.stream import Event
from ralph.screen import shown
from ralph.screen.detail import Detail
from ralph.screen.speech import MARGIN, Live, Speech
from ralph.screen.text import clipped, one_row
from ralph.words import duration, usd

_SILENCE_S = 30.0
_PIPED = 160
"""Columns of a tool call's line where no terminal says how many there are."""
_CALLS_KEPT = 1_000
_INDENT = "    "
_INTERNAL = "[ede_diagnostic]"
"""How the real agent begins the error that says where in its own code it was interrupted."""


def ending(what: str) -> str:
    """What ralph says when it begins to end the agent, or what else it runs."""
    return f"ralph: ending {what} and what it started; ask once more and it gets no time for that"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A tool that runs."""

    tool: str
    shown: str


class View:
    """Shows one agent after another; `say` prints a line.

    On a terminal, whose `width` is given, words are wrapped and calls cut to it. With a `live` one words are shown as
    they come, else row by row, and on a terminal a long silence is broken by signs of life. `pays` says whether
    somebody pays for this agent.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        width: int | None,
        pays: bool,
        detail: Detail = Detail.NORMAL,
        live: Live | None = None,
    ) -> None:
        self._say, self._width, self._live = say, width, live
        self.aloud = say
        """Prints a line of ralph's own, also where only those are wanted."""
        self._pays = pays
        self._here = os.getcwd() + "/"  # noqa: PTH109 - a string is what is compared
        self._whole = detail is Detail.VERBOSE
        self._account = ""
        self._windows: dict[str, int] = {}
        self._showers: dict[str, Callable[[Event], Iterable[str] | None]] = {
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "result": self._result,
        }
        self.begin()

    def begin(self) -> None:
        """A new agent starts."""
        self.doing = "starting"
        """What it does now."""
        self.heard_at = self._spoke = time.monotonic()
        self._context = Context(self._windows, None)
        self._calls: dict[str, _Call] = {}
        self._speech = Speech(self._say, self._width, self._live, whole=self._whole)

    def show(self, event: Event) -> None:
        """The lines of one event; unknown ones have none."""
        self.heard_at = self._spoke = time.monotonic()
        kind = event["type"]
        self._context.note(event)
        if kind == "stream_event":
            if not event.get("parent_tool_use_id"):
                self._part(event["event"])
            return
        lines = self._showers[kind](event) if kind in self._showers else None
        if lines is None:
            lines = [f"· {json.dumps(event, ensure_ascii=False)}"] if self._whole else []
        for line in lines:
            self._say(MARGIN + line)

    def told(self, prompt: str) -> None:
        """What the agent is asked; shown only where all is."""
        for line in prompt.rstrip("\n").split("\n") if self._whole else ():
            self._say(f"{MARGIN}» {line}")

    def ending(self) -> None:
        """It is being ended, which may take some seconds."""
        self.end()
        self.doing = "ending the agent"
        self.aloud(ending("the agent"))

    def tell(self, line: str) -> None:
        """A line of text."""
        self.heard_at = self._spoke = time.monotonic()
        if self.doing == "starting":
            self.doing = "working"  # all that can be known of an agent that prints text
        self._say(MARGIN + line)

    def quiet(self) -> None:
        """After a long silence says what goes on; only on a terminal without a status line, which shows it."""
        now = time.monotonic()
        if self._width is not None and not self._live and now - self._spoke >= _SILENCE_S:
            self._spoke = now
            self._say(f"{MARGIN}… {self.doing}, silent for {duration(now - self.heard_at)}")

    def end(self) -> None:
        """Nothing more comes."""
        self._speech.end()

    def _part(self, part: dict[str, Any]) -> None:
        """A piece of a message."""
        kind = part.get("type")
        if kind == "message_start":
            self.doing = "thinking"
        elif kind == "content_block_start":
            block = part["content_block"]
            self.doing = f"calling {block.get('name')}" if block.get("type") == "tool_use" else "thinking"
            self._speech.begin()
        elif kind == "content_block_delta" and part["delta"].get("type") == "text_delta":
            self.doing = "answering"
            self._speech.piece(str(part["delta"].get("text") or ""))

    def _assistant(self, event: Event) -> Iterator[str]:
        indent = _indent(event)
        for block in _blocks(event):
            kind = block.get("type")
            if kind == "text":
                self._goes_on()
                text = str(block.get("text", ""))
                self._speech.aside(text, indent) if indent else self._speech.text(text)
            elif kind == "tool_use":
                yield from self._call(block, indent)
            elif kind == "thinking" and self._whole:
                yield from (f"{indent}✻ {line}" for line in str(block.get("thinking", "")).split("\n"))

    def _goes_on(self) -> None:
        """With the newest of the tools that still run, or else the model thinks."""
        self.doing = next((call.shown for call in reversed(self._calls.values())), "thinking")

    def _call(self, block: dict[str, Any], indent: str) -> Iterator[str]:
        if not indent:
            self._speech.begin()
        if len(self._calls) >= _CALLS_KEPT:
            self._calls.clear()
        self.doing = shown.call(block, self._here)
        self._calls[str(block.get("id"))] = _Call(tool=str(block.get("name")), shown=self.doing)
        first, *more = shown.whole_call(block) if self._whole else [self._cut(self.doing, indent + "▸ ")]
        yield f"{indent}▸ {first}"
        yield from (indent + line for line in more)

    def _user(self, event: Event) -> Iterator[str]:
        indent = _indent(event)
        for block in _blocks(event):
            if block.get("type") == "tool_result":
                call = self._calls.pop(str(block.get("tool_use_id")), None)
                self._goes_on()
                outcome = shown.outcome(call.tool if call else "", block)
                lines = shown.whole_outcome(block) if self._whole else [self._cut(outcome, indent)]
                yield from (indent + line for line in lines if line)
            elif self._whole and block.get("type") == "text":
                yield from (f"{indent}» {line}" for line in str(block.get("text", "")).split("\n"))

    def _system(self, event: Event) -> list[str] | None:
        kind = event.get("subtype")
        if kind == "init":
            return self._init(event)
        if kind == "api_retry":
            error, when = shown.retry(event)
            self.doing = f"retrying ({error})"
            self._speech.begin()
            return [f"… {error}: {when}"]
        if kind == "status":
            return []  # that it asks the model, before each answer
        if kind == "compact_boundary":
            return ["… context compacted"]
        if kind == "model_fallback":
            return [f"… {event.get('content') or 'fell back to another model'}"]
        return None

    def _init(self, event: Event) -> list[str]:
        """Which model, and once who pays: a forgotten key in the environment has cost people hundreds."""
        source = str(event.get("apiKeySource") or "none")
        payer = "your login pays" if source == "none" else f"the API key in {source} pays"
        account = f"{event.get('model')}" + (f" · {payer}" if self._pays else "")
        self.doing = "thinking"
        if account == self._account:
            return []
        self._account = account
        return [account]

    def _result(self, event: Event) -> Iterator[str]:
        self.end()
        self.doing = "leaving"
        if isinstance(errors := event.get("errors"), list):
            yield from (f"✗ {error}" for error in errors if not str(error).startswith(_INTERNAL))
        cost, used = event.get("total_cost_usd"), self._context.used
        parts = [usd(float(cost))] if isinstance(cost, int | float) and not isinstance(cost, bool) else []
        parts += [] if used is None else [f"context {used:.0%}"]
        if parts:
            yield " · ".join(parts)

    def _cut(self, line: str, before: str) -> str:
        """So much of it that it stays one row behind what stands before it."""
        room = self._speech.room(before)
        return clipped(one_row(line), _PIPED if room is None else room)


def _blocks(event: Event) -> list[dict[str, Any]]:
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _indent(event: Event) -> str:
    return _INDENT if event.get("parent_tool_use_id") else ""
