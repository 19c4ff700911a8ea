"""What a try did to a tree is noticed, however it was done, and put back to the byte; nothing is lost."""

import os
import re

import pytest
from ralph_driver import Project, everything_in
from stories import Act, Agent, runs, tries, writes
from test_strict import ONE, built, kept, marks_of, wants

ODD = ["-rf", "*.py", "new\nline", os.fsdecode(b"caf\xe9"), ":(top)x", ":!y", " ", '"q"', "é", "#x", "[ab].py"]
UNBOUNDED = ("--max-tries", "off", "--max-failures", "off", "--max-stalls", "off")
RESTORES = ("--on-failure", "restore", *UNBOUNDED)
FURNISHED = """
mkdir src; echo 'a = 1' > a.py; echo 'b = 1' > src/b.py; echo '*.log\nbuild/' > .gitignore; ln -s a.py link
echo echo > run.sh; chmod 755 run.sh; echo s > secret.txt; chmod 600 secret.txt; echo "the user's" > noise.log
mkdir ../elsewhere; echo "somebody's" > ../elsewhere/b.py
"""


def state(project: Project) -> dict[str, object]:
    """All that must be as it was: what git says, every byte and mode."""
    found: dict[str, object] = {}
    if (project.root / ".git").exists():
        asked = ("status --porcelain=v2 --branch -uall", "ls-files -s", "ls-files -v", "diff --cached --binary")
        found = {one: project.git(*one.split()) for one in (*asked, "rev-parse HEAD", "symbolic-ref HEAD")}
    below = everything_in(project.root, project.root.with_name("elsewhere"))
    ralphs = (str(project.progress), str(project.root / "new.log"))  # and what is ignored is left alone
    return found | {name: below[name][::2] for name in below if "/.git/" not in f"{name}/" and name not in ralphs}


def undone(project: Project, agent: Agent, *options: str, tried: list[list[Act]]) -> str:
    """What ralph says of these tries, each of which fails, once all is as it was."""
    before = state(project)
    agent.story(*(tries(*acts) for acts in tried))
    run = built(project, *options, "--max-iterations", str(len(tried)), code=3)
    assert state(project) == before, run.text
    return run.text


MISCHIEF = {
    "echo a = 2 > a.py; rm secret.txt; chmod -x run.sh; mkdir n; mv src/b.py n": 5,
    "touch -r a.py t; echo a = 2 > a.py; touch -r t a.py; rm t": 1,
    "rm -r src a.py; ln -s ../elsewhere src; ln -s src/b.py a.py; ln -sfn run.sh link": 4,
    "rm -r a.py run.sh src; mkfifo a.py; mkdir run.sh; echo > run.sh/x; echo > run.sh/y.log; echo > src": 5,
    "echo '*.py' >> .gitignore; echo > src/new.py; mkdir src/deep; cd src/deep; echo x > .gitignore; echo > x": 4,
    "rm .gitignore; echo > new.log": 1,
    "git init -q x; echo > x/y; git init -q y; echo > y/y; git -C y add .; git -C y commit -qm y": 2,
}
"""What an agent does, and how many names it has done it to."""


def test_mischief_is_noticed_and_put_back_with_git_and_without(project: Project, agent: Agent) -> None:
    project.does(FURNISHED)
    project.commits("all")
    wants(project, ONE)
    tried = [[runs(one)] for one in MISCHIEF]
    said = undone(project, agent, *RESTORES, tried=tried)
    assert re.findall(r"restored (\d+) file", said) == [str(count) for count in MISCHIEF.values()]
    (project.root / ".git").rename(project.home / "git")
    said = undone(project, agent, "--only", "one.txt", *UNBOUNDED, tried=tried)
    assert said.count("which is not allowed here: put back; what was there is in ") == len(MISCHIEF), said
    agent.story(tries(writes("one.txt", "1")))
    built(project, "--only", "one.txt")
    assert marks_of(project) == ["- [x] one"]


