"""Channels, and how notices reach them."""
