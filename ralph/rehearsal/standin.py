"""The stand-in agent: does small, real work without a model, and prints the events that the real one would.

`python -m ralph.rehearsal.standin MODE PLAN PROGRESS_FILE PACE_S commit|no-commit`, the prompt on standard input. Of
that it needs only the signal that --strict asks for. Any plan will do: for a task that is not the sample's it writes
a note.
"""

import json
import os
import re
import shlex
import sys
import uuid
from pathlib import Path

from ralph import files, progress, tasks
from ralph.process import call, signals
from ralph.progress.reading import outside_fences
from ralph.rehearsal import sample
from ralph.words import counted

_SHELL_S = 600.0
"""The longest that the real agent lets a command take; a hook of git may run all the tests."""
_SIGNAL = re.compile(r'<task-done session="[^"]+">([^<]+)</task-done>')
_BULLET = re.compile(rb"(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX~!]\][ \t]+)?(\S.*)")


class _FailedError(Exception):
    """The work cannot be finished; the message says why."""


def main() -> int:
    """One turn of the agent; the exit code."""
    mode, plan, file, pace_s, commits = sys.argv[1:6]
    signals.install()  # so that a signal ends the turn between two steps, never in the middle of a commit
    signal = _SIGNAL.search(sys.stdin.buffer.read().decode(errors="replace"))
    turn = Turn(Path(plan), Path(file), float(pace_s))
    try:
        if mode == "plan":
            words = turn.make_plan()
        else:
            words = turn.propose(signal) if signal else turn.build(commits=commits == "commit")
    except (_FailedError, OSError) as error:
        turn.ends(str(error), is_error=True)
        return 1
    turn.ends(words)
    return 0


class Turn:
    """One turn's work on a plan, in the working directory; each step is printed as an event."""

    def __init__(self, plan: Path, progress_file: Path, pace_s: float) -> None:
        self._plan, self._progress_file, self._pace_s = plan, progress_file, pace_s
        self._session, self._calls = str(uuid.uuid4()), 0
        self._print(type="system", subtype="init", model="stand-in", apiKeySource="none", tools=[], mcp_servers=[])
        for path in (plan, progress_file):
            self._uses("Read", file_path=str(path))
            self._got(path.read_text(encoding="utf-8", errors="replace"))

    def make_plan(self) -> str:
        """Makes every point of the plan a task; the closing words."""
        text = self._progress_file.read_bytes()
        known = {task.text for task in progress.parse(text).tasks}
        points = [point for point in _points(self._plan.read_bytes()) if point.decode(errors="replace") not in known]
        points = points or ([] if known else [f"Build what {self._plan.name} says".encode(errors="replace")])
        lines = [b"- [ ] " + point for point in points]
        self._edit_progress(progress.with_tasks(text, lines))
        return self._says(f"{counted(len(points), 'task')} written, in the order of the plan.")

    def build(self, *, commits: bool) -> str:
        """Does the first task that is not ticked, commits and ticks it; the closing words."""
        text = self._progress_file.read_bytes()
        now = progress.parse(text)
        if now.open:
            task = now.open[0]
            work = self._does(task.text, f"{now.tasks.index(task) + 1}")
            if commits:
                paths = shlex.join(edit.path for edit in work.edits)
                commit = f"git add {paths} && git commit -qm {shlex.quote(work.message)}"
                if self._shell(commit):  # a hook that mends what it finds fails only the first time
                    self._must(commit)
            text = text.replace(task.raw, re.sub(rb"\[[ ~!]\]", b"[x]", task.raw, count=1), 1)
        now = progress.parse(text)
        self._edit_progress(text if now.open else progress.declared_done(text))
        said = f"{now.ticked} of {counted(len(now.tasks), 'task')} done"
        return self._says(said + ("." if now.open else ": RALPH_DONE."))

    def propose(self, signal: re.Match[str]) -> str:
        """Does the task that ralph chose, ticks and commits nothing; the closing words."""
        task = tasks.find(tasks.read(self._progress_file.read_bytes()), signal[1])
        work = self._does(task.text if task else "", signal[1])
        return self._says(f"{work.message}\n\n{signal[0]}")

    def ends(self, text: str, *, is_error: bool = False) -> None:
        """The last event."""
        kind = "error_during_execution" if is_error else "success"
        usage = {"input_tokens": 0, "output_tokens": 0}
        self._print(type="result", subtype=kind, is_error=is_error, result=text, total_cost_usd=0.0, usage=usage)

    def _does(self, text: str, number: str) -> sample.Work:
        """What a task needs, tried. Raises _FailedError."""
        self._says(f"Task {number}: {text}")
        work = sample.WORK.get(text) or _note(text, number)
        for edit in work.edits:
            path = Path(edit.path)
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            self._uses("Edit" if old else "Write", file_path=edit.path)
            path.write_text(old.replace(edit.old, edit.new, 1) if edit.old else old + edit.new, encoding="utf-8")
            self._got("written")
        self._must(work.check)
        return work

    def _edit_progress(self, text: bytes) -> None:
        self._uses("Edit", file_path=str(self._progress_file))
        files.replace(self._progress_file, text)
        self._got("written")

    def _must(self, command: str) -> None:
        if why := self._shell(command):
            raise _FailedError(f"{command}: {why}")

    def _shell(self, command: str) -> str:
        """Runs a shell command; why it failed, or nothing. A `python3` in it is the Python that runs this."""
        self._uses("Bash", command=command)
        env = dict(os.environ)
        if command.startswith("python3 "):
            env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        done = call(["sh", "-c", command], timeout_s=_SHELL_S, env=env)
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        self._got(said, is_error=done.code != 0)
        lines = said.splitlines()
        named = [line for line in lines if line.startswith(("error:", "fatal:"))]
        return " · ".join(named[:1] or lines[-3:] or [f"exit code {done.code}"]) if done.code else ""

    def _says(self, text: str) -> str:
        self._message("assistant", type="text", text=text)
        return text

    def _uses(self, tool: str, **arguments: str) -> None:
        self._calls += 1
        self._message("assistant", type="tool_use", id=f"toolu_{self._calls}", name=tool, input=arguments)

    def _got(self, text: str, *, is_error: bool = False) -> None:
        block = {"tool_use_id": f"toolu_{self._calls}", "content": text, "is_error": is_error}
        self._message("user", type="tool_result", **block)

    def _message(self, role: str, **block: object) -> None:
        self._print(type=role, message={"role": role, "content": [block]}, parent_tool_use_id=None)
        signals.pause(self._pace_s)

    def _print(self, **event: object) -> None:
        print(json.dumps({**event, "session_id": self._session}), flush=True)
        if (number := signals.interrupted()) is not None:
            signals.die_by(number)


def _note(text: str, number: str) -> sample.Work:
    """A note that the task's turn came."""
    path, title = f"standin-{number}.md", text.encode(errors="replace").decode()
    note = sample.Edit(path, "", f"# {title}\n\nThe stand-in agent was here. A real one would have built it.\n")
    return sample.Work((note,), f"test -s {path}", f"chore: stand in for {title[:60]}")


def _points(plan: bytes) -> list[bytes]:
    """What the plan lists, not indented and outside of code fences; its second-level headings if it lists nothing."""
    lines, _ = outside_fences(plan, rb"(?:[-*+]|\d{1,9}[.)])[ \t]|## ")
    listed = [found[1].rstrip() for line in lines if (found := _BULLET.fullmatch(line.body))]
    return list(dict.fromkeys(listed or [line.body[3:].strip() for line in lines if line.body[3:].strip()]))


if __name__ == "__main__":
    sys.exit(main())
