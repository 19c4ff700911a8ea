"""A world of values for the loop: no file, no process, no time that really passes; and what its tests share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ralph import progress
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.judge import Iteration, Judgement, Verification
from ralph.loop import run
from ralph.progress import Progress, parse
from ralph.verdict import Limits, Reason, Stop, Tallies
from ralph.waiting import Wait

LIMITS = Limits(max_failures=3, notify_frequency=5)
HOUR_S = 3600.0
ONCE = replace(LIMITS, once=True)
NO_WAIT = replace(LIMITS, wait=False)
NO_COMMITS = replace(LIMITS, commits=False)
PASS = Verification(took_s=3.0)
FAIL = Verification(failed="make test exited with 2", output="E assert", took_s=3.0)
VERIFY = replace(LIMITS, verify=True)

OK = Turn(outcome=Outcome.OK)
FAILED = Turn(outcome=Outcome.FAILED, why="exit 1")
OUT_OF_TURNS = Turn(outcome=Outcome.OUT_OF_TURNS, why="out of turns")
OUT_OF_BUDGET = Turn(outcome=Outcome.OUT_OF_BUDGET, why="out of budget", cost_usd=1.02)
OUT_OF_TIME = Turn(outcome=Outcome.OUT_OF_TIME, why="max-time was over")
HUNG = Turn(outcome=Outcome.HUNG, why="it was silent")
AT_LIMIT = Turn(outcome=Outcome.LIMIT, why="limit")
TROUBLE = Turn(outcome=Outcome.TROUBLE, why="HTTP 529")
HOPELESS = Turn(outcome=Outcome.HOPELESS, why="not logged in")
INTERRUPTED = Turn(outcome=Outcome.INTERRUPTED, why="it was interrupted")
CUT_SHORT = [
    Outcome.HUNG,
    Outcome.TIMED_OUT,
    Outcome.CONTEXT_FULL,
    Outcome.TOO_LONG,
    Outcome.OUT_OF_TURNS,
    Outcome.OUT_OF_BUDGET,
]
"""Outcomes of an agent that was ended, or ended itself, in the middle of its work."""
A, B, DONE = "- [ ] a", "- [x] a", "- [x] a; RALPH_DONE"
CLAIM = A + "; RALPH_DONE"
SPENT = "Spent: $9.00; "
"""Begins the file of a plan that other starts have worked on."""


def says(text: str) -> Progress:
    """A progress file with these lines, parted by "; "."""
    return parse(text.replace("; ", "\n").encode())


def iteration(
    before: str, after: str, turn: Turn = OK, *, commits: int = 0, changed: str = "", ended_s: float = 0.0
) -> Iteration:
    return Iteration(
        number=1,
        before=says(before),
        after=says(after),
        turn=turn,
        commits=Commits(count=commits),
        changed=tuple(changed.split()),
        ended_s=ended_s,
    )


START = 1_795_000_000
"""When every story begins, in seconds since 1970."""


class Step(NamedTuple):
    """What one iteration comes to."""

    text: str
    """What the progress file says afterwards."""
    turn: Turn = OK
    changed: str = ""
    commits: int = 0
    failed: str = ""
    """Strict: why the try of the task failed."""
    given_up: bool = False
    ticked: str = ""
    """Strict: what the file says once ralph has ticked the task."""
    tampered: str = ""


class Later(NamedTuple):
    """What happens in the outside."""

    at_s: float
    """Seconds of the start."""
    what: str
    """`signal`, `sleep 3600` when the machine is suspended, or a line that somebody writes into the file."""


@dataclass
class Fiction:
    """A world of values: a text for the progress file, a list of what the agent will make of it, a clock and a log."""

    text: str
    story: Sequence[Step] = ()
    signal_after: int | None = None
    """Iterations."""
    verifications: Sequence[Verification | None] = ()
    """What comes of the verify command, each time and then from the first on; None when a signal ends it."""
    later: Sequence[Later] = ()
    stuck: str = ""
    """Strict: why no task can be begun, when the story is over."""
    log: list[str] = field(default_factory=list, init=False)
    ran: int = field(default=0, init=False)
    elapsed: float = field(default=0.0, init=False)
    signalled: bool = field(default=False, init=False)
    verified: int = field(default=0, init=False)
    began: list[float] = field(default_factory=list, init=False)
    told: list[tuple[Iteration, Judgement]] = field(default_factory=list, init=False)

    @property
    def strict(self) -> bool:
        return bool(self.stuck) or any(step.failed or step.ticked for step in self.story)

    def interrupted(self) -> Stop | None:
        return Stop(Reason.INTERRUPTED) if self.signalled or self.ran == self.signal_after else None

    def now(self) -> float:
        return START + self.elapsed

    def elapsed_s(self) -> float:
        return self.elapsed

    def read(self) -> Progress:
        return says(self.text)

    def iterate(self, number: int, before: Progress, budget_usd: float | None) -> Iteration:
        assert before == self.read()
        assert not self.interrupted()
        self.log.append(f"#{number}" + ("" if budget_usd is None else f"(${budget_usd:.2f})"))
        self.began.append(self.elapsed)
        step = self.story[self.ran]
        self.ran += 1
        self.text = step.text
        self._passes(step.turn.took_s)
        return Iteration(
            number=number,
            before=before,
            after=self.read(),
            turn=step.turn,
            commits=Commits(count=step.commits),
            changed=tuple(step.changed.split()),
            ended_s=self.elapsed,
            tampered=(step.tampered,) if step.tampered else (),
        )

    def tidy(self) -> Progress:
        return self.read()

    def choose(self) -> Stop | None:
        return Stop(Reason.STUCK, self.stuck) if self.stuck and self.ran == len(self.story) else None

    def dispose(self, iteration: Iteration, judged: Judgement) -> tuple[Iteration, Judgement]:
        step = self.story[self.ran - 1]
        self.log.append("failed" if step.failed else "ticked" if step.ticked else "put down")
        self.text = step.ticked or self.text
        failed = step.failed or judged.failed
        judged = replace(judged, failed=failed, tried=bool(step.failed), given_up=step.given_up)
        return replace(iteration, after=self.read()), judged

    def planned_badly(self) -> str:
        return ""

    def _passes(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Time goes by and what happens meanwhile happens, as long as it is not over."""
        until = self.elapsed + seconds
        for at_s, what in self.later:
            if self.elapsed < at_s <= until:
                self.elapsed = at_s
                self._happens(what)
                if self.interrupted() or over():
                    return
        self.elapsed = max(self.elapsed, until)

    def _happens(self, what: str) -> None:
        if what == "signal":
            self.signalled = True
        elif what.startswith("sleep "):
            self.elapsed += float(what.removeprefix("sleep "))
        else:
            self.text += f"; {what}"

    def verify(self) -> Verification | None:
        self.log.append("verify")
        assert not self.interrupted()
        self._edit(progress.without_verified)
        self.verified += 1
        verification = self.verifications[(self.verified - 1) % len(self.verifications)]
        self.signalled = verification is None
        self._passes(verification.took_s if verification else 0.0)
        return verification

    def accept_done(self, verified: Verification | None) -> Progress:
        assert self.read().done or self.strict
        self.text += "; RALPH_DONE" * (not self.read().done)
        self.log.append("verified" if verified else "holds")
        assert verified is None or not verified.failed
        return self._edit(lambda text: progress.with_verified(text, "now") if verified else text)

    def refuse_done(self, judged: Judgement) -> Progress:
        assert judged.refused
        assert judged.verified is None or judged.verified.failed in judged.refused
        self.log.append("refused")
        return self._edit(progress.without_done)

    def stay_in_progress(self) -> Progress:
        self.log.append("in progress")
        return self._edit(progress.without_done)

    def _edit(self, change: Callable[[bytes], bytes]) -> Progress:
        self.text = change(self.text.replace("; ", "\n").encode()).decode().replace("\n", "; ")
        return self.read()

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        assert iteration.after == self.read(), "what is told is what the file says"
        self.told.append((iteration, judged))
        if iteration.before.spent_usd is not None:
            spent_usd = iteration.before.spent_usd + (iteration.turn.cost_usd or 0.0)
            self._edit(lambda text: progress.with_spent(text, spent_usd))

    def notice_progress(self) -> None:
        self.log.append("notice")

    def wait(self, wait: Wait, over: Callable[[], bool]) -> None:
        assert wait.until == self.now() + wait.seconds
        self.log.append(f"wait {wait.seconds:g}")
        self._passes(wait.seconds, over)

    def pause(self, seconds: float, over: Callable[[], bool]) -> None:
        self.log.append("pause")
        self._passes(seconds, over)

    def block(self, stop: Stop) -> None:
        assert stop.why
        self.log.append(f"block: {stop.reason.label}")

    def unblock(self) -> None:
        self.log.append("unblock")


def tell(world: Fiction, limits: Limits, tallies: Tallies | None = None) -> tuple[Stop, str]:
    """How the run ended, and its log."""
    stop = run(world, limits, tallies or Tallies())
    return stop, " ".join(world.log)
