"""How hard the real `claude` thinks, as its model is asked; see tests/test_real_claude.py."""

import pytest
from ralph_driver import Project
from real_claude import Play
from scripted_model import ScriptedModel
from test_real_claude import build, finishes


def asked(project: Project, play: Play, *args: str) -> ScriptedModel:
    """What the model of one iteration was asked."""
    project.has_tasks("one")
    model = play(*finishes(project))
    run = build(project, *args)
    assert run.code == 0, run.text
    return model


@pytest.mark.parametrize("model", ["sonnet", "opus", "haiku"])
def test_effort_none_turns_thinking_off(project: Project, play: Play, model: str) -> None:
    """The word itself it would ignore; what is in the environment already does not matter."""
    project.env |= {"MAX_THINKING_TOKENS": "9000"}
    requests = asked(project, play, "--model", model, "--reasoning", "none").requests
    assert [one.body.get("thinking", {}).get("type", "disabled") for one in requests] == ["disabled"] * 4


def test_without_it_the_model_thinks(project: Project, play: Play) -> None:
    requests = asked(project, play, "--model", "sonnet", "--reasoning", "med").requests
    assert [one.body["thinking"]["type"] for one in requests] == ["adaptive"] * 4
    assert {one.body["output_config"]["effort"] for one in requests} == {"medium"}
