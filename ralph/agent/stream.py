"""Reads what the agent prints as it comes: what the agent does now, and at the end a Turn.

Only the agent's own error results are searched for words such as those of a usage limit. What a model says, what a
tool prints and what a file holds may contain the same words and mean nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ralph.agent.command import Agent
from ralph.agent.dialects import DIALECTS, Event
from ralph.agent.turn import Outcome, Turn
from ralph.process import signals
from ralph.process.supervisor import Ended
from ralph.words import shorten, without_control_codes

_RESULT_LENGTH = 20_000
"""Characters of the agent's result that are kept, from its end, where its claim is; the beginning says what it did."""
_TEXT_LENGTH = 2000
"""The same for an agent that prints no event stream: everything that it prints is text."""
_REFUSAL_LINES = 3
"""The most lines with which a real agent refuses to start; longer complaints are from a program that it ran."""
_WINDOW, _LARGE_WINDOW = 200_000, 1_000_000
"""Tokens that a model's context can hold, as long as no result has reported it."""
_RESET_AT_MOST_S = 8 * 86_400
"""The longest usage limit lasts seven days; a later time is not a reset time."""
_PROPOSAL = "ralph_mark_task_"
"""Part of the names of tools that report how a task ended; claude puts the name of their server in front."""
_ENDED_BY_RALPH = {
    Outcome.HUNG: "it was silent for longer than idle-timeout",
    Outcome.TROUBLE: "it got no answer for longer than idle-timeout, however often it asked",
    Outcome.TIMED_OUT: "it took longer than iteration-timeout",
    Outcome.OUT_OF_TIME: "max-time was over",
    Outcome.CONTEXT_FULL: "it used more of its context than max-context",
    Outcome.TOO_LONG: "it printed more than ralph records of one iteration",
}
_BOUNDS = {"error_max_turns": Outcome.OUT_OF_TURNS, "error_max_budget_usd": Outcome.OUT_OF_BUDGET}
"""Results with which the agent ends its own turn, at a limit it was given."""
_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOKENS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}


