"""`ralph attempt`: one attempt at one task, by a ralph of its own in a clone of its own.

Job and result are JSON, and commits travel as git bundles, so an attempt can run on any machine that
has ralph, git and the agent.
"""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import re
import select
import shlex
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from ralph import files
from ralph.errors import RalphError
from ralph.git.repository import Git, text_of
from ralph.plan.progress import encode_text
from ralph.process import signals
from ralph.process.programs import MARK, call_in_front, call_program
from ralph.store import journal
from ralph.store.state import path_digest
from ralph.words import format_duration

NAME = "RALPH_ATTEMPT"
"""Environment variable of the ralph within an attempt, which sends no notices: its coordinator does."""
RALPH = (sys.executable, "-P", "-m", "ralph")
"""The command that starts this same installation of ralph."""
_PASSED = "refs/ralph/passed"
"""In a clone, the ref of its ralph's commit: a bundle needs a name, and the agent may have moved HEAD."""
_SETUP_S = 1800.0
_WORKER = 3
"""The descriptor of the pipe from the worker that started the attempt."""
_FIRST_PORT, _LAST_PORT, _PORTS = 20_000, 32_000, 21
"""Ralph holds the first port of each range; the next twenty are the attempt's."""


@dataclass(frozen=True, kw_only=True)
class TaskJob:
    """What an attempt is asked to do. Texts hold arbitrary bytes, as surrogates; bundles are in base64."""

    name: str
    """The name of the folder that holds its clone."""
    task: str
    commit: str
    """The commit that it begins from."""
    source: str = ""
    """The path of the repository on this machine; empty if `bundle` brings the repository."""
    bundle: str = ""
    shallow: str = ""
    """Where the history of a shallow repository ends (git's `shallow` file), if `bundle` brings it."""
    here: str
    """The folder in which ralph is started, relative to the top of the working tree."""
    files: Mapping[str, tuple[int, str]]
    """Mode and text of the files that the clone needs and no commit contains, by path from the top of the working tree:
    the plan, what `--setup-copy` names, git's hooks, its exclude file."""
    templates: Mapping[str, str]
    """The templates of the user or the project, by name."""
    progress: str
    """The text of the progress file."""
    config: Sequence[tuple[str, str]]
    """git's settings for the clone, which does not get its source's: all but those that say where a repository lies."""
    env: Mapping[str, str]
    words: Sequence[str]
    """The arguments of its ralph."""
    agent_words: Sequence[str] = ()
    """Further arguments, for its agent."""
    setup: str = ""
    """A shell command that prepares the clone."""
    applies: str = ""
    """The bundle of an attempt that began from another commit: its commit replaces an agent's work here."""
    keep: bool = False
    """Whether to keep the clone, so that the user can inspect it."""
    transcript_bytes: int | None = None
    """How many bytes from the end of the transcript to return; None for all."""
    ends_with_worker: bool = False
    """Whether file descriptor 3 is a pipe that closes when the worker that started the attempt dies."""


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """The result of a job."""

    why: str = ""
    """What kept the attempt from beginning, or from ending by itself."""
    records: Sequence[Mapping[str, Any]] = ()
    """Its iterations, as in the journal."""
    tampered: str = ""
    """Why its ralph stopped, if the agent changed what it must not: nothing more may be done automatically."""
    passed: bool = False
    """Whether its ralph ticked the task and ended well, whatever else its files say."""
    commit: str = ""
    """The commit that the attempt made; empty if it made none."""
    bundle: str = ""
    """That commit as a git bundle."""
    progress: str = ""
    """The text of its progress file at the end."""
    prompt: str = ""
    """The agent's prompt in the last iteration."""
    transcript: str = ""
    """What the agent printed, if it ran on a cluster."""
    transcript_file: str = ""
    """Otherwise, the file on the coordinator's machine with what the agent printed."""


def run_attempt(ralph: Callable[[], None]) -> int:
    """Does the job that it reads from standard input and prints the AttemptResult; all messages go to stderr.

    `ralph` is the command of that name; it is called in a forked process, which need not load it again.
    """
    signals.install_handlers()  # they are passed on to what runs in front; this process has to clean up
    out = os.dup(1)
    os.dup2(2, 1)
    job = TaskJob(**json.load(sys.stdin))
    if job.ends_with_worker:
        os.set_inheritable(_WORKER, False)
    with os.fdopen(out, "wb") as file:
        try:
            run_job(job, file, ralph)
        except RalphError as error:
            _write_result(file, AttemptResult(why=error.message))
    return 0


