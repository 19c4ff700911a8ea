"""The agent: what command it is, and what came of one turn, read from what it printed.

How the real one behaves was measured, with claude 2.1.197; tests/test_real_claude.py holds it to that.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ralph.errors import RalphError
from ralph.process import MARK, Ended, How
from ralph.settings import Settings
from ralph.turn import Outcome, Turn

Event = dict[str, Any]
_LINE_LIMIT = 64 << 20
"""Bytes after which a line without an end is let go; the longest real ones are a few megabytes."""


def is_claude(command: Sequence[str]) -> bool:
    """Whether this is the agent whose flags ralph knows."""
    return Path(command[0]).name == "claude"


def argv(settings: Settings, extra: Sequence[str]) -> list[str]:
    """The command line of the agent. Raises RalphError for settings it cannot honour."""
    if not is_claude(settings.agent):
        asked = [settings.said[name] for name in ("model", "effort", "max_turns") if name in settings.said]
        if asked:
            where = ", ".join(asked)
            raise RalphError(
                f"{where}: only claude understands this, and the agent is {settings.agent[0]}; leave it out"
            )
        return [*settings.agent, *extra]
    flags = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    for flag, value in (
        ("--model", settings.model),
        ("--effort", settings.effort),
        ("--max-turns", settings.max_turns),
    ):
        flags += [flag, str(value)] if value else []
    return [*settings.agent, *flags, *extra]


def check_there(command: Sequence[str]) -> None:
    """Raises RalphError with cause and remedy when there is no such program."""
    if shutil.which(command[0]):
        return
    if "/" in command[0]:
        path = Path(command[0])
        what = (
            "is not executable; chmod +x it" if path.is_file() else "is a folder" if path.is_dir() else "is not there"
        )
        raise RalphError(f"the agent {command[0]} {what}, or name another with --agent", 1)
    raise RalphError(
        f"{command[0]} is not on the PATH, which is {os.environ.get('PATH', '(unset)')}; "
        f"install it, or give its full path with --agent (cron has a short PATH)",
        1,
    )


def why_not_started(command: Sequence[str], error: OSError) -> str:
    """What the system's refusal to start it means, with the remedy."""
    said = f"the agent {command[0]} cannot be started: {error.strerror}"
    if error.errno == errno.ENOEXEC:
        return f"{said} (it is no program; a script begins with a line such as #!/bin/sh)"
    if error.errno == errno.ENOENT:
        return f"{said} (the program that its #! line names is not there)"
    return f"{said} (see --agent)"


def environment(base: Mapping[str, str], *, run: str, tmux: Path) -> dict[str, str]:
    """What the agent gets of the environment: no secrets of ralph's, no tmux of the person's, and its mark.

    A background `git gc` would outlive the iteration, so git does that in the foreground.
    """
    env = {name: value for name, value in base.items() if not name.startswith(("RALPH_", "TMUX"))}
    outer = base.get(MARK)
    env[MARK] = f"{outer}:{run}" if outer else run
    env["TMUX_TMPDIR"] = str(tmux)
    env["PWD"] = os.getcwd()  # noqa: PTH109 - a string is what is wanted
    count = int(env.get("GIT_CONFIG_COUNT") or 0)
    for key in ("gc.autoDetach", "maintenance.autoDetach"):
        env[f"GIT_CONFIG_KEY_{count}"], env[f"GIT_CONFIG_VALUE_{count}"] = key, "false"
        count += 1
    env["GIT_CONFIG_COUNT"] = str(count)
    return env


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

    The audience gets each event, and each line of text.
    """

    def __init__(self, audience: Audience) -> None:
        self._show, self._tell = audience.show, audience.tell
        self.quiet, self.ending = audience.quiet, audience.ending
        self._output, self._errors = Lines(), Lines()
        self._started = False
        self._waits = False
        self._over = False
        self._cost: float | None = None
        self._error = ""
        self._rejected: Event = {}
        self._result: Event | None = None
        self._last_text = ""

    def sees(self, data: bytes) -> None:
        """The next bytes of the output."""
        for line in self._output.cut(data):
            self._line(line)

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error, shown as text."""
        for line in self._errors.cut(data):
            self._tell(_text(line))

    def has_result(self) -> bool:
        """Whether its result is there and nothing has woken it since."""
        return self._waits

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
        self._last_text = _text(line).strip() or self._last_text
        self._tell(_text(line))

    def _note(self, event: Event) -> None:
        kind = event.get("type")
        self._started = True
        if kind == "result":
            cost = event.get("total_cost_usd")
            self._cost = float(cost) if isinstance(cost, int | float) else self._cost
            self._result, self._waits = self._result if self._over else event, True
        elif kind in ("assistant", "user") or (kind == "system" and event.get("subtype") == "init"):
            self._waits = False
        if kind == "assistant" and not event.get("parent_tool_use_id"):
            self._error = str(event.get("error") or "")
        if kind == "rate_limit_event":
            info = event.get("rate_limit_info")
            self._rejected = info if isinstance(info, dict) and info.get("status") == "rejected" else {}

    def turn(self, ended: Ended, took_s: float) -> Turn:
        """What it all came to."""
        for line in self._output.last():
            self._line(line)
        for line in self._errors.last():
            self._tell(_text(line))
        outcome, why = self._judged(ended)
        return Turn(
            outcome=outcome,
            why=why.encode(errors="replace").decode(),  # JSON can hold halves of characters; nothing else can
            cost_usd=self._cost,
            at_least=ended.shrunk or (self._started and not self._result),
            left_over=ended.left_over,
            took_s=took_s,
        )

    def _judged(self, ended: Ended) -> tuple[Outcome, str]:
        if ended.survivors:
            return Outcome.HOPELESS, f"could not be ended, end it by hand: {', '.join(ended.survivors)}"
        if ended.how is How.INTERRUPTED:
            return Outcome.INTERRUPTED, "it was interrupted"
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
        if status == 429 or self._error == "rate_limit":
            resets_at = self._resets_at()
            return Outcome.LIMIT, said + (
                time.strftime("; until %Y-%m-%d %H:%M", time.localtime(resets_at)) if resets_at else ""
            )
        if result.get("subtype") == "error_max_turns":
            return Outcome.OUT_OF_TURNS, said
        for kinds, codes, remedy in _HOPELESS:
            if self._error in kinds or status in codes:
                return Outcome.HOPELESS, f"{said} ({remedy})"
        return Outcome.FAILED, said

    def _resets_at(self) -> int | None:
        """When the limit ends, in seconds since 1970; None when that is unknown, past or more than 8 days away."""
        resets = self._rejected.get("resetsAt")
        now = int(time.time())
        return resets if isinstance(resets, int) and now < resets < now + 8 * 86400 else None

    def _without_result(self, code: int, errors: str) -> tuple[Outcome, str]:
        last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "") or self._last_text
        died = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        said = f"the agent {died}" + (f": {last[:300]}" if last else "")
        if self._result is not None:
            return Outcome.FAILED, said + " after its result"
        if self._started:
            return Outcome.FAILED, said + ("" if last else " without a result")
        for pattern, remedy in _REFUSALS:
            if re.search(pattern, errors):
                return Outcome.HOPELESS, f"{said} ({remedy})"
        if code in (126, 127) and not self._last_text:
            return Outcome.HOPELESS, f"{said} (the agent's command cannot be started; see --agent)"
        return Outcome.FAILED, said


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
