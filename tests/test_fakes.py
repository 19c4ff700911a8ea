"""What the tests rely on: that they reach nobody."""

import socket

import pytest
from ralph_driver import Project


def test_nothing_but_loopback_can_be_reached(project: Project) -> None:
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("example.invalid", 80), timeout=1)
    with socket.socket() as direct, pytest.raises(AssertionError, match="connects to"):
        direct.connect(("192.0.2.1", 80))
    assert not [name for name in project.env if name.startswith(("RALPH", "TMUX", "CLAUDE", "ANTHROPIC"))]
