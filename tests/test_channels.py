"""Channels: what a file may say, what arrives, what is said when it does not, and that nothing waits for it."""

import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server
from hypothesis import given, settings
from hypothesis import strategies as st
from ralph_driver import eventually

from ralph.channels import Channel, Notice, Outbox, configured, deliver, filled, load
from ralph.errors import RalphError
from ralph.words import plain

BUILT_IN = {channel.name: channel for channel in load()}
BODY = "Plan: feature\nMode: build\nRepo: repo"
STARTED = Notice(event="started", title="Ralph Started", body=BODY)
SECRET = "/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"

ServerMaker = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerMaker]:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # no proxy leads to this machine
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def said() -> list[str]:
    """The complaints."""
    return []


def own(home: Path, text: str) -> Channel:
    """A channel of one's own."""
    folder = home / ".ralph" / "notify"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.toml").write_text(text)
    (channel,) = (one for one in load() if one.name == "own")
    return channel


def slack(server: Server) -> dict[str, str]:
    return {"RALPH_SLACK_WEBHOOK_URL": server.url(SECRET)}


def numbered(count: int) -> list[Notice]:
    return [Notice(event="progress", title=f"Notice {n}", body="") for n in range(1, count + 1)]


def test_a_persons_file_adds_a_channel_or_replaces_one(home: Path) -> None:
    folder = home / ".ralph" / "notify"
    assert len(load()) == len(BUILT_IN), "it may be missing"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("no channel")
    for name in ("slack", "pager"):
        (folder / f"{name}.toml").write_text('needs = ["RALPH_PAGER"]\ncommand = ["{{ RALPH_PAGER }}"]\n')
    channels = {channel.name: channel for channel in load()}
    assert set(channels) == {*BUILT_IN, "pager"}
    assert (channels["slack"].needs, channels["pager"].title) == (["RALPH_PAGER"], "Pager")
    values = {"RALPH_TELEGRAM_BOT_TOKEN": "1:x", "RALPH_PAGER": "", "RALPH_WEBHOOK_URL": "https://x/"}
    assert [channel.name for channel in configured(values)] == ["webhook"], "on is what has all it needs"


PLATFORMS = r"""
slack RALPH_SLACK_WEBHOOK_URL=URL/hook RALPH_SLACK_CHANNEL=#b RALPH_SLACK_USERNAME=R
/hook {"text": ":rocket: *Ralph Started*\n```BODY```", "username": "R", "icon_emoji": ":robot_face:",
"channel": "#b"}

discord RALPH_DISCORD_WEBHOOK_URL=URL/hook
/hook {"content": "🚀 **Ralph Started**\n```\nBODY```", "username": "Ralph", "allowed_mentions": {"parse": []}}

telegram RALPH_TELEGRAM_API_URL=URL/ RALPH_TELEGRAM_BOT_TOKEN=1:a RALPH_TELEGRAM_CHAT_ID=-42
/bot1:a/sendMessage {"chat_id": "-42", "text": "🚀 <b>Ralph Started</b>\n<pre>BODY</pre>", "parse_mode": "HTML"}

webhook RALPH_WEBHOOK_URL=URL/hook
/hook {"event": "started", "title": "Ralph Started", "body": "BODY", "message": "Ralph Started\nBODY",
"emoji": "🚀"}
"""


def test_a_channel_sends_what_its_platform_expects(serve: ServerMaker) -> None:
    server = serve()
    for number, platform in enumerate(PLATFORMS.strip().split("\n\n")):
        values, _, sent = platform.partition("\n")
        channel, *words = values.replace("URL/", server.url("/")).split()
        assert deliver(BUILT_IN[channel], STARTED, dict(word.split("=", 1) for word in words)) == ""
        path, _, body = sent.replace("BODY", json.dumps(BODY)[1:-1]).partition(" ")
        request = server.received[number]
        assert (request.method, request.path, json.loads(request.body)) == ("POST", path, json.loads(body))
        assert request.headers["Content-Type"] == "application/json"


