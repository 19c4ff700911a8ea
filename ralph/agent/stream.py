"""Reads what the agent prints as it comes: what the agent does now, and at the end a Turn.

Only the agent's own error results are searched for words such as those of a usage limit. What a model says, what a
tool prints and what a file holds may contain the same words and mean nothing.
"""

import json
from collections.abc import Callable

from ralph.agent.command import Agent
from ralph.agent.dialects import DIALECTS, Dialect, Event
from ralph.agent.turn import Outcome, Turn
from ralph.process import signals
from ralph.process.supervisor import Ended
from ralph.words import shorten, without_control_codes

# Characters of the agent's result that are kept, from its end, where its claim is; the beginning says what it did.
_RESULT_LENGTH = 20_000
# The same for an agent that prints no event stream: everything that it prints is text.
_TEXT_LENGTH = 2000
# The most lines with which a real agent refuses to start; longer complaints are from a program that it ran.
_REFUSAL_LINES = 3
# Tokens that a model's context can hold, as long as no result has reported it.
_WINDOW, _LARGE_WINDOW = 200_000, 1_000_000
# The longest usage limit lasts seven days; a later time is not a reset time.
_RESET_AT_MOST_S = 8 * 86_400
# Part of the names of tools that report how a task ended; claude puts the name of their server in front.
_PROPOSAL = "ralph_mark_task_"
# Why ralph ended the agent; empty if a signal asked for it.
_ENDED_BY_RALPH = {
    Outcome.INTERRUPTED: "",
    Outcome.HUNG: "it was silent for longer than idle-timeout",
    Outcome.TROUBLE: "it got no answer for longer than idle-timeout, however often it asked",
    Outcome.TIMED_OUT: "it took longer than iteration-timeout",
    Outcome.OUT_OF_TIME: "max-time was over",
    Outcome.CONTEXT_FULL: "it used more of its context than max-context",
    Outcome.TOO_LONG: "it printed more than ralph records of one iteration",
}
_SIGNS_OF_WORK = ("init", "text", "thinking", "tool_use", "tool_result")
# The context windows of models, as results have reported them.
_windows = dict[str, int]()


