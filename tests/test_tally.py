"""What is remembered of iterations for the next verdict, how long to wait, and how whole runs of them end."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from iterations import (
    AT_LIMIT,
    CLAIM,
    DONE,
    FAILED,
    HOPELESS,
    HOUR_S,
    HUNG,
    LIMITS,
    NO_WAIT,
    OK,
    ONCE,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    START,
    TROUBLE,
    A,
    B,
    iteration,
    says,
)

from ralph.agent.turn import Outcome, Turn
from ralph.judge import Judgement, judge, tallied, wait_after
from ralph.settings import Settings
from ralph.verdict import Reason, Tally, verdict


def told(story: str, tally: Tally | None = None, *, cost_usd: float | None = None) -> Tally:
    """The tally after steps that are described by letters.

    f failed, r its claim of done refused, c claims what is not checked yet, m something moved, t an hour of trouble,
    w due again after a wait.
    """
    now = tally or Tally()
    for step in story.split():
        judged = Judgement(
            failed="x" * ("f" in step or "t" in step),
            outside="t" in step,
            refused=("y",) * ("r" in step),
            moved="m" in step,
            again="w" in step,
        )
        done = iteration("", "RALPH_DONE" * ("c" in step), replace(AT_LIMIT, cost_usd=cost_usd))
        now = tallied(now, done, judged)
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
        pytest.param("f c f", 3, 2, 0, 3, id="a claim ends no row of failures before it is checked"),
        pytest.param("r c r", 3, 0, 2, 3, id="nor one of refusals, and is none itself"),
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
    assert told(story).repeats == waits


@pytest.mark.parametrize(
    ("story", "cost_usd", "total_usd"),
    [
        pytest.param("o f r", 0.5, 1.5, id="every iteration costs"),
        pytest.param("w w o", 0.5, 1.5, id="what is due again was not free"),
        pytest.param("o o", None, None, id="nobody knows"),
    ],
)
def test_the_cost_adds_up(story: str, cost_usd: float | None, total_usd: float | None) -> None:
    assert told(story, cost_usd=cost_usd).cost_usd == total_usd


@pytest.mark.parametrize(
    ("story", "closed"),
    [
        pytest.param("m", True, id="progress closes it"),
        pytest.param("o", False, id="an iteration that changed nothing does not"),
        pytest.param("fm", False, id="nor does a failed one that changed something"),
        pytest.param("rm", False, id="nor one whose claim was refused"),
        pytest.param("cm", False, id="nor one whose claim nobody has checked"),
        pytest.param("wm", False, id="nor one that is due again"),
        pytest.param("t", False, id="nor an hour of trouble"),
        pytest.param("o m", True, id="later progress does"),
        pytest.param("m f f", True, id="closed is closed"),
    ],
)
@pytest.mark.parametrize("reason", [Reason.FAILURES, Reason.STALLED, Reason.REFUSED], ids=lambda reason: reason.label)
def test_what_closes_a_breaker_that_is_half_open(story: str, closed: bool, reason: Reason) -> None:
    assert told(story, Tally(half_open=reason)).half_open is (None if closed else reason)


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
    tally = Tally(trouble_since_s=before)
    judged = judge(done, Tally(), LIMITS)
    assert tallied(tally, done, judged).trouble_since_s == since_s


def test_work_before_the_trouble_is_no_trouble() -> None:
    """Two hours of it, with something to show; the server failed at the end."""
    done = iteration("", "", replace(TROUBLE, took_s=7000.0), changed="a.py", ended_s=7000.0)
    assert tallied(Tally(), done, judge(done, Tally(), LIMITS)).trouble_since_s == 7000.0


def test_an_hour_of_trouble_is_followed_by_another_hour() -> None:
    done = iteration("", "", TROUBLE, ended_s=3700.0)
    tally = Tally(trouble_since_s=50.0, repeats=8, waits_for=Outcome.TROUBLE)
    now = tallied(tally, done, judge(done, tally, LIMITS))
    assert (now.trouble_since_s, now.repeats, now.failures, now.iterations) == (3700.0, 0, 1, 1)


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
    waits = [wait_after(turn, repeats=repeats, now=START) for repeats in range(len(pauses))]
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
    assert wait_after(turn, repeats=1_000_000, now=START).seconds == most_s


def test_a_fraction_of_a_second_is_waited_for_too() -> None:
    assert wait_after(ends_in(60), repeats=0, now=START + 0.25).seconds == 61.75


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        pytest.param(AT_LIMIT, r"waiting until \d\d:\d\d \(5m00s\)", id="today the time"),
        pytest.param(ends_in(3 * 86_400), r"waiting until 2026-11-\d\d \d\d:\d\d \(72h00m\)", id="later the date too"),
    ],
)
def test_a_wait_says_until_when(turn: Turn, words: str) -> None:
    assert re.fullmatch(words, str(wait_after(turn, repeats=0, now=START)))


@pytest.mark.parametrize(("turn", "is_for_limit"), [(AT_LIMIT, True), (TROUBLE, False)], ids=["a limit", "trouble"])
def test_what_is_waited_for(turn: Turn, is_for_limit: bool) -> None:
    assert wait_after(turn, repeats=0, now=START).is_for_limit == is_for_limit


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one iteration comes to."""

    text: str = A
    """What the progress file says afterwards."""
    turn: Turn = OK
    changed: str = ""
    passes: bool = True
    """What the verify command says of its claim."""


