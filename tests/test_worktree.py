"""What an iteration changed is noticed, however it was done, and put back to the byte; nothing is lost over it."""

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from worktrees import Tree, contents, first_tree, tree

from ralph import worktree
from ralph.errors import RalphError
from ralph.worktree.disk import looks

__all__ = ["first_tree", "tree"]


def moved(tree: Tree) -> None:
    tree.git("mv", "a.py", "c.py")


def linked(tree: Tree) -> None:
    (tree.root / "a.py").unlink()
    (tree.root / "a.py").symlink_to("run.sh")


def relinked(tree: Tree) -> None:
    (tree.root / "link").unlink()
    (tree.root / "link").symlink_to("run.sh")


def piped(tree: Tree) -> None:
    (tree.root / "a.py").unlink()
    os.mkfifo(tree.root / "a.py")


def made_folder(tree: Tree) -> None:
    (tree.root / "a.py").unlink()
    tree.write("a.py/inside", "x")


def made_file(tree: Tree) -> None:
    shutil.rmtree(tree.root / "src")
    tree.write("src", "x")


def of_the_same_size_and_time(tree: Tree) -> None:
    before = (tree.root / "a.py").stat()
    tree.write("a.py", "a = 2\n")
    os.utime(tree.root / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))


def hidden(option: str) -> Callable[[Tree], None]:
    def hide(tree: Tree) -> None:
        tree.git("update-index", option, "a.py")
        tree.write("a.py", "a = 2\n")

    return hide


def staged_and_taken_back(tree: Tree) -> None:
    tree.write("a.py", "x")
    tree.git("add", "a.py")
    tree.write("a.py", "a = 1\n")


def unborn_in_index(tree: Tree) -> None:
    tree.write("new.py", "")
    tree.git("add", "-N", "new.py")


def without_an_index(tree: Tree) -> None:
    (tree.root / ".git" / "index").unlink()


def with_a_spoilt_index(tree: Tree) -> None:
    (tree.root / ".git" / "index").write_bytes(b"DIRC nonsense")
    tree.write("a.py", "a = 2\n")


def by_a_lying_filter(tree: Tree) -> None:
    tree.write(".git/info/attributes", "a.py filter=lie\n")
    tree.git("config", "filter.lie.clean", "git show HEAD:a.py")
    tree.write("a.py", "a = 2\n")


def by_a_lying_monitor(tree: Tree) -> None:
    tree.git("config", "core.fsmonitor", "true; printf '1\\0'; :")
    tree.write("a.py", "a = 2\n")
    tree.write("new.py", "x\n")


def by_a_replaced_object(tree: Tree) -> None:
    tree.write("a.py", "a = 2\n")
    blob = tree.git("hash-object", "-w", "a.py").strip()
    tree.git("replace", tree.git("rev-parse", "HEAD:a.py").strip(), blob)


def in_a_locked_folder(tree: Tree) -> None:
    (tree.root / "src" / "b.py").unlink()
    (tree.root / "src").chmod(0o555)


