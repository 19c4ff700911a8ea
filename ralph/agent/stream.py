"""What the agent prints, read as it comes: what it does now, and a Turn in the end.

Only the agent's own error results are looked at for words such as those of a usage limit. What a model says, what a
tool prints and what a file holds may contain the same words and mean nothing.
"""

import contextlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ralph.agent.dialects import Dialect, Event, dialect
from ralph.agent.turn import Meaning, Outcome, Rule, Tokens, Turn, meaning
from ralph.process import Ended
from ralph.words import shortened

_LINE_LIMIT = 64 << 20
"""Bytes after which a line without an end is let go; the longest real ones are a few megabytes."""
_RESULT_LENGTH = 20_000
"""Characters of the agent's result that are kept; what it claims stands at the end, what it did at the beginning."""
_LINES, _TEXT_LENGTH = 100, 2000
"""The same for an agent that prints no stream: everything that it prints is text."""
_REFUSAL_LINES = 3
"""The real agent refuses to start in so many lines at most; longer complaints are a program's that it ran."""
_WINDOW, _LARGE_WINDOW = 200_000, 1_000_000
"""Tokens that a model's context takes, as long as no result has said it."""
_RESET_AT_MOST_S = 8 * 86_400
"""The longest limit is one of seven days; what lies beyond is no reset time."""
_PROPOSAL = "ralph_mark_task_"
"""In the names of tools that say what came of a task; claude puts the name of their server in front."""
_ENDED_BY_RALPH = {
    Outcome.INTERRUPTED: "it was interrupted",
    Outcome.HUNG: "it was silent for longer than idle-timeout",
    Outcome.TROUBLE: "it got no answer for longer than idle-timeout, however often it asked",
    Outcome.TIMED_OUT: "it took longer than iteration-timeout",
    Outcome.OUT_OF_TIME: "max-time was over",
    Outcome.CONTEXT_FULL: "it used more of its context than max-context",
    Outcome.TOO_LONG: "it printed more than ralph records of one iteration",
}
_BOUNDS = {"error_max_turns": Outcome.OUT_OF_TURNS, "error_max_budget_usd": Outcome.OUT_OF_BUDGET}
"""Results with which the agent ends itself, because it was told to."""


