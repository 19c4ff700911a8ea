"""What the agent prints, read as it comes: what it does now, and a Turn in the end.

Only the agent's own error results are looked at for words such as those of a usage limit. What a model says, what a
tool prints and what a file holds may contain the same words and mean nothing.
"""

import contextlib
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ralph.agent.turn import Meaning, Outcome, Tokens, Turn, meaning, refusal
from ralph.process import Ended
from ralph.words import shortened

Event = dict[str, Any]
_LINE_LIMIT = 64 << 20
"""Bytes after which a line without an end is let go; the longest real ones are a few megabytes."""
_LAST_WORDS = 20_000
"""Characters of the agent's result that are kept; what it claims stands at the end, what it did at the beginning."""
_LAST_LINES = 100
_LAST_LINES_LENGTH = 2000
"""The same for an agent that prints no stream: everything that it prints comes here."""
_REFUSAL_LINES, _COMPLAINT_BYTES = 3, 20_000
"""The real agent refuses to start in so many lines at most; longer complaints are a program's that it ran."""
_WINDOW, _LARGE_WINDOW = 200_000, 1_000_000
"""Tokens that a model's context takes, as long as no result has said it."""
_RESET_AT_MOST_S = 8 * 86_400
"""The longest limit is one of seven days; what lies beyond is no reset time."""


