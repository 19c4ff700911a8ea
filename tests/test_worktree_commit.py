"""Committing exactly what an iteration changed, in a repository where a person has unfinished work."""

import os
from pathlib import Path

import pytest
from worktrees import Tree, first_tree, tree

from ralph import worktree
from ralph.errors import RalphError

__all__ = ["first_tree", "tree"]


def names_in(tree: Tree, commit: str = "HEAD") -> list[str]:
    listed = tree.git("diff-tree", "--root", "--no-commit-id", "--no-renames", "-r", "-z", "--name-status", commit)
    fields = listed.split("\0")
    return sorted(f"{what} {name}" for what, name in zip(fields[0::2], fields[1::2], strict=False))


def test_new_changed_and_deleted_files_are_committed_and_nothing_else(tree: Tree) -> None:
    tree.write("a.py", "a = 2\n")
    tree.write("run.sh", "staged by a person\n")
    tree.git("add", "run.sh")
    tree.write("persons.txt", "untracked\n")
    (tree.root / "src" / "b.py").unlink()
    tree.write("deep/new.py", "new\n")
    done = worktree.commit(
        tree.root, ["a.py", "src/b.py", "deep/new.py", "never/was"], "task-1: do it\n\nRalph-Task: task-1\n"
    )
    assert done == worktree.Committed(head=tree.head())
    assert names_in(tree) == ["A deep/new.py", "D src/b.py", "M a.py"]
    assert tree.git("status", "--porcelain") == "M  run.sh\n?? persons.txt\n"
    assert tree.git("log", "-1", "--format=%B").strip() == "task-1: do it\n\nRalph-Task: task-1"
    assert tree.git("log", "-1", "--format=%(trailers:key=Ralph-Task,valueonly)").strip() == "task-1"


def test_what_the_agent_staged_of_those_files_is_committed_as_it_is_now(tree: Tree) -> None:
    tree.write("a.py", "staged\n")
    tree.write("new.py", "staged\n")
    tree.git("add", "-A")
    tree.git("rm", "-q", "src/b.py")
    tree.git("mv", "run.sh", "moved.sh")
    tree.write("a.py", "now\n")
    worktree.commit(tree.root, ["a.py", "new.py", "src/b.py", "run.sh", "moved.sh"], "x")
    assert names_in(tree) == ["A moved.sh", "A new.py", "D run.sh", "D src/b.py", "M a.py"]
    assert tree.git("show", "HEAD:a.py") == "now\n"
    assert tree.git("status", "--porcelain") == ""


ODD = ["-rf", "*.py", "new\nline", os.fsdecode(b"caf\xe9"), ":(top)x", ":!y", " ", '"q"', "é", "#x", "[ab].py"]


def test_odd_names_are_names(tree: Tree) -> None:
    for name in ODD:
        tree.write(name, "x")
    tree.write("c.py", "not this one\n")
    assert worktree.commit(tree.root, ODD, "odd").failed == ""
    assert names_in(tree) == sorted(f"A {name}" for name in ODD)
    assert tree.git("status", "--porcelain") == "?? c.py\n"


def test_a_file_for_a_folder_and_the_other_way_round(tree: Tree) -> None:
    (tree.root / "src" / "b.py").unlink()
    (tree.root / "src").rmdir()
    tree.write("src", "a file now\n")
    (tree.root / "a.py").unlink()
    tree.write("a.py/inside", "a folder now\n")
    (tree.root / "link").unlink()
    tree.write("link", "a file\n")
    (tree.root / "run.sh").chmod(0o644)
    names = ["src", "src/b.py", "a.py", "a.py/inside", "link", "run.sh"]
    assert worktree.commit(tree.root, names, "x").failed == ""
    assert names_in(tree) == ["A a.py/inside", "A src", "D a.py", "D src/b.py", "M run.sh", "T link"]
    assert tree.git("status", "--porcelain") == ""


def test_nothing_to_commit_is_no_failure(tree: Tree) -> None:
    before = tree.head(), tree.state()
    assert worktree.commit(tree.root, ["a.py", "no.such"], "x") == worktree.Committed()
    assert worktree.commit(tree.root, [], "x") == worktree.Committed()
    assert (tree.head(), tree.state()) == before


def test_ignored_files_are_left_out(tree: Tree) -> None:
    tree.write("noise.log", "x")
    tree.write("a.py", "a = 2\n")
    worktree.commit(tree.root, ["noise.log", "a.py"], "x")
    assert names_in(tree) == ["M a.py"]


