"""Usage limits and trouble outside (design section 6): how long to wait, and whole runs in which that happens."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fiction import (
    AT_LIMIT,
    CLAIM,
    DONE,
    FAIL,
    FAILED,
    HOUR_S,
    LIMITS,
    NO_WAIT,
    OK,
    ONCE,
    PASS,
    START,
    TROUBLE,
    VERIFY,
    A,
    B,
    Fiction,
    Later,
    Step,
    says,
    tell,
)

from ralph import waiting
from ralph.agent.turn import Turn
from ralph.verdict import Limits, Reason, Tallies

IN_FIVE_HOURS = replace(AT_LIMIT, resets_at=START + 18_000)


def ends_in(seconds: int) -> Turn:
    """A usage limit that ends so many seconds after the story's begin."""
    return replace(AT_LIMIT, resets_at=START + seconds)


@pytest.mark.parametrize(
    ("turn", "pauses"),
    [
        pytest.param(AT_LIMIT, [300, 600, 1200, 2400, 3600, 3600], id="nobody knows when the limit ends"),
        pytest.param(ends_in(-1), [300, 600, 1200, 2400, 3600, 3600], id="it ought to have ended already"),
        pytest.param(ends_in(18_000), [18_002] * 9, id="it ends in five hours"),
        pytest.param(ends_in(0), [3, 6, 12, 24, 48], id="it ends this very second"),
        pytest.param(ends_in(1), [3, 6, 12, 24, 48], id="it ends in a second, and does not"),
        pytest.param(ends_in(10), [12, 12, 12, 24, 48], id="it ends in ten, and does not"),
        pytest.param(TROUBLE, [30, 60, 120, 240, 480, 900, 900], id="trouble outside"),
        pytest.param(replace(TROUBLE, resets_at=START + 9), [30, 60], id="trouble knows no end"),
    ],
)
def test_how_long_to_wait(turn: Turn, pauses: list[float]) -> None:
    waits = [waiting.after(turn, repeats=repeats, now=START) for repeats in range(len(pauses))]
    assert [wait.seconds for wait in waits] == pauses
    assert [wait.until - START for wait in waits] == pauses


@pytest.mark.parametrize(
    ("turn", "most_s"),
    [
        pytest.param(AT_LIMIT, 3600.0, id="for a limit an hour"),
        pytest.param(ends_in(1), 3600.0, id="for a limit that does not end when it should an hour"),
        pytest.param(TROUBLE, 900.0, id="in trouble a quarter of an hour"),
    ],
)
def test_however_often_it_repeats_the_longest_pause_is(turn: Turn, most_s: float) -> None:
    assert waiting.after(turn, repeats=1_000_000, now=START).seconds == most_s


def test_a_fraction_of_a_second_is_waited_for_too() -> None:
    assert waiting.after(ends_in(60), repeats=0, now=START + 0.25).seconds == 61.75


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        pytest.param(AT_LIMIT, r"waiting until \d\d:\d\d \(5m00s\)", id="today the time"),
        pytest.param(ends_in(3 * 86_400), r"waiting until 2026-11-\d\d \d\d:\d\d \(72h00m\)", id="later the date too"),
    ],
)
def test_a_wait_says_until_when(turn: Turn, words: str) -> None:
    assert re.fullmatch(words, str(waiting.after(turn, repeats=0, now=START)))


@pytest.mark.parametrize(("turn", "is_for_limit"), [(AT_LIMIT, True), (TROUBLE, False)], ids=["a limit", "trouble"])
def test_what_is_waited_for(turn: Turn, is_for_limit: bool) -> None:
    assert waiting.after(turn, repeats=0, now=START).is_for_limit == is_for_limit


