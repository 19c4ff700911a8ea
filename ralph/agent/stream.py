"""What the agent prints, read as it comes: a Turn in the end.

Only the agent's own error results are looked at for words such as those of a usage limit. What a model says, what a
tool prints and what a file holds may contain the same words and mean nothing.
"""

import contextlib
import json
import re
import time
from collections import deque
from typing import Any, Protocol

from ralph.agent import errors
from ralph.agent.context import Context
from ralph.agent.turn import Outcome, Tokens, Turn
from ralph.process import Ended, How

Event = dict[str, Any]
_LINE_LIMIT = 64 << 20
"""Bytes after which a line without an end is let go; the longest real ones are a few megabytes."""
_LAST_WORDS = 20_000
"""Characters of the agent's result that are kept; what it claims stands at the end, what it did at the beginning."""
_LAST_LINES = 100
_LAST_LINES_LENGTH = 2000
"""The same for an agent that prints no stream: everything that it prints comes here."""
_REFUSAL_LINES = 3
"""The real agent refuses to start in so many lines at most; longer complaints are a program's that it ran."""
_CUT_TO_MINUTES_S = 59
"""The agent's words leave the seconds out; asked too early it would name a time that is past."""


class Audience(Protocol):
    """Who is shown what an agent says and does."""

    def show(self, event: Event) -> None:
        """An event of its stream."""

    def tell(self, line: str) -> None:
        """A line of text."""

    def quiet(self) -> None:
        """Nothing came for a moment."""

    def ending(self) -> None:
        """It is being ended, because somebody asked ralph to stop."""


