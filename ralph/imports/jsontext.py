"""JSON with the place of every value in its text, so that one can be changed and all else stay as it is."""

import json
import re
from dataclasses import dataclass

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"\w{1,20}")
_DEEPEST = 100
_STRING = json.JSONDecoder()


class BrokenError(ValueError):
    """No JSON: what was expected, and the offset where."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value, which is `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    """A string."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Node):
    """A number, as it is spelled: it may have more digits than Python likes."""

    spelled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Node):
    """true, false or null."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Node):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A key with its value."""

    key: Text
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Node):
    """An object, with its members in order; a key may be there twice."""

    members: tuple[Member, ...]

    def get(self, *names: str) -> Member | None:
        """The member of the first of these names that is there."""
        for name in names:
            for member in self.members:
                if member.key.value == name:
                    return member
        return None


def read(text: str) -> Node:
    """The one value that the text is; a byte order mark may stand before it. Raises BrokenError."""
    node = _value(text, _skip(text, int(text.startswith("\ufeff"))), 0)
    at = _skip(text, node.end)
    if at < len(text):
        raise BrokenError("there is more after the end", at)
    return node


def kind(node: Node) -> str:
    """What it is, for people."""
    if isinstance(node, Word):
        return "null" if node.value is None else str(node.value).lower()
    kinds = {Text: "a string", Number: "a number", Array: "a list", Object: "an object"}
    return kinds[type(node)]


def is_null(node: Node) -> bool:
    """Whether it says that there is nothing."""
    return isinstance(node, Word) and node.value is None


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end()


def _value(text: str, at: int, depth: int) -> Node:
    first = text[at : at + 1]
    if depth > _DEEPEST:
        raise BrokenError(f"lists and objects are nested more than {_DEEPEST} deep", at)
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    if first == '"':
        return _string(text, at)
    for word, value in _WORDS.items():
        if text.startswith(word, at):
            return Word(start=at, end=at + len(word), value=value)
    if number := _NUMBER.match(text, at):
        return Number(start=at, end=number.end(), spelled=number[0])
    raise BrokenError(_odd(text, at, "a value"), at)


def _string(text: str, at: int) -> Text:
    try:
        value, end = _STRING.raw_decode(text, at)
    except json.JSONDecodeError as error:
        what = "a string that does not end" if "Unterminated" in error.msg else "a string that is not right"
        what = "a line break or control character within a string; write \\n" if "control" in error.msg else what
        raise BrokenError(what, error.pos) from error
    return Text(start=at, end=end, value=value)


def _array(text: str, start: int, depth: int) -> Array:
    items: list[Node] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        at = _next(text, at, "]") if items else at
        items.append(_value(text, at, depth + 1))
        at = _skip(text, items[-1].end)
    return Array(start=start, end=at + 1, items=tuple(items))


def _object(text: str, start: int, depth: int) -> Object:
    members: list[Member] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        at = _next(text, at, "}") if members else at
        if text[at : at + 1] != '"':
            raise BrokenError(_odd(text, at, 'a name in "quotation marks"'), at)
        key = _string(text, at)
        at = _skip(text, key.end)
        if text[at : at + 1] != ":":
            raise BrokenError(_odd(text, at, "a colon"), at)
        members.append(Member(key=key, value=_value(text, _skip(text, at + 1), depth + 1)))
        at = _skip(text, members[-1].value.end)
    return Object(start=start, end=at + 1, members=tuple(members))


def _next(text: str, at: int, close: str) -> int:
    """Where the next one begins, behind a comma."""
    if text[at : at + 1] != ",":
        raise BrokenError(_odd(text, at, f"a comma or {close}"), at)
    after = _skip(text, at + 1)
    if text[after : after + 1] == close:
        raise BrokenError(f"a comma too many before {close}", at)
    return after


def _odd(text: str, at: int, wanted: str) -> str:
    if text[at : at + 2] in {"//", "/*"}:
        return "JSON has no comments"
    if at >= len(text):
        return f"the file ends where {wanted} is expected"
    found = _WORD.match(text, at)
    said = found[0] if found else text[at]
    return f"expected {wanted}" + (f", not {said}" if said.isprintable() else "")
