"""Crew: independent tasks at the same time, each tried by a ralph of its own in a clone of its own."""
