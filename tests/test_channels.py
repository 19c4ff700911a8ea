"""Channels: what a file may say, what arrives, what is said when it does not, and that nothing waits for it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server
from ralph_driver import eventually

from ralph import files
from ralph.channels import Channel, Notice, Outbox, configured, deliver, load
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
    @pytest.mark.parametrize("channel", BUILT_IN.values(), ids=BUILT_IN)
    def test_a_built_in_channel_explains_each_of_its_settings(self, channel: Channel) -> None:
        assert channel.needs
        assert set(channel.help) == set(channel.names)

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

    @pytest.mark.parametrize(
        ("values", "names"),
        [
            pytest.param({"RALPH_TELEGRAM_BOT_TOKEN": "1:x"}, [], id="half of what telegram needs"),
            pytest.param({"RALPH_SLACK_WEBHOOK_URL": " "}, [], id="set to nothing"),
            pytest.param({"RALPH_SLACK_WEBHOOK_URL": "https://x/"}, ["slack"], id="all that it needs"),
        ],
    )
    def test_a_channel_is_on_when_it_has_all_it_needs(self, values: dict[str, str], names: list[str]) -> None:
        assert [channel.name for channel in configured(BUILT_IN.values(), values)] == names

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


FULL_SLACK = {"RALPH_SLACK_CHANNEL": "#b", "RALPH_SLACK_USERNAME": 'R"x', "RALPH_SLACK_ICON_EMOJI": ":x:"}
TELEGRAM = {"RALPH_TELEGRAM_API_URL": "URL/", "RALPH_TELEGRAM_BOT_TOKEN": "1:a", "RALPH_TELEGRAM_CHAT_ID": "-42"}


@pytest.mark.parametrize(
    ("channel", "values", "path", "sent"),
    [
        pytest.param(
            "slack",
            {"RALPH_SLACK_WEBHOOK_URL": "URL/hook", **FULL_SLACK},
            "/hook",
            {
                "text": f":rocket: *Ralph Started*\n```{BODY}```",
                "username": 'R"x',
                "icon_emoji": ":x:",
                "channel": "#b",
            },
            id="slack",
        ),
        pytest.param(
            "discord",
            {"RALPH_DISCORD_WEBHOOK_URL": "URL/hook", "RALPH_DISCORD_AVATAR_URL": "https://x.example/r.png"},
            "/hook",
            {
                "content": f"🚀 **Ralph Started**\n```\n{BODY}```",
                "username": "Ralph",
                "avatar_url": "https://x.example/r.png",
                "allowed_mentions": {"parse": []},
            },
            id="discord",
        ),
        pytest.param(
            "telegram",
            TELEGRAM,
            "/bot1:a/sendMessage",
            {"chat_id": "-42", "text": f"🚀 <b>Ralph Started</b>\n<pre>{BODY}</pre>", "parse_mode": "HTML"},
            id="telegram",
        ),
        pytest.param(
            "webhook",
            {"RALPH_WEBHOOK_URL": "URL/hook"},
            "/hook",
            {
                "event": "started",
                "title": "Ralph Started",
                "body": BODY,
                "message": f"Ralph Started\n{BODY}",
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
    values = {name: value.replace("URL", server.url("")) for name, value in values.items()}
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
    assert deliver(BUILT_IN["ntfy"], STARTED, {"RALPH_NTFY_URL": server.url("/topic?priority=4")}) == ""
    with_token, without = server.received
    assert with_token.path == "/topic?title=Ralph%20Started&tags=rocket"
    assert with_token.body.decode() == BODY
    assert with_token.headers["Authorization"] == "Bearer tk_1"
    assert without.path.startswith("/topic?priority=4&title=")
    assert "Authorization" not in without.headers


def test_a_proxy_of_the_environment_is_used(serve: ServerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve()
    monkeypatch.setenv("http_proxy", proxy.url())
    assert deliver(BUILT_IN["webhook"], STARTED, {"RALPH_WEBHOOK_URL": "http://hooks.example/x"}) == ""
    assert [request.path for request in proxy.received] == ["http://hooks.example/x"]


@pytest.mark.parametrize(
    ("answers", "tries", "failure"),
    [
        pytest.param([Answer(status=204)], 1, "", id="no content is a success"),
        pytest.param([Answer(status=500), Answer()], 2, "", id="a server that recovers"),
        pytest.param([Answer(status=429), Answer()], 2, "", id="too many requests, then not"),
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


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(Bad.HANG, "127.0.0.1: no answer within 0.2 s", id=Bad.HANG.value),
        pytest.param(Bad.DRIP_BODY, "HTTP 500 from 127.0.0.1: ...", id=Bad.DRIP_BODY.value),
    ],
)
def test_a_server_that_does_not_come_to_an_end_is_given_up_on(serve: ServerMaker, answer: Bad, failure: str) -> None:
    assert deliver(BUILT_IN["slack"], STARTED, slack(serve(answer)), timeout_s=0.5).startswith(failure)


@pytest.mark.parametrize("address", ["hooks.slack.com/services/x", "file:///etc/passwd", "http://[::1"])
def test_what_is_no_web_address_is_told_without_showing_it(address: str) -> None:
    failure = deliver(BUILT_IN["slack"], STARTED, {"RALPH_SLACK_WEBHOOK_URL": address})
    assert failure == "its address is no web address"


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


class TestPrograms:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HOME", str(tmp_path))
        return tmp_path

    def tell(self, program: Path | str, notice: Notice = STARTED, timeout_s: float = 15) -> str:
        values = {"RALPH_CUSTOM_NOTIFY_SCRIPT": str(program)}
        return deliver(BUILT_IN["custom"], notice, values, timeout_s=timeout_s)

    def test_a_script_of_the_home_gets_the_plain_message_as_its_only_argument_and_may_fail(self, home: Path) -> None:
        script(home / "my notify", f"printf '%s|' $# \"$@\" >'{home}/got'", "exit 7")
        assert self.tell("~/my notify") == ""
        assert (home / "got").read_text() == f"1|Ralph Started\n{BODY}|"

    def test_a_text_cannot_become_a_command(self, home: Path) -> None:
        nasty = "$(touch PWNED) `touch PWNED`; {{ 7 * 7 }} -n 'x\" \\n \x1b[2J\0"
        notice = Notice(event="blocked", title="Ralph Blocked", body=nasty)
        assert self.tell(script(home / "notify", f"printf %s \"$1\" >'{home}/got'"), notice) == ""
        assert (home / "got").read_text() == "Ralph Blocked\n" + nasty.replace("\x1b", "\ufffd").replace("\0", "\ufffd")

    def test_one_that_is_missing_or_hangs_is_told(self, home: Path) -> None:
        assert self.tell("~/gone") == f"{home}/gone: No such file or directory"
        hangs = script(home / "notify", "sleep 60")
        assert self.tell(hangs, timeout_s=0.3) == f"{hangs}: still running after 0.3 s"

    def test_apprise_gets_title_and_body_and_says_whether_they_got_through(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(home), prepend=":")
        program = script(home / "apprise", f"printf '%s|' \"$@\" >'{home}/got'", "exit $(cat $0.code)")
        (home / "apprise.code").write_text("0")
        assert deliver(BUILT_IN["apprise"], STARTED, {"RALPH_APPRISE": "apprise"}) == ""
        assert (home / "got").read_text() == f"--title=Ralph Started|--body={BODY}|"
        (home / "apprise.code").write_text("3")  # it found no service to notify
        empty = Notice(event="test", title="-- Ralph Test", body="")
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
    channel = own(
        'needs = ["RALPH_OWN_URL"]\n[request]\nmethod = "GET"\nurl = "{{ RALPH_OWN_URL }}"\n'
        'headers = {X-Token = "secret"}\n'
    )
    assert deliver(channel, STARTED, {"RALPH_OWN_URL": server.url()}) == "HTTP 302 from 127.0.0.1"
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("request_", "failure"),
    [
        pytest.param('url = "{{ titel }}"', "'titel' is undefined", id="a variable that does not exist"),
        pytest.param('url = "{{ title "', "TemplateSyntaxError: ", id="a template with an open end"),
        pytest.param("url = \"{{ ''.__class__ }}\"", "SecurityError: ", id="a template that looks around"),
        pytest.param('method = "PUT"', "its address is no web address", id="no address"),
    ],
)
def test_a_mistake_in_a_channel_of_ones_own_is_told(own: Callable[[str], Channel], request_: str, failure: str) -> None:
    channel = own(f"[request]\n{request_}\n")
    assert failure in deliver(channel, STARTED, {})


class TestOutbox:
    def test_notices_arrive_in_order_and_each_failure_is_told_once(self, serve: ServerMaker, said: list[str]) -> None:
        server = serve(Answer(status=404), Answer(), Answer(status=410))
        out = Outbox([BUILT_IN["webhook"]], {"RALPH_WEBHOOK_URL": server.url()}, said.append)
        for notice in numbered(3):
            out.send(notice)
        eventually(lambda: not out.pending())
        assert [json.loads(request.body)["title"] for request in server.received] == [
            "Notice 1",
            "Notice 2",
            "Notice 3",
        ]
        assert said == [
            "webhook: not sent: Notice 1: HTTP 404 from 127.0.0.1",
            "webhook: not sent: Notice 3: HTTP 410 from 127.0.0.1",
        ]

    def test_a_channel_that_hangs_delays_neither_the_loop_nor_other_channels(
        self, serve: ServerMaker, said: list[str]
    ) -> None:
        hanging, server = serve(Bad.DRIP), serve()
        values = {**slack(hanging), "RALPH_WEBHOOK_URL": server.url()}
        out = Outbox([BUILT_IN["slack"], BUILT_IN["webhook"]], values, said.append)
        for notice in numbered(3):
            out.send(notice)
        server.wait_for(3)
        out.close()
        assert not out.pending()
        of_slack = [line for line in said if line.startswith("slack")]
        assert of_slack == [f"slack: not sent: Notice {n}: no time left" for n in range(1, 4)]

    def test_behind_a_channel_that_hangs_the_oldest_are_dropped(self, serve: ServerMaker, said: list[str]) -> None:
        server = serve(Bad.HANG)
        out = Outbox([BUILT_IN["webhook"]], {"RALPH_WEBHOOK_URL": server.url()}, said.append)
        first, *others = numbered(40)
        out.send(first)
        server.wait_for(1)
        for notice in others:
            out.send(notice)
        out.close()
        assert [line.split(": ")[2] for line in said] == ["Notice 1", *(f"Notice {n}" for n in range(21, 41))]


def monitor(url: str, said: list[str]) -> Outbox:
    """What tells only a monitor."""
    return Outbox([], {}, said.append, monitor=url)


class TestHeartbeat:
    def test_beats_during_a_beat_become_one_and_nobody_waits_for_them(
        self, serve: ServerMaker, said: list[str]
    ) -> None:
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

    def test_a_server_that_recovers_or_has_moved_gets_it(self, serve: ServerMaker, said: list[str]) -> None:
        moved = [Answer(status=301, location="/a"), Answer(status=307, location="b")]
        server = serve(Answer(status=500), *moved, Answer())
        heartbeat = monitor(server.url("/ping"), said)
        heartbeat.beat()
        eventually(lambda: not heartbeat.pending())
        assert ([request.path for request in server.received], said) == (["/ping", "/ping", "/a", "/b"], [])

    def test_failures_in_a_row_are_one_complaint_and_a_good_beat_ends_the_row(
        self, serve: ServerMaker, said: list[str]
    ) -> None:
        gone = Answer(status=404)
        heartbeat = monitor(serve(gone, gone, Answer(), gone).url(SECRET), said)
        for complaints in (1, 1, 1, 2):
            heartbeat.beat()
            eventually(lambda: not heartbeat.pending())
            assert said == ["heartbeat: not sent: HTTP 404 from 127.0.0.1"] * complaints

    def test_a_beat_that_the_end_gives_up_on_is_told(self, serve: ServerMaker, said: list[str]) -> None:
        server = serve(Bad.HANG)
        heartbeat = monitor(server.url(SECRET), said)
        heartbeat.beat()
        server.wait_for(1)
        heartbeat.close()
        assert said == ["heartbeat: not sent: no time left"]
