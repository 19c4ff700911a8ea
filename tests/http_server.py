"""A real HTTP server on loopback that records what it gets and answers as a test says, or not at all."""

import contextlib
import threading
from collections.abc import Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Received(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes


class Answer(NamedTuple):
    """What it says."""

    status: int = 200
    body: str = ""
    location: str = ""


class _Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.received.append(Received(self.command, self.path, self.headers, body))
        answer = self.server.answers[min(len(self.server.received), len(self.server.answers)) - 1]
        self.server.go.wait()
        with contextlib.suppress(OSError):  # the client may have given up
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(answer.body.encode())

    do_GET = do_PUT = do_POST  # noqa: N815 - http.server's names

    def log_message(self, *_: Any) -> None:
        """Says nothing on stderr."""


class Server(ThreadingHTTPServer):
    """Answers the first request with the first answer, and so on; the last one is repeated."""

    daemon_threads = True

    def __init__(self, *answers: Answer) -> None:
        self.answers: Sequence[Answer] = answers or (Answer(),)
        self.received: list[Received] = []
        self.go = threading.Event()
        self.go.set()  # a test that clears it holds the answers back
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def host(self) -> str:
        """As a failure shows it."""
        return f"127.0.0.1:{self.server_port}"

    def url(self, path: str = "/") -> str:
        """An address of this server."""
        return f"http://{self.host}{path}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.shutdown()
        self.server_close()
