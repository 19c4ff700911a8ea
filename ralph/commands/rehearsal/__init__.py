"""`ralph rehearse`: ralph for real with an agent that costs nothing, in a sample or a copy of one's own repository."""
