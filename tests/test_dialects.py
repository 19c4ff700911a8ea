"""Any text becomes a message that its platform accepts, and shows as it was meant."""

import html
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import files
from ralph.channels import Notice, dialects, load

CHANNELS = {channel.name: channel for channel in load([files.data("notify")])}
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
    variables = CHANNELS[channel].settings(VALUES) | notice.variables
    request: dict[str, Any] = dialects.filled(CHANNELS[channel].request, variables)
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


@given(text=st.text() | markup, most=st.integers(min_value=3, max_value=30))
def test_what_fits_stays_and_what_does_not_is_cut_between_characters(text: str, most: int) -> None:
    for short, size_of in (
        (dialects.cut(text, most), utf16_units),
        (dialects.cut_bytes(text, most), lambda text: len(text.encode())),
    ):
        assert size_of(short) <= most
        assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
        assert (short == text) == (size_of(text) <= most)


@given(text=markup)
def test_text_in_a_code_block_keeps_its_length_and_its_lone_backticks(text: str) -> None:
    safe = dialects.fenced(text)
    assert len(safe) == len(text)
    assert "``" not in safe
    assert safe.strip("`") == safe
    assert dialects.fenced("run `make`, then") == "run `make`, then"


def notice_of(body: str, title: str = "Ralph Started") -> Notice:
    return Notice(event="started", title=title, body=body)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("a\x1b[2Jb\x00\x7f\x9bc", "a�[2Jb���c", id="control characters cannot drive a terminal"),
        pytest.param("a\tb\nc\r\nd", "a\tb\nc\nd", id="tabs and lines stay"),
        pytest.param(b"caf\xe9".decode("utf-8", "surrogateescape"), "caf?", id="a name that is not UTF-8"),
        pytest.param("{{ title }}{% raw %}${HOME}", "{{ title }}{% raw %}${HOME}", id="a text is no template"),
        pytest.param('"}],\\u0041\\n', '"}],\\u0041\\n', id="a text is no JSON"),
    ],
)
def test_a_text_arrives_as_it_is(text: str, sent: str) -> None:
    assert request_for("webhook", notice_of(text))["json"]["body"] == sent


def test_markup_in_a_title_is_shown_and_not_obeyed() -> None:
    notice = notice_of("", title="a*b_c\n& <d> ")
    assert request_for("discord", notice)["json"]["content"] == r"🚀 **a\*b\_c & \<d\>**"
    assert request_for("telegram", notice)["json"]["text"] == "🚀 <b>a*b_c &amp; &lt;d&gt;</b>"
    assert request_for("slack", notice)["json"]["text"] == ":rocket: *a*b_c &amp; &lt;d&gt;*"
