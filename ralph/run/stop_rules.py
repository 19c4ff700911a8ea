"""The verdict: why to stop before the next iteration. Pure functions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ralph.agent.turn import Outcome
from ralph.plan.progress import CHECKS_ALONE, Progress
from ralph.settings.table import Settings
from ralph.words import REASON_LENGTH, format_duration, one_line, plural, usd_or_empty

# Attempts in a row that may fail only because of a verify command that was red before the first.
_RED_AT_MOST = 3
_NOTHING_MOVED = "no task ticked or added, no file but the progress file"
_FIX_AND_RERUN = "fix it, then run ralph again (from cron, first delete RALPH_BLOCKED in {})"


class _RunEnd(NamedTuple):
    code: int
    label: str
    move: str = ""


class Reason(_RunEnd, Enum):
    """Why a run ends: the exit code, the word for it, and what the user can do to continue."""

    DONE = 0, "done"
    ONCE = 0, "finished"
    """A mode of one iteration, such as plan, is over."""
    FAILURES = 1, "failed", _FIX_AND_RERUN
    TROUBLE = 1, "trouble outside"
    """It lasted for hours, and the user cannot fix it in the project."""
    HOPELESS = 1, "cannot continue"
    ONCE_FAILED = 1, "not finished"
    """A mode of one iteration did not do what it is for."""
    LIMIT = 3, "limit reached"
    UNFINISHED = 3, "work remains"
    """validate found that the plan is not done."""
    STOPPED = 3, "stopped", "delete RALPH_STOP in {}"
    BLOCKED = 4, "blocked", "answer or fix it, then delete RALPH_BLOCKED in {}"
    TALK = 4, "waits for you", "start it in a terminal"
    """The mode is a conversation."""
    STUCK = 4, "stuck", "fix it, then change [!] to [ ] in {}"
    """Under --strict: work remains, and no task can be begun."""
    QUEUED = 4, "waits for you", "commit, stash or remove them, then run it again"
    """Finished tasks cannot be merged."""
    TAMPERED = 4, "tampered with", _FIX_AND_RERUN
    STALLED = 4, "no progress", _FIX_AND_RERUN
    REFUSED = 4, "done refused", _FIX_AND_RERUN
    INTERRUPTED = 128, "interrupted", "run it again; to change course, write under ## Messages or use ralph PLAN talk"
    """The exit code is this plus the signal's number."""


class Stop(NamedTuple):
    """Why the run ends, for the exit code and for the user."""

    reason: Reason
    why: str = ""

    def next_step_hint(self, progress_file: str) -> str:
        """What the user can do to continue; empty if there is nothing."""
        if self.reason is Reason.STUCK and " is blocked" not in self.why:
            return ""
        return self.reason.move.format(progress_file)

    @property
    def opens_breaker(self) -> bool:
        """Whether the circuit breaker trips: ralph writes RALPH_BLOCKED, so that no later run repeats the failures."""
        return self.reason.move is _FIX_AND_RERUN


@dataclass(kw_only=True)
class Tally:
    """What has happened in this run so far; "in a row" is since the last good iteration."""

    iterations: int = 0
    commits: int = 0
    cost_usd: float | None = None
    """None as long as no agent has reported one."""
    at_least: bool = False
    """Whether the cost is a lower bound."""
    waited_s: float = 0.0
    failures: int = 0
    """In a row."""
    refusals: int = 0
    """In a row."""
    stalls: int = 0
    """Iterations since something changed."""
    last_failure: str = ""
    """The last failure or refusal."""
    has_moved: bool = False
    """Whether something has changed since the first iteration of the plan."""
    first_verify_failure: str | None = None
    """How the verify command ended before anything was built; empty once it has been green, None before it ran."""
    red_failures: int = 0
    """Failures in a row that have no other reason."""
    unrecorded_wait_s: float = 0.0
    """Seconds waited since the last iteration was recorded."""
    last_wait_ended_at: float = 0.0
    """By `clock.boot_clock_s()`."""
    repeat_cause: Outcome | None = None
    """Why the same iteration is repeated after a pause."""
    repeats: int = 0
    """How often in a row, without a change in between."""
    crashes: Counter[str] = field(default_factory=Counter)
    """For each task, how often in a row the agent itself failed at it."""

    def set_one_below_limit(self, reason_name: str, settings: Settings) -> None:
        """Counts so that one more of what tripped the circuit breaker in an earlier run trips it again."""
        for reason, name, limit, *_ in _BREAKERS:
            if reason.name == reason_name:
                setattr(self, name, (getattr(settings, limit) or 1) - 1)


