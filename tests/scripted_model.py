"""A Messages API on loopback that plays a written script to the real `claude`.

@SESSION@ and @TASK@ in what the model says and calls are those that a strict prompt asks for.
Each request that offers tools takes the next reply; when the script is used up, the answer is `LAST`.
Requests without tools (titles, topics) are answered aside and take none.
"""

import itertools
import json
import re
import select
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

Json = dict[str, Any]


class Tool(NamedTuple):
    """One tool call of a reply."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model answers to one request: text, then tool calls, and perhaps silence; or an HTTP error."""

    text: str | None = None
    tools: Sequence[Tool] = ()
    status: int = 200
    """Anything but 200 sends the error `message` in the API's shape."""
    message: str = "scripted error"
    error: Json | None = None
    """All of the error, in place of the API's shape."""
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    """Silence after the first piece of what it says or calls, until the client goes."""
    usage: Mapping[str, int] = field(default_factory=dict)


def bash(command: str, **options: object) -> Tool:
    """A shell command, run by the Bash tool."""
    return Tool(name="Bash", input={"command": command, "description": "scripted", **options})


def write(path: object, content: str) -> Tool:
    """A whole file, written by the Write tool (which wants an existing file to be read first)."""
    return Tool(name="Write", input={"file_path": str(path), "content": content})


def read(path: object) -> Tool:
    return Tool(name="Read", input={"file_path": str(path)})


def edit(path: object, old: str, new: str) -> Tool:
    return Tool(name="Edit", input={"file_path": str(path), "old_string": old, "new_string": new})


SIGNAL = re.compile('<task-done session="(ralph-[^"]+)">([^<]+)</task-done>')

LAST = Reply(text="Nothing more is written.")


@dataclass(frozen=True, slots=True)
class Request:
    """One request that offered tools, as it came over the wire."""

    body: Json

    @property
    def told(self) -> str:
        """The conversation: prompts, answers, and what tools returned."""
        said = [self.body.get(name) for name in ("messages", "input", "contents")]
        return json.dumps(said, ensure_ascii=False).replace('\\"', '"')

    def says(self, words: str) -> bool:
        return words in self.told


class ScriptedModel(ThreadingHTTPServer):
    """The server; `with` starts it on a free port and ends it. `speaks` is the API that it has."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: Sequence[Reply], speaks: "type[Handler]") -> None:
        super().__init__(("127.0.0.1", 0), speaks)
        self.requests: list[Request] = []
        self.ids = itertools.count(1)
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._script = iter(script)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()

    def answer(self, request: Request) -> Reply:
        """The reply whose turn it is."""
        if not request.body.get("tools"):
            return Reply(text="aside")
        with self._lock:
            self.requests.append(request)
            return filled(next(self._script, LAST), request)


def filled(reply: Reply, request: Request) -> Reply:
    """The same with the session and the task of a strict prompt in place of their names."""
    asked = SIGNAL.search(request.told)
    if asked is None:
        return reply

    def fill(text: str) -> str:
        return text.replace("@SESSION@", asked[1]).replace("@TASK@", asked[2])

    tools = [tool._replace(input=json.loads(fill(json.dumps(dict(tool.input))))) for tool in reply.tools]
    return replace(reply, text=reply.text and fill(reply.text), tools=tools)


class Handler(BaseHTTPRequestHandler):
    """The Messages API of Anthropic; those of others are in real_agents.py."""

    protocol_version = "HTTP/1.1"
    server: ScriptedModel
    ends = "/v1/messages"
    """How the path of a question ends."""

    def log_message(self, *_: object) -> None:
        """Nothing: the requests are recorded, stderr is for the tests."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not urlsplit(self.path).path.endswith(self.ends):
            self.whole(404, "{}", {})
            return
        reply = self.server.answer(Request(body))
        error = reply.error or {"type": "api_error", "message": reply.message, "code": reply.status}
        with suppress(ConnectionError):  # a client that was interrupted goes without a word
            if reply.status == 200:
                self.answer(reply, body)
            else:
                self.whole(reply.status, json.dumps({"type": "error", "error": error}), reply.headers)

    def answer(self, reply: Reply, body: Json) -> None:
        number = next(self.server.ids)
        blocks: list[Json] = [] if reply.text is None else [{"type": "text", "text": reply.text}]
        blocks += [
            {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": tool.name, "input": dict(tool.input)}
            for place, tool in enumerate(reply.tools)
        ]
        message: Json = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": blocks,
            "stop_reason": "tool_use" if reply.tools else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 20, **reply.usage},
        }
        self.send_response(200)
        self.head({"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers})
        self.event("message_start", message={**message, "content": [], "stop_reason": None})
        for index, block in enumerate(message["content"]):
            begun, piece = _begun(block)
            self.event("content_block_start", index=index, content_block=begun)
            self.event("content_block_delta", index=index, delta=piece)
            if reply.hangs:
                self.wait_for_the_client_to_go()
                return
            self.event("content_block_stop", index=index)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        self.event("message_delta", delta=stop, usage={"output_tokens": message["usage"]["output_tokens"]})
        self.event("message_stop")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, kind: str, **data: object) -> None:
        event = f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

    def whole(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        data = body.encode()
        self.send_response(status)
        self.head({"content-type": "application/json", "content-length": str(len(data)), **headers})
        self.wfile.write(data)

    def head(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def wait_for_the_client_to_go(self) -> None:
        self.close_connection = True
        while not self.server.closing.is_set():
            if select.select([self.connection], [], [], 0.05)[0]:
                return


def _begun(block: Json) -> tuple[Json, Json]:
    """How a content block is streamed: its empty start, and all of it in one piece."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
