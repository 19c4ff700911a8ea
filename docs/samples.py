"""Writes the sample output into the pages, from real runs of ralph with a scripted agent.

python docs/samples.py
"""
# ruff: noqa: INP001, TID251 - a script, in no package, which runs git and ralph

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGES = (TOP / "README.md", TOP / "docs" / "tutorial.md")
PLAN = """\
# Slugs

`slug.py` turns the title of a post into the last part of its address.

- `slug("Hello World")` is `hello-world`
- Accents go: `slug("Crème brûlée")` is `creme-brulee`

Use the standard library only. Test with unittest.
"""
BASE = '''\
"""Turn titles into addresses."""


def slug(title: str) -> str:
    """The title in lower case, its words joined by dashes."""
    return "-".join(title.lower().split())
'''
ACCENTS = '''\
"""Turn titles into addresses."""

import unicodedata


def slug(title: str) -> str:
    """The title in lower case and ASCII, its words joined by dashes."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return "-".join(plain.lower().split())
'''
TESTS = """\
import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Hello World"), "hello-world")
"""
MORE_TESTS = """
    def test_accents(self):
        self.assertEqual(slug("Crème brûlée"), "creme-brulee")
"""
TEST = "python3 -m unittest"
TASKS = "- [ ] Add slug() to slug.py, with a test\n- [ ] Drop accents, with a test\n"
TURNS: list[dict[str, object]] = [
    {
        "does": [
            ["says", "Nothing is built yet. Two tasks will do."],
            ["edits", "feature_PROGRESS.md", "## Task List\n", f"## Task List\n\n{TASKS.rstrip()}\n"],
        ],
        "costs": 0.07,
    },
    {
        "does": [
            ["says", "I'll write the function and its test."],
            ["writes", "slug.py", BASE],
            ["writes", "test_slug.py", TESTS],
            ["runs", TEST],
            ["edits", "feature_PROGRESS.md", "- [ ] Add", "- [x] Add"],
            ["runs", "git add slug.py test_slug.py && git commit -qm 'Add slug()'"],
        ],
        "costs": 0.19,
    },
    {
        "does": [
            ["says", "Next: accents. unicodedata takes them apart."],
            ["writes", "slug.py", ACCENTS],
            ["writes", "test_slug.py", TESTS + MORE_TESTS],
            ["runs", TEST],
            ["edits", "feature_PROGRESS.md", "- [ ] Drop", "- [x] Drop"],
            ["runs", "git add slug.py test_slug.py && git commit -qm 'Drop accents'"],
            ["edits", "feature_PROGRESS.md", "IN_PROGRESS", "RALPH_DONE"],
        ],
        "costs": 0.23,
    },
]
"""What the agent does each time it is called, and the cost that it reports."""
AGENT = """\
#!{python}
import json, pathlib, subprocess, sys, time

if sys.argv[1:3] == ["auth", "status"]:
    sys.exit(0)
sys.stdin.read()
folder = pathlib.Path({folder!r})
turns = json.loads((folder / "turns").read_text())
(folder / "turns").write_text(json.dumps(turns[1:]))


def event(**about):
    print(json.dumps(about), flush=True)


def uses(tool, **arguments):
    block = {{"type": "tool_use", "id": "t", "name": tool, "input": arguments}}
    event(type="assistant", message={{"content": [block]}})


time.sleep({pause_s})
event(type="system", subtype="init", apiKeySource="none", model="a-model")
said = ""
for what, *words in turns[0]["does"]:
    if what == "says":
        said = words[0]
        event(type="assistant", message={{"content": [{{"type": "text", "text": said}}]}})
    elif what == "writes":
        uses("Edit" if pathlib.Path(words[0]).exists() else "Write", file_path=words[0])
        pathlib.Path(words[0]).write_text(words[1], encoding="utf-8")
    elif what == "edits":
        uses("Edit", file_path=words[0])
        file = pathlib.Path(words[0])
        file.write_text(file.read_text(encoding="utf-8").replace(words[1], words[2], 1), encoding="utf-8")
    elif what == "waits":
        while not pathlib.Path(words[0]).exists():
            time.sleep(0.05)
    elif what == "runs":
        uses("Bash", command=words[0])
        subprocess.run(["sh", "-c", words[0]], check=True, capture_output=True)
event(type="result", subtype="success", is_error=False, result=said, total_cost_usd=turns[0]["costs"])
"""