MISCHIEF: dict[str, tuple[Callable[[Tree], object], set[str]]] = {
    "changed": (lambda tree: tree.write("a.py", "a = 2\n"), {"a.py"}),
    "emptied": (lambda tree: tree.write("a.py", ""), {"a.py"}),
    "gone": (lambda tree: (tree.root / "a.py").unlink(), {"a.py"}),
    "new": (lambda tree: tree.write("new/er.py", "x"), {"new/er.py"}),
    "executable": (lambda tree: (tree.root / "a.py").chmod(0o755), {"a.py"}),
    "not readable for others": (lambda tree: (tree.root / "a.py").chmod(0o600), {"a.py"}),
    "renamed": (moved, {"a.py", "c.py"}),
    "a link in place of a file": (linked, {"a.py"}),
    "a link to somewhere else": (relinked, {"link"}),
    "a pipe in place of a file": (piped, {"a.py"}),
    "a folder in place of a file": (made_folder, {"a.py", "a.py/inside"}),
    "a file in place of a folder": (made_file, {"src", "src/b.py"}),
    "staged and taken back": (staged_and_taken_back, {"a.py"}),
    "no longer tracked": (lambda tree: tree.git("rm", "-q", "--cached", "a.py"), {"a.py"}),
    "intended to be added": (unborn_in_index, {"new.py"}),
    "of the same size and time": (of_the_same_size_and_time, {"a.py"}),
    "assumed unchanged": (hidden("--assume-unchanged"), {"a.py"}),
    "skipped in the tree": (hidden("--skip-worktree"), {"a.py"}),
    "the index gone": (without_an_index, {".gitignore", "a.py", "link", "run.sh", "src/b.py"}),
    "the index spoilt": (with_a_spoilt_index, {"a.py"}),
    "a filter that lies": (by_a_lying_filter, {"a.py"}),
    "a monitor that lies": (by_a_lying_monitor, {"a.py", "new.py"}),
    "an object replaced": (by_a_replaced_object, {"a.py"}),
    "a folder locked": (in_a_locked_folder, {"src/b.py"}),
}


@pytest.mark.parametrize(("mischief", "names"), MISCHIEF.values(), ids=MISCHIEF)
def test_is_noticed_and_put_back(tree: Tree, mischief: Callable[[Tree], object], names: set[str]) -> None:
    before = tree.state()
    snapshot = tree.take()
    assert worktree.changed(snapshot) == ()
    mischief(tree)
    worktree.settings_back(snapshot, tree.keep)
    assert set(worktree.changed(snapshot)) == names
    worktree.put_back(snapshot, worktree.changed(snapshot), tree.keep)
    shutil.rmtree(tree.root / ".git" / "refs" / "replace", ignore_errors=True)
    assert tree.state() == before
    assert worktree.changed(snapshot) == ()


def unfinished_work(tree: Tree) -> None:
    """A bit of everything that a person may leave uncommitted."""
    tree.write("both.txt", b"first\n")
    tree.write("mode.sh", "x\n")
    tree.write("deleted.txt", "x\n")
    tree.write("crlf.txt", "x\n")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "more")
    tree.write("both.txt", b"staged \x00\xff\n")
    tree.git("add", "both.txt")
    tree.write("both.txt", b"unstaged \x00\xfe\n")
    (tree.root / "mode.sh").chmod(0o755)
    (tree.root / "deleted.txt").unlink()
    tree.write("crlf.txt", "x\r\n")
    tree.write("intended.txt", "x\n")
    tree.write("gone intended.txt", "x\n")
    tree.write("staged new.txt", "x\n")
    tree.git("add", "staged new.txt")
    tree.git("add", "-N", "intended.txt", "gone intended.txt")
    (tree.root / "gone intended.txt").unlink()
    tree.git("mv", "a.py", "renamed.py")
    tree.write("untracked \n name", "mine\n", 0o600)
    tree.git("update-index", "--assume-unchanged", "run.sh")
    tree.write("run.sh", "mine alone\n")
    tree.write("empty", "")
    tree.git("add", "-N", "empty")


RAMPAGES = {
    "hard reset": ["reset -q --hard", "clean -qfd"],
    "all committed": ["add -A", "commit -qm all"],
    "all stashed": ["add -A", "stash -q -u"],
    "all unstaged": ["reset -q"],
    "all staged": ["add -A"],
    "everything removed": ["rm -rqf ."],
    "reset and pruned": ["reset -q --hard", "reflog expire --expire=now --all", "gc -q --prune=now"],
}


@pytest.mark.parametrize("commands", RAMPAGES.values(), ids=RAMPAGES)
def test_a_persons_unfinished_work_survives(tree: Tree, commands: list[str]) -> None:
    unfinished_work(tree)
    before = tree.state()
    snapshot = tree.take()
    assert worktree.changed(snapshot) == ()
    for command in commands:
        tree.git(*command.split())
    assert tree.state() != before
    tree.all_back(snapshot)
    assert tree.state() == before


