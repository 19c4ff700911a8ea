"""What an iteration came to (design section 5), and what is remembered of it for the next verdict."""

from dataclasses import replace
from typing import Any

import pytest
from iterations import (
    AT_LIMIT,
    CUT_SHORT,
    FAILED,
    HOPELESS,
    HOUR_S,
    HUNG,
    INTERRUPTED,
    LIMITS,
    NO_COMMITS,
    NO_WAIT,
    OK,
    ONCE,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    OUT_OF_TURNS,
    TROUBLE,
    iteration,
)

from ralph.agent.turn import Outcome, Turn
from ralph.judge import Iteration, judge, over_budget
from ralph.settings import Settings
from ralph.verdict import Reason, Tally


@pytest.mark.parametrize(
    ("done", "failed"),
    [
        pytest.param(iteration("- [ ] a", "- [ ] a"), "", id="nothing ticked is no failure"),
        pytest.param(iteration("- [ ] a", "- [x] a", FAILED), "exit 1", id="an exit code is one, whatever was ticked"),
        pytest.param(iteration("", "", OUT_OF_TIME), "", id="max-time is none: the verdict will say so"),
        pytest.param(iteration("", "", INTERRUPTED), "", id="a signal is none"),
        pytest.param(iteration("", "", AT_LIMIT), "", id="a reached usage limit is none"),
        pytest.param(iteration("", "", TROUBLE), "", id="trouble outside is none at first"),
        pytest.param(
            iteration("- [x] a", "- [ ] a", replace(OK, left_over=("x",))), "", id="what it left running is none"
        ),
    ],
)
def test_what_counts_as_failed(done: Iteration, failed: str) -> None:
    assert judge(done, Tally(), LIMITS).failed == failed


WATCHDOG = (Outcome.HUNG, Outcome.TIMED_OUT, Outcome.TOO_LONG)


@pytest.mark.parametrize("outcome", CUT_SHORT, ids=lambda outcome: outcome.value)
class TestAnIterationThatWasCutShort:
    """Ended by a watchdog or by a bound of its own."""

    @pytest.mark.parametrize(
        "done",
        [
            pytest.param(iteration("- [ ] a", "- [x] a"), id="a tick"),
            pytest.param(iteration("", "- [ ] a"), id="a new task"),
            pytest.param(iteration("", "", commits=1, changed="a.py"), id="a commit"),
        ],
    )
    def test_has_not_failed_after(self, outcome: Outcome, done: Iteration) -> None:
        turn = Turn(outcome=outcome, why="cut short", cost_usd=1.02)
        judged = judge(replace(done, turn=turn), Tally(), replace(LIMITS, max_iteration_cost=1.0))
        assert (judged.failed, judged.ended, judged.again, judged.moved) == ("", None, False, True)

    @pytest.mark.parametrize(
        "done",
        [
            pytest.param(iteration("- [ ] a", "- [ ] a"), id="nothing"),
            pytest.param(iteration("- [x] a", "- [ ] a"), id="a tick taken away"),
            pytest.param(iteration("- [ ] a; - [ ] b", "- [ ] a"), id="a task taken away"),
        ],
    )
    def test_has_failed_after(self, outcome: Outcome, done: Iteration) -> None:
        turn = Turn(outcome=outcome, why="cut short", cost_usd=1.02)
        judged = judge(replace(done, turn=turn), Tally(), replace(LIMITS, max_iteration_cost=1.0))
        done_what = "committed" if outcome in WATCHDOG else "changed"
        assert judged.failed == f"cut short, and nothing was ticked, added or {done_what}"
        assert (judged.ended, judged.again) == (None, False)

    def test_a_file_changed_but_not_committed_is_nothing_only_to_a_watchdog(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02), changed="a.py")
        judged = judge(done, Tally(), replace(LIMITS, max_iteration_cost=1.0))
        assert bool(judged.failed) == (outcome in WATCHDOG)

    def test_has_failed_with_nothing_changed_where_nobody_commits(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02))
        judged = judge(done, Tally(), replace(NO_COMMITS, max_iteration_cost=1.0))
        assert judged.failed == "cut short, and nothing was ticked, added or changed"

    def test_has_not_failed_after_a_changed_file_where_nobody_commits(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02), changed="a.py")
        assert judge(done, Tally(), replace(NO_COMMITS, max_iteration_cost=1.0)).failed == ""


NOTHING_DONE = "out of budget, and nothing was ticked, added or changed"


