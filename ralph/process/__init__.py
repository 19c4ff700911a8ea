"""The only place that starts, follows, times out and ends programs, and that handles signals."""

from ralph.process import signals
from ralph.process.keeper import Ended, Job, Keeper
from ralph.process.programs import Finished, call, end_own, foreground
from ralph.process.tree import MARK, Patience, end_strays, somebody_runs

# fmt: off
__all__ = [
    "MARK", "Ended", "Finished", "Job", "Keeper", "Patience", "call", "end_own", "end_strays", "foreground", "signals",
    "somebody_runs",
]
