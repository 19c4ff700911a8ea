"""The only place that starts, follows, times out and ends programs, and that handles signals."""

from ralph.process import signals
from ralph.process.family import MARK, Family, Patience, be_subreaper, end_own, somebody_runs
from ralph.process.guardian import Guardian
from ralph.process.run import Care, Ended, Files, Finished, How, Listener, call, follow, foreground

__all__ = [
    "MARK",
    "Care",
    "Ended",
    "Family",
    "Files",
    "Finished",
    "Guardian",
    "How",
    "Listener",
    "Patience",
    "be_subreaper",
    "call",
    "end_own",
    "follow",
    "foreground",
    "signals",
    "somebody_runs",
]
