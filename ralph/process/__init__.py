"""The only place that starts, follows, times out and ends programs, and that handles signals."""

from ralph.process import signals
from ralph.process.family import MARK, Family, Patience, be_subreaper, end_left_over, end_own, somebody_runs
from ralph.process.following import Bounds, Care, Ended, Files, How, Listener, Program, follow
from ralph.process.guardian import Guardian
from ralph.process.run import Finished, call, foreground

__all__ = [
    "MARK",
    "Bounds",
    "Care",
    "Ended",
    "Family",
    "Files",
    "Finished",
    "Guardian",
    "How",
    "Listener",
    "Patience",
    "Program",
    "be_subreaper",
    "call",
    "end_left_over",
    "end_own",
    "follow",
    "foreground",
    "signals",
    "somebody_runs",
]
