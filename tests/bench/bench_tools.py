"""What the benchmarks share: an installed ralph, a clean place, small C programs, and one measured command."""

import itertools
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
PLAN = "feature.md"
PROGRESS = "feature_PROGRESS.md"
_TEXT = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n{}\n\n## Task List\n\n- [{}] one task\n\n## Notes\n"
OPEN, FINISHED = _TEXT.format("IN_PROGRESS", " "), _TEXT.format("RALPH_DONE", "x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one command took, with everything it started and waited for."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    """Of the largest process of the tree."""


class Place:
    """A folder with a home, a repository, and a folder outside of any."""

    def __init__(self, root: Path, python: Path | None) -> None:
        self.root = root
        self.env = _clean_environment(root)
        self._states = itertools.count()
        for folder in ("home", "repository", "outside"):
            (root / folder).mkdir()
            (root / folder / PLAN).write_text("# A feature\n\nBuild it.\n")
        self.python = python.absolute() if python else self._install()
        self.ralph = self.python.parent / "ralph"
        self.launcher = self.compile("launch.c")
        self.agent = self.compile("null.c") or self.script("null", "#!/bin/sh\nexit 0\n")
        for command in (("init", "-q"), ("add", "."), (*_AUTHOR, "commit", "-qm", "begin")):
            self.run("git", *command, folder="repository")

    def run(self, *command: str, folder: str) -> None:
        """Runs a command that must succeed."""
        done = subprocess.run(
            command, cwd=self.root / folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode:
            sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')}")

    def start(self, command: Sequence[str], *, folder: str) -> "subprocess.Popen[bytes]":
        """Starts a command with its output thrown away."""
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=self.root / folder, env=self.env, stdin=nothing, stdout=nothing, stderr=nothing
        )

    def measure(self, command: Sequence[str], *, folder: str, code: int = 0) -> Cost:
        """Runs a command with its output thrown away; it must end with that exit code."""
        report = self.root / "cost.txt"
        launched = [str(self.launcher), str(report), *command] if self.launcher else command
        began = time.monotonic()
        child = self.start(launched, folder=folder)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != code:
            sys.exit(f"{shlex.join(command)}: exit code {child.returncode} in place of {code}")
        if self.launcher:
            wall_s, cpu_s, peak_kib = map(float, report.read_text().split())
            return Cost(wall_s=wall_s, cpu_s=cpu_s, peak_mib=peak_kib / 1024)
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Cost(wall_s=wall_s, cpu_s=used.ru_utime + used.ru_stime, peak_mib=used.ru_maxrss / unit)

    def looping(self, iterations: int) -> list[str]:
        """ralph's arguments for a run that does nothing but loop, and ends at its limit."""
        never = [word for limit in ("--max-failures", "--max-stalls") for word in (limit, "off")]
        limits = ["--max-iterations", str(iterations), *never, "--delay", "0"]
        return [PLAN, "build", "--agent", str(self.agent), *limits]

    def forget(self) -> None:
        """Removes the state folder, which is large."""
        shutil.rmtree(self.env["XDG_STATE_HOME"])

    def fresh(self, folder: str, progress: str = OPEN) -> None:
        """An untouched progress file and a new state folder.

        The old one stays: ext4 is slow to create files for some minutes after many were deleted.
        """
        (self.root / folder / PROGRESS).write_text(progress)
        self.new_state()

    def new_state(self) -> None:
        """A state folder that is not there yet."""
        self.env["XDG_STATE_HOME"] = str(self.root / f"state-{next(self._states)}")

    def _install(self) -> Path:
        """A virtual environment with this checkout installed as people install it, and its bytecode compiled."""
        print("installing ralph into a virtual environment ...", file=sys.stderr)
        venv.create(self.root / "venv", with_pip=True, symlinks=True)
        python = self.root / "venv" / "bin" / "python"
        self.run(str(python), "-m", "pip", "install", "-q", "--compile", str(CHECKOUT), folder="home")
        return python

    def compile(self, name: str) -> Path | None:
        """The program of a C file beside this one; None without a compiler."""
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler:
            return None
        made = self.root / Path(name).stem
        static = [] if sys.platform == "darwin" else ["-static"]
        for flags in (static, []):
            command = [compiler, "-O2", *flags, "-o", str(made), str(HERE / name)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return made
        return None

    def script(self, name: str, text: str) -> Path:
        """The same where there is no compiler: a program of that text."""
        script = self.root / name
        script.write_text(text)
        script.chmod(0o700)
        return script


_AUTHOR = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def _clean_environment(root: Path) -> dict[str, str]:
    """Nothing of ralph's, Python's or git's; no setting keeps Python from using its bytecode cache."""
    strange = ("RALPH_", "PYTHON", "GIT_", "CLAUDE", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    return {**kept, "HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}


def interleaved(subjects: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Each subject once, then each again, so that a busy moment of the machine meets them all."""
    costs: dict[str, list[Cost]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, measure in subjects.items():
            costs[name].append(measure())
    return costs


def median(values: Iterable[float]) -> float:
    """The middle one: a busy moment of the machine does not move it."""
    return statistics.median(values)
