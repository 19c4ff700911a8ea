"""Fixtures of the black-box tests, and the watch over what a test leaves behind."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from forks import BEGINS_WITH
from offspring import Offspring
from ralph_driver import LONG, MARK, Project, kill, marked
from real_agents import play, real
from stories import Agent
from tmux import Tmux

__all__ = ["play", "real"]  # fixtures of their own module

hypothesis.settings.register_profile(
    "ralph",
    max_examples=1000 if LONG else 30,
    derandomize=not LONG,  # a run of the tests says something of a change, not of its luck
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),  # they mind slow machines, and examples that are drawn anew
)
hypothesis.settings.load_profile("ralph")

MEMORY = "/dev/shm"
ROOM_BYTES = 2_000_000_000
if (
    os.path.isdir(MEMORY)  # noqa: PTH112 - a string is what it shall be
    and f" {tempfile.gettempdir()} tmpfs " not in Path("/proc/mounts").read_text()  # which is as good
    and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)  # on a disk each of thousands of fsyncs takes milliseconds

LOOPBACK = ("127.", "::1", "localhost")
GRACE_S = 10.0
"""How long ralph's own small processes may take to leave after ralph has ended, on a slow machine."""

GITCONFIG = """[user]
\tname = A Tester
\temail = tester@example.invalid
[init]
\tdefaultBranch = main
"""


@pytest.fixture
def tmux(project: Project) -> Iterator[Tmux]:
    """A terminal, once the test opens it."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    terminal = Tmux(project.env, project.root)
    yield terminal
    terminal.end()


def only_loopback(event: str, args: tuple[Any, ...]) -> None:
    """The test process itself reaches nothing else; the environment of a project sees to the others."""
    if event == "socket.connect" and args[0].family != socket.AF_UNIX:
        assert str(args[1][0]).startswith(LOOPBACK), f"connects to {args[1]}"
    if event == "socket.getaddrinfo" and args[0] is not None:
        assert str(args[0]).startswith(LOOPBACK), f"looks up {args[0]}"


sys.addaudithook(only_loopback)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """The fake claude; `project` has it on PATH."""
    fake = Agent(tmp_path / "agent")
    fake.install(tmp_path / "bin" / "claude")
    return fake


@pytest.fixture
def plain_project(tmp_path: Path, agent: Agent) -> Iterator[Project]:
    """A folder with a plan, which is no git repository; ralph and its agent know nothing else of this machine.

    After the test nothing that was started in its environment may be left.
    """
    del agent  # it has to be on PATH
    mark = uuid.uuid4().hex
    memory = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    temporary = Path(tempfile.mkdtemp(prefix="rt", dir=memory))  # short: a socket's path has 108 bytes
    root, home, state, outputs = (tmp_path / name for name in ("repo", "home", "state", "outputs"))
    for folder in (root, home, state, outputs):
        folder.mkdir()
    (home / ".gitconfig").write_text(GITCONFIG)
    (root / "feature.md").write_text("# A feature\n\nMake it so.\n")
    git = Path(shutil.which("git") or "git").parent
    env = {
        MARK: mark,
        "PATH": os.pathsep.join(dict.fromkeys([f"{tmp_path}/bin", "/usr/bin", "/bin", str(git)])),
        "HOME": str(home),
        "XDG_STATE_HOME": str(state),
        "TMPDIR": str(temporary),
        **BEGINS_WITH,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HTTP_PROXY": "http://127.0.0.1:9",  # a closed port, so that what leaves loopback fails at once
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    yield Project(root=root, home=home, state=state, outputs=outputs, env=env)
    deadline = time.monotonic() + GRACE_S
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(temporary, ignore_errors=True)
    if left:
        subprocess.run(["ps", "-o", "pid,args", *map(str, left)], check=False)
        kill(left)
        pytest.fail("something is left running")


@pytest.fixture
def project(plain_project: Project, repository: Path) -> Project:
    """A git repository with a committed plan."""
    shutil.copytree(repository / ".git", plain_project.root / ".git")
    return plain_project


@pytest.fixture
def no_override() -> list[str]:
    """A command that takes root's right to write everywhere away; nothing for anybody else."""
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that each project begins with: made once, then copied."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "feature.md").write_text("# A feature\n\nMake it so.\n")
    (folder / ".gitconfig").write_text(GITCONFIG)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for command in ("init -q --template=", "add feature.md", "commit -q -m plan"):  # no hooks: less to copy
        subprocess.run(["git", *command.split()], cwd=folder, env=env, check=True, capture_output=True)
    return folder


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With RALPH_TESTS_NO_SKIP=1 a skipped test fails the run: nothing is left out unseen."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("RALPH_TESTS_NO_SKIP") == "1" and reporter and reporter.stats.get("skipped"):
        reporter.write_line("RALPH_TESTS_NO_SKIP=1: a skipped test is a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def offspring(tmp_path: Path) -> Iterator[Offspring]:
    """Processes that an agent starts; ended after the test, however it went."""
    made = Offspring(tmp_path / "offspring")
    yield made
    kill(made.pid(name) for name in made.alive())