class Stream:
    """Reads an agent's output as it comes: JSON events of a real agent, or any other text.

    `show` gets each event after it is recorded here, which adds the `call` to a tool's result; `tell` gets each
    line of text. `windows` holds the context windows of models that results have reported, and is updated.
    """

    def __init__(self, show: Callable[[Event], None], tell: Callable[[str], None], windows: dict[str, int]) -> None:
        self._show, self._tell, self._windows = show, tell, windows
        self.running: dict[str, Event] = {}
        """The tool calls that have not ended, by id: blocks of the agent's messages, the newest last."""
        self.has_result = False
        """Whether the agent's result has come, and nothing has woken the agent since."""
        self.so_far = Turn()
        """What is known of the turn so far."""
        self.is_retrying = False
        """Whether the agent has repeated a request and nothing else has come since."""
        self.ended_by_ralph = False
        """Whether ralph has ended the agent: of what a real agent still prints, only the cost counts."""
        self.edited = dict[str, None]()
        """The files that its tools were asked to write."""
        self.words = ""
        """What the agent said last, apart from errors."""
        self._speaks: Callable[[Event, Event], Iterator[Event]] | None = None
        """The agent's dialect, known from its first event; None as long as it prints no event stream."""
        self._seen: Event = {}
        """What the dialect keeps of earlier events."""
        self._result: Event = {}
        self._error = ""
        self._calls_a_tool = False
        self._output, self._complaints = bytearray(), bytearray()
        self._printed = self._complained = ""
        """The end of the text that it prints on standard output, and on standard error."""

    def read_output(self, data: bytes) -> None:
        """Takes in the next bytes of the output."""
        for line in _whole_lines(self._output, data):
            try:
                event = json.loads(line)
                dialect = self._speaks or DIALECTS[event["type"]]
                for one in dialect(event, self._seen):
                    self._take_event(one)
                    self._show(one)
                self._speaks = dialect
            except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
                self._printed = self._decode_line(line, self._printed)
                self.words = self.words if self._speaks else self._printed

    def read_errors(self, data: bytes) -> None:
        """Takes in the next bytes of standard error, which are shown as text."""
        for line in _whole_lines(self._complaints, data):
            self._complained = self._decode_line(line, self._complained)

    def _decode_line(self, line: bytes, before: str) -> str:
        text = line.decode(errors="replace").rstrip("\r")
        self._tell(text)
        return shorten(f"{before}{text}\n", _TEXT_LENGTH, end=True)

    def is_context_full(self, most: float | None) -> bool:
        """Whether more than this part of the context is used, and interrupting the agent now loses nothing.

        That is when no tool runs and its answer begins to call one, so it wants to continue. claude does not report its
        cost if it is interrupted while it waits for the first byte of an answer (measured).
        """
        is_full = most is not None and (self.so_far.context or 0.0) > most
        return is_full and self._calls_a_tool and not self.running

    def finish(self) -> None:
        """Takes in a last line without a line break; nothing more comes after that."""
        if self._output:
            self.read_output(b"\n")
        if self._complaints:
            self.read_errors(b"\n")

    def to_turn(self, agent: Agent, ended: Ended, cut: Outcome | None, *, took_s: float, now: float) -> Turn:
        """Returns the finished turn; `cut` is the reason if ralph ended it, `now` the time in seconds since 1970."""
        self.finish()
        turn = self.so_far
        turn.outcome, why = self._find_outcome(agent, ended, cut)
        turn.why = without_control_codes(why)
        message = str(self._result.get("result") or "") if self._speaks else self._printed
        turn.final_words = without_control_codes(shorten(message.strip(), _RESULT_LENGTH, end=True))
        turn.at_least = bool(self._speaks) and not self.has_result
        if turn.outcome is not Outcome.LIMIT or not now < (turn.resets_at or 0) < now + _RESET_AT_MOST_S:
            turn.resets_at = None
        turn.took_s = took_s
        return turn

    def _take_event(self, event: Event) -> None:
        turn = self.so_far
        self.is_retrying = event.get("subtype") == "api_retry"
        if event["type"] in ("assistant", "user"):  # the call that it began has run, or is in `running`
            self.has_result = self._calls_a_tool = False
        for block in content_blocks(event):
            self._track_tool(block)
        if event.get("parent_tool_use_id"):  # a sub-agent has a context and a result of its own
            return
        match event:
            case {"type": "system", "subtype": "init"}:
                self.has_result = False
                turn.model = str(event.get("model") or "")
                turn.pays = str(event.get("apiKeySource") or "none").removeprefix("none")
            case {"type": "assistant", "message": message}:
                self._error = str(event.get("error") or "")
                self._measure_context(message)
                text = [str(block["text"]) for block in content_blocks(event) if block.get("type") == "text"]
                self.words = ("" if self._error else "\n".join(text)) or self.words
            case {"type": "stream_event", "event": {"message": message}}:
                self._measure_context(message)
            case {"type": "stream_event", "event": {"content_block": block}}:
                self._calls_a_tool = block["type"] == "tool_use"
            case {"type": "rate_limit_event", "rate_limit_info": {"status": status} as info}:
                turn.resets_at = int(info.get("resetsAt") or 0) if status == "rejected" else None
            case {"type": "result"}:
                self.has_result = True
                self._result = self._result if self.ended_by_ralph else event
                self._add_usage(event)

    def _track_tool(self, block: Event) -> None:
        call = str(block.get("id") or block.get("tool_use_id"))
        if block.get("type") == "tool_use":
            self.running[call] = block
            if block.get("name") != "Read" and (path := (block.get("input") or {}).get("file_path")):
                self.edited[str(path)] = None
        elif block.get("type") == "tool_result" and call in self.running and not self.ended_by_ralph:
            block["call"] = called = self.running.pop(call)
            if _PROPOSAL in str(called.get("name")) and not block.get("is_error"):
                self.so_far.proposal = called

    def _measure_context(self, message: Event) -> None:
        usage = message.get("usage") or {}
        if used := sum(usage.get(name) or 0 for name in _READ):
            usual = _LARGE_WINDOW if "[1m]" in self.so_far.model else _WINDOW
            self.so_far.context = used / self._windows.get(self.so_far.model, usual)

    def _add_usage(self, result: Event) -> None:
        cost, models = result.get("total_cost_usd"), result.get("modelUsage") or {}
        if isinstance(cost, int | float) and 0 <= cost < 1e9:  # with NaN no limit would ever be reached
            self.so_far.cost_usd = float(cost)
        tokens = Counter[str]()
        for model, used in models.items():
            tokens.update({name: used.get(theirs) or 0 for name, theirs in _TOKENS.items()})
            if window := used.get("contextWindow"):
                self._windows[model] = window
        self.so_far.tokens = dict(tokens) or self.so_far.tokens

    def _find_outcome(self, agent: Agent, ended: Ended, cut: Outcome | None) -> tuple[Outcome, str]:
        """Returns how the turn ended, and why, with the remedy if there is one."""
        if ended.survivors:
            return Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}"
        if cut is Outcome.INTERRUPTED:
            return cut, signals.describe_signal()
        if cut in _ENDED_BY_RALPH:
            return cut, _ENDED_BY_RALPH[cut]
        result = self._result
        if result.get("is_error"):  # `subtype` may well say success
            subtype = str(result.get("subtype"))
            why = str(result.get("result") or "; ".join(map(str, result.get("errors") or [])) or subtype)
            if subtype in _BOUNDS:
                return _BOUNDS[subtype], why
            rule = agent.rule(why, self._error, result.get("api_error_status"), code=ended.code)
        elif (ended.code == 0 or cut is Outcome.OK) and (result or not self._speaks):
            return Outcome.OK, ""
        else:
            lines = [line.strip() for line in (self._printed + self._complained).split("\n") if line.strip()]
            died = f"was killed by signal {-ended.code}" if ended.code < 0 else f"exited with {ended.code}"
            last = " after its result" if result else " without a result" * bool(self._speaks)
            last = f": {lines[-1][:300]}" if lines else last
            why, is_refusal = f"the agent {died}{last}", len(lines) <= _REFUSAL_LINES and not self._speaks
            message = "\n".join(lines) if is_refusal else ""
            rule = agent.rule(message, code=ended.code, stderr=message)
        if not rule:
            return Outcome.FAILED, why
        return rule.means, f"{why} ({rule.fix})" if rule.fix else why


def content_blocks(event: Event) -> list[Event]:
    """The blocks of an event's message; anything else in it is left out."""
    match event:
        case {"message": {"content": [*content]}}:
            return [block for block in content if isinstance(block, dict)]
    return []


def drop_stream_events(transcript: Path) -> None:
    """Removes the partial messages from a transcript, which also holds each message in full.

    claude prints each answer a second time this way if asked to (measured: 9 to 21 times as many bytes). Anyone who
    has the file open keeps reading the old one. Leaves the transcript alone if the disk is full.
    """
    short = transcript.with_suffix(".short")
    try:
        with transcript.open("rb") as lines, short.open("wb") as kept:
            kept.writelines(line for line in lines if not line.startswith(b'{"type":"stream_event",'))
        short.replace(transcript)
    except OSError:
        short.unlink(missing_ok=True)


def _whole_lines(rest: bytearray, data: bytes) -> list[bytes]:
    """Returns the lines that these bytes complete; an incomplete line stays in `rest`."""
    rest += data
    if b"\n" not in data:
        return []
    *lines, rest[:] = bytes(rest).split(b"\n")
    return lines