@pytest.mark.parametrize(
    ("settings", "cost_usd", "failed"),
    [
        pytest.param({"max_iteration_cost": 1.0}, 1.02, NOTHING_DONE, id="its own is used up"),
        pytest.param({"max_iteration_cost": 1.0}, None, NOTHING_DONE, id="its own, at a cost that nobody knows"),
        pytest.param({"max_cost": 9.0}, 1.02, "", id="the start's is used up"),
        pytest.param({"max_total_cost": 11.0}, 1.02, "", id="the plan's is used up"),
        pytest.param({"max_iteration_cost": 2.0, "max_cost": 9.0}, 1.02, "", id="the start's, which is less"),
        pytest.param(
            {"max_iteration_cost": 1.01, "max_cost": 9.0}, 1.02, "", id="the start's, and a cent more than both"
        ),
        pytest.param(
            {"max_iteration_cost": 1.01, "max_total_cost": 11.0},
            1.02,
            "",
            id="the plan's, and a cent more than both",
        ),
        pytest.param(
            {"max_iteration_cost": 0.99, "max_cost": 9.0, "max_total_cost": 11.0},
            1.02,
            NOTHING_DONE,
            id="its own, which is the least of all",
        ),
    ],
)
def test_whose_budget_it_was_decides_whether_using_it_up_is_a_failure(
    settings: dict[str, Any], cost_usd: float | None, failed: str
) -> None:
    """Eight dollars of this start are spent, ten of the plan."""
    done = iteration("Spent: $10; - [ ] a", "Spent: $10; - [ ] a", replace(OUT_OF_BUDGET, cost_usd=cost_usd))
    assert judge(done, Tally(cost_usd=8.0), replace(LIMITS, **settings)).failed == failed


@pytest.mark.parametrize(
    ("done", "words"),
    [
        pytest.param(iteration("- [ ] a", "- [x] a"), [], id="no claim, no refusal"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE"), [], id="all ticked: it holds"),
        pytest.param(iteration("", "RALPH_DONE"), [], id="without any task it holds"),
        pytest.param(iteration("- [x] a; - [ ] b", "- [x] b; RALPH_DONE"), [], id="finished tasks may be tidied away"),
        pytest.param(iteration("- [ ] a; - [ ] b", "- [x] a; - [ ] b; RALPH_DONE"), ['not ticked: "b"'], id="unticked"),
        pytest.param(iteration("", "- [!] b; RALPH_DONE"), ["not ticked"], id="a blocked task is not ticked"),
        pytest.param(iteration("- [ ] a; - [ ] b", "- [x] a; RALPH_DONE"), ['put back: "b"'], id="vanished"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", FAILED), ["did not end well: exit 1"], id="failed"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", OUT_OF_TURNS), ["out of turns"], id="out of turns"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", HUNG), ["it was silent"], id="hung"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", AT_LIMIT), ["limit"], id="at a usage limit"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", TROUBLE), ["HTTP 529"], id="in trouble outside"),
        pytest.param(iteration("- [ ] a", "- [x] a; RALPH_DONE", INTERRUPTED), ["interrupted"], id="interrupted"),
        pytest.param(
            iteration("- [ ] a; - [ ] b", "- [ ] a; RALPH_DONE", FAILED),
            ['not ticked: "a"', 'put back: "b"', "exit 1"],
            id="every reason at once",
        ),
        pytest.param(
            iteration("", "- [ ] a; - [ ] b; - [ ] c; - [ ] d; - [ ] e; RALPH_DONE"),
            ['5 tasks are not ticked: "a", "b", "c" and 2 more'],
            id="of many tasks the first three by name",
        ),
    ],
)
def test_when_done_is_refused(done: Iteration, words: list[str]) -> None:
    refused = judge(done, Tally(), LIMITS).refused
    assert len(refused) == len(words)
    assert all(word in reason for word, reason in zip(words, refused, strict=True))


