"""The loop, its modes, and the beginning and end of a session."""
