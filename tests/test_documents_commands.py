"""The commands on the pages are what ralph accepts: each is run, up to the agent."""

import json
import re
import shlex

import pytest
from ralph_driver import CHECKOUT, Project, executable

PAGES = ("README", "docs/unattended", "docs/sandbox", "docs/agents", "docs/modes", "docs/strict", "docs/coming-from")
VERBS = ("rehearse", "status", "log", "report", "notify", "doctor", "help")
"""Their commands ask for no agent; others show them."""


def commands(page: str) -> list[str]:
    """What blocks for a shell begin a run with, without the comments behind it."""
    text = (CHECKOUT / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.split(r"\s{2,}#", line)[0] for line in lines if re.match(r"ralph ", line)]
    return [one for one in found if one.split()[1] not in VERBS]


@pytest.mark.parametrize(("page", "command"), [(page, one) for page in PAGES for one in commands(page)])
def test_a_run_that_a_page_shows_is_accepted_as_it_is_written(project: Project, page: str, command: str) -> None:
    for name in ("claude", "codex"):
        executable(project.root.parent / "bin" / name, "exit 9")
    for name in ("r.json", "requirements.json"):
        (project.root / name).write_text(json.dumps([{"id": "a", "requirement": "x", "description": "x"}]))
    if "feature.md build" in command:
        project.has_tasks("one")  # plan comes before it
    words = shlex.split(command.replace("/home/you/.ralph/sandbox", "env"))[1:]
    run = project.ralph(*words, "--dry-run")
    assert (run.code, "Traceback" in run.text) == (0, False), f"{page}: {command}: {run.text}"


def test_the_pages_show_runs() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 12
