"""The lines of the journal: one per iteration, wait, verification and run. Pure; for people and reports."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ralph.channels.notices import Run, summary
from ralph.judge import Iteration, Judgement, Verification
from ralph.message import said_of_work
from ralph.process import Files
from ralph.progress import Progress
from ralph.state import Death
from ralph.verdict import Reason, Stop
from ralph.waiting import Wait

Record = dict[str, object]
_MESSAGE = 500
_UNDONE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What all lines have in common."""

    run: str
    mode: str
    iteration: int
    now: float
    """Seconds since 1970."""
    agent: str = ""
    """The name of its program."""

    def line(self, event: str, *, success: bool, message: str, **more: object) -> Record:
        """A line of the journal; times in seconds, costs in US dollars."""
        about = {"run": self.run, "mode": self.mode, "iteration": self.iteration, "success": success}
        return {"timestamp": _stamp(self.now), "event": event, **about, "message": message[:_MESSAGE], **more}


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def of_iteration(
    by: Identity, iteration: Iteration, judged: Judgement, *, waited_s: float, files: Files | None
) -> Record:
    """An iteration: `ended` says how, `counted` is false for one that was due again, and `message` says why or what.

    `waited_s` is how long the run waited since the iteration before.
    """
    turn, after = iteration.turn, iteration.after
    ended_badly = judged.ended is not None and judged.ended.reason.code != 0
    good = not (judged.failed or judged.refused or judged.again or ended_badly) and (
        judged.passed or not iteration.task
    )
    return by.line(
        "iteration",
        success=good,
        message=judged.failed or "; ".join(judged.refused) or turn.why or said_of_work(turn.said),
        requirement_id=iteration.task or None,
        summary=summary(iteration, judged)[:_MESSAGE],
        ended=turn.outcome.name.lower(),
        counted=not judged.again,
        refused=bool(judged.refused),
        duration_s=round(turn.took_s, 3),
        waited_s=round(waited_s, 3),
        cost_usd=turn.cost_usd,
        cost_at_least=turn.at_least,
        tokens=None if turn.tokens is None else asdict(turn.tokens),
        context=None if turn.context is None else round(turn.context, 4),
        agent=by.agent,
        model=turn.model,
        pays=turn.pays,
        tasks={
            "done": after.ticked,
            "total": len(after.tasks),
            "ticked": after.ticked - iteration.before.ticked,
            "new": len(after.tasks) - len(iteration.before.tasks),
        },
        commits=asdict(iteration.commits),
        changed=len(iteration.changed),
        outside=len(iteration.outside),
        tampered=[one[:_MESSAGE] for one in iteration.tampered],
        transcript=files.output.name if files else "",
    )


def of_tampering(by: Identity, what: Sequence[str], diff: str, kept: Path) -> Record:
    """What an iteration did to what is ralph's, all of it undone; `undone` is how that differed."""
    return by.line("tamper", success=False, message="; ".join(what), undone=diff[:_UNDONE], kept=kept.name)


def of_try(record: Record) -> Record:
    """The line for a person's own history file, in the form that ralph1 has, of an iteration's record."""
    return {name: record[name] for name in ("timestamp", "requirement_id", "success", "message")}


def of_death(by: Identity, transcript: str) -> Record:
    """An iteration in which ralph or the machine died; nothing else is known of it."""
    return by.line(
        "iteration", success=False, message="ralph was killed", ended="died", counted=False, transcript=transcript
    )


def unfinished(begun: Death, message: str) -> Record:
    """An iteration that nobody has judged yet; it stands in no journal."""
    try:
        now = begun.record.stat().st_mtime
    except OSError:
        now = 0.0
    by = Identity(run=begun.run, mode=begun.mode, iteration=begun.iteration, now=now)
    return by.line("iteration", success=False, message=message, ended="", counted=False, transcript=begun.record.name)


def of_wait(by: Identity, wait: Wait) -> Record:
    """A wait that begins."""
    why = wait.turn.outcome.name.lower()
    return by.line(
        "wait", success=True, message=wait.turn.why, why=why, until=_stamp(wait.until), planned_s=wait.seconds
    )


def of_verification(by: Identity, command: str, verified: Verification, files: Files) -> Record:
    """A run of the verify command."""
    took_s = round(verified.took_s, 3)
    good = not verified.failed
    return by.line(
        "verify",
        success=good,
        message=verified.failed,
        command=command,
        duration_s=took_s,
        output=files.output.name,
    )


def of_failed_start(by: Identity, why: str) -> Record:
    """A run that came to no iteration, because something that it needs is missing."""
    return by.line("run", success=False, message=why, ended=Reason.HOPELESS.name.lower(), iterations=0)


def of_run(by: Identity, run: Run, stop: Stop, now: Progress) -> Record:
    """A run that is over, with its sums."""
    return by.line(
        "run",
        success=stop.reason.code == 0,
        message=stop.why,
        ended=stop.reason.name.lower(),
        iterations=run.iterations,
        duration_s=round(run.took_s, 3),
        waits=run.waits,
        waited_s=round(run.waited_s, 3),
        cost_usd=run.cost_usd,
        cost_at_least=run.at_least,
        tasks={"done": now.ticked, "total": len(now.tasks)},
        commits=run.commits,
    )
