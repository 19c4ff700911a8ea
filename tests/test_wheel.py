"""ralph as cron runs it: from a wheel, with nothing around it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT, Project, Run
from stories import Agent, says, step


def test_cron_plans_and_builds_with_the_wheel_which_brings_all_it_needs(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    site, python = tmp_path / "site", (sys.executable, "-P", "-m")
    offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull}
    build = (*python, "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site), str(CHECKOUT))
    subprocess.run(build, env=os.environ | offline, check=True)

    def as_cron(*words: str, closed: str = "<&-") -> Run:
        """From / with cron's environment, and at least stdin closed; what ralph depends on is borrowed from here."""
        names = ("TEST_MARK", "HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM", "PATH")
        env = [f"PYTHONPATH={site}", *(f"{name}={project.env[name]}" for name in names)]
        prefix = ["env", "-i", *env, "sh", "-c", f'exec "$@" {closed}', "sh"]
        return project.ralph(*words, prefix=prefix, cwd=Path("/"), command=[str(site / "bin" / "ralph")])

    agent.story(step(adds="one"), step(says("Grüße."), ticks="first", commits="one", writes_done=True))
    for mode, closed in (("plan", "<&-"), ("build", "<&- >&- 2>&-"), ("build", "</dev/null")):
        ended = as_cron("feature.md", mode, "-C", str(project.root), "--delay", "0", closed=closed)
        assert ended.code == 0, ended.text
    assert [call.cwd for call in agent.calls] == [str(project.root)] * 2
    assert str(project.root / "feature.md") in agent.prompts[0]
    assert not list(Path("/").glob("*_PROGRESS.md"))
    (project.home / ".ralph.env").write_text("RALPH_TELEGRAM_CHAT_ID=-42\n")
    assert "telegram: off, because RALPH_TELEGRAM_BOT_TOKEN is not set" in as_cron("notify", "test").stdout
    assert as_cron("--version").stdout.startswith("ralph 2.")
