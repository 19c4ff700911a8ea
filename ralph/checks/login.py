"""Whether claude is logged in, by one cheap call when that is wanted; else who would pay."""

import os
from collections.abc import Sequence
from pathlib import Path

from ralph.agent import command as agent
from ralph.agent.stream import Stream
from ralph.agent.turn import Outcome, Turn
from ralph.checks.check import Check
from ralph.process import Ended, Finished, call
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
    *("-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json", "--max-turns", "1"),
    *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
    *("--no-session-persistence", "--system-prompt", "Answer with one word."),
)
"""Measured: 1.5 kB go out, in place of 116; no hook runs, no server is started, no session is kept."""
_FOR_CRON = "; for cron `claude setup-token` makes a CLAUDE_CODE_OAUTH_TOKEN"


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
    """What came of the call, as a run would judge it."""
    if done.timed_out:
        said = f"claude gave no answer within {duration(_CALL_S)}"
        return Check(name="login", ok=False, said=said, remedy="is the network there? see status.claude.com")
    turn = _turn(done)
    if turn.outcome is Outcome.OK:
        return Check(name="login", ok=True, said=f"claude answered, for ${turn.cost_usd or 0:.4f}; {pays}")
    passes = turn.outcome in (Outcome.TROUBLE, Outcome.LIMIT)
    why = turn.said or turn.why if turn.fix else turn.why
    remedy = turn.fix or ("a run waits, or tries again later" if passes else "start claude here, and see")
    if "log in" in remedy:
        remedy += _FOR_CRON
    return Check(name="login", ok=False, said=f"{why} ({pays})", remedy=remedy, obstacle=not passes)


def _turn(done: Finished) -> Turn:
    stream = Stream(lambda _event: None, lambda _line: None)
    stream.sees(done.stdout)
    stream.complains(done.stderr)
    return stream.turn(Ended(code=done.code), took_s=0, now=0)
