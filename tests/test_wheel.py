"""ralph as cron runs it: from a wheel in a virtual environment of its own, with nothing around it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT, Project, Run
from stories import Agent, says, step

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env | OFFLINE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cron_plans_and_builds_with_the_wheel_which_brings_all_it_needs(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=CHECKOUT)
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "-q", "--no-deps", wheel)
    # What ralph depends on is borrowed from here: to install it would need an index, and seconds.
    # A .pth adds the folder, but does not act on the .pth of an editable ralph in it.
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(venv / "bin" / "python", "-c", "import ralph; print(ralph.__file__)", cwd=Path("/"))
    assert Path(where).is_relative_to(tmp_path), "the wheel is used, and not the checkout"

    def as_cron(*words: str, closed: str = "<&-") -> Run:
        """From / with cron's environment, and at least stdin closed."""
        names = ("TEST_MARK", "HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM", "PATH")
        env = [f"{name}={project.env[name]}" for name in names]
        prefix = ["env", "-i", *env, "sh", "-c", f'exec "$@" {closed}', "sh"]
        return project.ralph(*words, prefix=prefix, cwd=Path("/"), command=[str(venv / "bin" / "ralph")])

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
