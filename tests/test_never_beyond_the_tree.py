"""Whatever an agent puts a link in place of: ralph writes, moves and removes nothing outside of the tree.

Each plant is made by a scripted agent in a real run. Beside the project lies a folder of somebody's, to which it leads.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet
from ralph_driver import CHECKOUT, LONG, Project, everything_in, progress_text
from stories import Agent, init, raw, result, runs, step, ticks, tries, writes
from test_strict import KILL, ONE, files_of, kept, wants


class Plant(NamedTuple):
    """What an agent does; $OUT is the folder of somebody's, $STATE ralph's folder of this plan."""

    does: str
    blocks: Collection[str] = ()
    """What ends the run, each as RALPH_BLOCKED says it; else the run goes on."""
    said: str = ""
    """What is told of it where the run goes on."""


def links(places: Mapping[str, str], *, blocks: bool = False) -> Plant:
    made = 'rm -rf "{0}"; mkdir -p "$(dirname "{0}")"; ln -s "$OUT/{1}" "{0}"'
    return Plant("; ".join(made.format(*one) for one in places.items()), [*places] if blocks else ())


BOTH_KEPT = "before and after are "
OF_GIT = ("config", "index", "index.lock", "objects", "logs", "rebase-merge", "refs/heads/main", "hooks/post-merge")
PLANTS = {
    "links within git's folder": links({f".git/{name}": f"git/{name}" for name in OF_GIT}, blocks=True),
    "links to folders": links({".ralph": "", "tools/prompts": "", "src": "sub", "lib.o": "sub", "new/er": "sub"}),
    "links to files": links(
        {name: name for name in (".ralph/PROMPT_mine.md", ".ralph.env", "feature.md")} | {"src/a.py": "sub/a.py"}
    ),
    "HEAD": links({".git/HEAD": "git/HEAD"}, blocks=True),
    "git's folder": links({".git": "git"}, blocks=True),
    "git's folder, by a file": Plant('rm -rf .git; echo "gitdir: $OUT/git" > .git', [".git"]),
    "git's common folder": Plant("echo $OUT/git > .git/commondir", [".git/commondir"]),
    "the progress file": links({"feature_PROGRESS.md": "feature_PROGRESS.md"}),
    "the whole tree": Plant('here=$(pwd); cd ..; mv "$here" "$here.old"; ln -s "$OUT" "$here"', ["leads to"]),
    "the journal": Plant("cd $STATE; rm -f journal.jsonl; ln -s $OUT/precious journal.jsonl"),
    "the progress file, to nothing": links({"feature_PROGRESS.md": "nothing"}),
    "a note": Plant("cd $STATE/running; for one in *; do ln -sf $OUT/precious $one; done"),
    "the history": links({"history.jsonl": "precious"}),
    "the state": Plant("rm -rf $STATE; ln -s $OUT/state $STATE"),
    **{
        f"{name} of the state": Plant(f"cd $STATE; rm -rf {name}; ln -s $OUT/state {name}")
        for name in ("kept", "transcripts", "running")
    },
    "settings of git that matter": Plant(
        "git config core.worktree $OUT; git config filter.evil.clean evil; git config include.path /evil",
        [".git/config was changed: core.worktree, filter.evil.clean, include.path"],
    ),
    "a rewritten history": Plant("echo all went well > history.jsonl", ["history.jsonl was changed", BOTH_KEPT]),
    "a new hook": Plant(
        "echo > .git/hooks/commit-msg", said="commit-msg is new, and git runs it at each commit; it stays"
    ),
    "a changed hook": Plant("echo rm >> .git/hooks/post-merge", [".git/hooks/post-merge was changed", BOTH_KEPT]),
    "settings of git that do not": Plant(
        "git config branch.main.remote origin; git config core.hooksPath .husky",
        said=".git/config was changed: branch.main.remote, core.hookspath; it stays",
    ),
}
ONLY = ("--only", "one.txt", "--only", "src/**")
KEPT_IN = ("--history", "history.jsonl", "--prompts", "tools/prompts")
WAYS = {
    "strict": ("--strict",),
    "only": ONLY,
    "all": ("--strict", "--on-failure", "restore", *ONLY),
    "killed": ("--strict", "--on-failure", "restore", *ONLY),
}
"""The last one ends in ralph's death, and what counts is the start after it."""
TRESPASS = "STATE=$(echo $XDG_STATE_HOME/ralph/*-*); echo cheat > forbidden.txt; echo '# cheat' > .ralph.env"
FURNISHED = """
mkdir -p tools/prompts .ralph src lib.o
cp $PROMPTS/PROMPT_build.md $PROMPTS/PROMPT_task.md tools/prompts
echo mine > .ralph/PROMPT_mine.md; echo '# mine' > .ralph.env; echo 'a = 1' > src/a.py; echo '*.o' > .gitignore
cp src/a.py lib.o; git add -A; git add -f lib.o; git commit -qm all; git pack-refs --all
echo '{"requirement_id": "old"}' > history.jsonl; mkdir -p .git/hooks; echo "#!/bin/sh" > .git/hooks/post-merge
mkdir $OUT; cp -r .git $OUT/git; git rev-parse HEAD > $OUT/git/refs/heads/main; cp -r tools $OUT; cd $OUT
mkdir -p git/logs/refs/heads git/info git/objects/pack git/rebase-merge state/run sub/deep
for one in COMMIT_EDITMSG index.lock refs/heads/main.lock HEAD.lock; do echo "somebody's" > git/$one; done
for one in precious PROMPT_mine.md PROMPT_new.md .ralph.env feature.md one.txt state/file state/run/file \\
    state/UnfinishedIteration sub/a.py sub/deep/er sub/autostash; do echo "# $one, somebody's" > $one; done
"""


