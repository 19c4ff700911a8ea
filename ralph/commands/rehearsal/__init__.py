"""`ralph rehearse`: a real run with a fake agent, in a sample or in a copy of the user's repository."""
