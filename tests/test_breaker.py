"""The circuit breaker (design section 4): stalls, and the one try after a block; failures are told in test_loop."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fiction import (
    AT_LIMIT,
    CLAIM,
    DONE,
    FAILED,
    HOPELESS,
    HUNG,
    INTERRUPTED,
    LIMITS,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    SPENT,
    A,
    B,
    Fiction,
    Step,
    says,
    tell,
)

from ralph import progress
from ralph.agent.turn import Turn
from ralph.judge import Judgement
from ralph.progress import Progress
from ralph.verdict import Reason, Tallies

STALLS = replace(LIMITS, max_failures=None, max_stalls=3, notify_frequency=None)
IDLE = Step(A)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param([IDLE] * 3, id="nothing at all"),
        pytest.param([Step(A + "; note")] * 3, id="notes"),
        pytest.param([Step(A, FAILED)] * 3, id="failures"),
        pytest.param([Step(A, HUNG)] * 3, id="watchdogs"),
        pytest.param([Step(CLAIM)] * 3, id="claims"),
        pytest.param([IDLE, Step(A, FAILED), Step(CLAIM)], id="some of each"),
        pytest.param([Step(A, commits=1)] * 3, id="commits of nothing but the progress file"),
        pytest.param([Step("- [!] a"), Step("- [~] a"), Step(A)], id="marks that are no ticks"),
    ],
)
def test_what_changes_nothing_needs_a_person(story: Sequence[Step]) -> None:
    world = Fiction(A, story)
    stop, _ = tell(world, STALLS)
    assert (stop.reason, stop.reason.code, world.log[-1]) == (Reason.STALLED, 4, "block: no progress")
    assert "3 iterations" in stop.why


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Step(B), id="a tick"),
        pytest.param(Step(A + "; - [ ] b"), id="a new task"),
        pytest.param(Step(A, changed="a.py"), id="a changed file"),
        pytest.param(Step(A, changed="a.py", commits=1), id="a commit"),
        pytest.param(Step(A, FAILED, changed="a.py"), id="a changed file, and it fails"),
        pytest.param(Step(CLAIM, changed="a.py"), id="a changed file, and a claim that is refused"),
        pytest.param(Step(A, HUNG, changed="a.py", commits=1), id="a commit, and it hangs"),
    ],
)
def test_what_changes_something_begins_the_row_of_stalls_anew(step: Step) -> None:
    world = Fiction(A, [IDLE, IDLE, step, *[Step(step.text.removesuffix("; RALPH_DONE"))] * 3])
    stop, _ = tell(world, STALLS)
    assert (stop.reason, world.ran) == (Reason.STALLED, 6)


def test_nothing_stalls_without_a_limit() -> None:
    stop, _ = tell(Fiction(A, [IDLE] * 99), replace(STALLS, max_stalls=None, max_iterations=99))
    assert stop.reason is Reason.LIMIT


def test_three_failures_are_said_as_failures_where_they_are_stalls_as_well() -> None:
    stop, _ = tell(Fiction(A, [Step(A, FAILED)] * 3), replace(STALLS, max_failures=3))
    assert stop.reason is Reason.FAILURES


@pytest.mark.parametrize(
    ("limits", "turn"),
    [
        pytest.param({"max_time_s": 60.0}, replace(OUT_OF_TIME, took_s=60.0), id="the time of the start was over"),
        pytest.param({"max_cost_usd": 1.0}, OUT_OF_BUDGET, id="the money of the start was spent"),
        pytest.param({"max_total_cost_usd": 10.0}, OUT_OF_BUDGET, id="the money of the plan was spent"),
    ],
)
@pytest.mark.parametrize("half_open", [None, Reason.STALLED], ids=["at any time", "in the try after a block"])
def test_what_a_limit_of_the_start_cut_short_is_no_stall(
    limits: dict[str, float], turn: Turn, half_open: Reason | None
) -> None:
    """The next start goes on; a block would keep it from that."""
    world = Fiction(SPENT + A, [Step(SPENT + A, turn)])
    stop, log = tell(world, replace(LIMITS, max_stalls=1, **limits), Tallies(half_open=half_open))  # type: ignore[arg-type]
    assert (stop.reason, "block" in log) == (Reason.LIMIT, False)


HALF_OPEN = [
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A, FAILED)]),
        Reason.FAILURES,
        "#1 notice block: failed",
        id="one failure opens it again",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(CLAIM)]),
        Reason.REFUSED,
        "#1 refused notice block: done refused",
        id="so does one refused claim",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(B)] + [Step(B, FAILED)] * 3),
        Reason.FAILURES,
        "#1 unblock notice pause #2 pause #3 pause #4 block: failed",
        id="progress closes it, and then it takes three failures again",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A), Step(B), Step(DONE)]),
        Reason.DONE,
        "#1 notice pause #2 unblock pause #3 holds",
        id="it is closed once",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A), Step(A), Step(A, FAILED)]),
        Reason.FAILURES,
        "#1 notice pause #2 pause #3 block: failed",
        id="what changes nothing leaves it half open",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A)] * 4),
        Reason.STALLED,
        "#1 notice pause #2 pause #3 pause #4 block: no progress",
        id="after failures, stalls are as many as ever",
    ),
    pytest.param(
        Reason.STALLED,
        Fiction(A, [Step(A)]),
        Reason.STALLED,
        "#1 notice block: no progress",
        id="after stalls, one more opens it again",
    ),
    pytest.param(
        Reason.STALLED,
        Fiction(A, [Step(B)] + [Step(B)] * 4),
        Reason.STALLED,
        "#1 unblock notice pause #2 pause #3 pause #4 pause #5 notice block: no progress",
        id="after stalls, progress closes it as well",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A, HUNG, "a.py", 1), Step(DONE)]),
        Reason.DONE,
        "#1 unblock notice pause #2 holds",
        id="a commit before a watchdog is progress",
    ),
    pytest.param(
        Reason.REFUSED,
        Fiction(B, [Step(DONE)]),
        Reason.DONE,
        "#1 holds unblock notice",
        id="done that holds closes it, though nothing was ticked that day",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A, HOPELESS)]),
        Reason.HOPELESS,
        "#1",
        id="what cannot mend itself leaves it as it is",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A, INTERRUPTED)], signal_after=1),
        Reason.INTERRUPTED,
        "#1",
        id="and so does a signal",
    ),
    pytest.param(
        Reason.FAILURES,
        Fiction(A, [Step(A, AT_LIMIT), Step(A, FAILED)]),
        Reason.FAILURES,
        "#1 wait 300 #1 notice block: failed",
        id="a usage limit is waited for in between",
    ),
]


@pytest.mark.parametrize(("half_open", "world", "reason", "log"), HALF_OPEN)
def test_the_try_after_a_block(half_open: Reason, world: Fiction, reason: Reason, log: str) -> None:
    world = replace(world)
    stop, logged = tell(world, replace(LIMITS, max_stalls=4), Tallies(half_open=half_open))
    assert (stop.reason, logged) == (reason, log)


def test_what_a_refusal_puts_back_is_no_progress() -> None:
    """The agent takes the same task out of the list again and again, and claims done."""

    class Restoring(Fiction):
        def refuse_done(self, judged: Judgement) -> Progress:
            super().refuse_done(judged)
            return self._edit(lambda text: progress.with_tasks(text, [task.raw for task in judged.missing]))

    world = Restoring(A, [Step("RALPH_DONE")] * 3)
    stop, _ = tell(world, replace(LIMITS, max_failures=None, max_stalls=3))
    assert stop.reason is Reason.STALLED
    assert [judged.missing == says(A).tasks for _, judged in world.told] == [True] * 3
