"""Plays one story with one ralph: real processes in a throwaway project."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import facts
from facts import Facts
from http_server import Server
from ralph_driver import alive, clean_environment, marked
from stories import Agent
from story import Deed, Start, Story

DEEDS = Path(__file__).with_name("deeds.py")
OWN_TEMPLATE = "A template of this story"
"""Stands in templates of a story, whose prompts are compared."""

_START_S = 90.0
"""Seconds after which a start is taken for hung: a fact that differs, or a fault of the story."""
_LOOK_S = 0.02
_LEAVES_S = 6.0
"""Seconds that whatever a run started may take to leave once the run is over."""
_SHORT_WAIT_S = 7.0
"""A planned wait up to that long is simply waited for."""

_GITCONFIG = "[user]\n\tname = A Tester\n\temail = tester@example.invalid\n[init]\n\tdefaultBranch = main\n"
_GITCONFIG += "[maintenance]\n\tauto = false\n[gc]\n\tauto = 0\n[core]\n\thooksPath = /dev/null\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a person saw after each start, and what stood on the screen, for whoever reads a difference."""

    starts: list[Facts]
    screens: list[str]


class NotContainedError(Exception):
    """The story may put files back or remove them, and the machine around it could be written to."""


def contained() -> bool:
    """Whether the machine is read-only but for some folders, as a mount namespace can make it."""
    return bool(os.statvfs("/").f_flag & os.ST_RDONLY)


def play(story: Story, folder: Path, ralphs: Sequence[Path]) -> Played:
    """Plays the story in a new folder; `ralphs` are the commands, start by start, and the last for all after it."""
    if story.contained and not contained():
        raise NotContainedError("--strict, --only and restore are played where the machine is read-only")
    folder.mkdir(parents=True)
    with Server() as server:
        stage = _Stage(story, folder, server)
        played = Played(starts=[], screens=[])
        try:
            for number, start in enumerate(story.starts):
                seen, screen = stage.start(start, ralphs[min(number, len(ralphs) - 1)])
                played.starts.append(seen)
                played.screens.append(screen)
        finally:
            stage.end_all()
    return played


