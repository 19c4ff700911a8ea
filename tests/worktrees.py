"""A real git repository to be spoilt, and what tells whether it is as it was."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph import worktree


class Tree:
    """A repository with a store for snapshots, a folder where things are kept, and one that is nobody's business."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.store = folder / "store"
        self.kept = folder / "kept"
        self.elsewhere = folder / "elsewhere"
        self.root.mkdir(parents=True, exist_ok=True)
        self.kept.mkdir()
        self.elsewhere.mkdir()
        (self.elsewhere / "precious").write_text("not of the tree\n")

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return os.fsdecode(done.stdout)

    def tries(self, *arguments: str) -> bool:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, check=False)
        return done.returncode == 0

    def ignored(self) -> set[str]:
        """The files that git ignores and does not track."""
        names = b"".join(b"./" + os.fsencode(name) + b"\0" for name in self.files())
        argv = ["git", "check-ignore", "-z", "--stdin"]
        asked = subprocess.run(argv, cwd=self.root, input=names, capture_output=True, check=False)
        return {name.removeprefix("./") for name in os.fsdecode(asked.stdout).split("\0")}

    def write(self, name: str, text: str | bytes, mode: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if mode is not None:
            path.chmod(mode)
        return path

    def take(self, before: worktree.Snapshot | None = None) -> worktree.Snapshot:
        return worktree.take(self.root, self.store, [self.root / "feature_PROGRESS.md"], before)

    def keep(self, name: str, data: bytes) -> Path:
        path = self.kept / f"{len(list(self.kept.iterdir()))}-{name.replace('/', '_')}"
        path.write_bytes(data)
        return path

    def kept_bytes(self) -> set[bytes]:
        return {path.read_bytes() for path in self.kept.rglob("*") if path.is_file()}

    def all_back(self, snapshot: worktree.Snapshot) -> tuple[str, ...]:
        """Everything put back, in the order that is meant; the names of what was changed."""
        worktree.settings_back(snapshot, self.keep)
        worktree.head_back(snapshot, "try")
        names = worktree.changed(snapshot)
        worktree.put_back(snapshot, names, self.keep)
        return names

    def state(self) -> dict[str, object]:
        """All that must be as it was: what git says, the index with its hidden bits, every byte and mode."""
        flags = self.git("ls-files", "-v", "-z")
        return {
            "status": self.git("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"),
            "index": self.git("ls-files", "-s", "-z"),
            "flags": flags,
            "staged": self.git("diff", "--cached", "--binary", "--no-ext-diff"),
            **{f"file {name}": self.file(name) for name in set(self.files()) - self.ignored()},
        }

    def head(self) -> str:
        done = subprocess.run(
            ["git", "rev-parse", "-q", "--verify", "HEAD"], cwd=self.root, capture_output=True, check=False
        )
        return done.stdout.decode().strip()

    def files(self) -> Iterator[str]:
        for folder, inside, names in os.walk(self.root):
            inside[:] = [one for one in inside if one != ".git"]
            links = [one for one in inside if (Path(folder) / one).is_symlink()]
            yield from (os.path.relpath(Path(folder) / one, self.root) for one in (*names, *links))

    def file(self, name: str) -> tuple[str, bytes]:
        path = self.root / name
        mode = path.lstat().st_mode
        return stat.filemode(mode), os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    """All files below it, with what each holds."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="session")
def first_tree(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The tree that each test begins with: made once, then copied."""
    with pytest.MonkeyPatch.context() as patch:
        surround(patch, repository / "home")
        made = Tree(tmp_path_factory.mktemp("first"))
        made.git("init", "-q", "--template=")
        fill(made)
        return made.root


@pytest.fixture
def tree(tmp_path: Path, first_tree: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A repository with one commit: a.py, src/b.py, run.sh and a link; `*.log` and `build/` are ignored."""
    surround(monkeypatch, repository / "home")
    shutil.copytree(first_tree, tmp_path / "tree", symlinks=True)
    return Tree(tmp_path)


def surround(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """git's settings are those of the tests alone."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def fill(tree: Tree) -> None:
    tree.write("a.py", "a = 1\n")
    tree.write("src/b.py", "b = 1\n")
    tree.write("run.sh", "echo\n", 0o755)
    tree.write(".gitignore", "*.log\nbuild/\n")
    (tree.root / "link").symlink_to("a.py")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "first")
