"""The only place that starts, follows, times out and ends programs, and that handles signals."""

from ralph.process import signals
from ralph.process.keeper import Ended, Job, Keeper
from ralph.process.programs import MARK, Finished, Patience, call, end_own, end_strays, foreground, somebody_runs

__all__ = [
    "MARK",
    "Ended",
    "Finished",
    "Job",
    "Keeper",
    "Patience",
    "call",
    "end_own",
    "end_strays",
    "foreground",
    "signals",
    "somebody_runs",
]