def _has_lost_worker(job: TaskJob) -> bool:
    """Whether the worker that started the attempt has died: nothing is ever written into its pipe."""
    return job.ends_with_worker and bool(select.select([_WORKER], [], [], 0)[0])


def _write_result(
    out: IO[bytes], result: AttemptResult, transcript: Path | None = None, most: int | None = None
) -> None:
    """Writes the result as a line of JSON, then the transcript, which may be large: at most its last `most` bytes."""
    out.write(json.dumps(asdict(result)).encode() + b"\n")
    if transcript:
        with contextlib.suppress(FileNotFoundError), transcript.open("rb") as file:
            file.seek(max(0, transcript.stat().st_size - most) if most else 0)
            shutil.copyfileobj(file, out)


def run_job(job: TaskJob, out: IO[bytes], ralph: Callable[[], None]) -> None:
    """Does the job and writes its result. Raises RalphError if the attempt could not begin."""
    folder = _take_folder(job.name)
    with socket.socket() as port_holder:
        env = {name: value for name, value in os.environ.items() if name == MARK or not name.startswith("RALPH_")}
        env |= {**job.env, NAME: job.name, "RALPH_PORT": str(_reserve_port_range(port_holder))}
        env["XDG_STATE_HOME"] = str(folder / "state")
        try:
            _write_result(out, *_run_in_clone(job, folder, env, ralph), job.transcript_bytes)
        finally:
            if not job.keep:
                files.remove_folder(folder)


def _take_folder(name: str) -> Path:
    """Returns an empty folder that nobody else works in: an earlier attempt, whose worker died, may still be ending.

    This process, and those that inherit the descriptor, hold a lock on the folder.
    """
    for number in itertools.count(1):
        folder = files.state_home() / "clones" / (name if number == 1 else f"{name}+{number}")
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        os.close(held)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)  # the earlier attempt may have removed it as it ended
    os.set_inheritable(held, True)
    for path in folder.iterdir():
        files.remove_folder(path)
    return folder


def _run_in_clone(
    job: TaskJob, folder: Path, env: Mapping[str, str], ralph: Callable[[], None]
) -> tuple[AttemptResult, Path | None]:
    """Runs ralph in a new clone; returns its result and the path of the transcript, if there is one."""
    loading = threading.Thread(target=import_module, args=("ralph.loop.session",))  # 60 ms, while git works
    loading.start()
    clone = _make_clone(job, folder)
    loading.join()
    progress = folder / "PROGRESS.md"
    here = clone.root / job.here
    _write_files(clone.root, job.files)
    _write_files(folder / "prompts", {name: (0o600, text) for name, text in job.templates.items()})
    if job.setup:
        setup = [*shlex.split(env.get("RALPH_WRAP", "")), "sh", "-c", job.setup]
        done = call_program(setup, timeout_s=_SETUP_S, env=env, cwd=here, should_end=partial(_has_lost_worker, job))
        sys.stderr.buffer.write(done.stdout + done.stderr)
        if done.code:
            raise RalphError(f"the setup command exited with {done.code}; it has {format_duration(_SETUP_S)}")
    progress.write_bytes(encode_text(job.progress))
    words = [*job.words, "--progress-file", str(progress)]
    if job.templates:
        words += ["--prompts", str(folder / "prompts")]
    if job.applies:
        stands_in = shlex.quote(str(_write_applying_agent(job, folder, clone)))
        words += ["--agent-for", f"build={stands_in}", "--evidence", "off"]
    else:
        words += ["--", *job.agent_words] if job.agent_words else []
    code = 130
    with contextlib.suppress(KeyboardInterrupt):  # the result up to then is reported
        code = call_in_front(partial(_run_ralph, ralph, words, env, here), should_end=partial(_has_lost_worker, job))
    own = f"state/ralph/*-{path_digest(progress)}/journal.jsonl"  # the project's tests may run ralph, too
    lines = next(folder.glob(own), folder / "none")
    found = journal.read(lines)
    records = journal.iterations_in(found)
    if not records:
        return AttemptResult(why=f"its ralph exited with {code}"), None
    transcript = lines.parent / "transcripts" / records[-1].transcript
    result = AttemptResult(
        records=[asdict(one) for one in records],
        progress=text_of(progress),
        prompt=text_of(transcript.with_suffix(".prompt.md")),
        tampered="; ".join(one.message for one in found if one.event == "run" and one.ended == "tampered"),
    )
    if code < 0:
        return replace(result, why=f"its ralph was killed by signal {-code}"), transcript
    if code or not records[-1].success:
        return result, transcript  # no git runs in the clone: the agent may have tampered with it
    result = replace(result, passed=True, commit=records[-1].head)
    if result.commit:
        clone.run("update-ref", _PASSED, result.commit)
        result = replace(result, bundle=pack_bundle(clone, f"{job.commit}..{_PASSED}"))
    return result, transcript


