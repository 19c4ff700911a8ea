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
    agent.story(step(says(MUCH), ticks="first"), step(says(MUCH), ticks="all", writes_done=True))


def is_done(project: Project, agent: Agent) -> bool:
    """Whether both iterations did their work, and the transcripts are whole and hold nothing of ralph's own."""
    events = [
        json.loads(line)
        for name, text in project.transcripts().items()
        if name.endswith(".jsonl")
        for line in text.splitlines()
    ]
    results = [event for event in events if event["type"] == "result"]
    return "\nRALPH_DONE\n" in project.progress_text and (len(agent.calls), len(results)) == (2, 2)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">/dev/full 2>&1"])
def test_closed_descriptors_and_a_full_device(project: Project, agent: Agent, closed: str) -> None:
    ended = project.ralph(*BUILD, prefix=("sh", "-c", f'exec "$@" {closed}', "sh"))
    assert (ended.code, is_done(project, agent)) == (0, True), ended.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process's descriptors as files")
def test_no_other_file_takes_the_number_of_a_closed_descriptor(project: Project, agent: Agent) -> None:
    agent.story(step(says(MUCH), marks("on"), waits_for("go"), ticks="first"), step(ticks="all", writes_done=True))
    run = project.start(*BUILD, prefix=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
    eventually(lambda: agent.reached("on"))
    assert {str(Path(f"/proc/{run.pid}/fd/{number}").readlink()) for number in range(3)} == {os.devnull}
    agent.let("go")
    assert (run.wait().code, is_done(project, agent)) == (0, True)


@pytest.mark.parametrize("reads", ["nothing and has gone", "nothing"])
def test_a_pipe_whose_reader_reads(project: Project, agent: Agent, reads: str) -> None:
    ours, theirs = os.pipe()
    run = project.start_into(theirs, *BUILD)
    os.close(theirs)
    if reads == "nothing and has gone":
        os.close(ours)
    try:
        assert run.wait(60) == 0
    finally:
        run.kill()
        run.wait()
        if reads != "nothing and has gone":
            os.close(ours)
    assert is_done(project, agent)


def test_a_terminal_that_nobody_reads(project: Project, agent: Agent) -> None:
    run = project.start_tty(*BUILD, reads=False)
    assert run.wait().code == 0
    assert is_done(project, agent)
