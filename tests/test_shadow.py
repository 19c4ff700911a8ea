"""What an iteration did to a tree is noticed, however it was done, and put back to the byte; nothing is lost."""

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_progress_file import largest_file

from ralph.errors import RalphError
from ralph.strict.repository import Repository
from ralph.strict.shadow import Shadow

ODD = ["-rf", "*.py", "new\nline", os.fsdecode(b"caf\xe9"), ":(top)x", ":!y", " ", '"q"', "é", "#x", "[ab].py"]


class Tree:
    """A repository, or a plain folder, with a shadow; what is moved aside goes to `kept`."""

    def __init__(self, folder: Path, *, plain: bool = False) -> None:
        self.root, self.kept, self.elsewhere = (folder / name for name in ("tree", "kept", "elsewhere"))
        for one in (self.root, self.kept, self.elsewhere):
            one.mkdir()
        (self.elsewhere / "b.py").write_text("somebody's\n")
        for name, text in {"a.py": "a = 1\n", "src/b.py": "b = 1\n", ".gitignore": "*.log\nbuild/\n"}.items():
            self.write(name, text)
        self.write("run.sh", "echo\n", 0o755)
        self.write("secret.txt", "s\n", 0o600)
        self.write("noise.log", "a person's\n")
        (self.root / "link").symlink_to("a.py")
        if not plain:
            self.does("git init -q --template= && git add -A && git commit -qm first")

    def begin(self) -> None:
        """An iteration begins, some time after a person's last file: what is as young counts as its own."""
        while time.time() < (self.root / "noise.log").stat().st_ctime + 0.1:
            time.sleep(0.01)
        repository = self.project()
        self.shadow = Shadow(self.root, self.kept.parent / "state" / "shadow", ["own.md"], [Path(".ralph")], repository)
        self.shadow.begin()
        self.before = (repository, repository.place()) if repository else None

    def project(self) -> Repository | None:
        if repository := Repository.around(self.root):
            repository.index_copy = self.kept.parent / "index"
        return repository

    def aside(self, name: str) -> Path:
        return self.kept / f"{len(list(self.kept.iterdir()))}-{name.replace('/', '_')[-50:]}"

    def all_back(self) -> set[str]:
        """Everything put back; what was changed."""
        if self.before:
            repository, place = self.before
            repository.put_back(place, "try", self.aside)
        found = set[str]()
        while changes := self.shadow.changes():
            found |= {*changes}
            self.shadow.put_back(changes, changes, self.aside)
        return found

    def commits(self, names: Sequence[str], message: str = "x") -> set[str]:
        """The files that are in the commit of these."""
        repository = self.project()
        assert repository is not None
        commits, failed = repository.commit(names, message)
        assert failed == ""
        return {*repository.describe(commits.head)[1]} if commits.count else set()

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def does(self, script: str) -> str:
        """What an agent, or a person, does."""
        env = {**os.environ, "ELSEWHERE": str(self.elsewhere)}
        done = subprocess.run(["sh", "-c", script], cwd=self.root, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return os.fsdecode(done.stdout)

    def state(self) -> dict[str, object]:
        """All that must be as it was: what git says, every byte and mode."""
        found: dict[str, object] = {}
        if (self.root / ".git").exists():
            asked = ("status --porcelain=v2 --branch -uall", "ls-files -s", "ls-files -v", "diff --cached --binary")
            found = {one: self.does(f"git {one}") for one in asked}
        for folder, inside, names in os.walk(self.root):
            inside[:] = [one for one in inside if one != ".git"]
            for name in (*names, *(one for one in inside if (Path(folder) / one).is_symlink())):
                path = Path(folder) / name
                mode = path.lstat().st_mode
                held = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
                found[str(path)] = (stat.filemode(mode), held)
        return found


@pytest.fixture
def alone(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git's settings are those of the tests alone."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(repository / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def tree(tmp_path: Path, alone: None) -> Tree:
    del alone
    return Tree(tmp_path)


MISCHIEF = {
    "edited, gone, no program any more, renamed": (
        "touch -r a.py t; echo a = 2 > a.py; touch -r t a.py; rm t secret.txt; chmod -x run.sh; mkdir n; mv src/b.py n",
        {"a.py", "secret.txt", "run.sh", "src/b.py", "n/b.py"},
    ),
    "links out of the tree": (
        "rm -r src a.py; ln -s $ELSEWHERE src; ln -s src/b.py a.py; ln -sfn run.sh link",
        {"src", "src/b.py", "a.py", "link"},
    ),
    "a pipe and a folder in place of files, a file in place of a folder": (
        "rm -r a.py run.sh src; mkfifo a.py; mkdir run.sh; echo > run.sh/x; echo > run.sh/y.log; echo > src",
        {"a.py", "run.sh", "run.sh/x", "src", "src/b.py"},
    ),
    "hidden by rules": (
        "echo '*.py' >> .gitignore; echo > src/new.py; mkdir src/deep; cd src/deep; echo 'x' > .gitignore; echo > x",
        {".gitignore", "src/deep/.gitignore", "src/deep/x", "src/new.py"},
    ),
    "no longer ignored": ("rm .gitignore; echo > new.log", {".gitignore", "new.log"}),
    "repositories": (
        "git init -q --template= x; echo > x/y; git init -q y; echo > y/y; git -C y add .; git -C y commit -qm y",
        {"x/", "y/"},
    ),
}


@pytest.mark.parametrize(
    ("does", "names", "plain"),
    [pytest.param(*deed, bool(number % 2), id=name) for number, (name, deed) in enumerate(MISCHIEF.items())],
)
def test_is_noticed_and_put_back(tmp_path: Path, alone: None, does: str, names: set[str], plain: bool) -> None:
    del alone
    tree = Tree(tmp_path, plain=plain)
    before = tree.state()
    tree.begin()
    assert tree.shadow.changes() == {}
    tree.does(does)
    changed = tree.all_back()
    (tree.root / "new.log").unlink(missing_ok=True)  # what is ignored is left alone
    assert tree.state() == before
    assert changed == names
    assert [(path.name, path.read_text()) for path in tree.elsewhere.iterdir()] == [("b.py", "somebody's\n")]


UNFINISHED_WORK = """
git config core.autocrlf true; git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr a-z n-za-m'
echo '*.txt filter=rot' > .gitattributes
for one in both.txt mode.sh deleted.txt crlf.txt; do echo first > $one; done
git add -A; git commit -qm more
echo staged > both.txt; git add both.txt; printf 'unstaged \\0\\376' > both.txt
chmod +x mode.sh; rm deleted.txt; printf 'x\\r\\n' > crlf.txt
echo x > intended.txt; echo x > 'staged new.txt'; git add 'staged new.txt'; git add -N intended.txt
git mv a.py renamed.py; echo mine > untracked; chmod 600 untracked
git update-index --assume-unchanged run.sh; echo mine alone > run.sh
"""
RAMPAGES = {
    "hidden from git": "git update-index --assume-unchanged both.txt; git update-index --skip-worktree renamed.py; "
    "echo > both.txt; echo > renamed.py",
    "the index spoilt": "echo nonsense > .git/index; echo > both.txt",
    "hard reset": "git reset -q --hard; git clean -qfd",
    "another branch": "git checkout -q -b mine; git commit -qam mine",
    "the branch forced elsewhere": "git checkout -q --detach; git branch -f main HEAD~1",
    "the branch deleted": "git checkout -q --detach; git branch -q -D main",
    "a rebase begun": "git add -A; git commit -qm x; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' "
    "git rebase -q -i HEAD~1",
}


@pytest.mark.parametrize("does", RAMPAGES.values(), ids=RAMPAGES)
def test_a_persons_unfinished_work_survives(tree: Tree, does: str) -> None:
    tree.does(UNFINISHED_WORK)
    before, head = tree.state(), tree.does("git rev-parse HEAD; git symbolic-ref HEAD")
    tree.begin()
    tree.does(does)
    tree.all_back()
    assert tree.does("git rev-parse HEAD; git symbolic-ref HEAD") == head
    assert tree.state() == before


def test_odd_names_are_names(tree: Tree) -> None:
    for name in ODD[::2]:
        tree.write(name, "mine")
    before = tree.state()
    tree.begin()
    for name in ODD:
        tree.write(name, "the agent's")
        tree.write(f"{name}.d/x", "the agent's")
    assert tree.all_back() == {*ODD, *(f"{name}.d/x" for name in ODD)}
    assert tree.state() == before


def test_a_repository_and_a_pipe_that_were_there_are_nobodys_to_move(tree: Tree) -> None:
    tree.does("git init -q old; echo 1 > old/x; git init -q made; cd made; echo 1 > x; git add x; git commit -qm x")
    tree.does("git init -q bare; echo > bare/x; rm secret.txt; mkfifo secret.txt pipe")
    tree.begin()
    tree.does("echo 2 > old/x; git -C made commit -q --allow-empty -m z; rm -rf bare/.git")
    assert tree.all_back() == set()
    assert (tree.root / "old" / "x").read_text() == "2\n"


def test_what_does_not_fit_the_disk_or_was_tampered_with_is_an_error(tree: Tree) -> None:
    tree.begin()
    (tree.root / "large").write_bytes(os.urandom(300_000))
    with largest_file(100_000):
        assert set(tree.shadow.changes()) == {"large"}, "a look writes nothing"
        with pytest.raises(RalphError, match="git update-index fails"):
            tree.shadow.begin()
    assert not tree.shadow.folder.exists(), "what half of it fills is free again"
    with pytest.raises(RalphError, match="does not know any more how files were"):
        tree.shadow.changes()


@pytest.mark.parametrize("place", ["", "HEAD", "objects"])
def test_a_shadow_that_leads_elsewhere_is_not_written_to(tree: Tree, place: str) -> None:
    tree.begin()
    path = tree.shadow.folder / place
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(tree.elsewhere if place != "HEAD" else tree.elsewhere / "new")
    for look in (tree.shadow.changes, tree.begin):
        with pytest.raises(RalphError, match="is a link, and ralph made none there"):
            look()
    assert [one.name for one in tree.elsewhere.iterdir()] == ["b.py"]


def test_settings_that_somebody_gave_the_shadow_run_nothing(tree: Tree) -> None:
    tree.begin()
    tree.does(f"git --git-dir={tree.shadow.folder} config core.fsmonitor 'touch {tree.elsewhere}/ran; false'")
    tree.write("a.py", "a = 2\n")
    assert set(tree.shadow.changes()) == {"a.py"}
    assert not (tree.elsewhere / "ran").exists()


class TestACommit:
    def test_has_these_files_as_they_are_and_nothing_else(self, tree: Tree) -> None:
        tree.does("echo s > run.sh; git add run.sh; echo p > persons; echo 2 > a.py; rm src/b.py; mkdir deep")
        tree.does("echo > later; echo n > deep/new; echo x > x.log; git add -N later")
        names = ["a.py", "src/b.py", "deep/new", "never/was", "x.log"]
        assert tree.commits(names, "t: do it\n\n# no comment\nRalph-Task: t\n") == {"a.py", "src/b.py", "deep/new"}
        assert tree.does("git status --porcelain") == " A later\nM  run.sh\n?? persons\n"
        assert "# no comment" in tree.does("git log -1 --format=%B")

    @pytest.mark.parametrize(
        ("does", "names"),
        [
            ("rm -r src a.py; echo > src; mkdir a.py; echo > a.py/x", [*ODD, "src", "src/b.py", "a.py", "a.py/x"]),
            ("rm -r src; ln -s $ELSEWHERE src; echo > new.py; echo 2 > a.py", ["a.py", "src", "src/b.py", "new.py"]),
        ],
        ids=["odd names, and a folder in a file's place", "a link in a folder's place"],
    )
    def test_has_whatever_took_the_place_of_a_file(self, tree: Tree, does: str, names: list[str]) -> None:
        for name in set(names).intersection(ODD):
            tree.write(name, "x")
        tree.does(does)
        assert tree.commits(names) == set(names)
        assert tree.does("git status --porcelain") == ""
        assert tree.commits([*names, "no.such"]) == set(), "nothing is to be committed"

    @pytest.mark.parametrize(
        ("does", "why"),
        [
            ("git config user.name ''", "git cannot commit in .*: Author identity unknown"),
            ("git rev-parse HEAD > .git/MERGE_HEAD", "something is not finished"),
            ("git config commit.gpgSign true; git config gpg.program false", "git cannot commit in .*: gpg failed"),
        ],
    )
    def test_that_cannot_come_about_is_said_before(self, tree: Tree, does: str, why: str) -> None:
        tree.does(does)
        project = tree.project()
        assert project is not None
        with pytest.raises(RalphError, match=why):
            project.check_can_commit()
