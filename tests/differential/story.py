"""What happens in one comparison, drawn once and played by both: all of it plain values that can be printed."""

import json
from dataclasses import dataclass, field
from typing import Any

Deed = list[str]
"""What the person at the machine does: ["signal", "INT"], ["let", name], ["append", text], ["shell", command]."""


LEFT_BY_CHECKS = "sleep 677"
"""What a check of a story may leave running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One `ralph WORDS`."""

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    before: tuple[Deed, ...] = ()
    """What a person does before it."""
    terminal: bool = False
    """Whether its standard output is a terminal, as when somebody is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A project, an agent, and what a person does."""

    seed: int
    kind: str
    """`plain`, or what puts files back: `strict`, `only`."""
    repository: bool
    files: dict[str, str]
    """Below the project, committed. Texts are UTF-8 with surrogates for other bytes."""
    uncommitted: dict[str, str]
    """The same, written after the commit."""
    home: dict[str, str]
    """Below $HOME."""
    environment: dict[str, str]
    progress: str
    """The progress file's name, for the agent and the person."""
    steps: tuple[dict[str, Any], ...]
    """What the agent does, call by call; then the last one again."""
    at: dict[str, tuple[Deed, ...]]
    """What a person does when a mark is reached."""
    at_waits: tuple[tuple[Deed, ...], ...]
    """The same at each long wait; after the last of them Ctrl+C."""
    starts: tuple[Start, ...]
    takeover: bool
    """Whether the new one takes over what the old one's first start left, instead of doing all by itself."""

    @property
    def contained(self) -> bool:
        """Whether it may only be played where the machine is read-only."""
        return self.kind != "plain"

    def __str__(self) -> str:
        lines = [f"story {self.seed}: {self.kind}{', taken over' if self.takeover else ''}"]
        texts = {"": self.files, " (not committed)": self.uncommitted, " (in the home)": self.home}
        for about, files in texts.items():
            for name, text in files.items():
                lines += [f"--- {name}{about}", *(f"    {line}" for line in _shown(text).splitlines())]
        lines += [f"environment: {self.environment}"] if self.environment else []
        for number, step in enumerate(self.steps, 1):
            lines.append(f"agent {number}: exits with {step['exit_code']}")
            lines += [f"    {json.dumps(act, ensure_ascii=False)[:300]}" for act in step["acts"]]
        lines += [f"at {mark}: {list(deeds)}" for mark, deeds in self.at.items()]
        lines += [f"at wait {number}: {list(deeds)}" for number, deeds in enumerate(self.at_waits, 1)]
        for start in self.starts:
            lines += [f"$ {deed}" for deed in start.before]
            lines += ["(in a terminal)"] if start.terminal else []
            lines.append(f"$ {' '.join([*(f'{k}={v}' for k, v in start.environment.items()), 'ralph', *start.words])}")
        return _shown("\n".join(lines))

    def agents_story(self) -> str:
        """For the fake agent."""
        return json.dumps({"steps": self.steps, "progress": self.progress, "repeat": True})


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\r", "\\r")