def test_ntfy_gets_its_title_and_emoji_in_the_address_and_its_token_in_a_header(serve: ServerMaker, home: Path) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (home / ".netrc").chmod(0o600)
    server = serve()
    values = {"RALPH_NTFY_URL": server.url("/topic"), "RALPH_NTFY_TOKEN": "tk_1"}
    assert deliver(BUILT_IN["ntfy"], STARTED, values) == ""
    assert deliver(BUILT_IN["ntfy"], STARTED, {"RALPH_NTFY_URL": server.url("/topic?priority=4")}) == ""
    with_token, without = server.received
    assert (with_token.path, with_token.body.decode()) == ("/topic?title=Ralph%20Started&tags=rocket", BODY)
    assert with_token.headers["Authorization"] == "Bearer tk_1"
    assert without.path.startswith("/topic?priority=4&title=")
    assert "Authorization" not in without.headers


@pytest.mark.parametrize(
    ("answers", "tries", "failure"),
    [
        pytest.param([Answer(status=204)], 1, "", id="no content is a success"),
        pytest.param([Answer(status=500), Answer()], 2, "", id="a server that recovers"),
        pytest.param([Answer(status=404, body="no_service\n")], 1, "HTTP 404: no_service", id="404"),
        pytest.param([Answer(status=302, location="/login")], 1, "HTTP 302", id="a redirect, which loses the text"),
        pytest.param([Bad.RESET], 2, "Connection reset by peer", id="a connection that is reset twice"),
        pytest.param([Bad.HANG], 2, "no answer within 0.2 s", id="no answer"),
    ],
)
def test_an_answer_is_a_success_or_a_failure_that_is_told(
    serve: ServerMaker, answers: list[Answer | Bad], tries: int, failure: str
) -> None:
    server = serve(*answers)
    told = deliver(BUILT_IN["slack"], STARTED, slack(server), timeout_s=0.5)
    assert told == (f"{server.host}: {failure}" if failure else "")
    assert len(server.received) == tries


def test_an_answer_that_repeats_the_secret_is_shown_without_it(serve: ServerMaker) -> None:
    server = serve()
    body = f"no hook: {server.url(SECRET)} {SECRET} " + json.dumps(SECRET).replace("/", "\\/") + "\x1b[31mx\n" * 1000
    server.answers = [Answer(status=404, body=body)]
    failure = deliver(BUILT_IN["slack"], STARTED, slack(server))
    assert failure.startswith(f"{server.host}: HTTP 404: no hook: {server.host} ")
    assert ("abcdef" in failure, "T0000" in failure, failure.isprintable()) == (False, False, True)
    assert len(failure) <= 250


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def tell(program: Path | str, notice: Notice = STARTED, timeout_s: float = 15) -> str:
    values = {"RALPH_CUSTOM_NOTIFY_SCRIPT": str(program)}
    return deliver(BUILT_IN["custom"], notice, values, timeout_s=timeout_s)


def test_a_script_gets_the_plain_message_as_its_only_argument_and_may_fail(home: Path) -> None:
    script(home / "my notify", f"printf '%s|' $# \"$@\" >'{home}/got'", "exit 7")
    nasty = "$(touch PWNED) `touch PWNED`; {{ 7 * 7 }} -n 'x\" \\n \x1b[2J\0"
    assert tell("~/my notify", Notice("blocked", "Ralph Blocked", nasty)) == ""
    plain = nasty.replace("\x1b", "\ufffd").replace("\0", "\ufffd")
    assert (home / "got").read_text() == f"1|Ralph Blocked\n{plain}|"
    assert f"No such file or directory: '{home}/gone'" in tell("~/gone")
    hangs = script(home / "notify", "sleep 60")
    assert tell(hangs, timeout_s=0.3) == f"{hangs}: still running after 0.3 s"


def test_apprise_gets_title_and_body_and_says_whether_they_got_through(home: Path) -> None:
    program = script(home / "apprise", f"printf '%s|' \"$@\" >'{home}/got'", "exit $(cat $0.code)")
    (home / "apprise.code").write_text("0")
    assert deliver(BUILT_IN["apprise"], STARTED, {"RALPH_APPRISE": str(program)}) == ""
    assert (home / "got").read_text() == f"--title=Ralph Started|--body={BODY}|"
    (home / "apprise.code").write_text("3")  # it found no service to notify
    empty = Notice("test", "-- Ralph Test")
    assert deliver(BUILT_IN["apprise"], empty, {"RALPH_APPRISE": str(program)}) == f"{program}: exit code 3"
    told = (home / "got").read_text()
    assert told == "--title=-- Ralph Test|--body=-- Ralph Test|", "else it would read a body from its input"


