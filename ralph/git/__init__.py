"""What git says of the project, and the settings that it works by."""
