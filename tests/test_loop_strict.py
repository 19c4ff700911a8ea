"""Whole runs under --strict in a world of values: what ralph disposes decides, and what the agent writes does not."""

from dataclasses import replace

import pytest
from fiction import DONE, FAIL, FAILED, LIMITS, PASS, A, B, Fiction, Step, says, tell

from ralph.verdict import Limits, Reason, Tallies, verdict

STRICT = replace(LIMITS, strict=True, notify_frequency=None)
VERIFIED = replace(STRICT, verify=True)
BOTH, HALF = "- [ ] a; - [ ] b", "- [x] a; - [ ] b"
NO = Step(BOTH, failed="no", changed="a.py")
GIVEN_UP = Step(BOTH, failed="no", given_up=True, changed="a.py")

STORIES = [
    pytest.param(
        Fiction(A, [Step(A, ticked=B + "; RALPH_DONE")]), STRICT, Reason.DONE, "#1 ticked", id="a task that passes"
    ),
    pytest.param(
        Fiction(BOTH, [Step(BOTH, ticked=HALF), Step(HALF, ticked="- [x] a; - [x] b; RALPH_DONE")]),
        STRICT,
        Reason.DONE,
        "#1 ticked pause #2 ticked",
        id="one task an iteration",
    ),
    pytest.param(
        Fiction(B, stuck="x"),
        STRICT,
        Reason.DONE,
        "holds",
        id="a list that a person has ticked is done: ralph says so",
    ),
    pytest.param(
        Fiction(B, stuck="x", verifications=[PASS]),
        VERIFIED,
        Reason.DONE,
        "verify verified",
        id="once it is verified",
    ),
    pytest.param(
        Fiction(B, stuck="all is ticked", verifications=[FAIL]),
        VERIFIED,
        Reason.STUCK,
        "verify refused",
        id="else a person is needed, since there is no task to work on",
    ),
    pytest.param(
        Fiction(A + "; RALPH_DONE", [Step(A, ticked=DONE)]),
        STRICT,
        Reason.DONE,
        "refused #1 ticked",
        id="done with an open task is taken back, whoever wrote it",
    ),
    pytest.param(
        Fiction(A + "; RALPH_DONE; Verified: now", [Step(A, ticked=DONE)]),
        STRICT,
        Reason.DONE,
        "refused #1 ticked",
        id="also when it was verified before the task was added",
    ),
    pytest.param(
        Fiction(A + "; RALPH_DONE", [Step(A + "; RALPH_DONE", failed="x")]),
        STRICT,
        Reason.REFUSED,
        "refused #1 failed pause refused block: done refused",
        id="what writes it each time is bounded",
    ),
    pytest.param(Fiction(BOTH, stuck="b waits for a"), STRICT, Reason.STUCK, "", id="nothing to begin: no agent"),
    pytest.param(
        Fiction(BOTH, [NO, NO, GIVEN_UP, NO, NO, GIVEN_UP, NO, NO, GIVEN_UP]),
        STRICT,
        Reason.FAILURES,
        " pause ".join(f"#{number} failed" for number in range(1, 10)) + " block: failed",
        id="three tasks given up in a row leave the breaker open, not three tries",
    ),
    pytest.param(
        Fiction(BOTH, [GIVEN_UP, GIVEN_UP, Step(BOTH, ticked=HALF), GIVEN_UP], stuck="b is blocked"),
        STRICT,
        Reason.STUCK,
        "#1 failed pause #2 failed pause #3 ticked pause #4 failed pause",
        id="a task that passes begins the count anew",
    ),
    pytest.param(
        Fiction(BOTH, [Step(BOTH, FAILED)] * 3),
        replace(STRICT, max_stalls=None),
        Reason.FAILURES,
        "#1 put down pause #2 put down pause #3 put down block: failed",
        id="an agent that fails three times does too",
    ),
    pytest.param(
        Fiction(BOTH, [Step(BOTH, tampered="ticked b")]),
        replace(STRICT, abort_on_tamper=True),
        Reason.TAMPERED,
        "#1 put down block: tampered with",
        id="tampering ends the run where that is asked for",
    ),
    pytest.param(
        Fiction(BOTH, [Step(BOTH, tampered="ticked b", ticked=HALF)], stuck="over"),
        STRICT,
        Reason.STUCK,
        "#1 ticked pause",
        id="else it is undone, and the run goes on",
    ),
]


@pytest.mark.parametrize(("world", "limits", "reason", "log"), STORIES)
def test_a_run(world: Fiction, limits: Limits, reason: Reason, log: str) -> None:
    stop, told = tell(world, limits)
    assert (stop.reason, told) == (reason, log)


@pytest.mark.parametrize(
    ("text", "limits", "stops"),
    [
        pytest.param(B + "; RALPH_DONE", STRICT, True, id="done with all tasks ticked"),
        pytest.param(A + "; RALPH_DONE", STRICT, False, id="done with an open one does not count"),
        pytest.param(A + "; RALPH_DONE", LIMITS, True, id="but for a person's without strict"),
        pytest.param(B + "; RALPH_DONE", VERIFIED, False, id="nor before it is verified"),
    ],
)
def test_what_counts_as_done(text: str, limits: Limits, stops: bool) -> None:
    assert (verdict(says(text), Tallies(), limits) is not None) == stops