def test_a_channel_of_ones_own_may_nest_its_json_and_use_any_letter_in_headers(serve: ServerMaker, home: Path) -> None:
    server = serve()
    channel = own(
        home,
        'needs = ["RALPH_OWN_URL"]\n[request]\nmethod = "PUT"\nurl = "{{ RALPH_OWN_URL }}"\n'
        'headers = {X-Title = "{{ emoji }} {{ title }}", X-None = ""}\n'
        'json = {parts = ["{{ title }}", 1, {deep = "{{ event }}", none = "{{ \'\' }}"}], loud = false}\n',
    )
    assert deliver(channel, STARTED, {"RALPH_OWN_URL": server.url()}) == ""
    (request,) = server.received
    assert request.method == "PUT"
    assert json.loads(request.body) == {"parts": ["Ralph Started", 1, {"deep": "started"}], "loud": False}
    assert request.headers["X-Title"].encode("latin-1").decode() == "🚀 Ralph Started"
    assert "X-None" not in request.headers


def test_a_mistake_in_a_channel_of_ones_own_is_told(home: Path) -> None:
    for request, failure in {
        'url = "file:///etc/passwd"': "No connection adapters",
        'url = "{{ titel }}"': "'titel' is undefined",
        "url = \"{{ ''.__class__ }}\"": "SecurityError: ",
        'method = "PUT"': "own.toml: TypeError: ",
    }.items():
        assert failure in deliver(own(home, f"[request]\n{request}\n"), STARTED, {}, timeout_s=0.5)
    for text, complaint in {"needs = RALPH_X": "line 1", 'need = ["RALPH_X"]': "keyword argument 'need'"}.items():
        with pytest.raises(RalphError, match=f"^{home}/.ralph/notify/own.toml: is no channel file: .*{complaint}"):
            own(home, text)


def test_notices_arrive_in_order_and_each_failure_is_told_once(serve: ServerMaker, said: list[str]) -> None:
    server = serve(Answer(status=404), Answer(), Answer(status=410))
    out = Outbox([BUILT_IN["webhook"]], {"RALPH_WEBHOOK_URL": server.url()}, said.append)
    for notice in numbered(3):
        out.send(notice)
    eventually(lambda: not out.pending())
    assert [json.loads(one.body)["title"] for one in server.received] == ["Notice 1", "Notice 2", "Notice 3"]
    assert said == [
        f"webhook: not sent: Notice 1: {server.host}: HTTP 404",
        f"webhook: not sent: Notice 3: {server.host}: HTTP 410",
    ]


def test_a_channel_that_hangs_delays_nobody_and_the_oldest_behind_it_are_dropped(
    serve: ServerMaker, said: list[str]
) -> None:
    hanging, server = serve(Bad.DRIP), serve()
    values = {**slack(hanging), "RALPH_WEBHOOK_URL": server.url()}
    out = Outbox([BUILT_IN["slack"], BUILT_IN["webhook"]], values, said.append)
    first, *others = numbered(40)
    out.send(first)
    hanging.wait_for(1)
    server.wait_for(1)
    for count, notice in enumerate(others, 2):
        out.send(notice)
        server.wait_for(count)
    eventually(lambda: len(server.received) == 40)
    out.close()
    assert not out.pending()
    of_slack = [line for line in said if line.startswith("slack")]
    assert of_slack == [f"slack: not sent: Notice {n}: no time left" for n in (1, *range(21, 41))]


