"""A stand-in for `claude`: does what the next step of a written story says (stories.py writes them).

Run by a launcher that stands on PATH as `claude`: `python fake_claude.py FOLDER [the agent's arguments]`.
FOLDER holds story.json; it gets log.jsonl (a line per invocation, one per child) and the story's marks.
It imports little, since it is started a thousand times: no pathlib, no typing.
"""

# What os and open do, without the milliseconds of pathlib.
# ruff: noqa: PTH100, PTH103, PTH109, PTH110, PTH118, PTH120, PTH123
from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
import time

TYPE_CHECKING = False  # the one of typing, without typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."
STORY_IS_OVER = 97
SEEN = ("RALPH_", "TMUX", "GIT_CONFIG_", "CLAUDE", "ANTHROPIC_")
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OPEN_TASK = re.compile(rb"^([ \t]*[-*+] )\[ \]", re.MULTILINE)

SIGNAL = re.compile('<task-done session="(ralph-[^"]+)">([^<]+)</task-done>')
"""What the prompt of a strict iteration asks for; @SESSION@ and @TASK@ of a story are taken from it."""
asked: list[tuple[str, str]] = []
tools: list[int] = []
"""Pids of children that the real claude would kill itself when it is interrupted."""


def main() -> NoReturn:
    story = json.loads(content(in_folder("story.json")))
    number = next_number()
    ignored = [one.name for one in WATCHED if signal.getsignal(one) is signal.SIG_IGN]
    behave_like_claude()
    log_the_call(number, ignored)
    steps = story["steps"]
    if number > len(steps) and not story["repeat"]:
        sys.stderr.write(f"the story is over, but this is call {number}\n")
        leave(STORY_IS_OVER)
    step = steps[min(number, len(steps)) - 1]
    for act in step["acts"]:
        perform(act, story["progress"])
    leave(step["exit_code"])


def next_number() -> int:
    with open(in_folder("count"), "ab") as file:
        file.write(b".")
        file.flush()
        return file.tell()


def log_the_call(number: int, ignored: list[str]) -> None:
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    asked.extend(SIGNAL.findall(prompt))
    names = sorted(name for name in os.environ if name.startswith(SEEN))
    log(
        call=number,
        argv=sys.argv[2:],
        stdout=kind_of(1),
        stderr=kind_of(2),
        prompt=prompt,
        env={name: os.environ[name] for name in names},
        cwd=os.getcwd(),
        pid=os.getpid(),
        ignored=ignored,
    )


def kind_of(descriptor: int) -> str:
    mode = os.fstat(descriptor).st_mode
    return "file" if stat.S_ISREG(mode) else "pipe" if stat.S_ISFIFO(mode) else "other"


def log(**what: Any) -> None:
    write(in_folder("log.jsonl"), json.dumps(what).encode() + b"\n", "ab")


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
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: leave(129))


def interrupted(*_: object) -> None:
    for pid in tools:
        os.killpg(pid, signal.SIGKILL)
    aborted = {"type": "result", "subtype": "error_during_execution", "is_error": True}
    emit({**aborted, "errors": [], "terminal_reason": "aborted_tools", "total_cost_usd": 0.02})
    log(interrupted=os.getpid())
    leave(1)


def leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:  # as the shell's `kill -9 $$` would
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def perform(act: dict[str, Any], progress: str) -> None:
    if "type" in act:
        emit(act)
    else:
        ACTS[act["act"]]({"file": progress, **act})


def emit(event: dict[str, Any]) -> None:
    prints({"text": json.dumps(event, ensure_ascii=False) + "\n"})


def prints(act: dict[str, Any]) -> None:
    stream = sys.stderr if act.get("stderr") else sys.stdout
    text = act["text"]
    for session, task in asked[:1]:
        text = text.replace("@SESSION@", session).replace("@TASK@", task)
    data = text.encode("utf-8", "surrogateescape")
    for _ in range(act.get("times", 1)):
        stream.buffer.write(data)
    stream.flush()


def ticks(act: dict[str, Any]) -> None:
    def tick(line: re.Match[bytes]) -> bytes:
        wanted = act["which"] in ("first", "all") or act["which"].encode() in text[line.start() :].split(b"\n")[0]
        return line[1] + b"[x]" if wanted else line[0]

    text = content(act["file"])
    count = 1 if act["which"] == "first" else 0
    write(act["file"], OPEN_TASK.sub(tick, text, count))


def edits(act: dict[str, Any]) -> None:
    file, old, new = act["file"], encoded(act["old"]), encoded(act["new"])
    text = content(file)
    assert old in text, f"{file} has no {old!r}"
    write(file, text.replace(old, new, 1))


def writes(act: dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(act["file"])), exist_ok=True)
    write(act["file"], encoded(act["text"]), "ab" if act.get("append") else "wb")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def runs(act: dict[str, Any]) -> None:
    import subprocess  # noqa: PLC0415 - slow to import, seldom needed

    subprocess.run(["sh", "-c", act["command"]], check=True, stdin=subprocess.DEVNULL, stdout=2)


def starts(act: dict[str, Any]) -> None:
    import subprocess  # noqa: PLC0415 - as above

    quiet: Any = subprocess.DEVNULL
    child = subprocess.Popen(
        ["sh", "-c", act["command"]],
        start_new_session=True,
        stdin=quiet,
        stdout=None if act["holds_stdout"] else quiet,
        stderr=None if act["holds_stdout"] else quiet,
    )
    if act["tool"]:
        tools.append(child.pid)
    log(child=act["name"], pid=child.pid)


def ignores(act: dict[str, Any]) -> None:
    for name in act["signals"]:
        signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)


def marks(act: dict[str, Any]) -> None:
    write(in_folder(f"mark-{act['name']}"), b"")


def waits_for(act: dict[str, Any]) -> None:
    deadline = time.monotonic() + 60  # a forgotten one does not hang the tests for ever
    while not os.path.exists(in_folder(f"mark-{act['name']}")) and time.monotonic() < deadline:
        time.sleep(0.01)


def sleeps(act: dict[str, Any]) -> None:
    time.sleep(act["seconds"])


ACTS: dict[str, Callable[[dict[str, Any]], None]] = {
    act.__name__: act for act in (prints, ticks, edits, writes, runs, starts, ignores, marks, waits_for, sleeps)
}

if __name__ == "__main__":
    main()
