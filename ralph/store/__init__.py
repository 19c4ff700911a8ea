"""What ralph keeps outside of the project: the state folder and the journal."""
