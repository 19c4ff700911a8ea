"""--strict where a project is not simply a repository with commits, and where a try leaves what is hard to put back."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

from ralph_driver import Project, executable
from stories import Agent, runs, tries, writes
from test_strict import KILL, ODD, ONE, OTHER, built, subjects, wants


def test_in_a_folder_of_a_linked_worktree(project: Project, agent: Agent) -> None:
    """In which another, that is private, stays so."""
    project.does(
        "git worktree add -q ../linked -b linked; cd ../linked; mkdir -p package/secrets; chmod 700 package/secrets\n"
        "echo k > package/secrets/key; printf '# x\n\ny\n' > package/feature.md; echo t > top.py\n"
        "git add -A; git commit -qm package"
    )
    top = project.root.parent / "linked"
    there = replace(project, root=top / "package")
    key = there.root / "secrets" / "key"
    wants(there, ONE)
    moves = runs("git checkout -q --detach; git commit -q --allow-empty -m x")
    cheats = writes("../top.py", "cheat\n"), writes("secrets/key", "x")
    agent.story(tries(writes("one.txt", "1"), *cheats, moves), tries(writes("one.txt", "1")))
    built(there, "--only", "one.txt")
    assert ((top / "top.py").read_text(), key.read_text()) == ("t\n", "k\n")
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert there.git("show", "--format=", "--name-only").split() == ["package/one.txt"]
    assert there.git("symbolic-ref", "HEAD") == "refs/heads/linked\n"
    assert (subjects(there), subjects(project)) == (["one: Did it", "package", "plan"], ["plan"])


def test_before_the_first_commit_and_not_at_all_where_git_refuses_to_work(plain_project: Project, agent: Agent) -> None:
    """In a folder whose name has each end of a line that Python knows."""
    plain_project.root = plain_project.root.rename(plain_project.root.with_name("a\n b\f c\u2028 d"))
    plain_project.does("git init -q; echo s > staged.txt; git add staged.txt")
    wants(plain_project, ONE)
    agent.story(tries(writes("one.txt", "1"), runs("git add -A; git commit -qm theirs")))
    run = plain_project.build("--strict", env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    assert run.code == 2, run.text
    assert "detected dubious ownership" in run.text
    assert agent.calls == []
    built(plain_project)
    assert subjects(plain_project) == ["one: Did it"]
    assert plain_project.git("status", "--porcelain").splitlines()[0] == "A  staged.txt"


def test_a_head_of_nonsense_is_put_back_and_a_repository_made_again_needs_the_user(
    project: Project, agent: Agent
) -> None:
    wants(project, ONE + OTHER)
    nonsense = writes(".git/HEAD", "nonsense\n")
    anew = runs("rm -rf .git; git init -q --template=; git add feature.md; git commit -qm anew")
    agent.story(tries(nonsense, writes("one.txt", "1")), tries(anew, writes("b", "")), tries(nonsense, runs(KILL)))
    run = built(project, "--task", "one")
    assert "HEAD is put back where it was" in run.text
    assert subjects(project) == ["one: Did it", "plan"]
    built(project, code=4)
    assert re.search(r"RALPH_BLOCKED: ralph: \S*/.git lacks the commit \w{10}, .* keep this one", project.progress_text)
    project.does("sed -i /BLOCKED/d feature_PROGRESS.md; mv .git/HEAD head; echo nonsense > .git/HEAD")
    assert "HEAD: its usual content is ref: refs/heads/main" in built(project, code=4).text
    project.does("mv head .git/HEAD")
    built(project, code=-9)
    agent.story(tries(writes("c", "")), tries(writes("one.txt", "2")))
    assert "HEAD is put back where it was" in built(project).text
    assert subjects(project) == ["one: Did it", "oth: Did it", "anew"], "what is in no commit any more is done again"


def test_more_new_files_than_an_attempt_makes_are_not_moved_away_without_the_user(
    project: Project, agent: Agent
) -> None:
    wants(project, ONE)
    agent.story(tries(runs("mkdir many; cd many; seq 1001 | xargs touch")))
    built(project, "--on-failure", "restore", code=4)
    assert "RALPH_BLOCKED: ralph: 1001 new files, such as many/1, " in project.progress_text
    assert len([*(project.root / "many").iterdir()]) == 1001
    built(project, code=4)


JJ = """\
[ "$1 $2 $3" = "--no-pager --color=never commit" ] || exit 8
for word; do printf '%s\\0' "$word"; done >> $HOME/asked; echo >> $HOME/asked
[ -e $HOME/refuses ] && { rm $HOME/refuses; echo "Error: refused" >&2; exit 1; }
git add -A && git commit -qm "by jj"
"""


def test_jj_commits_exactly_what_was_changed(project: Project, agent: Agent, tmp_path: Path) -> None:
    """A stand-in is called as jj's manual says. A commit that it refuses is a failed try; what git has then stays."""
    executable(tmp_path / "bin" / "jj", JJ)
    project.does("mkdir .jj; echo '*' > .jj/.gitignore; touch ~/refuses")
    wants(project, ONE + OTHER)
    agent.story(
        tries(writes("one.txt", "1"), writes(".jj/op", "x"), *(writes(name, "x") for name in ODD)),
        tries(writes("other", "1")),
        tries(),
    )
    run = built(project)
    assert "one, attempt 1: Error: refused" in run.text
    assert "put back" not in run.text
    assert project.git("log", "-1", "--format=%s") == "by jj\n"
    _, other, one = [line.split("\0")[3:] for line in (project.home / "asked").read_text().split("\0\n")[:-1]]
    assert other[2:] == ['root-file:"other"']
    assert "Ralph-Task: one" in one[1]
    assert sorted(one[2:]) == sorted(f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in ("one.txt", *ODD))
