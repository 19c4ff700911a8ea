"""The only place that speaks HTTP. Whatever a server does, each request ends within its time."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    import requests

Json: TypeAlias = "str | bool | int | float | list[Json] | dict[str, Json]"

_HOPS = 2
"""Redirects that `send` follows: to https, and to the name that a server prefers."""
_LOOK_S = 0.1
_CONTENT_S = 1.0
"""Seconds that the content of an answer may take behind its status; streams go on for ever."""
_MOST_TOLD = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request; its strings are templates, or what became of them."""

    url: str
    method: str
    headers: Mapping[str, str]
    json: dict[str, Json] | None
    body: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """How a message went; an empty `failure` is a success."""

    failure: str = ""
    told: str = ""
    """What the server said about it; it may repeat a secret."""
    again: bool = False
    """The trouble may pass: with the network, the server, or too many requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered: either a `status` or a `failure`."""

    status: int = 0
    body: str = ""
    """The beginning of its content, if that came in time."""
    failure: str = ""
    """Why there is none."""


def send(request: Request, timeout_s: float) -> Sent:
    """How it went in the end: two tries and the pause between them fit into the time."""
    import requests  # noqa: F401, PLC0415 - 80 ms that only a run that sends pays, and no try is charged with

    first = _try(request, timeout_s * 0.4)
    if not first.again:
        return first
    time.sleep(timeout_s / 15)
    return _try(request, timeout_s * 0.4)


def ask(method: str, url: str, *, timeout_s: float, over: Callable[[], bool] = lambda: False) -> Answer | None:
    """What a server answers to a request without content, a redirect being an answer too; None when `over` said so."""
    heard: SimpleQueue[Answer] = SimpleQueue()
    request = Request(url=url, method=method, headers={}, json=None, body=None)
    threading.Thread(target=_listen, args=(request, timeout_s, heard), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while not over():
        with contextlib.suppress(Empty):
            return _with_content(heard.get(timeout=_LOOK_S), heard)
        if time.monotonic() > deadline:
            return Answer(failure=_silence(timeout_s))
    return None


def _with_content(answer: Answer, heard: SimpleQueue[Answer]) -> Answer:
    with contextlib.suppress(Empty):
        more = heard.get(timeout=_CONTENT_S) if answer.status else answer
        return more if more.status else answer
    return answer


def _listen(request: Request, timeout_s: float, heard: SimpleQueue[Answer]) -> None:
    """Puts there the status as soon as it is known, then the same with the content."""
    try:
        with _opened(request, timeout_s, direct=host(request.url) in _HERE) as response:
            heard.put(Answer(status=response.status_code))
            heard.put(Answer(status=response.status_code, body=_told(response)))
    except Exception as error:  # noqa: BLE001 - as in _exchange, and requests may be missing
        late = isinstance(error, TimeoutError) or "Timeout" in type(error).__name__
        heard.put(Answer(failure=_silence(timeout_s) if late else f"nothing answers: {_cause(error)}"))


_HERE = ("localhost", "127.0.0.1", "::1")
"""No proxy leads to what runs on this machine, whatever the environment says."""


def _try(request: Request, timeout_s: float) -> Sent:
    """One request, in a thread of its own: nothing else bounds a slow name server or an answer that comes in drips.

    Given up on, the thread ends with its connection or with ralph.
    """
    name = host(request.url)
    if not name:
        return Sent(failure="its address is no web address")
    outcome: SimpleQueue[Sent] = SimpleQueue()
    threading.Thread(target=lambda: outcome.put(_exchange(request, name, timeout_s)), daemon=True).start()
    with contextlib.suppress(Empty):
        return outcome.get(timeout=timeout_s)
    return _too_late(name, timeout_s)


def _exchange(request: Request, name: str, timeout_s: float, hops: int = _HOPS) -> Sent:
    import requests  # noqa: PLC0415 - as in send

    try:
        with _opened(request, timeout_s) as response:
            if hops and (onward := _redirected(request, response)):
                return _exchange(onward, host(onward.url), timeout_s, hops - 1)
            return _judged(response, name)
    except requests.Timeout:
        return _too_late(name, timeout_s)
    except Exception as error:  # noqa: BLE001 - requests lets through what odd addresses and headers bring about
        return Sent(failure=f"{name}: {_cause(error)}", again=not isinstance(error, ValueError))


def _opened(request: Request, timeout_s: float, *, direct: bool = False) -> "requests.Response":
    import requests  # noqa: PLC0415 - as in send

    return requests.request(
        request.method,
        request.url,
        headers={"User-Agent": "ralph"} | {name: text.encode() for name, text in request.headers.items()},
        json=request.json,
        data=None if request.body is None else request.body.encode(),
        timeout=timeout_s,
        allow_redirects=False,  # requests would take along what ~/.netrc has for the next host
        stream=True,
        auth=lambda prepared: prepared,  # else a line in ~/.netrc would replace the Authorization header
        proxies={"http": "", "https": ""} if direct else None,
    )


def _redirected(request: Request, response: "requests.Response") -> Request | None:
    """The next request of a plain GET; any other would lose its content or show its headers to somebody else."""
    if not response.is_redirect or request.method != "GET" or request.headers:
        return None
    url = urljoin(request.url, response.headers["Location"])
    return replace(request, url=url) if host(url) else None


def _too_late(name: str, timeout_s: float) -> Sent:
    return Sent(failure=f"{name}: {_silence(timeout_s)}", again=True)


def _silence(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"


def _judged(response: "requests.Response", name: str) -> Sent:
    status = response.status_code
    if status < 300:
        return Sent()
    return Sent(failure=f"HTTP {status} from {name}", told=_told(response), again=status >= 500 or status == 429)


def _told(response: "requests.Response") -> str:
    """The beginning of its content."""
    with contextlib.suppress(OSError):  # the status says enough
        return next(response.iter_content(_MOST_TOLD), b"").decode("utf-8", "replace").strip()
    return ""


def _cause(error: BaseException) -> str:
    """The system's own words below what requests and urllib3 wrap around them (their words show the address)."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def host(url: str) -> str:
    """The host of a web address, which is all of it that may be shown of one with secrets; "" if it is none."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""
    return ""


def origin(url: str) -> str:
    """`http://127.0.0.1:8000`: a web address without its path, and without a name and password; "" if it is none."""
    parts = urlsplit(url) if host(url) else None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts else ""