def ends(story: Sequence[Step], settings: Settings = LIMITS, *, tally: Tally | None = None, text: str = A) -> str:
    """The waits and the reason of a run of these iterations, as the loop decides; it takes no time but for these."""
    now, log, elapsed_s = tally or Tally(), list[str](), 0.0
    for step in story:
        elapsed_s += step.turn.took_s
        done = iteration(text, step.text, step.turn, changed=step.changed, ended_s=elapsed_s)
        judged = judge(done, now, settings)
        now = tallied(now, done, judged)
        if judged.ended:
            return " ".join([*log, f"{now.iterations}:", judged.ended.reason.label])
        text = step.text.replace("; RALPH_DONE", "") if judged.refused else step.text
        if says(text).done and settings.verify:
            text = text.replace("RALPH_DONE", "RALPH_DONE; Verified: now" if step.passes else "")
            now = now if step.passes else replace(now, refusals=now.refusals + 1)
        if stop := verdict(says(text), now, settings, elapsed_s):
            return " ".join([*log, f"{now.iterations}:", stop.reason.label])
        if judged.again:
            seconds = wait_after(step.turn, repeats=now.repeats - 1, now=START + elapsed_s).seconds
            log.append(f"{seconds:g}")
            elapsed_s += seconds
    return " ".join([*log, f"{now.iterations}"])


FAILS, IDLE, WORKS, DOES = Step(turn=FAILED), Step(), Step(text=B), Step(changed="a.py")
CLAIMS, FINISHES, BREAKS = Step(text=CLAIM), Step(text=DONE), Step(text=DONE, passes=False)
TROUBLED, LIMITED = Step(turn=TROUBLE), Step(turn=AT_LIMIT)
FIVE_HOURS = Step(turn=ends_in(18_000))
HOUR = [TROUBLED] * 9
PAUSES = "30 60 120 240 480 900 900 900"
VERIFY = replace(LIMITS, verify="make test")
STALLS = replace(LIMITS, max_failures=None, max_stalls=3)
LAST_CHANCE = replace(LIMITS, max_iterations=1, max_failures=1, max_stalls=1)
GIVES_UP = replace(LIMITS, max_stalls=4)


