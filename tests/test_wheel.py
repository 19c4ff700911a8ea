"""ralph as cron runs it: from a wheel in a virtual environment of its own, with nothing around it."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT, Project
from stories import Agent, says, step

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull}


def install(folder: Path) -> Path:
    """The `ralph` command of a fresh virtual environment into which the wheel was installed."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=CHECKOUT)
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    (wheel,) = folder.glob("*.whl")
    python = str(folder / "venv" / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", str(wheel))
    # What ralph depends on is borrowed from here: to install it would need an index, and seconds.
    # A .pth adds the folder, but does not act on the .pth of an editable ralph in it.
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "ralph"


def run(*command: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env | OFFLINE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_cron(project: Project, *command: str, closed: str = "<&-") -> subprocess.CompletedProcess[str]:
    """Runs it from / with cron's environment and a closed stdin."""
    kept = [f"{name}={project.env[name]}" for name in ("TEST_MARK", "HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM", "PATH")]
    argv = ["env", "-i", *kept, "sh", "-c", f'exec "$@" {closed}', "sh", *command]
    return subprocess.run(argv, cwd="/", check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling builds the wheel")
def test_cron_plans_and_builds_with_the_wheel_which_brings_all_it_needs(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    ralph = install(tmp_path)
    where = run(str(ralph.with_name("python")), "-c", "import ralph; print(ralph.__file__)", cwd=Path("/"))
    assert Path(where).is_relative_to(tmp_path), "the wheel is used, and not the checkout"
    agent.story(step(adds="one"), step(says("Grüße."), ticks="first", commits="one", writes_done=True))
    words = ("-C", str(project.root), "--delay", "0")
    for mode, closed in (("plan", "<&-"), ("build", "<&- >&- 2>&-"), ("build", "</dev/null")):
        done = as_cron(project, str(ralph), "feature.md", mode, *words, closed=closed)
        assert done.returncode == 0, done.stdout + done.stderr
    assert [call.cwd for call in agent.calls] == [str(project.root)] * 2
    assert str(project.root / "feature.md") in agent.prompts[0]
    assert not list(Path("/").glob("*_PROGRESS.md"))
    channels = as_cron(project, str(ralph), "notify", "test")
    assert channels.returncode == 1
    for channel in ("slack", "discord", "telegram", "custom", "ntfy"):
        assert channel in (channels.stdout + channels.stderr).lower()
    assert as_cron(project, str(ralph), "--version").stdout.startswith("ralph 2.")
