"""The project's git repository, and git's settings."""
