"""What a run knows, decides and says."""
