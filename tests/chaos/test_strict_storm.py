"""--strict under kill -9, TERM and INT: each task is done once, and a person's uncommitted work stays as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from ralph_driver import LONG, Project, progress_text
from storm import TO_OTHERS, TO_RALPH, Storm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")

KILLS = 200 if LONG else 6
UNBOUNDED = {"RALPH_MAX_FAILURES": "off", "RALPH_MAX_STALLS": "off", "RALPH_MAX_TRIES": "off"}
MADE = {
    "t1": {"work/t1.txt", "work/base.txt"},
    "t2": {"work/t2.txt", "work/old.txt"},
    "t3": {"work/t3.txt", "work/deep/er/t3.sh"},
    "t4": {"work/t4.txt", "work/moved.txt", "work/move.txt"},
}
"""The tasks, and what the commit of each has to hold, and nothing else."""
TASKS = """\
- [ ] t4: Move something
  - after: t2, t3
  - verify: File `work/moved.txt` exists
- [ ] t2: Take something away
  - after: t1
  - verify: Run `sleep 0.02; test ! -e work/old.txt` - exits with code 0
- [ ] t1: Change something
  - verify: File `work/base.txt` contains `t1`
- [ ] t3: A program
  - verify: Run `work/deep/er/t3.sh` - exits with code 0
"""
PERSONS = ("both.txt", "edited.txt", "gone.txt", "run.sh", "staged.txt", "mine.txt", "work/mine.txt")
"""What a person has not committed: staged and edited again, edited, deleted, of another mode, staged, untracked."""
AGENT = r"""#!PYTHON -ISE
import os, re, subprocess, sys, time, zlib

def put(name, text, mode=0o644):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, mode)

def git(*words):
    subprocess.run(["git", *words], stdin=subprocess.DEVNULL, stdout=2)

def work():
    put(f"work/{task}.txt", f"made by {task}\n")
    if task == "t1":
        put("work/base.txt", "base t1\n")
    if task == "t2" and os.path.exists("work/old.txt"):
        os.unlink("work/old.txt")
    if task == "t3":
        put("work/deep/er/t3.sh", "#!/bin/sh\nsleep 0.02\n", 0o755)
    if task == "t4" and os.path.exists("work/move.txt"):
        os.rename("work/move.txt", "work/moved.txt")

def progress(change):
    with open("feature_PROGRESS.md") as file:
        text = change(file.read())
    put(os.environ["RECORD"] + ".new", text)
    os.rename(os.environ["RECORD"] + ".new", "feature_PROGRESS.md")

def honest(): work()
def ticks_all(): work(); progress(lambda text: text.replace("- [ ]", "- [x]").replace("- [~]", "- [x]"))
def says_done(): progress(lambda text: text.replace("\nIN_PROGRESS\n", "\nRALPH_DONE\n"))
def drops_criteria(): progress(lambda text: re.sub(r"  - (verify|after): .*\n", "", text))
def commits(): work(); git("add", "-A"); git("commit", "-q", "-m", "cheat")
def rewrites(): work(); git("commit", "-q", "--amend", "-a", "-m", "cheat")
def moves_head(): work(); git("checkout", "-q", "-b", f"side-{os.getpid()}"); git("commit", "-q", "-a", "-m", "cheat")
def resets(): git("reset", "-q", "--hard")
def outside(): work(); put("mine.txt", "spoilt\n"); put("edited.txt", "spoilt\n"); put("new.txt", "new\n")
def crashes(): work(); sys.exit(3)

session, task = re.search('<task-done session="(ralph-[^"]+)">([^<]+)</task-done>', sys.stdin.read()).groups()
number = os.stat(os.environ["RECORD"]).st_size
deeds = [honest] * 6 + [ticks_all, says_done, drops_criteria, commits, rewrites, moves_head, crashes, BEYOND]
deed = deeds[zlib.crc32(b"%d" % number) % len(deeds)]
with open(os.environ["RECORD"], "a") as file:
    file.write(f"{deed.__name__} {task} {os.getpid()}\n")
