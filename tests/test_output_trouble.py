"""Nobody has to read what ralph prints: a closed or full output costs lines, never the run."""

import json
import os
import sys
from pathlib import Path

import pytest
from ralph_driver import Project, eventually
from stories import Agent, marks, says, step, waits_for

BUILD = ("feature.md", "build", "--delay", "0")
MUCH = "A word of some length. " * 1000


@pytest.fixture(autouse=True)
def much_to_say(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    first = step(says(MUCH), marks("on"), waits_for("go"), ticks="first")
    agent.story(first, step(says(MUCH), ticks="all", writes_done=True))


def is_done(project: Project, agent: Agent) -> bool:
    """Whether both iterations did their work, and the transcripts are whole and hold nothing of ralph's own."""
    texts = [text for name, text in project.transcripts().items() if name.endswith(".jsonl")]
    kinds = [json.loads(line)["type"] for text in texts for line in text.splitlines()]
    return "\nRALPH_DONE\n" in project.progress_text and (len(agent.calls), kinds.count("result")) == (2, 2)


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-", "2>&-", ">/dev/full 2>&1"])
def test_closed_descriptors_and_a_full_device(project: Project, agent: Agent, closed: str) -> None:
    """And no other file takes the number of a closed descriptor."""
    run = project.start(*BUILD, prefix=("sh", "-c", f'exec "$@" {closed}', "sh"))
    eventually(lambda: agent.reached("on"))
    if closed.startswith("<") and sys.platform == "linux":
        assert {str(Path(f"/proc/{run.pid}/fd/{number}").readlink()) for number in range(3)} == {os.devnull}
    agent.let("go")
    assert (run.wait().code, is_done(project, agent)) == (0, True)


def test_who_stops_reading_stops_nothing(project: Project, agent: Agent) -> None:
    agent.let("go")
    ours, theirs = os.pipe()
    os.close(ours)
    run = project.start_into(theirs, *BUILD)
    os.close(theirs)
    assert (run.wait(60), is_done(project, agent)) == (0, True)