class Stream:
    """Reads an agent's output as it comes: JSON events of the real one, or any other text.

    `show` gets each event when it is noted here, and `tell` each line of text. `errors` say what those of this agent
    mean. `windows` has the context windows of models as results have told them, and learns; `max_context` is the part
    of one that may be used.
    """

    def __init__(
        self,
        show: Callable[[Event], None],
        tell: Callable[[str], None],
        *,
        errors: Sequence[Rule] = (),
        windows: dict[str, int] | None = None,
        max_context: float | None = None,
    ) -> None:
        self._show, self._tell, self._errors = show, tell, errors
        self._windows = {} if windows is None else windows
        self._max_context = max_context
        self.running: dict[str, Event] = {}
        """The calls of tools that have not ended, by their ids: blocks of its messages, the newest last."""
        self.ended: dict[str, Event] = {}
        """Those that the newest event has ended."""
        self.has_result = False
        """Its result is there, and nothing has woken it since."""
        self.so_far = Turn()
        """What is known of it so far."""
        self.retries = False
        """It waits for an answer that it has asked for before; nothing has come of that since."""
        self._dialect: Dialect | None = None
        self._seen = dict[str, Any]()
        self._result: Event | None = None
        self._error = ""
        self._resets_at: Any = None
        self._is_stream = self._is_over = self._is_in_parts = self._is_good_moment = False
        self._output, self._complaints = bytearray(), bytearray()
        self._printed: deque[str] = deque(maxlen=_LINES)
        self._complained: deque[str] = deque(maxlen=_LINES)

    def sees(self, data: bytes) -> None:
        """The next bytes of the output."""
        for line in _whole_lines(self._output, data):
            if event := _event(line):
                with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError, AttributeError):
                    self._dialect = self._dialect or dialect(event)
                    for one in self._dialect(event, self._seen):
                        self._note(one)
                        self._show(one)
                    continue
            self._text(line, self._printed)

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error, shown as text."""
        for line in _whole_lines(self._complaints, data):
            self._text(line, self._complained)

    def _text(self, line: bytes, kept: deque[str]) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        kept.append(shortened(text, _TEXT_LENGTH, end=True))
        self._tell(text)

    def has_enough(self) -> bool:
        """Whether more of the context is used than may be, and nothing is lost when the agent is interrupted now.

        No tool runs, and it wants to go on. The real one does not report its cost when it is interrupted while it waits
        for an answer's first byte (measured); so where answers come in parts, the moment is when one begins to call a
        tool.
        """
        is_full = self._max_context is not None and (self.so_far.context or 0.0) > self._max_context
        return is_full and self._is_good_moment and not self.running

    def over(self) -> None:
        """From here on only its cost still counts: ended from outside, the real one adds an error result."""
        self._is_over = True

    def finish(self) -> None:
        """Nothing more comes: a last line without an end is one too."""
        if self._output:
            self.sees(b"\n")
        if self._complaints:
            self.complains(b"\n")

    def turn(self, ended: Ended, cut: Outcome | None = None, *, took_s: float, now: float) -> Turn:
        """What it all came to, where ralph ended it by what it had come to: `cut`; `now` is the time since 1970."""
        self.finish()
        turn = self.so_far
        turn.outcome, why, turn.fix = self._meant(ended, cut)
        turn.why = _encodable(f"{why} ({turn.fix})" if turn.fix else why)
        said, most = "\n".join(self._printed), _TEXT_LENGTH
        if self._is_stream:
            said, most = str((self._result or {}).get("result") or ""), _RESULT_LENGTH
        turn.said = _encodable(shortened(said.strip(), most, end=True))
        turn.at_least = self._is_stream and not self.has_result
        if turn.outcome is Outcome.LIMIT and isinstance(self._resets_at, int | float):
            turn.resets_at = int(self._resets_at) if now < self._resets_at < now + _RESET_AT_MOST_S else None
        turn.left_over, turn.took_s = ended.left_over, took_s
        return turn

    def _note(self, event: Event) -> None:
        self._is_stream = True
        self.ended = {}
        self.retries = event.get("subtype") == "api_retry"
        if event["type"] in ("assistant", "user"):
            self.has_result = False
            self._note_tools(event)
        if not event.get("parent_tool_use_id"):  # a sub-agent has a context and a result of its own
            self._note_own(event)

    def _note_tools(self, event: Event) -> None:
        for block in blocks(event):
            call = str(block.get("id") or block.get("tool_use_id"))
            if block.get("type") == "tool_use":
                self.running[call] = block
            elif block.get("type") == "tool_result" and call in self.running:
                self.ended[call] = self.running.pop(call)
                if _PROPOSAL in str(self.ended[call].get("name")) and not block.get("is_error"):
                    self.so_far.proposal = self.ended[call]

    def _note_own(self, event: Event) -> None:
        match event:
            case {"type": "system", "subtype": "init"}:
                self.has_result = False
                self.so_far.model = str(event.get("model") or "")
                self.so_far.pays = str(event.get("apiKeySource") or "none").removeprefix("none")
            case {"type": "assistant"}:
                self._error = str(event.get("error") or "")
                self._is_good_moment = False
                self._weigh(event["message"])
            case {"type": "user"}:
                self._is_good_moment = not self._is_in_parts
            case {"type": "stream_event", "event": {"type": "message_start", "message": message}}:
                self._is_in_parts = True
                self._weigh(message)
            case {"type": "stream_event", "event": {"type": "content_block_start", "content_block": block}}:
                self._is_good_moment = block["type"] == "tool_use"
            case {"type": "rate_limit_event", "rate_limit_info": {"status": status, **info}}:
                self._resets_at = info.get("resetsAt") if status == "rejected" else None
            case {"type": "result"}:
                self._note_result(event)

    def _weigh(self, message: Event) -> None:
        usage, model = message.get("usage") or {}, self.so_far.model
        counts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        used = sum(usage.get(name) or 0 for name in counts)
        window = self._windows.get(model) or (_LARGE_WINDOW if "[1m]" in model else _WINDOW)
        self.so_far.context = used / window if used else self.so_far.context

    def _note_result(self, event: Event) -> None:
        self.has_result = True
        if not self._is_over:
            self._result = event
        cost = event.get("total_cost_usd")
        if isinstance(cost, int | float) and 0 <= cost < float("inf"):
            self.so_far.cost_usd = float(cost)
        models: dict[str, Event] = event.get("modelUsage") or {}
        self._windows.update({name: one["contextWindow"] for name, one in models.items() if one.get("contextWindow")})

        def total(name: str) -> int:
            return sum(one.get(name) or 0 for one in models.values())

        if models:
            self.so_far.tokens = Tokens(
                input=total("inputTokens"),
                output=total("outputTokens"),
                cache_read=total("cacheReadInputTokens"),
                cache_write=total("cacheCreationInputTokens"),
            )

    def _meant(self, ended: Ended, cut: Outcome | None) -> Meaning:
        result = self._result or {}
        if ended.survivors:
            return Meaning(Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}")
        if cut in _ENDED_BY_RALPH:
            return Meaning(cut, _ENDED_BY_RALPH[cut])
        if result.get("is_error"):  # `subtype` may well say success
            errors, subtype = result.get("errors"), str(result.get("subtype"))
            listed = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
            said = str(result.get("result") or listed or subtype)
            known = Meaning(_BOUNDS[subtype], said) if subtype in _BOUNDS else None
            status = result.get("api_error_status")
            known = known or meaning(self._errors, said, self._error, status, code=ended.code)
            return known or Meaning(Outcome.FAILED, said)
        if (ended.code == 0 or cut is Outcome.OK) and (result or not self._is_stream):
            return Meaning(Outcome.OK)
        return self._died(ended.code)

    def _died(self, code: int) -> Meaning:
        complained = [line.strip() for line in self._complained if line.strip()]
        printed = [line.strip() for line in self._printed if line.strip()]
        last = (complained or printed or [""])[-1]
        died = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        said = f"the agent {died}" + (f": {last[:300]}" if last else " without a result" * self._is_stream)
        lines = [*complained, *printed]
        is_refusal = len(lines) <= _REFUSAL_LINES and not self._is_stream
        only = last if is_refusal and len(lines) == 1 else ""  # an error is all that the real one then prints
        known = meaning(self._errors, only, code=code, stderr="\n".join(complained) if is_refusal else "")
        return known._replace(why=said) if known else Meaning(Outcome.FAILED, said)


def blocks(event: Event) -> list[Event]:
    """The blocks of a message, whatever else it holds."""
    match event:
        case {"message": {"content": [*content]}}:
            return [block for block in content if isinstance(block, dict)]
    return []


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


def _encodable(text: str) -> str:
    """JSON can hold halves of characters; nothing else can."""
    return text.encode(errors="replace").decode()


def _event(line: bytes) -> Event | None:
    """The JSON event on this line, or None when it is something else."""
    if not line.startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event.get("type"), str) else None
