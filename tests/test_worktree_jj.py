"""Projects under jj: a stand-in notes how it is called, in the form of jj's own manual."""

import json
import os
from pathlib import Path

import pytest
from worktrees import Tree, first_tree, surround, tree

from ralph import worktree
from ralph.errors import RalphError

__all__ = ["first_tree", "tree"]

STAND_IN = """#!/bin/sh
# jj, as far as ralph asks it: what it answers lies in files, what it is asked is noted
cd "$JJ_STAND_IN" || exit 9
[ "$1 $2" = "--no-pager --color=never" ] || exit 8
shift 2
for word; do printf '%s\\0' "$word"; done >> asked; echo >> asked
case "$*" in
    "log --no-graph -r @- "*) cat parents ;;
    "log --no-graph -r @ "*) printf here ;;
    "log --no-graph -r ("*")..@- "*) printf 'n1\\nn2\\n' ;;
    "op log --no-graph --limit 1 -T id") printf op1 ;;
    "op restore op1") printf 'p1\\n' > parents ;;
    "diff --name-only "*) cat differing ;;
    "commit --message "*) [ -e refuses ] && { echo "Error: refused" >&2; exit 1; }; printf 'c1\\n' > parents ;;
    "bookmark set --allow-backwards ralph/kept/"*" -r here" | "restore --from here") ;;
    "config get user."*) [ -e nobody ] && exit 1; echo somebody ;;
    *) echo "Error: unexpected argument" >&2; exit 2 ;;
esac
"""


class Jj:
    """The stand-in's folder: what it shall answer, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "parents").write_text("p1\n")
        (folder / "differing").write_text("a.py\n")

    def asked(self) -> list[list[str]]:
        lines = (self.folder / "asked").read_text().split("\0\n")
        return [line.split("\0") for line in lines if line]


@pytest.fixture
def jj(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jj:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "jj").write_text(STAND_IN)
    (programs / "jj").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("JJ_STAND_IN", str(tmp_path / "jj"))
    return Jj(tmp_path / "jj")


@pytest.fixture
def alone(tmp_path: Path, jj: Jj, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A project that only jj knows."""
    del jj
    surround(monkeypatch, repository / "home")
    made = Tree(tmp_path)
    (made.root / ".jj" / "repo").mkdir(parents=True)
    made.write(".gitignore", "*.log\n")
    made.write("a.py", "a = 1\n")
    made.write("src/b.py", "b = 1\n")
    return made


def files(tree: Tree) -> dict[str, tuple[str, bytes]]:
    return {name: tree.file(name) for name in tree.files()}


def test_without_git_everything_is_noticed_and_put_back(alone: Tree) -> None:
    assert worktree.is_repository(alone.root)
    alone.write("noise.log", "x")
    before = files(alone)
    snapshot = alone.take()
    assert worktree.changed(snapshot) == ()
    alone.write("a.py", "a = 2\n")
    (alone.root / "src" / "b.py").unlink()
    alone.write("new.py", "new\n")
    alone.write("noise.log", "x")
    assert worktree.settings_back(snapshot, alone.keep) == ()
    assert worktree.head_back(snapshot, "try-1") is None
    assert worktree.changed(snapshot) == ("a.py", "new.py", "src/b.py")
    worktree.put_back(snapshot, worktree.changed(snapshot), alone.keep)
    assert files(alone) == before
    assert alone.kept_bytes() == {b"a = 2\n", b"new\n"}
    assert not (alone.root / ".git").exists()


def test_everything_can_be_kept_without_git_too(alone: Tree) -> None:
    snapshot = alone.take()
    alone.write("a.py", "a = 2\n")
    ref = worktree.keep(snapshot, "thrown-away", "x")
    alone.git("--git-dir", str(snapshot.repository.git_dir), "cat-file", "-e", f"{ref}:src/b.py")


def test_commits_of_the_agents_are_taken_back_and_have_a_bookmark(alone: Tree, jj: Jj) -> None:
    snapshot = alone.take()
    (jj.folder / "parents").write_text("n2\n")
    moved = worktree.head_back(snapshot, "try-1")
    assert moved == worktree.Moved(kept_ref="ralph/kept/try-1", commits=2, rewritten=False)
    assert jj.asked()[-3:] == [
        ["op", "restore", "op1"],
        ["bookmark", "set", "--allow-backwards", "ralph/kept/try-1", "-r", "here"],
        ["restore", "--from", "here"],
    ]
    assert worktree.head_back(snapshot, "try-1") is None


ODD = ['say "x"', "back\\slash", "new\nline", "é", "a(b) | c"]


def test_jj_commits_exactly_these_files(alone: Tree, jj: Jj) -> None:
    assert worktree.commit(alone.root, ["a.py", *ODD], "task: x\n\nbody") == worktree.Committed(head="c1")
    _, committed, _ = jj.asked()
    assert committed[:3] == ["commit", "--message", "task: x\n\nbody"]
    quoted = sorted(name for name in committed[3:])
    assert quoted == sorted(f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in ["a.py", *ODD])


def test_nothing_to_commit_is_no_failure_and_no_empty_commit(alone: Tree, jj: Jj) -> None:
    (jj.folder / "differing").write_text("")
    assert worktree.commit(alone.root, ["a.py"], "x") == worktree.Committed()
    assert worktree.commit(alone.root, [], "x") == worktree.Committed()
    assert all(words[0] == "diff" for words in jj.asked())


def test_a_commit_that_jj_refuses_is_told(alone: Tree, jj: Jj) -> None:
    (jj.folder / "refuses").touch()
    assert worktree.commit(alone.root, ["a.py"], "x") == worktree.Committed(failed="refused")


def test_who_commits_must_be_known_to_jj(alone: Tree, jj: Jj) -> None:
    worktree.check_can_commit(alone.root)
    (jj.folder / "nobody").touch()
    with pytest.raises(RalphError, match="jj does not know who commits"):
        worktree.check_can_commit(alone.root)


def test_where_git_and_jj_share_a_folder_jj_commits_and_git_tells_what_changed(tree: Tree, jj: Jj) -> None:
    (tree.root / ".jj").mkdir()
    tree.write(".jj/.gitignore", "/*\n")
    before = tree.state()
    snapshot = tree.take()
    tree.write("a.py", "a = 2\n")
    assert worktree.changed(snapshot) == ("a.py",)
    assert worktree.commit(tree.root, ["a.py"], "x").head == "c1"
    tree.all_back(snapshot)
    assert tree.state() == before
    assert ["op", "restore", "op1"] in jj.asked()


def test_without_the_program_a_shared_folder_is_gits(tree: Tree) -> None:
    (tree.root / ".jj").mkdir()
    tree.write("a.py", "a = 2\n")
    assert worktree.commit(tree.root, ["a.py"], "x").head == tree.head()
