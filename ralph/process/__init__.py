"""The only place that starts, follows, times out and ends programs, and that handles signals."""
