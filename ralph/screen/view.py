"""Shows the user what the agent says and does, and keeps what it does now, for the status line."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence

from ralph.agent.dialects import Event
from ralph.agent.stream import OutputReader
from ralph.agent.turn import without_signals
from ralph.screen.text import clip, terminal_width, wrap
from ralph.words import REASON_LENGTH, join_names, one_line, plural, without_control_codes

# Columns of a tool call's line if stdout is not a terminal.
_PIPED_COLUMNS = 160
# The most words that an agent's handover to the next one may have.
_HANDOVER_WORDS = 140
_MARGIN, _INDENT = "  ", "    "
# What is shown in full only, and the sign before it.
_SIGNS = {"prompt": "»", "thinking": "✻", "tool_use": "▸", "tool_result": "⎿"}
# Tools whose success says nothing that their call did not already say.
_SILENT_TOOLS = ("Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "TodoWrite", "Skill")


class AgentView:
    """Shows one agent after another; `say` prints a line.

    On a terminal, words are wrapped and calls cut to its width; with `whole`, everything is shown in full.
    """

    def __init__(self, say: Callable[[str], None], *, whole: bool = False):
        self._say = say
        self._shows_all = whole
        self._here = os.getcwd() + "/"  # noqa: PTH109 - it is compared with strings
        self._account = self._shown_account = ""
        self.new_reader()

    def new_reader(self) -> OutputReader:
        """Returns the reader of a new agent's output, which it shows here."""
        self._reader = OutputReader(self.show)
        self.heard_at = time.monotonic()
        return self._reader

    @property
    def doing(self) -> str:
        """What the agent does now."""
        reader = self._reader
        if reader.result:
            return "leaving"
        if reader.retry:
            return f"retrying ({reader.retry})"
        for call in reversed(list(reader.running.values())):
            return self._describe_tool_call(call)
        return "thinking" if reader.dialect else "working"

    def show(self, event: Event) -> None:
        """Prints the lines of one event, which the reader has recorded; an unknown event has none."""
        self.heard_at = time.monotonic()
        if event["type"] == "init":
            account = self._reader.so_far.model
            if "apiKeySource" in event:  # a forgotten key in the environment has cost people hundreds
                key = str(event["apiKeySource"] or "none").removeprefix("none")
                account += f" · the API key in {key} pays" if key else " · your login pays"
            self._account = account or self._account
        elif self._account != self._shown_account:
            self._shown_account = self._account
            if event.get("error") != "authentication_failed":  # if that failed, no login pays
                self._say(_MARGIN + self._account)
        indent = _MARGIN + _INDENT * bool(event.get("parent"))
        edge = terminal_width()
        for line in self._lines(event, edge and edge - len(indent)):
            self._say(indent + line)

    def handover_of_cut_iteration(self, why: str, changed: Sequence[str] = ()) -> str:
        """Returns the handover of an agent that was cut short, without tokens or signals; empty if it is only `why`.

        It names the files that have `changed`, or if none are known, those that the agent's tools were asked to write.
        """
        reader = self._reader
        names = [name.removeprefix(self._here) for name in changed or reader.edited]
        left = {
            "it was in": join_names([self._describe_tool_call(call) for call in reader.running.values()], 3),
            "files it had changed, which may be gone since": join_names(names, 10),
            "its last words": reader.words.strip(),
        }
        phrases = [
            f"{what}: {one_line(without_signals(without_control_codes(text)), 400)}"
            for what, text in left.items()
            if text not in why
        ]
        words = "; ".join([one_line(without_signals(why), REASON_LENGTH), *phrases]).split()
        return " ".join(words[:_HANDOVER_WORDS]) if phrases else ""

    def _lines(self, event: Event, room: int | None) -> Iterator[str]:
        """Yields text as wrapped lines, and each tool call or result as one row; or everything in full."""
        kind, text, context = event["type"], event.get("text") or "", self._reader.so_far.context
        if kind == "line":
            yield text
        elif kind == "text":
            yield from wrap(text.rstrip("\n"), None if self._shows_all else room)
        elif kind == "retry":
            yield f"… {text}"
        elif kind == "result" and context:
            yield f"context {context:.0%}"
        elif self._shows_all and kind in _SIGNS:
            sign = "✗" if event.get("is_error") else _SIGNS[kind]
            if kind == "tool_use":
                text = f"{event.get('name')} {json.dumps(event.get('input'), ensure_ascii=False)}"
            for line in text.rstrip("\n").split("\n"):
                yield f"{sign} {line}"
                sign = " "
        elif kind == "tool_use":
            yield clip("▸ " + self._describe_tool_call(event), room or _PIPED_COLUMNS)
        elif kind == "tool_result" and (outcome := _quote_tool_result(event)):
            yield clip(outcome, room or _PIPED_COLUMNS)

    def _describe_tool_call(self, call: Event) -> str:
        """`Bash pytest -q`: the tool, and the first line of its first argument; paths are from the current folder."""
        given = call.get("input")
        arguments = given if isinstance(given, dict) else {}
        texts = (arguments.get("command"), *arguments.values())
        telling = next((text for text in texts if isinstance(text, str)), "").removeprefix(self._here)
        first, _, more = telling.strip().partition("\n")
        return f"{call.get('name')} {first}".rstrip() + " …" * bool(more)


def _quote_tool_result(result: Event) -> str:
    """The result of a tool call in one line, with ✗ if it failed; empty if it says nothing new."""
    tool = result.get("call", {}).get("name")
    text = re.sub("</?tool_use_error>", "", result.get("text") or "")
    lines = [line.strip("= ") for line in text.splitlines() if any(map(str.isalnum, line))] or [""]
    if result.get("is_error"):
        return f"✗ {lines[0]}" + f": {lines[-1]}" * (len(lines) > 1)
    if tool in _SILENT_TOOLS or not lines[0]:
        return ""
    more = f" … +{plural(len(lines) - 1, 'line')}" * (len(lines) > 1)
    return f"⎿ {lines[-1 if tool == 'Bash' else 0]}{more}"
