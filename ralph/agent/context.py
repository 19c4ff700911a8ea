"""How much of the model's context is used, and when there is a good moment to end the agent for that."""

from typing import Any

Event = dict[str, Any]
_WINDOW, _LARGE_WINDOW = 200_000, 1_000_000
"""Tokens that a model's context takes, as long as no result has said it."""


class Context:
    """Follows the events of one agent, but for those of its sub-agents, which have contexts of their own.

    `windows` has the context windows of models as results have told them, and learns; `most` is the part of one that
    may be used.
    """

    def __init__(self, windows: dict[str, int], most: float | None) -> None:
        self._windows = windows
        self._most = most
        self._model = ""
        self._tools: set[str] = set()
        self._answers_in_parts = self._good_moment = False
        self.used: float | None = None
        """The part that its last answer took."""

    def has_enough(self) -> bool:
        """Whether more is used than may be, and nothing is lost when the agent is interrupted now.

        No tool runs, and it wants to go on. The real one does not report its cost when it is interrupted while it waits
        for an answer's first byte (measured); so where answers come in parts, the moment is when one begins to call a
        tool.
        """
        return self._most is not None and (self.used or 0.0) > self._most and self._good_moment and not self._tools

    def note(self, event: Event) -> None:
        """The next event; raises one of the errors of looking things up when it is not as expected."""
        kind = event["type"]
        if event.get("parent_tool_use_id"):
            return
        if kind == "system" and event.get("subtype") == "init":
            self._model = str(event.get("model") or "")
        elif kind == "assistant":
            self._weigh(event["message"])
            self._tools |= _named(event, "tool_use", "id")
            self._good_moment = False
        elif kind == "user":
            self._tools -= _named(event, "tool_result", "tool_use_id")
            self._good_moment = not self._answers_in_parts
        elif kind == "stream_event":
            self._part(event["event"])
        elif kind == "result":
            models = (event.get("modelUsage") or {}).items()
            self._windows.update({name: one["contextWindow"] for name, one in models if one.get("contextWindow")})

    def _part(self, part: Event) -> None:
        self._answers_in_parts = True
        if part["type"] == "message_start":
            self._weigh(part["message"])
        elif part["type"] == "content_block_start":
            self._good_moment = part["content_block"]["type"] == "tool_use"

    def _weigh(self, message: Event) -> None:
        usage = message.get("usage") or {}
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        used = sum(count for name in names if isinstance(count := usage.get(name), int))
        self.used = used / self._window() if used else self.used

    def _window(self) -> int:
        return self._windows.get(self._model) or (_LARGE_WINDOW if "[1m]" in self._model else _WINDOW)


def _named(event: Event, kind: str, name: str) -> set[str]:
    """That field of all blocks of that kind."""
    content = event["message"].get("content")
    blocks = content if isinstance(content, list) else []
    return {str(block.get(name)) for block in blocks if isinstance(block, dict) and block.get("type") == kind}
