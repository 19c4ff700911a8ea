"""The sample that a rehearsal plans and builds: a small project, its plan, and how each point of it is built."""

from dataclasses import dataclass

FUNCTION = '`greeting("Ada")` in greeting.py returns "Hello, Ada!" (test_greeting.py)'
NOBODY = "An empty name greets the world (test_greeting.py)"
COMMAND = "`python3 greeting.py Ada` prints the greeting"
README = "README.md shows how to use both (its example is tried)"

PLAN = f"""# Greetings

A small module that greets people by name.

- {FUNCTION}
- {NOBODY}
- {COMMAND}
- {README}
"""

FILES = {
    "sample.md": PLAN,
    "README.md": "# Greetings\n\nGreets people by name.\n",
    ".gitignore": "__pycache__/\n",
}
"""What the first commit holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Text put in place of other text; without an `old` it is a new file, or goes to the end of the one there is."""

    path: str
    old: str = ""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How one task is done: the edits, the command that shows that it works, and what the commit says."""

    edits: tuple[Edit, ...]
    check: str
    message: str


_TESTS = "python3 -m unittest discover"

WORK = {
    FUNCTION: Work(
        edits=(
            Edit(
                path="greeting.py",
                new='"""Greets people by name."""\n\n\n'
                'def greeting(name):\n    """A greeting for `name`."""\n    return f"Hello, {name}!"\n',
            ),
            Edit(
                path="test_greeting.py",
                new="import unittest\n\nfrom greeting import greeting\n\n\n"
                "class GreetingTest(unittest.TestCase):\n"
                '    def test_greets_by_name(self):\n        self.assertEqual(greeting("Ada"), "Hello, Ada!")\n',
            ),
        ),
        check=_TESTS,
        message="Greet people by name",
    ),
    NOBODY: Work(
        edits=(
            Edit(path="greeting.py", old="{name}!", new="{name or 'world'}!"),
            Edit(
                path="test_greeting.py",
                new="\n    def test_without_a_name_greets_the_world(self):\n"
                '        self.assertEqual(greeting(""), "Hello, world!")\n',
            ),
        ),
        check=_TESTS,
        message="Greet the world when there is no name",
    ),
    COMMAND: Work(
        edits=(
            Edit(
                path="greeting.py",
                new='\n\nif __name__ == "__main__":\n    import sys\n\n    print(greeting(" ".join(sys.argv[1:])))\n',
            ),
        ),
        check="python3 greeting.py Ada | grep -x 'Hello, Ada!'",
        message="Print a greeting on the command line",
    ),
    README: Work(
        edits=(
            Edit(
                path="README.md",
                new="\n## Usage\n\n    python3 greeting.py Ada\n\nor, in Python,\n\n"
                "    >>> from greeting import greeting\n    >>> greeting(\"Ada\")\n    'Hello, Ada!'\n",
            ),
        ),
        check="python3 -m doctest README.md && python3 -m unittest discover",
        message="Say how to use it",
    ),
}
"""The work for each task of the plan, by the task's text."""
