"""Whole runs (design section 5) in a world of values; waits and trouble outside have a file of their own."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fiction import (
    CLAIM,
    CUT_SHORT,
    DONE,
    FAIL,
    FAILED,
    HOPELESS,
    HOUR_S,
    HUNG,
    INTERRUPTED,
    LIMITS,
    OK,
    ONCE,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    PASS,
    SPENT,
    START,
    TROUBLE,
    A,
    B,
    Fiction,
    Later,
    Step,
    says,
    tell,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.agent.turn import Outcome, Turn
from ralph.judge import Verification
from ralph.verdict import OPENS, Limits, Reason, Tallies

STORIES = [
    pytest.param(Fiction(DONE), LIMITS, Reason.DONE, "", id="done before the start: no agent, no notice"),
    pytest.param(
        Fiction(A, [Step(DONE)]), LIMITS, Reason.DONE, "#1 holds notice", id="done in one, and no pause after"
    ),
    pytest.param(
        Fiction(A, [Step(A), Step(B), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 notice pause #2 pause #3 holds",
        id="a pause between iterations, a notice after the first",
    ),
    pytest.param(
        Fiction(A, [Step(A)] * 11),
        replace(LIMITS, max_iterations=11),
        Reason.LIMIT,
        "#1 notice pause #2 pause #3 pause #4 pause #5 notice pause "
        "#6 pause #7 pause #8 pause #9 pause #10 notice pause #11",
        id="a notice after every fifth",
    ),
    pytest.param(
        Fiction(A, [Step(A)] * 2),
        replace(LIMITS, max_iterations=2, notify_frequency=None),
        Reason.LIMIT,
        "#1 pause #2",
        id="no notices in between when they are off",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED)] * 3),
        LIMITS,
        Reason.FAILURES,
        "#1 notice pause #2 pause #3 block: failed",
        id="three failures in a row leave the breaker open",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED), Step(A, FAILED), Step(A), Step(A, FAILED), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 notice pause #2 pause #3 pause #4 pause #5 holds notice",
        id="failures that are not in a row stop nothing",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED)] * 99 + [Step(DONE)]),
        replace(LIMITS, max_failures=None, notify_frequency=None),
        Reason.DONE,
        " pause ".join(f"#{number}" for number in range(1, 101)) + " holds",
        id="a hundred failures where none is too many",
    ),
    pytest.param(
        Fiction(A, [Step(A, HUNG, commits=1, changed="a.py")] * 3 + [Step(A, HUNG), Step(DONE)]),
        replace(LIMITS, max_failures=2),
        Reason.DONE,
        "#1 notice pause #2 pause #3 pause #4 pause #5 holds notice",
        id="an agent that hangs after each commit has not failed",
    ),
    pytest.param(
        Fiction(A, [Step(CLAIM)] * 3),
        LIMITS,
        Reason.REFUSED,
        "#1 refused notice pause #2 refused pause #3 refused block: done refused",
        id="three refused claims in a row need a person",
    ),
    pytest.param(
        Fiction(A, [Step(CLAIM), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 refused notice pause #2 holds",
        id="the iteration after a refusal can mend it",
    ),
    pytest.param(
        Fiction(A, [Step(A + "; RALPH_STOP")]),
        LIMITS,
        Reason.STOPPED,
        "#1 notice",
        id="stop is heard after an iteration",
    ),
    pytest.param(
        Fiction(A, [Step(A + "; RALPH_BLOCKED: x")]), LIMITS, Reason.BLOCKED, "#1 notice", id="and so is blocked"
    ),
    pytest.param(Fiction(A + "; RALPH_STOP"), LIMITS, Reason.STOPPED, "", id="stop before the start: no agent"),
    pytest.param(
        Fiction(A, [Step(A)], later=[Later(5, "RALPH_STOP")]),
        replace(LIMITS, delay_s=60.0),
        Reason.STOPPED,
        "#1 notice pause",
        id="stop is heard during a pause",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED)] * 2 + [Step(A + "; RALPH_STOP", FAILED)]),
        LIMITS,
        Reason.STOPPED,
        "#1 notice pause #2 pause #3",
        id="a person's stop leaves the breaker as it is",
    ),
    pytest.param(Fiction(A, [Step(A, HOPELESS)]), LIMITS, Reason.HOPELESS, "#1", id="hopeless ends at once"),
    pytest.param(
        Fiction(A, [Step(A, FAILED), Step(A, FAILED), Step(A, HOPELESS)]),
        LIMITS,
        Reason.HOPELESS,
        "#1 notice pause #2 pause #3",
        id="hopeless after failures opens no breaker",
    ),
    pytest.param(Fiction(A, signal_after=0), LIMITS, Reason.INTERRUPTED, "", id="a signal before the first iteration"),
    pytest.param(
        Fiction(A, [Step(A)], signal_after=1),
        LIMITS,
        Reason.INTERRUPTED,
        "#1 notice pause",
        id="a signal between iterations ends the run before the next",
    ),
    pytest.param(
        Fiction(A, [Step(A, INTERRUPTED)], signal_after=1),
        LIMITS,
        Reason.INTERRUPTED,
        "#1",
        id="a signal during an iteration: no notice of progress, no pause",
    ),
    pytest.param(
        Fiction(A, [Step(A)], later=[Later(5, "signal")]),
        replace(LIMITS, delay_s=60.0),
        Reason.INTERRUPTED,
        "#1 notice pause",
        id="a signal during a pause",
    ),
    pytest.param(
        Fiction("", [Step("", FAILED)], signal_after=1),
        ONCE,
        Reason.INTERRUPTED,
        "#1",
        id="a signal beats what became of the plan",
    ),
    pytest.param(
        Fiction("", [Step(A)]),
        ONCE,
        Reason.ONCE,
        "#1 in progress",
        id="a plan is one iteration, without a notice of progress",
    ),
    pytest.param(Fiction(DONE, [Step(A)]), ONCE, Reason.ONCE, "#1 in progress", id="planning anew what was done"),
    pytest.param(
        Fiction("", [Step("RALPH_BLOCKED: x")]), ONCE, Reason.BLOCKED, "#1", id="a plan that needs a person says so"
    ),
    pytest.param(
        Fiction(DONE, [Step(DONE, FAILED)]),
        ONCE,
        Reason.ONCE_FAILED,
        "#1",
        id="a plan that fails leaves a person's done",
    ),
    pytest.param(Fiction("", [Step(DONE)]), ONCE, Reason.ONCE, "#1 in progress", id="planning does not declare done"),
    pytest.param(
        Fiction("", [Step(DONE, FAILED)]), ONCE, Reason.ONCE_FAILED, "#1 in progress", id="nor does it when it fails"
    ),
    pytest.param(
        Fiction("", [Step("", FAILED)]), ONCE, Reason.ONCE_FAILED, "#1", id="a plan that fails is not tried again"
    ),
    pytest.param(
        Fiction("", [Step("", replace(OUT_OF_TIME, took_s=60.0))]),
        replace(ONCE, max_time_s=60.0),
        Reason.LIMIT,
        "#1",
        id="a plan out of time",
    ),
]


@pytest.mark.parametrize(("world", "limits", "reason", "log"), STORIES)
def test_a_run(world: Fiction, limits: Limits, reason: Reason, log: str) -> None:
    world = replace(world)
    stop, logged = tell(world, limits)
    assert (stop.reason, logged) == (reason, log)
    if reason is not Reason.ONCE_FAILED:
        assert says(world.text).done == (reason is Reason.DONE)


def test_a_run_numbers_its_iterations_without_a_gap() -> None:
    world = Fiction(A, [Step(A)] * 1000)
    assert tell(world, replace(LIMITS, max_iterations=1000))[0].why == "max-iterations is 1000"
    assert [int(entry[1:]) for entry in world.log if entry[0] == "#"] == list(range(1, 1001))
    assert world.log.count("pause") == 999


def costing(turn: Turn, cost_usd: float) -> Turn:
    return replace(turn, cost_usd=cost_usd)


LONG = replace(OK, took_s=40 * 60.0)
BOUNDED = [
    pytest.param(
        Fiction(A, [Step(A, LONG)] * 3),
        replace(LIMITS, max_time_s=2 * HOUR_S),
        "max-time is 2h00m",
        "#1 notice pause #2 pause #3",
        id="the time is over after an iteration",
    ),
    pytest.param(
        Fiction(A, [Step(A, LONG)] * 2 + [Step(A, replace(OUT_OF_TIME, took_s=25 * 60.0))]),
        replace(LIMITS, max_time_s=1.75 * HOUR_S),
        "max-time is 1h45m",
        "#1 notice pause #2 pause #3",
        id="the time is over during an iteration, which is then ended",
    ),
    pytest.param(
        Fiction(A, [Step(A, LONG)], later=[Later(3600, "")]),
        replace(LIMITS, max_time_s=HOUR_S, delay_s=9 * HOUR_S),
        "max-time is 1h00m",
        "#1 notice pause",
        id="the time is over during a pause, which is then over as well",
    ),
    pytest.param(
        Fiction(A, [Step(A)], later=[Later(1, "sleep 40000")]),
        replace(LIMITS, max_time_s=HOUR_S, delay_s=2.0),
        "max-time is 1h00m",
        "#1 notice pause",
        id="the machine sleeps until it is over",
    ),
    pytest.param(
        Fiction(A, [Step(A, costing(OK, 0.4))] * 3),
        replace(LIMITS, max_cost_usd=1.0),
        "max-cost is $1.00, and this start cost $1.20",
        "#1($1.00) notice pause #2($0.60) pause #3($0.20)",
        id="the money of the start, of which each iteration may have the rest",
    ),
    pytest.param(
        Fiction(A, [Step(A, costing(FAILED, 0.5)), Step(A), Step(A, costing(HUNG, 0.5), "a.py", 1)]),
        replace(LIMITS, max_cost_usd=1.0),
        "max-cost is $1.00, and this start cost $1.00",
        "#1($1.00) notice pause #2($0.50) pause #3($0.50)",
        id="what failed costs as well; what nobody knows the cost of does not",
    ),
    pytest.param(
        Fiction(SPENT + A, [Step(SPENT + A, costing(OK, 0.4)), Step(A, costing(OK, 0.4)), Step(A, costing(OK, 0.4))]),
        replace(LIMITS, max_total_cost_usd=10.0),
        "max-total-cost is $10.00, and the plan cost $10.20 so far",
        "#1($1.00) notice pause #2($0.60) pause #3($0.20)",
        id="the money of the plan, whatever the agent does to that line, and no pause after the last",
    ),
    pytest.param(
        Fiction(SPENT + A, [Step(A, costing(OK, 0.4))] * 3),
        replace(LIMITS, max_cost_usd=1.1, max_iteration_cost_usd=0.5, max_total_cost_usd=10.2),
        "max-cost is $1.10, and this start cost $1.20",
        "#1($0.50) notice pause #2($0.50) pause #3($0.30)",
        id="all of them at once, and the least rest counts",
    ),
    pytest.param(
        Fiction(A, [Step(A, costing(OK, 0.6)), Step(A, costing(OUT_OF_BUDGET, 0.6))]),
        replace(LIMITS, max_cost_usd=1.2, max_failures=1),
        "max-cost is $1.20, and this start cost $1.20",
        "#1($1.20) notice pause #2($0.60)",
        id="an iteration that the start's money bound has not failed",
    ),
    pytest.param(
        Fiction(A, [Step(A, costing(OUT_OF_BUDGET, 0.0))]),
        replace(LIMITS, max_cost_usd=1.0),
        "nothing is left of max-cost or max-total-cost: out of budget",
        "#1($1.00)",
        id="an agent that has used it up ends the start, whatever it says it cost",
    ),
]


@pytest.mark.parametrize(("world", "limits", "why", "log"), BOUNDED)
def test_a_run_reaches_a_limit(world: Fiction, limits: Limits, why: str, log: str) -> None:
    stop, logged = tell(replace(world), limits)
    assert (stop.reason, stop.why, logged) == (Reason.LIMIT, why, log)


def test_no_money_is_spent_on_a_plan_that_has_none_left() -> None:
    stop, log = tell(Fiction("Spent: $10.00; " + A), replace(LIMITS, max_total_cost_usd=10.0))
    assert (stop.reason, log) == (Reason.LIMIT, "")


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_iterations": 1}, id="the last iteration"),
        pytest.param({"max_time_s": 60.0}, id="the last minute"),
        pytest.param({"max_time_s": 61.0}, id="the last second, which the verify command takes"),
        pytest.param({"max_cost_usd": 0.5}, id="the last of the start's money"),
        pytest.param({"max_iteration_cost_usd": 0.4}, id="more money than one iteration may have"),
        pytest.param({"max_total_cost_usd": 9.5}, id="the last of the plan's money"),
        pytest.param({"max_failures": 1, "max_stalls": 1}, id="the last chance"),
        pytest.param(
            {"max_iterations": 1, "max_time_s": 60.0, "max_cost_usd": 0.5, "max_total_cost_usd": 9.5, "max_stalls": 1},
            id="the last of everything",
        ),
    ],
)
@pytest.mark.parametrize("verify", [False, True], ids=["claimed", "and verified"])
def test_done_with_the_last_of_it_is_done(limits: dict[str, float], verify: bool) -> None:
    done = replace(OK, took_s=60.0, cost_usd=0.5)
    world = Fiction(SPENT + A, [Step(SPENT + DONE, done)], verifications=[PASS])
    stop, _ = tell(world, replace(LIMITS, verify=verify, **limits))  # type: ignore[arg-type] # whole numbers all
    assert stop.reason is Reason.DONE


turns = st.builds(
    Turn,
    outcome=st.sampled_from(Outcome),
    why=st.just("why"),
    cost_usd=st.none() | st.floats(0.0, 2.0),
    took_s=st.sampled_from([0.0, 2.0, 600.0, 7200.0]),
    resets_at=st.none() | st.integers(START - 100, START + 100_000),
)
steps = st.builds(
    Step,
    text=st.sampled_from([A, A, A, B, DONE, CLAIM, "", A + "; - [ ] b", DONE + "; Verified: by me"]),
    turn=turns,
    changed=st.sampled_from(["", "a.py"]),
    commits=st.sampled_from([0, 1]),
)
allowed = st.builds(
    Limits,
    max_iterations=st.none() | st.integers(1, 8),
    max_time_s=st.none() | st.sampled_from([60.0, 7200.0, 90_000.0]),
    max_cost_usd=st.none() | st.floats(0.5, 5.0),
    max_iteration_cost_usd=st.none() | st.floats(0.1, 2.0),
    max_failures=st.none() | st.integers(1, 4),
    max_stalls=st.none() | st.integers(1, 4),
    delay_s=st.sampled_from([0.0, 2.0]),
    once=st.booleans(),
    wait=st.booleans(),
    verify=st.booleans(),
    commits=st.booleans(),
)
somebody = st.lists(
    st.builds(
        Later,
        at_s=st.integers(1, 20_000).map(float),
        what=st.sampled_from(["RALPH_STOP", "RALPH_DONE", "RALPH_BLOCKED: x", "signal", "sleep 30000", ""]),
    ),
    max_size=3,
).map(sorted)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(steps, max_size=15),
    allowed,
    somebody,
    st.lists(st.sampled_from([PASS, FAIL, None]), min_size=1, max_size=4),
    st.none() | st.sampled_from(OPENS),
)
def test_whatever_happens(
    story: list[Step],
    limits: Limits,
    later: Sequence[Later],
    verifications: list[Verification | None],
    half_open: Reason | None,
) -> None:
    """What holds in every run, however it goes."""
    world = Fiction(A, [*story, Step(A + "; RALPH_STOP")], verifications=verifications, later=later)
    stop, _ = tell(world, limits, Tallies(half_open=half_open))
    judged = [judgement for _, judgement in world.told]
    assert all(limits.max_time_s is None or began < limits.max_time_s for began in world.began)
    assert "$-" not in " ".join(world.log), "nobody has less than nothing to spend"
    assert (world.log[-1:] == [f"block: {stop.reason.label}"]) == (stop.reason in OPENS)
    assert world.log.count("unblock") <= (half_open is not None)
    numbers = [iteration.number for iteration, _ in world.told]
    assert numbers == [1, *itertools.accumulate((not one.again for one in judged), initial=1)][1 : len(judged) + 1]
    assert sum(one.again for one in judged) - 1 <= sum(entry.startswith("wait") for entry in world.log) <= len(judged)
    for iteration, one in world.told:
        assert not (one.again and (one.failed or one.ended))
        assert not one.failed or iteration.turn.outcome in (*CUT_SHORT, Outcome.FAILED, Outcome.TROUBLE)
    if stop.reason is Reason.DONE:
        assert world.read().done
        assert world.read().verified or not limits.verify
    if limits.once:
        assert not limits.verify or "verify" not in world.log
        assert stop.reason not in (Reason.DONE, *OPENS)
    if not world.log.count("holds") + world.log.count("verified"):
        assert stop.reason is not Reason.DONE or not any(iteration.after.done for iteration, _ in world.told)
    assert stop.reason is not Reason.TROUBLE or TROUBLE.outcome in {one.turn.outcome for one, _ in world.told}
