"""The agent: what command it is, what it prints, and what came of a turn."""
