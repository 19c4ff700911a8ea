"""Deciding (design section 5): why to stop, what an iteration came to, and whole runs in a world of values."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from ralph import progress
from ralph.loop import Iteration, Judgement, Limits, Reason, Stop, Tallies, judge, run, verdict
from ralph.progress import Progress, parse
from ralph.turn import Commits, Outcome, Turn

LIMITS = Limits(max_iterations=None, max_failures=3, notify_frequency=5, once=False)
OK = Turn(outcome=Outcome.OK)
FAILED = Turn(outcome=Outcome.FAILED, why="exit 1")
OUT_OF_TURNS = Turn(outcome=Outcome.OUT_OF_TURNS, why="out of turns")


def says(text: str) -> Progress:
    """A progress file with these lines, parted by "; "."""
    return parse(text.replace("; ", "\n").encode())


@pytest.mark.parametrize(
    ("text", "tallies", "limits", "reason"),
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
        pytest.param("", {"failures": 2}, {}, None, id="two failures: go on"),
        pytest.param("", {"failures": 3}, {}, Reason.FAILURES, id="three failures in a row"),
        pytest.param("", {"failures": 1}, {"max_failures": 1}, Reason.FAILURES, id="one where one is the limit"),
        pytest.param("", {"failures": 99}, {"max_failures": None}, None, id="failures without a limit: go on"),
        pytest.param("", {"refusals": 3}, {}, Reason.REFUSED, id="three refusals in a row"),
        pytest.param("", {"refusals": 99}, {"max_failures": None}, None, id="refusals without a limit: go on"),
        pytest.param("", {"failures": 2, "refusals": 2}, {}, None, id="two of each: go on"),
        pytest.param("", {"iterations": 49}, {"max_iterations": 50}, None, id="one iteration is left: go on"),
        pytest.param("", {"iterations": 50}, {"max_iterations": 50}, Reason.LIMIT, id="all iterations are used"),
        pytest.param("", {"iterations": 9999}, {}, None, id="iterations without a limit: go on"),
        pytest.param("RALPH_DONE", {"iterations": 1}, {"max_iterations": 1}, Reason.DONE, id="done beats the limit"),
        pytest.param("RALPH_DONE", {}, {"once": True}, None, id="a mode that runs once runs whatever is done"),
        pytest.param("RALPH_STOP", {}, {"once": True}, Reason.STOPPED, id="but not against stop"),
        pytest.param("RALPH_BLOCKED: x", {}, {"once": True}, Reason.BLOCKED, id="nor when blocked"),
    ],
)
def test_why_to_stop(text: str, tallies: dict[str, int], limits: dict[str, int], reason: Reason | None) -> None:
    stop = verdict(says(text), Tallies(**tallies), replace(LIMITS, **limits))  # type: ignore[arg-type]
    assert (stop and stop.reason) == reason


@pytest.mark.parametrize(
    ("now", "tallies", "words"),
    [
        pytest.param("RALPH_BLOCKED: which port?", Tallies(), ["which port?"], id="what blocks"),
        pytest.param("RALPH_BLOCKED", Tallies(), ["RALPH_BLOCKED"], id="that it blocks"),
        pytest.param("RALPH_STOP", Tallies(), ["RALPH_STOP"], id="the word that stops"),
        pytest.param("", Tallies(failures=3, last_failure="HTTP 500"), ["3", "in a row", "HTTP 500"], id="the failure"),
        pytest.param("", Tallies(refusals=3, last_refusal="1 task"), ["3", "done", "1 task"], id="the refusal"),
    ],
)
def test_a_stop_says(now: str, tallies: Tallies, words: list[str]) -> None:
    stop = verdict(says(now), tallies, LIMITS)
    assert stop
    assert all(word in stop.why for word in words)


def iteration(before: str, after: str, turn: Turn = OK, *, commits: int = 0, strays: str = "") -> Iteration:
    changed = tuple(strays.split())
    made = Commits(count=commits)
    return Iteration(number=1, before=says(before), after=says(after), turn=turn, commits=made, strays=changed)


@pytest.mark.parametrize(
    ("done", "failed"),
    [
        pytest.param(iteration("- [ ] a", "- [ ] a"), "", id="nothing ticked is no failure"),
        pytest.param(iteration("- [ ] a", "- [x] a", FAILED), "exit 1", id="an exit code is one, whatever was ticked"),
        pytest.param(iteration("- [ ] a", "- [x] a", OUT_OF_TURNS), "", id="out of turns after a tick is none"),
        pytest.param(iteration("", "- [ ] a", OUT_OF_TURNS), "", id="nor after a new task"),
        pytest.param(iteration("", "", OUT_OF_TURNS, commits=1), "", id="nor after a commit"),
        pytest.param(
            iteration("- [ ] a", "- [ ] a", OUT_OF_TURNS),
            "out of turns, and nothing was ticked, added or committed",
            id="out of turns with nothing to show is one",
        ),
        pytest.param(
            iteration("- [x] a", "- [ ] a", replace(OK, left_over=("x",))), "", id="what it left running is none"
        ),
        pytest.param(iteration("", "", replace(FAILED, outcome=Outcome.LIMIT)), "", id="a reached usage limit is none"),
    ],
)
def test_what_counts_as_failed(done: Iteration, failed: str) -> None:
    assert judge(done, LIMITS).failed == failed


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
    refused = judge(done, LIMITS).refused
    assert len(refused) == len(words)
    assert all(word in reason for word, reason in zip(words, refused, strict=True))


ONCE = replace(LIMITS, once=True)


@pytest.mark.parametrize(
    ("done", "limits", "reason"),
    [
        pytest.param(iteration("", "- [ ] a"), LIMITS, None, id="a built task ends nothing"),
        pytest.param(iteration("", "", FAILED), LIMITS, None, id="nor does one failure"),
        pytest.param(iteration("", "", Turn(outcome=Outcome.HOPELESS)), LIMITS, Reason.HOPELESS, id="not logged in"),
        pytest.param(iteration("", "", Turn(outcome=Outcome.LIMIT)), LIMITS, Reason.LIMIT, id="a usage limit"),
        pytest.param(iteration("", "", Turn(outcome=Outcome.INTERRUPTED)), LIMITS, Reason.INTERRUPTED, id="a signal"),
        pytest.param(iteration("", "- [ ] a"), ONCE, Reason.ONCE, id="a plan"),
        pytest.param(iteration("", ""), ONCE, Reason.ONCE, id="a plan without tasks, which is warned of elsewhere"),
        pytest.param(iteration("", "- [ ] a; RALPH_DONE"), ONCE, Reason.ONCE, id="a plan that says done"),
        pytest.param(iteration("", "- [ ] a", FAILED), ONCE, Reason.ONCE_FAILED, id="a plan that failed"),
        pytest.param(iteration("", "- [ ] a", OUT_OF_TURNS), ONCE, Reason.ONCE_FAILED, id="a plan half made"),
        pytest.param(iteration("", "RALPH_BLOCKED: x"), ONCE, Reason.BLOCKED, id="a plan that needs a person"),
        pytest.param(
            iteration("", "RALPH_BLOCKED: x", FAILED), ONCE, Reason.ONCE_FAILED, id="a failed one that says so"
        ),
        pytest.param(iteration("", "- [ ] a", strays="x.py"), ONCE, Reason.ONCE_FAILED, id="a plan that built"),
        pytest.param(
            iteration("", "", Turn(outcome=Outcome.HOPELESS)), ONCE, Reason.HOPELESS, id="a plan, not logged in"
        ),
        pytest.param(iteration("", "", Turn(outcome=Outcome.LIMIT)), ONCE, Reason.LIMIT, id="a plan at a usage limit"),
    ],
)
def test_what_ends_a_run(done: Iteration, limits: Limits, reason: Reason | None) -> None:
    ended = judge(done, limits).ended
    assert (ended and ended.reason) == reason


def test_a_plan_that_built_names_the_files() -> None:
    ended = judge(iteration("", "", strays="a.py b.py"), ONCE).ended
    assert ended
    assert "a.py, b.py" in ended.why


def test_planning_refuses_nothing() -> None:
    assert judge(iteration("- [ ] a; - [ ] b", "- [ ] a; RALPH_DONE"), ONCE).refused == ()


@pytest.mark.parametrize(
    ("story", "failures", "refusals"),
    [
        pytest.param("", 0, 0, id="nothing happened"),
        pytest.param("f f", 2, 0, id="two failures"),
        pytest.param("f f o f", 1, 0, id="a good iteration ends the row"),
        pytest.param("r r", 0, 2, id="two refusals"),
        pytest.param("r o r", 0, 1, id="an honest iteration ends the row"),
        pytest.param("f r", 1, 1, id="a refusal is no failure, and the other way round"),
        pytest.param("f r f r f", 3, 2, id="the two cannot take turns for ever"),
        pytest.param("fr fr", 2, 2, id="failed and refused counts for both"),
    ],
)
def test_only_what_comes_in_a_row_adds_up(story: str, failures: int, refusals: int) -> None:
    tallies = Tallies()
    for step in story.split():
        tallies = tallies.plus(Judgement(failed="x" * ("f" in step), refused=("y",) * ("r" in step)))
    assert (tallies.iterations, tallies.failures, tallies.refusals) == (len(story.split()), failures, refusals)


@dataclass
class Fiction:
    """A world of values: a text for the progress file, a list of what the agent will make of it, and a log."""

    text: str
    story: Iterable[tuple[str, Turn]] = ()
    """What the file says after each iteration, and how the agent ended."""
    signal_after: int | None = None
    strays: tuple[str, ...] = ()
    log: list[str] = field(default_factory=list)
    ran: int = 0

    def interrupted(self) -> Stop | None:
        return Stop(Reason.INTERRUPTED) if self.ran == self.signal_after else None

    def read(self) -> Progress:
        return says(self.text)

    def iterate(self, number: int, before: Progress) -> Iteration:
        assert before == self.read()
        self.log.append(f"#{number}")
        self.ran += 1
        self.text, turn = list(self.story)[number - 1]
        return Iteration(
            number=number, before=before, after=self.read(), turn=turn, commits=Commits(), strays=self.strays
        )

    def accept_done(self) -> Progress:
        self.log.append("holds")
        return self.read()

    def refuse_done(self, judged: Judgement) -> Progress:
        assert judged.refused
        self.log.append("refused")
        return self._in_progress()

    def stay_in_progress(self) -> Progress:
        self.log.append("in progress")
        return self._in_progress()

    def _in_progress(self) -> Progress:
        self.text = progress.without_done(self.text.replace("; ", "\n").encode()).decode().replace("\n", "; ")
        return self.read()

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        del judged
        assert iteration.after == self.read(), "what is told is what the file says"

    def notice_progress(self) -> None:
        self.log.append("notice")

    def block(self, why: str) -> None:
        self.log.append(f"block: {why}")

    def pause(self) -> None:
        self.log.append("pause")


A, B, DONE = "- [ ] a", "- [x] a", "- [x] a; RALPH_DONE"
STORIES = [
    pytest.param(Fiction(DONE), LIMITS, Reason.DONE, "", id="done before the start: no agent, no notice"),
    pytest.param(
        Fiction(A, [(DONE, OK)]), LIMITS, Reason.DONE, "#1 holds notice", id="done in one, and no pause after"
    ),
    pytest.param(
        Fiction(A, [(A, OK), (B, OK), (DONE, OK)]),
        LIMITS,
        Reason.DONE,
        "#1 notice pause #2 pause #3 holds",
        id="a pause between iterations, a notice after the first",
    ),
    pytest.param(
        Fiction(A, [(A, OK)] * 11),
        replace(LIMITS, max_iterations=11),
        Reason.LIMIT,
        "#1 notice pause #2 pause #3 pause #4 pause #5 notice pause "
        "#6 pause #7 pause #8 pause #9 pause #10 notice pause #11",
        id="a notice after every fifth",
    ),
    pytest.param(
        Fiction(A, [(A, OK)] * 2),
        replace(LIMITS, max_iterations=2, notify_frequency=None),
        Reason.LIMIT,
        "#1 pause #2",
        id="no notices in between when they are off",
    ),
    pytest.param(
        Fiction(A, [(A, FAILED)] * 3),
        LIMITS,
        Reason.FAILURES,
        "#1 notice pause #2 pause #3 block: 3 iterations failed in a row: exit 1",
        id="three failures in a row leave the breaker open",
    ),
    pytest.param(
        Fiction(A, [(A, FAILED), (A, FAILED), (A, OK), (A, FAILED), (DONE, OK)]),
        LIMITS,
        Reason.DONE,
        "#1 notice pause #2 pause #3 pause #4 pause #5 holds notice",
        id="failures that are not in a row stop nothing",
    ),
    pytest.param(
        Fiction(A, [(A + "; RALPH_DONE", OK)] * 3),
        LIMITS,
        Reason.REFUSED,
        "#1 refused notice pause #2 refused pause #3 refused "
        'block: done was claimed 3 times in a row and does not hold: 1 task is not ticked: "a"',
        id="three refused claims in a row need a person",
    ),
    pytest.param(
        Fiction(A, [(A + "; RALPH_DONE", OK), (DONE, OK)]),
        LIMITS,
        Reason.DONE,
        "#1 refused notice pause #2 holds",
        id="the iteration after a refusal can mend it",
    ),
    pytest.param(
        Fiction(A, [(A + "; RALPH_STOP", OK)]),
        LIMITS,
        Reason.STOPPED,
        "#1 notice",
        id="stop is heard after an iteration",
    ),
    pytest.param(
        Fiction(A, [(A + "; RALPH_BLOCKED: x", OK)]), LIMITS, Reason.BLOCKED, "#1 notice", id="and so is blocked"
    ),
    pytest.param(Fiction(A + "; RALPH_STOP"), LIMITS, Reason.STOPPED, "", id="stop before the start: no agent"),
    pytest.param(
        Fiction(A, [(A, Turn(outcome=Outcome.HOPELESS))]), LIMITS, Reason.HOPELESS, "#1", id="hopeless ends at once"
    ),
    pytest.param(
        Fiction(A, [(DONE, Turn(outcome=Outcome.LIMIT, why="limit"))]),
        LIMITS,
        Reason.LIMIT,
        "#1 refused",
        id="a claim at a usage limit is refused all the same",
    ),
    pytest.param(Fiction(A, signal_after=0), LIMITS, Reason.INTERRUPTED, "", id="a signal before the first iteration"),
    pytest.param(
        Fiction(A, [(A, OK)], signal_after=1),
        LIMITS,
        Reason.INTERRUPTED,
        "#1 notice pause",
        id="a signal between iterations ends the run before the next",
    ),
    pytest.param(
        Fiction(A, [(A, Turn(outcome=Outcome.INTERRUPTED))], signal_after=1),
        LIMITS,
        Reason.INTERRUPTED,
        "#1",
        id="a signal during an iteration: no notice of progress, no pause",
    ),
    pytest.param(
        Fiction("", [("", FAILED)], signal_after=1),
        ONCE,
        Reason.INTERRUPTED,
        "#1",
        id="a signal beats what became of the plan",
    ),
    pytest.param(
        Fiction("", [(A, OK)]),
        ONCE,
        Reason.ONCE,
        "#1 in progress",
        id="a plan is one iteration, without a notice of progress",
    ),
    pytest.param(Fiction(DONE, [(A, OK)]), ONCE, Reason.ONCE, "#1 in progress", id="planning anew what was done"),
    pytest.param(
        Fiction("", [("RALPH_BLOCKED: x", OK)]), ONCE, Reason.BLOCKED, "#1", id="a plan that needs a person says so"
    ),
    pytest.param(
        Fiction(DONE, [(DONE, FAILED)]), ONCE, Reason.ONCE_FAILED, "#1", id="a plan that fails leaves a person's done"
    ),
    pytest.param(Fiction("", [(DONE, OK)]), ONCE, Reason.ONCE, "#1 in progress", id="planning does not declare done"),
    pytest.param(
        Fiction("", [(DONE, FAILED)]), ONCE, Reason.ONCE_FAILED, "#1 in progress", id="nor does it when it fails"
    ),
    pytest.param(
        Fiction("", [("", FAILED)]), ONCE, Reason.ONCE_FAILED, "#1", id="a plan that fails is not tried again"
    ),
]


@pytest.mark.parametrize(("world", "limits", "reason", "log"), STORIES)
def test_a_run(world: Fiction, limits: Limits, reason: Reason, log: str) -> None:
    world = replace(world, log=[])
    assert run(world, limits).reason is reason
    assert " ".join(world.log) == log
    if reason is not Reason.ONCE_FAILED:
        assert ("RALPH_DONE" in world.text) == (reason is Reason.DONE)


def test_a_run_numbers_its_iterations_without_a_gap() -> None:
    world = Fiction(A, [(A, OK)] * 1000)
    assert run(world, replace(LIMITS, max_iterations=1000)).why == "max-iterations is 1000"
    assert [int(entry[1:]) for entry in world.log if entry[0] == "#"] == list(range(1, 1001))
    assert world.log.count("pause") == 999
