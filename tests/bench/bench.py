"""What ralph costs beside what a person would write in its place: prints tables, asserts nothing; README.md explains.

`python tests/bench/bench.py [TABLE ...]`
"""

import fcntl
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
PROMPT = CHECKOUT / "prompts" / "PROMPT_build.md"
PROGRESS = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n{}\n\n## Task List\n\n{}\n## Notes\n"
OPEN, FINISHED = PROGRESS.format("IN_PROGRESS", "- [ ] one\n"), PROGRESS.format("RALPH_DONE", "- [x] one\n")
NEVER = ("--max-failures", "off", "--max-stalls", "off", "--delay", "0")
RUNS = 5
"""Of each; the table has the medians."""
OBEDIENT = r"""#!/bin/sh
prompt=$(cat)
: > "$(printf '%s\n' "$prompt" | sed -n 's/.*File `\(.*\)` exists.*/\1/p' | head -n 1)"
printf '%s\n' "$prompt" | grep -m 1 '^<task-done '
"""
BARE_CREW = r"""
seq 0 15 | xargs -P "$1" -I@ sh -c 'echo "File \`made/@\` exists" | "$0";
flock .git sh -c "git add made/@ && git commit -qm @"' "$2"
"""
BARE = 'n=0; while [ "$n" -lt "$1" ]; do cat "$2" | "$3"; n=$((n + 1)); done'
AGENT = shutil.which("true") or "true"
"""The program: by its name alone a shell would do without one."""
BARE_STRICT = r"""
while found=$(grep -n -m 1 '^- \[ \]' "$1"); do
  number=${found%%:*} task=${found#*] }
  id=${task%%:*}
  file=$(sed -n "$((number + 1))s/.*File \`\(.*\)\` exists.*/\1/p" "$1")
  signal="<task-done session=\"bench\">$id</task-done>"
  { cat "$2"; printf 'File `%s` exists\n%s\n' "$file" "$signal"; } | "$3" > ../said.txt
  grep -qxF "$signal" ../said.txt && [ -e "$file" ] && sh -c true || exit 1
  sed -i "${number}s/\[ \]/[x]/" "$1"
  git add "$file" "$1" && git commit -qm "$task" || exit 1
done
"""
HOPS = """
import sys
from ralph.cli import main
names, number = set(), 0
def sees(frame, event, _):
    global number
    name = str(frame.f_globals.get("__name__"))
    if event == "call" and name.partition(".")[0] == "ralph":
        number += (name, frame.f_code.co_name) == ("ralph.loop", "reason_to_stop")
        if number == 2:
            names.add((name, frame.f_code.co_qualname))
sys.setprofile(sees)
try:
    main()
finally:
    sys.setprofile(None)
    print(f"{len({module for module, _ in names})} modules, {len(names)} functions", file=open("hops.txt", "w"))
"""


