"""What ralph keeps outside of the working directory: transcripts, displaced files, and notes for the next run.

An agent without a sandbox can forge a note, which is then believed: see docs/internals/known-races.md.
"""

import binascii
import itertools
import json
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph import files

TRANSCRIPTS_BYTES = 200_000_000
"""How much of a plan's finished transcripts is kept, the newest ones."""
# What the names of ralph's own files do not contain.
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)

HeadState = tuple[str, str, list[str]]
"""The state of a repository except its files: the branch, empty if HEAD is on none; the commit, empty before the first;
and the files in git's folder that show an unfinished operation, such as a merge. The index is copied separately."""


class TreeSnapshot(NamedTuple):
    """The state of all files at one moment, beyond the index that was written then."""

    at: float = 0.0
    """When, in seconds since 1970; a file touched earlier and merely no longer ignored does not count as changed."""
    checksum: str = ""
    """The checksum of the index, which nothing writes until the next snapshot is taken."""
    left_alone: Sequence[str] = ()
    """What existed and is not in the index: repositories, and files that cannot be read."""
    modes: Mapping[str, int] = {}
    """The modes of the files, by name, whose mode says more than whether they are executable."""
    hidden_rules: Sequence[str] = ()
    """Each `.gitignore` that hides itself."""


@dataclass
class StateNote:
    """A note: a dataclass, stored as JSON in a file with the name of its class."""


@dataclass
class UnfinishedIteration(StateNote):
    """An iteration that is running, or in which ralph died: a RALPH_DONE that it writes is not believed."""

    run: str
    mode: str
    iteration: int
    transcript_path: str
    """The path of its transcript."""
    progress_path: str
    """The real path of the progress file, with links resolved."""
    vouched_text: str
    """The last text of the progress file that ralph vouches for, from when the iteration began or later."""

    @property
    def transcript(self) -> Path:
        """The path of the file with the agent's output."""
        return Path(self.transcript_path)

    @property
    def last_vouched_text(self) -> bytes:
        """The last text of the progress file that ralph vouches for, as bytes."""
        return os.fsencode(self.vouched_text)


@dataclass
class TreeBefore(StateNote):
    """The state of the working tree when a watched iteration began."""

    transcript_name: str = ""
    """The name of the iteration's transcript."""
    task: str = ""
    is_strict: bool = False
    only: Sequence[Sequence[str]] = ()
    repository_paths: Sequence[str] = ()
    """The paths of the parts of the repository; empty without a repository."""
    head: HeadState | None = None
    """The branch and commit of HEAD, and unfinished operations."""
    compared: Mapping[str, str] = field(default_factory=dict)
    """What is only compared, never put back: its state by path."""
    root: str = ""
    own: Sequence[str] = ()
    protected: Collection[str] = ()
    snapshot: TreeSnapshot = TreeSnapshot()  # noqa: RUF009 - immutable
    is_settled: bool = False
    """Whether the agent has ended, and what it did was put right."""


@dataclass
class TreeAfterDeath(StateNote):
    """The state of the working tree when the last process of a dead run had ended."""

    transcript_name: str
    """The name of the iteration's transcript."""
    changes: Mapping[str, str]
    """What the iteration had changed, each with what git's status says of it."""
    head: Sequence[str]
    """The branch and the commit."""
    index_lines: Mapping[str, str]
    """The lines of git's index, by name."""
    progress: str
    """The text of the progress file."""
    snapshot: TreeSnapshot


@dataclass
class UncommittedFiles(StateNote):
    """The files that attempts at each task changed and no commit has."""

    by_task: dict[str, list[str]] = field(default_factory=dict)
    """The names of the files by task."""


@dataclass
class GitConfigFiles(StateNote):
    """The contents of git's configuration files, by path: when the iteration began, and when all that ran had ended."""

    before: dict[str, str]
    at_end: dict[str, str] = field(default_factory=dict)


@dataclass
class FirstVerifyResult(StateNote):
    """How the verify command ended before anything was built."""

    command: str
    failure: str
    """Why it failed; empty if it passed."""


@dataclass
class OpenedBreaker(StateNote):
    """Why ralph blocked the plan: the name of a `Reason`."""

    reason: str


@dataclass
class AnnouncedConversation(StateNote):
    """A mode that is a conversation, which the user was notified of once."""

    mode: str


@dataclass
class PreviousModeResults(StateNote):
    """What the previous mode left behind, for prompts."""

    lines: Sequence[str]


@dataclass
class FilesBeforeBuild(StateNote):
    """The contents of a task's files as the role before the building one left them."""

    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """The contents by task and path."""


Kind = TypeVar("Kind", bound=StateNote)


