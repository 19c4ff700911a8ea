"""Several tasks at the same time, each in a clone of its own."""
