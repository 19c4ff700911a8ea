"""Finds the task list that a plan is or holds. Raises RalphError with everything that is wrong with it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ralph.errors import RalphError
from ralph.imports import checking, forms, jsontext
from ralph.imports.jsontext import Array, BrokenError, Node, Object
from ralph.imports.model import Imported
from ralph.progress.reading import outside_fences

_OPENING = re.compile(
    rb"^(?:\xef\xbb\xbf)?((?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}|~{3,})[ \t]*json(?=\s)([^\n]*)\n",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING = re.compile(rb"^([ \t]*)(`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_PROBE = b"\0probe"
_FORMS = (
    'a plan in JSON is an object with the list "requirements", "tasks" or "userStories", or a list of stories; '
    "write any other in markdown"
)
_NO_EXAMPLE = "a block that is only an example is begun with ```text"
_NAMED = b"ralph"
"""A block that begins with ```json ralph is a task list because it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """JSON, and where it stands."""

    text: str
    start: int
    end: int
    line: int
    named: bool = False
    """Whether somebody wrote that it is a task list."""


def of_json(name: str, data: bytes) -> Imported:
    """The task list that the file is."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RalphError(f"{name}: is not UTF-8", fix="save it as UTF-8")
    text = data.decode(errors="surrogateescape")
    try:
        root = jsontext.read(text)
    except BrokenError as error:
        line, column = _place(text, error.at)
        raise RalphError(f"{name}:{line}:{column}: is no JSON: {error.what}") from error
    block = _Block(text=text, start=0, end=len(data), line=1)
    return _imported(block, root, name)


def of_markdown(name: str, data: bytes) -> Imported | None:
    """The task list that stands in it as a fenced block; None when none does."""
    found = [block for block in _blocks(data) if (block.named or _tells(block)) and _stands_free(data, block)]
    found = [block for block in found if block.named] or found
    if len(found) > 1:
        lines = ", ".join(str(block.line - 1) for block in found)
        what = f"{name}: holds {len(found)} task lists in JSON, at lines {lines}"
        raise RalphError(what, fix=f"leave one; {_NO_EXAMPLE}")
    for block in found:
        try:
            return _in_block(block, name)
        except RalphError as error:
            fixes = [f"{one.fix}; {_NO_EXAMPLE}" if one.fix else _NO_EXAMPLE for one in error.problems]
            told = [RalphError(one.what, fix=fix) for one, fix in zip(error.problems, fixes, strict=True)]
            raise RalphError.of(told) from error
    return None


def _in_block(block: _Block, name: str) -> Imported:
    try:
        root = jsontext.read(block.text)
    except BrokenError as error:
        line, column = _place(block.text, error.at)
        raise RalphError(f"{name}:{block.line - 1 + line}:{column}: is no JSON: {error.what}") from error
    return _imported(block, root, name)


def _imported(block: _Block, root: Node, name: str) -> Imported:
    place = name if block.line == 1 else f"{name}:{block.line - 1}"
    list_name, items = _the_list(root, place)
    kind = forms.kind_of(list_name, items)
    tasks, problems = checking.check(kind, list_name, items, root)
    if problems:
        lines = (block.line + block.text.count("\n", 0, one.at) for one in problems)
        told = zip(lines, problems, strict=True)
        raise RalphError.of([RalphError(f"{name}:{at}: {one.path}: {one.what}") for at, one in told])
    return Imported(
        kind=kind,
        tasks=tasks,
        text=block.text,
        root=root,
        items=items,
        start=block.start,
        end=block.end,
        place=place,
    )


def _the_list(root: Node, place: str) -> tuple[str, Array]:
    """The one list of tasks, and its name. Raises RalphError where there is none, or more than one."""
    found = _list_in(root)
    if found is None:
        raise RalphError(f"{place}: holds no task list", fix=_FORMS)
    if len(both := _lists_in(root)) > 1:
        names = ", ".join(name for name, _ in both)
        raise RalphError(f"{place}: holds {len(both)} task lists: {names}", fix="leave one")
    name, items = found
    if not isinstance(items, Array):
        raise RalphError(f"{place}: {name}: must be a list, not {jsontext.kind(items)}")
    return name, items


def _list_in(root: Node) -> tuple[str, Node] | None:
    """The list of the tasks, or what stands in its place, and its name."""
    if isinstance(root, Array):
        return "", root
    if not isinstance(root, Object):
        return None
    there = [member for name in forms.LISTS if (member := root.get(name)) is not None]
    there.sort(key=lambda member: not _has_objects(member.value))
    return (there[0].key.value, there[0].value) if there else None


def _lists_in(root: Node) -> list[tuple[str, Node]]:
    """All its lists that hold objects, as one of tasks does, by name."""
    there = root.members if isinstance(root, Object) else ()
    return [(one.key.value, one.value) for one in there if one.key.value in forms.LISTS and _has_objects(one.value)]


def _has_objects(node: Node) -> bool:
    return isinstance(node, Array) and any(isinstance(item, Object) for item in node.items)


def _tells(block: _Block) -> bool:
    """Whether it can be nothing but one of the task lists, or one that is broken."""
    try:
        root = jsontext.read(block.text)
    except BrokenError:
        return forms.nearly_tells(block.text)
    lists = [("", root)] if isinstance(root, Array) else _lists_in(root)
    return any(isinstance(items, Array) and forms.tells(name, items) for name, items in lists)


def _blocks(data: bytes) -> Iterator[_Block]:
    """Every block of JSON that begins and ends as a fence does."""
    for opening in _OPENING.finditer(data):
        before, fence, info = opening.groups()
        column = len(before.expandtabs(4))
        if fence.startswith(b"`") and b"`" in info:
            continue
        for closing in _CLOSING.finditer(data, opening.end()):
            if closing[2].startswith(fence) and len(closing[1].expandtabs(4)) <= column + 3:
                yield _Block(
                    text=data[opening.end() : closing.start()].decode(errors="surrogateescape"),
                    start=opening.end(),
                    end=closing.start(),
                    line=data.count(b"\n", 0, opening.end()) + 1,
                    named=info.split()[:1] == [_NAMED],
                )
                break


def _stands_free(data: bytes, block: _Block) -> bool:
    """Whether it is in no other code fence: a line in its place would be none that a fence holds."""
    at = data.rindex(b"\n", 0, block.start - 1) + 1 if b"\n" in data[: block.start - 1] else 0
    lines, _ = outside_fences(data[:at] + _PROBE + b"\n" + data[at:], _PROBE)
    return bool(lines)


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    begin = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, at) + 1, at - begin + 1 - text.startswith("\ufeff", begin)
