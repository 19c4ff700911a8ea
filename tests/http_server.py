"""Real HTTP servers on loopback: one that records what it gets, and answers as a test says or not at all."""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(BaseHTTPRequestHandler):
    """One request as it arrived: `command`, `path`, `headers` and `body`."""

    server: "Loopback"
    body = b""

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.suppress(OSError):  # the client may have given up
            self.server.answer(self)

    do_GET = do_PUT = do_POST  # noqa: N815 - http.server's names

    def is_told(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        """Sends this answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing on stderr."""


class Loopback(ThreadingHTTPServer, ABC):
    """On a free port, until it is closed; `with` closes it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @abstractmethod
    def answer(self, asked: Asked) -> None:
        """Is called in a thread of its own for each request."""

    @property
    def host(self) -> str:
        """As a failure shows it."""
        return f"127.0.0.1:{self.server_port}"

    def url(self, path: str = "/") -> str:
        """An address of this server."""
        return f"http://{self.host}{path}"

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()


class Answer(NamedTuple):
    """What it says; where the status is that of a redirect, it leads to the first page."""

    status: int = 200
    body: str = ""


class Server(Loopback):
    """Answers the first request with the first answer, and so on; the last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self.answers: Sequence[Answer] = answers or (Answer(),)
        self.received: list[Asked] = []
        self.go = threading.Event()
        self.go.set()  # a test that clears it holds the answers back

    def answer(self, asked: Asked) -> None:
        self.received.append(asked)
        status, body = self.answers[min(len(self.received), len(self.answers)) - 1]
        self.go.wait()
        asked.is_told(status, body, {"Location": "/"})
