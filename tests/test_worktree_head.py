"""HEAD and its branch: back where they were, whatever an agent did to them, and nothing of it lost."""

import shutil
from pathlib import Path

import pytest
from worktrees import Tree, first_tree, tree

from ralph import worktree
from ralph.errors import RalphError

__all__ = ["first_tree", "tree"]


def back(tree: Tree, snapshot: worktree.Snapshot) -> worktree.Moved:
    moved = worktree.head_back(snapshot, "try-1")
    assert moved is not None
    assert tree.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert tree.head() == snapshot.head.commit
    return moved


def test_nothing_is_said_where_nothing_moved(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("a.py", "a = 2\n")
    assert worktree.head_back(snapshot, "try-1") is None
    assert not tree.git("for-each-ref", "refs/ralph")


def test_a_commit_becomes_uncommitted_changes_and_is_kept(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("a.py", "a = 2\n")
    tree.write("new.py", "new\n")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "the agent's")
    commit = tree.head()
    moved = back(tree, snapshot)
    assert moved == worktree.Moved(kept_ref="refs/ralph/kept/try-1", commits=1, rewritten=False)
    assert tree.git("rev-parse", moved.kept_ref).strip() == commit
    assert tree.git("status", "--porcelain") == " M a.py\n?? new.py\n"
    assert (tree.root / "a.py").read_text() == "a = 2\n"


def test_what_a_person_had_staged_is_staged_again(tree: Tree) -> None:
    tree.write("a.py", "staged\n")
    tree.git("add", "a.py")
    tree.write("a.py", "unstaged\n")
    before = tree.state()
    snapshot = tree.take()
    tree.git("commit", "-qam", "all of it")
    back(tree, snapshot)
    # with a newer time, git would overlook what was changed in the moment of the last staging
    assert (tree.root / ".git" / "index").stat().st_mtime_ns == snapshot.index_mtime_ns
    assert tree.state() == before


def test_two_tries_of_one_name_are_both_kept(tree: Tree) -> None:
    snapshot = tree.take()
    for _ in range(2):
        tree.git("commit", "-q", "--allow-empty", "-m", "empty")
        moved = back(tree, snapshot)
        tree.git("commit", "-q", "--allow-empty", "-m", "another")
    assert back(tree, snapshot).kept_ref == "refs/ralph/kept/try-1-3"
    assert moved.kept_ref == "refs/ralph/kept/try-1-2"


REWRITES = {
    "reset --hard to an earlier commit": ["reset -q --hard HEAD~1"],
    "amend": ["commit -q --amend -m nicer"],
    "rebase onto a side branch": ["rebase -q side"],
    "reset and commit anew": ["reset -q --soft HEAD~1", "commit -q -m one"],
    "a lonely branch": ["checkout -q --orphan lone", "commit -q -m lone"],
    "branch forced elsewhere": ["checkout -q --detach", "branch -f main side"],
}


@pytest.fixture
def longer(tree: Tree) -> Tree:
    tree.git("checkout", "-q", "-b", "side")
    tree.write("side.txt", "side\n")
    tree.git("add", "side.txt")
    tree.git("commit", "-qm", "side")
    tree.git("checkout", "-q", "main")
    tree.write("a.py", "a = 3\n")
    tree.git("commit", "-qam", "second")
    return tree


@pytest.mark.parametrize("commands", REWRITES.values(), ids=REWRITES)
def test_rewritten_history_comes_back(longer: Tree, commands: list[str]) -> None:
    before = longer.state()
    snapshot = longer.take()
    for command in commands:
        longer.git(*command.split())
    assert back(longer, snapshot).rewritten
    longer.all_back(snapshot)
    assert longer.state() == before


MOVES = {
    "a new branch": ["checkout -q -b mine"],
    "no branch": ["checkout -q --detach"],
    "another's branch": ["checkout -q side"],
    "an unborn branch": ["checkout -q --orphan lone"],
    "the branch renamed": ["branch -m evil"],
    "the branch renamed into a folder of its name": ["branch -m tmp", "branch -m main/sub"],
    "the branch deleted": ["checkout -q --detach", "branch -q -D main"],
    "HEAD as a link to another branch": ["symbolic-ref HEAD refs/heads/side"],
    "the branch as a link to another": ["symbolic-ref refs/heads/main refs/heads/side"],
}


@pytest.mark.parametrize("commands", MOVES.values(), ids=MOVES)
def test_head_comes_back_from(longer: Tree, commands: list[str]) -> None:
    before = longer.state()
    sides = longer.git("rev-parse", "side")
    snapshot = longer.take()
    for command in commands:
        longer.git(*command.split())
    moved = back(longer, snapshot)
    assert (moved.commits, moved.kept_ref) == (0, "") or "main/sub" in str(commands)
    longer.all_back(snapshot)
    assert longer.state() == before
    assert longer.git("rev-parse", "side") == sides


def test_commits_on_a_branch_of_its_own_are_counted(longer: Tree) -> None:
    snapshot = longer.take()
    longer.git("checkout", "-q", "-b", "mine")
    for _ in range(3):
        longer.git("commit", "-q", "--allow-empty", "-m", "x")
    moved = back(longer, snapshot)
    assert (moved.commits, moved.rewritten) == (3, False)
    assert longer.git("rev-parse", "mine") == longer.git("rev-parse", moved.kept_ref)


UNFINISHED = {
    "merge": "merge --no-ff --no-commit side",
    "conflict": "merge clash",
    "rebase": "rebase clash",
    "cherry-pick": "cherry-pick clash",
    "revert": "revert --no-commit HEAD",
}


@pytest.mark.parametrize("command", UNFINISHED.values(), ids=UNFINISHED)
def test_what_is_unfinished_is_ended(longer: Tree, command: str) -> None:
    longer.git("checkout", "-q", "-b", "clash", "HEAD~1")
    longer.write("a.py", "a = 4\n")
    longer.git("commit", "-qam", "clash")
    longer.git("checkout", "-q", "main")
    before = longer.state()
    snapshot = longer.take()
    longer.tries(*command.split())
    moved = back(longer, snapshot)
    assert moved.ended == (command.split(maxsplit=1)[0],)
    assert (moved.kept_ref, moved.commits) == ("", 0)
    longer.all_back(snapshot)
    assert longer.state() == before
    assert "HEAD\n" not in longer.git("status")
    worktree.check_can_commit(longer.root)


def test_a_persons_work_that_a_rebase_put_aside_is_kept_and_comes_back(longer: Tree) -> None:
    longer.git("checkout", "-q", "-b", "clash", "HEAD~1")
    longer.write("a.py", "a = 4\n")
    longer.git("commit", "-qam", "clash")
    longer.git("checkout", "-q", "main")
    longer.write("src/b.py", "b = mine\n")
    before = longer.state()
    snapshot = longer.take()
    longer.tries("rebase", "--autostash", "clash")
    back(longer, snapshot)
    assert longer.git("show", "refs/ralph/kept/try-1-autostash:src/b.py") == "b = mine\n"
    longer.all_back(snapshot)
    assert longer.state() == before


def test_before_the_first_commit(tree: Tree, tmp_path: Path) -> None:
    empty = Tree(tmp_path / "empty")
    empty.git("init", "-q", "--template=")
    empty.write("a.py", "a\n")
    empty.write("b.py", "b\n")
    empty.git("add", "a.py")
    before = empty.state()
    snapshot = empty.take()
    empty.git("add", "-A")
    empty.git("commit", "-qm", "first")
    moved = worktree.head_back(snapshot, "try-1")
    assert moved == worktree.Moved(kept_ref="refs/ralph/kept/try-1", commits=1, rewritten=False)
    assert empty.state() == before
    del tree


def test_a_head_on_no_branch(longer: Tree) -> None:
    longer.git("checkout", "-q", "--detach", "HEAD~1")
    before = longer.state()
    snapshot = longer.take()
    longer.git("checkout", "-q", "main")
    assert worktree.head_back(snapshot, "try-1") == worktree.Moved(kept_ref="", commits=0, rewritten=False)
    longer.all_back(snapshot)
    assert longer.state() == before


def test_a_worktree_of_its_own_leaves_the_others_alone(longer: Tree) -> None:
    longer.git("worktree", "add", "-q", "../linked", "-b", "linked")
    there = longer.root.parent / "linked"
    (there / "untracked").write_text("x")
    snapshot = worktree.take(there, longer.store, [])
    assert snapshot.root == there
    longer.git("-C", str(there), "checkout", "-q", "--detach", "HEAD~1")
    longer.git("-C", str(there), "config", "core.hooksPath", "/evil")
    main = longer.state()
    assert worktree.settings_back(snapshot, longer.keep) == (".git/config",)
    assert worktree.head_back(snapshot, "try-1")
    worktree.put_back(snapshot, worktree.changed(snapshot), longer.keep)
    assert longer.git("-C", str(there), "status", "--porcelain", "--branch") == "## linked\n?? untracked\n"
    assert longer.state() == main


@pytest.mark.parametrize("garbage", ["", "nonsense\n"])
def test_a_head_that_git_cannot_read_comes_back(tree: Tree, garbage: str) -> None:
    before = tree.state()
    snapshot = tree.take()
    (tree.root / ".git" / "HEAD").write_text(garbage)
    assert worktree.head_back(snapshot, "try-1") is None
    assert tree.state() == before
    (tree.root / ".git" / "HEAD").write_text(garbage)
    tree.all_back(snapshot)
    assert tree.state() == before


def test_a_lock_that_a_killed_git_left_is_no_obstacle(tree: Tree) -> None:
    snapshot = tree.take()
    tree.git("commit", "-q", "--allow-empty", "-m", "x")
    for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock"):
        (tree.root / ".git" / name).write_text("")
    assert back(tree, snapshot).commits == 1
    assert not list((tree.root / ".git").rglob("*.lock"))


def test_pruning_all_that_has_no_name_does_not_lose_the_commit(longer: Tree) -> None:
    before = longer.state()
    snapshot = longer.take()
    longer.git("checkout", "-q", "side")
    longer.git("branch", "-q", "-D", "main")
    longer.git("reflog", "expire", "--all", "--expire=now")
    longer.git("gc", "-q", "--prune=now")
    back(longer, snapshot)
    longer.all_back(snapshot)
    assert longer.state() == before


def test_a_commit_that_is_gone_is_said(tree: Tree) -> None:
    snapshot = tree.take()
    shutil.rmtree(tree.root / ".git")
    tree.git("init", "-q", "--template=")
    with pytest.raises(RalphError, match="is gone"):
        worktree.head_back(snapshot, "try-1")


def test_everything_as_it_is_can_be_kept_without_touching_it(tree: Tree) -> None:
    tree.write("a.py", "staged\n")
    tree.git("add", "a.py")
    tree.write("a.py", "now\n")
    tree.write("new.txt", "new\n")
    tree.write("noise.log", "ignored\n")
    (tree.root / "src" / "b.py").unlink()
    snapshot = tree.take()
    before = tree.state()
    ref = worktree.keep(snapshot, "thrown-away", "What was thrown away")
    assert tree.state() == before
    assert ref == "refs/ralph/kept/thrown-away"
    assert tree.git("show", f"{ref}:a.py") == "now\n"
    names = tree.git("ls-tree", "-r", "--name-only", ref).split()
    assert names == [".gitignore", "a.py", "link", "new.txt", "run.sh"]
    assert tree.git("log", "-1", "--format=%s|%an|%P", ref).strip() == f"What was thrown away|ralph|{tree.head()}"
