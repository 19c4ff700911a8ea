"""JSON in the style of what stands around it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, Union

from ralph.imports.jsontext import Array, Node, Object


class Raw(NamedTuple):
    """A value as it stands in another text."""

    node: Node
    text: str


@dataclass(frozen=True, slots=True)
class Fields:
    """An object: names and values in order."""

    members: "Sequence[tuple[str, Value]]"


Value: TypeAlias = Union[str, int, "list[Value]", Raw, Fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How JSON is written."""

    newline: str = "\n"
    unit: str = "  "
    """By how much the inner lines are indented; empty when all stands in one line."""
    comma: str = ", "
    """Between two values in one line."""
    colon: str = ": "
    pad: str = ""
    """Within the braces of an object that stands in one line."""


def style_of(node: Object, text: str) -> Style:
    """How this object is written."""
    newline = "\r\n" if "\r\n" in text else "\n"
    first, last = node.members[0], node.members[-1]
    colon = text[first.key.end : first.value.start]
    before = text[node.start + 1 : first.key.start]
    if "\n" in before:
        outer, inner = indent_at(text, node.start), indent_at(text, first.key.start)
        return Style(newline=newline, unit=inner.removeprefix(outer) or "  ", colon=colon)
    comma = text[node.members[-2].value.end : last.key.start] if len(node.members) > 1 else ", "
    return Style(newline=newline, unit="", comma=comma if "\n" not in comma else ", ", colon=colon, pad=before)


def indent_at(text: str, at: int) -> str:
    """What the line begins with in which this stands."""
    blank = re.compile(r"\ufeff?([ \t]*)").match(text, text.rfind("\n", 0, at) + 1)
    return blank[1] if blank else ""


def render(value: Value, style: Style, indent: str = "") -> str:
    """The value in this style; its further lines begin with `indent`."""
    if isinstance(value, Raw):
        value, spelled = _opened(value)
        if spelled:
            return spelled
    if isinstance(value, Fields):
        within = indent + style.unit
        pairs = [f"{_scalar(name)}{style.colon}{render(one, style, within)}" for name, one in value.members]
        return _bracketed("{}", pairs, style, indent)
    if isinstance(value, list):
        return _bracketed("[]", [render(one, style, indent + style.unit) for one in value], style, indent)
    assert isinstance(value, str | int)
    return _scalar(value)


def _opened(raw: Raw) -> tuple[Value, str]:
    """A list or object with its parts as they are, or how a single value is spelled."""
    node, text = raw
    if isinstance(node, Array):
        return [Raw(item, text) for item in node.items], ""
    if isinstance(node, Object):
        return Fields([(member.key.value, Raw(member.value, text)) for member in node.members]), ""
    return "", text[node.start : node.end]


def _scalar(value: str | int) -> str:
    """Halves of characters are escaped, bytes that are no UTF-8 go through as they came."""
    spelled = json.dumps(value, ensure_ascii=False)
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", spelled)


def _bracketed(brackets: str, parts: list[str], style: Style, indent: str) -> str:
    if not parts:
        return brackets
    if not style.unit:
        pad = style.pad if brackets == "{}" else ""
        return brackets[0] + pad + style.comma.join(parts) + pad + brackets[1]
    inner, outer = style.newline + indent + style.unit, style.newline + indent
    return brackets[0] + inner + f",{inner}".join(parts) + outer + brackets[1]