@pytest.mark.parametrize(
    ("story", "settings", "end"),
    [
        pytest.param([IDLE, WORKS, FINISHES], LIMITS, "3: done", id="done"),
        pytest.param([FAILS] * 3, LIMITS, "3: failed", id="three failures in a row"),
        pytest.param([FAILS, FAILS, IDLE, FAILS, FINISHES], LIMITS, "5: done", id="failures that are not in a row"),
        pytest.param([FAILS] * 99, replace(LIMITS, max_failures=None), "99", id="failures where none is too many"),
        pytest.param([CLAIMS] * 3, LIMITS, "3: done refused", id="three refused claims in a row"),
        pytest.param([CLAIMS, FINISHES], LIMITS, "2: done", id="the next iteration can mend a refusal"),
        pytest.param([FAILS, FAILS, Step(turn=HOPELESS)], LIMITS, "3: cannot go on", id="hopeless after failures"),
        pytest.param(
            [Step(turn=HUNG, text=B), *[Step(turn=HUNG)] * 2],
            replace(LIMITS, max_failures=2),
            "3: failed",
            id="an agent that hangs after a tick has not failed",
        ),
        pytest.param([FINISHES], VERIFY, "1: done", id="what passes is done"),
        pytest.param([BREAKS, FINISHES], VERIFY, "2: done", id="what does not is mended by the next"),
        pytest.param([BREAKS] * 3, VERIFY, "3: done refused", id="what fails three times needs a person"),
        pytest.param([BREAKS, CLAIMS, BREAKS], VERIFY, "3: done refused", id="claims refused for another reason count"),
        pytest.param([BREAKS, BREAKS, IDLE, BREAKS, FINISHES], VERIFY, "5: done", id="an honest one ends the row"),
        pytest.param([BREAKS], replace(VERIFY, max_iterations=1), "1: limit reached", id="nor is it on the last one"),
        pytest.param([IDLE] * 3, STALLS, "3: no progress", id="nothing at all"),
        pytest.param([IDLE, FAILS, CLAIMS], STALLS, "3: no progress", id="nothing but failures and claims"),
        pytest.param([Step(text="- [!] a"), Step(text="- [~] a"), IDLE], STALLS, "3: no progress", id="no ticks"),
        pytest.param([IDLE, IDLE, DOES, IDLE, IDLE, IDLE], STALLS, "6: no progress", id="a changed file begins anew"),
        pytest.param([FAILS] * 3, replace(STALLS, max_failures=3), "3: failed", id="failures come before stalls"),
        pytest.param([LIMITED, FINISHES], LAST_CHANCE, "300 1: done", id="a limit is no iteration and no stall"),
        pytest.param([FIVE_HOURS, FINISHES], LIMITS, "18002 1: done", id="until it ends and a little longer"),
        pytest.param([LIMITED] * 2 + [IDLE, LIMITED], LIMITS, "300 600 300 1", id="what counts begins pauses anew"),
        pytest.param([FAILS, LIMITED, FAILS, LIMITED, FAILS], LIMITS, "300 300 3: failed", id="it ends no row"),
        pytest.param(
            [Step(text=CLAIM, turn=AT_LIMIT), FINISHES], LAST_CHANCE, "300 1: done", id="a claim at a limit counts not"
        ),
        pytest.param([FIVE_HOURS], NO_WAIT, "1: limit reached", id="a limit that nobody waits for ends it"),
        pytest.param([TROUBLED, FINISHES], NO_WAIT, "30 1: done", id="trouble is waited out all the same"),
        pytest.param([*HOUR[:8], FINISHES], LAST_CHANCE, f"{PAUSES} 1: done", id="nearly an hour of trouble"),
        pytest.param([*HOUR, FINISHES], LIMITS, f"{PAUSES} 2: done", id="an hour of it is a failed iteration"),
        pytest.param(HOUR * 3, LIMITS, f"{PAUSES} {PAUSES} {PAUSES} 3: trouble outside", id="three hours end the run"),
        pytest.param(
            [*HOUR * 2, WORKS, *HOUR * 2, FINISHES],
            LIMITS,
            f"{PAUSES} {PAUSES} {PAUSES} {PAUSES} 6: done",
            id="a good iteration ends the row of hours",
        ),
        pytest.param([FAILS, FAILS, *HOUR], LIMITS, f"{PAUSES} 3: trouble outside", id="failures and an hour of it"),
        pytest.param([*HOUR, FAILS, FAILS], LIMITS, f"{PAUSES} 3: trouble outside", id="the other way round"),
        pytest.param([*HOUR, IDLE, *[FAILS] * 3], LIMITS, f"{PAUSES} 5: failed", id="failures after a good one"),
        pytest.param(
            [TROUBLED, FIVE_HOURS, TROUBLED, FINISHES],
            LAST_CHANCE,
            "30 17972 30 1: done",
            id="limits are no hour of trouble",
        ),
        pytest.param(
            [Step(turn=replace(TROUBLE, took_s=1_500.0), changed="a.py")] * 4 + [FINISHES],
            LAST_CHANCE,
            "30 60 120 240 1: done",
            id="nor is work between one and the next",
        ),
        pytest.param([FIVE_HOURS, Step(text=A)], ONCE, "18002 1: finished", id="a plan waits for a limit too"),
        pytest.param([TROUBLED, TROUBLED, IDLE], ONCE, "30 60 1: finished", id="and for trouble to pass"),
        pytest.param(HOUR, ONCE, f"{PAUSES} 1: not finished", id="for an hour"),
        pytest.param([FAILS], ONCE, "1: not finished", id="a plan that fails is not tried again"),
    ],
)
def test_how_a_run_ends(story: Sequence[Step], settings: Settings, end: str) -> None:
    assert ends(story, settings) == end


