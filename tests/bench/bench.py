"""What ralph costs beside what the user would write in its place: prints tables, asserts nothing; README.md explains.

`python tests/bench/bench.py [TABLE ...]`
"""

import marshal
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
PROMPT = CHECKOUT / "prompts" / "PROMPT_build.md"
PROGRESS = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n{}\n\n## Task List\n\n{}\n## Notes\n"
OPEN, FINISHED = PROGRESS.format("IN_PROGRESS", "- [ ] one\n"), PROGRESS.format("RALPH_DONE", "- [x] one\n")
NEVER = ("--max-failures", "off", "--max-stalls", "off", "--delay", "0")
STRICT = ("feature.md", "build", "--strict", "--delay", "0")
OBEDIENT = r"""#!/bin/sh
[ -z "$PAUSE_S" ] || sleep "$PAUSE_S"
prompt=$(cat)
: > "$(printf '%s\n' "$prompt" | sed -n 's/.*File `\(.*\)` exists.*/\1/p' | head -n 1)"
printf '%s\n' "$prompt" | grep -m 1 '^<task-done '
"""
BARE_PARALLEL = r"""
seq 0 15 | xargs -P "$1" -I@ sh -c 'echo "File \`made/@\` exists" | "$0";
flock .git sh -c "sleep $1 && git add made/@ && git commit -qm @"' "$2" "$3"
"""
"""So many at once, the agent, and the seconds that verify takes, within the lock: each commit has passed."""
PROFILED = """
import cProfile, os
from ralph.cli import main
profile, leave = cProfile.Profile(), os._exit
os._exit = lambda code: (profile.dump_stats("profile"), leave(code))
profile.runcall(main)
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


class Cost(NamedTuple):
    """What one command took, with everything it started and waited for; `peak_mib` is that of the largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float


class Bench:
    """A ralph installed as people install it, folders for it to work in, and what is measured there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {**author, "PATH": os.environ["PATH"], "HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}
        venv.create(root / "venv", with_pip=True, symlinks=True)
        self.python, self.ralph = str(root / "venv/bin/python"), str(root / "venv/bin/ralph")
        self.obedient = str(root / "obedient")
        Path(self.obedient).write_text(OBEDIENT)
        Path(self.obedient).chmod(0o700)
        for name in ("home", "repository", "outside"):
            self.folder(name)
        subprocess.run([self.python, "-m", "pip", "install", "-q", "--compile", CHECKOUT], check=True)
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
            self.cost(folder, "git", *command.split())

    def cost(self, folder: str, *command: str) -> Cost:
        """Of a run of the command there with its output thrown away; it must not end with an error."""
        nothing, began = subprocess.DEVNULL, time.monotonic()
        child = subprocess.Popen(
            command, cwd=self.root / folder, env=self.env, stdin=nothing, stdout=nothing, stderr=nothing
        )
        _, status, used = os.wait4(child.pid, 0)
        wall_s, child.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 3, 75):  # a limit, a lock
            sys.exit(f"{command}: exit code {child.returncode}")
        return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def table(
        self, title: str, begin: Callable[[], object], commands: Mapping[str, Sequence[str]], runs: int = 5
    ) -> None:
        """Prints the medians of interleaved runs, and the ratios to the first, each run beside its own.

        A command has its folder before it, and each run begins anew.
        """
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                begin()
                costs[name].append(self.cost(*command))
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
    commands = {
        'python -c "import click"': ("outside", bench.python, "-c", "import click"),
        "ralph --help": ("outside", bench.ralph, "--help"),
        "ralph feature.md build, finished": ("repository", bench.ralph, "feature.md", "build"),
        "ralph feature.md build, locked": ("outside", "flock", ".", bench.ralph, "feature.md", "build"),
    }
    bench.table("start-up", partial(bench.folder, "repository", FINISHED), commands)


def loop(bench: Bench) -> None:
    """Whole runs beside a bash loop that pipes the prompt into the same agent."""
    for folder in ("repository", "outside"):
        for count in ("1", "100", "1000"):
            bare = (folder, "bash", "-c", BARE, "bare", count, str(PROMPT), AGENT)
            ralph = (folder, bench.ralph, "feature.md", count, "--agent", AGENT, *NEVER)
            commands = {"bash": bare, "ralph": ralph}
            bench.table(f"loop, {folder}, {count} iterations", partial(bench.folder, folder), commands)


def strict(bench: Bench) -> None:
    """Whole runs under --strict beside the shell loop that the user would write for the same."""
    bare = ("strict", "bash", "-c", BARE_STRICT, "shell", "feature_PROGRESS.md", str(PROMPT), bench.obedient)
    ralph = ("strict", bench.ralph, *STRICT, "--verify", "true", "--agent", bench.obedient)
    for tasks, files in ((30, 0), (100, 0), (30, 5000)):
        begin = partial(_lists, bench, tasks, files)
        bench.table(f"strict, {tasks} tasks, {files} more files", begin, {"shell": bare, "ralph": ralph})


def _lists(bench: Bench, tasks: int, files: int = 0) -> None:
    """A repository with so many tasks, each of which makes a file, and so many other files."""
    shutil.rmtree(bench.root / "strict", ignore_errors=True)
    lines = [f"- [ ] t{n}: Task {n}\n  - verify: File `made/{n}` exists\n" for n in range(tasks)]
    folder = bench.folder("strict", PROGRESS.format("IN_PROGRESS", "".join(lines)))
    for name in ("made/.keep", *(f"src/{n % 100}/{n}.py" for n in range(files))):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    bench.commits("strict")


def parallel(bench: Bench) -> None:
    """Sixteen independent tasks with an agent that takes two seconds, beside xargs with a lock around each commit."""
    for jobs, verify_s, window in (("2", "0", "1"), ("4", "0", "1"), ("4", "2", "4"), ("8", "6", "1"), ("8", "6", "4")):
        slow = ("strict", "env", "PAUSE_S=2")
        bare = (*slow, "bash", "-c", BARE_PARALLEL, "xargs", jobs, bench.obedient, verify_s)
        how = ("--jobs", jobs, "--landing-window", window, "--verify", f"sleep {verify_s}")
        commands = {"xargs": bare, "ralph": (*slow, bench.ralph, *STRICT, "--agent", bench.obedient, *how)}
        title = f"parallel, 16 tasks, {jobs} at once, verify {verify_s} s, window {window}"
        bench.table(title, partial(_lists, bench, 16), commands, runs=1)


def hops(bench: Bench) -> None:
    """How many modules and functions of ralph's one plain iteration passes."""
    calls = []
    for count in ("1", "2"):
        folder = bench.folder("outside")
        profiled = (bench.python, "-c", PROFILED, "feature.md", count)
        bench.cost("outside", *profiled, "--agent", AGENT, *NEVER)
        seen: dict[tuple[str, int, str], tuple[int, ...]] = marshal.loads((folder / "profile").read_bytes())
        calls.append({where: numbers[1] for where, numbers in seen.items() if "/ralph/" in where[0]})
    more = [where for where, number in calls[1].items() if number > calls[0].get(where, 0)]
    print(f"\n## one iteration\n\n{len({file for file, _, _ in more})} modules, {len(more)} functions")


if __name__ == "__main__":
    tables = {table.__name__: table for table in (start, loop, strict, parallel, hops)}
    memory_disk = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - a disk's slowness is not ralph's
    print(f"load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=memory_disk) as root:
        measured = Bench(Path(root))
        for name in sys.argv[1:] or tables:
            tables[name](measured)
