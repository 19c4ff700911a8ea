"""Dialects: translate what agents print into ralph's own events, which are alike for all agents.

A dialect gets an object that an agent printed, and what the dialect has kept of earlier ones. It yields `init`, `text`,
`tool_use`, `tool_result` and `retry`, and a `result` at the end; claude's also others. Their other names are claude's,
but `text` is what there is to read, and `parent` the call of a sub-agent. A stream's first object tells its dialect.
Measured with codex 0.169.0, gemini 0.61.0 and opencode 1.18.33.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Event = dict[str, Any]
Dialect = Callable[[Event, Event], Iterator[Event]]

# claude's names for other agents' tools, so that all are shown alike.
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
_TOKENS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}
_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _tool_use(call: str, tool: str, arguments: object) -> Event:
    return {"type": "tool_use", "id": call, "name": _NAMES.get(tool, tool), "input": arguments}


def _tool_result(call: str, output: str | None, *, failed: bool) -> Event:
    return {"type": "tool_result", "tool_use_id": call, "text": output, "is_error": failed}


def _result(error: str = "", *, cost: float | None = None, status: int | None = None, **tokens: int) -> Event:
    """Returns the `result` event; the tokens are those of all models, and a cost of zero counts as unknown."""
    ended = {"type": "result", "tokens": tokens, "total_cost_usd": cost or None}
    return ended | {"is_error": True, "errors": [error], "api_error_status": status} if error else ended


def claude(event: Event, _seen: Event) -> Iterator[Event]:
    """`claude -p --output-format stream-json`: messages of several blocks, also those of sub-agents."""
    kind, parent = event["type"], event.get("parent_tool_use_id")
    if kind == "stream_event":  # `message_start`, `content_block_start`, and more
        event = event["event"]
    message = event.get("message") or {}
    usage = {} if parent else message.get("usage") or {}  # a sub-agent has a context and a result of its own
    about = {"parent": parent, "context_tokens": sum(usage.get(name) or 0 for name in _READ)}
    if kind in ("assistant", "user"):
        for block in message.get("content") or ():
            if isinstance(block, dict) and (kind == "assistant" or block.get("type") == "tool_result"):
                text = block.get("thinking") or block.get("content") or ""  # a thought, or a tool's answer
                if isinstance(text, list):
                    text = "\n".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
                yield {"text": str(text), **block, **about, "error": event.get("error")}
    elif event.get("subtype") == "api_retry":
        attempt = f"attempt {event.get('attempt')} of {event.get('max_retries')}"
        yield {"type": "retry", "text": f"{event.get('error') or 'no answer'}: {attempt}"}
    elif kind == "system":
        yield event | {"type": event["subtype"]}
    elif not parent:
        models = (event.get("modelUsage") or {}).values()
        tokens = {name: sum(used.get(theirs) or 0 for used in models) for name, theirs in _TOKENS.items()}
        yield event | about | {"tokens": tokens}


def codex(event: Event, _seen: Event) -> Iterator[Event]:
    """`codex exec --json`: a thread of items; a tool call is reported when it begins and again when it ends."""
    kind, item = event["type"], event.get("item", {})
    tool = item.get("type")
    if tool == "agent_message":
        yield {"type": "text", "text": item["text"]}
    elif kind == "item.started" and tool != "todo_list":
        if "command" in item:
            item["command"] = item["command"].removeprefix("/bin/bash -lc ").strip("'\"")
        if "changes" in item:
            item["file_path"] = item["changes"][0]["path"]
        yield _tool_use(item["id"], tool, item)
    elif kind == "item.completed" and tool not in ("error", "reasoning", "todo_list"):
        yield _tool_result(item["id"], item.get("aggregated_output"), failed=item.get("status") == "failed")
    elif kind == "error" and event["message"].startswith("Reconnecting"):
        yield {"type": "retry", "text": event["message"]}
    elif kind in ("turn.completed", "turn.failed"):
        usage = Counter[str](event.get("usage"))
        yield _result(
            event.get("error", {}).get("message", ""),
            input=usage["input_tokens"] - usage["cached_input_tokens"],  # the input includes them
            output=usage["output_tokens"],
            cache_read=usage["cached_input_tokens"],
            cache_write=usage["cache_write_input_tokens"],
        )


def gemini(event: Event, seen: Event) -> Iterator[Event]:
    """`gemini -o stream-json`: messages come in pieces; a success after an error event is not a success."""
    kind = event["type"]
    if kind == "message" and event["role"] == "assistant":
        seen["words"] = seen.get("words", "") + event["content"]
    elif words := seen.pop("words", ""):
        yield {"type": "text", "text": words}
    if kind == "init":
        yield event
    elif kind == "tool_use":
        yield _tool_use(event["tool_id"], event["tool_name"], event["parameters"])
    elif kind == "tool_result":
        yield _tool_result(event["tool_id"], event.get("output"), failed=event["status"] == "error")
    elif kind == "error":
        seen["error"] = event
    elif kind == "result":
        stats = event["stats"]
        yield _result(
            (event.get("error") or seen.get("error", {})).get("message", ""),
            input=stats["input_tokens"] - stats["cached"],  # the input includes them
            output=stats["total_tokens"] - stats["input_tokens"],  # thoughts included
            cache_read=stats["cached"],
            cache_write=0,
        )


def opencode(event: Event, seen: Event) -> Iterator[Event]:
    """`opencode run --format json`: steps, each with its cost; a tool call is reported when it has ended."""
    kind, part = event["type"], event.get("part", {})
    figures = seen.setdefault("figures", Counter())
    if kind == "text":
        yield {"type": "text", "text": part["text"]}
    elif kind == "tool_use":
        call, state = part["callID"], part["state"]
        yield _tool_use(call, part["tool"], state["input"])
        failed = state["status"] == "error" or state.get("metadata", {}).get("exit")
        yield _tool_result(call, state.get("error") or state.get("output"), failed=failed)
    elif kind == "step_finish":
        used = part["tokens"]
        figures.update(
            cost=part["cost"],
            input=used["input"],
            output=used["output"] + used["reasoning"],
            cache_read=used["cache"]["read"],
            cache_write=used["cache"]["write"],
        )
        if part["reason"] != "tool-calls":
            yield _result(**figures)
    elif kind == "error":
        error = event["error"]
        data = error.get("data", {})
        yield _result(data.get("message") or error["name"], status=data.get("statusCode"), **figures)


DIALECTS = dict.fromkeys(("system", "assistant", "result"), claude) | {
    "thread.started": codex,
    "init": gemini,
    "step_start": opencode,
    "error": opencode,
}
"""The dialect of a stream, by the type of its first object; any other line before that is text."""
