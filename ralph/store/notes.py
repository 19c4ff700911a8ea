"""What a run leaves for the next one in the state folder: a dataclass for each note, stored by `State.save_note`.

An agent can forge a note, which is then believed; but nothing in one is ever run.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

Place = tuple[str, str, list[str]]
"""The state of a repository except its files: the branch, empty if HEAD is on none; the commit, empty before the first;
and the files in git's folder that show an unfinished operation, such as a merge. The index is copied separately."""


class Snapshot(NamedTuple):
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
class Note:
    """A note: a dataclass, stored as JSON in a file with the name of its class."""


@dataclass
class UnjudgedIteration(Note):
    """An iteration that is running, or in which ralph died: a RALPH_DONE that it writes is not believed."""

    run: str
    mode: str
    iteration: int
    record: str
    """The path of its transcript."""
    progress_path: str
    """The real path of the progress file, with links resolved."""
    text: str
    """The last text of the progress file that ralph vouches for, from when the iteration began or later."""

    @property
    def transcript(self) -> Path:
        """The path of the file with the agent's output."""
        return Path(self.record)

    @property
    def vouched_progress_text(self) -> bytes:
        """The last text of the progress file that ralph vouches for, as bytes."""
        return os.fsencode(self.text)


@dataclass
class TreeBefore(Note):
    """The state of the working tree when a watched iteration began."""

    record: str = ""
    """The name of the iteration's transcript."""
    task: str = ""
    is_strict: bool = False
    only: Sequence[Sequence[str]] = ()
    repository_paths: Sequence[str] = ()
    """The paths of the parts of the repository; empty without a repository."""
    head: Place | None = None
    """The branch and commit of HEAD, and unfinished operations."""
    compared: Mapping[str, str] = field(default_factory=dict)
    """What is only compared, never put back: its state by path."""
    root: str = ""
    own: Sequence[str] = ()
    protected: Collection[str] = ()
    snapshot: Snapshot = Snapshot()  # noqa: RUF009 - immutable
    is_settled: bool = False
    """Whether the agent has ended, and what it did was put right."""


@dataclass
class TreeAfterDeath(Note):
    """The state of the working tree when the last process of a dead run had ended."""

    record: str
    """The name of the iteration's transcript."""
    changes: Mapping[str, str]
    """What the iteration had changed, each with what git's status says of it."""
    head: Sequence[str]
    """The branch and the commit."""
    staged: int
    """The checksum of what was staged."""
    progress: str
    """The text of the progress file."""
    snapshot: Snapshot


@dataclass
class UncommittedFiles(Note):
    """The files that attempts at each task changed and no commit has."""

    names: dict[str, list[str]] = field(default_factory=dict)
    """The names of the files by task."""


@dataclass
class GitConfigFiles(Note):
    """The contents of git's configuration files, by path: when the iteration began, and when all that ran had ended."""

    before: dict[str, str]
    at_end: dict[str, str] = field(default_factory=dict)


@dataclass
class StartResult(Note):
    """How the verify command ended before anything was built."""

    command: str
    failure: str
    """Why it failed; empty if it passed."""


@dataclass
class BlockReason(Note):
    """Why ralph blocked the plan: the name of a `Reason`."""

    reason: str


@dataclass
class AnnouncedConversation(Note):
    """A mode that is a conversation, which the user was notified of once."""

    mode: str


@dataclass
class PreviousModeResults(Note):
    """What the previous mode left behind, for prompts."""

    lines: Sequence[str]


@dataclass
class ReviewedFiles(Note):
    """The contents of a task's files as the role before the building one left them."""

    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """The contents by task and path."""