class Machine:
    """A throwaway home with ralph, a `claude` that does what TURNS says, and a repository unless it is `empty`."""

    def __init__(self, top: Path, pause_s: float = 0, *, empty: bool = False) -> None:
        """`pause_s` is how long the agent takes for each turn, so that the times in the samples look real."""
        self.top = top.resolve()
        home = self.top / "home" / "you"
        self.project, programs, agent = home / "project", home / ".local" / "bin", self.top / "agent"
        for folder in (programs, agent):
            folder.mkdir(parents=True)
        (agent / "turns").write_text(json.dumps(TURNS))
        claude, ralph = programs / "claude", programs / "ralph"
        claude.write_text(AGENT.format(python=sys.executable, folder=str(agent), pause_s=pause_s))
        ralph.write_text(f"#!{sys.executable} -P\nfrom ralph.cli import main\nmain()\n")
        for program in (claude, ralph):
            program.chmod(0o755)
        self.env = {"HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.env |= {"PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1"}
        self.env |= {"IS_SANDBOX": "1"}  # else it is an error to be root
        self.env |= {name: os.environ[name] for name in ("TEST_MARK", "TMPDIR") if name in os.environ}
        (home / ".gitconfig").write_text("[user]\n\tname = You\n\temail = you@example.org\n")
        if not empty:
            self.project.mkdir()
            (self.project / "feature.md").write_text(PLAN, encoding="utf-8")
            self.prints("git init -q -b main && git add feature.md && git commit -qm 'Say what I want'")

    def prints(self, command: str) -> str:
        """Returns what a shell command prints in the project, as on the machine of a user named "you"."""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.project if self.project.exists() else self.project.parent,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        text = done.stdout.decode().replace(str(self.top), "").replace(" IS_SANDBOX=1", "")
        assert done.returncode == 0, f"{command}: {text}"
        return text


def page_with_samples(page: Path, folder: Path, pause_s: float = 0) -> str:
    """Returns the page with the output of each `$ command` in a block below <!-- sample -->.

    It also runs the blocks below <!-- run -->. All blocks run in their order, on one machine.
    """
    text = page.read_text(encoding="utf-8")
    machine = Machine(folder, pause_s, empty="<!-- run -->" in text)

    def filled(block: re.Match[str]) -> str:
        if block["kind"] == "run":
            machine.prints(f"set -e\n{block['body']}")
            return block[0]
        commands = [line for line in block["body"].splitlines() if line.startswith("$ ")]
        outputs = [f"{line}\n{machine.prints(line[2:])}".rstrip() for line in commands]
        return block["head"] + "\n\n".join(outputs) + "\n```\n"

    return re.sub(
        r"(?P<head><!-- (?P<kind>run|sample) -->\n```\w*\n)(?P<body>.*?)^```\n",
        filled,
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def normalized(text: str) -> str:
    """Returns the text without what differs from run to run: times, costs, hashes, versions."""
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "DATE", text)
    text = re.sub(r"(?:(?<=· )|(?<=in ))(?:\d+[hms])+(?=[\s<])", "TIME", text)
    text = re.sub(r"\b\d+s ago", "TIME ago", text)
    text = re.sub(r"(?<=  )\d\d:\d\d\b", "TIME", text)
    text = re.sub(r"\$\d+\.\d\d", "$COST", text)
    text = re.sub(r"\b[0-9a-f]{7,12}\b", "HASH", text)
    return re.sub(r"ralph \d[\w.]*, Python \d[\w.]*, \w+", "VERSIONS", text)


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory(prefix="ralph-sample-") as folder:
            page.write_text(page_with_samples(page, Path(folder), pause_s=4), encoding="utf-8")
