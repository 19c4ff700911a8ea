"""Dialects: what other agents print, as the events that claude prints, which are ralph's too.

A dialect gets an event and what it has kept of those before, and says what that is: `system` events (`init`,
`api_retry`), messages of `assistant` and `user` with their blocks, and a `result` in the end. Which one it is, the
first event says. Measured with codex 0.169.0, gemini 0.61.0 and opencode 1.18.33.
"""

import contextlib
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Event = dict[str, Any]
Dialect = Callable[[Event, dict[str, Any]], Iterable[Event]]

_NAMES = {
    **dict.fromkeys(("command_execution", "run_shell_command", "bash"), "Bash"),
    **dict.fromkeys(("file_change", "replace", "edit"), "Edit"),
    **dict.fromkeys(("write_file", "write"), "Write"),
    **dict.fromkeys(("read_file", "read"), "Read"),
}
"""What claude calls the same tool; so all are shown alike."""


def _init(model: str = "") -> Event:
    return {"type": "system", "subtype": "init", "model": model}


def _says(text: str, kind: str = "text") -> Event:
    return {"type": "assistant", "message": {"content": [{"type": kind, kind: text}]}}


def _calls(call: str, tool: str, arguments: object) -> Event:
    block = {"type": "tool_use", "id": call, "name": _NAMES.get(tool, tool), "input": arguments}
    return {"type": "assistant", "message": {"content": [block]}}


def _came(call: str, output: object, *, code: object = None, failed: bool = False) -> Event:
    text = f"Exit code {code}\n{output}" if code else str(output)
    block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": bool(code) or failed}
    return {"type": "user", "message": {"content": [block]}}


def _result(said: str, error: str = "", *, status: object = None, cost: float = 0.0, **tokens: int) -> Event:
    """The end; `tokens` are those of all models, and a cost of nothing is one that is not known."""
    ended: Event = {"type": "result", "is_error": bool(error), "modelUsage": {"": tokens}}
    ended |= {"errors": [error], "api_error_status": status} if error else {"result": said}
    return ended | ({"total_cost_usd": cost} if cost else {})


def codex(event: Event, seen: dict[str, Any]) -> Iterator[Event]:
    """`codex exec --json`: a thread of items, some of which begin and end."""
    item = event.get("item") or {}
    kind, call = item.get("type"), str(item.get("id"))
    match event["type"], kind:
        case "thread.started", _:
            yield _init()
        case "item.completed", "agent_message":
            seen["said"] = item["text"]
            yield _says(item["text"])
        case "item.completed", "reasoning":
            yield _says(item["text"], "thinking")
        case ("item.started" | "item.completed") as what, str() if kind not in ("error", "todo_list"):
            if call not in seen:
                seen[call] = {name: text for name, text in item.items() if isinstance(text, str) and name != "id"}
                with contextlib.suppress(KeyError, ValueError, IndexError):  # `/bin/bash -lc 'what it is'`
                    seen[call] = {"command": shlex.split(item["command"])[2]}
                if changes := item.get("changes"):
                    seen[call] = {"file_path": changes[0]["path"]}
                yield _calls(call, kind, seen[call])
            if what == "item.completed":
                failed = item.get("status") == "failed"
                yield _came(call, item.get("aggregated_output") or "", code=item.get("exit_code"), failed=failed)
        case "error", _ if event["message"].startswith("Reconnecting"):
            yield {"type": "system", "subtype": "api_retry", "error": event["message"]}
        case (("turn.completed" | "turn.failed"), _):
            usage: Counter[str] = Counter(event.get("usage"))
            yield _result(
                seen.get("said", ""),
                (event.get("error") or {}).get("message", ""),
                inputTokens=usage["input_tokens"] - usage["cached_input_tokens"],  # which are a part of them
                cacheReadInputTokens=usage["cached_input_tokens"],
                cacheCreationInputTokens=usage["cache_write_input_tokens"],
                outputTokens=usage["output_tokens"],
            )


def gemini(event: Event, seen: dict[str, Any]) -> Iterator[Event]:
    """`gemini -o stream-json`: words in pieces; and its success is none where it named an error before."""
    if event["type"] != "message" and (words := seen.pop("words", "")):
        seen["said"] = words
        yield _says(words)
    match event:
        case {"type": "init"}:
            yield _init(event["model"])
        case {"type": "message", "role": "assistant", "content": piece}:
            seen["words"] = seen.get("words", "") + piece
        case {"type": "tool_use", "tool_id": call, "tool_name": tool, "parameters": arguments}:
            yield _calls(call, tool, arguments)
        case {"type": "tool_result", "tool_id": call, "status": status}:
            yield _came(call, event.get("output") or "", failed=status == "error")
        case {"type": "error", "message": why}:
            seen["error"] = why
        case {"type": "result", "stats": stats}:
            yield _result(
                seen.get("said", ""),
                (event.get("error") or {}).get("message") or seen.get("error", ""),
                inputTokens=stats["input_tokens"] - stats["cached"],  # which are a part of them
                cacheReadInputTokens=stats["cached"],
                outputTokens=stats["total_tokens"] - stats["input_tokens"],  # with what it thought
            )


def opencode(event: Event, seen: dict[str, Any]) -> Iterator[Event]:
    """`opencode run --format json`: steps, each with what it cost; a tool is told when it is over."""
    part, tokens = event.get("part") or {}, seen.setdefault("tokens", Counter())
    match event["type"]:
        case "step_start" if "said" not in seen:
            seen["said"] = ""
            yield _init()
        case "text":
            seen["said"] = part["text"]
            yield _says(part["text"])
        case "reasoning":
            yield _says(part["text"], "thinking")
        case "tool_use":
            state = part["state"]
            yield _calls(part["callID"], part["tool"], state["input"])
            code = (state.get("metadata") or {}).get("exit")
            output = state.get("error") or state.get("output") or ""
            yield _came(part["callID"], output, code=code, failed=state["status"] == "error")
        case "step_finish":
            said, cache = part["tokens"], part["tokens"]["cache"]
            tokens.update(inputTokens=said["input"], outputTokens=said["output"] + said["reasoning"])
            tokens.update(cacheReadInputTokens=cache["read"], cacheCreationInputTokens=cache["write"])
            seen["cost"] = seen.get("cost", 0.0) + part["cost"]
            if part["reason"] != "tool-calls":
                yield _result(seen["said"], cost=seen["cost"], **tokens)
        case "error":
            error, data = event["error"], event["error"].get("data") or {}
            why = data.get("message") or error["name"]
            yield _result("", why, status=data.get("statusCode"), cost=seen.get("cost", 0.0), **tokens)


def claude(event: Event, _seen: dict[str, Any]) -> Iterable[Event]:
    """`claude -p --output-format stream-json`, or whoever prints such events."""
    return (event,)


def dialect(first: Event) -> Dialect:
    """The one of an agent that begins so."""
    others = {"thread.started": codex, "init": gemini, "step_start": opencode, "error": opencode}
    return others.get(first["type"], claude)
