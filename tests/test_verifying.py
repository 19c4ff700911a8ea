"""What is verified, and when (design section 5, under Done): whole runs in a world of values."""

from dataclasses import replace

import pytest
from fiction import CLAIM, DONE, FAIL, FAILED, PASS, VERIFY, A, B, Fiction, Later, Step, says, tell

from ralph.verdict import Limits, Reason

VERIFIED = [
    pytest.param(
        Fiction(A, [Step(DONE)], verifications=[PASS]),
        VERIFY,
        Reason.DONE,
        "#1 verify verified notice",
        id="what passes is done",
    ),
    pytest.param(
        Fiction(A, [Step(DONE), Step(DONE)], verifications=[FAIL, PASS]),
        VERIFY,
        Reason.DONE,
        "#1 verify refused notice pause #2 verify verified",
        id="what does not is refused, and the next iteration can mend it",
    ),
    pytest.param(
        Fiction(A, [Step(DONE)] * 3, verifications=[FAIL] * 3),
        VERIFY,
        Reason.REFUSED,
        "#1 verify refused notice pause #2 verify refused pause #3 verify refused block: done refused",
        id="three in a row need a person",
    ),
    pytest.param(
        Fiction(A, [Step(DONE), Step(CLAIM), Step(DONE)], verifications=[FAIL] * 2),
        VERIFY,
        Reason.REFUSED,
        "#1 verify refused notice pause #2 refused pause #3 verify refused block: done refused",
        id="claims refused for another reason are among them",
    ),
    pytest.param(
        Fiction(A, [Step(DONE), Step(DONE), Step(B), Step(DONE), Step(DONE)], verifications=[FAIL] * 3 + [PASS]),
        VERIFY,
        Reason.DONE,
        "#1 verify refused notice pause #2 verify refused pause #3 pause #4 verify refused pause #5 verify verified "
        "notice",
        id="an honest iteration ends the row",
    ),
    pytest.param(
        Fiction(A, [Step(CLAIM), Step(DONE, FAILED), Step(B)]),
        replace(VERIFY, max_iterations=3),
        Reason.LIMIT,
        "#1 refused notice pause #2 refused pause #3",
        id="nothing is verified that is refused anyway",
    ),
    pytest.param(
        Fiction(A, [Step(DONE)], verifications=[FAIL]),
        replace(VERIFY, max_iterations=1),
        Reason.LIMIT,
        "#1 verify refused notice",
        id="what does not pass is not done on the last iteration either",
    ),
    pytest.param(
        Fiction(DONE, verifications=[PASS]),
        VERIFY,
        Reason.DONE,
        "verify verified",
        id="at the start, before any agent",
    ),
    pytest.param(Fiction(DONE + "; Verified: x"), VERIFY, Reason.DONE, "", id="not at the start when it was before"),
    pytest.param(
        Fiction(CLAIM, verifications=[PASS]),
        VERIFY,
        Reason.DONE,
        "verify verified",
        id="a person's done with unticked tasks as well",
    ),
    pytest.param(
        Fiction(DONE, [Step(DONE)], verifications=[FAIL, PASS]),
        VERIFY,
        Reason.DONE,
        "verify refused #1 verify verified notice",
        id="what does not pass at the start is worked on",
    ),
    pytest.param(
        Fiction(DONE, [Step(DONE), Step(DONE)], verifications=[FAIL] * 3),
        VERIFY,
        Reason.REFUSED,
        "verify refused #1 verify refused notice pause #2 verify refused block: done refused",
        id="the refusal at the start is the first of three",
    ),
    pytest.param(
        Fiction(A, [Step(DONE + "; Verified: by me")], verifications=[PASS]),
        VERIFY,
        Reason.DONE,
        "#1 verify verified notice",
        id="an agent's word that it did so itself is none",
    ),
    pytest.param(
        Fiction(A, [Step(B)], later=[Later(5, "RALPH_DONE")], verifications=[PASS]),
        replace(VERIFY, delay_s=60.0),
        Reason.DONE,
        "#1 notice pause verify verified",
        id="what a person writes between iterations",
    ),
    pytest.param(
        Fiction(DONE + "; RALPH_BLOCKED: x"), VERIFY, Reason.BLOCKED, "", id="nothing as long as a person is needed"
    ),
    pytest.param(Fiction(DONE, signal_after=0), VERIFY, Reason.INTERRUPTED, "", id="nothing once a signal came"),
    pytest.param(
        Fiction(A, [Step(DONE)], signal_after=1),
        VERIFY,
        Reason.INTERRUPTED,
        "#1 notice pause",
        id="nothing once a signal came at the end of an iteration",
    ),
    pytest.param(
        Fiction(DONE, verifications=[None]), VERIFY, Reason.INTERRUPTED, "verify", id="once, when a signal ends it"
    ),
    pytest.param(
        Fiction(A, [Step(DONE)], verifications=[None]),
        VERIFY,
        Reason.INTERRUPTED,
        "#1 verify notice pause",
        id="once, when a signal ends it after an iteration",
    ),
    pytest.param(
        Fiction(A, [Step(DONE + "; Verified: by me")], verifications=[None]),
        VERIFY,
        Reason.INTERRUPTED,
        "#1 verify notice pause",
        id="once, when a signal ends it, whatever the agent says it did itself",
    ),
    pytest.param(
        Fiction("", [Step(DONE)]),
        replace(VERIFY, once=True),
        Reason.ONCE,
        "#1 in progress",
        id="nothing where planning does not declare done",
    ),
    pytest.param(
        Fiction(DONE, [Step(DONE, FAILED)]),
        replace(VERIFY, once=True),
        Reason.ONCE_FAILED,
        "#1",
        id="nothing where a plan that was done is planned anew",
    ),
]


