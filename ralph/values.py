"""What a setting's text means. Each of these raises ValueError with what is allowed."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path


def whole(none: str | None = None) -> Callable[[str], int | None]:
    """Reads a whole number from 1; `none` is the word for no number."""

    def parse(text: str) -> int | None:
        if none and text.lower() == none:
            return None
        if re.fullmatch(r"\d{1,9}", text) and int(text) > 0:
            return int(text)
        raise ValueError("write a whole number from 1" + (f", or {none}" if none else ""))

    return parse


def duration(text: str) -> float:
    """Seconds, of a text such as 2s, 90m, 4h or 1h30m."""
    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s?)?", text, re.ASCII)
    if not text or found is None:
        raise ValueError("is no duration; write 2s, 90m, 4h or 1h30m")
    hours, minutes, seconds = found.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def at_most(none: str) -> Callable[[str], float | None]:
    """A duration that bounds something."""

    def parse(text: str) -> float | None:
        if text.lower() == none:
            return None
        try:
            seconds = duration(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {none}") from None
        if not seconds:
            raise ValueError(f"leaves no time; write 90m, 4h or 1h30m, or {none}")
        return seconds

    return parse


def usd(text: str) -> float | None:
    """US dollars, or None for no limit."""
    if text.lower() == "unlimited":
        return None
    if re.fullmatch(r"\$?\d{1,7}(\.\d{1,4})?", text) and (cost := float(text.removeprefix("$"))) > 0:
        return cost
    raise ValueError("write US dollars such as 5 or 2.50, or unlimited")


def part(text: str) -> float | None:
    """A part of 1, of a text such as 60%; None for off."""
    if text.lower() == "off":
        return None
    if re.fullmatch(r"\d{1,2}%", text) and (percent := int(text[:-1])) > 0:
        return percent / 100
    raise ValueError("write a part of the context such as 60%, or off")


def size(text: str) -> int:
    """Bytes, of a text such as 200MB."""
    found = re.fullmatch(r"(\d{1,6})\s*([kMG]B)", text)
    if found is None:
        raise ValueError("write a size such as 200MB or 2GB")
    return int(found[1]) * {"kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]]


def address(text: str) -> str:
    """A web address."""
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError("is no web address; write https://…")
    return text


def truth(text: str) -> bool:
    """True or false, in any of the usual words."""
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise ValueError("write true or false")


def some(text: str) -> str:
    """Any text but none."""
    if not text:
        raise ValueError("is empty")
    return text


def one_of(*words: str) -> Callable[[str], str]:
    """Reads one of these words."""

    def parse(text: str) -> str:
        if text.lower() in words:
            return text.lower()
        raise ValueError(f"write {', '.join(words[:-1])} or {words[-1]}")

    return parse


def effort(text: str) -> str:
    """How hard claude thinks."""
    # The real agent takes any other word without complaint and ignores it.
    if text.lower() in ("med", *EFFORTS):
        return "medium" if text.lower() == "med" else text.lower()
    raise ValueError("write none, low, medium (or med), high, xhigh or max")


EFFORTS = ("none", "low", "medium", "high", "xhigh", "max")


def pattern(text: str) -> str:
    """A pattern of files within the project."""
    if text.startswith("/") or ".." in some(text).split("/"):
        raise ValueError("is no pattern of files in the project; write one such as 'tests/**'")
    return text.removeprefix("./")


def split(text: str) -> list[str]:
    """Words, as a shell parts them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error


def words(text: str) -> tuple[str, ...]:
    """A command."""
    words = tuple(split(text))
    if not words:
        raise ValueError("write a command, such as claude")
    return words


def path(text: str) -> Path:
    """A path; `~` is the home folder."""
    return Path(some(text)).expanduser()
