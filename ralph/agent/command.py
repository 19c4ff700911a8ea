"""The agent: what command it is, what it may know, and how long it may be silent.

How the real one behaves was measured, with claude 2.1.197; tests/test_real_claude.py holds it to that.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import MARK
from ralph.settings import Settings

_ONLY_CLAUDE = ("model", "effort", "max_turns", "max_cost", "max_iteration_cost", "max_total_cost", "max_context")
_NO_THINKING = "none"
_MARGIN_S = 300.0
"""The model's own longest silence after a tool has ended."""


def is_claude(command: Sequence[str]) -> bool:
    """Whether this is the agent whose flags ralph knows."""
    return command[0].rpartition("/")[2] == "claude"


def argv(settings: Settings, extra: Sequence[str], budget_usd: float | None = None) -> list[str]:
    """The command line of the agent. Raises RalphError for settings it cannot honour."""
    if not is_claude(settings.agent):
        asked = [settings.said[name].where for name in _ONLY_CLAUDE if getattr(settings, name) is not None]
        if asked:
            what = f"{', '.join(asked)}: only claude understands this, and the agent is {settings.agent[0]}"
            raise RalphError(what, fix="leave it out")
        return [*settings.agent, *extra]
    flags = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    for flag, value in (
        ("--model", settings.model),
        ("--effort", None if settings.effort == _NO_THINKING else settings.effort),
        ("--max-turns", settings.max_turns),
        ("--max-budget-usd", None if budget_usd is None else f"{budget_usd:.6f}"),
    ):
        flags += [flag, str(value)] if value else []
    if settings.max_context is not None:  # parts show a moment at which it can be ended and still says its cost
        flags.append("--include-partial-messages")
    return [*settings.agent, *flags, *extra]


def check_there(command: Sequence[str]) -> None:
    """Raises RalphError with cause and remedy when there is no such program."""
    if not shutil.which(command[0]):
        path = f"is not on the PATH, which is {os.environ.get('PATH', '(unset)')}"
        what = f"the agent {command[0]} " + ("is not there, or is not executable" if "/" in command[0] else path)
        raise RalphError(
            what, 1, fix="install it, chmod +x it, or give its full path with --agent (cron has a short PATH)"
        )


def why_not_started(command: Sequence[str], error: OSError) -> str:
    """What the system's refusal to start it means, with the remedy."""
    return f"the agent {command[0]} cannot be started: {error.strerror} (a script needs a right #! line; see --agent)"


def environment(base: Mapping[str, str], *, run: str, tmux: Path, effort: str | None = None) -> dict[str, str]:
    """What the agent gets of the environment: no secrets of ralph's, no tmux of the person's, and its mark.

    A background `git gc` would outlive the iteration, so git does that in the foreground. That claude shall not think
    stands here too: it has no flag for it.
    """
    env = {name: value for name, value in base.items() if not name.startswith(("RALPH_", "TMUX"))}
    outer = base.get(MARK)
    env[MARK] = f"{outer}:{run}" if outer else run
    env["TMUX_TMPDIR"] = str(tmux)
    env["PWD"] = os.getcwd()  # noqa: PTH109 - a string is what is wanted
    said = env.get("GIT_CONFIG_COUNT", "")
    count = int(said) if re.fullmatch("[0-9]{1,3}", said) else 0
    for number, key in enumerate(("gc.autoDetach", "maintenance.autoDetach"), count):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = "false"
    env["GIT_CONFIG_COUNT"] = str(count + 2)
    if effort == _NO_THINKING:
        env["MAX_THINKING_TOKENS"] = "0"
    return env


def silence_s(settings: Settings, env: Mapping[str, str]) -> float | None:
    """How long the agent may print nothing before it is taken for hung.

    claude is silent while a tool runs, ten minutes at most unless these names in its environment allow it more; then
    the default gives way, since a long test is no hang.
    """
    if "idle_timeout" in settings.said or settings.idle_timeout is None:
        return settings.idle_timeout
    allowed = [env.get(name, "") for name in ("BASH_MAX_TIMEOUT_MS", "BASH_DEFAULT_TIMEOUT_MS")]
    longest_ms = max((int(text) for text in allowed if re.fullmatch("[0-9]{1,9}", text)), default=0)
    return max(settings.idle_timeout, longest_ms / 1000 + _MARGIN_S)
