"""How long to wait before the agent is asked again, when what stopped it lies outside of it and passes."""

from dataclasses import dataclass

from ralph.agent.turn import Outcome, Turn
from ralph.words import duration, moment

TROUBLE_IS_FAILURE_S = 3600.0
"""Trouble in a row that lasts longer is a failed iteration."""

_LIMIT_S = (300.0, 3600.0)
"""The first and the longest pause when nobody knows when a limit ends."""
_TROUBLE_S = (30.0, 900.0)
_AFTER_RESET_S = 2.0
_LIMIT_AT_LEAST_S = (3.0, 3600.0)
"""The least pause even so: nobody spins on a limit that does not end when it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A pause before the same iteration again."""

    turn: Turn
    """The one that is the reason."""
    seconds: float
    until: float
    """The same as a time since 1970."""

    @property
    def is_for_limit(self) -> bool:
        """Whether the account's limit is what is waited for."""
        return self.turn.outcome is Outcome.LIMIT

    def __str__(self) -> str:
        return f"waiting until {moment(self.until, self.until - self.seconds)} ({duration(self.seconds)})"


def after(turn: Turn, *, repeats: int, now: float) -> Wait:
    """The pause after such a turn when `repeats` others came directly before it."""
    if turn.outcome is not Outcome.LIMIT:
        seconds = _growing(_TROUBLE_S, repeats)
    elif turn.resets_at is None or turn.resets_at < now:
        seconds = _growing(_LIMIT_S, repeats)
    else:
        seconds = max(turn.resets_at + _AFTER_RESET_S - now, _growing(_LIMIT_AT_LEAST_S, repeats))
    return Wait(turn=turn, seconds=seconds, until=now + seconds)


def paused_s(times: int) -> float:
    """How long so many pauses for trouble in a row are together."""
    return sum(_growing(_TROUBLE_S, before) for before in range(min(times, 100)))


def _growing(bounds: tuple[float, float], repeats: int) -> float:
    first, most = bounds
    return float(min(first * 2 ** min(repeats, 30), most))
