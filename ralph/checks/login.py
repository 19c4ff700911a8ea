"""Whether claude is logged in, by one cheap call when that is wanted; else who would pay."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ralph import agent
from ralph.checks.check import Check
from ralph.process import Finished, call
from ralph.settings import Settings
from ralph.words import duration

_CALL_S = 120.0
_PAYS = {
    "ANTHROPIC_API_KEY": "that key pays, and no subscription",
    "ANTHROPIC_AUTH_TOKEN": "that token pays",
    "CLAUDE_CODE_OAUTH_TOKEN": "the subscription behind it pays",
}
_NOBODY = "no key in the environment, so that claude's own login pays"
_CHEAP = (
    *("-p", "--dangerously-skip-permissions", "--output-format", "json", "--max-turns", "1"),
    *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
    *("--no-session-persistence", "--system-prompt", "Answer with one word."),
)
"""Measured: 1.5 kB go out, in place of 116; no hook runs, no server is started, no session is kept."""
_PASSES = (408, 429, 500, 502, 503, 504, 529)
_LOG_IN = "start claude and /login; for cron `claude setup-token` makes a CLAUDE_CODE_OAUTH_TOKEN"


def login(settings: Settings, extra: Sequence[str], *, live: bool) -> list[Check]:
    """Whether claude gets an answer; nothing for another agent, which ralph knows too little about."""
    if not agent.is_claude(settings.agent):
        return []
    pays = next((_who(name) for name in _PAYS if os.environ.get(name)), _NOBODY)
    if not live:
        return [Check(name="login", ok=True, said=f"not tried, --live does; {pays}")]
    argv = [*settings.agent, *_CHEAP, "--model", settings.model or "haiku", *extra]
    env = agent.environment(os.environ, run="doctor", tmux=Path(os.devnull))
    env |= {"MAX_THINKING_TOKENS": "0", "CLAUDE_CODE_MAX_RETRIES": env.get("CLAUDE_CODE_MAX_RETRIES", "1")}
    try:
        done = call(argv, timeout_s=_CALL_S, env=env, stdin=b"Say ok.")
    except OSError as error:
        return [Check(name="login", ok=False, said=agent.why_not_started(settings.agent, error), remedy="see agent")]
    return [_judged(done, pays)]


def _who(name: str) -> str:
    return f"{name} is set, so {_PAYS[name]} (cron does not know it unless the crontab sets it)"


def _judged(done: Finished, pays: str) -> Check:
    """What came of the call; that `subtype` says success means nothing."""
    if done.timed_out:
        said = f"claude gave no answer within {duration(_CALL_S)}"
        return Check(name="login", ok=False, said=said, remedy="is the network there? see status.claude.com")
    result = _result(done.stdout)
    cost = result.get("total_cost_usd")
    cost_usd = cost if isinstance(cost, int | float) else 0.0
    if result and not result.get("is_error") and done.code == 0:
        return Check(name="login", ok=True, said=f"claude answered, for ${cost_usd:.4f}; {pays}")
    passes = result.get("api_error_status") in _PASSES
    said = f"claude says: {_words(result, done)} ({pays})"
    remedy = "a run waits, or tries again later" if passes else _LOG_IN
    return Check(name="login", ok=False, said=said, remedy=remedy, obstacle=not passes)


def _result(stdout: bytes) -> dict[str, Any]:
    """The result that it printed; among all events when the agent's own words ask for those."""
    try:
        said = json.loads(stdout)
    except (ValueError, RecursionError):
        return {}
    events = [one for one in (said if isinstance(said, list) else [said]) if isinstance(one, dict)]
    return next((one for one in reversed(events) if one.get("type") == "result"), {})


def _words(result: dict[str, Any], done: Finished) -> str:
    errors = result.get("errors")
    said = result.get("result") or (errors[0] if isinstance(errors, list) and errors else "")
    text = str(said or (done.stderr.strip() or done.stdout.strip()).decode(errors="replace"))
    return text.strip()[:300] or f"nothing, and ended with {done.code}"
