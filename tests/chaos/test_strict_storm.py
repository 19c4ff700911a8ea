"""--strict under kill -9, TERM and INT: each task is done once, and the user's uncommitted work stays as it is."""

import pytest
from ralph_driver import LONG, Project
from storm import TO_OTHERS, TO_RALPH, Storm
from test_strict import wants

KILLS = 200 if LONG else 6
MADE = {
    "t1": {"work/t1.txt", "work/base.txt"},
    "t2": {"work/t2.txt", "work/old.txt", "work/moved.txt", "work/move.txt"},
    "t3": {"work/t3.txt", "work/deep/er/t3.sh"},
}
"""The tasks, and what the commit of each has to hold, and nothing else."""
TASKS = """\
- [ ] t2: Take something away, and move something
  - after: t1, t3
  - verify: Run `sleep 0.02; test ! -e work/old.txt` - exits with code 0
  - verify: File `work/moved.txt` exists
- [ ] t1: Change something
  - verify: File `work/base.txt` contains `t1`
- [ ] t3: A program
  - verify: Run `work/deep/er/t3.sh` - exits with code 0
"""
PERSONS = ("both.txt", "edited.txt", "gone.txt", "run.sh", "staged.txt", "mine.txt", "work/mine.txt")
"""What the user has not committed: staged and edited again, edited, deleted, of another mode, staged, untracked."""
FURNISHED = """
mkdir work
for one in both.txt edited.txt gone.txt run.sh work/base.txt work/old.txt work/move.txt; do echo $one > $one; done
git config maintenance.auto false; git add -A; git commit -qm 'what is there'
echo both staged > both.txt; echo staged > staged.txt; git add both.txt staged.txt
echo both in the tree > both.txt; printf 'edited\\r\\n' > edited.txt; rm gone.txt; chmod 755 run.sh
echo mine > mine.txt; echo mine > work/mine.txt
"""
AGENT = r"""
signal=$(grep -o '<task-done session="ralph-[^<]*</task-done>' | head -n 1)
task=${signal#*>}; task=${task%<*}
number=$(wc -c < $RECORD | cksum | cut -d ' ' -f 1)
work() {
    echo made by $task > work/$task.txt
    case $task in
        t1) echo base t1 > work/base.txt ;;
        t2) rm -f work/old.txt; [ ! -e work/move.txt ] || mv work/move.txt work/moved.txt ;;
        t3) mkdir -p work/deep/er; printf '#!/bin/sh\nsleep 0.02\n' > work/deep/er/t3.sh; chmod 755 work/deep/er/* ;;
    esac
}
progress() { sed "$1" feature_PROGRESS.md > $RECORD.new; mv $RECORD.new feature_PROGRESS.md; }
deed=$((number % 15))
echo deed $deed at $task by $$ >> $RECORD
sleep 0.0$((number % 7))
case $deed in
    0) work; progress 's/- \[[ ~]\]/- [x]/' ;;
    1) progress 's/^IN_PROGRESS$/RALPH_DONE/' ;;
    2) progress '/^  - \(verify\|after\): /d' ;;
    3) work; git add -A; git commit -q -m cheat ;;
    4) work; git commit -q --amend -a -m cheat ;;
    5) work; git checkout -q -b side-$$; git commit -q -a -m cheat ;;
    6) work; exit 3 ;;
    7) RESETS ;;
    8) work; SPOILS ;;
    *) work ;;
esac >&2
sleep 0.0$((number % 5))
printf 'Made it.\n\n%s\n' "$signal"
"""
BEYOND = ("git reset -q --hard", "for one in mine.txt edited.txt new.txt; do echo spoilt > $one; done")


def users(project: Project) -> dict[str, object]:
    """The user's work as it is: what the files hold, their modes, and what is staged."""
    paths = {name: project.root / name for name in PERSONS}
    files = {name: (path.read_bytes(), path.stat().st_mode) for name, path in paths.items() if path.exists()}
    return {"staged": project.git("ls-files", "-s", "--", *PERSONS), **files}


@pytest.mark.parametrize("words", [("--only", "work/**"), ("--on-failure", "restore")], ids=["only", "restore"])
def test_whatever_is_hit_each_task_is_done_and_committed_once(project: Project, words: tuple[str, ...]) -> None:
    deeds = BEYOND if "--only" in words else ("work", "work")
    agent = AGENT.replace("RESETS", deeds[0]).replace("SPOILS", deeds[1])
    project.does(FURNISHED)
    wants(project, TASKS)
    first, before = project.git("rev-parse", "HEAD").strip(), users(project)
    storm = Storm(project, words[0], agent, TO_RALPH + TO_OTHERS[:1], kills=KILLS)
    storm.rages("--strict", "--verify", "sleep 0.02", *words)
    assert storm.killed >= 2, "a calm storm proves little"
    text = project.progress_text
    assert [text.count(f"- [x] {task}: ") for task in MADE] == [1] * len(MADE)
    assert ("\nRALPH_DONE\nVerified: " in text, "- [ ]" in text) == (True, False)
    form = "--format=%x00%(trailers:key=Ralph-Task,valueonly)"
    log = project.git("log", "--first-parent", "--no-renames", "--name-only", form, f"{first}..HEAD")
    made = [(task, {*names}) for task, *names in map(str.split, log.split("\0")[1:])]
    assert sorted(made) == [*MADE.items()]
    assert project.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert users(project) == before
    untracked = {*project.git("ls-files", "--others", "--exclude-standard").split()}
    assert untracked - {*PERSONS} == {project.progress.name}
    assert [*(project.root / ".git").rglob("*.lock")] == []
    project.git("fsck", "--no-dangling")
    assert not [run.stderr for run in storm.runs if "/ralph/" in run.stderr.partition("Traceback")[2]]
