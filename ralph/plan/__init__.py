"""The texts of a plan: progress file, tasks, task lists in JSON, prompts."""
