"""What goes on as a person sees it: what the agent says and does, and the status line, one row of a terminal."""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ralph.agent.dialects import Event
from ralph.agent.stream import Stream, blocks
from ralph.screen.text import clipped, columns, wrapped
from ralph.words import counted, duration, usd

if TYPE_CHECKING:
    from ralph.run import Run

_IDLE_S = 2.0
"""Seconds of silence that are worth a word."""
_DOING_COLUMNS = 16
"""Columns for what is done now, before figures have to give way."""
_PIPED = 160
"""Columns of a tool call's line where no terminal says how many there are."""
_NARROWEST = 10
_MARGIN, _INDENT = "  ", "    "
_INTERNAL = "[ede_diagnostic]"
"""How the real agent begins the error that says where in its own code it was interrupted."""
_TELLING = ("command", "file_path", "notebook_path", "pattern", "description", "query", "url", "path", "skill")
"""Of a tool's arguments the one that says most, the first that is there."""
_EXPECTED = ("Edit", "MultiEdit", "Write", "NotebookEdit", "TodoWrite", "Skill")
"""Tools whose success says nothing new."""
_RULES = re.compile(r"([=\-*#_~])\1{2,} ?(.*?) ?\1{2,}")
"""A line that is drawn around words, as in `==== 12 passed in 0.3s ====`."""


