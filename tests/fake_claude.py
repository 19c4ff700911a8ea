"""A stand-in for `claude`: does what the next step of a written story says (stories.py writes them).

Run by a launcher that stands on PATH as `claude`: `python fake_claude.py FOLDER [the agent's arguments]`.
FOLDER holds the story; it gets a log (a line per invocation, one per child) and the story's marks.
It is started thousands of times, so it imports nothing that is not built in: json, re and enum take twice its own time.
"""

# What os and open do, without the milliseconds of pathlib.
# ruff: noqa: PTH100, PTH103, PTH109, PTH110, PTH118, PTH120, PTH123
from __future__ import annotations

import marshal
import os
import sys
import time

TYPE_CHECKING = False  # the one of typing, without typing
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn
else:
    import _signal as signal  # without the enums

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
SEEN = ("RALPH_", "TMUX", "GIT_CONFIG_", "CLAUDE", "ANTHROPIC_")
WATCHED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
ASKED = '<task-done session="'
"""Begins what the prompt of a strict iteration asks for; @SESSION@ and @TASK@ of a story are taken from it."""
ABORTED = (
    '{"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": [], '
    '"terminal_reason": "aborted_tools", "total_cost_usd": 0.02}\n'
)
asked: list[str] = []
"""The session and the task."""
tools: list[int] = []
"""Pids of children that the real claude would kill itself when it is interrupted."""


def main() -> NoReturn:
    story = marshal.loads(content(in_folder("story")))
    number = next_number()
    ignored = [name for name in WATCHED if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN]
    behave_like_claude()
    log_the_call(number, ignored)
    steps = story["steps"]
    if number > len(steps) and not story["repeat"]:
        sys.stderr.write(f"the story is over, but this is call {number}\n")
        leave(97)
    step = steps[min(number, len(steps)) - 1]
    for act in step["acts"]:
        deed = dict(act)  # it can stand there more than once
        ACTS[deed.pop("act")](**deed)
    leave(step["exit_code"])


def next_number() -> int:
    with open(in_folder("count"), "ab") as file:
        file.write(b".")
        file.flush()
        return file.tell()


def log_the_call(number: int, ignored: list[str]) -> None:
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    at = prompt.find(f"{ASKED}ralph-")  # another session's may be quoted there
    if at >= 0:
        session, _, rest = prompt[at + len(ASKED) :].partition('">')
        asked[:] = session, rest.partition("<")[0]
    names = sorted(name for name in os.environ if name.startswith(SEEN))
    log(
        call=number,
        argv=sys.argv[2:],
        prompt=prompt,
        env={name: os.environ[name] for name in names},
        cwd=os.getcwd(),
        pid=os.getpid(),
        ignored=ignored,
    )


def log(**what: Any) -> None:
    write(in_folder("log"), ascii(what).encode() + b"\n", "ab")


def in_folder(name: str) -> str:
    return os.path.join(FOLDER, name)


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes, mode: str = "wb") -> None:
    with open(path, mode) as file:
        file.write(data)


def behave_like_claude() -> None:
    """As measured: SIGINT kills the tools and still reports, SIGTERM and SIGHUP leave at once."""
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, lambda *_: leave(143))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: leave(129))


def interrupted(*_: object) -> None:
    for pid in tools:
        os.killpg(pid, signal.SIGKILL)
    prints(ABORTED)
    log(interrupted=os.getpid())
    leave(1)


def leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:  # as the shell's `kill -9 $$` would
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def prints(text: str, stderr: bool = False, times: int = 1) -> None:
    stream = sys.stderr if stderr else sys.stdout
    if asked:
        text = text.replace("@SESSION@", asked[0]).replace("@TASK@", asked[1])
    for _ in range(times):
        stream.buffer.write(encoded(text))
    stream.flush()


def ticks(file: str, which: str) -> None:
    old = encoded("- [ ]" if which in ("first", "all") else f"- [ ] {which}")
    write(file, content(file).replace(old, old.replace(b"[ ]", b"[x]"), -1 if which == "all" else 1))


def edits(file: str, old: str, new: str) -> None:
    text = content(file)
    assert encoded(old) in text, f"{file} has no {old!r}"
    write(file, text.replace(encoded(old), encoded(new), 1))


def writes(file: str, text: str, append: bool) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    write(file, encoded(text), "ab" if append else "wb")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def runs(command: str) -> None:
    _, status = os.waitpid(spawned(command, out=2), 0)
    assert status == 0, command


def starts(command: str, name: str, tool: bool, holds_stdout: bool) -> None:
    pid = spawned(command, out=1 if holds_stdout else None, own=True)
    if tool:
        tools.append(pid)
    log(child=name, pid=pid)


def spawned(command: str, out: int | None = None, own: bool = False) -> int:
    """The pid of a shell that runs it: with this output or none, in a session of its `own` or not."""
    nothing = (os.O_RDWR, 0)
    files: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, *nothing)]
    if out is None:
        files += [(os.POSIX_SPAWN_OPEN, number, os.devnull, *nothing) for number in (1, 2)]
    else:
        files += [(os.POSIX_SPAWN_DUP2, out, 1)]
    argv = ("sh", "-c", command)
    return os.posix_spawn("/bin/sh", argv, os.environ, file_actions=files, setsid=own, setsigdef=[signal.SIGPIPE])


def ignores(signals: list[str]) -> None:
    for name in signals:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)


def marks(name: str) -> None:
    write(in_folder(f"mark-{name}"), b"")


def waits_for(name: str) -> None:
    deadline = time.monotonic() + 60  # a forgotten one does not hang the tests for ever
    while not os.path.exists(in_folder(f"mark-{name}")) and time.monotonic() < deadline:
        time.sleep(0.01)


def sleeps(seconds: float) -> None:
    time.sleep(seconds)


ACTS: dict[str, Callable[..., None]] = {
    act.__name__: act for act in (prints, ticks, edits, writes, runs, starts, ignores, marks, waits_for, sleeps)
}

if __name__ == "__main__":
    main()
