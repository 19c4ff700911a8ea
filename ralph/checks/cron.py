"""Cron: what it would not give to a run that finds it here, and the line for the crontab that does."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ralph import options, sources
from ralph.checks import agent
from ralph.checks.check import Check
from ralph.checks.limits import first_word
from ralph.settings import ON_COMMAND_LINE, Settings
from ralph.start import Asked

_PATH = "/usr/bin:/bin"
"""What cron gives on Debian and its kin, on Fedora and on macOS, if the crontab says nothing."""
_HEARTBEAT = "RALPH_HEARTBEAT_URL"
"""Not for a line that is shown; its own check says where it belongs."""


def cron(settings: Settings, asked: Asked, hide: Callable[[str], str]) -> Check:
    """Whether a start from cron would find its programs, and what this environment says."""
    programs, names, sandbox = _programs(settings), _names(settings), agent.told_by_environment(settings)
    lost = [*(name for name in programs if not shutil.which(name, path=_PATH)), *names, *sandbox]
    if not lost:
        return Check(name="cron", ok=True, said=f"what a run needs is there too, on the PATH {_PATH}")
    given = [*asked.given, *(one for one in sources.in_environment() if one.variable in names)]
    command = options.shown(replace(asked, given=given, plan=asked.plan or "PLAN"), hide)
    line = _line(*(f"{name}=1" for name in sandbox), _path(programs), command)
    what = f"cron, whose PATH is {_PATH}, has no {' and no '.join(lost)}"
    return Check(name="cron", ok=False, said=what, remedy=f"in the crontab: {line}", obstacle=False)


def _programs(settings: Settings) -> dict[str, str]:
    """What a run looks for by name, and where that is; a check of its own says what is nowhere."""
    program = agent.program(settings.agent[0])
    names = ["git", settings.agent[0], *(_interpreter(program) if program else [])]
    if settings.verify and (word := first_word(settings.verify)):
        names.append(word)
    found = {name: shutil.which(name) or "" for name in names if "/" not in name}
    itself = shutil.which("ralph") or shutil.which("ralph", path=str(Path(sys.argv[0]).parent))
    return {"ralph": itself or ""} | {name: path for name, path in found.items() if path}


def _interpreter(program: str) -> list[str]:
    """The program that `#!/usr/bin/env NAME` asks for."""
    first, *words = agent.interpreter(program) or [""]
    return [word for word in words if not word.startswith("-")][:1] if first == "/usr/bin/env" else []


def _names(settings: Settings) -> list[str]:
    """The settings that the environment decides."""
    decided = [one.variable for one in ON_COMMAND_LINE if settings.said.get(one.field) == "environment"]
    return [name for name in decided if name != _HEARTBEAT]


def _path(programs: dict[str, str]) -> str:
    """A PATH on which all are found in the order in which they are found here."""
    folders = [str(Path(path).parent) for path in programs.values() if path]
    here = [one for one in [*os.environ.get("PATH", "").split(":"), *folders] if str(Path(one)) in folders]
    absolute = [os.path.abspath(one) for one in here]  # noqa: PTH100 - links stay as they are
    return f"PATH={shlex.quote(':'.join(dict.fromkeys([*absolute, *_PATH.split(':')])))}"


def _line(*words: str) -> str:
    """What a crontab takes for a command in this folder; cron takes a bare % for the end of it."""
    return " ".join([f"cd {shlex.quote(str(Path.cwd()))} &&", *words]).replace("%", r"\%")
