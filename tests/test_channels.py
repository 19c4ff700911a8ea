"""Channels: what a file may say, what arrives, what is said when it does not, and that nothing waits for it."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import Answer, Server
from ralph_driver import executable

from ralph.errors import RalphError
from ralph.notify.channels import (
    Channel,
    Notice,
    configured_channels,
    deliver_notice,
    fill_templates,
    read_channel_files,
)

BUILT_IN = read_channel_files()
STARTED = Notice("started", "Ralph Started", "Plan: feature\nMode: build")
MARKUP = Notice("started", "a*b_c & <d>", "```\n@everyone <b>&amp;`")
SECRET = "/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def own(home: Path, text: str, name: str = "own") -> Channel:
    """A channel of one's own."""
    folder = home / ".ralph" / "notify"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)
    return read_channel_files()[name]


PLATFORMS = r"""
slack RALPH_SLACK_WEBHOOK_URL=URL/hook RALPH_SLACK_CHANNEL=#b RALPH_SLACK_USERNAME=R
/hook {"text": ":rocket: *a*b_c &amp; &lt;d&gt;*\n```'''\n@everyone &lt;b&gt;&amp;amp;'```", "username": "R",
"icon_emoji": ":robot_face:", "channel": "#b"}

discord RALPH_DISCORD_WEBHOOK_URL=URL/hook
/hook {"content": "🚀 **a\\*b\\_c & \\<d\\>**\n```\n'''\n@everyone <b>&amp;'```", "username": "Ralph",
"allowed_mentions": {"parse": []}}

telegram RALPH_TELEGRAM_API_URL=URL/ RALPH_TELEGRAM_BOT_TOKEN=1:a RALPH_TELEGRAM_CHAT_ID=-42
/bot1:a/sendMessage {"text": "🚀 <b>a*b_c &amp; &lt;d&gt;</b>\n<pre>```\n@everyone &lt;b&gt;&amp;amp;`</pre>",
"chat_id": "-42", "parse_mode": "HTML"}

webhook RALPH_WEBHOOK_URL=URL/hook
/hook {"event": "started", "title": "a*b_c & <d>", "body": "```\n@everyone <b>&amp;`",
"message": "a*b_c & <d>\n```\n@everyone <b>&amp;`", "emoji": "🚀"}

ntfy RALPH_NTFY_URL=URL/topic?priority=4 RALPH_NTFY_TOKEN=tk_1
/topic?priority=4&title=a%2Ab_c%20%26%20%3Cd%3E&tags=rocket "```\n@everyone <b>&amp;`"
"""


@pytest.mark.parametrize("platform", PLATFORMS.strip().split("\n\n"), ids=lambda platform: platform.split()[0])
def test_a_platform_gets_what_it_expects_and_shows_markup_instead_of_obeying_it(
    server: Server, home: Path, platform: str
) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (home / ".netrc").chmod(0o600)
    values, _, sent = platform.partition("\n")
    channel, *words = values.replace("URL/", server.url("/")).split()
    settings = dict(word.split("=", 1) for word in words)
    assert deliver_notice(BUILT_IN[channel], MARKUP, settings) == ""
    path, _, body = sent.replace("'", "\N{MODIFIER LETTER GRAVE ACCENT}").partition(" ")
    (asked,) = server.received
    got = json.loads(asked.body) if asked.headers["Content-Type"] == "application/json" else asked.body.decode()
    assert (asked.command, asked.path, got) == ("POST", path, json.loads(body))
    token = settings.get("RALPH_NTFY_TOKEN")
    assert asked.headers["Authorization"] == (f"Bearer {token}" if token else None)


LEAKS = f"no hook: https://x.example{SECRET} {SECRET} " + json.dumps(SECRET).replace("/", "\\/") + "\x1b[31mx\n" * 1000