LAST_CHANCE = replace(LIMITS, max_iterations=1, max_failures=1, max_stalls=1)
HOUR = (
    "#{0} wait 30 #{0} wait 60 #{0} wait 120 #{0} wait 240 #{0} wait 480 #{0} wait 900 #{0} wait 900 #{0} wait 900 #{0}"
)
"""The log of an hour of trouble, with its last turn, which is then the failed one."""
TROUBLES = [Step(A, TROUBLE)] * 9
STORIES = [
    pytest.param(
        Fiction(A, [Step(A, AT_LIMIT), Step(DONE)]),
        LAST_CHANCE,
        Reason.DONE,
        "#1 wait 300 #1 holds notice",
        id="the iteration after a limit has the same number; the limit was no iteration, no failure and no stall",
    ),
    pytest.param(
        Fiction(A, [Step(A, AT_LIMIT)] * 6 + [Step(DONE)]),
        LAST_CHANCE,
        Reason.DONE,
        "#1 wait 300 #1 wait 600 #1 wait 1200 #1 wait 2400 #1 wait 3600 #1 wait 3600 #1 holds notice",
        id="as long as nobody knows when it ends, it is asked less and less often",
    ),
    pytest.param(
        Fiction(A, [Step(A), Step(A, IN_FIVE_HOURS), Step(A), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 notice pause #2 wait 18002 #2 pause #3 holds",
        id="until it ends and a little longer, when that is known",
    ),
    pytest.param(
        Fiction(A, [Step(A, ends_in(1)), Step(A, ends_in(4)), Step(A, ends_in(10)), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 wait 3 #1 wait 6 #1 wait 12 #1 holds notice",
        id="nobody spins on a limit that ends in a second again and again",
    ),
    pytest.param(
        Fiction(A, [Step(A, ends_in(1)), Step(A, ends_in(4)), Step(B, ends_in(10)), Step(B, ends_in(22)), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 wait 3 #1 wait 6 #1 wait 12 #1 wait 24 #1 holds notice",
        id="nor when something was done in between",
    ),
    pytest.param(
        Fiction(A, [Step(A, AT_LIMIT)] * 2 + [Step(A), Step(A, AT_LIMIT), Step(DONE)]),
        LIMITS,
        Reason.DONE,
        "#1 wait 300 #1 wait 600 #1 notice pause #2 wait 300 #2 holds",
        id="and after an iteration that counts",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED), Step(A, AT_LIMIT), Step(A, FAILED), Step(A, AT_LIMIT), Step(A, FAILED)]),
        LIMITS,
        Reason.FAILURES,
        "#1 notice pause #2 wait 300 #2 pause #3 wait 300 #3 block: failed",
        id="a limit ends no row of failures",
    ),
    pytest.param(
        Fiction(A, [Step(A), Step(A, AT_LIMIT), Step(A, TROUBLE), Step(A), Step(A)]),
        replace(LIMITS, max_failures=None, max_stalls=3, notify_frequency=None),
        Reason.STALLED,
        "#1 pause #2 wait 300 #2 wait 30 #2 pause #3 block: no progress",
        id="a limit and trouble are no stalls, and end no row of them",
    ),
    pytest.param(
        Fiction(A, [Step(CLAIM, AT_LIMIT), Step(DONE, AT_LIMIT), Step(DONE)]),
        replace(LAST_CHANCE, verify=True),
        Reason.DONE,
        "#1 refused wait 300 #1 refused wait 600 #1 verify verified notice",
        id="a claim at a limit is refused, but that does not count",
    ),
    pytest.param(
        Fiction(A, [Step(A, IN_FIVE_HOURS)]), NO_WAIT, Reason.LIMIT, "#1", id="a limit that nobody waits for ends it"
    ),
    pytest.param(
        Fiction(A, [Step(DONE, AT_LIMIT)]), NO_WAIT, Reason.LIMIT, "#1 refused", id="and a claim there is refused"
    ),
    pytest.param(
        Fiction(A, [Step(A, TROUBLE), Step(DONE)]),
        NO_WAIT,
        Reason.DONE,
        "#1 wait 30 #1 holds notice",
        id="trouble is waited out all the same",
    ),
    pytest.param(
        Fiction(A, [Step(A + "; RALPH_STOP", AT_LIMIT)]), LIMITS, Reason.STOPPED, "#1", id="stop, and no wait at all"
    ),
    pytest.param(
        Fiction(A, [Step(A + "; RALPH_BLOCKED: x", TROUBLE)]), LIMITS, Reason.BLOCKED, "#1", id="blocked, and no wait"
    ),
    pytest.param(
        Fiction(A, [Step(A, AT_LIMIT)], signal_after=1), LIMITS, Reason.INTERRUPTED, "#1", id="a signal, and no wait"
    ),
    pytest.param(
        Fiction(A, [Step(A, replace(AT_LIMIT, cost_usd=1.0))]),
        replace(LIMITS, max_cost_usd=1.0),
        Reason.LIMIT,
        "#1($1.00)",
        id="no money is left, and no wait",
    ),
    pytest.param(
        Fiction("Spent: $9.00; " + A, [Step(A, replace(TROUBLE, cost_usd=1.0))]),
        replace(LIMITS, max_total_cost_usd=10.0),
        Reason.LIMIT,
        "#1($1.00)",
        id="no money of the plan is left, and no wait",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES[:8], Step(DONE)]),
        LAST_CHANCE,
        Reason.DONE,
        HOUR.format(1) + " holds notice",
        id="nearly an hour of trouble is no iteration, no failure and no stall",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES, Step(DONE)]),
        LIMITS,
        Reason.DONE,
        HOUR.format(1) + " notice pause #2 holds",
        id="an hour of it is a failed iteration",
    ),
    pytest.param(
        Fiction(A, TROUBLES * 3),
        LIMITS,
        Reason.TROUBLE,
        f"{HOUR.format(1)} notice pause {HOUR.format(2)} pause {HOUR.format(3)}",
        id="three hours of it end the run, and open no breaker",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES * 2, Step(B), *TROUBLES * 2, Step(DONE)]),
        LIMITS,
        Reason.DONE,
        f"{HOUR.format(1)} notice pause {HOUR.format(2)} pause #3 pause {HOUR.format(4)} pause {HOUR.format(5)} "
        "notice pause #6 holds",
        id="a good iteration ends the row of hours",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES[:5], Step(A), *TROUBLES[:5], Step(DONE)]),
        replace(LIMITS, max_failures=1),
        Reason.DONE,
        "#1 wait 30 #1 wait 60 #1 wait 120 #1 wait 240 #1 wait 480 #1 notice pause "
        "#2 wait 30 #2 wait 60 #2 wait 120 #2 wait 240 #2 wait 480 #2 holds",
        id="a good iteration begins the hour and the pauses anew",
    ),
    pytest.param(
        Fiction(A, [Step(A, FAILED), Step(A, FAILED), *TROUBLES]),
        LIMITS,
        Reason.TROUBLE,
        f"#1 notice pause #2 pause {HOUR.format(3)}",
        id="two failures and an hour of trouble open no breaker",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES, Step(A, FAILED), Step(A, FAILED)]),
        LIMITS,
        Reason.TROUBLE,
        f"{HOUR.format(1)} notice pause #2 pause #3",
        id="the other way round neither",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES, Step(A), *[Step(A, FAILED)] * 3]),
        LIMITS,
        Reason.FAILURES,
        f"{HOUR.format(1)} notice pause #2 pause #3 pause #4 pause #5 notice block: failed",
        id="three failures after a good iteration do, whatever trouble there was before",
    ),
    pytest.param(
        Fiction(A, [*TROUBLES * 5, Step(DONE)]),
        replace(LIMITS, max_failures=None, max_stalls=1, notify_frequency=None),
        Reason.DONE,
        " pause ".join(HOUR.format(number) for number in range(1, 6)) + " pause #6 holds",
        id="where no failure is too many, no trouble is",
    ),
    pytest.param(
        Fiction("", [Step("", IN_FIVE_HOURS), Step(A)]),
        ONCE,
        Reason.ONCE,
        "#1 wait 18002 #1 in progress",
        id="a plan waits for a limit too",
    ),
    pytest.param(
        Fiction("", [Step("", TROUBLE), Step("", TROUBLE), Step(A)]),
        ONCE,
        Reason.ONCE,
        "#1 wait 30 #1 wait 60 #1 in progress",
        id="and for trouble to pass",
    ),
    pytest.param(
        Fiction("", [Step("", TROUBLE)] * 9),
        ONCE,
        Reason.ONCE_FAILED,
        HOUR.format(1),
        id="for an hour",
    ),
    pytest.param(
        Fiction("", [Step("", TROUBLE), Step("", FAILED)]),
        ONCE,
        Reason.ONCE_FAILED,
        "#1 wait 30 #1",
        id="a plan that fails after trouble has failed",
    ),
    pytest.param(
        Fiction("", [Step(DONE, AT_LIMIT), Step(B)]),
        ONCE,
        Reason.ONCE,
        "#1 in progress wait 300 #1 in progress",
        id="planning declares nothing done at a limit either",
    ),
    pytest.param(
        Fiction("", [Step("", AT_LIMIT)]),
        replace(ONCE, max_time_s=200.0),
        Reason.LIMIT,
        "#1",
        id="a plan has no time to wait",
    ),
    pytest.param(
        Fiction("", [Step("", IN_FIVE_HOURS)]), replace(ONCE, wait=False), Reason.LIMIT, "#1", id="a plan may not wait"
    ),
]