class State:
    """The folder `<plan>-<hash of the progress file's path>` under the state home: mode 0700, made on first use."""

    def __init__(self, name: str, progress_path: Path):
        here = Path(os.path.realpath(progress_path.parent)) / progress_path.name  # not where an agent's link leads
        digest = f"{binascii.crc32(os.fsencode(here)):08x}"
        self.folder = files.state_home() / f"{_UNSAFE.sub('_', name)[:40]}-{digest}"
        self.journal = self.folder / "journal.jsonl"
        """The file with the record of what happened."""
        self._rounds = itertools.count()

    def _make_folder(self, name: str) -> Path:
        """The path of that subfolder, made a real one: ralph writes and removes there, wherever a link would lead."""
        folder = self.folder / name
        with files.os_errors_as_ralph_errors(folder, "made", fix="set XDG_STATE_HOME elsewhere"):
            for place in (self.folder, folder):
                if place.is_symlink():
                    place.unlink()
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def pick_transcript_and_write_prompt(self, run: str, iteration: int, prompt: str) -> Path:
        """The path for the output of an iteration; writes its prompt to a file beside that."""
        output = self.new_log_path(run, iteration, ".jsonl")
        path = output.with_suffix(".prompt.md")
        with files.os_errors_as_ralph_errors(path, "written"):
            path.write_bytes(prompt.encode(errors="surrogateescape"))
        return output

    def new_log_path(self, run: str, iteration: int, suffix: str = ".verify.log") -> Path:
        """The path for a command's output: a new one each time, even if an iteration is repeated or verified twice."""
        return self._unused_path("transcripts", f"{run}.{iteration:04d}", suffix)

    def _unused_path(self, folder: str, begins: str, ends: str) -> Path:
        """An unused path in that folder, numbered if needed."""
        place, number = self._make_folder(folder), 1
        path = place / f"{begins}{ends}"
        while os.path.lexists(path):
            number += 1
            path = place / f"{begins}-{number}{ends}"
        return path

    def ensure_room_for_transcripts(self) -> None:
        """Now and then removes the oldest transcripts beyond `TRANSCRIPTS_BYTES`; none of them is being written now.

        Raises RalphError, before money is spent, if the disk is too full to record what the agent says.
        """
        folder = self._make_folder("transcripts")
        spare_bytes = TRANSCRIPTS_BYTES
        there = os.scandir(folder) if next(self._rounds) % 50 == 0 else ()  # 2 ms for 600 of them
        with suppress(OSError):  # an agent may have removed one
            for one in sorted(there, key=lambda one: -one.stat().st_mtime):
                spare_bytes -= one.stat().st_size
                if spare_bytes < 0:
                    Path(one).unlink()
        files.check_folder_writable(folder)

    def keep_copy(self, name: str, data: bytes) -> Path:
        """Stores displaced data that the user may want back, and returns its path; these copies are never removed."""
        path = self.free_kept_path(name)
        with files.os_errors_as_ralph_errors(path, "written"):
            files.replace_file(path, data)
        return path

    def free_kept_path(self, name: str) -> Path:
        """An unused path in `kept/`, named after the current time and `name`."""
        return self._unused_path("kept", time.strftime("%Y%m%d-%H%M%S"), f"-{_UNSAFE.sub('_', name)[-100:]}")

    def edit_lock_path(self) -> Path:
        """The file to lock before editing the progress file."""
        return self._make_folder("running") / "edit.lock"

    def update_vouched_text(self, text: bytes) -> None:
        """Updates the copy of the progress file's text that ralph vouches for, in case ralph dies."""
        if begun := self.unfinished_iteration():
            begun.vouched_text = os.fsdecode(text)
            self.save_note(begun)

    def remove_iteration_note(self) -> None:
        """Notes that the iteration's work was judged."""
        self.remove_note(UnfinishedIteration)

    def unfinished_iteration(self) -> UnfinishedIteration | None:
        """The last iteration, if it was never judged because ralph or the machine died."""
        return self.load_note(UnfinishedIteration)

    def uncommitted_files(self, task_id: str) -> Sequence[str]:
        """The files that attempts at this task changed and that are in no commit."""
        return (self.load_note(UncommittedFiles) or UncommittedFiles()).by_task.get(task_id, ())

    def save_note(self, note: StateNote) -> None:
        """Saves a note for the next run, atomically."""
        path = self._make_folder("running") / type(note).__name__
        new = path.with_suffix(".new")
        with suppress(OSError):
            files.write_own_file_directly(new, json.dumps(vars(note)).encode())
            new.replace(path)

    def remove_note(self, kind: type[StateNote]) -> None:
        """Removes the note of that kind."""
        with suppress(OSError):
            (self._make_folder("running") / kind.__name__).unlink()

    def load_note(self, kind: type[Kind]) -> Kind | None:
        """The note of that kind; None if there is none, or it is incomplete."""
        with suppress(ValueError, TypeError):
            return kind(**json.loads(files.read_or_empty(self.folder / "running" / kind.__name__)))
        return None
