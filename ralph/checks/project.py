"""What lies in the project and claude loads without asking: its settings with hooks, and servers of tools."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ralph.checks.check import Check
from ralph.words import counted

_SETTINGS = (Path(".claude/settings.json"), Path(".claude/settings.local.json"))
_SERVERS = Path(".mcp.json")
_WITHOUT_SETTINGS = ("--setting-sources", "--bare", "--safe-mode")
_READ_IT = "read it; anybody who can commit here, the agent too, can write it"


def loaded(words: Sequence[str]) -> list[Check]:
    """What claude would load here; `words` are the agent's own, which may forbid it."""
    found = []
    if not any(word.split("=")[0] in _WITHOUT_SETTINGS for word in words):
        found += [_settings(path) for path in _SETTINGS if path.exists()]
    if _SERVERS.exists() and "--strict-mcp-config" not in words:
        found.append(_servers(_SERVERS))
    return found or [Check(name="project", ok=True, said="nothing here that claude would load without asking")]


def table(path: Path, *keys: str) -> dict[str, Any]:
    """The table that these keys lead to in a JSON file; empty when there is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        inner: Any = json.loads(path.read_bytes())
        for key in keys:
            inner = inner.get(key) if isinstance(inner, dict) else None
        return inner if isinstance(inner, dict) else {}
    return {}


def _settings(path: Path) -> Check:
    if problem := _unread(path):
        said = f"{path}: {problem}, so that claude ignores it whole, what it forbids too"
        return Check(name="project", ok=False, said=said, remedy="mend it", obstacle=False)
    parts = list(_telling(path))
    if not parts:
        return Check(name="project", ok=True, said=f"{path}: no hooks, no variables, no key helper")
    said = f"{path}: {', '.join(parts)}, without asking"
    remedy = f"{_READ_IT}; `-- --setting-sources user` leaves it out"
    return Check(name="project", ok=False, said=said, remedy=remedy, obstacle=False)


def _telling(path: Path) -> Iterator[str]:
    whole = table(path)
    hooks = sum(_count(entry) for kind in table(path, "hooks").values() for entry in _list(kind))
    if hooks:
        yield f"{counted(hooks, 'hook')} with your rights"
    if names := sorted(table(path, "env")):
        yield f"sets {' '.join(names)}"
    if whole.get("apiKeyHelper"):
        yield "apiKeyHelper runs a program for the key"
    if mode := table(path, "permissions").get("defaultMode"):
        yield f"permissions are {mode}"
    denied = [key for key in ("deny", "ask") if _list(table(path, "permissions").get(key))]
    if denied:
        yield f"forbids some tools ({' and '.join(denied)})"


def _count(entry: object) -> int:
    return len(_list(entry.get("hooks"))) if isinstance(entry, dict) else 0


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _unread(path: Path) -> str:
    try:
        json.loads(path.read_bytes())
    except OSError as error:
        return error.strerror or "cannot be read"
    except (ValueError, RecursionError):
        return "is no JSON"
    return ""


def _servers(path: Path) -> Check:
    if problem := _unread(path):
        return Check(name="project", ok=False, said=f"{path}: {problem}", remedy="mend it", obstacle=False)
    names = sorted(table(path, "mcpServers"))
    if not names:
        return Check(name="project", ok=True, said=f"{path}: no servers")
    servers = f"{counted(len(names), 'server')} of tools ({' '.join(names)})"
    said = f"{path}: {servers} started with your rights, without asking"
    remedy = f"{_READ_IT}; `-- --strict-mcp-config` leaves it out"
    return Check(name="project", ok=False, said=said, remedy=remedy, obstacle=False)
