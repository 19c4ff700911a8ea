"""git runs no program that an agent named."""

import pytest
from ralph_driver import Project
from stories import Agent, runs, step


def plants(setting: str, of: str = "") -> str:
    """What an agent does so that git runs a program of its own."""
    program = r"printf '#!/bin/sh\ntouch ~/escaped; cat\n' > evil; chmod +x evil"
    return f"{program}; echo x > README.md; echo '* filter=evil' > .gitattributes; git config {of} {setting}"


FILTER = "filter.evil.clean $PWD/evil"
BARE = "git init -q --bare x; mv x/* .; git config -f config core.bare false; git config -f config core.worktree $PWD"
TRACKED = "git add .; git commit -qm x; rm -f ~/escaped; echo more > README.md"
WITHIN = {
    "a submodule": f"cd sub; {plants(FILTER)}; {TRACKED}",
    "a new repository": f"git init -q new; cd new; {plants(FILTER)}; {TRACKED}; git -C .. add new; rm -f ~/escaped",
    "what looks like one": f"{BARE}; {plants(FILTER, '-f config')}; echo junk > .git/HEAD; {TRACKED}",
}


@pytest.mark.parametrize("case", WITHIN)
def test_a_repository_within_is_not_looked_at_by_its_own_settings(project: Project, agent: Agent, case: str) -> None:
    project.does("git init -q ../sub; git -C ../sub commit -q --allow-empty -m s")
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "sub")
    project.has_tasks("one")
    agent.story(step(runs(WITHIN[case])), step(ticks="all", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    assert not (project.home / "escaped").exists(), run.text