def table() -> Iterator[ParameterSet]:
    """Many links in each of the ways, another plant in one; with RALPH_TESTS_LONG=1 all in all."""
    for number, plant in enumerate(PLANTS):
        for way in WAYS if LONG or plant.startswith("links") else [[*WAYS][number % len(WAYS)]]:
            yield pytest.param(plant, way, id=f"{plant}-{way}")


@pytest.mark.parametrize(("plant", "way"), list(table()))
def test_nothing_is_touched_outside_of_the_tree(
    project: Project, agent: Agent, tmp_path: Path, plant: str, way: str
) -> None:
    """Such as a folder with all that ralph looks for in its own."""
    out = tmp_path / "out"
    project.env["OUT"] = str(out)
    project.does(FURNISHED, PROMPTS=str(CHECKOUT / "prompts"))
    (out / "feature_PROGRESS.md").write_text(progress_text("x one: The first", "x other: Another"))
    (project.root / "other_PROGRESS.md").write_text(progress_text("other: Another"))
    wants(project, ONE)
    before = everything_in(out)
    does, blocks, said = PLANTS[plant]
    deed = runs(f"{TRESPASS}; {does}; {KILL if way == 'killed' else ''}")
    if way == "only":
        agent.story(raw(init(), writes("src/b.py", "b = 1\n"), ticks("all"), deed, result()), step(), repeat=True)
    else:
        agent.story(tries(deed), tries(deed, writes("one.txt", "1")), tries(writes("one.txt", "1")), repeat=True)
    for _ in range(2 if way == "killed" or "$STATE" in does else 1):
        run = project.build(*WAYS[way], *KEPT_IN, "--max-iterations", "2")
        assert everything_in(out) == before, run.text
        assert "Traceback" not in run.text
        assert run.code in (0, 1, 2, 3, 4, -9), run.text
        if project.root.is_symlink():  # a start in the folder to which it leads is a start there
            left = project.root.with_name("repo.old") / project.progress.name
            assert way == "killed" or "leads to" in left.read_text()
            return
    assert said in run.text
    if blocks:
        assert run.code == 4, run.text
        why = project.progress_text.split("RALPH_BLOCKED: ralph: ")[1].split("\n")[0]
        missing = [one for one in blocks if one not in why]
        assert not missing or way == "killed", "where git no longer finds the repository, all of it is named"
    if BOTH_KEPT in blocks:
        assert {"#!/bin/sh\n", '{"requirement_id": "old"}\n'}.intersection(kept(project))


THERE = """
git init -q old; echo 1 > old/x; git init -q made; git -C made commit -q --allow-empty -m x
git init -q bare; echo > bare/x; mkfifo pipe
"""
NESTED = """
echo 2 > old/x; git -C made commit -q --allow-empty -m y; rm -rf bare/.git
git init -q sub; echo 'fn main' > sub/main.rs; git -C sub add main.rs; git -C sub commit -qm theirs
mkdir new; cp -r sub new
"""


def test_a_repository_within_is_left_alone_and_said_and_moved_whole_where_it_may_not_stay(
    project: Project, agent: Agent
) -> None:
    """What `git clone`, `cargo new` and the like leave; one that was there before, or a pipe, is nobody's to move."""
    project.does(THERE)
    wants(project, ONE)
    agent.story(tries(runs(NESTED), writes("one.txt", "1")), tries(writes("one.txt", "2")))
    run = project.build("--strict", "--only", "one.txt", "--only", "new/**")
    assert run.code == 0, run.text
    assert "new/sub/ has a repository of its own: left alone" in run.text
    assert (project.root / "new" / "sub" / ".git" / "HEAD").is_file()
    assert files_of(project) == ["one.txt"]
    assert not (project.root / "sub").exists()
    kept_whole = [path for path in (project.state_folders[0] / "kept").iterdir() if path.is_dir()]
    assert [(path / "main.rs").read_text() for path in kept_whole] == ["fn main\n"]
    assert (project.root / "old" / "x").read_text() == "2\n"
    assert [one for one in ("bare/x", "made/.git/HEAD", "pipe") if not (project.root / one).exists()] == []
