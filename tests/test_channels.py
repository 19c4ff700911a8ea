"""Notices on their way: what arrives, what is said when it does not, and that nothing waits for it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server

from ralph import files
from ralph.channels import Channel, Notice, Outbox, deliver, load

BUILT_IN = {channel.name: channel for channel in load([files.data("notify")])}
STARTED = Notice(
    event="started", title="Ralph Started", body="Plan: feature\nMode: build\nRepo: repo", emoji_code=":rocket:"
)
SECRET = "/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"
PATIENT_S = 12.0
"""For answers that come at once, on a busy machine too."""
SHORT_S = 0.5
"""For answers that never come: two tries of 0.2 s."""

ServerMaker = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerMaker]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def slack(server: Server) -> dict[str, str]:
    return {"RALPH_SLACK_WEBHOOK_URL": server.url(SECRET)}


def numbered(count: int, event: str = "progress") -> list[Notice]:
    return [Notice(event=event, title=f"Notice {n}", body="", emoji_code=":gear:") for n in range(1, count + 1)]


def titles(server: Server) -> list[str]:
    return [json.loads(request.body)["title"] for request in server.received]


@pytest.mark.parametrize(
    ("channel", "values", "path", "sent"),
    [
        pytest.param(
            "slack",
            {"RALPH_SLACK_WEBHOOK_URL": "SERVER/hook"},
            "/hook",
            {
                "text": ":rocket: *Ralph Started*\n```Plan: feature\nMode: build\nRepo: repo```",
                "username": "Ralph",
                "icon_emoji": ":robot_face:",
            },
            id="slack",
        ),
        pytest.param(
            "slack",
            {
                "RALPH_SLACK_WEBHOOK_URL": "SERVER/hook",
                "RALPH_SLACK_CHANNEL": "#b",
                "RALPH_SLACK_USERNAME": 'R"x',
                "RALPH_SLACK_ICON_EMOJI": ":x:",
            },
            "/hook",
            {
                "text": ":rocket: *Ralph Started*\n```Plan: feature\nMode: build\nRepo: repo```",
                "username": 'R"x',
                "icon_emoji": ":x:",
                "channel": "#b",
            },
            id="slack with everything set",
        ),
        pytest.param(
            "discord",
            {"RALPH_DISCORD_WEBHOOK_URL": "SERVER/hook", "RALPH_DISCORD_AVATAR_URL": "https://x.example/r.png"},
            "/hook",
            {
                "content": "🚀 **Ralph Started**\n```\nPlan: feature\nMode: build\nRepo: repo```",
                "username": "Ralph",
                "avatar_url": "https://x.example/r.png",
                "allowed_mentions": {"parse": []},
            },
            id="discord",
        ),
        pytest.param(
            "telegram",
            {
                "RALPH_TELEGRAM_API_URL": "SERVER/",
                "RALPH_TELEGRAM_BOT_TOKEN": "123:abc",
                "RALPH_TELEGRAM_CHAT_ID": "-42",
            },
            "/bot123:abc/sendMessage",
            {
                "chat_id": "-42",
                "text": "🚀 <b>Ralph Started</b>\n<pre>Plan: feature\nMode: build\nRepo: repo</pre>",
                "parse_mode": "HTML",
            },
            id="telegram",
        ),
        pytest.param(
            "webhook",
            {"RALPH_WEBHOOK_URL": "SERVER/hook"},
            "/hook",
            {
                "event": "started",
                "title": "Ralph Started",
                "body": "Plan: feature\nMode: build\nRepo: repo",
                "message": "Ralph Started\nPlan: feature\nMode: build\nRepo: repo",
                "emoji": "🚀",
            },
            id="webhook",
        ),
    ],
)
def test_a_channel_sends_what_its_platform_expects(
    serve: ServerMaker, channel: str, values: dict[str, str], path: str, sent: object
) -> None:
    server = serve()
    values = {name: value.replace("SERVER", server.url("")) for name, value in values.items()}
    assert deliver(BUILT_IN[channel], STARTED, values) == ""
    (request,) = server.received
    assert (request.method, request.path) == ("POST", path)
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == sent


def test_ntfy_gets_its_title_and_emoji_in_the_address_and_its_token_in_a_header(
    serve: ServerMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = serve()
    values = {"RALPH_NTFY_URL": server.url("/topic"), "RALPH_NTFY_TOKEN": "tk_1"}
    assert deliver(BUILT_IN["ntfy"], STARTED, values) == ""
    (request,) = server.received
    assert request.path == "/topic?title=Ralph%20Started&tags=rocket"
    assert request.body.decode() == STARTED.body
    assert request.headers["Authorization"] == "Bearer tk_1"


def test_a_proxy_of_the_environment_is_used(serve: ServerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve()
    monkeypatch.setenv("http_proxy", proxy.url())
    assert deliver(BUILT_IN["webhook"], STARTED, {"RALPH_WEBHOOK_URL": "http://hooks.example/x"}) == ""
    assert [request.path for request in proxy.received] == ["http://hooks.example/x"]


def test_ntfy_without_a_token_sends_none(serve: ServerMaker) -> None:
    server = serve()
    assert deliver(BUILT_IN["ntfy"], STARTED, {"RALPH_NTFY_URL": server.url("/topic?priority=4")}) == ""
    (request,) = server.received
    assert request.path.startswith("/topic?priority=4&title=")
    assert "Authorization" not in request.headers


@pytest.mark.parametrize(
    ("answers", "tries", "failure"),
    [
        pytest.param([Answer(status=204)], 1, "", id="no content is a success"),
        pytest.param([Answer(status=500), Answer()], 2, "", id="a server that recovers"),
        pytest.param([Answer(status=429), Answer()], 2, "", id="too many requests, then not"),
        pytest.param([Bad.RESET, Answer()], 2, "", id="a connection that is reset once"),
        pytest.param([Answer(status=404, body="no_service\n")], 1, "HTTP 404 from 127.0.0.1: no_service", id="404"),
        pytest.param([Answer(status=500)], 2, "HTTP 500 from 127.0.0.1", id="a server that stays broken"),
        pytest.param(
            [Answer(status=302, location="/login")], 1, "HTTP 302 from 127.0.0.1", id="a redirect, which loses the text"
        ),
        pytest.param([Bad.RESET], 2, "127.0.0.1: Connection reset by peer", id="a connection that is reset twice"),
    ],
)
def test_an_answer_is_a_success_or_a_failure_that_is_told(
    serve: ServerMaker, answers: list[Answer | Bad], tries: int, failure: str
) -> None:
    server = serve(*answers)
    assert deliver(BUILT_IN["slack"], STARTED, slack(server), timeout_s=PATIENT_S) == failure
    assert len(server.received) == tries


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(Bad.HANG, "127.0.0.1: no answer within 0.2 s", id=Bad.HANG.value),
        pytest.param(Bad.DRIP_BODY, "HTTP 500 from 127.0.0.1: ...", id=Bad.DRIP_BODY.value),
    ],
)
def test_a_server_that_does_not_come_to_an_end_is_given_up_on(serve: ServerMaker, answer: Bad, failure: str) -> None:
    begin = time.monotonic()
    assert deliver(BUILT_IN["slack"], STARTED, slack(serve(answer)), timeout_s=SHORT_S).startswith(failure)
    assert time.monotonic() - begin < 10


def test_an_answer_that_drips_delays_neither_the_loop_nor_the_end(serve: ServerMaker) -> None:
    server, complaints = serve(Bad.DRIP), Complaints()
    begin = time.monotonic()
    out = outbox(complaints, slack(server), "slack")
    out.send(STARTED)
    server.wait_for(1)
    out.close(timeout_s=0.2)
    assert time.monotonic() - begin < 30
    assert complaints.said == ["slack: not sent: Ralph Started: no time left"]


def test_nobody_listening_is_told() -> None:
    with Server() as server:
        values = slack(server)
    assert deliver(BUILT_IN["slack"], STARTED, values, timeout_s=PATIENT_S) == "127.0.0.1: Connection refused"


@pytest.mark.parametrize("address", ["hooks.slack.com/services/x", "file:///etc/passwd", "http://[::1", "https://"])
def test_what_is_no_web_address_is_told_without_showing_it(address: str) -> None:
    failure = deliver(BUILT_IN["slack"], STARTED, {"RALPH_SLACK_WEBHOOK_URL": address})
    assert failure == "its address is no web address"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("no such hook: {url}", id="the whole address"),
        pytest.param("Cannot POST {path}", id="its path"),
        pytest.param('{{"url": "{escaped}"}}', id="its path as JSON writes it"),
        pytest.param("x" * 190 + "{path}", id="at the edge of what is shown"),
    ],
)
def test_an_answer_that_repeats_the_secret_is_shown_without_it(serve: ServerMaker, answer: str) -> None:
    server = serve()
    body = answer.format(url=server.url(SECRET), path=SECRET, escaped=SECRET.replace("/", "\\/"))
    server.answers = [Answer(status=404, body=body)]
    failure = deliver(BUILT_IN["slack"], STARTED, slack(server))
    assert failure.startswith("HTTP 404 from 127.0.0.1: ")
    assert "abcdef" not in failure
    assert "T0000" not in failure


def test_a_long_answer_is_shown_in_part_and_on_one_line(serve: ServerMaker) -> None:
    server = serve(Answer(status=400, body="<h1>\x1b[31mBad</h1>\n" * 1000))
    failure = deliver(BUILT_IN["slack"], STARTED, slack(server))
    assert failure.startswith("HTTP 400 from 127.0.0.1: <h1>[31mBad</h1> <h1>")
    assert len(failure) == 250
    assert failure.isprintable()


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def custom(program: Path | str) -> dict[str, str]:
    return {"RALPH_CUSTOM_NOTIFY_SCRIPT": str(program)}


def test_a_script_gets_the_plain_message_as_its_only_argument_and_may_fail(tmp_path: Path) -> None:
    program = script(tmp_path / "my notify", f"printf '%s|' $# \"$@\" >'{tmp_path}/got'", "exit 7")
    assert deliver(BUILT_IN["custom"], STARTED, custom(program)) == ""
    assert (tmp_path / "got").read_text() == f"1|{STARTED.message}|"


def test_a_script_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "notify", f"touch '{tmp_path}/called'")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert deliver(BUILT_IN["custom"], STARTED, custom("~/notify")) == ""
    assert (tmp_path / "called").exists()


def test_a_text_cannot_become_a_command(tmp_path: Path) -> None:
    program = script(tmp_path / "notify", f"printf %s \"$1\" >'{tmp_path}/got'")
    nasty = "$(touch PWNED) `touch PWNED`; {{ 7 * 7 }} -n 'x\" \\n \x1b[2J\0"
    notice = Notice(event="blocked", title="Ralph Blocked", body=nasty, emoji_code=":x:")
    assert deliver(BUILT_IN["custom"], notice, custom(program)) == ""
    assert (tmp_path / "got").read_text() == "Ralph Blocked\n" + nasty.replace("\x1b", "").replace("\0", "")


def test_a_script_that_is_missing_is_told(tmp_path: Path) -> None:
    program = tmp_path / "gone"
    assert deliver(BUILT_IN["custom"], STARTED, custom(program)) == f"{program}: No such file or directory"


def test_a_script_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    program = script(tmp_path / "notify", "sleep 60")
    failure = deliver(BUILT_IN["custom"], STARTED, custom(program), timeout_s=0.3)
    assert failure == f"{program}: still running after 0.3 s"


def test_apprise_gets_title_and_body_and_says_whether_they_got_through(tmp_path: Path) -> None:
    program = script(tmp_path / "apprise", f"printf '%s|' $# \"$@\" >'{tmp_path}/got'", "exit $(cat $0.code)")
    (tmp_path / "apprise.code").write_text("0")
    assert deliver(BUILT_IN["apprise"], STARTED, {"RALPH_APPRISE": str(program)}) == ""
    assert (tmp_path / "got").read_text() == f"2|--title={STARTED.title}|--body={STARTED.body}|"
    (tmp_path / "apprise.code").write_text("3")  # it found no service to notify
    assert deliver(BUILT_IN["apprise"], STARTED, {"RALPH_APPRISE": str(program)}) == f"{program}: exit code 3"


def test_apprise_is_found_on_the_path_and_never_asked_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a body it would wait for one on its standard input."""
    script(tmp_path / "apprise", f"printf %s \"$2\" >'{tmp_path}/got'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    notice = Notice(event="test", title="-- Ralph Test", body="", emoji_code=":gear:")
    assert deliver(BUILT_IN["apprise"], notice, {"RALPH_APPRISE": "apprise"}) == ""
    assert (tmp_path / "got").read_text() == "--body=-- Ralph Test"


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Channel]:
    """Makes a channel of one's own from TOML."""

    def make(text: str) -> Channel:
        (tmp_path / "own.toml").write_text(text)
        return load([tmp_path])[0]

    return make