@pytest.mark.parametrize(("world", "limits", "reason", "log"), VERIFIED)
def test_what_is_verified(world: Fiction, limits: Limits, reason: Reason, log: str) -> None:
    world = replace(world)
    stop, logged = tell(world, limits)
    assert (stop.reason, logged) == (reason, log)
    assert says(world.text).verified == (reason is Reason.DONE)


@pytest.mark.parametrize("world", [Fiction(DONE), Fiction(A, [Step(DONE)])], ids=["at the start", "by the agent"])
def test_a_claim_whose_verification_a_signal_ended_stays_for_the_next_start(world: Fiction) -> None:
    world = replace(world, verifications=[None])
    tell(world, VERIFY)
    assert says(world.text).done
    assert not says(world.text).verified


def test_what_came_of_the_verification_is_told() -> None:
    world = Fiction(A, [Step(B), Step(CLAIM), Step(DONE), Step(DONE)], verifications=[FAIL, PASS])
    tell(world, VERIFY)
    told = [(judged.refused, judged.verified) for _, judged in world.told]
    assert told == [((), None), (('1 task is not ticked: "a"',), None), ((FAIL.failed,), FAIL), ((), PASS)]


def test_the_reason_why_done_was_refused_is_why_the_run_ends() -> None:
    stop, _ = tell(Fiction(A, [Step(DONE)] * 3, verifications=[FAIL] * 3), VERIFY)
    assert stop.why == "done was claimed 3 times in a row and does not hold: make test exited with 2"


def test_nothing_is_verified_when_the_agent_says_that_a_person_is_needed() -> None:
    stop, log = tell(Fiction(A, [Step(DONE + "; RALPH_BLOCKED: x")]), VERIFY)
    assert (stop.reason, "verif" in log) == (Reason.BLOCKED, False)


def test_an_agents_own_verified_does_not_outlive_the_run() -> None:
    """Else it would stand there when a person takes RALPH_BLOCKED away, and nothing would ever be verified."""
    world = Fiction(A, [Step("RALPH_BLOCKED: x; - [x] a; RALPH_DONE; Verified: by me")])
    assert tell(world, VERIFY)[0].reason is Reason.BLOCKED
    assert not says(world.text).verified
