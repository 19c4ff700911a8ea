"""Projects under jj: a stand-in notes how it is called, in the form of jj's own manual."""

import json
from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, tries, writes
from test_strict import ONE, built, wants

STAND_IN = """#!/bin/sh
[ "$1 $2" = "--no-pager --color=never" ] || exit 8
shift 2
for word; do printf '%s\\0' "$word"; done >> $HOME/asked; echo >> $HOME/asked
case "$*" in
    "log --no-graph -r @- "*) echo c1 ;;
    "commit --message "*)
        [ -e $HOME/colocated ] && git add -A && git commit -qm "by jj"
        [ -e $HOME/refuses ] && { echo "Error: refused" >&2; exit 1; }
        exit 0 ;;
    *) echo "Error: unexpected argument" >&2; exit 2 ;;
esac
"""
ODD = ['say "x"', "back\\slash", "new\nline", "é", "a(b) | c"]


@pytest.fixture
def jj(project: Project, tmp_path: Path) -> Project:
    (tmp_path / "bin" / "jj").write_text(STAND_IN)
    (tmp_path / "bin" / "jj").chmod(0o755)
    (project.root / ".jj").mkdir()
    wants(project, ONE)
    return project


def test_jj_commits_exactly_what_was_changed(jj: Project, agent: Agent) -> None:
    agent.story(tries(writes("one.txt", "1"), writes(".jj/op", "x"), *(writes(name, "x") for name in ODD)))
    built(jj)
    commit = (jj.home / "asked").read_text().split("\0\n")[0].split("\0")
    assert "Ralph-Task: one" in commit[2]
    assert sorted(commit[3:]) == sorted(f"root-file:{json.dumps(one, ensure_ascii=False)}" for one in ("one.txt", *ODD))


def test_a_commit_that_jj_refuses_is_a_failed_try(jj: Project, agent: Agent) -> None:
    (jj.home / "refuses").touch()
    agent.story(tries(writes("one.txt", "1")))
    built(jj, "--max-iterations", "1", code=3)
    assert "refused" in jj.progress_text


def test_what_jj_commits_beside_git_stays(jj: Project, agent: Agent) -> None:
    (jj.root / ".jj" / ".gitignore").write_text("*\n")
    (jj.home / "colocated").touch()
    agent.story(tries(writes("one.txt", "1")))
    assert "put back" not in built(jj).text
    assert jj.git("log", "-1", "--format=%s") == "by jj\n"