@pytest.mark.parametrize(
    ("done", "moved"),
    [
        pytest.param(iteration("- [ ] a", "- [ ] a"), False, id="nothing"),
        pytest.param(iteration("- [ ] a", "- [ ] a; a long note"), False, id="notes"),
        pytest.param(iteration("- [ ] a", "- [x] a"), True, id="a tick"),
        pytest.param(iteration("- [x] a", "- [ ] a"), False, id="a tick taken away"),
        pytest.param(iteration("- [ ] a", "- [ ] a; - [ ] b"), True, id="a new task"),
        pytest.param(iteration("- [ ] a; - [ ] b", "- [ ] a"), False, id="a task taken away"),
        pytest.param(iteration("- [ ] a", "- [~] a"), False, id="a task begun"),
        pytest.param(iteration("- [x] a; - [ ] b", "- [x] b"), True, id="a tick, and what was ticked tidied away"),
        pytest.param(
            iteration("## Tasks; - [ ] a; - [ ] b", "## Tasks; - [ ] b; ## Completed; - [x] a"),
            True,
            id="a tick, and the task moved to a section of what is done",
        ),
        pytest.param(iteration("", "", changed="a.py"), True, id="a changed file"),
        pytest.param(iteration("", "", commits=1, changed="a.py"), True, id="a commit"),
        pytest.param(iteration("", "", commits=1), False, id="a commit of nothing but the progress file"),
        pytest.param(iteration("", "", FAILED, changed="a.py"), True, id="a changed file, and it failed"),
        pytest.param(iteration("- [ ] a", "- [ ] a; RALPH_DONE"), False, id="a claim"),
    ],
)
def test_what_is_progress(done: Iteration, moved: bool) -> None:
    assert judge(done, Tally(), LIMITS).moved == moved


@pytest.mark.parametrize(
    ("turn", "settings", "again"),
    [
        pytest.param(OK, LIMITS, False, id="a good turn is not"),
        pytest.param(FAILED, LIMITS, False, id="nor is a failed one"),
        pytest.param(HUNG, LIMITS, False, id="nor one that hung"),
        pytest.param(OUT_OF_TIME, LIMITS, False, id="nor one that max-time ended"),
        pytest.param(HOPELESS, LIMITS, False, id="nor one that cannot mend itself"),
        pytest.param(AT_LIMIT, LIMITS, True, id="at a usage limit it is"),
        pytest.param(AT_LIMIT, NO_WAIT, False, id="unless nobody waits for it"),
        pytest.param(TROUBLE, LIMITS, True, id="in trouble outside it is"),
        pytest.param(TROUBLE, NO_WAIT, True, id="also where limits are not waited for"),
        pytest.param(AT_LIMIT, ONCE, True, id="a plan at a usage limit is"),
        pytest.param(TROUBLE, ONCE, True, id="a plan in trouble is"),
        pytest.param(AT_LIMIT, replace(ONCE, wait=False), False, id="a plan is not, where nobody waits"),
    ],
)
def test_when_the_same_iteration_is_due_again(turn: Turn, settings: Settings, again: bool) -> None:
    judged = judge(iteration("", "", turn), Tally(), settings)
    assert judged.again == again
    assert not (again and (judged.failed or judged.ended))


@pytest.mark.parametrize(
    ("since_s", "ended_s", "failed"),
    [
        pytest.param(None, 9 * HOUR_S, False, id="the first of it, however late"),
        pytest.param(60.0, 60.0 + HOUR_S - 1, False, id="not yet an hour"),
        pytest.param(60.0, 60.0 + HOUR_S, True, id="an hour"),
        pytest.param(0.0, HOUR_S, True, id="an hour from the very start on"),
    ],
)
@pytest.mark.parametrize("once", [False, True], ids=["build", "plan"])
def test_trouble_is_a_failure_after_an_hour(since_s: float | None, ended_s: float, failed: bool, once: bool) -> None:
    tally = Tally() if since_s is None else Tally(trouble_since_s=since_s, repeats=1, waits_for=Outcome.TROUBLE)
    judged = judge(iteration("", "", TROUBLE, ended_s=ended_s), tally, replace(LIMITS, once=once))
    assert (judged.again, judged.outside) == (not failed, failed)
    assert judged.failed == ("trouble for an hour: HTTP 529" if failed else "")
    assert (judged.ended and judged.ended.reason) == (Reason.ONCE_FAILED if once and failed else None)


def test_a_usage_limit_is_no_trouble_however_long_it_lasts() -> None:
    judged = judge(iteration("", "", AT_LIMIT, ended_s=9 * HOUR_S), Tally(trouble_since_s=0.0), LIMITS)
    assert judged.again
    assert not judged.failed