def test_the_first_commit_of_all(tmp_path: Path, tree: Tree) -> None:
    empty = Tree(tmp_path / "empty")
    empty.git("init", "-q", "--template=")
    empty.write("a.py", "a\n")
    empty.write("b.py", "b\n")
    empty.git("add", "b.py")
    assert worktree.commit(empty.root, ["a.py"], "first").head == empty.head() != ""
    assert empty.git("ls-tree", "-r", "--name-only", "HEAD") == "a.py\n"
    assert empty.git("status", "--porcelain") == "A  b.py\n"
    del tree


def test_from_a_subfolder_names_are_those_of_the_whole_tree(tree: Tree) -> None:
    tree.write("a.py", "a = 2\n")
    assert worktree.commit(tree.root / "src", ["a.py"], "x").head


def hook(tree: Tree, name: str, script: str) -> None:
    tree.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n", 0o755)


def test_hooks_run_and_one_that_fails_says_why_and_leaves_all_as_it_was(tree: Tree) -> None:
    hook(tree, "pre-commit", "echo checking; git diff --cached --name-only -- '*.py'; echo '\033[31mno good'; exit 3")
    tree.write("a.py", "a = 2\n")
    tree.write("new.py", "new\n")
    tree.write("run.sh", "staged by a person\n")
    tree.git("add", "run.sh")
    before = tree.state()
    done = worktree.commit(tree.root, ["a.py", "new.py"], "x")
    assert done.head == ""
    assert done.failed == "git commit exited with 1\nchecking\na.py\nnew.py\nno good"
    assert tree.state() == before


def test_a_hook_may_reformat_what_is_committed(tree: Tree) -> None:
    hook(tree, "pre-commit", "echo formatted > a.py; git add a.py")
    tree.write("a.py", "a=2\n")
    assert worktree.commit(tree.root, ["a.py"], "x").head == tree.head()
    assert tree.git("show", "HEAD:a.py") == "formatted\n"


def test_a_hook_that_waits_for_an_answer_gets_none(tree: Tree) -> None:
    hook(tree, "commit-msg", "read answer && exit 0; echo nobody there; exit 1")
    tree.write("a.py", "a = 2\n")
    assert "nobody there" in worktree.commit(tree.root, ["a.py"], "x").failed


def test_a_lock_that_a_hook_leaves_is_no_obstacle_for_the_next_try(tree: Tree) -> None:
    hook(tree, "pre-commit", "touch .git/HEAD.lock; exit 1")
    tree.write("a.py", "a = 2\n")
    assert worktree.commit(tree.root, ["a.py"], "x").failed
    (tree.root / ".git" / "hooks" / "pre-commit").unlink()
    assert worktree.commit(tree.root, ["a.py"], "x").head


def test_a_persons_intention_to_add_stays_one(tree: Tree) -> None:
    tree.write("later.py", "x\n")
    tree.git("add", "-N", "later.py")
    tree.write("a.py", "a = 2\n")
    assert worktree.commit(tree.root, ["a.py"], "x").head
    assert tree.git("status", "--porcelain") == " A later.py\n"


def test_lines_of_the_message_with_a_hash_are_no_comments(tree: Tree) -> None:
    tree.write("a.py", "a = 2\n")
    tree.git("config", "commit.cleanup", "strip")
    worktree.commit(tree.root, ["a.py"], "task: x\n\n# not a comment\n-m no option")
    assert tree.git("log", "-1", "--format=%B").strip() == "task: x\n\n# not a comment\n-m no option"


def test_a_healthy_repository_can_be_committed_to(tree: Tree) -> None:
    worktree.check_can_commit(tree.root)


def test_who_commits_must_be_known(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    tree.git("config", "user.useConfigOnly", "true")
    with pytest.raises(RalphError, match="does not know who commits"):
        worktree.check_can_commit(tree.root)


def test_no_commit_in_the_middle_of_a_merge(tree: Tree) -> None:
    tree.git("checkout", "-q", "-b", "side")
    tree.git("commit", "-q", "--allow-empty", "-m", "side")
    tree.git("checkout", "-q", "main")
    tree.git("merge", "-q", "--no-ff", "--no-commit", "side")
    with pytest.raises(RalphError, match="a merge is not finished"):
        worktree.check_can_commit(tree.root)


def test_signing_that_cannot_work_is_said_before(tree: Tree) -> None:
    tree.git("config", "commit.gpgSign", "true")
    tree.git("config", "gpg.program", "false")
    with pytest.raises(RalphError, match="to be signed here, and that fails"):
        worktree.check_can_commit(tree.root)


def test_no_repository_no_commits(tmp_path: Path) -> None:
    assert not worktree.is_repository(tmp_path)
    with pytest.raises(RalphError, match="is in no git repository"):
        worktree.check_can_commit(tmp_path)
