"""What an iteration did to a tree is noticed, however it was done, and put back to the byte; nothing is lost."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from test_never_beyond_the_tree import contents
from test_progress_file import largest_file

from ralph.errors import RalphError
from ralph.strict.repository import Repository
from ralph.strict.shadow import Shadow

ODD = ["-rf", "*.py", "new\nline", os.fsdecode(b"caf\xe9"), ":(top)x", ":!y", " ", '"q"', "é", "#x", "[ab].py"]


class Tree:
    """A repository, or a plain folder, with a shadow; what is moved aside goes to `kept`."""

    repository: Repository | None = None

    def __init__(self, folder: Path, *, plain: bool = False) -> None:
        self.root, self.kept, self.elsewhere = (folder / name for name in ("tree", "kept", "elsewhere"))
        for one in (self.root, self.kept, self.elsewhere):
            one.mkdir(parents=True)
        self.does("mkdir src; echo 'a = 1' > a.py; echo 'b = 1' > src/b.py; echo '*.log\nbuild/' > .gitignore")
        self.does("echo echo > run.sh; chmod 755 run.sh; echo s > secret.txt; chmod 600 secret.txt; ln -s a.py link")
        self.does('echo "a person\'s" > noise.log; echo "somebody\'s" > $ELSEWHERE/b.py')
        if not plain:
            self.does("git init -q --template= && git add -A && git commit -qm first")

    def begin(self) -> None:
        """An iteration begins, some time after a person's last file: what is as young counts as its own."""
        while time.time() < (self.root / "noise.log").stat().st_ctime + 0.1:
            time.sleep(0.01)
        self.repository = Repository.around(self.root)
        state = self.kept.parent / "state" / "shadow"
        self.shadow = Shadow(self.root, state, ["own.md"], [Path(".ralph")], self.repository)
        self.shadow.begin()
        if self.repository:
            self.repository.index_copy = self.kept.parent / "index"
            self.place = self.repository.place()

    def aside(self, name: str) -> Path:
        return self.kept / f"{len(list(self.kept.iterdir()))}-{name.replace('/', '_')[-50:]}"

    def all_back(self) -> set[str]:
        """Everything put back; what was changed."""
        if self.repository:
            self.repository.put_back(self.place, self.aside)
        found = set[str]()
        while changes := self.shadow.changes():
            found |= {*changes}
            self.shadow.put_back(changes, changes, self.aside)
        return found

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
            found = {one: self.does(f"git {one}") for one in (*asked, "rev-parse HEAD", "symbolic-ref HEAD")}
        below = contents(self.root)
        found |= {name: below[name] for name in below if "/.git/" not in f"{name}/"}
        return found


@pytest.fixture
def tree(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A repository; git's settings are those of the tests alone."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(repository / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
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


def test_mischief_is_noticed_and_put_back_with_git_and_without(tree: Tree, tmp_path: Path) -> None:
    for one in (tree, Tree(tmp_path / "plain", plain=True)):
        before = one.state()
        for does, names in MISCHIEF.values():
            one.begin()
            assert one.shadow.changes() == {}
            one.does(does)
            assert one.all_back() == names, does
            (one.root / "new.log").unlink(missing_ok=True)  # what is ignored is left alone
            assert one.state() == before, does
        assert [(path.name, path.read_text()) for path in one.elsewhere.iterdir()] == [("b.py", "somebody's\n")]


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


def test_a_persons_unfinished_work_survives(tree: Tree) -> None:
    """And odd names are names."""
    tree.does(UNFINISHED_WORK)
    for name in ODD[::2]:
        (tree.root / name).write_text("mine")
    before = tree.state()
    for does in RAMPAGES.values():
        tree.begin()
        tree.does(does)
        for name in ODD:
            (tree.root / name).write_text("the agent's")
        assert tree.all_back().issuperset(ODD), does
        assert tree.state() == before, does


def test_a_repository_and_a_pipe_that_were_there_are_nobodys_to_move(tree: Tree) -> None:
    tree.does("git init -q old; echo 1 > old/x; git init -q made; cd made; echo 1 > x; git add x; git commit -qm x")
    tree.does("git init -q bare; echo > bare/x; rm secret.txt; mkfifo secret.txt pipe")
    tree.begin()
    tree.does("echo 2 > old/x; git -C made commit -q --allow-empty -m z; rm -rf bare/.git")
    assert tree.all_back() == set()
    assert (tree.root / "old" / "x").read_text() == "2\n"


def test_a_shadow_that_is_not_ralphs_any_more_is_an_error_and_runs_nothing(tree: Tree) -> None:
    tree.begin()
    tree.does(f"git --git-dir={tree.shadow.folder} config core.fsmonitor 'touch {tree.elsewhere}/ran; false'")
    (tree.root / "large").write_bytes(os.urandom(300_000))
    with largest_file(100_000):
        assert set(tree.shadow.changes()) == {"large"}, "a look writes nothing"
        with pytest.raises(RalphError, match="git update-index fails"):
            tree.shadow.begin()
    assert not tree.shadow.folder.exists(), "what half of it fills is free again"
    with pytest.raises(RalphError, match="does not know any more how files were"):
        tree.shadow.changes()
    for name, target in {"objects": tree.elsewhere, "HEAD": tree.elsewhere / "new", "": tree.elsewhere}.items():
        path = tree.shadow.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(target)
        for look in (tree.shadow.changes, tree.begin):
            with pytest.raises(RalphError, match="is a link, and ralph made none there"):
                look()
        path.unlink()
    assert [one.name for one in tree.elsewhere.iterdir()] == ["b.py"]


def test_a_commit_that_cannot_come_about_is_said_before(tree: Tree) -> None:
    for does, why in {
        "git config user.name ''": "git cannot commit in .*: Author identity unknown",
        "git config user.name x; git config commit.gpgSign true; git config gpg.program false": "gpg failed",
        "git rev-parse HEAD > .git/MERGE_HEAD": "something is not finished",
    }.items():
        tree.does(does)
        project = Repository.around(tree.root)
        assert project
        with pytest.raises(RalphError, match=why):
            project.check_can_commit()
