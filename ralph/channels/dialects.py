"""What a notice says, in the dialect of the place where it is read."""

import functools
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ralph.errors import RalphError

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

EMOJI = {
    ":rocket:": "🚀",
    ":gear:": "⚙️",
    ":white_check_mark:": "✅",
    ":warning:": "⚠️",
    ":clipboard:": "📋",
    ":hourglass:": "⌛",
    ":robot_face:": "🤖",
    ":no_entry:": "⛔",
    ":raised_hand:": "✋",
    ":x:": "❌",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that people should know, free of any markup."""

    event: str
    """started, planned, progress, done, stopped, blocked, waiting or test"""
    title: str
    body: str
    emoji_code: str
    """As Slack writes it: ":rocket:"."""

    @property
    def message(self) -> str:
        """The whole as plain text."""
        return f"{self.title}\n{self.body}" if self.body else self.title


def filled(template: Any, notice: Notice, settings: Mapping[str, str]) -> Any:
    """The same with every string in it rendered, each by itself; what comes out empty in a table is left out."""
    title, body = " ".join(clean(notice.title).split()), clean(notice.body)
    variables = {
        **settings,
        "event": notice.event,
        "title": title,
        "body": body,
        "message": f"{title}\n{body}" if body else title,
        "emoji": EMOJI.get(notice.emoji_code, ""),
        "emoji_code": notice.emoji_code,
    }
    return _rendered(template, variables)


def _rendered(template: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(template, Mapping):
        rendered = {key: _rendered(item, variables) for key, item in template.items()}
        return {key: item for key, item in rendered.items() if item != ""}
    if isinstance(template, list):
        return [_rendered(item, variables) for item in template]
    if not isinstance(template, str):
        return template
    import jinja2  # noqa: PLC0415 - 40 ms that only a run that sends pays

    try:
        return _environment().from_string(template).render(variables)
    except jinja2.TemplateError as error:
        raise RalphError(f"{error.message} in {template!r}") from error


def clean(text: str) -> str:
    """The text without control characters (newline and tab stay) and without halves of characters."""
    text = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")


def cut(text: str, units: int) -> str:
    """The text, ended by an ellipsis where it is longer than so many UTF-16 units (Telegram's way to count)."""
    data = text.encode("utf-16-le")
    return text if len(data) <= 2 * units else data[: 2 * (units - 1)].decode("utf-16-le", "ignore") + "…"


def cut_bytes(text: str, size: int) -> str:
    """The text, ended by an ellipsis where it is longer than so many bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= size else data[: size - len("…".encode())].decode("utf-8", "ignore") + "…"


def fenced(text: str) -> str:
    """Text of the same length that cannot end the ``` block around it: backticks at its edges and in rows change."""
    return re.sub(r"`(?=`)|(?<=`)`|^`|`$", "\N{MODIFIER LETTER GRAVE ACCENT}", text)


def escaped(text: str) -> str:
    """Text for Slack and for Telegram's HTML, which both want these three written as entities and no others.

    https://docs.slack.dev/messaging/formatting-message-text, https://core.telegram.org/bots/api#html-style
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown(text: str) -> str:
    """Text outside a code block for Discord, with everything escaped that would be markup."""
    return re.sub(r"([\\`*_~|<>#\[\]()-])", r"\\\1", text)


@functools.cache
def _environment() -> "SandboxedEnvironment":
    from jinja2 import StrictUndefined  # noqa: PLC0415 - as above
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - as above

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters |= {
        "cut": cut,
        "cut_bytes": cut_bytes,
        "fenced": fenced,
        "html": escaped,
        "markdown": markdown,
        "slack": escaped,
    }
    return environment
