"""A repository with a person's uncommitted work, a strict list of tasks, and an agent that is honest only now and then.

What the agent does is decided by the seed and the number of the call, so that a storm can be played again.
"""

import os
import subprocess
from pathlib import Path

from ralph_driver import Project

MADE: dict[str, frozenset[str]] = {
    "t1": frozenset({"work/t1.txt"}),
    "t2": frozenset({"work/t2.txt", "work/base.txt"}),
    "t3": frozenset({"work/t3.txt", "work/old.txt"}),
    "t4": frozenset({"work/t4.txt", "work/deep/er/t4.sh"}),
    "t5": frozenset({"work/t5.txt", "work/moved.txt", "work/move.txt"}),
    "t6": frozenset({"work/t6.txt"}),
}
"""The tasks, and what the commit of each has to hold, and nothing else."""
ONLY = "work/**"
VERIFY = "sleep 0.02; test ! -e work/broken"
PERSONS = ("both.txt", "edited.txt", "gone.txt", "run.sh", "staged.txt", "mine.txt", "notes/mine.txt", "work/mine.txt")
"""What a person has not committed: staged, unstaged, both, deleted, of another mode, untracked."""

TASKS = """\
- [ ] t6: The end of it
  - after: t3, t4, t5
  - verify: File `work/t6.txt` exists
- [ ] t3: Take something away
  - after: t1, t2
  - verify: Run `sleep 0.02; test ! -e work/old.txt` - exits with code 0
- [ ] t1: The first
  - priority: 1
  - verify: File `work/t1.txt` contains `t1`
- [ ] t2: Change something
  - verify: Run `sleep 0.02; grep -q t2 work/base.txt` - exits with code 0
- [ ] t5: Move something
  - after: t1
  - verify: File `work/moved.txt` exists
- [ ] t4: A program
  - after: t2
  - verify: Run `work/deep/er/t4.sh` - exits with code 0
"""

HOOK = "#!/bin/sh\nsleep 0.03\n"

AGENT = r"""#!PYTHON -ISE
import _signal
_signal.signal(_signal.SIGINT, _signal.SIG_DFL)
import os, re, subprocess, sys, time, zlib

def note(what):
    with open(os.environ["RECORD"], "a") as file:
        file.write(f"{what} {task} {os.getpid()}\n")

def put(name, text, mode=0o644):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, mode)

def git(*words):
    subprocess.run(["git", *words], stdin=subprocess.DEVNULL, stdout=2)

def work():
    put(f"work/{task}.txt", f"made by {task}\n")
    if task == "t2":
        put("work/base.txt", "base t2\n")
    if task == "t3" and os.path.exists("work/old.txt"):
        os.unlink("work/old.txt")
    if task == "t4":
        put("work/deep/er/t4.sh", "#!/bin/sh\nsleep 0.02\n", 0o755)
    if task == "t5" and os.path.exists("work/move.txt"):
        os.rename("work/move.txt", "work/moved.txt")

def progress(change):
    with open("feature_PROGRESS.md") as file:
        text = file.read()
    with open(os.environ["RECORD"] + ".new", "w") as file:
        file.write(change(text))
    os.rename(os.environ["RECORD"] + ".new", "feature_PROGRESS.md")

def honest(): work()
def ticks_all(): work(); progress(lambda text: text.replace("- [ ]", "- [x]").replace("- [~]", "- [x]"))
def says_done(): progress(lambda text: text.replace("\nIN_PROGRESS\n", "\nRALPH_DONE\n"))
def drops_criteria(): progress(lambda text: re.sub(r"  - (verify|after): .*\n", "", text))
def commits(): work(); git("add", "-A"); git("commit", "-q", "-m", "cheat")
def stages(): work(); git("add", "-A")
def rewrites(): work(); git("commit", "-q", "--amend", "-a", "-m", "cheat")
def moves_head(): work(); git("checkout", "-q", "-b", f"side-{os.getpid()}"); git("commit", "-q", "-a", "-m", "cheat")
def detaches(): git("checkout", "-q", "--detach"); work()
def resets(): git("reset", "-q", "--hard")
def outside(): work(); put("mine.txt", "spoilt\n"); put("edited.txt", "spoilt\n"); put("new.txt", "new\n")
def hides(): work(); put(".git/info/exclude", "mine.txt\n"); put("outside.txt", "x")
def breaks(): work(); put("work/broken", "x") if not os.path.exists("work/broken") else None
def half(): put(f"work/{task}.txt", "half\n"); silent.append(1)
def crashes(): work(); sys.exit(3)

said = sys.stdin.read()
session, task = re.search('<task-done session="([^"]+)">([^<]+)</task-done>', said).groups()
silent = []
note("begin")
DEEDS = DEEDS_HERE
number = sum(line.startswith("begin") for line in open(os.environ["RECORD"]))
dice = zlib.crc32(f"{os.environ['STORM_SEED']}-{number}".encode())
if os.path.exists("work/broken") and dice % 2:
    os.unlink("work/broken")
time.sleep(dice % 7 / 100)
DEEDS[dice // 7 % len(DEEDS)]()
note("did-" + DEEDS[dice // 7 % len(DEEDS)].__name__)
if os.path.exists("work/broken") and DEEDS[dice // 7 % len(DEEDS)] is honest:
    os.unlink("work/broken")
time.sleep(dice // 60 % 5 / 100)
print("I did it." if silent else f"Made it.\n\n<task-done session=\"{session}\">{task}</task-done>")
note("end")
"""
DEEDS = (
    "honest, honest, honest, honest, ticks_all, says_done, drops_criteria, commits, stages, rewrites, moves_head, "
    "detaches, breaks, half, crashes"
)
BEYOND = ", resets, outside, hides"
"""What only `--only` forbids."""


