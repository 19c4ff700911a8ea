"""Shows the user what the agent says and does, and keeps what it does now, for the status line."""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from ralph.agent.dialects import Event
from ralph.agent.stream import Stream, content_blocks
from ralph.agent.turn import without_signals
from ralph.screen.text import clip, terminal_width, wrap
from ralph.words import REASON_LENGTH, join_names, one_line, plural, without_control_codes

_PIPED_COLUMNS = 160
"""Columns of a tool call's line if stdout is not a terminal."""
_HANDOVER_WORDS = 140
"""The most words that an agent's handover to the next one may have."""
_MARGIN, _INDENT = "  ", "    "
_MAIN_ARGUMENTS = ("command", "file_path", "notebook_path", "pattern", "description", "query", "url", "path", "skill")
"""The tool arguments that say most; the first one present is shown."""
_SILENT_TOOLS = ("Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "TodoWrite", "Skill")
"""Tools whose success says nothing that their call did not already say."""


class View:
    """Shows one agent after another; `say` prints a line.

    On a terminal, words are wrapped and calls cut to its width; with `whole`, everything is shown in full.
    """

    def __init__(self, say: Callable[[str], None], *, whole: bool = False) -> None:
        self._say = say
        self._shows_all = whole
        self._here = os.getcwd() + "/"  # noqa: PTH109 - it is compared with strings
        self._account = self._shown_account = ""
        self._windows = dict[str, int]()
        self.begin()

    def begin(self) -> Stream:
        """Returns the stream that reads the output of a new agent, and shows it here."""
        self._stream = Stream(self.show, self.show_text, self._windows)
        self.doing = "working"
        """What the agent does now."""
        self.heard_at = time.monotonic()
        return self._stream

    def show(self, event: Event) -> None:
        """Prints the lines of one event, which the stream has recorded; an unknown event has none."""
        self.heard_at = time.monotonic()
        kind = event["type"]
        indent = _MARGIN
        lines: Iterable[str] = ()
        if event.get("subtype") == "init":
            self._note_model_and_payer(event)
        elif self._account != self._shown_account:
            self._shown_account = self._account
            if event.get("error") != "authentication_failed":  # if that failed, no login pays
                self._say(indent + self._account)
        if kind in ("assistant", "user"):
            running = next(reversed(self._stream.running.values()), None)
            self.doing = self._describe_tool_call(running) if running else "thinking"
            indent += _INDENT * bool(event.get("parent_tool_use_id"))
            lines = self._message_lines(event, len(indent))
        elif kind == "system":
            lines = self._system_lines(event)
        elif kind == "result":
            self.doing = "leaving"
            context = self._stream.so_far.context
            lines = [] if context is None else [f"context {context:.0%}"]
        for line in lines:
            self._say(indent + line)

    def show_prompt(self, prompt: str) -> None:
        """Prints the agent's prompt, if everything is to be shown."""
        if self._shows_all:
            for line in _prefix_lines("»", prompt):
                self._say(_MARGIN + line)

    def show_text(self, line: str) -> None:
        """Prints a line of the agent's text."""
        self.heard_at = time.monotonic()
        self._say(_MARGIN + line)

    def summarize_cut_iteration(self, why: str, changed: Sequence[str] = ()) -> str:
        """Returns the handover of an agent that was cut short, without tokens or signals; empty if it is only `why`.

        It names the files that have `changed`, or if none are known, those that the agent's tools were asked to write.
        """
        stream = self._stream
        names = [name.removeprefix(self._here) for name in changed or stream.edited]
        left = {
            "it was in": join_names([self._describe_tool_call(block) for block in stream.running.values()], 3),
            "files it had changed, which may be gone since": join_names(names, 10),
            "its last words": stream.words.strip(),
        }
        new = {what: without_signals(without_control_codes(text)) for what, text in left.items() if text not in why}
        phrases = [f"{what}: {one_line(text, 400)}" for what, text in new.items()]
        words = "; ".join([one_line(without_signals(why), REASON_LENGTH), *phrases]).split()
        return " ".join(words[:_HANDOVER_WORDS]) if phrases else ""

    def _message_lines(self, event: Event, indent: int) -> Iterator[str]:
        """Yields text as wrapped lines, and each tool call or result as one row; or everything in full."""
        edge = terminal_width()
        room = edge and edge - indent
        for block in content_blocks(event):
            kind, text = block.get("type"), str(block.get("text", "")).rstrip("\n")
            if kind == "text" and event["type"] == "assistant":
                yield from wrap(text, None if self._shows_all else room)
            elif self._shows_all:
                yield from _all_lines(block)
            elif kind == "tool_use":
                yield clip("▸ " + self._describe_tool_call(block), room or _PIPED_COLUMNS)
            elif kind == "tool_result" and (outcome := _tool_outcome(block)):
                yield clip(outcome, room or _PIPED_COLUMNS)

    def _describe_tool_call(self, block: Event) -> str:
        """`Bash pytest -q`: the tool, and the first line of its main argument; paths are from the current folder."""
        given = block.get("input")
        arguments = given if isinstance(given, dict) else {}
        texts = [arguments.get(name) for name in _MAIN_ARGUMENTS] + list(arguments.values())
        telling = next((text for text in texts if isinstance(text, str)), "").removeprefix(self._here)
        first, _, more = telling.strip().partition("\n")
        return f"{block.get('name')} {first}".rstrip() + " …" * bool(more)

    def _note_model_and_payer(self, event: Event) -> None:
        self.doing = "thinking"
        turn = self._stream.so_far
        account = turn.model
        if "apiKeySource" in event:  # a forgotten key in the environment has cost people hundreds
            account += f" · the API key in {turn.pays} pays" if turn.pays else " · your login pays"
        self._account = account or self._account

    def _system_lines(self, event: Event) -> Iterator[str]:
        kind = event.get("subtype")
        if kind == "api_retry":
            error = f"{event.get('error_status') or ''} {event.get('error') or ''}".replace("unknown", "").strip()
            error = error or "no answer"
            self.doing = f"retrying ({error})"
            if "attempt" in event:
                error += f": attempt {event['attempt']} of {event.get('max_retries')}"
            yield f"… {error}"
        elif kind in ("compact_boundary", "model_fallback"):
            yield f"… {event.get('content') or kind.replace('_', ' ')}"


def _tool_answer_text(block: Event) -> str:
    """The text of a tool's answer."""
    content = block.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _all_lines(block: Event) -> Iterable[str]:
    """Returns all lines of a tool call, of its result, or of a thought."""
    kind = block.get("type")
    if kind == "tool_use":
        return _prefix_lines("▸", f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}")
    if kind == "tool_result":
        return _prefix_lines("✗" if block.get("is_error") else "⎿", _tool_answer_text(block))
    return _prefix_lines("✻", str(block.get("thinking"))) if kind == "thinking" else ()


def _prefix_lines(sign: str, text: str) -> Iterator[str]:
    """Yields all lines of a text, with the sign before the first."""
    for line in text.rstrip("\n").split("\n"):
        yield f"{sign} {line}"
        sign = " "


def _tool_outcome(block: Event) -> str:
    """The result of a tool call in one line, with ✗ if it failed; empty if it says nothing new."""
    tool = block.get("call", {}).get("name")
    text = re.sub("</?tool_use_error>", "", _tool_answer_text(block))
    lines = [line.strip("= ") for line in text.splitlines() if any(map(str.isalnum, line))] or [""]
    if block.get("is_error"):
        return f"✗ {lines[0]}" + f": {lines[-1]}" * (len(lines) > 1)
    if tool in _SILENT_TOOLS or not lines[0]:
        return ""
    more = f" … +{plural(len(lines) - 1, 'line')}" * (len(lines) > 1)
    return f"⎿ {lines[-1 if tool == 'Bash' else 0]}{more}"
