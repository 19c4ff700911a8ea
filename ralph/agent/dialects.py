"""Dialects: what other agents print, as the events that claude prints, which are ralph's too.

A dialect gets an event and what it has kept of those before, and says what that is: `system` events (`init`,
`api_retry`), messages of `assistant` and `user` with their blocks, and a `result` in the end. Which one it is, the
first event says. Measured with codex 0.169.0, gemini 0.61.0 and opencode 1.18.33.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
"""What claude calls the same tool; so all are shown alike."""


def _message(speaker: str, **block: object) -> Event:
    return {"type": speaker, "message": {"content": [block]}}


def _says(text: str) -> Event:
    return _message("assistant", type="text", text=text)


def _calls(call: str, tool: str, arguments: object) -> Event:
    return _message("assistant", type="tool_use", id=call, name=_NAMES.get(tool, tool), input=arguments)


def _came(call: str, output: object, *, code: object = None, failed: bool = False) -> Event:
    text = f"Exit code {code}\n{output}" if code else str(output)
    return _message("user", type="tool_result", tool_use_id=call, content=text, is_error=bool(code) or failed)


def _result(
    said: str, tokens: Mapping[str, int], *, error: str = "", status: object = None, cost: float = 0.0
) -> Event:
    """The end; `tokens` are those of all models, and a cost of nothing is one that is not known."""
    ended: Event = {"type": "result", "modelUsage": {"": tokens}, "total_cost_usd": cost or None}
    return ended | ({"is_error": True, "errors": [error], "api_error_status": status} if error else {"result": said})


def codex(event: Event, seen: Event) -> Iterator[Event]:
    """`codex exec --json`: a thread of items, some of which begin and end."""
    match event:
        case {"type": "item.completed", "item": {"type": "agent_message", "text": text}}:
            seen["said"] = text
            yield _says(text)
        case {"type": "item.started" | "item.completed" as what, "item": {"type": tool, "id": call} as item} if (
            tool not in ("error", "reasoning", "todo_list")
        ):
            if call not in seen:
                seen[call] = item
                file, command = (item.get("changes") or [{}])[0], str(item.get("command", ""))
                said = {
                    "command": command.removeprefix("/bin/bash -lc ").strip("'\"") or None,
                    "file_path": file.get("path"),
                }
                yield _calls(call, tool, item | said)
            if what == "item.completed":
                failed = item.get("status") == "failed"
                yield _came(call, item.get("aggregated_output") or "", code=item.get("exit_code"), failed=failed)
        case {"type": "error", "message": str(why)} if why.startswith("Reconnecting"):
            yield {"type": "system", "subtype": "api_retry", "error": why}
        case {"type": "turn.completed" | "turn.failed"}:
            error, usage = event.get("error") or {}, Counter[str](event.get("usage"))
            tokens = {
                "inputTokens": usage["input_tokens"] - usage["cached_input_tokens"],  # which are a part of them
                "cacheReadInputTokens": usage["cached_input_tokens"],
                "cacheCreationInputTokens": usage["cache_write_input_tokens"],
                "outputTokens": usage["output_tokens"],
            }
            yield _result(seen.get("said", ""), tokens, error=error.get("message", ""))


def gemini(event: Event, seen: Event) -> Iterator[Event]:
    """`gemini -o stream-json`: words in pieces; and its success is none where it named an error before."""
    if event["type"] != "message" and (words := seen.pop("words", "")):
        seen["said"] = words
        yield _says(words)
    match event:
        case {"type": "init", "model": model}:
            yield {"type": "system", "subtype": "init", "model": model}
        case {"type": "message", "role": "assistant", "content": piece}:
            seen["words"] = seen.get("words", "") + piece
        case {"type": "tool_use", "tool_id": call, "tool_name": tool, "parameters": arguments}:
            yield _calls(call, tool, arguments)
        case {"type": "tool_result", "tool_id": call, "status": status}:
            yield _came(call, event.get("output") or "", failed=status == "error")
        case {"type": "error", "message": why}:
            seen["error"] = why
        case {"type": "result", "stats": stats}:
            error = (event.get("error") or {}).get("message") or seen.get("error", "")
            tokens = {
                "inputTokens": stats["input_tokens"] - stats["cached"],  # which are a part of them
                "cacheReadInputTokens": stats["cached"],
                "outputTokens": stats["total_tokens"] - stats["input_tokens"],  # with what it thought
            }
            yield _result(seen.get("said", ""), tokens, error=error)


def opencode(event: Event, seen: Event) -> Iterator[Event]:
    """`opencode run --format json`: steps, each with what it cost; a tool is told when it is over."""
    tokens: Counter[str] = seen.setdefault("tokens", Counter())
    match event:
        case {"type": "text", "part": {"text": text}}:
            seen["said"] = text
            yield _says(text)
        case {"type": "tool_use", "part": {"callID": call, "tool": tool, "state": state}}:
            yield _calls(call, tool, state["input"])
            code = (state.get("metadata") or {}).get("exit")
            output = state.get("error") or state.get("output") or ""
            yield _came(call, output, code=code, failed=state["status"] == "error")
        case {"type": "step_finish", "part": {"tokens": said, "cost": cost, "reason": reason}}:
            tokens.update(inputTokens=said["input"], outputTokens=said["output"] + said["reasoning"])
            tokens.update(cacheReadInputTokens=said["cache"]["read"], cacheCreationInputTokens=said["cache"]["write"])
            seen["cost"] = seen.get("cost", 0.0) + cost
            if reason != "tool-calls":
                yield _result(seen.get("said", ""), tokens, cost=seen["cost"])
        case {"type": "error", "error": error}:
            data = error.get("data") or {}
            why, status = data.get("message") or error["name"], data.get("statusCode")
            yield _result("", tokens, error=why, status=status, cost=seen.get("cost", 0.0))


def claude(event: Event, seen: Event) -> Iterable[Event]:  # noqa: ARG001 - all are called alike
    """`claude -p --output-format stream-json`, or whoever prints such events."""
    return (event,)


OTHERS = {"thread.started": codex, "init": gemini, "step_start": opencode, "error": opencode}
"""Whose dialect an agent speaks that begins so."""
