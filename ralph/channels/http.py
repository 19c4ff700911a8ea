"""The only place that speaks HTTP."""

import contextlib
import re
import time
from collections.abc import Mapping
from itertools import islice, takewhile
from typing import Any
from urllib.parse import urlsplit

from ralph.errors import RalphError

_HERE = ("localhost", "127.0.0.1", "::1")
"""No proxy leads to what runs on this machine, whatever the environment says."""


def ask(  # noqa: PLR0913 - what a request is made of
    method: str,
    url: str,
    *,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    body: str | None = None,
    redirects: bool = False,
) -> tuple[int, str]:
    """The status of the answer, and what one that is no success begins with.

    The seconds are those to connect, and those of silence: an answer that comes in drips takes longer. Raises
    RalphError, with the reason alone, when none comes.
    """
    import requests  # noqa: PLC0415 - 80 ms that only a run that sends pays

    said = b""
    try:
        with requests.request(
            method,
            url,
            headers={"User-Agent": "ralph"} | {name: text.encode() for name, text in (headers or {}).items()},
            json=json,
            data=None if body is None else body.encode(),
            timeout=timeout_s,
            allow_redirects=redirects,
            proxies=dict.fromkeys(("http", "https"), "") if host(url) in _HERE else None,
            auth=lambda prepared: prepared,  # else ~/.netrc would replace an Authorization header
            stream=True,
        ) as answer:
            if answer.status_code >= 300:
                until = time.monotonic() + 1  # streams go on for ever
                soon = takewhile(lambda _: time.monotonic() < until, answer.iter_content(1))
                with contextlib.suppress(OSError):  # the status says enough
                    said = b"".join(islice(soon, 2000))
            return answer.status_code, said.decode("utf-8", "replace").strip()
    except requests.Timeout as error:
        raise RalphError(f"no answer within {timeout_s:g} s") from error
    except Exception as error:  # requests lets through what odd addresses and answers bring about
        cause: BaseException = error  # the words of requests and urllib3 around the system's own show the address
        while inner := cause.__cause__ or cause.__context__:
            cause = inner
        raise RalphError(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__) from error


def host(url: str) -> str:
    """The host of a web address, which is all of it that may be shown of one with secrets; "" if it is none."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""
    return ""


def origin(url: str) -> str:
    """`http://127.0.0.1:8000`: a web address without its path, and without a name and password."""
    return re.sub(r"(?s)(.*?://)(?:[^/]*@)?([^/]*).*", r"\1\2", url)
