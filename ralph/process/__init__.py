"""The only place that starts, follows, times out and ends programs, and that handles signals."""

from ralph.process import signals
from ralph.process.ending import Patience, end_strays
from ralph.process.follow import Ended, How, follow
from ralph.process.keeper import Files, Job, Keeper, Left
from ralph.process.programs import Finished, call, end_own, foreground
from ralph.process.table import MARK, somebody_runs

__all__ = [
    "MARK",
    "Ended",
    "Files",
    "Finished",
    "How",
    "Job",
    "Keeper",
    "Left",
    "Patience",
    "call",
    "end_own",
    "end_strays",
    "follow",
    "foreground",
    "signals",
    "somebody_runs",
]
