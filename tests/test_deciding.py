"""Deciding, a function of values: what an iteration came to, what is remembered, why to stop, how long to wait."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.plan.progress import Progress, parse
from ralph.run.judge import Iteration, TurnFindings, count_in_tally, judge_iteration, wait_before_repeat_s
from ralph.run.stop_rules import Tally, stop_reason
from ralph.settings.table import Settings

USUAL = Settings()
"""Three failures, five iterations without a change, and no other limit."""
START = 1_795_000_000
"""When every story begins, in seconds since 1970."""
OK = Turn(outcome=Outcome.OK)
FAILED = Turn(outcome=Outcome.FAILED, why="exit 1")
HUNG = Turn(outcome=Outcome.HUNG, why="it was silent")
AT_LIMIT = Turn(outcome=Outcome.LIMIT, why="limit")
TROUBLE = Turn(outcome=Outcome.TROUBLE, why="HTTP 529")
OUT_OF_BUDGET = Turn(outcome=Outcome.OUT_OF_BUDGET, cost_usd=1.02)
A, B, DONE = "- [ ] a", "- [x] a", "- [x] a; RALPH_DONE"


def says(text: str) -> Progress:
    """A progress file with these lines, parted by "; "."""
    return parse(text.replace("; ", "\n").encode())


def iteration(before: str = A, after: str = A, turn: Turn = OK, *changed: str) -> Iteration:
    return Iteration(
        before=says(before), after=says(after), turn=turn, commits=Commits(), changed=changed, findings=TurnFindings()
    )


RED_START = "no progress: verify was red before the first task"


@pytest.mark.parametrize(
    ("text", "tally", "settings", "words"),
    [
        ("- [x] a", {}, {}, ""),  # nobody said done
        ("RALPH_DONE; RALPH_STOP; - [ ] a", {}, {}, "done"),  # the user's word
        ("RALPH_DONE; RALPH_STOP; RALPH_BLOCKED: x", {}, {}, "blocked: x"),
        ("Verified: x; RALPH_DONE", {}, {"verify": "make test"}, ""),
        ("RALPH_DONE; RALPH_STOP", {}, {"verify": "make test"}, "stopped"),
        ("RALPH_DONE; - [x] a", {}, {"strict": True}, ""),
        ("RALPH_DONE; - [x] a", {}, {"strict": True, "evidence": False}, "done"),
        ("RALPH_DONE; Verified: x (checks alone)", {}, {"strict": True}, "done"),
        ("RALPH_DONE; Verified: x (checks alone)", {}, {"strict": True, "verify": "make test"}, ""),
        (
            "",
            {"red_failures": 3, "first_verify_failure": "exit 2"},
            {},
            f"{RED_START} (exit 2)",
        ),
        (
            "",
            {"red_failures": 1, "first_verify_failure": "x", "stalls": 5},
            {},
            f"{RED_START} (x)",
        ),
        ("", {"red_failures": 2, "first_verify_failure": "x"}, {}, ""),
        ("RALPH_DONE; - [ ] a", {}, {"strict": True}, ""),
        ("RALPH_DONE", {}, {"once": True}, ""),
        ("RALPH_DONE", {"iterations": 1, "cost_usd": 0.01}, {"max_iterations": 1, "max_cost": 0.01}, "done"),
        ("", {"cost_usd": sum([0.1] * 10)}, {"max_cost": 1.0}, "limit reached: "),  # sums of prices are not exact
        ("", {"cost_usd": 0.999998}, {"max_cost": 1.0}, ""),  # of the rest the agent is told six places
        ("", {"failures": 2, "refusals": 2, "stalls": 4, "iterations": 49}, {"max_iterations": 50}, ""),
        ("", {"failures": 1}, {"max_failures": 1}, "failed: 1 iteration failed: "),
        ("", {"iterations": 9, "failures": 3}, {"max_iterations": 9}, "failed: "),
    ],
)
def test_what_the_file_says_or_what_happened_may_stop_a_run(
    text: str, tally: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    stop = stop_reason(says(text), Tally(**tally), Settings(**settings))
    assert bool(stop) == bool(words)
    assert (f"{stop.reason.label}: {stop.why}" if stop else "").startswith(words)


def test_done_is_refused_for_all_that_speaks_against_it_and_finished_tasks_may_be_tidied_away() -> None:
    left = "- [!] a; - [ ] c; - [ ] d; - [ ] e; RALPH_DONE; RALPH_BLOCKED: x"
    assert judge_iteration(iteration("- [x] z; - [ ] a; - [ ] b", left, FAILED), Tally(), USUAL).refused == [
        '4 tasks not ticked: "a", "c", "d" and 1 more',
        "RALPH_BLOCKED is there, too",
        '1 task gone without being ticked, now put back: "b"',
        "the iteration that claimed it did not end well: exit 1",
    ]


def ends(story: Sequence[Iteration], settings: Settings, now: Tally) -> str:
    """The waits and the reason of a run of these iterations, as the loop decides; it takes no time but for these."""
    log = list[str]()
    elapsed_s = 0.0
    for one in story:
        judged = judge_iteration(one, now, settings)
        count_in_tally(now, judged)
        file = says("") if judged.refused else judged.after
        if stop := judged.run_stop or stop_reason(file, now, settings, elapsed_s):
            return " ".join([*log, f"{now.iterations}:", stop.reason.label])
        if judged.is_repeated:
            seconds = wait_before_repeat_s(one.turn, repeats=now.repeats - 1, now=START + elapsed_s)
            log.append(f"{seconds:g}")
            elapsed_s += seconds
    return " ".join([*log, f"{now.iterations}"])


IDLE = iteration()
WORKS = iteration(A, B)
FAILS = iteration(A, A, FAILED, "a.py")
CLAIMS = iteration(A, A + "; RALPH_DONE")
FINISHES = iteration(B, DONE)
TROUBLED = iteration(turn=TROUBLE)
LIMITED = iteration(turn=AT_LIMIT)
CLAIMS_AT_LIMIT = iteration(A, DONE, AT_LIMIT)
HANGS = iteration(turn=HUNG)
COSTS = iteration(turn=replace(TROUBLE, cost_usd=0.4))
TEN_SECONDS = iteration(turn=replace(AT_LIMIT, resets_at=START + 10))
FIVE_HOURS = iteration(turn=replace(AT_LIMIT, resets_at=START + 18_000))
HOURS = [TROUBLED] * 17
PAUSES = "30 60 120 240 480" + " 900" * 11
LAST_CHANCE = Settings(max_iterations=1, max_failures=1, max_stalls=1)


@pytest.mark.parametrize(
    ("opened", "story", "settings", "end"),
    [
        ("", [iteration(A, B, HUNG), HANGS, HANGS], Settings(max_failures=2), "3: failed"),
        ("", [FAILS, FINISHES, FAILS, CLAIMS, FAILS], Settings(verify="make test"), "5: failed"),
        ("", [IDLE, iteration(turn=FAILED), CLAIMS], Settings(max_failures=None, max_stalls=3), "3: no progress"),
        ("", [LIMITED] * 2 + [IDLE, LIMITED], USUAL, "300 600 300 1"),
        ("", [FAILS, LIMITED, FAILS, LIMITED, FAILS], USUAL, "300 300 3: failed"),
        ("", [CLAIMS_AT_LIMIT, FINISHES], LAST_CHANCE, "300 1: done"),
        ("", [*HOURS[:16], iteration(A, A, TROUBLE, "a.py"), FINISHES], LAST_CHANCE, f"{PAUSES} 30 1: done"),
        ("", [*HOURS[:16], IDLE, *HOURS], USUAL, f"{PAUSES} {PAUSES} 2: trouble outside"),
        ("", [TROUBLED, FIVE_HOURS, TROUBLED, FINISHES], LAST_CHANCE, "30 17972 30 1: done"),
        ("", [TEN_SECONDS, TEN_SECONDS], USUAL, "12 600 0"),
        ("", [FIVE_HOURS, IDLE], Settings(once=True), "18002 1"),
        ("", [COSTS, COSTS, COSTS], Settings(max_cost=1.0), "30 60 0: limit reached"),
        ("", [iteration(turn=OUT_OF_BUDGET)], Settings(max_cost=1.0), "1: limit reached"),
        ("FAILURES", [WORKS, FAILS, FAILS, IDLE, IDLE], USUAL, "5"),
        ("REFUSED", [CLAIMS], USUAL, "1: done refused"),
        ("STALLED", [IDLE], USUAL, "1: no progress"),
        ("STALLED", [iteration(A, A, OK, "a.py"), CLAIMS, FAILS], USUAL, "3"),
        ("TAMPERED", [FAILS, IDLE, CLAIMS], USUAL, "3"),
    ],
)
def test_how_a_run_ends_also_after_a_block_which_leaves_one_attempt(
    opened: str, story: Sequence[Iteration], settings: Settings, end: str
) -> None:
    tally = Tally()
    tally.set_one_below_limit(opened, settings)
    assert ends(story, settings, tally) == end