@pytest.mark.parametrize(("world", "limits", "reason", "log"), STORIES)
def test_a_run_that_waits(world: Fiction, limits: Limits, reason: Reason, log: str) -> None:
    world = replace(world, verifications=[PASS])
    stop, logged = tell(world, limits)
    assert (stop.reason, logged) == (reason, log)


def test_a_plan_that_built_before_it_came_to_a_limit_has_built() -> None:
    stop, _ = tell(Fiction("", [Step("", AT_LIMIT, changed="x.py"), Step(A)]), ONCE)
    assert stop.reason is Reason.ONCE_FAILED
    assert "x.py" in stop.why


@pytest.mark.parametrize(
    ("what", "limits", "reason"),
    [
        pytest.param("RALPH_STOP", LIMITS, Reason.STOPPED, id="somebody says stop"),
        pytest.param("RALPH_BLOCKED: x", LIMITS, Reason.BLOCKED, id="somebody says blocked"),
        pytest.param("RALPH_DONE", LIMITS, Reason.DONE, id="somebody says done"),
        pytest.param("RALPH_DONE", VERIFY, Reason.DONE, id="somebody says done, which passes"),
        pytest.param("signal", LIMITS, Reason.INTERRUPTED, id="a signal comes"),
        pytest.param("RALPH_STOP", ONCE, Reason.STOPPED, id="somebody says stop to a plan"),
        pytest.param("signal", ONCE, Reason.INTERRUPTED, id="a signal comes for a plan"),
    ],
)
@pytest.mark.parametrize("turn", [IN_FIVE_HOURS, AT_LIMIT, TROUBLE], ids=["known end", "unknown end", "trouble"])
def test_a_wait_is_over_as_soon_as(what: str, limits: Limits, reason: Reason, turn: Turn) -> None:
    world = Fiction(A, [Step(A, turn)], later=[Later(20, what)], verifications=[replace(PASS, took_s=0.0)])
    stop, _ = tell(world, limits)
    assert (stop.reason, world.ran, world.elapsed) == (reason, 1, 20)


