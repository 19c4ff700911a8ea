"""What an iteration came to (design section 5), and what is remembered of it for the next verdict."""

from dataclasses import replace
from typing import Any

import pytest
from fiction import (
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
from ralph.judge import Iteration, Judgement, judge, over_budget, tally
from ralph.verdict import Limits, Reason, Tallies


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
    assert judge(done, Tallies(), LIMITS).failed == failed


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
        judged = judge(replace(done, turn=turn), Tallies(), replace(LIMITS, max_iteration_cost_usd=1.0))
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
        judged = judge(replace(done, turn=turn), Tallies(), replace(LIMITS, max_iteration_cost_usd=1.0))
        done_what = "committed" if outcome in WATCHDOG else "changed"
        assert judged.failed == f"cut short, and nothing was ticked, added or {done_what}"
        assert (judged.ended, judged.again) == (None, False)

    def test_a_file_changed_but_not_committed_is_nothing_only_to_a_watchdog(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02), changed="a.py")
        judged = judge(done, Tallies(), replace(LIMITS, max_iteration_cost_usd=1.0))
        assert bool(judged.failed) == (outcome in WATCHDOG)

    def test_has_failed_with_nothing_changed_where_nobody_commits(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02))
        judged = judge(done, Tallies(), replace(NO_COMMITS, max_iteration_cost_usd=1.0))
        assert judged.failed == "cut short, and nothing was ticked, added or changed"

    def test_has_not_failed_after_a_changed_file_where_nobody_commits(self, outcome: Outcome) -> None:
        done = iteration("", "", Turn(outcome=outcome, why="cut short", cost_usd=1.02), changed="a.py")
        assert judge(done, Tallies(), replace(NO_COMMITS, max_iteration_cost_usd=1.0)).failed == ""


NOTHING_DONE = "out of budget, and nothing was ticked, added or changed"


@pytest.mark.parametrize(
    ("limits", "cost_usd", "failed"),
    [
        pytest.param({"max_iteration_cost_usd": 1.0}, 1.02, NOTHING_DONE, id="its own is used up"),
        pytest.param({"max_iteration_cost_usd": 1.0}, None, NOTHING_DONE, id="its own, at a cost that nobody knows"),
        pytest.param({"max_cost_usd": 9.0}, 1.02, "", id="the start's is used up"),
        pytest.param({"max_total_cost_usd": 11.0}, 1.02, "", id="the plan's is used up"),
        pytest.param({"max_iteration_cost_usd": 2.0, "max_cost_usd": 9.0}, 1.02, "", id="the start's, which is less"),
        pytest.param(
            {"max_iteration_cost_usd": 1.01, "max_cost_usd": 9.0}, 1.02, "", id="the start's, and a cent more than both"
        ),
        pytest.param(
            {"max_iteration_cost_usd": 1.01, "max_total_cost_usd": 11.0},
            1.02,
            "",
            id="the plan's, and a cent more than both",
        ),
        pytest.param(
            {"max_iteration_cost_usd": 0.99, "max_cost_usd": 9.0, "max_total_cost_usd": 11.0},
            1.02,
            NOTHING_DONE,
            id="its own, which is the least of all",
        ),
    ],
)
def test_whose_budget_it_was_decides_whether_using_it_up_is_a_failure(
    limits: dict[str, Any], cost_usd: float | None, failed: str
) -> None:
    """Eight dollars of this start are spent, ten of the plan."""
    done = iteration("Spent: $10; - [ ] a", "Spent: $10; - [ ] a", replace(OUT_OF_BUDGET, cost_usd=cost_usd))
    assert judge(done, Tallies(cost_usd=8.0), replace(LIMITS, **limits)).failed == failed


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
    refused = judge(done, Tallies(), LIMITS).refused
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
    assert judge(done, Tallies(), LIMITS).moved == moved


