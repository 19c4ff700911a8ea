"""Words of a JSON file as they can stand in one line of the Task List."""

import re

ONE_WORD = "an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_BREAKS = re.compile(r"\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for the tab, and what turns the direction of writing."""
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def one_line(text: str) -> str:
    """The words, with single spaces between them."""
    return _shown(" ".join(text.split()))


def same_line(text: str) -> str:
    """The same text in one line: what a command says must stay, two spaces in it as well."""
    return _shown(_BREAKS.sub(" ", text.strip())).strip()


def is_id(text: str) -> bool:
    """Whether it can stand in front of a task."""
    return bool(_ID.fullmatch(text))


def joined(title: str, description: str, most: int) -> str:
    """Both as one text of at most so many characters: the first whole if it can be, then the second in brackets."""
    if not title or _begins_with(description, title):
        return cut(description, most)
    room = most - len(title) - len(" ()")
    if not description or room < 20 or _begins_with(title, description):
        return cut(title, most)
    return f"{title} ({cut(description, room)})"


def _begins_with(text: str, words: str) -> bool:
    """Whether the text says these words first; what was cut ends with `…`."""
    said = words.removesuffix("…")
    return text.startswith(said) and (said != words or not text[len(said) : len(said) + 1].isalnum())


def cut(text: str, most: int) -> str:
    """At most so many characters, ending with a word."""
    if len(text) <= most:
        return text
    begun = text[: most - 1]
    words = begun[: begun.rfind(" ")] if " " in begun[most // 2 :] else begun
    return f"{words.rstrip(' ,;:')}…"


def _shown(text: str) -> str:
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", _UNSEEN.sub("", text))
