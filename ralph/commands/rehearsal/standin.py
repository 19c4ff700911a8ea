"""The fake agent: does small, real work without a model, and prints events as claude does.

`python -m ralph.commands.rehearsal.standin WORK PLAN PROGRESS_FILE PAUSES`, with the prompt on standard input, of which
it reads only the signal that --strict asks for. WORK is `commit`, `keep` for work that is not committed, or empty for a
mode of one iteration, which has no task. It plans if there are no tasks yet. If the file PAUSES exists it waits a
moment before each step. It works with any plan: for a task that is not the sample's it writes a note.
"""

import json
import re
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.plan import progress
from ralph.process.programs import call_program
from ralph.words import REASON_LENGTH, one_line, plural

_SIGNAL = re.compile(r'<task-done session="[^"]+">([^<]+)</task-done>')
_POINT = re.compile(rb"(?m)^(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX~!]\][ \t]+)?(\S.*?)\s*$")

FUNCTION = '`greeting("Ada")` in greeting.py returns "Hello, Ada!" (test_greeting.py)'
COMMAND = "`python3 greeting.py Ada` prints the greeting"

SAMPLE_BEGINS = f"""git init -q --template= &&
git config user.name "Ralph Rehearsal" &&
git config user.email rehearsal@example.invalid &&
echo __pycache__/ > .gitignore &&
cat > sample.md <<'END' &&
# Greetings

A small module that greets people by name.

- {FUNCTION}
- {COMMAND}
END
git add . && git commit -qm "A plan"
"""
"""The shell commands that make the sample's repository, with its plan."""


class SampleTask(NamedTuple):
    """The work for one task: files to write, a command that tests them, and the commit message."""

    files: Mapping[str, str]
    check: str
    message: str


_FUNCTION = '''"""Greets people by name."""


def greeting(name):
    """A greeting for `name`."""
    return f"Hello, {name}!"
'''
_MAIN = """

if __name__ == "__main__":
    import sys

    print(greeting(" ".join(sys.argv[1:])))
"""
_TEST = """import unittest

from greeting import greeting


class GreetingTest(unittest.TestCase):
    def test_greets_by_name(self):
        self.assertEqual(greeting("Ada"), "Hello, Ada!")
"""

SAMPLE_WORK = {
    FUNCTION: SampleTask(
        {"greeting.py": _FUNCTION, "test_greeting.py": _TEST}, "python3 -m unittest discover", "Greet people by name"
    ),
    COMMAND: SampleTask(
        {"greeting.py": _FUNCTION + _MAIN},
        "python3 greeting.py Ada | grep -x 'Hello, Ada!'",
        "Print a greeting on the command line",
    ),
}
"""The work for each of its tasks, by the task's text."""


def main() -> None:
    """Plays one turn of the agent."""
    plan, file = map(Path, sys.argv[2:4])
    now = progress.parse(file.read_bytes())
    if not now.tasks and not now.done:
        message = _add_points_as_tasks(plan, file)
    elif not sys.argv[1] or now.mode in ("plan", "validate"):
        message = "Nothing is missing."
    elif signal := _SIGNAL.search(sys.stdin.buffer.read().decode(errors="replace")):
        message = f"{_write_files_and_run_check(signal[1], signal[1]).message}\n\n{signal[0]}"
    else:
        message = _fake_work_on_task(file)
    _print_step(type="text", text=message)
    print(json.dumps({"type": "result", "result": message, "total_cost_usd": 0.0}))


def _add_points_as_tasks(plan: Path, progress_file: Path) -> str:
    """Makes a task of every list item of the plan, or one of the whole plan; returns the final words."""
    points = _POINT.findall(plan.read_bytes()) or [f"Build what {plan.name} says".encode(errors="replace")]
    lines = [b"- [ ] " + point for point in points]
    _print_step_and_write(progress_file, progress.with_tasks_added(progress_file.read_bytes(), lines))
    return f"{plural(len(lines), 'task')} written, in the order of the plan."


def _fake_work_on_task(progress_file: Path) -> str:
    """Does the first open task and ticks it; returns the final words."""
    text = progress_file.read_bytes()
    now = progress.parse(text)
    if now.open:
        task = now.open[0]
        work = _write_files_and_run_check(task.whole, f"{now.ticked + 1}")
        if sys.argv[1] == "commit":
            _run_or_exit(f"git add {shlex.join(work.files)} && git commit -qm {shlex.quote(work.message)}")
        mark = text.index(b"[", task.line.start) + 1
        text = progress.replace_ranges(text, [(mark, mark + 1, b"x")])
        now = progress.parse(text)
    _print_step_and_write(progress_file, text if now.open else progress.with_status(text, "RALPH_DONE"))
    return f"{now.ticked} of {plural(len(now.tasks), 'task')} done."


def _write_files_and_run_check(task_text: str, number: str) -> SampleTask:
    """Writes the files of a task, or a note if it is not the sample's, and tests them."""
    _print_step(type="text", text=f"Task {number}: {task_text}")
    name, note = f"standin-{number}.md", f"# {task_text}\n\nThe fake agent was here. A real one would have built it.\n"
    work = SAMPLE_WORK.get(task_text) or SampleTask(
        {name: note}, f"test -s {name}", f"chore: pretend to build {task_text[:56]}"
    )
    for path, content in work.files.items():
        _print_step_and_write(Path(path), content.encode(errors="replace"))
    _run_or_exit(work.check)
    return work


def _print_step_and_write(path: Path, text: bytes) -> None:
    _print_step(type="tool_use", name="Edit" if path.exists() else "Write", input={"file_path": str(path)})
    files.replace_file(path, text)


def _run_or_exit(command: str) -> None:
    """Runs a shell command; the agent exits with 1 if it fails."""
    _print_step(type="tool_use", name="Bash", input={"command": command})
    # As long as the real agent lets a command run; a git hook may run all tests.
    done = call_program(["sh", "-c", command], timeout_s=600.0)
    if done.code:
        output = (done.stdout + done.stderr).decode(errors="replace")
        sys.exit(f"{command}: exit code {done.code}: {one_line(output, REASON_LENGTH)}")


def _print_step(**block: object) -> None:
    """Prints what the agent says or does next, at reading speed if somebody watches."""
    if files.is_file(sys.argv[4]):
        time.sleep(0.45)
    print(json.dumps({"type": "assistant", "message": {"content": [{"id": "1", **block}]}}), flush=True)


if __name__ == "__main__":
    main()
