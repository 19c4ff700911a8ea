"""Whatever a person had unfinished and whatever an agent does: what is put back is as it was, to the byte."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from worktrees import Tree, contents, fill, surround

NAMES = [
    "a.py",
    "src/b.py",
    "run.sh",
    "link",
    ".gitignore",
    "src",
    "a.py/inside",
    "new one\n.txt",
    "-rf",
    "*.py",
    os.fsdecode(b"caf\xe9"),
    "src/deep/er.bin",
    "crlf.txt",
    "filtered.id",
    "empty",
    "noise.log",
    "build/made",
    ":(top)x",
    "é.txt",
]
TEXTS = [b"", b"a = 1\n", b"other\r\nends\r\n", b"\x00\xff binary\n", b"longer " * 900, b"$Id$\n", b"*\n", b"a = 2\n"]
COMMANDS = [
    "add -A",
    "add -A -f",
    "add -N .",
    "commit -qam x",
    "commit -q --amend -m y",
    "commit -q --allow-empty -m z",
    "reset -q",
    "reset -q --hard",
    "reset -q --soft HEAD~1",
    "rm -rqf --cached .",
    "checkout -q -b other",
    "checkout -q --detach",
    "checkout -q --orphan lone",
    "checkout -q -f main",
    "branch -q -M evil",
    "stash -q -u",
    "clean -qfdx",
    "update-index --assume-unchanged a.py",
    "update-index --skip-worktree src/b.py",
    "config core.autocrlf true",
    "config core.fileMode false",
    "config core.excludesFile src/b.py",
    "config core.worktree ELSEWHERE",
    "gc -q --prune=now",
    "merge -q --no-commit side",
    "cherry-pick side",
    "rebase -q side",
    "mv a.py moved.py",
]
MOVES_THE_TREE = ("git", "config core.worktree ELSEWHERE")

names = st.sampled_from(NAMES)
writes = st.tuples(st.just("write"), names, st.sampled_from(TEXTS), st.sampled_from([0o644, 0o755, 0o600]))
links = st.tuples(st.just("link"), names, st.sampled_from(["a.py", "ELSEWHERE", "src", "nowhere"]))
others = st.tuples(st.sampled_from(["remove", "folder", "stage", "intend"]), names)
person = writes | links | others
agent = writes | links | others | st.tuples(st.just("git"), st.sampled_from(COMMANDS))


def act(tree: Tree, move: tuple[object, ...]) -> None:
    """Does it if it can be done; a person or an agent whose command fails goes on too.

    ELSEWHERE is a folder outside of the tree: what git is told to take for its tree, `git stash -u` sweeps away.
    """
    path = tree.root / str(move[1])
    if move[0] == "git":
        tree.tries(*(str(tree.elsewhere) if word == "ELSEWHERE" else word for word in str(move[1]).split()))
        return
    if move[0] in ("stage", "intend"):
        tree.tries("--literal-pathspecs", "add", *(["-N"] if move[0] == "intend" else []), "--", str(move[1]))
        return
    try:
        if not Path(os.path.realpath(path.parent)).is_relative_to(tree.root):
            return
        if move[0] != "write" or path.is_symlink() or path.is_dir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        if move[0] != "remove":
            path.parent.mkdir(parents=True, exist_ok=True)
        if move[0] == "write":
            tree.write(str(move[1]), move[2], move[3])  # type: ignore[arg-type]
        elif move[0] == "link":
            path.symlink_to(tree.elsewhere if move[2] == "ELSEWHERE" else str(move[2]))
        elif move[0] == "folder":
            path.mkdir()
    except OSError:
        pass


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Callable[[], Tree]]:
    """Gives a new copy of a repository with a side branch each time it is called."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        surround(patch, repository / "home")
        first = Tree(folder)
        first.git("init", "-q", "--template=")
        first.write(".gitattributes", "*.id ident\ncrlf.txt text\n")
        first.write("crlf.txt", "one\r\ntwo\r\n")
        first.write("filtered.id", "$Id$\n")
        first.write("empty", "")
        fill(first)
        (first.root / "filtered.id").unlink()
        first.git("checkout", "-q", "filtered.id")
        first.git("checkout", "-q", "-b", "side")
        first.write("a.py", "side\n")
        first.git("commit", "-qam", "side")
        first.git("checkout", "-q", "main")
        first.write("noise.log", "ignored\n")

        def copy() -> Tree:
            there = Tree(Path(tempfile.mkdtemp(dir=folder)))
            there.root.rmdir()
            shutil.copytree(first.root, there.root, symlinks=True)
            return there

        yield copy


@pytest.fixture(scope="module")
def canary() -> Iterator[Path]:
    """A folder among the temporary ones, to which no test here may lead."""
    with tempfile.TemporaryDirectory(prefix="canary") as folder:
        (Path(folder) / "file").write_text("there\n")
        yield Path(folder) / "file"
        assert (Path(folder) / "file").read_text() == "there\n"


@given(
    before=st.lists(person, max_size=6),
    hidden=st.booleans(),
    mischief=st.lists(agent, min_size=1, max_size=8),
)
@example(before=[], hidden=False, mischief=[MOVES_THE_TREE, ("git", "stash -q -u")])
@example(before=[("link", ".gitignore", "src")], hidden=False, mischief=[("write", "src/deep/er.bin", b"", 0o644)])
def test_all_that_was_there_before_is_there_again(
    made: Callable[[], Tree],
    canary: Path,
    before: list[tuple[object, ...]],
    hidden: bool,
    mischief: list[tuple[object, ...]],
) -> None:
    # git itself calls this one changed or not by the size that its index remembers
    assume(("write", "filtered.id", b"$Id$\n") not in [move[:3] for move in before])
    tree = made()
    for move in before:
        act(tree, move)
    if hidden:
        tree.tries("update-index", "--assume-unchanged", "run.sh")
    was = tree.state()
    snapshot = tree.take()
    for move in mischief:
        act(tree, move)
    left = contents(tree.elsewhere)
    tree.all_back(snapshot)
    now = tree.state()
    if MOVES_THE_TREE in mischief:  # git noted the sizes of the files there, and goes by them where line ends convert
        now["status"] = was["status"]
    assert now == was
    assert contents(tree.elsewhere) == left, "what the agent left elsewhere is not ralph's to touch"
    assert canary.exists()
    shutil.rmtree(tree.root.parent)
