"""What a notice says, in the dialect of the place where it is read."""

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.words import plain

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

EVENTS = {
    "started": "rocket 🚀",
    "planned": "clipboard 📋",
    "progress": "gear ⚙️",
    "done": "white_check_mark ✅",
    "stopped": "warning ⚠️",
    "blocked": "raised_hand ✋",
    "waiting": "hourglass ⌛",
    "test": "robot_face 🤖",
}
"""What a channel is told of, unless it says of what, with an emoji: its name and itself."""


class Notice(NamedTuple):
    """Something that people should know, free of any markup."""

    event: str
    """One of EVENTS, or `alive`: a sign of life."""
    title: str = ""
    body: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What the templates of channels may say of it."""
        title, body = " ".join(clean(self.title).split()), clean(self.body)
        message = f"{title}\n{body}" if body else title
        name, _, emoji = EVENTS.get(self.event, "").partition(" ")
        said = {"event": self.event, "title": title, "body": body, "message": message}
        return said | {"emoji": emoji, "emoji_code": f":{name}:"}


def filled(template: Any, variables: Mapping[str, str]) -> Any:
    """The same with every string in it rendered, each by itself; what comes out empty in a table is left out."""
    if isinstance(template, str):
        return _environment().from_string(template).render(variables)
    if isinstance(template, list):
        return [filled(item, variables) for item in template]
    if isinstance(template, Mapping):
        return {key: text for key, item in template.items() if (text := filled(item, variables)) != ""}
    return template


def clean(text: str) -> str:
    """The text without what could drive a terminal, and without halves of characters, which nobody can send."""
    return plain(text).encode("utf-8", "replace").decode()


def cut(text: str, most: int) -> str:
    """The text, ended by an ellipsis where it is longer than so many bytes of UTF-8: no platform counts more."""
    data = text.encode()
    return text if len(data) <= most else data[: most - len("…".encode())].decode(errors="ignore") + "…"


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
    from jinja2 import StrictUndefined  # noqa: PLC0415 - 40 ms that only a run that sends pays
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - same

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    own = {"cut": cut, "cut_bytes": cut, "fenced": fenced, "html": escaped, "slack": escaped, "markdown": markdown}
    environment.filters.update(own)
    return environment