@pytest.mark.parametrize(
    ("done", "settings", "reason"),
    [
        pytest.param(iteration("", "- [ ] a"), LIMITS, None, id="a built task ends nothing"),
        pytest.param(iteration("", "", FAILED), LIMITS, None, id="nor does one failure"),
        pytest.param(iteration("", "", HUNG), LIMITS, None, id="nor does a watchdog"),
        pytest.param(iteration("", "", OUT_OF_TIME), LIMITS, None, id="nor max-time, which the verdict knows"),
        pytest.param(iteration("", "", AT_LIMIT), LIMITS, None, id="nor a usage limit, which is waited for"),
        pytest.param(iteration("", "", TROUBLE), LIMITS, None, id="nor trouble outside"),
        pytest.param(iteration("", "", HOPELESS), LIMITS, Reason.HOPELESS, id="not logged in"),
        pytest.param(iteration("", "", AT_LIMIT), NO_WAIT, Reason.LIMIT, id="a usage limit that nobody waits for"),
        pytest.param(iteration("", "", INTERRUPTED), LIMITS, Reason.INTERRUPTED, id="a signal"),
        pytest.param(iteration("", "- [ ] a"), ONCE, Reason.ONCE, id="a plan"),
        pytest.param(iteration("", ""), ONCE, Reason.ONCE, id="a plan without tasks, which is warned of elsewhere"),
        pytest.param(iteration("", "- [ ] a; RALPH_DONE"), ONCE, Reason.ONCE, id="a plan that says done"),
        pytest.param(iteration("", "- [ ] a", FAILED), ONCE, Reason.ONCE_FAILED, id="a plan that failed"),
        pytest.param(iteration("", "- [ ] a", OUT_OF_TURNS), ONCE, Reason.ONCE_FAILED, id="a plan half made"),
        pytest.param(iteration("", "- [ ] a", HUNG), ONCE, Reason.ONCE_FAILED, id="a plan that hung"),
        pytest.param(iteration("", "- [ ] a", OUT_OF_TIME), ONCE, Reason.LIMIT, id="a plan out of time"),
        pytest.param(iteration("", "- [ ] a", OUT_OF_BUDGET), ONCE, Reason.LIMIT, id="a plan out of budget"),
        pytest.param(iteration("", "RALPH_BLOCKED: x"), ONCE, Reason.BLOCKED, id="a plan that needs a person"),
        pytest.param(
            iteration("", "RALPH_BLOCKED: x", FAILED), ONCE, Reason.ONCE_FAILED, id="a failed one that says so"
        ),
        pytest.param(iteration("", "- [ ] a", changed="x.py"), ONCE, Reason.ONCE_FAILED, id="a plan that built"),
        pytest.param(iteration("", "", HOPELESS), ONCE, Reason.HOPELESS, id="a plan, not logged in"),
        pytest.param(iteration("", "", INTERRUPTED), ONCE, Reason.INTERRUPTED, id="a plan, interrupted"),
        pytest.param(
            iteration("", "", AT_LIMIT), replace(ONCE, wait=False), Reason.LIMIT, id="a plan at a limit, not waited for"
        ),
    ],
)
def test_what_ends_a_run(done: Iteration, settings: Settings, reason: Reason | None) -> None:
    ended = judge(done, Tally(), settings).ended
    assert (ended and ended.reason) == reason


def test_a_plan_that_built_names_the_files() -> None:
    ended = judge(iteration("", "", changed="a.py b.py"), Tally(), ONCE).ended
    assert ended
    assert "a.py, b.py" in ended.why


@pytest.mark.parametrize(
    ("resets_at", "words"),
    [
        pytest.param(1_795_000_000, ["limit; until 2026-11-"], id="with the time it ends, and the date"),
        pytest.param(None, ["limit"], id="when nobody knows"),
    ],
)
@pytest.mark.parametrize("settings", [NO_WAIT, replace(ONCE, wait=False)], ids=["build", "plan"])
def test_a_limit_that_nobody_waits_for_says_until_when(
    resets_at: int | None, words: list[str], settings: Settings
) -> None:
    ended = judge(iteration("", "", replace(AT_LIMIT, resets_at=resets_at)), Tally(), settings).ended
    assert ended
    assert all(word in ended.why for word in words)
    assert ("until" in ended.why) == (resets_at is not None)


def test_planning_refuses_nothing() -> None:
    assert judge(iteration("- [ ] a; - [ ] b", "- [ ] a; RALPH_DONE"), Tally(), ONCE).refused == ()


@pytest.mark.parametrize(
    ("most_usd", "cost_usd", "words"),
    [
        pytest.param(1.0, 1.5, "this iteration cost $1.50; max-iteration-cost is $1.00", id="more than one may"),
        pytest.param(1.0, 1.0, "", id="just what one may"),
        pytest.param(1.0, None, "", id="nobody knows how much"),
        pytest.param(None, 99.0, "", id="no limit"),
    ],
)
def test_a_word_about_an_expensive_iteration(most_usd: float | None, cost_usd: float | None, words: str) -> None:
    done = iteration("", "", replace(OK, cost_usd=cost_usd))
    assert over_budget(done, Settings(max_iteration_cost=most_usd)) == words
