"""Channels: what a file may say, what arrives, what is said when it does not, and that nothing waits for it."""

import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import eventually

from ralph import files
from ralph.channels import Channel, Notice, Outbox, configured, deliver, dialects, load
from ralph.errors import RalphError

BUILT_IN = {channel.name: channel for channel in load([files.data("notify")])}
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
def own(tmp_path: Path) -> Callable[[str], Channel]:
    """Makes a channel of one's own from TOML."""

    def make(text: str) -> Channel:
        (tmp_path / "own.toml").write_text(text)
        return load([tmp_path])[0]

    return make


@pytest.fixture
def said() -> list[str]:
    """The complaints."""
    return []


def slack(server: Server) -> dict[str, str]:
    return {"RALPH_SLACK_WEBHOOK_URL": server.url(SECRET)}


def numbered(count: int) -> list[Notice]:
    return [Notice(event="progress", title=f"Notice {n}", body="") for n in range(1, count + 1)]


class TestFiles:
    def test_the_built_in_ones_explain_each_of_their_settings(self) -> None:
        assert [name for name, one in BUILT_IN.items() if not one.needs or {*one.help} != {*one.names}] == []

    def test_a_persons_file_adds_a_channel_or_replaces_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        folder = tmp_path / ".ralph" / "notify"
        assert len(load()) == len(BUILT_IN), "it may be missing"
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("no channel")
        for name in ("slack", "pager"):
            (folder / f"{name}.toml").write_text('needs = ["RALPH_PAGER"]\ncommand = ["{{ RALPH_PAGER }}"]\n')
        channels = {channel.name: channel for channel in load()}
        assert set(channels) == {*BUILT_IN, "pager"}
        assert channels["slack"].needs == ["RALPH_PAGER"]
        assert channels["pager"].title == "Pager"

    def test_a_channel_is_on_when_it_has_all_it_needs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        values = {"RALPH_TELEGRAM_BOT_TOKEN": "1:x", "RALPH_SLACK_WEBHOOK_URL": " ", "RALPH_WEBHOOK_URL": "https://x/"}
        assert [channel.name for channel in configured(values)] == ["webhook"]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            pytest.param("needs = RALPH_X", "line 1", id="no TOML"),
            pytest.param('need = ["RALPH_X"]\ncommand = ["x"]', "unexpected keyword argument 'need'", id="a typo"),
            pytest.param("secret = ['RALPH_X']\ncommand = ['x']", "RALPH_X is neither in needs nor", id="of nothing"),
            pytest.param("\ud800", "utf-8", id="no text"),
        ],
    )
    def test_a_malformed_one_is_named_with_what_is_wrong(self, tmp_path: Path, text: str, complaint: str) -> None:
        (tmp_path / "mine.toml").write_bytes(text.encode(errors="surrogatepass"))
        with pytest.raises(RalphError, match=f"^{tmp_path}/mine.toml: .*{complaint}"):
            load([tmp_path])


PLATFORMS = [
    (
        "slack",
        'RALPH_SLACK_WEBHOOK_URL=URL/hook RALPH_SLACK_CHANNEL=#b RALPH_SLACK_USERNAME=R"x',
        (
            '/hook {"text": ":rocket: *Ralph Started*\\n```BODY```", "username": "R\\"x", '
            '"icon_emoji": ":robot_face:", "channel": "#b"}'
        ),
    ),
    (
        "discord",
        "RALPH_DISCORD_WEBHOOK_URL=URL/hook",
        (
            '/hook {"content": "🚀 **Ralph Started**\\n```\\nBODY```", "username": "Ralph", '
            '"allowed_mentions": {"parse": []}}'
        ),
    ),
    (
        "telegram",
        "RALPH_TELEGRAM_API_URL=URL/ RALPH_TELEGRAM_BOT_TOKEN=1:a RALPH_TELEGRAM_CHAT_ID=-42",
        (
            '/bot1:a/sendMessage {"chat_id": "-42", "text": "🚀 <b>Ralph Started</b>\\n<pre>BODY</pre>", '
            '"parse_mode": "HTML"}'
        ),
    ),
    (
        "webhook",
        "RALPH_WEBHOOK_URL=URL/hook",
        (
            '/hook {"event": "started", "title": "Ralph Started", "body": "BODY", "message": "Ralph Started\\nBODY", '
            '"emoji": "🚀"}'
        ),
    ),
]