time.sleep(number % 7 / 100)
deed()
time.sleep(number % 5 / 100)
print(f"Made it.\n\n<task-done session=\"{session}\">{task}</task-done>")
"""


def furnish(project: Project) -> None:
    """The repository, the person's uncommitted work in it, and the list of tasks."""
    write(project.root, {name: f"{name} committed\n" for name in ("both.txt", "edited.txt", "gone.txt", "run.sh")})
    write(project.root, {f"work/{name}.txt": f"{name}\n" for name in ("base", "old", "move")})
    project.git("config", "maintenance.auto", "false")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "what is there")
    write(project.root, {"both.txt": "both staged\n", "staged.txt": "staged\n"})
    project.git("add", "both.txt", "staged.txt")
    write(project.root, {"both.txt": "both in the tree\n", "edited.txt": "edited\r\n"})
    write(project.root, {"mine.txt": "mine\n", "work/mine.txt": "mine\n"})
    (project.root / "gone.txt").unlink()
    (project.root / "run.sh").chmod(0o755)
    project.progress.write_text(progress_text().replace("## Task List\n\n", f"## Task List\n\n{TASKS}"))


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


def persons(project: Project) -> dict[str, object]:
    """The person's work as it is: what the files hold, their modes, and what is staged."""
    paths = {name: project.root / name for name in PERSONS}
    files = {name: (path.read_bytes(), path.stat().st_mode) for name, path in paths.items() if path.exists()}
    return {"staged": project.git("ls-files", "-s", "--", *PERSONS), **files}


def commits(project: Project, first: str) -> dict[str, set[str]]:
    """The tasks of all commits since the first, each with the files it changed; each task has one."""
    found = {}
    for commit in project.git("rev-list", "--first-parent", f"{first}..HEAD").split():
        task = project.git("show", "-s", "--format=%(trailers:key=Ralph-Task,valueonly)", commit).strip()
        assert task not in found
        names = project.git("diff-tree", "-r", "--no-renames", "--no-commit-id", "--name-only", commit)
        found[task] = set(names.split())
    return found


@pytest.mark.parametrize(
    "words", [pytest.param(("--only", "work/**"), id="only"), pytest.param(("--on-failure", "restore"), id="restore")]
)
def test_whatever_is_hit_each_task_is_done_and_committed_once(project: Project, words: tuple[str, ...]) -> None:
    agent = project.home / "agent"
    beyond = "resets, outside" if "--only" in words else "honest"
    agent.write_text(AGENT.replace("PYTHON", sys.executable).replace("BEYOND", beyond))
    agent.chmod(0o755)
    project.env |= UNBOUNDED
    furnish(project)
    first, before = project.git("rev-parse", "HEAD").strip(), persons(project)
    storm = Storm(project, words[0], agent, TO_RALPH + TO_OTHERS[:1], kills=KILLS)
    storm.rages("--strict", "--verify", "sleep 0.02", *words)
    assert storm.killed >= 2, "a calm storm proves little"
    text = project.progress_text
    assert [text.count(f"- [x] {task}: ") for task in MADE] == [1] * len(MADE)
    assert ("\nRALPH_DONE\nVerified: " in text, "- [ ]" in text) == (True, False)
    assert commits(project, first) == MADE
    assert project.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert persons(project) == before
    untracked = {*project.git("ls-files", "--others", "--exclude-standard").split()}
    assert untracked - {*PERSONS} == {project.progress.name}
    assert [*(project.root / ".git").rglob("*.lock")] == []
    subprocess.run(["git", "fsck", "--no-dangling"], cwd=project.root, env=project.env, check=True)
    assert project.journal()
    assert not [run.stderr for run in storm.runs if "/ralph/" in run.stderr.partition("Traceback")[2]]
