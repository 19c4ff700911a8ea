"""`ralph attempt`: one attempt at one task, by a ralph of its own in a clone of its own.

Job and result are JSON, and commits travel as git bundles, so an attempt can run on any machine that
has ralph, git and the agent.
"""

import base64
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ralph import files
from ralph.agent.turn import Outcome, Turn
from ralph.errors import RalphError
from ralph.git.repository import Git
from ralph.plan.progress import encode_text
from ralph.process import signals
from ralph.process.programs import MARK, call_program, start_in_fork, wait_or_end_in_front
from ralph.store import journal
from ralph.store.state import State
from ralph.words import format_duration

COMMAND = [sys.executable, "-P", "-m", "ralph", "attempt"]
"""Starts an attempt with this same installation of ralph."""
# The ref of the commit that a bundle is about, since a bundle needs a name; an agent may have moved HEAD.
_BUNDLED = "refs/ralph/bundled"
_SETUP_S = 1800.0
# Ralph holds the first port of each range; the next twenty are the attempt's.
_FIRST_PORT, _LAST_PORT, _PORTS = 20_000, 32_000, 21
# How much of the end of a transcript is passed on: a cluster keeps it all in memory.
_TRANSCRIPT_BYTES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class TaskJob:
    """What an attempt is asked to do. Texts hold arbitrary bytes, as surrogates; bundles are in base64."""

    folder: str
    """The path of the folder that it works in, below those of all clones; some letters are added to it."""
    commit: str
    """The commit that it begins from."""
    source: str
    """The path of the repository, if it is on this machine."""
    source_bundle: str
    """The repository as a bundle; empty if it is on this machine."""
    here: str
    """The folder in which ralph is started, relative to the top of the working tree."""
    files: Mapping[str, tuple[int, str]]
    """Mode and text of what the attempt needs and no commit contains, by path from its folder: `PROGRESS.md`, the
    templates of the user or the project in `prompts`; and in `brought` what goes into the clone: the plan, what
    `--setup-copy` names, git's hooks, its exclude file."""
    config: Sequence[str]
    """git's settings for the clone, which does not get its source's: all but those that say where a repository lies."""
    env: Mapping[str, str]
    words: Sequence[str]
    """The arguments of its ralph: the plan, then others."""
    setup: Sequence[str]
    """A command that prepares the clone; may be empty."""
    keep: bool
    """Whether to keep the clone, so that the user can inspect it."""


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
    """The commit that the attempt made, if it passed; empty if it made none."""
    bundle: str = ""
    """That commit as a git bundle."""
    progress: str = ""
    """The text of its progress file at the end."""
    prompt: str = ""
    """The agent's prompt in the last iteration."""
    transcript: str = ""
    """The file with what the agent printed, on the machine of whoever has this result; may be missing."""

    def to_turn(self) -> Turn:
        """Sums up the iterations of the attempt as one turn."""
        found = journal.parse_all_records(self.records)
        if not found:
            return Turn(outcome=Outcome.FAILED if self.why else Outcome.OK, why=self.why)
        last, total = found[-1], journal.sum_up(found)
        return Turn(
            outcome=Outcome.FAILED if self.why else Outcome[last.ended.upper()],
            why=self.why or ("" if last.success else re.sub(r"^.*?, attempt \d+: ", "", last.message)),
            final_words=last.said,
            handover=last.handover,
            cost_usd=total.cost_usd,
            at_least=total.cost_at_least or bool(self.why),
            tokens={kind: getattr(total, kind) for kind in journal.TOKENS},
            resets_at=int(last.until),
            took_s=total.duration_s,
            model=last.model,
        )


def serve_attempt(ralph: Callable[[], None]) -> None:
    """Does the job that it reads from standard input and prints the AttemptResult; all messages go to stderr.

    After the result, which is a line of JSON, it prints the end of the transcript. `ralph` is the command of
    that name; it is called in a forked process, which need not load it again.
    """
    signals.install_handlers()  # they are passed on to what runs in front; this process has to clean up
    starter = os.getppid()
    with os.fdopen(os.dup(1), "wb") as printed:
        os.dup2(2, 1)
        job = TaskJob(**json.load(sys.stdin))
        place = files.state_home() / "clones" / job.folder
        place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        # a new one, since an earlier attempt may still be ending
        folder = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        with socket.socket() as port_holder:
            try:
                for name in {name for name in os.environ if name.startswith("RALPH_")} - {MARK}:
                    del os.environ[name]
                os.environ |= {
                    **job.env,
                    "RALPH_PORT": str(_reserve_port_range(port_holder)),
                    "RALPH_PROGRESS_FILE": f"{folder}/PROGRESS.md",
                    "RALPH_PROMPTS": f"{folder}/prompts",
                    "XDG_STATE_HOME": f"{folder}/state",
                }
                result = _run_in_clone(job, folder, ralph, lambda: os.getppid() != starter)
            except RalphError as error:
                result = AttemptResult(why=error.message)
        printed.write(json.dumps(asdict(result)).encode() + b"\n")
        printed.write(files.read_or_empty(result.transcript, _TRANSCRIPT_BYTES))
    if not job.keep:
        files.remove_folder(folder)


