"""What the tests of deciding share: texts of progress files, turns, settings, iterations."""

from dataclasses import replace

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.judge import Iteration
from ralph.progress import Progress, parse
from ralph.settings import Settings

LIMITS = Settings(max_failures=3, max_stalls=None)
HOUR_S = 3600.0
ONCE = replace(LIMITS, once=True)
NO_WAIT = replace(LIMITS, wait=False)
NO_COMMITS = replace(LIMITS, auto_commit=False)

OK = Turn(outcome=Outcome.OK)
FAILED = Turn(outcome=Outcome.FAILED, why="exit 1")
OUT_OF_TURNS = Turn(outcome=Outcome.OUT_OF_TURNS, why="out of turns")
OUT_OF_BUDGET = Turn(outcome=Outcome.OUT_OF_BUDGET, why="out of budget", cost_usd=1.02)
OUT_OF_TIME = Turn(outcome=Outcome.OUT_OF_TIME, why="max-time was over")
HUNG = Turn(outcome=Outcome.HUNG, why="it was silent")
AT_LIMIT = Turn(outcome=Outcome.LIMIT, why="limit")
TROUBLE = Turn(outcome=Outcome.TROUBLE, why="HTTP 529")
HOPELESS = Turn(outcome=Outcome.HOPELESS, why="not logged in")
INTERRUPTED = Turn(outcome=Outcome.INTERRUPTED, why="it was interrupted")
CUT_SHORT = [
    Outcome.HUNG,
    Outcome.TIMED_OUT,
    Outcome.CONTEXT_FULL,
    Outcome.TOO_LONG,
    Outcome.OUT_OF_TURNS,
    Outcome.OUT_OF_BUDGET,
]
"""Outcomes of an agent that was ended, or ended itself, in the middle of its work."""
A, B, DONE = "- [ ] a", "- [x] a", "- [x] a; RALPH_DONE"
CLAIM = A + "; RALPH_DONE"


def says(text: str) -> Progress:
    """A progress file with these lines, parted by "; "."""
    return parse(text.replace("; ", "\n").encode())


def iteration(
    before: str, after: str, turn: Turn = OK, *, commits: int = 0, changed: str = "", ended_s: float = 0.0
) -> Iteration:
    return Iteration(
        number=1,
        before=says(before),
        after=says(after),
        turn=turn,
        commits=Commits(count=commits),
        changed=tuple(changed.split()),
        ended_s=ended_s,
    )


START = 1_795_000_000
"""When every story begins, in seconds since 1970."""