def test_a_plan_waits_on_whatever_is_declared_done() -> None:
    world = Fiction("", [Step("", AT_LIMIT), Step(A)], later=[Later(20, "RALPH_DONE")])
    stop, log = tell(world, ONCE)
    assert (stop.reason, log, world.elapsed) == (Reason.ONCE, "#1 wait 300 #1 in progress", 300)


def test_done_that_does_not_pass_during_a_wait_does_not_let_anybody_spin() -> None:
    """The limit is still there; what remains of it is waited for."""
    world = Fiction(
        A,
        [Step(A, IN_FIVE_HOURS), Step(A, IN_FIVE_HOURS), Step(DONE)],
        later=[Later(8_000, "RALPH_DONE")],
        verifications=[FAIL, PASS],
    )
    stop, _ = tell(world, VERIFY)
    assert stop.reason is Reason.DONE
    assert world.elapsed >= 18_000
    assert world.ran <= 3


@pytest.mark.parametrize(
    ("max_time_s", "waits"),
    [
        pytest.param(HOUR_S, 0, id="long before"),
        pytest.param(18_001.0, 0, id="a second before"),
        pytest.param(18_002.0, 0, id="just then"),
        pytest.param(18_003.0, 1, id="but not a second after"),
        pytest.param(None, 1, id="nor never"),
    ],
)
@pytest.mark.parametrize("once", [False, True], ids=["build", "plan"])
def test_no_wait_is_begun_that_max_time_would_end(max_time_s: float | None, waits: int, once: bool) -> None:
    world = Fiction(A, [Step(A, IN_FIVE_HOURS), Step(A + "; RALPH_STOP")])
    stop, _ = tell(world, replace(LIMITS, max_time_s=max_time_s, once=once))
    assert sum(entry.startswith("wait") for entry in world.log) == waits
    assert waits or (stop.reason, world.elapsed) == (Reason.LIMIT, 0)


@pytest.mark.parametrize("turn", [IN_FIVE_HOURS, TROUBLE], ids=["a limit", "trouble"])
def test_a_wait_that_is_not_begun_says_why(turn: Turn) -> None:
    stop, _ = tell(Fiction(A, [Step(A, turn)]), replace(LIMITS, max_time_s=30.0))
    assert stop.why.startswith("max-time is 30s, sooner over than waiting until ")
    assert stop.why.endswith(f": {turn.why}")


