"""The stand-in agent: does small, real work without a model, and reports it as the real one would.

`python -m ralph.rehearsal.standin MODE PLAN PROGRESS_FILE [--no-commit] [--only PATTERN] [--pace SECONDS]`, the prompt
on standard input. Of that it needs only the signal that --strict asks for. Any plan will do: a task that it does not
know becomes a note beside it.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ralph import files, progress, tasks
from ralph.process import call, signals
from ralph.progress import Progress, Task
from ralph.progress.reading import outside_fences
from ralph.rehearsal import sample
from ralph.rehearsal.voice import Voice
from ralph.words import duration

_SHELL_S = 600.0
"""The longest that the real agent lets a command take; a hook of git may run all the tests."""
_LAST_LINES = 3
_SIGNAL = re.compile(r'<task-done session="[^"]+">([^<]+)</task-done>')
_BULLET = re.compile(rb"(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX~!]\][ \t]+)?(\S.*)")


class _FailedError(Exception):
    """The work cannot be finished; the message says why."""


def main() -> int:
    """One turn of the agent; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ralph.rehearsal.standin", description="ralph's stand-in agent")
    parser.add_argument("mode", help="plan; anything else builds")
    parser.add_argument("plan", type=Path)
    parser.add_argument("progress_file", type=Path)
    parser.add_argument("--no-commit", action="store_true", help="leave the changes in the working tree")
    parser.add_argument("--only", default="", metavar="PATTERN", help="write nothing else")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="pause after each step")
    asked = parser.parse_args()
    signals.install(lambda: None)  # so that a signal ends the turn between two steps, never in the middle of a commit
    signal = _SIGNAL.search(sys.stdin.buffer.read().decode(errors="replace"))
    voice = Voice(asked.pace)
    commits = not asked.no_commit
    turn = Turn(voice=voice, plan=asked.plan, progress_file=asked.progress_file, commits=commits, only=asked.only)
    try:
        if asked.mode == "plan":
            voice.result(turn.make_plan())
        else:
            voice.result(turn.propose(signal[0], signal[1]) if signal else turn.build())
    except (_FailedError, OSError) as error:
        voice.result(str(error), is_error=True)
        return 1
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn's work on a plan, in the working directory."""

    voice: Voice
    plan: Path
    progress_file: Path
    commits: bool
    only: str = ""

    def make_plan(self) -> str:
        """Makes every point of the plan a task; the closing words."""
        self._look("I read the plan and what there is, then write the task list.")
        added = self._write_tasks()
        words = f"{_count(added, 'task')} written, in the order of the plan."
        self.voice.says(words)
        return words

    def build(self) -> str:
        """Does the first task that is not ticked; the closing words."""
        self._look("I read the plan, the progress file and what was done last.")
        now = self._now()
        if not now.tasks:
            self._write_tasks()
            now = self._now()
        if now.open:
            self._do(now.open[0], number=now.tasks.index(now.open[0]) + 1)
        elif not now.done:
            self._edit_progress(_with_done)
        now = self._now()
        words = f"{now.ticked} of {_count(len(now.tasks), 'task')} done" + (": RALPH_DONE." if now.done else ".")
        self.voice.says(words)
        return words

    def propose(self, signal: str, task_id: str) -> str:
        """Does the task that ralph chose, ticks and commits nothing; the closing words."""
        self._look("I read the plan, the progress file and the task that is mine.")
        listed = tasks.flat(tasks.read(self.progress_file.read_bytes()))
        number, task = next((place, one) for place, one in enumerate(listed, 1) if one.id == task_id)
        self.voice.says(f"Task {number}: {task.text}")
        work = _work(task.text, number, self.only)
        for edit in work.edits:
            self._edit(edit)
        self._run(work.check)
        self.voice.says(words := f"{work.message}\n\n{signal}")
        return words

    def _look(self, words: str) -> None:
        self.voice.says(words)
        for path in (self.plan, self.progress_file):
            self.voice.calls("Read", file_path=str(path))
            self.voice.got(path.read_text(encoding="utf-8", errors="replace"))
        if self.commits:
            self._shell("git status --short && git log --oneline -5")

    def _now(self) -> Progress:
        return progress.parse(self.progress_file.read_bytes())

    def _write_tasks(self) -> int:
        known = {task.text for task in self._now().tasks}
        points = [point for point in dict.fromkeys(_points(self.plan.read_bytes())) if _text(point) not in known]
        points = points or ([] if known else [f"Build what {self.plan.name} says".encode(errors="surrogateescape")])
        lines = [b"- [ ] " + point for point in points]
        self._edit_progress(lambda text: _with_note(progress.with_tasks(text, lines if known else [b"", *lines])))
        return len(points)

    def _do(self, task: Task, *, number: int) -> None:
        """The work of one task: edit, check, commit, and only then the tick."""
        self.voice.says(f"Task {number}: {task.text}")
        work = _work(task.text, number, self.only)
        for edit in work.edits:
            self._edit(edit)
        self._run(work.check)
        if self.commits:
            paths = shlex.join(edit.path for edit in work.edits)
            # whatever is ignored; and a hook that mends what it finds fails only the first time
            commit = f"git add --force {paths} && git commit -qm {shlex.quote(work.message)} {paths}"
            if self._shell(commit):
                self._run(commit)
        self._edit_progress(lambda text: _with_done_if_all(_ticked(text, task)))

    def _edit(self, edit: sample.Edit) -> None:
        path = Path(edit.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.voice.calls("Edit" if path.exists() else "Write", file_path=edit.path)
        old = _content(path)
        new = old.replace(edit.old, edit.new, 1) if edit.old else old + edit.new
        path.write_text(new, encoding="utf-8", errors="surrogateescape")
        self.voice.got("written")

    def _edit_progress(self, change: Callable[[bytes], bytes]) -> None:
        self.voice.calls("Edit", file_path=str(self.progress_file))
        files.replace(self.progress_file, change(self.progress_file.read_bytes()))
        self.voice.got("written")

    def _run(self, command: str) -> None:
        """Runs a shell command. Raises _FailedError when it fails."""
        if why := self._shell(command):
            raise _FailedError(f"{command}: {why}")

    def _shell(self, command: str) -> str:
        """Runs a shell command; why it failed, or nothing. A check is for the Python that runs this."""
        self.voice.calls("Bash", command=command)
        env = dict(os.environ)
        if command.startswith("python3 "):
            env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        done = call(["sh", "-c", command], timeout_s=_SHELL_S, env=env)
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        self.voice.got(said, is_error=done.code != 0)
        if done.timed_out:
            return f"still running after {duration(_SHELL_S)}"
        return _telling(said.splitlines()) or f"exit code {done.code}" if done.code else ""


def _telling(lines: list[str]) -> str:
    """Of what a command that failed said, what is likely to say why."""
    named = [line for line in lines if line.startswith(("error:", "fatal:"))]
    return " · ".join(named[:1] or lines[-_LAST_LINES:])


def _work(text: str, number: int, only: str) -> sample.Work:
    """The sample's own work where it fits, else a note that the task's turn came, where it may be written."""
    known = sample.WORK.get(text)
    if known and not only and all(not edit.old or edit.old in _content(Path(edit.path)) for edit in known.edits):
        return known
    title = text.encode(errors="replace").decode()
    path = f"standin-{number:02d}-{re.sub(r'[^a-z0-9]+', '-', title.lower())[:40].strip('-') or 'task'}.md"
    path = _allowed(path, only) if only else path
    note = sample.Edit(path=path, new=f"# {title}\n\nThe stand-in agent was here. A real one would have built it.\n")
    return sample.Work(edits=(note,), check=f"test -s {shlex.quote(path)}", message=f"chore: stand in for {title[:60]}")


def _allowed(name: str, pattern: str) -> str:
    """A path that the pattern of --only allows, as far as one can be made of it."""
    if not re.search(r"[*?\[]", pattern):
        return f"{pattern.rstrip('/')}/{name}"
    path = pattern.replace("**/", "").replace("**", name).replace("*", name.removesuffix(".md"))
    return f"{path}{name}" if path.endswith("/") else path


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""


def _points(plan: bytes) -> list[bytes]:
    """What the plan lists, not indented and outside of code fences; its second-level headings if it lists nothing."""
    lines, _ = outside_fences(plan, rb"(?:[-*+]|\d{1,9}[.)])[ \t]|## ")
    listed = [found[1].rstrip() for line in lines if (found := _BULLET.fullmatch(line.body))]
    return listed or [line.body[3:].strip() for line in lines if line.body[3:].strip()]


def _text(line: bytes) -> str:
    return line.decode(errors="surrogateescape").strip()


def _ticked(text: bytes, task: Task) -> bytes:
    """The same with this task ticked, wherever else its line may stand as an example."""
    wanted = progress.parse(text).ticked + 1
    ticked = re.sub(rb"\[[ ~!]\]", b"[x]", task.raw, count=1)
    changed = _first(text, rb"(?m)^" + re.escape(task.raw), ticked, lambda now: now.ticked == wanted)
    if changed is None:
        raise _FailedError(f"this task cannot be found in the list any more: {task.text}")
    return changed


def _with_done_if_all(text: bytes) -> bytes:
    return text if progress.parse(text).open else _with_done(text)


def _with_done(text: bytes) -> bytes:
    done = _first(text, rb"(?m)^ {0,3}IN_PROGRESS(?=\s*$)", b"RALPH_DONE", lambda now: now.done)
    return done or text + b"\nRALPH_DONE\n"


def _first(text: bytes, pattern: bytes, new: bytes, holds: Callable[[Progress], bool]) -> bytes | None:
    """The text with the first match replaced after which it says what it should."""
    for found in re.finditer(pattern, text):
        changed = text[: found.start()] + new + text[found.end() :]
        if holds(progress.parse(changed)):
            return changed
    return None


def _with_note(text: bytes) -> bytes:
    note = b"\nPlanned by the stand-in agent: a task for each point of the plan.\n"
    heading = re.search(rb"(?m)^#{1,6} Notes[ \t]*\r?\n", text)
    if note.strip() in text:
        return text
    return text[: heading.end()] + note + text[heading.end() :] if heading else text + b"\n## Notes\n" + note


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


if __name__ == "__main__":
    sys.exit(main())
