"""A loop around a coding agent that can be left alone for the night."""

__version__ = "2.0.0"