class OutputReader:
    """Reads an agent's output as it comes: JSON events of a real agent, or any other text.

    `show` gets each event after it is recorded here, which adds the `call` to a tool's result; a line of text is an
    event of the type `line`.
    """

    def __init__(self, show: Callable[[Event], None]):
        self._show = show
        self.running = dict[str, Event]()
        """The tool calls that have not ended, by id, the newest last."""
        self.result: Event = {}
        """The agent's result, if it has come and nothing has woken the agent since."""
        self.so_far = Turn()
        """What is known of the turn so far."""
        self.retry = ""
        """Why the agent repeats a request, if nothing else has come since."""
        self.ended_by_ralph = False
        """Whether ralph has ended the agent: of what a real agent still prints, only the cost counts."""
        self.edited = dict[str, None]()
        """The files that its tools were asked to write."""
        self.words = ""
        """What the agent said last, apart from errors."""
        self.dialect: Dialect | None = None
        """The agent's dialect, known from its first event; None as long as it prints no event stream."""
        # What the dialect keeps of earlier events.
        self._seen: Event = {}
        self._error = ""
        self._calls_a_tool = False
        # What each of them has of a line that is not complete yet.
        self._output = self._complaints = b""
        # The end of the text that it prints on standard output, and on standard error.
        self._printed = self._complained = ""

    def read_output(self, output: bytes, complaints: bytes = b"") -> None:
        """Takes in the next bytes of standard output, and of standard error, which are shown as text."""
        *lines, self._output = (self._output + output).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
                dialect = self.dialect or DIALECTS[event["type"]]
                for one in dialect(event, self._seen):
                    self._record_event(one)
                    self._show(one)
                self.dialect = dialect
            except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
                self._printed = self._show_and_append_line(line, self._printed)
                if not self.dialect:
                    self.words = self._printed
        *lines, self._complaints = (self._complaints + complaints).split(b"\n")
        for line in lines:
            self._complained = self._show_and_append_line(line, self._complained)

    def _show_and_append_line(self, line: bytes, earlier_text: str) -> str:
        """Shows a line, and returns the end of the text with it."""
        text = line.decode(errors="replace").rstrip("\r")
        self._show({"type": "line", "text": text})
        return shorten(f"{earlier_text}{text}\n", _TEXT_LENGTH, end=True)

    def is_time_to_cut(self, max_context: float | None) -> bool:
        """Whether more than this part of the context is used, and interrupting the agent now loses nothing.

        That is when no tool runs and its answer begins to call one, so it wants to continue. claude does not report its
        cost if it is interrupted while it waits for the first byte of an answer (measured).
        """
        return max_context is not None and self.so_far.context > max_context and self._calls_a_tool and not self.running

    def read_last_line(self) -> None:
        """Takes in a last line without a line break; nothing more comes after that."""
        self.read_output(b"\n" * bool(self._output), b"\n" * bool(self._complaints))

    def to_turn(self, agent: Agent, ended: Ended, cut: Outcome | None, now: float) -> Turn:
        """Returns the finished turn; `cut` is the reason if ralph ended it, `now` the time in seconds since 1970."""
        self.read_last_line()
        turn = self.so_far
        turn.outcome, why = self._find_outcome(agent, ended, cut)
        turn.why = without_control_codes(why)
        message = str(self.result.get("result") or "") if self.dialect else self._printed
        turn.final_words = without_control_codes(shorten(message.strip(), _RESULT_LENGTH, end=True))
        if turn.outcome is not Outcome.LIMIT or not now < turn.resets_at < now + _RESET_AT_MOST_S:
            turn.resets_at = 0
        return turn

    def _record_event(self, event: Event) -> None:
        turn, kind = self.so_far, event["type"]
        self.retry = event["text"] if kind == "retry" else ""
        if used := event.get("context_tokens"):
            turn.context = used / _windows.get(turn.model, _LARGE_WINDOW if "[1m]" in turn.model else _WINDOW)
        if kind in _SIGNS_OF_WORK and not self.ended_by_ralph:
            self.result, self._calls_a_tool, turn.at_least = {}, False, True
            self._record_words_and_tool_calls(event, kind)
        elif kind == "content_block_start":
            self._calls_a_tool = event["content_block"]["type"] == "tool_use"  # until it has run, or is in `running`
        elif kind == "rate_limit_event":
            limit = event["rate_limit_info"]
            turn.resets_at = int(limit.get("resetsAt") or 0) if limit["status"] == "rejected" else 0
        elif kind == "result":
            turn.at_least = False
            if not self.ended_by_ralph:
                self.result = event if event.get("is_error") else {"result": self.words, **event}
            cost = event.get("total_cost_usd")
            if isinstance(cost, int | float) and 0 <= cost < 1e9:  # with NaN no limit would ever be reached
                turn.cost_usd = float(cost)
            turn.tokens = event["tokens"]
            for model, used in (event.get("modelUsage") or {}).items():
                _windows[model] = used.get("contextWindow", _WINDOW)

    def _record_words_and_tool_calls(self, event: Event, kind: str) -> None:
        turn, parent = self.so_far, event.get("parent")
        if not parent:
            self._error = str(event.get("error") or "")
        if kind == "init":
            turn.model = str(event.get("model") or "")
        elif kind == "text" and not (parent or self._error):
            self.words = str(event["text"])
        elif kind == "tool_use":
            self.running[event["id"]] = event
            if event.get("name") != "Read" and (path := (event.get("input") or {}).get("file_path")):
                self.edited[str(path)] = None
        elif kind == "tool_result" and (called := self.running.pop(event["tool_use_id"], None)):
            event["call"] = called
            if _PROPOSAL in str(called.get("name")) and not event.get("is_error"):
                turn.proposal = called

    def _find_outcome(self, agent: Agent, ended: Ended, cut: Outcome | None) -> tuple[Outcome, str]:
        """Returns how the turn ended, and why, with the remedy if there is one."""
        result = self.result
        if ended.survivors:
            return Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}"
        if cut in _ENDED_BY_RALPH:
            return cut, _ENDED_BY_RALPH[cut] or signals.describe_signal()
        if result.get("is_error"):  # `subtype` may well say success
            subtype = str(result.get("subtype"))
            why = str(result.get("result") or "; ".join(map(str, result.get("errors") or [])) or subtype)
            rule = agent.rule(why, self._error or subtype, result.get("api_error_status"), code=ended.code)
        elif (ended.code == 0 or cut is Outcome.OK) and (result or not self.dialect):
            return Outcome.OK, ""
        else:
            lines = [line.strip() for line in (self._printed + self._complained).split("\n") if line.strip()]
            died = f"was killed by signal {-ended.code}" if ended.code < 0 else f"exited with {ended.code}"
            last = " after its result" if result else " without a result" * bool(self.dialect)
            why = f"the agent {died}{f': {lines[-1][:300]}' if lines else last}"
            message = "" if self.dialect or len(lines) > _REFUSAL_LINES else "\n".join(lines)
            rule = agent.rule(message, code=ended.code, stderr=message)
        return rule.means, f"{why} ({rule.fix})" if rule.fix else why
