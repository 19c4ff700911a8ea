"""The fake agent: does small, real work without a model, and prints events as claude does.

`python -m ralph.commands.rehearsal.standin ONCE PLAN PROGRESS_FILE COMMITS PAUSES`, with the prompt on standard input,
of which it reads only the signal that --strict asks for. It plans if there are no tasks yet; ONCE is empty unless the
mode is one iteration without a task. While the file PAUSES exists it waits a moment before each step. It works with any
plan: for a task that is not the sample's it writes a note.
"""

import json
import re
import shlex
import sys
import time
from pathlib import Path

from ralph import files
from ralph.commands.rehearsal.sample import WORK, SampleTask
from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.progress.reading import read_lines_and_fences
from ralph.process import signals
from ralph.process.programs import call_program
from ralph.words import plural

_PAUSE_S = 0.3
_SHELL_S = 600.0
"""As long as the real agent lets a command run; a git hook may run all tests."""
_SIGNAL = re.compile(r'<task-done session="[^"]+">([^<]+)</task-done>')
_POINT = re.compile(rb"(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX~!]\][ \t]+)?(\S.*?)\s*")


def main() -> int:
    """Plays one turn of the agent; returns the exit code."""
    signals.install_handlers()  # so that a signal ends the turn between two steps, never in the middle of a commit
    once, plan, file = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    is_error = False
    try:
        now = progress.parse(file.read_bytes())
        if not now.tasks and not now.done:
            message = _fake_planning(plan, file)
        elif once or now.mode in ("plan", "validate"):
            message = "Nothing is missing."
        else:
            message = _fake_work_on_task(file)
    except (RalphError, OSError) as error:
        message, is_error = str(error), True
    _print_words(message)
    _print_event(type="result", subtype="success", is_error=is_error, result=message, total_cost_usd=0.0)
    return int(is_error)


def _fake_planning(plan: Path, file: Path) -> str:
    """Makes a task of every list item of the plan, or one of the whole plan; returns the final words."""
    lines = [line.body for line in read_lines_and_fences(plan.read_bytes()).lines]
    listed = [found[1] for line in lines if (found := _POINT.fullmatch(line))]
    points = list(dict.fromkeys(listed)) or [f"Build what {plan.name} says".encode(errors="replace")]
    _write_file(file, progress.with_tasks_added(file.read_bytes(), [b"- [ ] " + point for point in points]))
    return f"{plural(len(points), 'task')} written, in the order of the plan."


def _fake_work_on_task(file: Path) -> str:
    """Does and signals the task that ralph chose, else the first open one, which it ticks; returns the final words."""
    text = file.read_bytes()
    if signal := _SIGNAL.search(sys.stdin.buffer.read().decode(errors="replace")):
        work = _attempt_task(signal[1], signal[1])
        return f"{work.message}\n\n{signal[0]}"
    now = progress.parse(text)
    if now.open:
        task = now.open[0]
        work = _attempt_task(task.whole, f"{now.tasks.index(task) + 1}")
        if sys.argv[4]:  # a hook that fixes what it finds fails only the first time
            commit = f"git add {shlex.join(work.files)} && git commit -qm {shlex.quote(work.message)}"
            _run_command(f"{commit} || {{ {commit}; }}", shown=commit)
        text = text.replace(task.line.body, re.sub(rb"\[[ ~!]\]", b"[x]", task.line.body, count=1), 1)
        now = progress.parse(text)
    _write_file(file, text if now.open else progress.with_status(text, "RALPH_DONE"))
    return f"{now.ticked} of {plural(len(now.tasks), 'task')} done" + ("." if now.open else ": RALPH_DONE.")


def _attempt_task(text: str, number: str) -> SampleTask:
    """Writes the files of a task, or a note if it is not the sample's, and tests them. Raises RalphError."""
    _print_words(f"Task {number}: {text}")
    name, note = f"standin-{number}.md", f"# {text}\n\nThe fake agent was here. A real one would have built it.\n"
    work = WORK.get(text) or SampleTask({name: note}, f"test -s {name}", f"chore: pretend to build {text[:56]}")
    for path, content in work.files.items():
        _write_file(Path(path), content.encode(errors="replace"))
    _run_command(work.check)
    return work


def _write_file(path: Path, text: bytes) -> None:
    _print_tool_call("Edit" if path.exists() else "Write", file_path=str(path))
    files.replace_file(path, text)


def _run_command(command: str, shown: str = "") -> None:
    """Runs a shell command. Raises RalphError if it fails."""
    _print_tool_call("Bash", command=shown or command)
    done = call_program(["sh", "-c", command], timeout_s=_SHELL_S)
    if done.code:
        message = (done.stdout + done.stderr).decode(errors="replace").split("\n")[-4:-1]
        raise RalphError(f"{shown or command}: exit code {done.code}: {' · '.join(message)}")


def _print_words(text: str) -> None:
    _print_event(type="assistant", message={"content": [{"type": "text", "text": text}]})


def _print_tool_call(tool: str, **arguments: str) -> None:
    _print_event(type="assistant", message={"content": [{"type": "tool_use", "name": tool, "input": arguments}]})


def _print_event(**event: object) -> None:
    until = time.monotonic() + _PAUSE_S
    while files.is_file(Path(sys.argv[5])) and time.monotonic() < until and signals.interrupted() is None:
        signals.wait(0.05)
    print(json.dumps(event), flush=True)
    signals.wait(0)  # what git's end has left to hear
    if (number := signals.interrupted()) is not None:
        signals.die_by_signal(number)


if __name__ == "__main__":
    sys.exit(main())