@pytest.mark.parametrize(("channel", "values", "sent"), PLATFORMS, ids=[row[0] for row in PLATFORMS])
def test_a_channel_sends_what_its_platform_expects(serve: ServerMaker, channel: str, values: str, sent: str) -> None:
    server = serve()
    given = dict(word.split("=", 1) for word in values.replace("URL/", server.url("/")).split())
    assert deliver(BUILT_IN[channel], STARTED, given) == ""
    (request,) = server.received
    path, _, body = sent.replace("BODY", json.dumps(BODY)[1:-1]).partition(" ")
    assert (request.method, request.path, json.loads(request.body)) == ("POST", path, json.loads(body))
    assert request.headers["Content-Type"] == "application/json"


def test_ntfy_gets_its_title_and_emoji_in_the_address_and_its_token_in_a_header(
    serve: ServerMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = serve()
    values = {"RALPH_NTFY_URL": server.url("/topic"), "RALPH_NTFY_TOKEN": "tk_1"}
    assert deliver(BUILT_IN["ntfy"], STARTED, values) == ""
    assert deliver(BUILT_IN["ntfy"], STARTED, {"RALPH_NTFY_URL": server.url("/topic?priority=4")}) == ""
    with_token, without = server.received
    assert with_token.path == "/topic?title=Ralph%20Started&tags=rocket"
    assert with_token.body.decode() == BODY
    assert with_token.headers["Authorization"] == "Bearer tk_1"
    assert without.path.startswith("/topic?priority=4&title=")
    assert "Authorization" not in without.headers


@pytest.mark.parametrize(
    ("answers", "tries", "failure"),
    [
        pytest.param([Answer(status=204)], 1, "", id="no content is a success"),
        pytest.param([Answer(status=500), Answer()], 2, "", id="a server that recovers"),
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
    assert deliver(BUILT_IN["slack"], STARTED, slack(server)) == failure
    assert len(server.received) == tries


def test_a_server_that_does_not_come_to_an_end_is_given_up_on(serve: ServerMaker) -> None:
    for answer, failure in ((Bad.HANG, "127.0.0.1: no answer within 0.2 s"), (Bad.DRIP_BODY, "HTTP 500 from")):
        assert deliver(BUILT_IN["slack"], STARTED, slack(serve(answer)), timeout_s=0.5).startswith(failure)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("no such hook: {url}", id="the whole address"),
        pytest.param('{{"url": "{escaped}"}}', id="its path as JSON writes it"),
        pytest.param("\x1b[31mx\n" * 1000 + "{path}", id="after much that is no text"),
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
    assert len(failure) <= 250
    assert failure.isprintable()


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def tell(program: Path | str, notice: Notice = STARTED, timeout_s: float = 15) -> str:
    values = {"RALPH_CUSTOM_NOTIFY_SCRIPT": str(program)}
    return deliver(BUILT_IN["custom"], notice, values, timeout_s=timeout_s)


def test_a_script_gets_the_plain_message_as_its_only_argument_and_may_fail(home: Path) -> None:
    script(home / "my notify", f"printf '%s|' $# \"$@\" >'{home}/got'", "exit 7")
    nasty = "$(touch PWNED) `touch PWNED`; {{ 7 * 7 }} -n 'x\" \\n \x1b[2J\0"
    assert tell("~/my notify", Notice("blocked", "Ralph Blocked", nasty)) == ""
    plain = nasty.replace("\x1b", "\ufffd").replace("\0", "\ufffd")
    assert (home / "got").read_text() == f"1|Ralph Blocked\n{plain}|"
    assert tell("~/gone") == f"{home}/gone: No such file or directory"
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
    channel = own(f'[request]\nmethod = "GET"\nurl = "{server.url()}"\nheaders = {{X-Token = "secret"}}\n')
    assert deliver(channel, STARTED, {}) == "HTTP 302 from 127.0.0.1"
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("request_", "failure"),
    [
        pytest.param('url = "file:///etc/passwd"', "its address is no web address", id="another kind of address"),
        pytest.param('url = "{{ titel }}"', "'titel' is undefined", id="a variable that does not exist"),
        pytest.param("url = \"{{ ''.__class__ }}\"", "SecurityError: ", id="a template that looks around"),
        pytest.param('method = "PUT"', "its address is no web address", id="no address"),
    ],
)
def test_a_mistake_in_a_channel_of_ones_own_is_told(own: Callable[[str], Channel], request_: str, failure: str) -> None:
    channel = own(f"[request]\n{request_}\n")
    assert failure in deliver(channel, STARTED, {})


def test_notices_arrive_in_order_and_each_failure_is_told_once(serve: ServerMaker, said: list[str]) -> None:
    server = serve(Answer(status=404), Answer(), Answer(status=410))
    out = Outbox([BUILT_IN["webhook"]], {"RALPH_WEBHOOK_URL": server.url()}, said.append)
    for notice in numbered(3):
        out.send(notice)
    eventually(lambda: not out.pending())
    assert [json.loads(one.body)["title"] for one in server.received] == ["Notice 1", "Notice 2", "Notice 3"]
    assert said == [
        "webhook: not sent: Notice 1: HTTP 404 from 127.0.0.1",
        "webhook: not sent: Notice 3: HTTP 410 from 127.0.0.1",
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


def monitor(url: str, said: list[str]) -> Outbox:
    """What tells only a monitor."""
    return Outbox([], {}, said.append, monitor=url)


def test_beats_during_a_beat_become_one_and_nobody_waits_for_them(serve: ServerMaker, said: list[str]) -> None:
    server = serve(Answer(held=True))
    heartbeat = monitor(server.url("/ping?from=ralph"), said)
    heartbeat.beat()
    server.wait_for(1)
    for _ in range(9):
        heartbeat.beat()
    assert heartbeat.pending()
    server.let_go.set()
    eventually(lambda: not heartbeat.pending())
    (request,) = server.received
    assert (request.method, request.path, request.body, said) == ("GET", "/ping?from=ralph", b"", [])


def test_a_monitor_that_recovers_or_has_moved_gets_it(serve: ServerMaker, said: list[str]) -> None:
    moved = [Answer(status=301, location="/a"), Answer(status=307, location="b")]
    server = serve(Answer(status=500), *moved, Answer())
    heartbeat = monitor(server.url("/ping"), said)
    heartbeat.beat()
    eventually(lambda: not heartbeat.pending())
    assert ([request.path for request in server.received], said) == (["/ping", "/ping", "/a", "/b"], [])


def test_failures_of_it_in_a_row_are_one_complaint(serve: ServerMaker, said: list[str]) -> None:
    gone = Answer(status=404)
    heartbeat = monitor(serve(gone, gone, Answer(), gone, Bad.HANG).url(SECRET), said)
    for complaints in (1, 1, 1, 2):
        heartbeat.beat()
        eventually(lambda: not heartbeat.pending())
        assert said == ["heartbeat: not sent: HTTP 404 from 127.0.0.1"] * complaints
    heartbeat.beat()
    heartbeat.close()
    assert said[2:] == ["heartbeat: not sent: no time left"]


# Any text becomes a message that its platform accepts, and shows as it was meant.

VALUES = {
    "RALPH_SLACK_WEBHOOK_URL": "https://slack.example/T0",
    "RALPH_DISCORD_WEBHOOK_URL": "https://discord.example/1",
    "RALPH_TELEGRAM_BOT_TOKEN": "1:x",
    "RALPH_TELEGRAM_CHAT_ID": "-42",
    "RALPH_NTFY_URL": "https://ntfy.example/topic",
    "RALPH_WEBHOOK_URL": "https://hook.example/",
}

markup = st.text(alphabet="`*_~<>&|\\[](){}%#@: \n\tab🚀é", max_size=40)
texts = st.builds(lambda text, times: text * times, st.text() | markup, st.sampled_from([1, 1, 1, 300]))
notices = st.builds(Notice, event=st.just("progress"), title=texts, body=texts)


def request_for(channel: str, notice: Notice) -> dict[str, Any]:
    variables = BUILT_IN[channel].settings(VALUES) | notice.variables
    request: dict[str, Any] = dialects.filled(BUILT_IN[channel].request, variables)
    return request


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


class Parsed(HTMLParser):
    """The tags of a text in order, and the text without them, as a reader sees it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


@given(notice=notices)
def test_each_platform_gets_what_it_accepts(notice: Notice) -> None:
    """Well-formed and within its limit: one code block, and no markup of the text's own."""
    body = dialects.clean(notice.body)

    seen = Parsed(request_for("telegram", notice)["json"]["text"])
    assert seen.tags == (["b", "/b", "pre", "/pre"] if body else ["b", "/b"])
    assert utf16_units(seen.text) <= 4096

    discord = request_for("discord", notice)["json"]
    assert utf16_units(discord["content"]) <= 2000
    assert discord["allowed_mentions"] == {"parse": []}
    assert not body or re.fullmatch(r"[^\n]*\*\*\n```\n(?:(?!```).)*[^`]```", discord["content"], re.DOTALL)

    slack = request_for("slack", notice)["json"]["text"]
    assert not set("<>") & set(slack)
    assert not re.search(r"&(?!amp;|lt;|gt;)", slack)
    assert len(html.unescape(slack)) <= 3300
    assert not body or re.search(r"\n```[^`](?:(?!```).)*(?<!`)```$", slack, re.DOTALL)

    ntfy = request_for("ntfy", notice)
    assert len(ntfy.get("body", "").encode()) <= 4096
    sent = parse_qs(urlsplit(ntfy["url"]).query, keep_blank_values=True)
    assert sent["title"] == [dialects.cut(" ".join(dialects.clean(notice.title).split()), 200)]

    assert request_for("webhook", notice)["json"].get("body", "") == body


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("a\x1b[2Jb\x00\x7f\x9bc", "a�[2Jb���c", id="control characters cannot drive a terminal"),
        pytest.param("a\tb\nc\r\nd", "a\tb\nc\nd", id="tabs and lines stay"),
        pytest.param(b"caf\xe9".decode("utf-8", "surrogateescape"), "caf?", id="a name that is not UTF-8"),
        pytest.param("{{ title }}{% raw %}${HOME}", "{{ title }}{% raw %}${HOME}", id="a text is no template"),
    ],
)
def test_a_text_arrives_as_it_is(text: str, sent: str) -> None:
    assert request_for("webhook", Notice("started", "Ralph Started", text))["json"]["body"] == sent


def test_markup_in_a_title_is_shown_and_not_obeyed() -> None:
    notice = Notice("started", "a*b_c\n& <d> ")
    assert request_for("discord", notice)["json"]["content"] == r"🚀 **a\*b\_c & \<d\>**"
    assert request_for("telegram", notice)["json"]["text"] == "🚀 <b>a*b_c &amp; &lt;d&gt;</b>"
    assert request_for("slack", notice)["json"]["text"] == ":rocket: *a*b_c &amp; &lt;d&gt;*"
