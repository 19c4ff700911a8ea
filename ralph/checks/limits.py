"""What ends a run, by the settings: its limits, and the command that decides about done."""

import os
import re
import shlex
from pathlib import Path

from ralph.checks.check import Check
from ralph.process import call
from ralph.settings import Settings
from ralph.words import counted, duration, usd

_SHELL_S = 5.0


def bounds(settings: Settings) -> Check:
    """Whether anything bounds the run: iterations, time or cost."""
    most = [
        *([counted(settings.max_iterations, "iteration")] if settings.max_iterations else []),
        *([duration(settings.max_time)] if settings.max_time else []),
        *([usd(settings.max_cost)] if settings.max_cost else []),
        *([f"{usd(settings.max_total_cost)} for the whole plan"] if settings.max_total_cost else []),
        *(["one iteration, which is this mode"] if settings.once else []),
    ]
    if most:
        return Check(name="limits", ok=True, said=f"at most {', '.join(most)}")
    said = "none is set: nothing but done, failure or you ends a run"
    remedy = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
    return Check(name="limits", ok=False, said=said, remedy=remedy, obstacle=False)


def verify_found(settings: Settings) -> Check:
    """Whether there is a verify command, and the program that it begins with."""
    if settings.verify is None:
        return Check(name="verify", ok=True, said="no command is set; done is what the agent and the task list say")
    shown = " ".join(settings.verify.split())
    word = first_word(settings.verify)
    if word is None or _is_command(word):
        return Check(name="verify", ok=True, said=shown)
    written_later = word.startswith((".", "~", "/")) or "/" in word
    return Check(
        name="verify",
        ok=False,
        said=f"{shown}: there is no program {word}",
        remedy="install it, or see --verify; without it no RALPH_DONE counts",
        obstacle=not written_later,  # it may be what the plan asks for
    )


def first_word(command: str) -> str | None:
    """The program that a shell command begins with; None when only a shell could tell."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # an apostrophe in a here-document, say
        words = command.split()
    word = next((one for one in words if not re.match(r"\w+=", one)), "").rstrip(";")
    return word if re.fullmatch(r"[\w.+~/@:-]+", word) else None


def _is_command(word: str) -> bool:
    """Whether the shell knows it: as a program, or as a word of its own."""
    if "/" in word:
        path = Path(word).expanduser()
        return path.is_file() and os.access(path, os.X_OK)
    return call(["sh", "-c", 'command -v -- "$1"', "sh", word], timeout_s=_SHELL_S).code == 0
