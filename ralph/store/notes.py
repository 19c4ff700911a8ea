"""What a run leaves for the next one in the state folder: a dataclass for each note, kept by `State.save_note`.

An agent can forge a note, which is then believed; but nothing in one is ever run.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

Place = tuple[str, str, list[str]]
"""Where everything in a repository was but the files: the branch, empty where HEAD is on none, the commit, empty before
the first, and which files tell of something unfinished. Of the index there is a copy."""


class Snapshot(NamedTuple):
    """How all files were at a moment, beside the index that was written then."""

    at: float = 0.0
    """When; a file that is no longer ignored, and was touched before, is nobody's change."""
    checksum: str = ""
    """Of the index; nothing writes it until the next snapshot is taken."""
    left_alone: Sequence[str] = ()
    """What was there and is not in the index: repositories, and files that cannot be read."""
    modes: Mapping[str, int] = {}
    """Of files whose mode says more than whether they are programs."""


@dataclass(kw_only=True)
class Note:
    """A note as JSON."""

    file_name: ClassVar[str]

    def encode(self) -> str:
        """The text of the note."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """The note with this text. Raises ValueError or TypeError where it is not whole."""
        return cls(**json.loads(text))


@dataclass(kw_only=True)
class UnjudgedIteration(Note):
    """An iteration runs, or ralph died in it: a RALPH_DONE that it writes is not believed."""

    file_name: ClassVar = "iteration"
    run: str
    mode: str
    iteration: int
    record: str
    """Where its transcript is."""
    progress_path: str
    """Where the progress file really was."""
    text: str
    """What that said by ralph's own word, when the iteration began or since then."""

    @property
    def transcript(self) -> Path:
        """What the agent printed."""
        return Path(self.record)

    @property
    def own_progress_text(self) -> bytes:
        """The progress file by ralph's own word."""
        return self.text.encode(errors="surrogateescape")


@dataclass(kw_only=True)
class TreeBefore(Note):
    """How all was when an iteration began that is watched."""

    file_name: ClassVar = "guard"
    record: str = ""
    """The name of the iteration's transcript."""
    task: str = ""
    is_strict: bool = False
    only: Sequence[Sequence[str]] = ()
    places: Sequence[str] = ()
    """Where the parts of the repository lie; empty without one."""
    place: Place | None = None
    """Where HEAD was."""
    compared: Mapping[str, str] = field(default_factory=dict)
    """What is only compared, as it was."""
    root: str = ""
    folder: str = ""
    """The shadow's."""
    own: Sequence[str] = ()
    protected: Collection[str] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)
    is_settled: bool = False
    """The agent has ended, and what it did was put right."""

    def __post_init__(self) -> None:
        self.snapshot = Snapshot(*self.snapshot)


@dataclass(kw_only=True)
class TreeAtEnd(Note):
    """How all was when the last process of a dead run had ended."""

    file_name: ClassVar = "last-look"
    record: str
    """The name of the iteration's transcript."""
    changes: Mapping[str, bool]
    """What the iteration had changed, each with whether it was there before."""
    head: Sequence[str]
    """The branch and the commit."""
    progress: str
    """What the progress file said."""
    snapshot: Snapshot

    def __post_init__(self) -> None:
        self.snapshot = Snapshot(*self.snapshot)


@dataclass(kw_only=True)
class UncommittedFiles(Note):
    """What the attempts of each task changed and no commit has."""

    file_name: ClassVar = "uncommitted"
    names: dict[str, list[str]] = field(default_factory=dict)
    """By task."""


@dataclass(kw_only=True)
class MergedTask(Note):
    """A commit is being merged for a task that is not ticked yet."""

    file_name: ClassVar = "merging"
    task: str
    commit: str


@dataclass(kw_only=True)
class GitSettings(Note):
    """What git's configuration files said, by path: when the iteration began, and once all had ended."""

    file_name: ClassVar = "git"
    before: dict[str, str]
    at_end: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class StartResult(Note):
    """How the verify command ended before anything was built."""

    file_name: ClassVar = "verify"
    command: str
    failure: str
    """Empty where it was green."""


@dataclass(kw_only=True)
class BlockReason(Note):
    """Why ralph blocked the plan: the name of a `Reason`."""

    file_name: ClassVar = "breaker"
    reason: str


@dataclass(kw_only=True)
class AnnouncedConversation(Note):
    """A mode that talks with the user, who was asked once."""

    file_name: ClassVar = "conversation"
    mode: str


@dataclass(kw_only=True)
class ModeChange(Note):
    """What the mode before has left, for prompts."""

    file_name: ClassVar = "left"
    lines: Sequence[str]


@dataclass(kw_only=True)
class ReviewedFiles(Note):
    """What is in the files of a task as the role before the one that builds has left them."""

    file_name: ClassVar = "reviewed"
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """By task and path."""
