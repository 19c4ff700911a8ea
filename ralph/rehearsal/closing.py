"""The closing of a dress rehearsal: what would have happened, and what would have gone wrong. Pure text."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.journal import Record
from ralph.look.checks import Check
from ralph.look.standing import reason_of
from ralph.progress import harmless_output
from ralph.rehearsal.marked import Told
from ralph.verdict import Reason
from ralph.verify import CommandRun
from ralph.words import counted

_LAST_LINES = 3
"""Of a command's output, those that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """One start of ralph, rehearsed."""

    words: Sequence[str]
    """As a person would write it."""
    once: bool
    code: int
    """Its exit code, negative for a signal."""
    run: Record | None
    """The last line of its journal; None when it did not begin an iteration."""

    def __str__(self) -> str:
        return f"`{shlex.join(self.words[:3])}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """All that is known at the end."""

    takes: Sequence[Take]
    early: bool
    """The start that was asked for ends at once."""
    red: bool
    """The verify command fails on the untouched copy, so that the starts were rehearsed without it."""
    told: Told
    channels: Sequence[str]
    """Those that are configured, by name."""
    found: Sequence[Check]
    """What was noticed besides."""

    @property
    def wrong(self) -> list[Check]:
        """What would have gone wrong."""
        return [check for check in self._all if check.level == "bad"]

    @property
    def remarkable(self) -> list[Check]:
        """What need not go wrong, but deserves a look."""
        return [check for check in self._all if check.level == "warning"]

    @property
    def _all(self) -> list[Check]:
        return [*self.found, *_of_takes(self), *_of_notices(self.told)]


def sections(rehearsed: Rehearsed) -> dict[str, list[str]]:
    """The closing: lines by heading."""
    wrong, look = list(_listed(rehearsed.wrong)), list(_listed(rehearsed.remarkable))
    return {
        "WHAT WOULD HAVE HAPPENED": list(_happened(rehearsed)),
        "WHAT WOULD HAVE GONE WRONG": wrong or ["  nothing that a rehearsal can show"],
        **({"WORTH A LOOK": look} if look else {}),
    }


def _happened(rehearsed: Rehearsed) -> Iterator[str]:
    for take in rehearsed.takes:
        yield f"  {take}: {_outcome(take)}" + " · if the verify command passed" * (rehearsed.red and not take.once)
    if rehearsed.takes:
        yield f"  from cron: {_from_cron(rehearsed)}"
    yield from _notices(rehearsed.told, rehearsed.channels)


def _listed(checks: Sequence[Check]) -> Iterator[str]:
    for check in checks:
        first, *more = f"{check.subject}: {check.said}".splitlines()
        yield f"  - {first}"
        yield from (f"      {line}" for line in more)
        yield from (f"    {line}" for line in check.fix.splitlines())


def _outcome(take: Take) -> str:
    parts = [f"exit code {take.code}" if take.code >= 0 else f"ended by signal {-take.code}"]
    if not take.run:
        return f"{parts[0]}, no iteration"
    parts += [ended] if (ended := _ended(take)) else []
    if take.once:
        return " · ".join([*parts, counted(take.run.total or 0, "task")])
    parts.append(f"{take.run.done} of {take.run.total} tasks")
    parts += [counted(take.run.iterations, "iteration"), counted(take.run.commits, "commit")]
    return " · ".join(parts)


def _ended(take: Take) -> str:
    reason = reason_of(take.run) if take.run else None
    return "planned" if reason is Reason.ONCE and take.words[2] == "plan" else reason.label if reason else ""


def _from_cron(rehearsed: Rehearsed) -> str:
    """What later starts of the same command do."""
    take = rehearsed.takes[-1]
    ended = take.run.ended if take.run else ""
    if rehearsed.red and not take.once:
        return "each start goes on until the verify command passes"
    if ended in _BLOCKS:
        return (
            f"after as many of these as {_BLOCKS[ended]} allows, RALPH_BLOCKED ends each start at once with exit code 4"
        )
    if take.code == 0:
        return "each start does it anew" if take.once else "it is done; each later start ends at once with exit code 0"
    if take.code == 3 and not rehearsed.early:
        return "the next start goes on with the tasks that are left"
    if take.code in (3, 4):
        return f"each later start ends at once with exit code {take.code}, until somebody takes care of it"
    return "each start ends like this"


def _notices(told: Told, channels: Sequence[str]) -> Iterator[str]:
    if not channels:
        yield "  nobody is told: no channel is configured, see ralph notify setup"
        return
    titles = ", ".join(
        title + (f" ({times} times)" if times > 1 else "") for title, times in Counter(told.sent).items()
    )
    for channel in channels:
        failed = sum(line.startswith(f"{channel}: ") for line in told.failed)
        lost = f", {failed} of {len(told.sent)} did not get there" if failed else ""
        yield f"  {channel} is told: {titles or 'nothing'}{lost}"


def _of_takes(rehearsed: Rehearsed) -> Iterator[Check]:
    for take in rehearsed.takes:
        if take.code == 0 or (rehearsed.early and not take.run):
            continue
        ended = take.run.ended if take.run else ""
        why = (take.run.message if take.run else "") or "it said why, above"
        if take.run and take.run.done is not None:
            why += f" ({take.run.done} of {take.run.total} tasks done)"
        said = f"{take}: exit code {take.code}: {why}"
        yield Check("warning" if ended == "limit" else "bad", said, _REMEDIES.get(ended, ""), subject="run")


_REMEDIES = {
    "limit": "allow it more, or let cron start it again",
    "failures": "mend what failed; the real agent would meet it too",
    "refused": "after the stand-in's work, notes called standin-…, verify fails: see its output above",
    "stalled": "see its output above: nothing the stand-in did was kept",
}
"""By how a run ended."""
_BLOCKS = {"failures": "--max-failures", "refused": "--max-failures", "stalled": "--max-stalls"}
"""The ends after which RALPH_BLOCKED is in the file, and how many it takes; a rehearsal tries once."""


def of_copy(lost: Sequence[str]) -> list[Check]:
    """What could not be copied."""
    remedy = "what needs it, such as the verify command, may fail here only"
    said = "not in the copy: " + "\n".join(lost)
    return [Check("warning", said, remedy, subject="copy")] if lost else []


def of_verification(verified: CommandRun | None, *, done: bool) -> list[Check]:
    """What the verify command on the untouched copy shows; `done` says that RALPH_DONE stands in the file already."""
    if verified is None or not verified.failed:
        return []
    told = [line for line in harmless_output(verified.output).splitlines() if line.strip()][-_LAST_LINES:]
    said = "\n".join([f"on the untouched repository, {verified.failed}", *told])
    if verified.failed.endswith(" exited with 127"):
        remedy = "there is no such command: install it, or mend --verify; rehearsed without it"
    elif " had not ended after " in verified.failed:
        remedy = "make it end by itself, or allow it more with --verify-timeout; rehearsed without it"
    else:
        remedy = "RALPH_DONE will count only once the work turns it green; rehearsed without it"
    more = "the RALPH_DONE in the progress file would be taken back; " if done else ""
    return [Check("bad", said, more + remedy, subject="verify")]


def _of_notices(told: Told) -> Iterator[Check]:
    """One for each channel that something did not get through to."""
    first = {line.partition(":")[0]: line for line in reversed(told.failed)}
    for line in first.values():
        remedy = "mend its settings, and try them with ralph notify test"
        yield Check("bad", line, remedy, subject="notices")