ANSWERS = {
    "no content is a success": ([Answer(204)], 1, ""),
    "a server that recovers": ([Answer(500), Answer()], 2, ""),
    "404": ([Answer(404, "no_service\n")], 1, ": HTTP 404: no_service"),
    "a redirect, which loses the text": ([Answer(302)], 1, ": HTTP 302"),
    "no answer": ([], 2, ": no answer within 0.2 s"),
    "an answer that repeats the secret": ([Answer(410, LEAKS)], 1, ": HTTP 410: no hook: x.example "),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_is_a_success_or_a_failure_that_is_reported_without_secrets(server: Server, what: str) -> None:
    answers, tries, failure = ANSWERS[what]
    server.answers = answers or [Answer()]
    if not answers:
        server.go.clear()
    values = {"RALPH_SLACK_WEBHOOK_URL": server.url(SECRET)}
    told = deliver_notice(BUILT_IN["slack"], STARTED, values, timeout_s=3 if answers else 0.5)
    assert (told.removeprefix(server.host)[: len(failure) or None], len(server.received)) == (failure, tries)
    assert ("abcdef" in told, "T0000" in told, told.isprintable(), len(told) <= 250) == (False, False, True, True)


def test_of_a_secret_that_begins_as_another_no_rest_is_shown() -> None:
    names = ("RALPH_KEY", "RALPH_LONG_KEY")
    channel = Channel(Path("mine.toml"), "mine", needs=names, secret=names, command=["/nowhere/{{ RALPH_LONG_KEY }}"])
    told = deliver_notice(channel, STARTED, {"RALPH_KEY": "abcdefghij", "RALPH_LONG_KEY": "abcdefghij-and-more"})
    assert "'/nowhere/***'" in told


def test_a_program_gets_the_notice_as_it_is_and_its_failure_counts_where_its_channel_says_so(home: Path) -> None:
    def tell(channel: str, program: str, notice: Notice, timeout_s: float = 15) -> str:
        return deliver_notice(BUILT_IN[channel], notice, {BUILT_IN[channel].needs[0]: program}, timeout_s=timeout_s)

    program = executable(home / "my notify", f"printf '%s|' $# \"$@\" >'{home}/got'\nexit 3")
    nasty = "$(touch PWNED) `touch PWNED`; {{ 7 * 7 }} -n 'x\" \\n \x1b[2J\0"
    assert tell("custom", "~/my notify", Notice("blocked", "Ralph Blocked", nasty)) == ""
    plain = nasty.replace("\x1b", "\ufffd").replace("\0", "\ufffd")
    assert (home / "got").read_text() == f"1|Ralph Blocked\n{plain}|"
    assert tell("apprise", str(program), STARTED) == f"{program}: exit code 3"
    assert (home / "got").read_text() == f"2|--title=Ralph Started|--body={STARTED.body}|"
    tell("apprise", str(program), Notice("test", "-- Test"))
    assert "|--body=-- Test|" in (home / "got").read_text(), "else it would read a body from its input"
    assert f"No such file or directory: '{home}/gone'" in tell("custom", "~/gone", STARTED)
    executable(program, "sleep 60")
    assert tell("custom", str(program), STARTED, 0.3) == f"{program}: killed by signal 9; it has 0.3 s"


def test_a_channel_of_ones_own_is_added_or_replaces_one_and_may_nest_its_json(server: Server, home: Path) -> None:
    own(home, 'needs = ["RALPH_PAGER"]\ncommand = ["{{ RALPH_PAGER }}"]\n', "slack")
    channel = own(
        home,
        'needs = ["RALPH_OWN_URL"]\n[request]\nmethod = "PUT"\nurl = "{{ RALPH_OWN_URL }}"\n'
        'headers = {X-Title = "{{ emoji }} {{ title }}", X-None = ""}\n'
        'json = {parts = ["{{ title }}", 1, {deep = "{{ event }}", none = "{{ \'\' }}"}], loud = false}\n',
    )
    (home / ".ralph" / "notify" / "notes.txt").write_text("no channel")
    assert (set(read_channel_files()), read_channel_files()["slack"].needs) == ({*BUILT_IN, "own"}, ["RALPH_PAGER"])
    values = {"RALPH_TELEGRAM_BOT_TOKEN": "1:x", "RALPH_PAGER": "", "RALPH_OWN_URL": server.url()}
    assert [one.name for one in configured_channels(values)] == ["own"], "on is what has all it needs"
    assert deliver_notice(channel, STARTED, values) == ""
    (request,) = server.received
    assert (request.command, "X-None" in request.headers) == ("PUT", False)
    assert json.loads(request.body) == {"parts": ["Ralph Started", 1, {"deep": "started"}], "loud": False}
    assert request.headers["X-Title"].encode("latin-1").decode() == "🚀 Ralph Started"


def test_a_mistake_in_a_channel_of_ones_own_is_reported(home: Path) -> None:
    for request, failure in {
        'url = "file:///etc/passwd"': "No connection adapters",
        'url = "http://127.0.0.1:9/x"': "127.0.0.1:9: Connection refused",
        'url = "{{ titel }}"': "'titel' is undefined",
        "url = \"{{ ''.__class__ }}\"": "SecurityError: ",
        'method = "PUT"': "own.toml: TypeError: ",
    }.items():
        assert failure in deliver_notice(own(home, f"[request]\n{request}\n"), STARTED, {}, timeout_s=0.5)
    for text, complaint in {"needs = RALPH_X": "line 1", 'need = ["RALPH_X"]': "keyword argument 'need'"}.items():
        with pytest.raises(RalphError, match=f"^{home}/.ralph/notify/own.toml: not a channel file: .*{complaint}"):
            own(home, text)


@pytest.mark.parametrize("text", ["a", "&<>", "`", "\\*", "\n ", "\x1b", "é", "汉"])
def test_a_long_text_is_cut_where_its_platform_would_refuse_it(text: str) -> None:
    def sent(channel: str) -> Any:
        one = BUILT_IN[channel]
        variables = dict.fromkeys(one.setting_names, "x") | Notice("progress", text * 5000, text * 5000).template_values
        return fill_templates(one.request, variables)

    assert 3800 <= len(html.unescape(re.sub("<.*?>", "", sent("telegram")["json"]["text"]))) <= 4096
    assert 1500 <= len(sent("discord")["json"]["content"]) <= 2000
    assert 3000 <= len(html.unescape(sent("slack")["json"]["text"])) <= 3300
    assert 1000 <= len(sent("ntfy")["body"].encode()) <= 4096
