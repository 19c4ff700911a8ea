"""A real HTTP server on loopback that records what it gets and answers as a test says, also badly."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Sequence
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from ralph_driver import eventually


class Bad(Enum):
    """Ways to answer that are no answer."""

    HANG = "takes the request and says nothing"
    RESET = "takes the request and resets the connection"
    DRIP = "sends the head of an answer byte by byte, without an end"


class Received(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes


class Answer(NamedTuple):
    """A whole answer."""

    status: int = 200
    body: str = ""
    location: str = ""


class _Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.received.append(Received(self.command, self.path, self.headers, body))
        answers = self.server.answers
        answer = answers[min(len(self.server.received), len(answers)) - 1]
        with contextlib.suppress(OSError):  # the client may have given up
            self._answer(answer)

    do_GET = do_PUT = do_POST  # noqa: N815 - http.server's names

    def _answer(self, answer: Answer | Bad) -> None:
        if isinstance(answer, Answer):
            self.server.go.wait()
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(answer.body.encode())
        elif answer is Bad.HANG:
            self.server.closing.wait()
        elif answer is Bad.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.server.closing.wait(0.02):
                self.wfile.write(b".")

    def log_message(self, *_: Any) -> None:
        """Says nothing on stderr."""


class Server(ThreadingHTTPServer):
    """Answers the first request with the first answer, and so on; the last one is repeated."""

    daemon_threads = True

    def __init__(self, *answers: Answer | Bad) -> None:
        self.answers: Sequence[Answer | Bad] = answers or (Answer(),)
        self.received: list[Received] = []
        self.closing, self.go = threading.Event(), threading.Event()
        self.go.set()  # a test that clears it holds the answers back
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def host(self) -> str:
        """As a failure shows it."""
        return f"127.0.0.1:{self.server_port}"

    def url(self, path: str = "/") -> str:
        """An address of this server."""
        return f"http://{self.host}{path}"

    def wait_for(self, count: int) -> None:
        """Returns when so many requests have arrived."""
        eventually(lambda: len(self.received) >= count)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.go.set()
        self.shutdown()
        self.server_close()