def agent(path: Path, python: str, *, keeps_to_it: bool) -> Path:
    """The agent, made there; one that keeps to its files, or does not even that."""
    deeds = DEEDS if keeps_to_it else DEEDS + BEYOND
    path.write_text(AGENT.replace("PYTHON", python).replace("DEEDS_HERE", f"[{deeds}]"))
    path.chmod(0o755)
    return path


def furnish(project: Project) -> None:
    """The repository, the person's uncommitted work in it, a hook, and the list of tasks."""
    root = project.root
    _write(root, {name: f"{name} committed\n" for name in ("both.txt", "edited.txt", "gone.txt", "run.sh")})
    _write(root, {f"work/{name}.txt": f"{name}\n" for name in ("base", "old", "move")})
    project.git("config", "maintenance.auto", "false")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "what is there")
    _write(root, {"both.txt": "both staged\n", "staged.txt": "staged\n"})
    project.git("add", "both.txt", "staged.txt")
    _write(root, {"both.txt": "both in the tree\n", "edited.txt": "edited\r\n", "mine.txt": "mine\n"})
    _write(root, {"notes/mine.txt": "mine\n", "work/mine.txt": "mine\n"})
    (root / "gone.txt").unlink()
    (root / "run.sh").chmod(0o755)
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)
    head = "# Progress: feature\n\nPlan: feature.md\nStarted: 2026-11-20 22:14:03\n\n## Status\n\nIN_PROGRESS\n"
    project.progress.write_text(f"{head}\n## Task List\n\n{TASKS}\n## Notes\n")


def _write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


def persons(project: Project) -> dict[str, object]:
    """The person's work as it is: what the files hold, their modes, and what is staged."""
    found: dict[str, object] = {"staged": project.git("ls-files", "-s", "--", *PERSONS)}
    for name in PERSONS:
        path = project.root / name
        found[name] = (path.read_bytes(), path.stat().st_mode) if path.exists() else None
    return found


def commits(project: Project, first: str) -> list[tuple[str, frozenset[str]]]:
    """The tasks of all commits since the first, in order, each with the files it changed; merges fail."""
    found = []
    for commit in project.git("rev-list", "--reverse", f"{first}..HEAD").split():
        about = project.git("show", "-s", "--format=%P|%(trailers:key=Ralph-Task,valueonly,separator=%x2C)", commit)
        parents, _, task = about.strip().partition("|")
        assert " " not in parents, f"{commit} is a merge"
        names = project.git("diff-tree", "-r", "--no-renames", "--no-commit-id", "--name-only", commit)
        found.append((task, frozenset(names.split())))
    return found


def locks(root: Path) -> list[Path]:
    """Locks of git's that are there."""
    return sorted((root / ".git").rglob("*.lock"))


def fsck(project: Project) -> None:
    """git finds nothing missing or broken."""
    argv = ["git", "fsck", "--no-dangling"]
    done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, check=False)
    assert done.returncode == 0, os.fsdecode(done.stdout + done.stderr)


def left_over(project: Project) -> set[str]:
    """What is untracked, and neither a person's nor the progress file."""
    untracked = project.git("ls-files", "--others", "--exclude-standard").split()
    return {*untracked} - {*PERSONS, project.progress.name}
