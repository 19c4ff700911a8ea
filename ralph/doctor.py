"""`ralph doctor`: whether a run would find what it needs, a line for each thing, with the remedy."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import __version__, files, lock
from ralph.checks import agent, cron, hidden, limits, login, machine, plan, project, repository, settings, tasks, told
from ralph.checks.check import Check, of_error
from ralph.checks.settings import Basis
from ralph.errors import RalphError
from ralph.screen.text import plain
from ralph.start import Asked
from ralph.words import counted

Look = Callable[[], Check | list[Check]]
Hide = Callable[[str], str]


def doctor(asked: Asked, *, live: bool, as_json: bool) -> int:
    """Looks at everything and says what it saw; 1 when something needs mending, else 0."""
    basis = settings.basis(asked)
    hide = hidden.hider(basis.given)
    seen = []
    for found in _checks(basis, hide, live=live):
        check = replace(found, said=hide(found.said), remedy=hide(found.remedy))
        seen.append(check)
        if not as_json:
            print(_shown(check), flush=True)
    bad = [check.name for check in seen if check.level == "bad"]
    print(_as_json(seen) if as_json else _verdict(bad))
    return 1 if bad else 0


def _checks(basis: Basis, hide: Hide, *, live: bool) -> Iterator[Check]:
    """Everything, from what matters most; one check that fails does not keep the others from being made."""
    yield _version()
    for name, look in _looks(basis, hide, live=live).items():
        yield from _guarded(name, look)


def _looks(basis: Basis, hide: Hide, *, live: bool) -> dict[str, Look]:
    said, begun = basis.settings, basis.start
    tree = lock.working_tree(Path.cwd())
    rest = basis.asked.agent_arguments
    looks: dict[str, Look] = {
        "agent": lambda: agent.version(said),
        "login": lambda: login.login(said, rest, live=live),
        "rights": lambda: agent.rights(said),
        "nested": agent.nested,
        "settings": lambda: settings.said_settings(basis),
        "prompts": lambda: plan.prompts(said, begun),
        "tasks": lambda: tasks.task_list(begun) if begun else [],
        "progress": lambda: plan.progress_file(begun) if begun else [],
        "lock": lambda: plan.free(tree),
        "git": lambda: _git(tree, basis),
        "disk": lambda: machine.disk([tree, files.state_home()]),
        "state": lambda: machine.writable("state", files.state_home(), "set XDG_STATE_HOME elsewhere"),
        "temporary": machine.temporary,
        "verify": lambda: limits.verify_found(said),
        "limits": lambda: limits.bounds(said),
        "env file": told.env_file,
        "channel": lambda: told.told(live=live),
        "heartbeat": lambda: told.heartbeat(said, live=live),
        "project": lambda: project.loaded([*said.agent, *rest]),
        "cron": lambda: cron.cron(said, basis.asked, hide),
    }
    return looks


def _guarded(name: str, look: Look) -> list[Check]:
    try:
        found = look()
    except RalphError as error:
        return [replace(one, remedy=one.remedy or "mend that") for one in of_error(name, error)]
    except Exception as error:  # noqa: BLE001 - what one check stumbles over must not hide what the others say
        said = f"cannot be looked at: {type(error).__name__}: {error}"
        return [Check(name=name, ok=False, said=said, remedy="see what that is; a run may stumble over it too")]
    return found if isinstance(found, list) else [found]


def _version() -> Check:
    said = f"ralph {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}"
    return Check(name="version", ok=True, said=said)


def _git(tree: Path, basis: Basis) -> list[Check]:
    """What is said about the repository; without one there is nothing to commit to."""
    there = repository.repository(tree)
    if not there.ok:
        return [there]
    progress = basis.start.progress_path if basis.start else Path(os.devnull)
    who = repository.git_identity(tree)
    who = replace(who, obstacle=who.obstacle and basis.settings.auto_commit)
    return [there, who, *repository.unfinished(tree), repository.clean_tree(tree, progress)]


_MARKS = {"ok": "ok   ", "warning": "warn ", "bad": "BAD  "}


def _shown(check: Check) -> str:
    remedy = [check.remedy] if check.remedy and not check.ok else []
    lines = [plain(" ".join(part.split())) for part in [f"{check.name}: {check.said}", *remedy]]
    return _MARKS[check.level] + "\n     ".join(lines)


def _verdict(bad: Iterable[str]) -> str:
    if not (names := list(dict.fromkeys(bad))):
        return "A run would find what it needs."
    return f"{counted(len(names), 'thing')} {'needs' if len(names) == 1 else 'need'} mending: {', '.join(names)}."


def _as_json(seen: Sequence[Check]) -> str:
    checks = [
        {"name": one.name, "ok": one.ok, "level": one.level, "said": one.said, "remedy": one.remedy} for one in seen
    ]
    return json.dumps({"ok": all(one.level != "bad" for one in seen), "checks": checks})