class View:
    """Shows one agent after another; `say` prints a line.

    On a terminal, which has a `width`, words are wrapped and calls cut to it. `pays` says whether somebody pays for
    this agent, `whole` that nothing is shortened.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        width: Callable[[], int | None],
        *,
        pays: bool,
        whole: bool = False,
    ) -> None:
        self._say, self._width, self._pays, self._whole = say, width, pays, whole
        self._here = os.getcwd() + "/"  # noqa: PTH109 - a string is what is compared
        self._account = ""
        self.begin(Stream(self.show, self.tell))

    def begin(self, stream: Stream) -> None:
        """A new agent starts, and `stream` reads what it prints."""
        self._stream = stream
        self.doing = "starting"
        """What it does now."""
        self.heard_at = time.monotonic()

    def show(self, event: Event) -> None:
        """The lines of one event, which the stream has noted; unknown ones have none."""
        self.heard_at = time.monotonic()
        for line in self._lines(event):
            self._say(_MARGIN + line)

    def told(self, prompt: str) -> None:
        """What the agent is asked; shown only where all is."""
        for line in _all_of("»", prompt) if self._whole else ():
            self._say(_MARGIN + line)

    def tell(self, line: str) -> None:
        """A line of text."""
        self.heard_at = time.monotonic()
        if self.doing == "starting":
            self.doing = "working"  # all that can be known of an agent that prints text
        self._say(_MARGIN + line)

    def _lines(self, event: Event) -> Iterator[str]:
        kind = event["type"]
        if kind in ("assistant", "user"):
            running = next(reversed(self._stream.running.values()), None)
            self.doing = self._call(running) if running else "thinking"
            indent = _INDENT if event.get("parent_tool_use_id") else ""
            width = self._width()
            room = None if width is None else max(_NARROWEST, width - len(_MARGIN + indent))
            for block in blocks(event):
                yield from (indent + line for line in self._block(kind, block, room))
        elif kind == "system":
            yield from self._system(event)
        elif kind == "result":
            self.doing = "leaving"
            errors = event.get("errors")
            for error in errors if isinstance(errors, list) else ():
                if not str(error).startswith(_INTERNAL):
                    yield f"✗ {error}"
            if self._stream.so_far.context is not None:
                yield f"context {self._stream.so_far.context:.0%}"

    def _block(self, speaker: str, block: Event, room: int | None) -> Iterable[str]:
        """What is said or thought, a call, or what came of it: a row each, or all of it."""
        kind, text = block.get("type"), str(block.get("text", "")).rstrip("\n")
        if kind == "text" and speaker == "assistant":
            return wrapped(text, None if self._whole else room)
        if kind == "tool_use" and not self._whole:
            return [clipped("▸ " + self._call(block), room or _PIPED)]
        if kind == "tool_use":
            said = [
                f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                for name, value in _arguments(block).items()
            ]
            return _all_of("▸", "\n".join([str(block.get("name")), *said]))
        if kind == "tool_result" and not self._whole:
            call = self._stream.ended.get(str(block.get("tool_use_id")), {})
            outcome = _outcome(str(call.get("name")), block)
            return [clipped(outcome, room or _PIPED)] if outcome else []
        if kind == "tool_result":
            return _all_of("✗" if block.get("is_error") else "⎿", _flat(block.get("content")))
        thought = str(block.get("thinking", ""))
        return _all_of("✻" if thought else "»", thought or text) if self._whole and (thought or text) else []

    def _call(self, block: Event) -> str:
        """`Bash pytest -q`: the tool, and the first line of what it is for; paths are shown from here."""
        arguments = _arguments(block)
        texts = [arguments.get(name) for name in _TELLING] + list(arguments.values())
        telling = next((text for text in texts if isinstance(text, str)), "").removeprefix(self._here)
        first, _, more = telling.strip().partition("\n")
        return f"{block.get('name')} {first}".rstrip() + " …" * bool(more)

    def _system(self, event: Event) -> Iterator[str]:
        kind = event.get("subtype")
        if kind == "init":
            self.doing = "thinking"
            account = str(event.get("model") or "")
            if self._pays and "apiKeySource" in event:  # a forgotten key in the environment has cost people hundreds
                source = str(event.get("apiKeySource") or "none")
                account += " · your login pays" if source == "none" else f" · the API key in {source} pays"
            if account not in (self._account, ""):
                self._account = account
                yield account
        elif kind == "api_retry":
            error = f"{event.get('error_status') or 'no answer'} {event.get('error') or ''}".strip()
            if "attempt" not in event:
                self.doing = "retrying"
                yield f"… {event.get('error')}"
                return
            delay = duration(float(event.get("retry_delay_ms") or 0) / 1000)
            self.doing = f"retrying ({error})"
            yield f"… {error}: try {event.get('attempt')} of {event.get('max_retries')} in {delay}"
        elif kind == "compact_boundary":
            yield "… context compacted"
        elif kind == "model_fallback":
            yield f"… {event.get('content') or 'fell back to another model'}"


def _arguments(block: Event) -> Mapping[str, object]:
    given = block.get("input")
    return given if isinstance(given, dict) else {}


def _flat(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _all_of(sign: str, text: str) -> Iterator[str]:
    """All lines of a text, the sign before the first."""
    for line in text.rstrip("\n").split("\n"):
        yield f"{sign} {line}"
        sign = " "


def _outcome(tool: str, block: Event) -> str:
    """What came of a call in one line, with ✗ when it failed; empty when it says nothing new."""
    lines = _flat(block.get("content")).strip().splitlines() or [""]
    telling = [_RULES.sub(r"\2", line.strip()) for line in lines if any(map(str.isalnum, line))] or lines
    first, last = telling[0], telling[-1]
    if block.get("is_error"):
        first = re.sub("</?tool_use_error>", "", first)
        more = f": {last}" if first.startswith("Exit code") else " …"  # which alone says little
        return f"✗ {first}{more * (len(lines) > 1)}"
    if not first or tool in _EXPECTED:
        return ""
    if tool == "Read":
        return f"⎿ {counted(len(lines), 'line')}"
    rest = f" … +{counted(len(lines) - 1, 'line')}" * (len(lines) > 1)
    return f"⎿ {last if tool == 'Bash' else first}{rest}"


def status_line(run: "Run", width: int) -> str:
    """What goes on in a run, in so many columns: what is done now gives way first, then cost, time and the others."""
    running, tally, now = run.pace.clock.running(), run.tally, run.file.last
    if run.phase is None:
        doing, silent_s = run.view.doing, time.monotonic() - run.view.heard_at
        clock = f"idle {duration(silent_s)}" if silent_s >= _IDLE_S else ""
    else:
        doing, began, seconds = run.phase
        took_s = running - began
        clock = duration(took_s) if seconds is None else f"{duration(max(0.0, seconds - took_s))} left"
    parts = [duration(run.elapsed_s()), "" if tally.cost_usd is None else usd(tally.cost_usd, at_least=tally.at_least)]
    if run.number and not run.settings.once:  # who plans works on no task
        task, tasks = min(now.ticked + 1, len(now.tasks)), len(now.tasks)
        parts = [f"task {task} of {tasks}" if tasks else "", f"iteration {run.number}", *parts]
    needed = min(_DOING_COLUMNS, columns(doing))
    while parts and columns(_joined(*parts, " " * needed, clock)) > width:
        parts.pop()
    room = width - columns(_joined(*parts, "?", clock)) + 1
    return _joined(*parts, clipped(doing, room), clock) if room >= needed else clipped(doing, width)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
