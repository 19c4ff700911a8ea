"""Why to stop before the next iteration, and what it may cost (design section 5): functions of values."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from iterations import HOUR_S, LIMITS, says

from ralph.settings import Settings
from ralph.verdict import OPENS, Reason, Tally, budget_usd, verdict


@pytest.mark.parametrize(
    ("text", "tally", "settings", "reason"),
    [
        pytest.param("- [ ] a", {}, {}, None, id="work remains: go on"),
        pytest.param("", {}, {}, None, id="an empty file: go on"),
        pytest.param("- [x] a", {}, {}, None, id="all is ticked, but nobody said done: go on"),
        pytest.param("RALPH_DONE", {}, {}, Reason.DONE, id="done"),
        pytest.param("RALPH_DONE; - [ ] a", {}, {}, Reason.DONE, id="done at a start is a person's word"),
        pytest.param("RALPH_STOP", {}, {}, Reason.STOPPED, id="stop"),
        pytest.param("RALPH_BLOCKED: x", {}, {}, Reason.BLOCKED, id="blocked"),
        pytest.param("RALPH_BLOCKED", {}, {}, Reason.BLOCKED, id="blocked without a reason"),
        pytest.param("RALPH_DONE; RALPH_BLOCKED: x", {}, {}, Reason.BLOCKED, id="blocked is stronger than done"),
        pytest.param("RALPH_DONE; RALPH_STOP", {}, {}, Reason.DONE, id="done is stronger than stop"),
        pytest.param("RALPH_STOP; RALPH_BLOCKED: x", {}, {}, Reason.BLOCKED, id="blocked is stronger than stop"),
        pytest.param("RALPH_DONE", {}, {"verify": "make test"}, None, id="done that nobody verified is not yet done"),
        pytest.param("RALPH_DONE; Verified: x", {}, {"verify": "make test"}, Reason.DONE, id="verified it is"),
        pytest.param(
            "Verified: x; RALPH_DONE",
            {},
            {"verify": "make test"},
            None,
            id="a note that stands elsewhere verifies nothing",
        ),
        pytest.param(
            "RALPH_DONE; RALPH_STOP", {}, {"verify": "make test"}, Reason.STOPPED, id="stop beats the unverified"
        ),
        pytest.param("", {"failures": 2}, {}, None, id="two failures: go on"),
        pytest.param("", {"failures": 3}, {}, Reason.FAILURES, id="three failures in a row"),
        pytest.param("", {"failures": 1}, {"max_failures": 1}, Reason.FAILURES, id="one where one is the limit"),
        pytest.param("", {"failures": 99}, {"max_failures": None}, None, id="failures without a limit: go on"),
        pytest.param("", {"failures": 3, "outside": True}, {}, Reason.TROUBLE, id="three, of hours of trouble"),
        pytest.param("", {"failures": 2, "outside": True}, {}, None, id="two hours of trouble: go on"),
        pytest.param("", {"refusals": 3}, {}, Reason.REFUSED, id="three refusals in a row"),
        pytest.param("", {"refusals": 99}, {"max_failures": None}, None, id="refusals without a limit: go on"),
        pytest.param("", {"failures": 2, "refusals": 2}, {}, None, id="two of each: go on"),
        pytest.param("", {"stalls": 4}, {"max_stalls": 5}, None, id="four that changed nothing: go on"),
        pytest.param("", {"stalls": 5}, {"max_stalls": 5}, Reason.STALLED, id="five that changed nothing"),
        pytest.param("", {"stalls": 99}, {}, None, id="any number without a limit: go on"),
        pytest.param("", {"iterations": 49}, {"max_iterations": 50}, None, id="one iteration is left: go on"),
        pytest.param("", {"iterations": 50}, {"max_iterations": 50}, Reason.LIMIT, id="all iterations are used"),
        pytest.param("", {"iterations": 9999}, {}, None, id="iterations without a limit: go on"),
        pytest.param("", {"cost_usd": 4.99}, {"max_cost": 5.0}, None, id="a cent is left: go on"),
        pytest.param("", {"cost_usd": 5.0}, {"max_cost": 5.0}, Reason.LIMIT, id="the start's money is spent"),
        pytest.param("", {"cost_usd": 5.3}, {"max_cost": 5.0}, Reason.LIMIT, id="more than that is spent"),
        pytest.param(
            "",
            {"cost_usd": sum([0.1] * 10)},
            {"max_cost": 1.0},
            Reason.LIMIT,
            id="ten tenths, which add up to less",
        ),
        pytest.param("", {"cost_usd": 9999.0}, {}, None, id="money without a limit: go on"),
        pytest.param("", {"cost_usd": 9.0}, {"max_iteration_cost": 1.0}, None, id="many cheap iterations: go on"),
        pytest.param("Spent: $9.99", {}, {"max_total_cost": 10.0}, None, id="a cent is left of the plan's money"),
        pytest.param("Spent: $10", {}, {"max_total_cost": 10.0}, Reason.LIMIT, id="the plan's money is spent"),
        pytest.param("", {}, {"max_total_cost": 10.0}, None, id="nobody knows of money spent: go on"),
        pytest.param("Spent: $10", {}, {"max_cost": 10.0}, None, id="other starts' money is not this one's"),
        pytest.param("RALPH_DONE", {}, {"once": True}, None, id="a mode that runs once runs whatever is done"),
        pytest.param("RALPH_STOP", {}, {"once": True}, Reason.STOPPED, id="but not against stop"),
        pytest.param("RALPH_BLOCKED: x", {}, {"once": True}, Reason.BLOCKED, id="nor when blocked"),
    ],
)
def test_why_to_stop(text: str, tally: dict[str, Any], settings: dict[str, Any], reason: Reason | None) -> None:
    stop = verdict(says(text), Tally(**tally), replace(LIMITS, **settings))
    assert (stop and stop.reason) == reason


@pytest.mark.parametrize(
    ("elapsed_s", "max_time", "reason"),
    [
        pytest.param(HOUR_S - 0.1, HOUR_S, None, id="a moment is left: go on"),
        pytest.param(HOUR_S, HOUR_S, Reason.LIMIT, id="the time is over"),
        pytest.param(9 * HOUR_S, HOUR_S, Reason.LIMIT, id="the machine slept through it"),
        pytest.param(1e9, None, None, id="time without a limit: go on"),
    ],
)
def test_when_the_time_is_over(elapsed_s: float, max_time: float | None, reason: Reason | None) -> None:
    stop = verdict(says(""), Tally(), replace(LIMITS, max_time=max_time), elapsed_s)
    assert (stop and stop.reason) == reason


ALL_USED = Tally(iterations=1, cost_usd=1.0, failures=1, refusals=1, stalls=1, half_open=Reason.FAILURES)
ALL_LIMITED = Settings(max_iterations=1, max_time=1.0, max_cost=1.0, max_total_cost=1.0, max_failures=1, max_stalls=1)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        pytest.param("RALPH_DONE", Reason.DONE, id="done"),
        pytest.param("RALPH_STOP", Reason.STOPPED, id="stop"),
        pytest.param("RALPH_BLOCKED: x", Reason.BLOCKED, id="blocked"),
    ],
)
def test_what_the_file_says_comes_before_every_limit(word: str, reason: Reason) -> None:
    stop = verdict(says(f"Spent: $1; {word}"), ALL_USED, ALL_LIMITED, elapsed_s=9.0)
    assert stop
    assert stop.reason is reason


def test_what_is_broken_comes_before_what_is_used_up() -> None:
    stop = verdict(says("Spent: $1"), ALL_USED, ALL_LIMITED, elapsed_s=9.0)
    assert stop
    assert stop.reason is Reason.FAILURES


@pytest.mark.parametrize(
    ("tally", "settings", "reason"),
    [
        pytest.param(Tally(half_open=Reason.FAILURES), {}, None, id="nothing has happened yet: go on"),
        pytest.param(Tally(half_open=Reason.FAILURES, failures=1), {}, Reason.FAILURES, id="one more failure"),
        pytest.param(Tally(half_open=Reason.FAILURES, refusals=1), {}, Reason.REFUSED, id="a refusal instead"),
        pytest.param(Tally(half_open=Reason.FAILURES, stalls=4), {}, None, id="four that changed nothing: go on"),
        pytest.param(Tally(half_open=Reason.FAILURES, stalls=5), {}, Reason.STALLED, id="five that changed nothing"),
        pytest.param(Tally(half_open=Reason.REFUSED, refusals=1), {}, Reason.REFUSED, id="one more refusal"),
        pytest.param(Tally(half_open=Reason.REFUSED, failures=1), {}, Reason.FAILURES, id="a failure instead"),
        pytest.param(Tally(half_open=Reason.REFUSED, stalls=1), {}, None, id="one that claims nothing: go on"),
        pytest.param(Tally(half_open=Reason.STALLED, stalls=1), {}, Reason.STALLED, id="one more that stalls"),
        pytest.param(Tally(half_open=Reason.STALLED, failures=1), {}, Reason.FAILURES, id="one that fails instead"),
        pytest.param(
            Tally(half_open=Reason.FAILURES, failures=1, outside=True), {}, Reason.TROUBLE, id="an hour of trouble"
        ),
        pytest.param(
            Tally(half_open=Reason.FAILURES, failures=99, refusals=99),
            {"max_failures": None},
            None,
            id="never: no limit",
        ),
        pytest.param(Tally(half_open=Reason.STALLED, stalls=99), {"max_stalls": None}, None, id="nor of stalls"),
    ],
)
def test_one_try_is_enough_after_a_block(tally: Tally, settings: dict[str, Any], reason: Reason | None) -> None:
    stop = verdict(says(""), tally, replace(LIMITS, **({"max_stalls": 5} | settings)))
    assert (stop and stop.reason) == reason


@pytest.mark.parametrize(
    ("now", "tally", "words"),
    [
        pytest.param("RALPH_BLOCKED: which port?", {}, ["which port?"], id="what blocks"),
        pytest.param("RALPH_BLOCKED", {}, ["RALPH_BLOCKED"], id="that it blocks"),
        pytest.param("RALPH_STOP", {}, ["RALPH_STOP"], id="the word that stops"),
        pytest.param("", {"failures": 3, "last_failure": "HTTP 500"}, ["3", "in a row", "HTTP 500"], id="the failure"),
        pytest.param("", {"refusals": 3, "last_refusal": "1 task"}, ["3", "done", "1 task"], id="the refusal"),
        pytest.param("", {"stalls": 5}, ["5 iterations", "changed nothing", "in a row"], id="that nothing changed"),
        pytest.param("", {"iterations": 50}, ["max-iterations is 50"], id="how many iterations it may have"),
        pytest.param("", {"cost_usd": 5.12}, ["max-cost is $5.00", "$5.12"], id="what it may cost, and did"),
        pytest.param(
            "Spent: $20.4049", {}, ["max-total-cost is $20.00", "$20.40"], id="what the plan may cost, and did"
        ),
        pytest.param("", {"elapsed_s": 4 * HOUR_S}, ["max-time is 4h00m"], id="how long it may take"),
        pytest.param(
            "",
            {"half_open": Reason.FAILURES, "iterations": 1, "failures": 1, "last_failure": "HTTP 500"},
            ["an iteration failed since RALPH_BLOCKED was taken out", "HTTP 500"],
            id="that it failed anew",
        ),
        pytest.param(
            "",
            {"half_open": Reason.REFUSED, "iterations": 1, "refusals": 1, "last_refusal": "1 task"},
            ["claimed once since RALPH_BLOCKED was taken out", "1 task"],
            id="that it claims the same anew",
        ),
    ],
)
def test_a_stop_says(now: str, tally: dict[str, Any], words: list[str]) -> None:
    settings = replace(LIMITS, max_stalls=5, max_iterations=50, max_cost=5.0, max_total_cost=20.0, max_time=4 * HOUR_S)
    known = {name: value for name, value in tally.items() if name != "elapsed_s"}
    stop = verdict(says(now), Tally(**known), settings, tally.get("elapsed_s", 0.0))
    assert stop
    assert [word for word in words if word not in stop.why] == []


@pytest.mark.parametrize(
    ("tally", "wrong"),
    [
        pytest.param(Tally(iterations=7, failures=1), "first iteration", id="the seventh fails where one is enough"),
        pytest.param(Tally(iterations=7, stalls=1), "first iteration", id="the seventh stalls where one is enough"),
        pytest.param(
            Tally(iterations=3, failures=1, half_open=Reason.FAILURES),
            "first iteration",
            id="the third after a block",
        ),
        pytest.param(Tally(iterations=7, refusals=1), "again", id="the first claim, where one is enough"),
    ],
)
def test_a_stop_does_not_say(tally: Tally, wrong: str) -> None:
    stop = verdict(says(""), tally, Settings(max_failures=1, max_stalls=1))
    assert stop
    assert wrong not in stop.why


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.label)
def test_only_what_a_person_can_mend_in_the_project_opens_the_breaker(reason: Reason) -> None:
    assert (reason in OPENS) == (reason in (Reason.FAILURES, Reason.STALLED, Reason.REFUSED, Reason.TAMPERED))


limited = st.none() | st.integers(1, 2_000).map(lambda cents: cents / 100) | st.floats(0.01, 20.0)
spent = st.integers(0, 2_000).map(lambda cents: cents / 100) | st.floats(0.0, 20.0)


@given(limited, limited, limited, spent, st.none() | spent)
@example(1.0, None, None, sum([0.1] * 10), None)
@example(0.3, None, 0.3, 0.1 + 0.1, 0.3)
def test_the_agent_may_spend_the_smallest_rest_and_without_a_rest_it_is_not_asked(
    of_start: float | None, of_iteration: float | None, of_plan: float | None, start_usd: float, plan_usd: float | None
) -> None:
    """Whatever is limited together: the words name a limit that is reached, and no budget is nothing or less."""
    now = says("- [ ] a" if plan_usd is None else f"Spent: ${plan_usd:.4f}; - [ ] a")
    settings = Settings(max_cost=of_start, max_iteration_cost=of_iteration, max_total_cost=of_plan)
    tally = Tally(cost_usd=start_usd)
    rests = {"max-cost": (of_start, start_usd), "max-total-cost": (of_plan, round(plan_usd or 0.0, 4))}
    left = {name: limit - used for name, (limit, used) in rests.items() if limit is not None}
    stop, budget = verdict(now, tally, settings), budget_usd(now, tally, settings)
    if stop:
        assert left[stop.why.split()[0]] < 1e-6
        return
    assert all(rest >= 1e-6 for rest in left.values())
    assert budget == min([*left.values(), *([of_iteration] if of_iteration else [])], default=None)
    assert budget is None or float(f"{budget:.6f}") > 0, "the agent is told six places of it"


@pytest.mark.parametrize(
    ("text", "settings", "stops"),
    [
        pytest.param("- [x] a; RALPH_DONE", {"strict": True}, True, id="done with all tasks ticked"),
        pytest.param("- [ ] a; RALPH_DONE", {"strict": True}, False, id="done with an open one does not count"),
        pytest.param("- [ ] a; RALPH_DONE", {}, True, id="but for a person's without strict"),
        pytest.param("- [x] a; RALPH_DONE", {"strict": True, "verify": "x"}, False, id="nor before it is verified"),
    ],
)
def test_what_counts_as_done_under_strict(text: str, settings: dict[str, Any], stops: bool) -> None:
    assert (verdict(says(text), Tally(), replace(LIMITS, **settings)) is not None) == stops
