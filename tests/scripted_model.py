"""A server on loopback that plays a written script to the real agents, whichever of their APIs they speak.

Each request that offers tools takes the next reply, while there is one.
Requests without tools (titles, topics) are answered aside and take none.
@SESSION@ and @TASK@ in what the model says and calls are those that a strict prompt asks for.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from http_server import Asked, Loopback

Json = dict[str, Any]


class Tool(NamedTuple):
    """One tool call of a reply."""

    name: str
    input: Json


class Reply(NamedTuple):
    """What the model answers to one request: text, then tool calls, and perhaps silence; or an HTTP error."""

    text: str | None = None
    tools: Sequence[Tool] = ()
    status: int = 200
    error: Json | None = None
    """What is sent with another status."""
    headers: Mapping[str, str] = {}
    hangs: bool = False
    """Silence after the first pieces of what it says or calls, until the client goes."""
    usage: Mapping[str, int] = {}


def bash(command: str, **options: object) -> Tool:
    """A shell command, run by the Bash tool."""
    return Tool("Bash", {"command": command, "description": "scripted", **options})


def write(path: object, content: str) -> Tool:
    """A whole file, written by the Write tool (which wants an existing file to be read first)."""
    return Tool("Write", {"file_path": str(path), "content": content})


def read(path: object) -> Tool:
    return Tool("Read", {"file_path": str(path)})


def edit(path: object, old: str, new: str) -> Tool:
    return Tool("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


def told(body: Json) -> str:
    """The conversation in a request: prompts, answers, and what tools returned."""
    said = [body.get(name) for name in ("messages", "input", "contents")]
    return json.dumps(said, ensure_ascii=False).replace('\\"', '"')


# What the APIs stream.


def messages(reply: Reply, about: Json) -> list[Json]:
    """Anthropic's Messages API."""
    blocks: list[tuple[Json, Json]] = []
    if reply.text is not None:
        blocks += [({"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text})]
    for at, tool in enumerate(reply.tools):
        begun = {"type": "tool_use", "id": f"{about['id']}_{at}", "name": tool.name, "input": {}}
        blocks += [(begun, {"type": "input_json_delta", "partial_json": json.dumps(tool.input)})]
    usage = {"input_tokens": 100, "output_tokens": 20, **reply.usage}
    message = {**about, "type": "message", "role": "assistant", "content": [], "stop_reason": None, "usage": usage}
    pieces: list[Json] = [{"type": "message_start", "message": message}]
    for at, (begun, rest) in enumerate(blocks):
        pieces += [
            {"type": "content_block_start", "index": at, "content_block": begun},
            {"type": "content_block_delta", "index": at, "delta": rest},
            {"type": "content_block_stop", "index": at},
        ]
    stop = {"stop_reason": "tool_use" if reply.tools else "end_turn", "stop_sequence": None}
    return [*pieces, {"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]


def responses(reply: Reply, about: Json) -> list[Json]:
    """OpenAI's Responses API."""
    words: list[Json] = [{"type": "output_text", "text": reply.text, "annotations": []}]
    items: list[Json] = [{"type": "message", "role": "assistant", "content": words}] if reply.text else []
    for at, tool in enumerate(reply.tools):
        call = {"call_id": f"{about['id']}_{at}", "name": tool.name, "arguments": json.dumps(tool.input)}
        items.append({"type": "function_call", **call})
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    done = [{"type": "response.output_item.done", "output_index": at, "item": one} for at, one in enumerate(items)]
    about |= {"object": "response", "output": []}
    last = {"type": "response.completed", "response": {**about, "status": "completed", "usage": usage}}
    return [{"type": "response.created", "response": about}, *done, last]


def contents(reply: Reply, _about: Json) -> list[Json]:
    """Google's generative language API."""
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": tool.name, "args": tool.input}} for tool in reply.tools]
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    said = {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
    return [{"candidates": [said], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}]


def completions(reply: Reply, about: Json) -> list[Json]:
    """OpenAI's chat completions."""
    about |= {"object": "chat.completion.chunk", "created": 0}
    calls = [
        {"index": at, "id": f"{about['id']}_{at}", "type": "function"}
        | {"function": {"name": tool.name, "arguments": json.dumps(tool.input)}}
        for at, tool in enumerate(reply.tools)
    ]
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    words = {"role": "assistant", "content": reply.text or "", **({"tool_calls": calls} if calls else {})}
    first = {"index": 0, "delta": words, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    return [{**about, "choices": [first]}, {**about, "choices": [last], "usage": usage}]


APIS = {
    "/v1/messages": messages,
    "/responses": responses,
    ":streamGenerateContent": contents,
    "/chat/completions": completions,
}
"""By how the path of a question ends."""
SIGNAL = re.compile('<task-done session="(ralph-[^"]+)">([^<]+)</task-done>')


class ScriptedModel(Loopback):
    """The server."""

    def __init__(self, script: Sequence[Reply]) -> None:
        super().__init__()
        self.requests: list[Json] = []
        """The body of each that offered tools."""
        self._script = iter(script)

    def answer(self, asked: Asked) -> None:
        body = json.loads(asked.body or "{}")
        path = urlsplit(asked.path).path
        speaks = next((APIS[end] for end in APIS if path.endswith(end)), None)
        reply = self._reply(body) if speaks else Reply(status=404)
        error = reply.error or {"type": "api_error", "message": "scripted", "code": reply.status}
        kind = "application/json"
        text = json.dumps({"type": "error", "error": error})
        if speaks and reply.status == 200:
            pieces = speaks(reply, {"id": f"id_{uuid.uuid4().hex}", "model": body.get("model")})
            if reply.hangs:
                pieces = pieces[:3]
            kind = "text/event-stream"
            text = streamed(pieces)
        if signal := SIGNAL.search(told(body)):
            text = text.replace("@SESSION@", signal[1]).replace("@TASK@", signal[2])
        asked.is_told(reply.status, text, {"content-type": kind, **reply.headers})
        if reply.hangs:
            asked.rfile.read(1)

    def _reply(self, body: Json) -> Reply:
        """That whose turn it is."""
        if not body.get("tools"):
            return Reply(text="aside")
        self.requests.append(body)
        return next(self._script, Reply(text="Nothing more is written."))


def streamed(pieces: list[Json]) -> str:
    """As server-sent events; those of the first two APIs have names."""
    text = ""
    for one in pieces:
        if "type" in one:
            text += f"event: {one['type']}\n"
        text += f"data: {json.dumps(one)}\n\n"
    return text
