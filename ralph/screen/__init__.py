"""What a person sees while ralph runs: lines that stay, and on a terminal a status line below them."""

from enum import Enum


class Detail(Enum):
    """How much is shown."""

    QUIET = "a line per iteration, wait and run"
    NORMAL = "what the agent says, and a line for each thing that it does"
    VERBOSE = "all that the agent says, does and is told"

    @classmethod
    def of(cls, *, quiet: bool, verbose: bool) -> "Detail":
        """What these two options ask for; the quiet one is stronger."""
        return cls.QUIET if quiet else cls.VERBOSE if verbose else cls.NORMAL
