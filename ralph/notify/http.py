"""The only place that speaks HTTP."""

from collections.abc import Mapping
from typing import Any


def send_request(  # noqa: PLR0913 - what a request is made of
    method: str,
    url: str,
    *,
    timeout_s: float,
    headers: Mapping[str, str] = {},
    json: Any = None,
    body: str = "",
) -> tuple[int, str]:
    """Returns the status, and how the answer begins if it is not a success; 0 and the reason if no answer comes.

    A redirect is an answer. `timeout_s` limits the time to connect, and each silence: an answer that comes in drips
    may take longer.
    """
    import requests  # noqa: PLC0415 - 80 ms that only a run that sends should pay

    try:
        with requests.request(
            method,
            url,
            headers={"User-Agent": "ralph"} | {name: text.encode() for name, text in headers.items()},
            json=json,
            data=body.encode(),
            timeout=timeout_s,
            allow_redirects=False,
            auth=lambda prepared: prepared,  # else ~/.netrc would replace an Authorization header
            stream=True,
        ) as answer:
            message = next(answer.iter_content(500), b"") if answer.status_code >= 300 else b""
            return answer.status_code, message.decode("utf-8", "replace").strip()
    except requests.Timeout:
        return 0, f"no answer within {timeout_s:g} s"
    except Exception as error:  # noqa: BLE001 - requests lets through other errors that odd addresses and answers cause
        cause: BaseException = error  # requests and urllib3 wrap the system's message in one with the address
        while inner := cause.__context__:
            cause = inner
        return 0, getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