class Cost(NamedTuple):
    """What one command took, with everything it started and waited for; `peak_mib` is that of the largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


class Bench:
    """A ralph installed as people install it, folders for it to work in, and what is measured there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        strange = ("RALPH_", "PYTHON", "GIT_", "CLAUDE", "XDG_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
        author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {**kept, **author, "HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}
        venv.create(root / "venv", with_pip=True, symlinks=True)
        self.python, self.ralph = str(root / "venv/bin/python"), str(root / "venv/bin/ralph")
        for name in ("home", "repository", "outside"):
            self.folder(name)
        self.cost(self.python, "-m", "pip", "install", "-q", "--compile", str(CHECKOUT), folder="home")
        self.commits("repository")

    def folder(self, name: str, progress: str = OPEN) -> Path:
        """That folder with a plan, which has just begun: its state folder is new."""
        path = self.root / name
        path.mkdir(exist_ok=True)
        (path / "feature.md").write_text("# A feature\n\nBuild it.\n")
        (path / "feature_PROGRESS.md").write_text(progress)
        self.env["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="state-", dir=self.root)
        return path

    def commits(self, folder: str) -> None:
        for command in ("init -q", "add .", "commit -qm begin", "status"):
            self.cost("git", *command.split(), folder=folder)

    def cost(self, *command: str, folder: str, code: int = 0) -> Cost:
        """Of a run of the command with its output thrown away; it must end with that exit code."""
        nothing, began = subprocess.DEVNULL, time.monotonic()
        child = subprocess.Popen(
            command, cwd=self.root / folder, env=self.env, stdin=nothing, stdout=nothing, stderr=nothing
        )
        _, status, used = os.wait4(child.pid, 0)
        wall_s, child.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        if child.returncode != code:
            sys.exit(f"{command}: exit code {child.returncode} in place of {code}")
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)

    def table(self, title: str, subjects: Mapping[str, Callable[[], Cost]], runs: int = RUNS) -> None:
        """Prints the medians of interleaved runs, and the ratios to the first, each run beside its own."""
        costs: dict[str, list[Cost]] = {name: [] for name in subjects}
        for _ in range(runs):
            for name, measure in subjects.items():
                costs[name].append(measure())
        print(f"\n## {title}\n\n| what | wall | ratio | CPU ratio | peak |\n|---|---|---|---|---|")
        first = next(iter(costs.values()))
        for name, found in costs.items():
            pairs = list(zip(found, first, strict=True))
            wall = statistics.median(one.wall_s / other.wall_s for one, other in pairs)
            cpu = statistics.median(one.cpu_s / max(other.cpu_s, 0.001) for one, other in pairs)
            wall_s, _, peak_mib = map(statistics.median, zip(*found, strict=True))
            print(f"| {name} | {1000 * wall_s:.0f} ms | {wall:.2f} | {cpu:.2f} | {peak_mib:.1f} MiB |", flush=True)


def start(bench: Bench) -> None:
    """Starts with nothing to do."""
    bench.folder("outside")
    bench.folder("repository", FINISHED)
    held = os.open(bench.root / "outside", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    build = (bench.ralph, "feature.md", "build")
    subjects = {
        'python -c "import click"': partial(bench.cost, bench.python, "-c", "import click", folder="outside"),
        "ralph --help": partial(bench.cost, bench.ralph, "--help", folder="outside"),
        "ralph feature.md build, finished": partial(bench.cost, *build, folder="repository"),
        "ralph feature.md build, locked": partial(bench.cost, *build, folder="outside", code=75),
    }
    bench.table("start-up", subjects)
    os.close(held)


def loop(bench: Bench) -> None:
    """Whole runs beside a bash loop that pipes the prompt into the same agent."""

    def loops(folder: str, iterations: int) -> Cost:
        bench.folder(folder)
        words = ("feature.md", "build", "--agent", AGENT, "--max-iterations", str(iterations), *NEVER)
        return bench.cost(bench.ralph, *words, folder=folder, code=3)

    for folder in ("repository", "outside"):
        for count in (1, 100, 1000):
            bare = partial(bench.cost, "bash", "-c", BARE, "bare", str(count), str(PROMPT), AGENT, folder=folder)
            bench.table(f"loop, {folder}, {count} iterations", {"bash": bare, "ralph": partial(loops, folder, count)})


def strict(bench: Bench) -> None:
    """Whole runs under --strict beside the shell loop that a person would write for the same."""
    obedient = bench.root / "obedient"
    obedient.write_text(OBEDIENT)
    obedient.chmod(0o700)
    more = ("--strict", "--verify", "true", "--delay", "0", "--agent", str(obedient))
    build = (bench.ralph, "feature.md", "build", *more)
    bare = ("bash", "-c", BARE_STRICT, "shell", "feature_PROGRESS.md", str(PROMPT), str(obedient))

    for tasks, files in ((30, 0), (100, 0), (30, 5000)):
        both = {"shell": partial(_all, bench, bare, tasks, files), "ralph": partial(_all, bench, build, tasks, files)}
        bench.table(f"strict, {tasks} tasks, {files} more files", both)


def _all(bench: Bench, command: tuple[str, ...], tasks: int, files: int = 0) -> Cost:
    """Of doing so many tasks, each of which makes a file, in a repository with so many others."""
    shutil.rmtree(bench.root / "strict", ignore_errors=True)
    lines = [f"- [ ] t{n}: Task {n}\n  - verify: File `made/{n}` exists\n" for n in range(tasks)]
    folder = bench.folder("strict", PROGRESS.format("IN_PROGRESS", "".join(lines)))
    (folder / "made").mkdir()
    (folder / "made" / ".keep").touch()
    for n in range(files):
        (folder / "src" / str(n % 100)).mkdir(parents=True, exist_ok=True)
        (folder / "src" / str(n % 100) / f"{n}.py").write_text(f"# {n}\n")
    bench.commits("strict")
    return bench.cost(*command, folder="strict")


def crew(bench: Bench) -> None:
    """Sixteen independent tasks with an agent that takes two seconds, beside xargs doing them without any check."""
    slow = bench.root / "slow"
    slow.write_text(OBEDIENT.replace("prompt=", "sleep 2; prompt="))
    slow.chmod(0o700)
    for jobs in ("1", "2", "4", "8"):
        words = ("feature.md", "build", "--strict", "--delay", "0", "--agent", str(slow), "--jobs", jobs)
        bare = ("bash", "-c", BARE_CREW, "xargs", jobs, str(slow))
        both = {"xargs": partial(_all, bench, bare, 16), "ralph": partial(_all, bench, (bench.ralph, *words), 16)}
        bench.table(f"crew, 16 tasks, {jobs} at once", both, runs=1)


def hops(bench: Bench) -> None:
    """How many modules and functions of ralph's one plain iteration passes."""
    folder = bench.folder("outside")
    bench.cost(bench.python, "-c", HOPS, "feature.md", "2", "--agent", AGENT, *NEVER, folder="outside", code=3)
    print(f"\n## one iteration\n\n{(folder / 'hops.txt').read_text()}", end="")


if __name__ == "__main__":
    tables = {table.__name__: table for table in (start, loop, strict, crew, hops)}
    memory_disk = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - a disk's slowness is not ralph's
    print(f"load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=memory_disk) as root:
        measured = Bench(Path(root))
        for name in sys.argv[1:] or tables:
            tables[name](measured)