class Stream:
    """Reads an agent's output as it comes: JSON events of the real one, or any other text.

    `show` gets each event when it is noted here, and `tell` each line of text. `windows` has the context windows of
    models as results have told them, and learns; `max_context` is the part of one that may be used.
    """

    def __init__(
        self,
        show: Callable[[Event], None],
        tell: Callable[[str], None],
        *,
        windows: dict[str, int] | None = None,
        max_context: float | None = None,
    ) -> None:
        self._show, self._tell = show, tell
        self._windows = {} if windows is None else windows
        self._max_context = max_context
        self.running: dict[str, Event] = {}
        """The calls of tools that have not ended, by their ids: blocks of its messages, the newest last."""
        self.ended: dict[str, Event] = {}
        """Those that the newest event has ended."""
        self.context: float | None = None
        """The part of the model's context that its last answer took."""
        self._output, self._complaints = bytearray(), bytearray()
        self._in_parts = self._good_moment = False
        self.has_result = False
        """Its result is there, and nothing has woken it since."""
        self._started = self._over = self._reported = False
        self._cost: float | None = None
        self._tokens: Tokens | None = None
        self._model = self._pays = self._error = ""
        self._rejected: Event = {}
        self._result: Event | None = None
        self._last_text = ""
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._complained: deque[str] = deque(maxlen=_REFUSAL_LINES)
        self._texts = 0

    def sees(self, data: bytes) -> None:
        """The next bytes of the output."""
        for line in _whole_lines(self._output, data):
            self._line(line)

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error, shown as text."""
        for line in _whole_lines(self._complaints, data):
            if line.strip():
                self._texts += 1
                self._complained.append(line[:_COMPLAINT_BYTES].decode(errors="replace").strip())
            self._tell(_text(line))

    def has_enough(self) -> bool:
        """Whether more of the context is used than may be, and nothing is lost when the agent is interrupted now.

        No tool runs, and it wants to go on. The real one does not report its cost when it is interrupted while it waits
        for an answer's first byte (measured); so where answers come in parts, the moment is when one begins to call a
        tool.
        """
        full = self._max_context is not None and (self.context or 0.0) > self._max_context
        return full and self._good_moment and not self.running

    def over(self) -> None:
        """From here on only its cost still counts: ended from outside, the real one adds an error result."""
        self._over = True

    def finish(self) -> None:
        """Nothing more comes: a last line without an end is one too."""
        if self._output:
            self.sees(b"\n")
        if self._complaints:
            self.complains(b"\n")

    def turn(self, ended: Ended, cut: Outcome | None = None, *, took_s: float, now: float) -> Turn:
        """What it all came to, where ralph ended it by what it had come to: `cut`; `now` is the time since 1970."""
        self.finish()
        meant = self._judged(ended, Outcome.INTERRUPTED if ended.interrupted else cut)
        said, most = str((self._result or {}).get("result") or ""), _LAST_WORDS
        if not self._started:  # no stream: its last lines
            said, most = "\n".join(self._last_lines), _LAST_LINES_LENGTH
        stated = self._rejected.get("resetsAt")
        known = isinstance(stated, int | float) and now < stated < now + _RESET_AT_MOST_S
        return Turn(
            outcome=meant.outcome,
            why=_encodable(meant.why),
            fix=meant.fix,
            said=_encodable(shortened(said.strip(), most, end=True)),
            cost_usd=self._cost,
            at_least=ended.shrunk or (self._started and not self._reported),
            tokens=self._tokens,
            model=self._model,
            pays=self._pays,
            context=self.context,
            resets_at=int(stated) if stated and known and meant.outcome is Outcome.LIMIT else None,
            left_over=ended.left_over,
            took_s=took_s,
        )

    def _line(self, line: bytes) -> None:
        event = _event(line)
        if event is not None:
            with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError, AttributeError):
                self._note(event)
                self._show(event)
                return
        text = _text(line)
        if text.strip():
            self._last_text = text.strip()
            self._texts += 1
        if not self._started:
            self._last_lines.append(shortened(text, _LAST_LINES_LENGTH, end=True))
        self._tell(text)

    def _note(self, event: Event) -> None:
        kind, inner = event["type"], bool(event.get("parent_tool_use_id"))
        self._started = True
        self.ended = {}
        if kind in ("assistant", "user"):
            self.has_result = False
            self._follow_tools(event)
        if inner:  # a sub-agent has a context and a result of its own
            return
        if kind == "result":
            self._note_result(event)
        elif kind == "assistant":
            self._error = str(event.get("error") or "")
            self._weigh(event["message"])
            self._good_moment = False
        elif kind == "user":
            self._good_moment = not self._in_parts
        elif kind == "stream_event":
            self._note_part(event["event"])
        elif kind == "system" and event.get("subtype") == "init":
            self.has_result = False
            self._model = str(event.get("model") or "")
            self._pays = str(event.get("apiKeySource") or "none").removeprefix("none")
        elif kind == "rate_limit_event":
            info = event.get("rate_limit_info")
            self._rejected = info if isinstance(info, dict) and info.get("status") == "rejected" else {}

    def _follow_tools(self, event: Event) -> None:
        for block in blocks(event):
            call = str(block.get("id") or block.get("tool_use_id"))
            if block.get("type") == "tool_use":
                self.running[call] = block
            elif block.get("type") == "tool_result" and call in self.running:
                self.ended[call] = self.running.pop(call)

    def _note_part(self, part: Event) -> None:
        self._in_parts = True
        if part["type"] == "message_start":
            self._weigh(part["message"])
        elif part["type"] == "content_block_start":
            self._good_moment = part["content_block"]["type"] == "tool_use"

    def _weigh(self, message: Event) -> None:
        usage = message.get("usage") or {}
        used = _sum([usage], "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        window = self._windows.get(self._model) or (_LARGE_WINDOW if "[1m]" in self._model else _WINDOW)
        self.context = used / window if used else self.context

    def _note_result(self, event: Event) -> None:
        cost = event.get("total_cost_usd")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
            self._cost = float(cost)
        self._result = self._result if self._over else event
        self.has_result = self._reported = True
        models: dict[str, Event] = event.get("modelUsage") or {}
        if not models:
            return
        self._windows.update({name: one["contextWindow"] for name, one in models.items() if one.get("contextWindow")})
        used = list(models.values())
        self._tokens = Tokens(
            input=_sum(used, "inputTokens"),
            output=_sum(used, "outputTokens"),
            cache_read=_sum(used, "cacheReadInputTokens"),
            cache_write=_sum(used, "cacheCreationInputTokens"),
        )

    def _judged(self, ended: Ended, cut: Outcome | None) -> Meaning:
        if ended.survivors:
            return Meaning(Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}")
        if cut in _ENDED_BY_RALPH:
            return Meaning(cut, _ENDED_BY_RALPH[cut])
        if self._result is not None and self._result.get("is_error"):
            return self._result_error(self._result)
        if ended.shrunk:
            return Meaning(Outcome.FAILED, "the record of what the agent said was cut short while it ran")
        if self._result is not None and (ended.code == 0 or cut is Outcome.OK):
            return Meaning(Outcome.OK, "")
        if ended.code == 0 and not self._started:
            return Meaning(Outcome.OK, "")
        return self._without_result(ended.code)

    def _result_error(self, result: Event) -> Meaning:
        """An error the agent reported itself; `subtype` may well say success."""
        errors, subtype = result.get("errors"), str(result.get("subtype"))
        joined = "; ".join(map(str, errors)) if isinstance(errors, list) else errors
        said = str(result.get("result") or joined or subtype)
        if subtype in _BOUNDS:
            return Meaning(_BOUNDS[subtype], said)
        return meaning(said, self._error, result.get("api_error_status")) or Meaning(Outcome.FAILED, said)

    def _without_result(self, code: int) -> Meaning:
        last = (self._complained[-1] if self._complained else "") or self._last_text
        died = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        said = f"the agent {died}" + (f": {shortened(last, 300)}" if last else "")
        if self._result is not None:
            return Meaning(Outcome.FAILED, said + " after its result")
        if self._started:
            return Meaning(Outcome.FAILED, said + ("" if last else " without a result"))
        if self._texts <= _REFUSAL_LINES and (remedy := refusal("\n".join(self._complained))):
            return Meaning(Outcome.HOPELESS, said, remedy)
        if code in (126, 127) and not self._last_text:
            return Meaning(Outcome.HOPELESS, said, "the agent's command cannot be started; see --agent")
        # Without a stream an error is all that the real one prints.
        known = meaning(last) if self._texts <= 1 else None
        return known or Meaning(Outcome.FAILED, said)


_ENDED_BY_RALPH = {
    Outcome.INTERRUPTED: "it was interrupted",
    Outcome.HUNG: "it was silent for longer than idle-timeout",
    Outcome.TIMED_OUT: "it took longer than iteration-timeout",
    Outcome.OUT_OF_TIME: "max-time was over",
    Outcome.CONTEXT_FULL: "it used more of its context than max-context",
    Outcome.TOO_LONG: "it printed more than ralph records of one iteration",
}
"""What it means that ralph ended the agent."""

_BOUNDS = {"error_max_turns": Outcome.OUT_OF_TURNS, "error_max_budget_usd": Outcome.OUT_OF_BUDGET}
"""Results with which the agent ends itself, because it was told to."""


def blocks(event: Event) -> list[Event]:
    """The blocks of a message, whatever else it holds."""
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def drop_parts(transcript: Path) -> None:
    """Takes the parts of messages out of a transcript: what they say stands there whole.

    claude prints each answer a second time so, where it was asked to (measured: 9 to 21 times as many bytes). Whoever
    has the file open keeps reading the old one. Leaves it alone when the disk is full.
    """
    short = transcript.with_suffix(".short")
    try:
        with transcript.open("rb") as lines, short.open("wb") as kept:
            kept.writelines(line for line in lines if not line.startswith(b'{"type":"stream_event",'))
        short.replace(transcript)
    except OSError:
        short.unlink(missing_ok=True)


def _whole_lines(rest: bytearray, data: bytes) -> list[bytes]:
    """The lines that are whole with these bytes; what has no end yet stays in `rest`."""
    rest += data
    if b"\n" not in data:
        if len(rest) > _LINE_LIMIT:
            rest.clear()
        return []
    *lines, last = bytes(rest).split(b"\n")
    rest[:] = last
    return lines


def _sum(counts: list[Event], *names: str) -> int:
    return sum(value for one in counts for name in names if isinstance(value := one.get(name), int))


def _encodable(text: str) -> str:
    """JSON can hold halves of characters; nothing else can."""
    return text.encode(errors="replace").decode()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def _event(line: bytes) -> Event | None:
    """The JSON event on this line, or None when it is something else."""
    if not line.startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None
