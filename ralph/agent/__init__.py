"""The agent: its command line, what it prints, and how a turn ended."""