class Lines:
    """Cuts bytes that come in pieces into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        first, *more = data.split(b"\n")
        self._rest += first
        if not more:
            if len(self._rest) > _LINE_LIMIT:
                self._rest.clear()
            return []
        lines = [bytes(self._rest), *more[:-1]]
        self._rest = bytearray(more[-1])
        return lines

    def last(self) -> list[bytes]:
        """What came without a line end, when nothing more comes."""
        return self.cut(b"\n") if self._rest else []


class Stream:
    """Reads an agent's output as it comes: JSON events of the real one, or any other text.

    The audience gets each event, and each line of text. `windows` and `max_context` are for Context.
    """

    def __init__(
        self, audience: Audience, windows: dict[str, int] | None = None, max_context: float | None = None
    ) -> None:
        self._show, self._tell = audience.show, audience.tell
        self.quiet, self.ending = audience.quiet, audience.ending
        self._context = Context({} if windows is None else windows, max_context)
        self._output, self._errors = Lines(), Lines()
        self._started = False
        self._waits = False
        self._over = False
        self._reported = False
        self._cost: float | None = None
        self._tokens: Tokens | None = None
        self._model = self._pays = ""
        self._error = ""
        self._rejected: Event = {}
        self._result: Event | None = None
        self._last_text = ""
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._texts = 0

    def sees(self, data: bytes) -> None:
        """The next bytes of the output."""
        for line in self._output.cut(data):
            self._line(line)

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error, shown as text."""
        for line in self._errors.cut(data):
            self._complaint(line)

    def _complaint(self, line: bytes) -> None:
        self._texts += bool(line.strip())
        self._tell(_text(line))

    def has_result(self) -> bool:
        """Whether its result is there and nothing has woken it since."""
        return self._waits

    def has_enough(self) -> bool:
        """Whether more of the context is used than may be, and this is a good moment to end it."""
        return self._context.has_enough()

    def over(self) -> None:
        """From here on only its cost still counts: ended from outside, the real one adds an error result."""
        self._over = True

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
            self._last_lines.append(_end(text, _LAST_LINES_LENGTH))
        self._tell(text)

    def _note(self, event: Event) -> None:
        kind = event["type"]
        self._started = True
        if kind == "result":
            if not event.get("parent_tool_use_id"):
                self._note_result(event)
        elif kind in ("assistant", "user"):
            self._waits = False
            if kind == "assistant" and not event.get("parent_tool_use_id"):
                self._error = str(event.get("error") or "")
        elif kind == "system" and event.get("subtype") == "init":
            self._waits = False
            self._model = str(event.get("model") or "")
            self._pays = str(event.get("apiKeySource") or "none").removeprefix("none")
        elif kind == "rate_limit_event":
            info = event.get("rate_limit_info")
            self._rejected = info if isinstance(info, dict) and info.get("status") == "rejected" else {}
        self._context.note(event)

    def _note_result(self, event: Event) -> None:
        cost = event.get("total_cost_usd")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
            self._cost = float(cost)
        self._result, self._waits = self._result if self._over else event, True
        self._reported = True
        models: dict[str, Event] = event.get("modelUsage") or {}
        if not models:
            return
        used = list(models.values())
        self._tokens = Tokens(
            input=_sum(used, "inputTokens"),
            output=_sum(used, "outputTokens"),
            cache_read=_sum(used, "cacheReadInputTokens"),
            cache_write=_sum(used, "cacheCreationInputTokens"),
        )

    def finish(self) -> None:
        """Nothing more comes: a last line without an end is one too."""
        for line in self._output.last():
            self._line(line)
        for line in self._errors.last():
            self._complaint(line)

    def turn(self, ended: Ended, took_s: float) -> Turn:
        """What it all came to."""
        self.finish()
        outcome, why = self._judged(ended)
        return Turn(
            outcome=outcome,
            why=_whole(why),
            said=_whole(self._said()),
            cost_usd=self._cost,
            at_least=ended.shrunk or (self._started and not self._reported),
            tokens=self._tokens,
            model=self._model,
            pays=self._pays,
            context=self._context.used,
            resets_at=self._resets_at(why) if outcome is Outcome.LIMIT else None,
            left_over=ended.left_over,
            took_s=took_s,
        )

    def _said(self) -> str:
        """Its last words: the result of its stream and nothing before it; the last lines where there is no stream."""
        if not self._started:
            return _end("\n".join(self._last_lines).strip(), _LAST_LINES_LENGTH)
        return _end(str((self._result or {}).get("result") or "").strip(), _LAST_WORDS)

    def _judged(self, ended: Ended) -> tuple[Outcome, str]:
        if ended.survivors:
            return Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}"
        if ended.how in _ENDED_BY_RALPH:
            return _ENDED_BY_RALPH[ended.how]
        if self._result is not None and self._result.get("is_error"):
            return self._result_error(self._result)
        if ended.shrunk:
            return Outcome.FAILED, "the record of what the agent said was cut short while it ran"
        if self._result is not None and (ended.code == 0 or ended.how is How.ENDED_AFTER_RESULT):
            return Outcome.OK, ""
        if ended.code == 0 and not self._started:
            return Outcome.OK, ""
        return self._without_result(ended.code, ended.complaints.decode(errors="replace"))

    def _result_error(self, result: Event) -> tuple[Outcome, str]:
        """An error the agent reported itself; `subtype` may well say success."""
        said = str(result.get("result") or _joined(result.get("errors")) or result.get("subtype"))
        status = result.get("api_error_status")
        if (subtype := str(result.get("subtype"))) in _BOUNDS:
            return _BOUNDS[subtype], said
        for kinds, codes, remedy in _HOPELESS:
            if self._error in kinds or status in codes:
                return Outcome.HOPELESS, f"{said} ({remedy})"
        if known := _known(said, sure=status == 429 or self._error == "rate_limit"):
            return known
        if self._error in ("server_error", "overloaded") or (isinstance(status, int) and status >= 500):
            return Outcome.TROUBLE, said
        return Outcome.FAILED, said

    def _resets_at(self, said: str) -> int | None:
        """When the limit ends, in seconds since 1970; None when that is unknown, past or more than 8 days away."""
        stated, now = self._rejected.get("resetsAt"), time.time()
        if isinstance(stated, int | float) and now < stated < now + 8 * 86400:
            return int(stated)
        minute = errors.resets_at(said, now)
        return None if minute is None else minute + _CUT_TO_MINUTES_S

    def _without_result(self, code: int, errors: str) -> tuple[Outcome, str]:
        last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "") or self._last_text
        died = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        said = f"the agent {died}" + (f": {last[:300]}" if last else "")
        if self._result is not None:
            return Outcome.FAILED, said + " after its result"
        if self._started:
            return Outcome.FAILED, said + ("" if last else " without a result")
        for pattern, remedy in _REFUSALS if self._texts <= _REFUSAL_LINES else ():
            if re.search(pattern, errors):
                return Outcome.HOPELESS, f"{said} ({remedy})"
        if code in (126, 127) and not self._last_text:
            return Outcome.HOPELESS, f"{said} (the agent's command cannot be started; see --agent)"
        # Without a stream an error is all that the real one prints.
        known = _known(last) if self._texts <= 1 else None
        return known or (Outcome.FAILED, said)


