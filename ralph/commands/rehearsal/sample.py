"""The sample for a rehearsal without a plan: a small project, its plan, and the work for each task."""

from collections.abc import Mapping
from typing import NamedTuple

FUNCTION = '`greeting("Ada")` in greeting.py returns "Hello, Ada!" (test_greeting.py)'
COMMAND = "`python3 greeting.py Ada` prints the greeting"

BEGINS = f"""git init -q --template= &&
git config user.name "Ralph Rehearsal" &&
git config user.email rehearsal@example.invalid &&
echo __pycache__/ > .gitignore &&
cat > sample.md <<'END' &&
# Greetings

A small module that greets people by name.

- {FUNCTION}
- {COMMAND}
END
git add . && git commit -qm "A plan"
"""
"""The shell commands that make the repository, with the plan."""


class SampleTask(NamedTuple):
    """The work for one task: files to write, a command that tests them, and the commit message."""

    files: Mapping[str, str]
    check: str
    message: str


_FUNCTION = '''"""Greets people by name."""


def greeting(name):
    """A greeting for `name`."""
    return f"Hello, {name}!"
'''
_MAIN = """

if __name__ == "__main__":
    import sys

    print(greeting(" ".join(sys.argv[1:])))
"""
_TEST = """import unittest

from greeting import greeting


class GreetingTest(unittest.TestCase):
    def test_greets_by_name(self):
        self.assertEqual(greeting("Ada"), "Hello, Ada!")
"""

WORK = {
    FUNCTION: SampleTask(
        {"greeting.py": _FUNCTION, "test_greeting.py": _TEST}, "python3 -m unittest discover", "Greet people by name"
    ),
    COMMAND: SampleTask(
        {"greeting.py": _FUNCTION + _MAIN},
        "python3 greeting.py Ada | grep -x 'Hello, Ada!'",
        "Print a greeting on the command line",
    ),
}
"""The work for each task, by the task's text."""
