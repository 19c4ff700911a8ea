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
from ralph.errors import RalphError

CHANNELS = {channel.name: channel for channel in load([files.data("notify")])}
VALUES = {
    "RALPH_SLACK_WEBHOOK_URL": "https://slack.example/T0",
    "RALPH_DISCORD_WEBHOOK_URL": "https://discord.example/1",
    "RALPH_TELEGRAM_BOT_TOKEN": "1:x",
    "RALPH_TELEGRAM_CHAT_ID": "-42",
    "RALPH_NTFY_URL": "https://ntfy.example/topic",
    "RALPH_WEBHOOK_URL": "https://hook.example/",
    "RALPH_CUSTOM_NOTIFY_SCRIPT": "/notify",
}

markup = st.text(alphabet="`*_~<>&|\\[](){}%#@: \n\tab🚀é", max_size=40)
texts = st.builds(lambda text, times: text * times, st.text() | markup, st.sampled_from([1, 1, 1, 300]))
notices = st.builds(
    Notice, event=st.just("progress"), title=texts, body=texts, emoji_code=st.sampled_from([":gear:", ":unknown:"])
)


def request_for(channel: str, notice: Notice) -> dict[str, Any]:
    request: dict[str, Any] = dialects.filled(CHANNELS[channel].request, notice, CHANNELS[channel].settings(VALUES))
    return request


def json_text(request: dict[str, Any], key: str) -> str:
    text = request["json"][key]
    assert isinstance(text, str)
    return text


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
def test_telegram_gets_well_formed_html_within_its_limit(notice: Notice) -> None:
    seen = Parsed(json_text(request_for("telegram", notice), "text"))
    assert seen.tags == (["b", "/b", "pre", "/pre"] if dialects.clean(notice.body) else ["b", "/b"])
    assert utf16_units(seen.text) <= 4096


@given(notice=notices)
def test_discord_gets_one_code_block_within_its_limit_and_nobody_is_pinged(notice: Notice) -> None:
    request = request_for("discord", notice)
    content = json_text(request, "content")
    assert utf16_units(content) <= 2000
    assert request["json"]["allowed_mentions"] == {"parse": []}
    if dialects.clean(notice.body):
        assert re.fullmatch(r"[^\n]*\*\*\n```\n(?:(?!```).)*[^`]```", content, re.DOTALL)


@given(notice=notices)
def test_slack_gets_one_code_block_and_no_markup_of_the_text(notice: Notice) -> None:
    text = json_text(request_for("slack", notice), "text")
    assert not set("<>") & set(text)
    assert not re.search(r"&(?!amp;|lt;|gt;)", text)
    assert len(html.unescape(text)) <= 3300
    if dialects.clean(notice.body):
        assert re.search(r"\n```[^`](?:(?!```).)*(?<!`)```$", text, re.DOTALL)


@given(notice=notices)
def test_ntfy_gets_any_text_within_its_limit_and_the_title_in_the_address(notice: Notice) -> None:
    request = request_for("ntfy", notice)
    assert len(request.get("body", "").encode()) <= 4096
    sent = parse_qs(urlsplit(request["url"]).query, keep_blank_values=True)
    assert sent["title"] == [dialects.cut(" ".join(dialects.clean(notice.title).split()), 200)]


@given(notice=notices)
def test_a_json_webhook_gets_the_whole_text(notice: Notice) -> None:
    request = request_for("webhook", notice)
    assert request["json"].get("body", "") == dialects.clean(notice.body)


@given(text=st.text() | markup, units=st.integers(min_value=1, max_value=30))
def test_what_fits_stays_and_what_does_not_is_cut(text: str, units: int) -> None:
    short = dialects.cut(text, units)
    assert utf16_units(short) <= units
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
    assert (short == text) == (utf16_units(text) <= units)


@given(text=st.text(), size=st.integers(min_value=3, max_value=30))
def test_bytes_are_cut_between_characters(text: str, size: int) -> None:
    short = dialects.cut_bytes(text, size)
    assert len(short.encode()) <= size
    assert short == text or text.startswith(short.removesuffix("…"))


@given(text=markup)
def test_text_in_a_code_block_keeps_its_length_and_its_lone_backticks(text: str) -> None:
    safe = dialects.fenced(text)
    assert len(safe) == len(text)
    assert "``" not in safe
    assert not safe.startswith("`")
    assert not safe.endswith("`")
    assert dialects.fenced("run `make`, then") == "run `make`, then"


def notice_of(body: str, title: str = "Ralph Started") -> Notice:
    return Notice(event="started", title=title, body=body, emoji_code=":rocket:")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("a\x1b[2Jb\x00\x7f\x9bc", "a[2Jbc", id="control characters cannot drive a terminal"),
        pytest.param("a\tb\nc\r\nd", "a\tb\nc\nd", id="tabs and lines stay"),
        pytest.param(b"caf\xe9".decode("utf-8", "surrogateescape"), "caf?", id="a name that is not UTF-8"),
        pytest.param("{{ title }}{% raw %}${HOME}", "{{ title }}{% raw %}${HOME}", id="a text is no template"),
        pytest.param('"}],\\u0041', '"}],\\u0041', id="a text is no JSON"),
        pytest.param("a\\nb", "a\\nb", id="a backslash and an n are no new line"),
    ],
)
def test_a_text_arrives_as_it_is(text: str, sent: str) -> None:
    assert json_text(request_for("webhook", notice_of(text)), "body") == sent


def test_a_title_is_one_line() -> None:
    assert json_text(request_for("webhook", notice_of("x", title="two\nlines ")), "title") == "two lines"


def test_markup_in_a_title_is_shown_and_not_obeyed() -> None:
    notice = notice_of("", title="a*b_c & <d>")
    assert json_text(request_for("discord", notice), "content") == r"🚀 **a\*b\_c & \<d\>**"
    assert json_text(request_for("telegram", notice), "text") == "🚀 <b>a*b_c &amp; &lt;d&gt;</b>"
    assert json_text(request_for("slack", notice), "text") == ":rocket: *a*b_c &amp; &lt;d&gt;*"


@pytest.mark.parametrize("template", ["{{ titel }}", "{{ title ", "{{ title | shout }}", "{{ ''.__class__ }}"])
def test_a_mistake_in_a_template_is_shown_with_the_template(template: str) -> None:
    with pytest.raises(RalphError) as error:
        dialects.filled(template, notice_of("x"), {})
    assert repr(template) in error.value.message
