"""Changes of a JSON text that leave every byte alone but those of the values they change."""

from collections.abc import Sequence

from ralph.imports.jsontext import Array, Object
from ralph.imports.rendering import Fields, Style, Value, indent_at, render, style_of


class Surgery:
    """Changes of one text, each at a place of its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[tuple[int, int, str]] = []

    def made(self) -> str:
        """The text with all of them."""
        parts, at = [], 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])

    def put(self, node: Object, name: str, value: Value) -> None:
        """Gives the object's member this value; a new one comes last, written as those before it."""
        style, indent = style_of(node, self.text), indent_at(self.text, node.members[-1].key.start)
        new = render(value, style, indent)
        if member := node.get(name):
            self._edits.append((member.value.start, member.value.end, new))
            return
        end = node.members[-1].value.end
        self._edits.append((end, end, f"{self._before_next(node)}{render(name, style)}{style.colon}{new}"))

    def extend(self, array: Array, values: Sequence[Fields], style: Style) -> None:
        """Puts these at the end of a list that is not empty."""
        items = array.items
        if len(items) > 1:
            between = self.text[items[-2].end : items[-1].start]
        else:
            lead = self.text[array.start + 1 : items[0].start]
            between = "," + (lead or " " * (not style.unit))
        indent = indent_at(self.text, items[-1].start)
        new = "".join(between + render(value, style, indent) for value in values)
        self._edits.append((items[-1].end, items[-1].end, new))

    def _before_next(self, node: Object) -> str:
        """What stands between two members."""
        if len(node.members) > 1:
            return self.text[node.members[-2].value.end : node.members[-1].key.start]
        return "," + (self.text[node.start + 1 : node.members[0].key.start] or " ")
