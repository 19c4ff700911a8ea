"""Signs of life for a monitor: what arrives, what is said when it does not, and that nothing waits for it."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server
from ralph_driver import eventually

from ralph import files
from ralph.channels import Heartbeat

SECRET = "/ping/s3cr3t"
HELD = Answer(held=True)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def said() -> list[str]:
    """The complaints."""
    return []


def beat_to_the_end(heartbeat: Heartbeat) -> None:
    heartbeat.beat()
    eventually(lambda: not heartbeat.pending())


def test_a_beat_arrives_as_a_get_with_nothing_in_it(said: list[str]) -> None:
    with Server() as server:
        heartbeat = Heartbeat(server.url(SECRET + "?from=ralph"), said.append)
        heartbeat.beat()
        heartbeat.close(timeout_s=60)
    (request,) = server.received
    assert (request.method, request.path, request.body) == ("GET", SECRET + "?from=ralph", b"")
    assert said == []


def test_beats_during_a_beat_become_one_and_nobody_waits_for_them(said: list[str]) -> None:
    with Server(HELD, Answer()) as server:
        heartbeat = Heartbeat(server.url(), said.append)
        heartbeat.beat()
        server.wait_for(1)
        begin = time.monotonic()
        for _ in range(9):
            heartbeat.beat()
        assert time.monotonic() - begin < 10
        assert heartbeat.pending()
        server.let_go.set()
        heartbeat.close(timeout_s=60)
        assert not heartbeat.pending()
    assert len(server.received) == 1
    assert said == []


@pytest.mark.parametrize(
    ("answers", "paths"),
    [
        pytest.param([Answer(status=500), Answer()], ["/ping", "/ping"], id="a server that recovers"),
        pytest.param([Answer(status=301, location="/secure/ping"), Answer()], ["/ping", "/secure/ping"], id="moved"),
        pytest.param(
            [Answer(status=301, location="/a"), Answer(status=307, location="b"), Answer()],
            ["/ping", "/a", "/b"],
            id="moved twice",
        ),
    ],
)
def test_a_beat_gets_through(said: list[str], answers: list[Answer], paths: list[str]) -> None:
    with Server(*answers) as server:
        heartbeat = Heartbeat(server.url("/ping"), said.append)
        heartbeat.beat()
        heartbeat.close(timeout_s=60)
    assert [request.path for request in server.received] == paths
    assert said == []


def test_a_redirect_takes_no_password_along(said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Server(Answer(status=302, location="/there"), Answer()) as server:
        heartbeat = Heartbeat(server.url(SECRET), said.append)
        heartbeat.beat()
        heartbeat.close(timeout_s=60)
    assert [request.headers["Authorization"] for request in server.received] == [None, None]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        pytest.param("/round", "Exceeded 3 redirects.", id="in circles"),
        pytest.param(
            "file:///etc/passwd", "No connection adapters were found for 'file:///etc/passwd'", id="to no web address"
        ),
    ],
)
def test_a_redirect_that_leads_nowhere_is_told(said: list[str], location: str, why: str) -> None:
    with Server(Answer(status=302, location=location)) as server:
        heartbeat = Heartbeat(server.url(SECRET), said.append)
        heartbeat.beat()
        heartbeat.close(timeout_s=60)
    assert said == [f"heartbeat: not sent: 127.0.0.1: {why}"]


def test_failures_in_a_row_are_one_complaint_and_a_good_beat_ends_the_row(said: list[str]) -> None:
    gone = Answer(status=404)
    with Server(gone, gone, gone, Answer(), gone, gone) as server:
        heartbeat = Heartbeat(server.url(SECRET), said.append)
        for _ in range(3):
            beat_to_the_end(heartbeat)
        assert said == ["heartbeat: not sent: HTTP 404 from 127.0.0.1"]
        for _ in range(3):
            beat_to_the_end(heartbeat)
        heartbeat.close(timeout_s=60)
    assert len(server.received) == 6
    assert said == ["heartbeat: not sent: HTTP 404 from 127.0.0.1"] * 2


def test_an_answer_that_repeats_the_address_is_not_shown(said: list[str]) -> None:
    with Server(Answer(status=404, body=f"Cannot GET {SECRET}")) as server:
        heartbeat = Heartbeat(server.url(SECRET), said.append)
        heartbeat.beat()
        heartbeat.close(timeout_s=60)
    assert said == ["heartbeat: not sent: HTTP 404 from 127.0.0.1"]


@pytest.mark.parametrize("address", ["127.0.0.1/s3cr3t", "ftp://127.0.0.1/s3cr3t", "http://[::1/s3cr3t"])
def test_what_is_no_web_address_is_complained_about_once(said: list[str], address: str) -> None:
    heartbeat = Heartbeat(address, said.append)
    for _ in range(3):
        beat_to_the_end(heartbeat)
    heartbeat.close(timeout_s=60)
    assert said == ["heartbeat: not sent: its address is no web address"]


def test_an_address_that_requests_cannot_read_is_told_without_showing_it(said: list[str]) -> None:
    heartbeat = Heartbeat("http://127.0.0.1:s3cr3t" + SECRET, said.append)
    heartbeat.beat()
    heartbeat.close(timeout_s=60)
    (complaint,) = said
    assert complaint.startswith("heartbeat: not sent: 127.0.0.1: ")
    assert "s3cr3t" not in complaint


def test_a_library_that_has_gone_during_the_run_is_told(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    heartbeat = Heartbeat("http://127.0.0.1:9" + SECRET, said.append)
    beat_to_the_end(heartbeat)
    heartbeat.close(timeout_s=60)
    (complaint,) = said
    assert complaint.startswith("heartbeat: not sent: --heartbeat-url: ModuleNotFoundError: ")


def test_nobody_listening_is_told(said: list[str]) -> None:
    with Server() as server:
        address = server.url(SECRET)
    heartbeat = Heartbeat(address, said.append)
    heartbeat.beat()
    heartbeat.close(timeout_s=60)
    assert said == ["heartbeat: not sent: 127.0.0.1: Connection refused"]


@pytest.mark.parametrize("answer", [Bad.HANG, Bad.DRIP], ids=lambda bad: bad.value)
def test_the_end_waits_for_a_beat_but_not_for_ever(said: list[str], answer: Bad) -> None:
    with Server(answer) as server:
        heartbeat = Heartbeat(server.url(SECRET), said.append)
        heartbeat.beat()
        server.wait_for(1)
        heartbeat.beat()
        begin = time.monotonic()
        heartbeat.close(timeout_s=0.2)
        assert time.monotonic() - begin < 10
    assert not heartbeat.pending()
    assert said == ["heartbeat: not sent: no time left"]


def test_after_the_end_nothing_more_is_sent(said: list[str]) -> None:
    with Server() as server:
        heartbeat = Heartbeat(server.url(), said.append)
        heartbeat.close(timeout_s=1)
        heartbeat.beat()
        assert not heartbeat.pending()
    assert server.received == []


@pytest.mark.parametrize("address", [None, ""])
def test_without_an_address_nothing_happens(said: list[str], address: str | None) -> None:
    before = threading.active_count()
    heartbeat = Heartbeat(address, said.append)
    heartbeat.beat()
    assert not heartbeat.pending()
    assert threading.active_count() == before
    heartbeat.close(timeout_s=1)
    assert said == []


def test_before_the_first_beat_nobody_pays_for_requests() -> None:
    code = (
        "import sys, threading; from ralph.channels import Heartbeat\n"
        "Heartbeat('http://127.0.0.1:9/', print); Heartbeat(None, print).beat()\n"
        "sys.exit(bool({'requests', 'urllib3'} & set(sys.modules)) or threading.active_count() > 1)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=files.data("notify").parent, check=True)
