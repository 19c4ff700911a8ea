"""Strict: the agent proposes, ralph disposes. And the guard over the working tree, which `--only` has as well."""
