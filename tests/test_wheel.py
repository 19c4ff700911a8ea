"""ralph as cron runs it: from a wheel in a virtual environment of its own, with nothing around it."""

import fcntl
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


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `ralph` command of a fresh virtual environment into which the wheel was installed, once for all workers."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "venv").exists():
            install(folder)
    return folder / "venv" / "bin" / "ralph"


def install(folder: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=CHECKOUT)
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    (wheel,) = folder.glob("*.whl")
    run(str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", str(wheel))
    # What ralph depends on is borrowed from here: to install it would need an index, and seconds.
    # A .pth adds the folder, but does not act on the .pth of an editable ralph in it.
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


def run(*command: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env | OFFLINE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_cron(project: Project, *command: str, redirect: str = "<&-") -> subprocess.CompletedProcess[str]:
    """Runs it from / with cron's environment and a closed stdin."""
    path = project.env["PATH"]
    kept = [f"{name}={project.env[name]}" for name in ("TEST_MARK", "HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM")]
    argv = ["env", "-i", *kept, f"PATH={path}", "sh", "-c", f'exec "$@" {redirect}', "sh", *command]
    return subprocess.run(argv, cwd="/", check=False, capture_output=True, text=True, timeout=60)


def test_the_wheel_is_used_and_not_the_checkout(installed: Path) -> None:
    where = run(str(installed.with_name("python")), "-c", "import ralph; print(ralph.__file__)", cwd=Path("/"))
    assert Path(where).is_relative_to(installed.parents[1])


@pytest.mark.parametrize("redirect", ["<&-", "</dev/null", "<&- >&- 2>&-"])
def test_cron_plans_and_builds(installed: Path, project: Project, agent: Agent, redirect: str) -> None:
    agent.story(step(adds="one"), step(says("Grüße."), ticks="first", commits="one", writes_done=True))
    common = ("feature.md", "-C", str(project.root), "--delay", "0")
    for mode in ("plan", "build", "build"):
        done = as_cron(project, str(installed), common[0], mode, *common[1:], redirect=redirect)
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(agent.calls) == 2
    assert agent.calls[0].cwd == str(project.root)
    assert str(project.root / "feature.md") in agent.prompts[0]
    assert not list(Path("/").glob("*_PROGRESS.md"))


def test_the_wheel_brings_its_channels(installed: Path, project: Project) -> None:
    done = as_cron(project, str(installed), "notify")
    assert done.returncode == 2
    for channel in ("slack", "discord", "telegram", "custom", "ntfy"):
        assert channel in (done.stdout + done.stderr).lower()


def test_the_wheel_rehearses(installed: Path, project: Project) -> None:
    done = as_cron(project, str(installed), "rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RALPH_DONE" in done.stdout + done.stderr


def test_the_wheel_says_its_version(installed: Path, project: Project) -> None:
    assert as_cron(project, str(installed), "--version").stdout.strip().endswith("2.0.0")
