"""A plan of many tasks, an agent that writes down each step it takes, and what the record must look like at any time.

The record is one file. Each line says what, of which task, by whom: "begin task-07 4242". The step itself is done by
a tool in a session of its own. Between them stand the lines of whoever kills: "kill the-agent 0", "killed - 0".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

TASKS = tuple(f"task-{number:02}" for number in range(1, 31))
THE_END = "the-end"
"""What the last invocation is called, which finds no open task and writes RALPH_DONE."""

AGENT = """#!/bin/sh
# Does the first open task. For some it leaves a server running, some take longer.
cat > /dev/null
note() { echo "$1 $task $$" >> "$RECORD"; }
nl='
'
task= ticked= finished=
while IFS= read -r line; do
  new=$line
  case $line in
    '- [ ] '*) [ -n "$task" ] || { task=${line#'- [ ] '}; new="- [x] $task"; } ;;
    IN_PROGRESS) line=RALPH_DONE ;;
  esac
  ticked=$ticked$new$nl finished=$finished$line$nl
done < feature_PROGRESS.md
[ -n "$task" ] || { task=the-end ticked=$finished; }
note begin
calm=0.01
case $task in
  *[37]) setsid sleep 60 > /dev/null 2>&1 & ;;
  *5) calm=0.2 ;;
esac
setsid -w sh -c 'sleep $3; echo > "$1"; echo "step $1 $2" >> "$RECORD"; sleep $3' sh "$task" $$ $calm || exit 1
SAVE
note tick
git add -A && git commit -q --allow-empty -m "$task" || exit 1
note end
"""
BY_RENAME = 'printf %s "$ticked" > "$RECORD.new" && mv "$RECORD.new" feature_PROGRESS.md || exit 1'
IN_PLACE = '{ sleep 0.04; printf %s "$ticked"; } > feature_PROGRESS.md || exit 1'
"""There is a moment in which the file is empty; a death in it leaves it so until the next start."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the record."""

    what: str
    task: str
    pid: int
    """Of the agent, also for what its tool did; 0 for whoever kills."""


class Record:
    """The record, in a file that everybody appends to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def write(self, what: str, whom: str) -> None:
        """A line of whoever kills."""
        with self.file.open("a") as file:
            file.write(f"{what} {whom.replace(' ', '-')} 0\n")

    def lines(self) -> list[Line]:
        words = map(str.split, self.file.read_text().splitlines())
        return [Line(what, task, int(pid)) for what, task, pid in words]

    def tail(self) -> str:
        return "\n".join(self.file.read_text().splitlines()[-20:])

    def check(self, progress: str) -> None:
        """That it is a record of iterations one after another which lost nothing, beside this progress file."""
        lines = self.lines()
        done = {line.task for line in lines if line.what == "step"}
        assert set(ticked(progress)) <= done, "ticked, but not done"
        _each_agent_was_alone(lines)
        _no_task_was_lost(lines)
        _nothing_was_done_twice(lines)


def ticked(progress: str) -> list[str]:
    return [line.removeprefix("- [x] ") for line in progress.splitlines() if line.startswith("- [x] ")]


def without_marks(progress: str) -> str:
    """A progress file as it was before anything was done, if it is whole."""
    text = progress.partition("\n## Verification")[0].rstrip() + "\n"
    return text.replace("- [x] ", "- [ ] ").replace("\nRALPH_DONE\n", "\nIN_PROGRESS\n")


def _each_agent_was_alone(lines: Sequence[Line]) -> None:
    """Nobody who belongs to an earlier iteration did anything once a later one had begun."""
    turns = [pid for pid, _ in groupby(line.pid for line in lines if line.pid)]
    assert len(turns) == len(set(turns)), "two agents at a time"


def _no_task_was_lost(lines: Sequence[Line]) -> None:
    begun = [task for task, _ in groupby(line.task for line in lines if line.what == "begin")]
    assert begun == [*TASKS, THE_END][: len(begun)], "a task was left out, or begun again after its tick"


def _nothing_was_done_twice(lines: Sequence[Line]) -> None:
    """But what was under way, or about to begin, when something was killed."""
    begun = [place for place, line in enumerate(lines) if line.what == "begin"]
    for before, first, again in zip([0, *begun], begun, begun[1:], strict=False):
        if lines[first].task == lines[again].task:
            whose = lines[before].pid
            since = max((n for n in range(before, first) if lines[n].pid == whose), default=0)
            reasons = [line for line in lines[since:again] if not line.pid]
            assert reasons, f"{lines[first].task}: done again, and nothing had been killed"
