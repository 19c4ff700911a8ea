"""Dialects: translate what other agents print into the events that claude prints, which ralph uses too.

A dialect gets an event and what it has kept of earlier ones, and yields the same as `system` events (`init`,
`api_retry`), messages of `assistant` and `user` with their blocks, and a `result` at the end. A stream's first event
tells its dialect. Measured with codex 0.169.0, gemini 0.61.0 and opencode 1.18.33.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Event = dict[str, Any]

_NAMES = {
    "command_execution": "Bash",
    "run_shell_command": "Bash",
    "bash": "Bash",
    "file_change": "Edit",
    "replace": "Edit",
    "edit": "Edit",
    "read_file": "Read",
    "read": "Read",
}
"""claude's names for other agents' tools, so that all are shown alike."""


def _message(speaker: str, **block: object) -> Event:
    return {"type": speaker, "message": {"content": [block]}}


def _speech(text: str, seen: Event) -> Event:
    seen["said"] = text
    return _message("assistant", type="text", text=text)


def _tool_call(call: str, tool: str, arguments: object) -> Event:
    return _message("assistant", type="tool_use", id=call, name=_NAMES.get(tool, tool), input=arguments)


def _tool_result(call: str, output: str | None, *, failed: bool) -> Event:
    return _message("user", type="tool_result", tool_use_id=call, content=output, is_error=failed)


def _result(seen: Event, tokens: Mapping[str, int], *, error: str = "", status: int | None = None) -> Event:
    """Returns the `result` event; `tokens` are those of all models, and a cost of zero counts as unknown."""
    ended: Event = {"type": "result", "modelUsage": {"": tokens}, "total_cost_usd": seen.get("cost") or None}
    if error:
        return {**ended, "is_error": True, "errors": [error], "api_error_status": status}
    return {**ended, "result": seen.get("said")}


def codex(event: Event, seen: Event) -> Iterator[Event]:
    """`codex exec --json`: a thread of items, some reported when they begin and again when they end."""
    kind, item = event["type"], event.get("item", {})
    if item.get("type") == "agent_message":
        yield _speech(item["text"], seen)
    elif item and item["type"] not in ("error", "reasoning", "todo_list"):
        call = item["id"]
        if call not in seen:
            seen[call] = item
            if "command" in item:
                item["command"] = item["command"].removeprefix("/bin/bash -lc ").strip("'\"")
            if "changes" in item:
                item["file_path"] = item["changes"][0]["path"]
            yield _tool_call(call, item["type"], item)
        if kind == "item.completed":
            yield _tool_result(call, item.get("aggregated_output"), failed=item.get("status") == "failed")
    elif kind == "error" and event["message"].startswith("Reconnecting"):
        yield {"type": "system", "subtype": "api_retry", "error": event["message"]}
    elif kind in ("turn.completed", "turn.failed"):
        usage = Counter[str](event.get("usage"))
        tokens = {
            "inputTokens": usage["input_tokens"] - usage["cached_input_tokens"],  # the input includes them
            "cacheReadInputTokens": usage["cached_input_tokens"],
            "cacheCreationInputTokens": usage["cache_write_input_tokens"],
            "outputTokens": usage["output_tokens"],
        }
        yield _result(seen, tokens, error=event.get("error", {}).get("message", ""))


def gemini(event: Event, seen: Event) -> Iterator[Event]:
    """`gemini -o stream-json`: messages come in pieces; a success after an error event is not a success."""
    kind = event["type"]
    if kind == "message" and event["role"] == "assistant":
        seen["words"] = seen.get("words", "") + event["content"]
    elif words := seen.pop("words", ""):
        yield _speech(words, seen)
    if kind == "init":
        yield {"type": "system", "subtype": "init", "model": event["model"]}
    elif kind == "tool_use":
        yield _tool_call(event["tool_id"], event["tool_name"], event["parameters"])
    elif kind == "tool_result":
        yield _tool_result(event["tool_id"], event.get("output"), failed=event["status"] == "error")
    elif kind == "error":
        seen["error"] = event["message"]
    elif kind == "result":
        stats = event["stats"]
        tokens = {
            "inputTokens": stats["input_tokens"] - stats["cached"],  # the input includes them
            "cacheReadInputTokens": stats["cached"],
            "outputTokens": stats["total_tokens"] - stats["input_tokens"],  # thoughts included
        }
        yield _result(seen, tokens, error=event.get("error", {}).get("message") or seen.get("error", ""))


def opencode(event: Event, seen: Event) -> Iterator[Event]:
    """`opencode run --format json`: steps, each with its cost; a tool call is reported when it has ended."""
    kind, part = event["type"], event.get("part", {})
    tokens = seen.setdefault("tokens", Counter[str]())
    if kind == "text":
        yield _speech(part["text"], seen)
    elif kind == "tool_use":
        call, state = part["callID"], part["state"]
        yield _tool_call(call, part["tool"], state["input"])
        failed = state["status"] == "error" or state.get("metadata", {}).get("exit")
        yield _tool_result(call, state.get("error") or state.get("output"), failed=failed)
    elif kind == "step_finish":
        used = part["tokens"]
        tokens.update(
            inputTokens=used["input"],
            outputTokens=used["output"] + used["reasoning"],
            cacheReadInputTokens=used["cache"]["read"],
            cacheCreationInputTokens=used["cache"]["write"],
        )
        seen["cost"] = seen.get("cost", 0.0) + part["cost"]
        if part["reason"] != "tool-calls":
            yield _result(seen, tokens)
    elif kind == "error":
        error = event["error"]
        data = error.get("data", {})
        yield _result(seen, tokens, error=data.get("message") or error["name"], status=data.get("statusCode"))


def claude(event: Event, _seen: Event) -> Iterator[Event]:
    """`claude -p --output-format stream-json`, unchanged."""
    yield event


DIALECTS = dict.fromkeys(("system", "assistant", "result"), claude) | {
    "thread.started": codex,
    "init": gemini,
    "step_start": opencode,
    "error": opencode,
}
"""The dialect of a stream, by the type of its first event; any other line before that is text."""
