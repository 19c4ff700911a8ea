"""The agent: what command it is, what it prints, and how a turn ended."""