def test_a_channel_of_ones_own_may_nest_its_json_and_use_any_letter_in_headers(
    serve: ServerMaker, own: Callable[[str], Channel]
) -> None:
    server = serve()
    channel = own(
        'needs = ["RALPH_OWN_URL"]\n[request]\nmethod = "PUT"\nurl = "{{ RALPH_OWN_URL }}"\n'
        'headers = {X-Title = "{{ emoji }} {{ title }}", X-None = ""}\n'
        'json = {parts = ["{{ title }}", 1, {deep = "{{ event }}", none = "{{ \'\' }}"}], loud = false}\n'
    )
    assert deliver(channel, STARTED, {"RALPH_OWN_URL": server.url()}) == ""
    (request,) = server.received
    assert request.method == "PUT"
    assert json.loads(request.body) == {"parts": ["Ralph Started", 1, {"deep": "started"}], "loud": False}
    assert request.headers["X-Title"].encode("latin-1").decode() == "🚀 Ralph Started"
    assert "X-None" not in request.headers


def test_a_header_of_ones_own_is_not_taken_along_by_a_redirect(
    serve: ServerMaker, own: Callable[[str], Channel]
) -> None:
    server = serve(Answer(status=302, location="/elsewhere"))
    channel = own(
        'needs = ["RALPH_OWN_URL"]\n[request]\nmethod = "GET"\nurl = "{{ RALPH_OWN_URL }}"\n'
        'headers = {X-Token = "secret"}\n'
    )
    assert deliver(channel, STARTED, {"RALPH_OWN_URL": server.url()}) == "HTTP 302 from 127.0.0.1"
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        pytest.param("{{ titel }}", "'titel' is undefined in '{{ titel }}'", id="a variable that does not exist"),
        pytest.param("{{ 1 / 0 }}", "ZeroDivisionError: division by zero", id="a template that breaks"),
    ],
)
def test_a_mistake_in_a_channel_of_ones_own_is_told_with_its_file(
    own: Callable[[str], Channel], url: str, failure: str
) -> None:
    channel = own(f'[request]\nurl = "{url}"\n')
    assert deliver(channel, STARTED, {}) == f"{channel.path}: {failure}"


