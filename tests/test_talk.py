"""The user at a terminal talks with the agent, `ralph PLAN talk`, and then lets it work."""

import json
import shlex
from pathlib import Path

import pytest
from http_server import Server
from ralph_driver import COMMAND, Project, eventually, executable
from real_agents import Play, uses
from scripted_model import Reply, told, write
from stories import Agent, marks, runs, step, waits_for
from tmux import Tmux

TALKER = """\
case " $* " in *" -p "*) exec "$0.fake" "$@";; esac
for prompt; do :; done
printf '%s' "$prompt" > {outputs}/prompt
printf '%s\\n' "$*" | head -n 1 > {outputs}/words
env > {outputs}/environment
printf 'What shall be done? '
read -r wish
test "$wish" = suspend && kill -STOP $$ && read -r wish
test -z "$wish" || sed -i "s/^## Task List$/## Task List\\n\\n- [ ] $wish/" feature_PROGRESS.md
"""
"""An agent that asks one question, and writes the answer into the task list."""
DISCOVER = "sed -i '/^Plan:/a Mode: discover' feature_PROGRESS.md"
"""The progress file names this mode."""


@pytest.fixture
def talker(project: Project, agent: Agent) -> Agent:
    """The fake that also talks."""
    claude = Path(project.env["PATH"].split(":")[0]) / "claude"
    claude.rename(claude.with_name("claude.fake"))
    executable(claude, TALKER.format(outputs=shlex.quote(str(project.outputs))))
    return agent


def ralph(*words: str) -> str:
    return shlex.join([*COMMAND, "feature.md", *words])


def test_what_the_user_wishes_is_planned_and_built_without_another_question(
    tmux: Tmux, project: Project, talker: Agent
) -> None:
    """In a mode that the file names, which gives way to the next, and in one that the user names."""
    tmux.open(100, 50)
    talker.story(step(), step(ticks="all", writes_done=True))
    project.env["RALPH_SLACK_WEBHOOK_URL"] = "http://127.0.0.1:9/secret"
    project.has_tasks("x one")
    project.does(DISCOVER)
    tmux.enter(ralph())
    eventually(lambda: "What shall be done?" in tmux.screen)
    assert project.ralph("feature.md", "build").code == 75, "nobody else works here meanwhile"
    tmux.enter("suspend")  # as Ctrl+Z does
    eventually(lambda: tmux.rows[-1].startswith("$"))
    tmux.enter("fg")
    tmux.enter("two")
    tmux.enter("y", after="continue with plan? [y/N]")
    assert tmux.exit_code() == 0, tmux.screen
    assert "feature.md is as it was · 1/1 tasks before, 1/2 tasks now · what this cost is not known here" in tmux.screen
    assert "Mode:" not in project.progress_text, "build is next"
    assert len(talker.calls) == 1, "planned"
    tmux.enter(f"clear; RALPH_DELAY=0 RALPH_SLACK_WEBHOOK_URL=http://127.0.0.1:9 {ralph('talk')}")
    tmux.enter("", after="What shall be done?")
    tmux.enter("y", after="continue with build? [y/N]")
    assert tmux.exit_code() == 0, tmux.screen
    assert "- [x] two\n\n- [x] one" in project.progress_text
    prompt = (project.outputs / "prompt").read_text()
    assert "You talk with a user" in prompt
    assert project.progress.name in prompt
    assert "--dangerously-skip-permissions" not in (project.outputs / "words").read_text()
    assert "RALPH_" not in (project.outputs / "environment").read_text()


def test_a_run_at_work_is_stopped_after_its_iteration_by_who_says_yes_and_nothing_begins_by_who_does_not(
    tmux: Tmux, project: Project, talker: Agent
) -> None:
    tmux.open(100, 50)
    project.has_tasks("one", "two")
    talker.story(step(marks("on"), waits_for("go"), ticks="first"), step(ticks="all"))
    run = project.start("feature.md", "build")
    eventually(lambda: talker.reached("on"))
    tmux.enter(f"{ralph('talk')}; echo left with $?")
    tmux.enter("n", after="stop it after its iteration? [y/N]")
    tmux.enter(f"clear; {ralph('talk')}", after="left with 75")
    eventually(lambda: "stop it after its iteration? [y/N]" in tmux.screen)
    tmux.enter("y")
    eventually(lambda: "it ends after this iteration" in tmux.screen)
    eventually(lambda: "\nRALPH_STOP\n" in project.progress_text)
    talker.let("go")
    assert run.wait().code == 3
    tmux.enter("", after="What shall be done?")
    tmux.enter("", after="continue with build? [y/N]")
    assert "RALPH_STOP" not in project.progress_text
    assert (tmux.exit_code(), len(talker.calls)) == (0, 1), tmux.screen


def test_without_a_terminal_a_mode_that_is_a_conversation_calls_for_the_user_once(
    project: Project, agent: Agent
) -> None:
    """Be it that a start finds it, or that a run comes to it."""
    with Server() as server:
        project.env["RALPH_SLACK_WEBHOOK_URL"] = server.url("/hook")
        project.has_tasks("one", "two")
        project.does(DISCOVER)
        text = project.progress_text
        starts = [project.ralph("feature.md") for _ in range(3)]
        starts.append(project.ralph("feature.md", "talk"))
        assert (project.progress_text, agent.calls) == (text, [])
        (first,) = server.received
        project.has_tasks("one", "two")
        agent.story(step(runs(DISCOVER.replace("discover", "talk")), ticks="first"))
        starts += [project.build(), *(project.ralph("feature.md") for _ in range(2))]
    assert {run.code for run in starts} == {4}
    assert "ralph: feature: discover is a conversation; start ralph feature.md discover in a terminal" in starts[0].text
    assert "this mode is a conversation" in starts[4].stdout
    later = [one for one in server.received[1:] if b"conversation" in one.body]
    assert b"is a conversation" in first.body
    assert len(later) == 1


def test_the_real_claude_asks_what_to_build_and_writes_it_down(project: Project, play: Play, tmux: Tmux) -> None:
    about = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(project.root): about}}
    keys = {"customApiKeyResponses": {"approved": ["dummy"], "rejected": []}}
    (project.home / ".claude.json").write_text(json.dumps(settings | keys))  # it is not its first start
    spec = project.root / "specs" / "login.md"
    model = play(Reply(text="Who logs in?"), uses(write(spec, "# Login\n")), Reply(text="It is complete."))
    tmux.open(100, 50)
    tmux.enter(ralph("discover"))
    tmux.enter("Everybody.", after="Who logs in?")
    tmux.enter("", after="Do you want to create login.md?")
    tmux.enter("/exit", after="It is complete.")
    tmux.enter("n", after="continue with plan? [y/N]")
    assert (tmux.exit_code(), spec.read_text()) == (0, "# Login\n"), tmux.screen
    assert "You find out what should be built" in told(model.requests[0])
