"""Runs ralph in this process with its own functions wrapped by a clock, and reports what each part of the loop took.

Started by loop.py with the interpreter that has ralph: `parts.py REPORT ITERATIONS ARGUMENTS-OF-RALPH...`
"""

import functools
import importlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ALL = "an iteration"
_GIT = "git "
"""Below such a part nothing is shown: what one command takes is its own."""
PARTS = {
    "ralph.session:loop": ALL,
    "ralph.run:Run.read": "read the progress file",
    "ralph.loop:iterate": "iterate",
    "ralph.loop:record": "sums and summary line",
    "ralph.loop:pause": "the delay",
    "ralph.loop:judge": "judge",
    "ralph.iteration:_check_place": "check the place",
    "ralph.state:State.check_room": "room for transcripts",
    "ralph.progress.file:ProgressFile.check_writable": "progress file writable",
    "ralph.prompt:Prompt.render": "render the prompt",
    "ralph.state:State.transcripts": "transcripts: write the prompt",
    "ralph.state:State.begin": "note that it runs",
    "ralph.state:State.end": "note that it is over",
    "ralph.state:State.rotate": "remove old transcripts",
    "ralph.iteration:_turn": "turn",
    "ralph.agent:follow": "follow the agent",
    "ralph.process.follow:_watch": "wait for its end",
    "ralph.process.keeper:Keeper.start": "the keeper starts it",
    "ralph.process.keeper:Keeper.end": "the keeper ends what it left",
    "ralph.git:identity": "git's index lock",
    "ralph.git:remove_orphaned_locks": "git's index lock",
    "ralph.changes:Changes.begin": "git's index lock",
    "ralph.changes:Changes.look": "what changed",
    "ralph.git:call": "run git",
    "ralph.process.programs:_wait": "wait for its end",
    "subprocess:Popen.__init__": "spawn",
    "tempfile:TemporaryFile": "temporary file",
    "ralph.progress.file:ProgressFile.read": "read, parse if changed",
    "ralph.screen.screen:Screen.say": "say",
    "ralph.journal:of_iteration": "the journal's line",
    "ralph.journal:Journal.append": "write the journal",
    "os:fsync": "fsync",
    "ralph.channels:Heartbeat.beat": "a monitor's beat",
    "ralph.strict:Strict.choose": "choose a task",
    "ralph.strict:Strict._put_right": "undo what is not the agent's",
    "ralph.strict:Strict.dispose": "dispose",
    "ralph.strict:accept": "all is done",
    "ralph.strict:check": "check the list",
    "ralph.gates:Gates.finding": "the gates",
    "ralph.strict:verify": "verify",
    "ralph.guard:Guard.begin": "guard: begin",
    "ralph.guard:Guard.settle": "guard: settle",
    "ralph.guard:Guard.commit": "guard: commit",
    "ralph.worktree:take": "snapshot",
    "ralph.worktree:settings_back": "git's settings back",
    "ralph.worktree:head_back": "HEAD back",
    "ralph.worktree:changed": "changed",
    "ralph.worktree:commit": "commit",
    "ralph.worktree.repository:Repository.call": f"{_GIT}{{1}}",
    "ralph.worktree.repository:call": f"{_GIT}rev-parse",
    "ralph.worktree.commit:call": f"{_GIT}commit",
    "ralph.worktree.ignoring:call": f"{_GIT}check-ignore",
    "ralph.worktree.configured:read": "read git's settings",
    "ralph.worktree.snapshot:looks": "look at the files",
    "ralph.progress.file:ProgressFile.edit": "edit the progress file",
    "ralph.tasks.mending:mend": "mend",
}
"""What is timed, by where its caller looks it up, `{1}` being its first argument; those no longer there are named."""

Place = tuple[str, ...]
"""A part below the parts that called it."""


class Clock:
    """Seconds and calls of each part, by where it was called from."""

    def __init__(self) -> None:
        self.seconds: dict[Place, float] = defaultdict(float)
        self.calls: dict[Place, int] = defaultdict(int)
        self._now: list[str] = []

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, with a clock around it."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._now.append(name.format(*args))
            place = tuple(self._now)
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[place] += time.perf_counter() - began
                self.calls[place] += 1
                self._now.pop()

        return timed

    def wrap(self, where: str, name: str) -> None:
        """Puts the clock around `module:name` or `module:Class.name`."""
        module, _, dotted = where.partition(":")
        *outer, last = dotted.split(".")
        owner = functools.reduce(getattr, outer, importlib.import_module(module))
        setattr(owner, last, self.timed(getattr(owner, last), name))

    def lines(self, place: Place, iterations: int) -> Iterator[str]:
        """A part and those below it, the dearest first, in milliseconds per iteration."""
        times = self.calls[place] / iterations
        often = "" if 0.9 < times < 1.1 else f" x{times:.1f}"
        yield _line(self.seconds[place] / iterations, place, f"{place[-1]}{often}")
        below = () if place[-1].startswith(_GIT) else self.seconds
        inner = sorted((one for one in below if one[:-1] == place), key=lambda one: -self.seconds[one])
        for one in inner:
            yield from self.lines(one, iterations)
        rest_s = (self.seconds[place] - sum(self.seconds[one] for one in inner)) / iterations
        if inner and rest_s > 5e-6:
            yield _line(rest_s, (*place, ""), "the rest of it")


def _line(seconds: float, place: Place, what: str) -> str:
    return f"{1000 * seconds:8.3f} ms  {'  ' * (len(place) - 1)}{what}"


def main() -> None:
    """Times the loop, not the start."""
    report, iterations = Path(sys.argv[1]), int(sys.argv[2])
    clock = Clock()
    gone = []
    for where, name in PARTS.items():
        try:
            clock.wrap(where, name)
        except (ImportError, AttributeError):
            gone.append(f"            (not timed, since it is no longer there: {where})")
    code = importlib.import_module("ralph.cli").run(sys.argv[3:])
    clock.calls[(ALL,)] = iterations
    report.write_text("\n".join([*clock.lines((ALL,), iterations), *gone]) + "\n")
    sys.exit(0 if code == 3 else code)


if __name__ == "__main__":
    main()
