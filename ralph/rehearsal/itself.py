"""ralph as a program: how this very one starts another."""

import site
import sys
from pathlib import Path

import ralph


def program(module: str) -> list[str]:
    """The command that runs `main` of this module as it lies here, whatever folder it starts in; add its arguments.

    Not by PYTHONPATH: what is started from there would get it too, and find other modules than it does without.
    """
    package = Path(ralph.__file__).resolve().parents[1]
    installed = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    found = "" if package in installed else f"sys.path.insert(0, {str(package)!r}); "
    return [sys.executable, "-P", "-c", f"import sys; {found}from {module} import main; sys.exit(main())"]
