"""kill -9, TERM and INT of a strict ralph, and between a death and the next run the user works in the same tree.

Stages, removes, commits, begins branches, edits the list: all of it stays, and no task's commit has it.
"""

import random
from signal import SIGINT, SIGKILL, SIGTERM

import pytest
from ralph_driver import LONG, Project
from storm import Storm
from test_strict import wants

KILLS = 300 if LONG else 8
TASKS = [f"t{number}" for number in range(1, 60 if LONG else 5)]
AGENT = r"""
signal=$(grep -o '<task-done session="ralph-[^<]*</task-done>' | head -n 1)
task=${signal#*>}; task=${task%<*}
mkdir -p work
echo "$task by $$" > work/$task.txt
sleep 0.0$(( $$ % 9 ))
rm -f work/old.txt; echo $task >> work/all.txt
sleep 0.0$(( $$ % 7 ))
[ $(( $$ % 5 )) != 0 ] || exit 3
[ $(( $$ % 7 )) != 0 ] || { git add -A; git commit -qm cheat; } >&2
printf 'Made it.\n\n%s\n' "$signal"
"""
BLOWS = (*[(SIGKILL, ("ralph",))] * 3, (SIGTERM, ("ralph",)), (SIGINT, ("ralph",)), (SIGKILL, ("agent",)))


class Person:
    """Does one thing after another, and remembers what must still be so."""

    def __init__(self, project: Project, seed: str) -> None:
        self._project, self._chance = project, random.Random(seed)
        self.acts = 0
        self._staged: dict[str, str] = {}
        self._in_tree: dict[str, str | None] = {"mine0.txt": "mine\n"}
        self._commits = [project.git("rev-parse", "HEAD").strip()]
        self._notes: list[str] = []
        self._branch = "main"

    def acts_now(self) -> None:
        """One thing, once all is as it was left; none when the plan is done."""
        self.looks()
        if "\nRALPH_DONE\n" in self._project.progress_text:
            return
        self.acts += 1
        name, number = f"mine{self._chance.randrange(4)}.txt", self.acts
        path = self._project.root / name
        self._project.does("rm -f .git/index.lock")  # which a git that was killed leaves behind
        match self._chance.choice(["stages", "edits", "removes", "commits", "branches", "notes", "asks"]):
            case "stages":
                self._in_tree[name] = self._staged[name] = f"staged {number}\n"
                path.write_text(self._staged[name])
                self._project.git("add", name)
            case "edits":
                self._in_tree[name] = f"edited {number}\n"
                path.write_text(f"edited {number}\n")
            case "removes":
                self._in_tree[name] = None
                path.unlink(missing_ok=True)
            case "commits" | "branches" if self._project.git("log", "-1", "--format=%s") == "cheat\n":
                pass  # for the cheat would stay, see test_after_death
            case "commits":
                own = self._project.root / f"own{number}.txt"
                own.write_text("own\n")
                self._project.does(f"git add {own.name}; git commit -qm own{number} {own.name}")
                self._commits.append(self._project.git("rev-parse", "HEAD").strip())
            case "branches":
                self._branch = f"side{number}"
                self._project.git("switch", "-qc", self._branch)
            case "notes":
                self._notes.append(f"note {number}")
                self._edits("## Notes\n", f"## Notes\n- note {number}\n")
            case "asks":
                TASKS.append(f"p{number}")
                self._edits("\n## Notes\n", f"\n- [ ] p{number}: The user's\n\n## Notes\n")

    def _edits(self, old: str, new: str) -> None:
        self._project.progress.write_text(self._project.progress_text.replace(old, new, 1))

    def looks(self) -> None:
        """All that this person did is as it was left."""
        root, git = self._project.root, self._project.git
        for name, text in self._in_tree.items():
            assert ((root / name).read_text() if (root / name).exists() else None) == text, name
        owed = [*self._project.state.glob("ralph/*/running/UnfinishedIteration")]
        for name, text in self._staged.items() if not owed else ():  # what an agent staged the next start puts back
            assert git("show", f":{name}") == text, name
        assert git("symbolic-ref", "--short", "HEAD").strip() == self._branch
        for commit in self._commits:
            git("merge-base", "--is-ancestor", commit, "HEAD")
        assert all(note in self._project.progress_text for note in self._notes)


@pytest.mark.parametrize("words", [(), ("--only", "work/**")], ids=["strict", "only"])
def test_what_the_user_does_after_a_death_stays(project: Project, words: tuple[str, ...]) -> None:
    project.does("mkdir work; echo old > work/old.txt; echo mine > mine0.txt; git add .; git commit -qm mine")
    asked = len(TASKS)
    wants(project, "".join(f"- [ ] {task}: Task\n" for task in TASKS))
    person = Person(project, str(words))
    storm = Storm(project, f"person{words}", AGENT, BLOWS, kills=KILLS)
    try:
        storm.rages("--strict", *words, calm=person.acts_now)
        person.looks()
        assert (storm.killed >= KILLS // 2, person.acts > 0) == (True, True), "a calm storm proves little"
        form = "--format=%x00%(trailers:key=Ralph-Task,valueonly)"
        log = project.git("log", "--no-renames", "--name-only", form).split("\0")[1:]
        made = [(found[0], found[1:]) for found in map(str.split, log) if found and found[0] in TASKS]
        assert sorted(task for task, _ in made) == sorted(TASKS)
        assert not [name for _, names in made for name in names if not name.startswith("work/")]
        assert all(f"work/{task}.txt" in names for task, names in made)
    finally:
        del TASKS[asked:]