UNFINISHED_WORK = """
git config core.autocrlf true; git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr a-z n-za-m'
echo '*.txt filter=rot text' > .gitattributes
for one in both.txt mode.sh deleted.txt crlf.txt; do echo first > $one; done
git add -A; git commit -qm more
echo staged > both.txt; git add both.txt; printf 'unstaged \\0\\376' > both.txt
chmod +x mode.sh; rm deleted.txt; printf 'x\\r\\n' > crlf.txt
echo x > intended.txt; echo x > 'staged new.txt'; git add 'staged new.txt'; git add -N intended.txt
git mv a.py renamed.py; echo mine > untracked; chmod 600 untracked
git update-index --assume-unchanged run.sh; echo mine alone > run.sh
"""
RAMPAGES = (
    "git update-index --assume-unchanged both.txt; echo > both.txt",
    "git update-index --skip-worktree renamed.py; echo > renamed.py",
    "echo nonsense > .git/index; echo > both.txt",
    "git reset -q --hard; git clean -qfd",
    "git checkout -q -b mine; git commit -qam mine",
    "git checkout -q --detach; git branch -f main HEAD~1",
    "git checkout -q --detach; git branch -q -D main",
    "git add -A; git commit -qm x; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1",
)


def test_the_users_unfinished_work_survives(project: Project, agent: Agent) -> None:
    """And odd names are names."""
    project.does(FURNISHED + UNFINISHED_WORK)
    for name in ODD[::2]:
        (project.root / name).write_text("mine")
    wants(project, ONE)
    odd = [writes(name, "the agent's") for name in ODD]
    said = undone(project, agent, *RESTORES, tried=[[runs(one), *odd] for one in RAMPAGES])
    assert all(int(count) >= len(ODD) for count in re.findall(r"restored (\d+) file", said)), said
    assert kept(project).count("the agent's") == len(ODD) * len(RAMPAGES)
    assert not (project.root / ".git" / "rebase-merge").exists()


@pytest.mark.parametrize("spoils", ["rm index", "cd ..; mv $S $OUT/moved; ln -s $OUT/moved $S"])
def test_a_shadow_that_is_not_ralphs_any_more_is_an_error_and_runs_nothing(
    project: Project, agent: Agent, spoils: str
) -> None:
    out = project.outputs / "out"
    out.mkdir()
    wants(project, ONE)
    evil = "git --git-dir=$S config core.fsmonitor 'touch $OUT/ran; false'"
    agent.story(tries(runs(f"OUT={out}; S=$(echo $XDG_STATE_HOME/ralph/shadow/*); {evil}; cd $S; {spoils}")))
    assert "was changed, and does not know any more how files were" in built(project, code=1).stderr
    held = [(name, data) for name, (_, _, data) in everything_in(out).items()]  # git touches objects
    agent.story(tries())
    built(project, "--max-iterations", "1", code=3)
    assert [(name, data) for name, (_, _, data) in everything_in(out).items()] == held
    assert not (out / "ran").exists()


def test_a_full_disk_hides_nothing_and_what_cannot_be_held_leaves_the_room_free(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    full = ("sh", "-c", 'ulimit -S -f 200; exec "$@"', "sh")
    agent.story(tries(runs("ulimit -S -f unlimited; head -c 300000 /dev/urandom > large")))
    run = project.build("--strict", "--only", "one.txt", "--max-iterations", "1", prefix=full)
    assert (run.code, "large was changed" in run.stderr) == (3, True), run.text
    (project.root / "large").write_bytes(os.urandom(300_000))
    run = project.build("--strict", prefix=full)
    assert (run.code, "git update-index fails" in run.stderr, len(agent.calls)) == (1, True, 1), run.text
    assert not list((project.state / "ralph" / "shadow").iterdir())


def test_a_commit_that_cannot_come_about_is_reported_before(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    for one, why in {
        "git config user.name ''": "git cannot commit in .*: Author identity unknown",
        "git config user.name x; git config commit.gpgSign true; git config gpg.program false": "gpg failed",
        "git rev-parse HEAD > .git/MERGE_HEAD": "something is not finished",
    }.items():
        project.does(one)
        assert re.search(why, built(project, code=2).stderr)
    assert not agent.calls
