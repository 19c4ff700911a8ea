"""Projects under jj: a stand-in notes how it is called, in the form of jj's own manual."""

import json
from pathlib import Path

from ralph_driver import Project, executable
from stories import Agent, tries, writes
from test_strict import ODD, ONE, OTHER, built, wants

STAND_IN = """\
[ "$1 $2 $3" = "--no-pager --color=never commit" ] || exit 8
for word; do printf '%s\\0' "$word"; done >> $HOME/asked; echo >> $HOME/asked
[ -e $HOME/refuses ] && { rm $HOME/refuses; echo "Error: refused" >&2; exit 1; }
[ -e $HOME/colocated ] && git add -A && git commit -qm "by jj"
exit 0
"""


def test_jj_commits_exactly_what_was_changed(project: Project, agent: Agent, tmp_path: Path) -> None:
    """A commit that it refuses is a failed try; what it commits beside git stays."""
    executable(tmp_path / "bin" / "jj", STAND_IN)
    (project.root / ".jj").mkdir()
    (project.root / ".jj" / ".gitignore").write_text("*\n")
    (project.home / "refuses").touch()
    wants(project, ONE + OTHER)
    agent.story(
        tries(writes("one.txt", "1"), writes(".jj/op", "x"), *(writes(name, "x") for name in ODD)),
        tries(writes("other", "1")),
        tries(),
    )
    built(project, "--max-iterations", "2", code=3)
    assert "refused" in project.progress_text
    (project.home / "colocated").touch()
    assert "put back" not in built(project).text
    assert project.git("log", "-1", "--format=%s") == "by jj\n"
    _, other, one = [line.split("\0")[3:] for line in (project.home / "asked").read_text().split("\0\n")[:-1]]
    assert other[2:] == ['root-file:"other"']
    assert "Ralph-Task: one" in one[1]
    assert sorted(one[2:]) == sorted(f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in ("one.txt", *ODD))
