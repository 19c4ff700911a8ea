"""An attempt: one try of one task by a ralph of its own, in a clone of its own. `ralph attempt`.

Job and result are JSON, and commits travel as git bundles, so it can run on any machine that has
ralph, git and the agent.
"""

import base64
import contextlib
import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ralph import changes, files, journal
from ralph.errors import RalphError
from ralph.process import signals
from ralph.process.programs import call, foreground
from ralph.words import duration

NAME = "RALPH_ATTEMPT"
"""In the environment of the ralph within an attempt, which sends no notices: its coordinator does."""
RALPH = (sys.executable, "-P", "-m", "ralph")
"""Starts the ralph that this one is."""
_GIT_S = 600.0
_SETUP_S = 1800.0
_FIRST_PORT, _LAST_PORT, _PORTS = 20_000, 32_000, 21
"""Of each range ralph holds the first, and the twenty behind it are the attempt's."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What an attempt shall do. Texts hold any bytes, as surrogates; bundles are in base64."""

    name: str
    """Of the folder of its clone."""
    task: str
    commit: str
    """Where it begins."""
    source: str = ""
    """The repository on this machine, or nothing where `bundle` brings it."""
    bundle: str = ""
    here: str
    """The folder in which ralph is started, from the top of the working tree."""
    files: Mapping[str, str]
    """Files that the clone needs and no commit has, by path from the top: the plan, and what `--setup-copy` names."""
    progress: str
    """What the progress file says."""
    env: Mapping[str, str]
    words: Sequence[str]
    """What its ralph is asked."""
    setup: str = ""
    """A shell command that makes the clone ready."""
    applies: str = ""
    """The bundle of an attempt that began elsewhere: its commit is applied here, in place of an agent's work."""
    keep: bool = False
    """The clone stays, for looking."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What came of a job."""

    why: str = ""
    """What kept it from beginning."""
    records: Sequence[Mapping[str, Any]] = ()
    """Its iterations, as the journal has them."""
    commit: str = ""
    """The commit that it made."""
    bundle: str = ""
    """The same as a git bundle."""
    progress: str = ""
    """What its progress file says in the end."""
    prompt: str = ""
    """What the agent was told in the last one."""
    transcript: str = ""
    """What it printed."""


def attempt() -> int:
    """Does the job that stands on the standard input, and prints the Attempt; all that it says goes to stderr."""
    signals.install()  # what runs in front hears them; this one has to clean up
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        done = run_job(Job(**json.load(sys.stdin)))
    except RalphError as error:
        done = Attempt(why=error.message)
    with os.fdopen(out, "w") as file:
        json.dump(asdict(done), file)
    return 0


def run_job(job: Job) -> Attempt:
    """What came of the job. Raises RalphError where it could not begin."""
    folder = files.state_home() / "crew" / job.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    with socket.socket() as held:
        env = {name: value for name, value in os.environ.items() if not name.startswith("RALPH_")}
        env |= {**job.env, NAME: job.name, "RALPH_PORT": str(_hold_ports(held))}
        env["XDG_STATE_HOME"] = str(folder / "state")
        try:
            return _run_in_clone(job, folder, env)
        finally:
            if not job.keep:
                shutil.rmtree(folder, ignore_errors=True)


def _run_in_clone(job: Job, folder: Path, env: Mapping[str, str]) -> Attempt:
    tree = folder / "tree"
    applied = _clone(job, folder, tree)
    for name, text in job.files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(as_bytes(text))
    setup = [*shlex.split(env.get("RALPH_WRAP", "")), "sh", "-c", job.setup]
    if job.setup:
        done = call(setup, timeout_s=_SETUP_S, env=env, cwd=str(tree / job.here))
        sys.stderr.buffer.write(done.stdout + done.stderr)
        if done.code:
            how = f"had not ended after {duration(_SETUP_S)}" if done.timed_out else f"exited with {done.code}"
            raise RalphError(f"the setup command {how}")
    progress = folder / "PROGRESS.md"
    progress.write_bytes(as_bytes(job.progress))
    words = [*job.words, "--progress-file", str(progress)]
    if applied:
        stands_in = folder / "claude"  # of that name, so that no setting of claude's is refused
        stands_in.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m ralph.crew.landing {applied}\n")
        stands_in.chmod(0o700)
        words += ["--agent", shlex.quote(str(stands_in))]
        words += ["--roles", "build"] if "RALPH_ROLES" in env else []
    code = foreground([*RALPH, *words], env=env, cwd=str(tree / job.here))
    journals = folder.glob("state/ralph/*/journal.jsonl")
    iterations = [one for path in journals for one in journal.rows(journal.read(path))]
    made = git("rev-parse", "HEAD", cwd=tree).decode().strip()
    last = iterations[-1].transcript if iterations else ""
    said = [path for path in folder.glob("state/ralph/*/transcripts/*") if path.name == last]
    return Attempt(
        why="" if iterations else f"its ralph exited with {code}",
        records=[asdict(one) for one in iterations],
        commit="" if made == job.commit else made,
        bundle="" if made == job.commit else bundle(f"{job.commit}..HEAD", tree),
        progress=as_text(progress.read_bytes()),
        prompt=as_text(b"".join(files.held(path.with_suffix(".prompt.md")) for path in said)),
        transcript=as_text(b"".join(map(files.held, said))),
    )


def _clone(job: Job, folder: Path, tree: Path) -> str:
    """Makes the clone, which cannot push anywhere; the commit that is to be applied in it."""
    source = Path(job.source)
    if job.bundle:
        source = folder / "source.bundle"
        source.write_bytes(base64.b64decode(job.bundle))
    git("clone", "--quiet", "--no-checkout", "--no-tags", str(source), str(tree), cwd=folder)
    git("remote", "remove", "origin", cwd=tree)
    git("checkout", "--quiet", "-B", "ralph", job.commit, cwd=tree)
    if not job.applies:
        return ""
    more = folder / "applies.bundle"
    more.write_bytes(base64.b64decode(job.applies))
    git("fetch", "--quiet", str(more), "HEAD", cwd=tree)
    return git("rev-parse", "FETCH_HEAD", cwd=tree).decode().strip()


def _hold_ports(held: socket.socket) -> int:
    """The first of some ports that no other attempt on this machine is given, for as long as the socket is open."""
    for port in range(_FIRST_PORT, _LAST_PORT, _PORTS):
        with contextlib.suppress(OSError):
            held.bind(("127.0.0.1", port))
            return port + 1
    raise RalphError(f"all ports from {_FIRST_PORT} to {_LAST_PORT} are taken", 1)


def git(*arguments: str, cwd: Path, stdin: bytes = b"") -> bytes:
    """What git prints. Raises RalphError when it fails."""
    done = changes.git(*arguments, cwd=cwd, stdin=stdin, timeout_s=_GIT_S)
    if done.code:
        raise RalphError(f"git {arguments[0]} fails in {cwd}: {changes.complaint(done)}", 1)
    return done.stdout


def bundle(commits: str, tree: Path, *more: str) -> str:
    """These commits as a git bundle, in base64."""
    return base64.b64encode(git("bundle", "create", "--quiet", "-", commits, *more, cwd=tree)).decode()


def as_text(data: bytes) -> str:
    """Any bytes as a text that JSON can hold."""
    return data.decode(errors="surrogateescape")


def as_bytes(text: str) -> bytes:
    """The bytes again."""
    return text.encode(errors="surrogateescape")
