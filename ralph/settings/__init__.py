"""Settings: the table, and where their values come from."""
