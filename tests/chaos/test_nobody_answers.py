"""Nobody at the other end: a webhook that takes everything and says nothing."""

import socket
from collections.abc import Iterator

import pytest
from ralph_driver import Project, Running, paced
from stories import Agent, step

BUILD = ("feature.md", "build", "--delay", "0")


@pytest.fixture
def silence() -> Iterator[str]:
    """The address of somebody who accepts, and never reads or says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def start(project: Project, silence: str) -> Running:
    """A run that tells the silence of everything."""
    told = dict.fromkeys(("RALPH_WEBHOOK_URL", "RALPH_SLACK_WEBHOOK_URL", "RALPH_HEARTBEAT_URL"), silence)
    return project.start(*BUILD, "--notify-frequency", "1", env=told, command=paced(send_s=1))


def test_a_webhook_that_hangs_delays_no_iteration_and_the_end_by_a_moment(
    project: Project, agent: Agent, silence: str
) -> None:
    project.has_tasks(*"abcdefghij")
    agent.story(*[step(ticks="first")] * 9, step(ticks="first", writes_done=True))
    ended = start(project, silence).wait()
    assert (ended.code, len(agent.calls)) == (0, 10), ended.text
    assert "not sent" in ended.stderr
    assert "Traceback" not in ended.stderr