def _run_ralph(ralph: Callable[[], None], words: Sequence[str], env: Mapping[str, str], here: Path) -> None:
    """Turns this process into the clone's ralph: sets its environment, folder and arguments, then calls `ralph`."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(here)
    sys.argv = ["ralph", *words]
    ralph()


_APPLIES = """\
#!/bin/sh
signal=$(grep -o '<task-done [^<>]*>[^<>]*</task-done>' | tail -n 1)
git -c core.hooksPath=/dev/null cherry-pick --no-commit COMMIT >&2 || { git reset --hard --quiet; exit 1; }
cat "$0.words"
printf '\\n\\n%s\\n' "$signal"
"""
"""Replaces the agent: its result passes the same gates as any work, and the project's hooks run at the commit."""


def _write_applying_agent(job: TaskJob, folder: Path, clone: Git) -> Path:
    """Writes an agent program that applies the job's commit and prints its message; returns the path."""
    commit = clone.run("bundle", "unbundle", "/dev/stdin", stdin=base64.b64decode(job.applies)).decode().split()[0]
    message = os.fsdecode(clone.run("show", "-s", "--format=%B", commit))
    words = re.sub(rf"(?m)^Ralph-(?:Task|Role): .*\n?|\A.*?\b{re.escape(job.task)}: ", "", message)  # hooks prefix it
    agent = folder / "claude"  # named so that no setting of claude's is refused
    agent.write_text(_APPLIES.replace("COMMIT", commit))
    agent.chmod(0o700)
    agent.with_suffix(".words").write_bytes(encode_text(words.strip()))
    return agent


def _make_clone(job: TaskJob, folder: Path) -> Git:
    """Makes and returns the clone, which has no remote to push to."""
    outer, clone = Git(folder, os.environ), Git(folder / "tree", os.environ)
    if job.bundle:
        outer.run("init", "--quiet", "--template=", "tree")
        if job.shallow:
            (clone.root / ".git" / "shallow").write_text(job.shallow)
        clone.run("bundle", "unbundle", "/dev/stdin", stdin=base64.b64decode(job.bundle))
    else:
        pinned = ("-c", "protocol.file.allow=always", "-c", "clone.rejectShallow=false")
        plain = ("--quiet", "--no-checkout", "--no-tags", "--template=", "--origin=origin")
        outer.run(*pinned, "clone", *plain, job.source, "tree")
        clone.run("remote", "remove", "origin")
    with (clone.root / ".git" / "config").open("a", encoding="utf-8", errors="surrogateescape") as config:
        config.writelines(_config_entry(key, value) for key, value in job.config)
    _write_files(clone.root, {name: one for name, one in job.files.items() if name.startswith(".git/")})
    clone.run("checkout", "--quiet", "-B", "ralph-attempt", job.commit)
    return clone


def _config_entry(key: str, value: str) -> str:
    """One setting in the format of git's configuration files."""
    section, _, rest = key.partition(".")
    within, _, name = rest.rpartition(".")
    marked = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    quoted = within.replace("\\", "\\\\").replace('"', '\\"')
    inner = f' "{quoted}"' if quoted else ""
    return f'[{section}{inner}]\n\t{name} = "{marked}"\n'


def _write_files(top: Path, found: Mapping[str, tuple[int, str]]) -> None:
    for name, (mode, text) in found.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_text(text))
        path.chmod(mode)


def _reserve_port_range(holder: socket.socket) -> int:
    """Returns the first of twenty ports that no other attempt on this machine gets while the socket is open.

    Raises RalphError if all ranges are taken.
    """
    for port in range(_FIRST_PORT, _LAST_PORT, _PORTS):
        with contextlib.suppress(OSError):
            holder.bind(("127.0.0.1", port))
            return port + 1
    raise RalphError(f"all ports from {_FIRST_PORT} to {_LAST_PORT} are taken", 1)


def pack_bundle(git: Git, *commits: str) -> str:
    """These commits as a git bundle, in base64."""
    return base64.b64encode(git.run("bundle", "create", "--quiet", "-", *commits)).decode()