@pytest.mark.parametrize(
    ("turn", "limits", "again"),
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
def test_when_the_same_iteration_is_due_again(turn: Turn, limits: Limits, again: bool) -> None:
    judged = judge(iteration("", "", turn), Tallies(), limits)
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
    tallies = Tallies() if since_s is None else Tallies(trouble_since_s=since_s, waits=1, waits_for=Outcome.TROUBLE)
    judged = judge(iteration("", "", TROUBLE, ended_s=ended_s), tallies, replace(LIMITS, once=once))
    assert (judged.again, judged.outside) == (not failed, failed)
    assert judged.failed == ("trouble for an hour: HTTP 529" if failed else "")
    assert (judged.ended and judged.ended.reason) == (Reason.ONCE_FAILED if once and failed else None)


@pytest.mark.parametrize(
    ("waits", "failed"),
    [pytest.param(7, False, id="seven pauses"), pytest.param(8, True, id="eight, which are more than an hour")],
)
def test_trouble_after_work_each_time_is_a_failure_after_an_hour_of_pauses(waits: int, failed: bool) -> None:
    tallies = Tallies(trouble_since_s=0.0, waits=waits, waits_for=Outcome.TROUBLE)
    judged = judge(iteration("", "", TROUBLE, changed="a.py", ended_s=9 * HOUR_S), tallies, LIMITS)
    assert bool(judged.failed) == failed


def test_a_usage_limit_is_no_trouble_however_long_it_lasts() -> None:
    judged = judge(iteration("", "", AT_LIMIT, ended_s=9 * HOUR_S), Tallies(trouble_since_s=0.0), LIMITS)
    assert judged.again
    assert not judged.failed


@pytest.mark.parametrize(
    ("done", "limits", "reason"),
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
def test_what_ends_a_run(done: Iteration, limits: Limits, reason: Reason | None) -> None:
    ended = judge(done, Tallies(), limits).ended
    assert (ended and ended.reason) == reason


def test_a_plan_that_built_names_the_files() -> None:
    ended = judge(iteration("", "", changed="a.py b.py"), Tallies(), ONCE).ended
    assert ended
    assert "a.py, b.py" in ended.why


@pytest.mark.parametrize(
    ("resets_at", "words"),
    [
        pytest.param(1_795_000_000, ["limit; until 2026-11-"], id="with the time it ends, and the date"),
        pytest.param(None, ["limit"], id="when nobody knows"),
    ],
)
@pytest.mark.parametrize("limits", [NO_WAIT, replace(ONCE, wait=False)], ids=["build", "plan"])
def test_a_limit_that_nobody_waits_for_says_until_when(resets_at: int | None, words: list[str], limits: Limits) -> None:
    ended = judge(iteration("", "", replace(AT_LIMIT, resets_at=resets_at)), Tallies(), limits).ended
    assert ended
    assert all(word in ended.why for word in words)
    assert ("until" in ended.why) == (resets_at is not None)


def test_planning_refuses_nothing() -> None:
    assert judge(iteration("- [ ] a; - [ ] b", "- [ ] a; RALPH_DONE"), Tallies(), ONCE).refused == ()


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
    assert over_budget(done, Limits(max_iteration_cost_usd=most_usd)) == words


def told(story: str, tallies: Tallies | None = None, *, cost_usd: float | None = None) -> Tallies:
    """The tallies after steps that are described by letters.

    f failed, r its claim of done refused, m something moved, t an hour of trouble, w due again after a wait.
    """
    now = tallies or Tallies()
    for step in story.split():
        judged = Judgement(
            failed="x" * ("f" in step or "t" in step),
            outside="t" in step,
            refused=("y",) * ("r" in step),
            moved="m" in step,
            again="w" in step,
        )
        now = tally(now, iteration("", "", replace(AT_LIMIT, cost_usd=cost_usd)), judged)
    return now


@pytest.mark.parametrize(
    ("story", "iterations", "failures", "refusals", "stalls"),
    [
        pytest.param("", 0, 0, 0, 0, id="nothing happened"),
        pytest.param("f f", 2, 2, 0, 2, id="two failures"),
        pytest.param("f f o f", 4, 1, 0, 4, id="a good iteration ends the row of failures"),
        pytest.param("r r", 2, 0, 2, 2, id="two refusals"),
        pytest.param("r o r", 3, 0, 1, 3, id="an honest iteration ends the row of refusals"),
        pytest.param("f r", 2, 1, 1, 2, id="a refusal is no failure, and the other way round"),
        pytest.param("f r f r f", 5, 3, 2, 5, id="the two cannot take turns for ever"),
        pytest.param("fr fr", 2, 2, 2, 2, id="failed and refused counts for both"),
        pytest.param("o o m o", 4, 0, 0, 1, id="progress ends the row of stalls"),
        pytest.param("f fm f", 3, 3, 0, 1, id="progress of a failed iteration as well"),
        pytest.param("r rm", 2, 0, 2, 0, id="and of one that is refused"),
        pytest.param("o w w o", 2, 0, 0, 2, id="what is due again is no iteration and no stall"),
        pytest.param("o w wm o", 2, 0, 0, 1, id="but its progress ends the row of stalls"),
        pytest.param("f w f", 2, 2, 0, 2, id="a wait ends no row of failures"),
        pytest.param("f wm f", 2, 2, 0, 1, id="not even after progress"),
        pytest.param("r w r", 2, 0, 2, 2, id="nor one of refusals"),
        pytest.param("o t t o", 4, 0, 0, 2, id="an hour of trouble is no stall"),
        pytest.param("t t", 2, 2, 0, 0, id="an hour of trouble is a failure"),
    ],
)
def test_only_what_comes_in_a_row_adds_up(
    story: str, iterations: int, failures: int, refusals: int, stalls: int
) -> None:
    now = told(story)
    assert (now.iterations, now.failures, now.refusals, now.stalls) == (iterations, failures, refusals, stalls)


@pytest.mark.parametrize(
    ("story", "outside"),
    [
        pytest.param("f f", False, id="none"),
        pytest.param("t", True, id="one"),
        pytest.param("t f", True, id="one before a failure of another kind"),
        pytest.param("f t", True, id="one after it"),
        pytest.param("t r", True, id="one before a refusal"),
        pytest.param("t o f", False, id="one before a good iteration"),
        pytest.param("t w f", True, id="one before a wait"),
    ],
)
def test_hours_of_trouble_among_the_failures_in_a_row(story: str, outside: bool) -> None:
    assert told(story).outside == outside


@pytest.mark.parametrize(
    ("story", "waits"),
    [
        pytest.param("o", 0, id="none"),
        pytest.param("w w w", 3, id="three"),
        pytest.param("w w o", 0, id="a counted iteration begins anew"),
        pytest.param("w w f w", 1, id="a failed one too"),
        pytest.param("w w wm", 3, id="something done before the third does not: an agent may do a little each time"),
    ],
)
def test_waits_in_a_row(story: str, waits: int) -> None:
    assert told(story).waits == waits


@pytest.mark.parametrize(
    ("story", "cost_usd", "total_usd"),
    [
        pytest.param("o f r", 0.5, 1.5, id="every iteration costs"),
        pytest.param("w w o", 0.5, 1.5, id="what is due again was not free"),
        pytest.param("o o", None, 0.0, id="nobody knows"),
    ],
)
def test_the_cost_adds_up(story: str, cost_usd: float | None, total_usd: float) -> None:
    assert told(story, cost_usd=cost_usd).cost_usd == total_usd


@pytest.mark.parametrize(
    ("story", "closed"),
    [
        pytest.param("m", True, id="progress closes it"),
        pytest.param("o", False, id="an iteration that changed nothing does not"),
        pytest.param("fm", False, id="nor does a failed one that changed something"),
        pytest.param("rm", False, id="nor one whose claim was refused"),
        pytest.param("wm", False, id="nor one that is due again"),
        pytest.param("t", False, id="nor an hour of trouble"),
        pytest.param("o m", True, id="later progress does"),
        pytest.param("m f f", True, id="closed is closed"),
    ],
)
@pytest.mark.parametrize("reason", [Reason.FAILURES, Reason.STALLED, Reason.REFUSED], ids=lambda reason: reason.label)
def test_what_closes_a_breaker_that_is_half_open(story: str, closed: bool, reason: Reason) -> None:
    assert told(story, Tallies(half_open=reason)).half_open is (None if closed else reason)


@pytest.mark.parametrize(
    ("before", "turn", "changed", "since_s"),
    [
        pytest.param(None, TROUBLE, "", 7000.0, id="it begins with the first turn of it"),
        pytest.param(50.0, TROUBLE, "", 50.0, id="it goes on"),
        pytest.param(50.0, OK, "", None, id="a good iteration ends it"),
        pytest.param(50.0, FAILED, "", None, id="so does one that fails by itself"),
        pytest.param(50.0, AT_LIMIT, "", None, id="so does a usage limit, for the server answered"),
        pytest.param(50.0, TROUBLE, "a.py", 7000.0, id="after something done it begins anew"),
    ],
)
def test_since_when_there_is_trouble(before: float | None, turn: Turn, changed: str, since_s: float | None) -> None:
    done = iteration("", "", turn, changed=changed, ended_s=7000.0)
    tallies = Tallies(trouble_since_s=before)
    judged = judge(done, Tallies(), LIMITS)
    assert tally(tallies, done, judged).trouble_since_s == since_s


def test_work_before_the_trouble_is_no_trouble() -> None:
    """Two hours of it, with something to show; the server failed at the end."""
    done = iteration("", "", replace(TROUBLE, took_s=7000.0), changed="a.py", ended_s=7000.0)
    assert tally(Tallies(), done, judge(done, Tallies(), LIMITS)).trouble_since_s == 7000.0


def test_an_hour_of_trouble_is_followed_by_another_hour() -> None:
    done = iteration("", "", TROUBLE, ended_s=3700.0)
    tallies = Tallies(trouble_since_s=50.0, waits=8, waits_for=Outcome.TROUBLE)
    now = tally(tallies, done, judge(done, tallies, LIMITS))
    assert (now.trouble_since_s, now.waits, now.failures, now.iterations) == (3700.0, 0, 1, 1)