def test_the_time_already_gone_counts() -> None:
    """Half an hour of work, and then a limit that ends after half an hour more."""
    turn = replace(ends_in(3_600), took_s=1_800.0)
    stop, log = tell(Fiction(A, [Step(A, turn)]), replace(LIMITS, max_time_s=HOUR_S))
    assert (stop.reason, log) == (Reason.LIMIT, "#1")


def test_a_limit_that_ended_while_the_machine_slept_is_over() -> None:
    world = Fiction(A, [Step(A, IN_FIVE_HOURS), Step(DONE)], later=[Later(60, "sleep 30000")])
    stop, log = tell(world, LIMITS)
    assert (stop.reason, log, world.elapsed) == (Reason.DONE, "#1 wait 18002 #1 holds notice", 30_060)


def test_max_time_that_was_over_while_the_machine_slept_is_over() -> None:
    world = Fiction(A, [Step(A, IN_FIVE_HOURS)], later=[Later(60, "sleep 30000")])
    stop, log = tell(world, replace(LIMITS, max_time_s=7 * HOUR_S))
    assert (stop.reason, log, world.elapsed) == (Reason.LIMIT, "#1 wait 18002", 30_060)


def test_a_limit_that_nobody_waits_for_is_exit_3_and_says_until_when() -> None:
    stop, _ = tell(Fiction(A, [Step(A, IN_FIVE_HOURS)]), NO_WAIT)
    assert stop.reason.code == 3
    assert re.fullmatch(r"limit; until 2026-11-\d\d \d\d:\d\d", stop.why)


def test_hours_of_trouble_are_exit_1_and_say_what_it_was() -> None:
    stop, _ = tell(Fiction(A, TROUBLES * 3), LIMITS)
    assert stop.reason.code == 1
    assert stop.why == "3 iterations failed in a row: trouble for an hour: HTTP 529"


def working(minutes: int, turn: Turn) -> Step:
    """Something is done, and then it ends like that."""
    return Step(A, replace(turn, took_s=minutes * 60.0), changed="a.py")


@pytest.mark.parametrize(
    "story",
    [
        pytest.param([Step(A, TROUBLE), Step(A, IN_FIVE_HOURS), Step(A, TROUBLE)], id="hours at a limit in between"),
        pytest.param([Step(A, TROUBLE), *[Step(A, AT_LIMIT)] * 4, Step(A, TROUBLE)], id="a limit of unknown end"),
        pytest.param([working(120, TROUBLE), Step(A, TROUBLE)], id="two hours of work before the first of it"),
        pytest.param([Step(A, TROUBLE), working(70, TROUBLE)], id="an hour of work before the second"),
        pytest.param([working(25, TROUBLE)] * 4, id="work between one and the next"),
        pytest.param([working(120, AT_LIMIT), Step(A, TROUBLE), Step(A, TROUBLE)], id="a long iteration before it"),
    ],
)
def test_what_is_no_hour_of_trouble(story: Sequence[Step]) -> None:
    world = Fiction(A, [*story, Step(DONE)])
    stop, log = tell(world, replace(LIMITS, max_iterations=1, max_failures=1))
    assert (stop.reason, "#2" in log) == (Reason.DONE, False)


def test_an_hour_of_trouble_after_a_block_does_not_write_it_anew() -> None:
    world = Fiction(A, TROUBLES)
    stop, log = tell(world, LIMITS, Tallies(half_open=Reason.FAILURES))
    assert (stop.reason, "block" in log, says(world.text).blocked) == (Reason.TROUBLE, False, None)


def test_the_cost_of_waiting_turns_is_part_of_the_starts() -> None:
    world = Fiction(A, [Step(A, replace(TROUBLE, cost_usd=0.4))] * 3)
    stop, log = tell(world, replace(LIMITS, max_cost_usd=1.0))
    assert (stop.reason, log) == (Reason.LIMIT, "#1($1.00) wait 30 #1($0.60) wait 60 #1($0.20)")


def test_the_longest_week() -> None:
    """Ten limits of five hours each, with an hour's work between them: nothing counts but the work."""
    story = []
    for day in range(10):
        story += [Step(A, replace(OK, took_s=HOUR_S), changed="a.py")]
        story += [Step(A, ends_in(int((day + 1) * (HOUR_S + 18_002) - 2)))]
    world = Fiction(A, [*story, Step(DONE)])
    stop, log = tell(world, replace(LIMITS, max_iterations=11, max_failures=1, max_stalls=1))
    assert (stop.reason, log.count("wait 18002"), log.count("wait")) == (Reason.DONE, 10, 10)
    assert world.elapsed == 10 * (HOUR_S + 18_002)