def test_what_is_overwritten_or_moved_away_is_kept(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("a.py", "the agent's\n")
    tree.write("new.py", "also the agent's\n")
    tree.write("deep/er/new.py", "deeper\n")
    (tree.root / "deep" / "dangling").symlink_to("nowhere")
    kept = worktree.put_back(snapshot, worktree.changed(snapshot), tree.keep)
    assert {path.read_bytes() for path in kept} == {b"the agent's\n", b"also the agent's\n", b"deeper\n", b"nowhere"}
    assert not (tree.root / "deep").exists()


def test_only_the_named_files_are_put_back(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("a.py", "a = 2\n")
    tree.write("tests/new.py", "x\n")
    tree.write("src/b.py", "b = 2\n")
    tree.git("add", "-A")
    outside = [name for name in worktree.changed(snapshot) if not worktree.allowed(name, ["tests/**", "src"])]
    assert outside == ["a.py"]
    worktree.put_back(snapshot, outside, tree.keep)
    assert tree.git("status", "--porcelain") == "M  src/b.py\nA  tests/new.py\n"


def test_nothing_is_written_through_a_link_out_of_the_tree(tree: Tree) -> None:
    elsewhere = tree.elsewhere
    (elsewhere / "b.py").write_text("somebody's\n")
    before = tree.state()
    snapshot = tree.take()
    shutil.rmtree(tree.root / "src")
    (tree.root / "src").symlink_to(elsewhere)
    (tree.root / "a.py").unlink()
    (tree.root / "a.py").symlink_to(elsewhere / "b.py")
    assert worktree.changed(snapshot) == ("a.py", "src", "src/b.py")
    worktree.put_back(snapshot, ["src/b.py", "a.py"], tree.keep)
    assert (elsewhere / "b.py").read_text() == "somebody's\n"
    assert sorted(contents(elsewhere)) == ["b.py", "precious"]
    assert tree.state() == before


def hide_by_exclude(tree: Tree) -> None:
    tree.write(".git/info/exclude", "*.py\n")


def hide_by_config(tree: Tree) -> None:
    tree.write(".git/rules", "*.py\n")
    tree.git("config", "core.excludesFile", str(tree.root / ".git" / "rules"))


def hide_by_gitignore(tree: Tree) -> None:
    tree.write(".gitignore", "*.log\nbuild/\n*.py\n")


def hide_by_a_new_gitignore(tree: Tree) -> None:
    tree.write("src/deep/.gitignore", "*\n")


def hide_by_a_folders_name(tree: Tree) -> None:
    tree.write(".gitignore", "*.log\nbuild/\ndeep\n")


def hide_in_a_repository(tree: Tree) -> None:
    tree.git("init", "-q", "--template=", "src/deep")


HIDING = [
    hide_by_exclude,
    hide_by_config,
    hide_by_gitignore,
    hide_by_a_new_gitignore,
    hide_by_a_folders_name,
    hide_in_a_repository,
]


@pytest.mark.parametrize("hide", HIDING)
@pytest.mark.parametrize("settings_first", [True, False])
def test_rules_of_the_iterations_own_hide_nothing(
    tree: Tree, hide: Callable[[Tree], None], settings_first: bool
) -> None:
    before = tree.state()
    snapshot = tree.take()
    tree.write("src/deep/new.py", "hidden?\n")
    hide(tree)
    if settings_first:
        worktree.settings_back(snapshot, tree.keep)
    assert {"src/deep/new.py", "src/deep"}.intersection(worktree.changed(snapshot))  # a repository within is one thing
    tree.all_back(snapshot)
    assert tree.state() == before
    assert b"hidden?\n" in tree.kept_bytes()


def test_what_was_untracked_and_is_ignored_now_is_still_watched(tree: Tree) -> None:
    tree.write("notes.txt", "a person's\n")
    snapshot = tree.take()
    tree.write(".gitignore", "notes.txt\n")
    tree.write("notes.txt", "the agent's\n")
    assert worktree.changed(snapshot) == (".gitignore", "notes.txt")
    worktree.put_back(snapshot, ["notes.txt"], tree.keep)
    assert (tree.root / "notes.txt").read_text() == "a person's\n"


def test_ignored_files_are_left_alone_whatever_becomes_of_the_rules(tree: Tree) -> None:
    tree.write("secret.log", "a person's\n")
    tree.write("build/old", "x\n")
    snapshot = tree.take()
    (tree.root / ".gitignore").unlink()
    tree.write("build/new", "x\n")
    tree.write("other.log", "x\n")
    tree.git("add", "-f", "secret.log", "build/new", "other.log")
    assert worktree.changed(snapshot) == (".gitignore", "build/new", "other.log", "secret.log")
    tree.all_back(snapshot)
    assert worktree.changed(snapshot) == ()
    assert {"secret.log", "build/old", "build/new", "other.log"} <= set(tree.files())
    assert tree.git("status", "--porcelain") == ""


def test_what_old_rules_ignore_is_ignored_though_they_are_gone(tree: Tree) -> None:
    tree.write(".git/info/exclude", "*.tmp\n")
    tree.write(".git/rules", "*.bak\n")
    tree.git("config", "core.excludesFile", str(tree.root / ".git" / "rules"))
    snapshot = tree.take()
    for name in (".git/info/exclude", ".git/rules", ".gitignore"):
        (tree.root / name).unlink()
    for name in ("src/x.tmp", "src/x.bak", "src/x.log", "build/x", "src/x.py"):
        tree.write(name, "x")
    assert worktree.changed(snapshot) == (".gitignore", "src/x.py")


def test_a_tools_own_cache_is_left_alone_but_not_what_only_says_so(tree: Tree) -> None:
    snapshot = tree.take()
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n"
    for folder in (".pytest_cache", "src"):
        tree.write(f"{folder}/.gitignore", "*\n")
        tree.write(f"{folder}/CACHEDIR.TAG", tag)
        tree.write(f"{folder}/made", "x")
    assert worktree.changed(snapshot) == ("src/.gitignore", "src/CACHEDIR.TAG", "src/made")


def test_settings_hooks_and_rules_come_back_and_are_told(tree: Tree) -> None:
    tree.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n", 0o755)
    tree.write(".git/info/exclude", "mine\n")
    snapshot = tree.take()
    tree.git("config", "core.hooksPath", "/dev/null")
    (tree.root / ".git" / "hooks" / "pre-commit").chmod(0o644)
    tree.write(".git/hooks/post-commit", "evil\n", 0o755)
    tree.write(".git/info/exclude", "yours\n")
    tree.git("update-index", "--assume-unchanged", "a.py")
    assert worktree.settings_back(snapshot, tree.keep) == (
        ".git/config",
        ".git/hooks/post-commit",
        ".git/hooks/pre-commit",
        ".git/info/exclude",
        "a.py (hidden from git, or shown)",
    )
    assert worktree.settings_back(snapshot, tree.keep) == ()
    assert os.access(tree.root / ".git" / "hooks" / "pre-commit", os.X_OK)
    assert not (tree.root / ".git" / "hooks" / "post-commit").exists()
    assert {b"evil\n", b"yours\n"} <= tree.kept_bytes()


def test_hooks_that_became_a_link_come_back(tree: Tree) -> None:
    tree.write(".git/hooks/pre-commit", "mine\n", 0o755)
    snapshot = tree.take()
    shutil.rmtree(tree.root / ".git" / "hooks")
    (tree.root / ".git" / "hooks").symlink_to(tree.elsewhere)
    worktree.settings_back(snapshot, tree.keep)
    assert list(contents(tree.elsewhere)) == ["precious"]
    assert not (tree.root / ".git" / "hooks").is_symlink()
    assert (tree.root / ".git" / "hooks" / "pre-commit").read_text() == "mine\n"


def test_settings_that_git_cannot_read_come_back(tree: Tree) -> None:
    before = tree.state()
    snapshot = tree.take()
    tree.write(".git/config", "[core\nnonsense")
    tree.write("a.py", "a = 2\n")
    tree.all_back(snapshot)
    assert tree.state() == before


def test_another_tree_named_in_the_settings_is_not_looked_at(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("a.py", "a = 2\n")
    tree.git("config", "core.worktree", str(tree.elsewhere))
    assert worktree.changed(snapshot) == ("a.py",)
    assert list(contents(tree.elsewhere)) == ["precious"]


def test_a_submodule_of_the_agents_in_a_tracked_folder_is_seen(tree: Tree) -> None:
    snapshot = tree.take()
    tree.write("src/.git/config", "x\n")
    assert worktree.changed(snapshot) == ("src/.git",)
    worktree.put_back(snapshot, ["src/.git"], tree.keep)
    assert not (tree.root / "src" / ".git").exists()


ODD = ["-rf", "*.py", "new\nline", os.fsdecode(b"caf\xe9"), ":(top)x", " ", '"q"', "é", "[ab].py", "a\tb", "\\"]


def test_odd_names_are_names(tree: Tree) -> None:
    for name in ODD[::2]:
        tree.write(name, "tracked")
        tree.write(f"odd/{name}", "staged only")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "odd")
    for name in ODD[1::2]:
        tree.write(name, "untracked")
    before = tree.state()
    snapshot = tree.take()
    for name in ODD:
        tree.write(name, "agent")
        tree.write(f"{name}.new", "agent")
    tree.git("add", "-A")
    expected = sorted([*ODD, *(f"{name}.new" for name in ODD)])
    assert worktree.changed(snapshot) == tuple(expected)
    tree.all_back(snapshot)
    assert tree.state() == before


def test_line_ends_and_filters_are_not_git_s_to_choose(tree: Tree) -> None:
    tree.write(".gitattributes", "*.txt text\n*.sec filter=rot\n*.id ident\n")
    tree.git("config", "filter.rot.clean", "tr a-z n-za-m")
    tree.git("config", "filter.rot.smudge", "tr a-z n-za-m; echo ran >> ../smudged")
    tree.write("dos.txt", "one\r\ntwo\r\n")
    tree.write("x.sec", "secret\n")
    tree.write("k.id", "$Id$\n")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "x")
    assert tree.git("status", "--porcelain") == ""
    before = tree.state()
    snapshot = tree.take()
    for name in ("dos.txt", "x.sec", "k.id"):
        tree.write(name, "agent\n")
    tree.git("-c", "filter.rot.smudge=cat", "reset", "-q", "--hard")
    assert (tree.root / "dos.txt").read_bytes() == b"one\ntwo\n"
    tree.all_back(snapshot)
    assert tree.state() == before
    assert not (tree.root.parent / "smudged").exists()


def test_an_unresolved_merge_of_a_persons_stays_unresolved(tree: Tree) -> None:
    tree.git("checkout", "-q", "-b", "side")
    tree.write("a.py", "side\n")
    tree.git("commit", "-qam", "side")
    tree.git("checkout", "-q", "main")
    tree.write("a.py", "main\n")
    tree.git("commit", "-qam", "main")
    assert not tree.tries("merge", "side")
    before = tree.state()
    snapshot = tree.take()
    tree.git("add", "a.py")
    assert worktree.changed(snapshot) == ("a.py",)
    tree.all_back(snapshot)
    assert tree.state() == before
    assert (tree.root / ".git" / "MERGE_HEAD").exists()


def test_ralphs_own_files_are_not_looked_at(tree: Tree) -> None:
    tree.write("feature_PROGRESS.md", "before\n")
    snapshot = worktree.take(tree.root, tree.store, [tree.root / "feature_PROGRESS.md", tree.root / "state"])
    tree.write("feature_PROGRESS.md", "after\n")
    tree.write("state/journal.jsonl", "x\n")
    tree.git("add", "-A")
    assert worktree.changed(snapshot) == ()
    worktree.put_back(snapshot, ["feature_PROGRESS.md"], tree.keep)
    assert (tree.root / "feature_PROGRESS.md").read_text() == "after\n"


def test_a_subfolder_stands_for_the_whole_tree(tree: Tree) -> None:
    snapshot = worktree.take(tree.root / "src", tree.store, [])
    tree.write("a.py", "a = 2\n")
    assert snapshot.root == tree.root
    assert worktree.changed(snapshot) == ("a.py",)


def test_a_persons_other_repository_within_is_left_alone(tree: Tree) -> None:
    tree.git("init", "-q", "--template=", "theirs")
    tree.write("theirs/x", "x\n")
    snapshot = tree.take()
    tree.write("theirs/x", "y\n")
    assert worktree.changed(snapshot) == ()
    tree.all_back(snapshot)
    assert (tree.root / "theirs" / "x").read_text() == "y\n"


def test_the_next_snapshot_copies_only_what_changed_since(tree: Tree) -> None:
    tree.write("large.bin", b"x" * 1000)
    tree.write("small.txt", "one\n")
    old = time.time() - 60
    for name in ("large.bin", "small.txt"):
        os.utime(tree.root / name, (old, old))
    eventually_old(tree.root / "large.bin")
    first = tree.take()
    tree.write("small.txt", "two\n")
    second = tree.take(first)
    assert second.copies["large.bin"] == first.copies["large.bin"]
    assert second.copies["small.txt"] != first.copies["small.txt"]
    third = tree.take(second)
    assert not first.copies["small.txt"].exists()
    assert second.copies["small.txt"].exists()
    tree.git("clean", "-qfd")
    tree.all_back(third)
    assert (tree.root / "large.bin").read_bytes() == b"x" * 1000
    assert {stat.S_IMODE(path.stat().st_mode) for path in tree.store.iterdir() if path.is_file()} == {0o600}


def eventually_old(path: Path) -> None:
    """Waits until the clock of files has moved on, so that a look is sure of the version it sees."""
    while time.time_ns() - path.stat().st_ctime_ns < 40_000_000:
        time.sleep(0.005)


def test_a_look_is_not_sure_of_what_may_change_in_the_same_tick_of_the_clock(tree: Tree) -> None:
    path = tree.write("untracked", "1")
    assert not looks(tree.root, ["untracked"])["untracked"].sure
    for number in range(300):
        seen = looks(tree.root, ["untracked"])["untracked"]
        path.write_text(str(number % 10))
        assert not seen.sure or looks(tree.root, ["untracked"])["untracked"] != seen


def test_a_folder_moved_out_of_the_tree_with_a_link_left_behind(tree: Tree) -> None:
    before = tree.state()
    snapshot = tree.take()
    (tree.root / "src").rename(tree.root.parent / "moved")
    (tree.root / "src").symlink_to(tree.root.parent / "moved")
    assert worktree.changed(snapshot) == ("src", "src/b.py")
    tree.all_back(snapshot)
    assert tree.state() == before
    assert (tree.root.parent / "moved" / "b.py").exists()


def test_a_clean_tree_of_many_files_needs_no_copies(tree: Tree) -> None:
    snapshot = tree.take()
    assert snapshot.copies == {}
    assert [path for path in tree.store.iterdir() if path.is_file()] == []


def test_what_git_lost_is_said_after_all_else_is_put_back(tree: Tree) -> None:
    snapshot = tree.take()
    oid = tree.git("rev-parse", "HEAD:a.py").strip()
    (tree.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    tree.write("a.py", "agent\n")
    tree.write("src/b.py", "agent\n")
    with pytest.raises(RalphError, match=r"a\.py: cannot be put back"):
        worktree.put_back(snapshot, worktree.changed(snapshot), tree.keep)
    assert (tree.root / "src" / "b.py").read_text() == "b = 1\n"


def test_without_a_repository_there_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="is in no git or jj repository"):
        worktree.take(tmp_path, tmp_path / "store", [])
