"""Checks: whether something that a run needs is there, in a line, with the remedy. They change nothing."""

from ralph.checks.agent import agent_found
from ralph.checks.check import Check
from ralph.checks.limits import bounds, verify_found
from ralph.checks.machine import disk
from ralph.checks.repository import clean_tree, git_identity

__all__ = ["Check", "agent_found", "bounds", "clean_tree", "disk", "git_identity", "verify_found"]