@dataclass(slots=True)
class _Stage:
    story: Story
    here: Path
    server: Server
    agent: Agent = field(init=False)
    env: dict[str, str] = field(init=False)
    reached: set[str] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)
    """How much of what only grows was there at the last look."""
    waits: int = 0

    def __post_init__(self) -> None:
        here, story = self.here, self.story
        for name in ("repo", "home", "state", "tmp"):
            (here / name).mkdir()
        self.agent = Agent(here / "agent")
        (here / "agent" / "story.json").write_text(story.agents_story())
        for name in ("claude", "helper"):
            _launcher(here / "bin" / name, here / "agent")
        self.env = clean_environment(
            home=here / "home", state=here / "state", temporary=here / "tmp", programs=here / "bin", mark=str(here)
        )
        del self.env["PYTHONPATH"]
        self.env |= {name: self._filled(text) for name, text in story.environment.items()}
        _write(here / "home", {".gitconfig": _GITCONFIG, **story.home}, self._filled)
        _write(here / "repo", story.files, self._filled)
        if story.repository:
            for words in ("init -q --template=", "add -A", "commit -q --allow-empty -m plan"):
                subprocess.run(["git", *words.split()], cwd=here / "repo", env=self.env, check=True)
        _write(here / "repo", story.uncommitted, self._filled)

    def _filled(self, text: str) -> str:
        return text.replace("@HERE@", str(self.here)).replace("@URL@", self.server.url())

    @property
    def _root(self) -> Path:
        return self.here / "repo"

    @property
    def _progress(self) -> Path:
        return self._root / self.story.progress

    def start(self, start: Start, ralph: Path) -> tuple[Facts, str]:
        """Runs it to its end, and looks at what it came to."""
        for deed in start.before:
            self._does(deed, None)
        out, err = self.here / "out", self.here / "err"
        words = [self._filled(word) for word in start.words]
        environment = {name: self._filled(text) for name, text in start.environment.items()}
        with out.open("wb") as stdout, err.open("wb") as stderr, _terminal(stdout, wanted=start.terminal) as seen:
            process = subprocess.Popen(
                [ralph, *words],
                env=self.env | environment,
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=seen,
                stderr=stderr,
                start_new_session=True,
            )
            code = self._follow(process)
            left = self._left_running()
        said, complained = (path.read_text("utf-8", "replace") for path in (out, err))
        journal = self._journal()
        notices, beats = self._notices(), self._new("beats", self._received("GET"))
        if code == -signal.SIGKILL:  # what was on its way may have gone out or not
            notices, beats = [], []
        there = {
            "exit code": str(code),
            "closing": facts.closing(facts.plain(said, self.here), 0 if code is None else code),
            "stderr": facts.of_complaints(complained, code),
            "left running": "\n".join(left),
            "agent": facts.of_agent(self._new("calls", self.agent.calls), OWN_TEMPLATE, self.here),
            "notices": facts.of_notices(notices, self.here),
            "heartbeats": "some" if beats else "none",
            "journal": facts.of_journal(self._new("journal", journal), self.here),
            "progress file": _content(self._progress, self.here),
            "files": facts.of_files(self._root, self.here, without=(".git", self.story.progress)),
            "git": facts.of_git(self._root, self.env, self.here),
            "kept": "\n".join(facts.of_files(kept, self.here) for kept in self._state("kept")),
            "home": facts.of_files(self.here / "home", self.here),
        }
        screen = facts.plain(f"{said}\n--- stderr\n{complained}", self.here)
        return there, screen

    def _follow(self, process: "subprocess.Popen[bytes]") -> int | None:
        deadline = time.monotonic() + _START_S
        while process.poll() is None:
            time.sleep(_LOOK_S)
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                return None
            for mark, deeds in self.story.at.items():
                if mark not in self.reached and self.agent.reached(f"at-{mark}"):
                    self.reached.add(mark)
                    for deed in deeds:
                        self._does(deed, process)
            self._at_waits(process)
        return process.returncode

    def _at_waits(self, process: "subprocess.Popen[bytes]") -> None:
        """A long wait is not waited for: somebody comes by."""
        waits = [line for line in self._journal() if line.get("event") == "wait"]
        for line in waits[self.waits :]:
            self.waits += 1
            if line.get("planned_s", 0) > _SHORT_WAIT_S:
                number = self.seen.get("long waits", 0)
                self.seen["long waits"] = number + 1
                for deed in (*self.story.at_waits, (["signal", "INT"],))[min(number, len(self.story.at_waits))]:
                    self._does(deed, process)

    def _does(self, deed: Deed, process: "subprocess.Popen[bytes] | None") -> None:
        what, *words = deed
        if what == "signal" and process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.Signals[f"SIG{words[0]}"])
        elif what == "pause" and process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(float(words[0]))
        elif what == "let":
            self.agent.let(f"go-{words[0]}")
        elif what == "shell":
            subprocess.run(["sh", "-c", words[0]], cwd=self._root, env=self.env, check=False, capture_output=True)
        else:
            self._edits(what, words)

    def _edits(self, what: str, words: Sequence[str]) -> None:
        """As an editor saves: the whole file by a rename."""
        try:
            text = self._progress.read_bytes()
        except OSError:
            text = b""
        if what == "append":
            text += words[0].encode()
        elif what == "without":
            text = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(words[0].encode()))
        elif what == "replace":
            text = text.replace(words[0].encode(), words[1].encode())
        else:
            raise AssertionError(what)
        if not self._progress.is_dir():
            new = self._progress.with_name("person.new")
            new.write_bytes(text)
            new.replace(self._progress)

    def _journal(self) -> list[dict[str, Any]]:
        lines = []
        for folder in self._state("journal.jsonl"):
            for line in folder.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    lines.append(json.loads(line))
        return lines

    def _state(self, name: str) -> list[Path]:
        return sorted((self.here / "state").glob(f"ralph/*-*/{name}"))

    def _received(self, method: str) -> list[Any]:
        return [one for one in self.server.received if one.method == method]

    def _notices(self) -> list[dict[str, Any]]:
        posts = self._new("posts", self._received("POST"))
        bodies = [json.loads(one.body) for one in posts if one.body]  # a ralph that is killed may send a half
        script = self.here / "notices"
        texts = script.read_text("utf-8", "replace").split("\0")[:-1] if script.exists() else []
        return [*bodies, *({"script": text} for text in self._new("texts", texts))]

    def _new(self, what: str, grown: Sequence[Any]) -> list[Any]:
        before = self.seen.get(what, 0)
        self.seen[what] = len(grown)
        return list(grown[before:])

    def _running(self) -> list[int]:
        """What carries the mark, and what the agent started and wrote down, however it hides."""
        written = [int(file.read_text() or 0) for file in (self.here / "tmp").glob("*.pid")]
        return [*marked(str(self.here)), *(pid for pid in written if pid and alive(pid))]

    def _left_running(self) -> list[str]:
        deadline = time.monotonic() + _LEAVES_S
        while (left := self._running()) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        names = sorted(_command_line(pid, self.here) for pid in left)
        self.end_all()
        return names

    def end_all(self) -> None:
        """Ends what is left, which is nothing where all went well."""
        for pid in self._running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _terminal(output: IO[bytes], *, wanted: bool) -> Iterator[int]:
    """What a program shall write to, so that it ends up in the file: a terminal where one is wanted."""
    if not wanted:
        yield output.fileno()
        return
    master, slave = os.openpty()

    def copy() -> None:
        with contextlib.suppress(OSError):  # so it ends where nobody has the other side any more
            while data := os.read(master, 65536):
                output.write(data)

    reader = threading.Thread(target=copy, daemon=True)
    reader.start()
    yield slave
    os.close(slave)
    reader.join(5)
    os.close(master)
    output.flush()


def _content(path: Path, here: Path) -> str:
    if path.is_symlink() or not path.exists():
        return f"-> {path.readlink()}" if path.is_symlink() else "missing"
    return facts.plain(path.read_bytes(), here) if path.is_file() else "no file"


def _command_line(pid: int, here: Path) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return facts.plain(words.strip(), here)
    return "gone"


def _launcher(path: Path, folder: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    words = shlex.join([sys.executable, "-I", "-S", str(DEEDS), str(folder)])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def _write(folder: Path, files: Mapping[str, str], filled: Any) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(filled(text).encode("utf-8", "surrogateescape"))
        path.chmod(0o755 if text.startswith("#!") else 0o600 if name == ".ralph.env" else 0o644)


def clear(folder: Path) -> None:
    """Removes the story's folder."""
    shutil.rmtree(folder, ignore_errors=True)