def _reserve_port_range(holder: socket.socket) -> int:
    """Returns the first of twenty ports that no other attempt on this machine gets while the socket is open.

    Raises RalphError if all ranges are taken.
    """
    for port in range(_FIRST_PORT, _LAST_PORT, _PORTS):
        with suppress(OSError):
            holder.bind(("127.0.0.1", port))
            return port + 1
    raise RalphError(f"all ports from {_FIRST_PORT} to {_LAST_PORT} are taken", 1)


def _run_in_clone(
    job: TaskJob, folder: Path, ralph: Callable[[], None], has_lost_starter: Callable[[], bool]
) -> AttemptResult:
    """Runs ralph in a new clone and returns its result; ends it if the process that started the attempt has died."""
    clone = _make_clone(job, folder)
    os.chdir(clone.root / job.here)
    if job.setup:
        done = call_program(job.setup, timeout_s=_SETUP_S, should_end=has_lost_starter)
        sys.stderr.buffer.write(done.stdout + done.stderr)
        if done.code:
            raise RalphError(f"the setup command exited with {done.code}; it has {format_duration(_SETUP_S)}")
    sys.argv = ["ralph", *job.words]
    code = 130
    with suppress(KeyboardInterrupt):  # the result up to then is reported
        code = wait_or_end_in_front(start_in_fork(ralph), has_lost_starter)
    progress = folder / "PROGRESS.md"
    state = State(files.plan_name(Path(job.words[0])), progress)  # the project's tests may run ralph, too
    found = journal.read(state.journal)
    records = journal.iterations_in(found)
    if not records:
        return AttemptResult(why=f"its ralph exited with {code}")
    last = records[-1]
    transcript = state.folder / "transcripts" / last.transcript
    passed = not code and last.success
    commit = last.head if passed else ""  # else no git runs in the clone: the agent may have tampered with it
    return AttemptResult(
        why=f"its ralph was killed by signal {-code}" if code < 0 else "",
        records=[asdict(one) for one in records],
        tampered="; ".join(one.message for one in found if one.event == "run" and one.ended == "tampered"),
        passed=passed,
        commit=commit,
        bundle=bundle_as_base64(clone, commit, f"^{job.commit}") if commit else "",
        progress=files.read_text_or_empty(progress),
        prompt=files.read_text_or_empty(transcript.with_suffix(".prompt.md")),
        transcript=str(transcript),
    )


def _make_clone(job: TaskJob, folder: Path) -> Git:
    """Makes and returns the clone, which has no remote to push to, with what the job brings into it."""
    brought, clone = folder / "brought", Git(folder / "tree")
    for place in (brought, folder / "prompts"):
        place.mkdir()
    for name, (mode, text) in job.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_text(text))
        path.chmod(mode)
    bundle = folder / "source.bundle"
    bundle.write_bytes(base64.b64decode(job.source_bundle))
    source = str(bundle) if job.source_bundle else job.source
    pinned = ("-c", "protocol.file.allow=always", "-c", "clone.rejectShallow=false")
    plain = ("--quiet", "--no-checkout", "--no-tags", "--origin=origin", f"--template={brought}/.git")
    settings = [f"--config={setting}" for setting in job.config]
    Git(folder).run(*pinned, "clone", *plain, *settings, source, "tree")
    clone.run("remote", "remove", "origin")
    clone.run("checkout", "--quiet", "-B", "ralph-attempt", job.commit)
    shutil.copytree(brought, clone.root, dirs_exist_ok=True)
    return clone


def bundle_as_base64(git: Git, commit: str, *other_revisions: str) -> str:
    """The commit with its history as a git bundle, in base64; `other_revisions` are added, or left out after a ^."""
    git.run("update-ref", _BUNDLED, commit)
    return base64.b64encode(git.run("bundle", "create", "--quiet", "-", _BUNDLED, *other_revisions)).decode()
