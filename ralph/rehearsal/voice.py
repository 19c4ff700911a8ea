"""What the stand-in agent says, as the events of the real agent's JSON stream."""

import json
import os
import time
import uuid
from typing import Any

from ralph.process import signals


class Voice:
    """Prints each thing as it happens, at a pace that a person can follow. A signal ends it between two things."""

    def __init__(self, pace_s: float) -> None:
        self._pace_s = pace_s
        self._session = str(uuid.uuid4())
        self._began = time.monotonic()
        self._calls = 0
        self._print(
            {
                "type": "system",
                "subtype": "init",
                "cwd": os.getcwd(),  # noqa: PTH109 - a string is what is wanted
                "tools": ["Bash", "Edit", "Read", "Write"],
                "mcp_servers": [],
                "model": "stand-in",
                "permissionMode": "bypassPermissions",
                "apiKeySource": "none",
            }
        )

    def says(self, text: str) -> None:
        """Words for the person."""
        self._message("assistant", {"type": "text", "text": text})

    def calls(self, tool: str, **arguments: str) -> None:
        """A tool that is used now."""
        self._calls += 1
        block = {"type": "tool_use", "id": f"toolu_{self._calls}", "name": tool, "input": arguments}
        self._message("assistant", block)

    def got(self, text: str, *, is_error: bool = False) -> None:
        """What the tool called last came back with."""
        block = {"type": "tool_result", "tool_use_id": f"toolu_{self._calls}", "content": text, "is_error": is_error}
        self._message("user", block)

    def result(self, text: str, *, is_error: bool = False) -> None:
        """The last event."""
        self._print(
            {
                "type": "result",
                "subtype": "error_during_execution" if is_error else "success",
                "is_error": is_error,
                "duration_ms": round(1000 * (time.monotonic() - self._began)),
                "num_turns": self._calls + 1,
                "result": text,
                "total_cost_usd": 0.0,
                "usage": {"input_tokens": 0, "output_tokens": 0},
                "modelUsage": {},
                "permission_denials": [],
            }
        )

    def _message(self, role: str, block: dict[str, Any]) -> None:
        message = {"role": role, "content": [block]}
        self._print({"type": role, "message": message, "parent_tool_use_id": None})
        if block["type"] != "tool_use":
            signals.pause(self._pace_s)

    def _print(self, event: dict[str, Any]) -> None:
        print(json.dumps({**event, "session_id": self._session}), flush=True)
        if (number := signals.interrupted()) is not None:
            signals.die_by(number)
