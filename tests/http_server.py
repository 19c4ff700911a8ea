"""A real HTTP server on loopback that records what it gets and answers as a test says, also badly."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Bad(Enum):
    """Ways to answer that are no answer."""

    HANG = "takes the request and says nothing"
    RESET = "takes the request and resets the connection"
    DRIP = "sends the head of an answer byte by byte, without an end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    status: int = 200
    body: str = ""
    location: str = ""
    held: bool = False
    """Sent when the test lets it go, not before."""


class Server:
    """Answers the first request with the first answer, and so on; the last one is repeated."""

    def __init__(self, *answers: Answer | Bad) -> None:
        self.answers: Sequence[Answer | Bad] = answers or (Answer(),)
        self.received: list[Received] = []
        self.closing = threading.Event()
        self.let_go = threading.Event()
        self._changed = threading.Condition()
        server = self

        class Handler(_Handler):
            story = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def url(self, path: str = "/") -> str:
        """An address of this server."""
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    @property
    def host(self) -> str:
        """As a failure shows it."""
        return f"127.0.0.1:{self._http.server_port}"

    def take(self, request: Received) -> Answer | Bad:
        """Records the request and says how to answer it."""
        with self._changed:
            self.received.append(request)
            self._changed.notify_all()
            return self.answers[min(len(self.received), len(self.answers)) - 1]

    def wait_for(self, count: int) -> None:
        """Returns when so many requests have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.received) >= count, timeout=60), self.received

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.let_go.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    story: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.story.take(Received(method=self.command, path=self.path, headers=self.headers, body=body))
        with contextlib.suppress(OSError):  # the client may have given up
            self._answer(answer)

    do_GET = do_PUT = do_POST  # noqa: N815 - http.server's names

    def _answer(self, answer: Answer | Bad) -> None:
        if isinstance(answer, Answer):
            self._answer_well(answer)
        elif answer is Bad.HANG:
            self.story.closing.wait()
        elif answer is Bad.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.story.closing.wait(0.02):
                self.wfile.write(b".")

    def _answer_well(self, answer: Answer) -> None:
        if answer.held:
            self.story.let_go.wait()
        self.send_response(answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        self.end_headers()
        self.wfile.write(answer.body.encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing on stderr."""