# What trips the circuit breaker: what is counted, the setting that limits it, and the words for it.
_BREAKERS = (
    (Reason.FAILURES, "failures", "max_failures", "iteration", "{} failed{}: {}"),
    (Reason.REFUSED, "refusals", "max_failures", "time", "done was claimed {}{} and does not hold: {}"),
    (Reason.STALLED, "stalls", "max_stalls", "iteration", f"{{}} changed nothing{{}}: {_NOTHING_MOVED}"),
)


def stop_reason(now: Progress, tally: Tally, settings: Settings, elapsed_s: float = 0.0) -> Stop | None:
    """Returns why to stop before the next iteration, or None to continue."""
    if now.blocked is not None:
        return Stop(Reason.BLOCKED, now.blocked or "RALPH_BLOCKED is in the progress file")
    if not settings.once and _has_accepted_plan_done(now, settings):
        return Stop(Reason.DONE)
    if settings.interactive:
        return Stop(Reason.TALK, "this mode is a conversation")
    if now.stop:
        return Stop(Reason.STOPPED, "RALPH_STOP is in the progress file")
    return _breaker_tripped(tally, settings) or _limit_reached(now, tally, settings, elapsed_s)


def _has_accepted_plan_done(now: Progress, settings: Settings) -> bool:
    """Whether there is a RALPH_DONE in the file that needs no further check."""
    if not now.done or (settings.strict and (now.open or (settings.evidence and not now.verified))):
        return False
    return settings.verify is None or bool(now.verified and not now.verified.endswith(CHECKS_ALONE))


def has_unaccepted_plan_done(now: Progress, settings: Settings) -> bool:
    """Whether there is a RALPH_DONE to check before it counts; under --strict, also whether no task is open."""
    if settings.once or now.blocked is not None or _has_accepted_plan_done(now, settings):
        return False
    return bool(now.tasks) and (now.done or not now.open) if settings.strict else now.done


def _breaker_tripped(tally: Tally, settings: Settings) -> Stop | None:
    stop = None
    for reason, name, limit, thing, text in _BREAKERS:
        count = getattr(tally, name)
        if not stop and _reached(count, getattr(settings, limit)):
            stop = Stop(reason, text.format(plural(count, thing), " in a row" * (count > 1), tally.last_failure))
    if tally.red_failures and (stop or tally.red_failures >= _RED_AT_MOST):
        why = f"verify was red before the first task ({one_line(tally.first_verify_failure or '', REASON_LENGTH)})"
        stop = Stop(Reason.STALLED, f"{why} and no attempt has made it green")
    return stop


def _limit_reached(now: Progress, tally: Tally, settings: Settings, elapsed_s: float) -> Stop | None:
    if _reached(tally.iterations, settings.max_iterations):
        return Stop(Reason.LIMIT, f"max-iterations is {settings.max_iterations}")
    for name, whose, most, spent in _usd_limits_and_spent(now, tally, settings):
        if round(spent, 6) >= most:  # sums of prices are not exact
            return Stop(Reason.LIMIT, f"{name} is {usd_or_empty(most)}, and {whose} cost {usd_or_empty(spent)} so far")
    if _reached(elapsed_s, settings.max_time):
        return Stop(Reason.LIMIT, f"max-time is {format_duration(settings.max_time or 0.0)}")
    return None


def _reached(count: float, limit: float | None) -> bool:
    return limit is not None and count >= limit


def _usd_limits_and_spent(now: Progress, tally: Tally, settings: Settings) -> Iterator[tuple[str, str, float, float]]:
    """Yields the limits in US dollars: the name, whose limit it is, the limit, and what was spent."""
    if settings.max_cost is not None:
        yield "max-cost", "this run", settings.max_cost, tally.cost_usd or 0.0
    if settings.max_total_cost is not None:
        yield "max-total-cost", "the plan", settings.max_total_cost, now.spent_usd


def remaining_usd(now: Progress, tally: Tally, settings: Settings, bound: float | None = None) -> float | None:
    """Returns what is left of the budgets of this run and of the plan, in US dollars, and at most `bound`.

    None without a limit.
    """
    left = [most - spent for _, _, most, spent in _usd_limits_and_spent(now, tally, settings)]
    return min(left if bound is None else [*left, bound], default=None)
