"""What people look at: how plans stand, what happened, what it came to, and whether a run would find what it needs."""