@pytest.mark.parametrize(
    ("half_open", "story", "end"),
    [
        pytest.param(Reason.FAILURES, [FAILS], "1: failed", id="one failure opens it again"),
        pytest.param(Reason.FAILURES, [CLAIMS], "1: done refused", id="so does one refused claim"),
        pytest.param(Reason.FAILURES, [WORKS, FAILS, FAILS], "3", id="progress closes it"),
        pytest.param(Reason.FAILURES, [IDLE, IDLE, FAILS], "3: failed", id="what changes nothing does not"),
        pytest.param(Reason.FAILURES, [IDLE] * 4, "4: no progress", id="after failures, stalls are as many as ever"),
        pytest.param(Reason.STALLED, [IDLE], "1: no progress", id="after stalls, one more opens it again"),
        pytest.param(Reason.STALLED, [WORKS, *[Step(text=B)] * 3], "4", id="after stalls, progress closes it as well"),
        pytest.param(Reason.FAILURES, HOUR, f"{PAUSES} 1: trouble outside", id="an hour of trouble does not"),
        pytest.param(Reason.FAILURES, [LIMITED, FAILS], "300 1: failed", id="a limit is waited for in between"),
    ],
)
def test_the_try_after_a_block(half_open: Reason, story: Sequence[Step], end: str) -> None:
    assert ends(story, GIVES_UP, tally=Tally(half_open=half_open)) == end


def test_the_cost_of_waiting_turns_is_part_of_the_starts() -> None:
    story = [Step(turn=replace(TROUBLE, cost_usd=0.4))] * 3
    assert ends(story, replace(LIMITS, max_cost=1.0)) == "30 60 0: limit reached"


@pytest.mark.parametrize("half_open", [None, Reason.STALLED], ids=["at any time", "in the try after a block"])
def test_what_a_limit_of_the_start_cut_short_is_no_stall(half_open: Reason | None) -> None:
    """The next start goes on; a block would keep it from that."""
    one = replace(LIMITS, max_stalls=1)
    tally = Tally(half_open=half_open)
    assert ends([Step(turn=OUT_OF_BUDGET)], replace(one, max_cost=1.0), tally=tally) == "1: limit reached"
    out_of_time = Step(turn=replace(OUT_OF_TIME, took_s=60.0))
    assert ends([out_of_time], replace(one, max_time=60.0), tally=tally) == "1: limit reached"


def test_the_longest_week() -> None:
    """Ten limits of five hours each, with an hour's work between them: nothing counts but the work."""
    story = list[Step]()
    for day in range(10):
        story += [Step(turn=replace(OK, took_s=HOUR_S), changed="a.py")]
        story += [Step(turn=ends_in(int((day + 1) * (HOUR_S + 18_002) - 2)))]
    settings = replace(LIMITS, max_iterations=11, max_failures=1, max_stalls=1)
    assert ends([*story, FINISHES], settings) == " ".join(["18002"] * 10 + ["11: done"])
