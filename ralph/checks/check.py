"""What a check says."""

from dataclasses import dataclass

from ralph.errors import RalphError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    said: str
    """What was found, in one line, without a secret."""
    remedy: str = ""
    """What to do when it is not ok."""
    obstacle: bool = True
    """Whether it needs mending before a run while it is not ok; else it deserves a word."""

    @property
    def level(self) -> str:
        """`ok`, `warning` or `bad`."""
        return "ok" if self.ok else "bad" if self.obstacle else "warning"


def of_error(name: str, error: RalphError) -> list[Check]:
    """A check for each thing that is wrong."""
    return [Check(name=name, ok=False, said=one.what, remedy=one.fix) for one in error.problems]
