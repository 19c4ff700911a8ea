"""Acceptance criteria: what one line of text asks for, and whether it is so."""

from ralph.criteria.checking import Around, Met, check, check_each
from ralph.criteria.reading import Criterion, Kind, parse

__all__ = ["Around", "Criterion", "Kind", "Met", "check", "check_each", "parse"]