def test_signs_of_life_become_one_on_the_way_and_each_failure_is_told(serve: ServerMaker, said: list[str]) -> None:
    gone = Answer(status=404)
    server = serve(Answer(held=True), Answer(status=500), Answer(), gone, gone, Answer(), gone, Bad.HANG)
    monitored = Outbox([BUILT_IN["heartbeat"]], {"RALPH_HEARTBEAT_URL": server.url(SECRET)}, said.append)
    monitored.send(STARTED)
    assert not monitored.pending(), "it lives on nothing else"
    monitored.send(Notice("alive"))
    server.wait_for(1)
    for _ in range(9):
        monitored.send(Notice("alive"))
    server.let_go.set()
    for complaints in (0, 0, 1, 2, 2, 3):
        eventually(lambda: not monitored.pending())
        assert said == [f"heartbeat: not sent: {server.host}: HTTP 404"] * complaints
        monitored.send(Notice("alive"))
    monitored.close()
    assert said[3:] == ["heartbeat: not sent: no time left"]
    first, *_ = server.received
    assert (first.method, first.path, first.body) == ("GET", SECRET, b"")


# A text becomes a message that its platform accepts, and shows as it was meant.

VALUES = {
    "RALPH_SLACK_WEBHOOK_URL": "https://slack.example/T0",
    "RALPH_DISCORD_WEBHOOK_URL": "https://discord.example/1",
    "RALPH_TELEGRAM_BOT_TOKEN": "1:x",
    "RALPH_TELEGRAM_CHAT_ID": "-42",
    "RALPH_NTFY_URL": "https://ntfy.example/topic",
    "RALPH_WEBHOOK_URL": "https://hook.example/",
}


def request_for(channel: str, notice: Notice) -> dict[str, Any]:
    one = BUILT_IN[channel]
    variables = {**dict.fromkeys(one.names, ""), **one.defaults, **VALUES, **notice.variables}
    request: dict[str, Any] = filled(BUILT_IN[channel].request, variables)
    return request


def test_markup_is_shown_and_not_obeyed() -> None:
    notice = Notice("started", "a*b_c\n& <d> ", "```\n@everyone <b>&amp;`")
    discord, slack = (request_for(name, notice)["json"] for name in ("discord", "slack"))
    harmless = "\N{MODIFIER LETTER GRAVE ACCENT}"
    said = "🚀 **a\\*b\\_c & \\<d\\>**\n```\n'''\n@everyone <b>&amp;'```"
    assert discord["content"].replace(harmless, "'") == said
    said = ":rocket: *a*b_c &amp; &lt;d&gt;*\n```'''\n@everyone &lt;b&gt;&amp;amp;'```"
    assert slack["text"].replace(harmless, "'") == said
    said = "🚀 <b>a*b_c &amp; &lt;d&gt;</b>\n<pre>```\n@everyone &lt;b&gt;&amp;amp;`</pre>"
    assert request_for("telegram", notice)["json"]["text"] == said


@settings(max_examples=30)
@given(
    text=st.text(alphabet=st.characters(codec="utf-8", max_codepoint=0xFFFF), min_size=1),
    times=st.sampled_from([1, 3000]),
)
def test_a_long_text_is_cut_where_its_platform_would_refuse_it(text: str, times: int) -> None:
    notice = Notice("progress", text * times, text * times)
    telegram, discord = (request_for(name, notice)["json"] for name in ("telegram", "discord"))
    shown = html.unescape(re.sub("<.*?>", "", telegram["text"], flags=re.DOTALL))
    assert len(shown.encode("utf-16-le")) // 2 <= 4096
    assert len(discord["content"].encode("utf-16-le")) // 2 <= 2000
    assert len(html.unescape(request_for("slack", notice)["json"]["text"])) <= 3300
    assert len(request_for("ntfy", notice).get("body", "").encode()) <= 4096
    assert request_for("webhook", notice)["json"].get("body", "") == plain(notice.body)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("a\x1b[2Jb\x00\x7f\x9bc", "a�[2Jb���c", id="control characters cannot drive a terminal"),
        pytest.param("a\tb\nc\r\nd", "a\tb\nc\nd", id="tabs and lines stay"),
        pytest.param(b"caf\xe9".decode("utf-8", "surrogateescape"), "caf�", id="a name that is not UTF-8"),
        pytest.param("{{ title }}{% raw %}${HOME}", "{{ title }}{% raw %}${HOME}", id="a text is no template"),
    ],
)
def test_a_text_arrives_as_it_is(text: str, sent: str) -> None:
    assert request_for("webhook", Notice("started", "Ralph Started", text))["json"]["body"] == sent