class Complaints:
    """What an outbox had to say, and whether it did so from threads of its own."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self, complaint: str) -> None:
        self.said.append(complaint)
        self.threads.add(threading.current_thread())


def outbox(complaints: Complaints, values: Mapping[str, str], *names: str) -> Outbox:
    return Outbox([BUILT_IN[name] for name in names], values, complaints)


def test_notices_arrive_in_order_and_without_complaint(serve: ServerMaker) -> None:
    server, complaints = serve(), Complaints()
    out = outbox(complaints, {"RALPH_WEBHOOK_URL": server.url()}, "webhook")
    for notice in numbered(5):
        out.send(notice)
    out.close(timeout_s=60)
    assert titles(server) == [f"Notice {n}" for n in range(1, 6)]
    assert complaints.said == []


def test_a_start_that_sends_nothing_does_not_pay_for_the_heavy_imports() -> None:
    code = (
        "import sys; from ralph import channels; channels.load(channels.default_folders())\n"
        "sys.exit(bool({'requests', 'jinja2', 'dotenv'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=files.data("notify").parent, check=True)


def test_a_run_without_notices_starts_no_thread() -> None:
    before = threading.active_count()
    out = outbox(Complaints(), {}, "webhook")
    assert threading.active_count() == before
    out.close(timeout_s=1)


def test_a_channel_that_hangs_delays_neither_the_loop_nor_other_channels(serve: ServerMaker) -> None:
    hanging, server, complaints = serve(Bad.HANG), serve(), Complaints()
    values = {**slack(hanging), "RALPH_WEBHOOK_URL": server.url()}
    out = outbox(complaints, values, "slack", "webhook")
    begin = time.monotonic()
    for notice in numbered(3):
        out.send(notice)
    assert time.monotonic() - begin < 10
    server.wait_for(3)
    out.close(timeout_s=0.2)
    assert time.monotonic() - begin < 30
    assert complaints.said == [f"slack: not sent: Notice {n}: no time left" for n in range(1, 4)]


def test_each_failure_is_complained_about_once_and_the_next_notice_is_still_tried(serve: ServerMaker) -> None:
    server, complaints = serve(Answer(status=404), Answer(), Answer(status=410)), Complaints()
    out = outbox(complaints, {"RALPH_WEBHOOK_URL": server.url()}, "webhook")
    for notice in numbered(3):
        out.send(notice)
    out.close(timeout_s=60)
    assert complaints.said == [
        "webhook: not sent: Notice 1: HTTP 404 from 127.0.0.1",
        "webhook: not sent: Notice 3: HTTP 410 from 127.0.0.1",
    ]
    assert threading.main_thread() not in complaints.threads


def test_behind_a_channel_that_hangs_old_progress_is_dropped_and_the_news_is_kept(serve: ServerMaker) -> None:
    server, complaints = serve(Bad.HANG), Complaints()
    out = outbox(complaints, {"RALPH_WEBHOOK_URL": server.url()}, "webhook")
    (started,) = numbered(1, event="started")
    out.send(started)
    server.wait_for(1)
    (blocked,) = numbered(1, event="blocked")
    out.send(blocked)
    for notice in numbered(40):
        out.send(notice)
    out.close(timeout_s=0)
    kept = [said.split(": ")[2] for said in complaints.said]
    assert kept == ["Notice 1", "Notice 1", *(f"Notice {n}" for n in range(23, 41))]


def test_after_the_end_nothing_more_is_taken(serve: ServerMaker) -> None:
    server, complaints = serve(), Complaints()
    out = outbox(complaints, {"RALPH_WEBHOOK_URL": server.url()}, "webhook")
    out.close(timeout_s=1)
    out.send(STARTED)
    assert server.received == []
