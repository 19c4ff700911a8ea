"""Prints the lower bounds of ralph's own dependencies as constraints for pip."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
print("\n".join(needed.replace(">=", "==") for needed in project["dependencies"]))