def _known(said: str, *, sure: bool = False) -> tuple[Outcome, str] | None:
    """What an error in the agent's own words means; `sure` that it speaks of a limit."""
    if errors.needs_person(said):
        return Outcome.HOPELESS, f"{said} (no waiting mends this: add credit, or ask who pays)"
    if errors.is_passing(said):
        return Outcome.TROUBLE, said
    return (Outcome.LIMIT, said) if sure or errors.is_limit(said) else None


_ENDED_BY_RALPH = {
    How.INTERRUPTED: (Outcome.INTERRUPTED, "it was interrupted"),
    How.SILENT: (Outcome.HUNG, "it was silent for longer than idle-timeout"),
    How.TOO_SLOW: (Outcome.TIMED_OUT, "it took longer than iteration-timeout"),
    How.OUT_OF_TIME: (Outcome.OUT_OF_TIME, "max-time was over"),
    How.ENOUGH: (Outcome.CONTEXT_FULL, "it used more of its context than max-context"),
    How.TOO_LONG: (Outcome.TOO_LONG, "it printed more than ralph records of one iteration"),
}
"""What it means that ralph ended the agent."""

_BOUNDS = {"error_max_turns": Outcome.OUT_OF_TURNS, "error_max_budget_usd": Outcome.OUT_OF_BUDGET}
"""Results with which the agent ends itself, because it was told to."""

_HOPELESS: tuple[tuple[tuple[str, ...], tuple[int, ...], str], ...] = (
    (("authentication_failed", "oauth_org_not_allowed"), (401, 403), "log in by starting claude once, or mend the key"),
    (("billing_error",), (402,), "add credit, or log in with another account"),
    (("model_not_found",), (404,), "choose another --model"),
)
"""Errors that no waiting mends, by the `error` of the agent's last message and by HTTP status."""

_REFUSALS = (
    (r"cannot be used with root", "run as an ordinary user, or in a container set IS_SANDBOX=1"),
    (r"cannot be launched inside another Claude Code session", "unset CLAUDECODE"),
    (
        r"error: unknown option|Invalid MCP configuration|Settings file not found|is not valid JSON",
        "see the arguments after --",
    ),
    (r"requires --verbose|Session ID .* already in use|No conversation found", "see the arguments after --"),
)
"""What the real agent writes to standard error when it refuses to start at all."""


def _sum(counts: list[Event], *names: str) -> int:
    return sum(value for one in counts for name in names if isinstance(value := one.get(name), int))


def _whole(text: str) -> str:
    """JSON can hold halves of characters; nothing else can."""
    return text.encode(errors="replace").decode()


def _end(text: str, length: int) -> str:
    """So many characters of it; the cut is seen, since a line without its beginning may mean something else."""
    return text if len(text) <= length else "…" + text[1 - length :]


def _joined(errors: object) -> str:
    return "; ".join(map(str, errors)) if isinstance(errors, list) else str(errors or "")


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
