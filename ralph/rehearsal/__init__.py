"""Rehearsals: ralph for real with an agent that costs nothing, on a sample or on a copy of one's own repository."""
