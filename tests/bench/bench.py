"""What ralph costs beside what a person would write in its place: prints tables, asserts nothing; README.md explains.

`python tests/bench/bench.py [TABLE ...]`
"""

import argparse
import fcntl
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PROMPT = CHECKOUT / "prompts" / "PROMPT_build.md"
PROGRESS = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n{}\n\n## Task List\n\n{}\n## Notes\n"
OPEN, FINISHED = PROGRESS.format("IN_PROGRESS", "- [ ] one\n"), PROGRESS.format("RALPH_DONE", "- [x] one\n")
LINE = "The parser of settings now understands durations; see its tests for the cases.\n"
NEVER = ("--max-failures", "off", "--max-stalls", "off", "--delay", "0")
GIGABYTE = 1_000_000_000

SAYS = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": LINE * 8}]}}
USAGE = {"input_tokens": 1200, "output_tokens": 3400, "cache_read_input_tokens": 560_000}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": LINE,
    "total_cost_usd": 0.4,
    "usage": USAGE,
}
CHATTER = f"""#!{sys.executable} -IS
line = {json.dumps(SAYS)!r}
for _ in range({GIGABYTE} // 1000 // len(line)):
    print("\\n".join([line] * 1000))
print({json.dumps(RESULT)!r})
"""
OBEDIENT = r"""#!/bin/sh
prompt=$(cat)
: > "$(printf '%s\n' "$prompt" | sed -n 's/.*File `\(.*\)` exists.*/\1/p' | head -n 1)"
printf '%s\n' "$prompt" | grep -m 1 '^<task-done '
"""
BARE = 'n=0; while [ "$n" -lt "$1" ]; do cat "$2" | true; n=$((n + 1)); done'
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
LOOK = (
    "for f in *_PROGRESS.md; do grep -c '^- .x.' $f; "
    "tail -n 1 $XDG_STATE_HOME/ralph/${f%_PROGRESS.md}-*/journal.jsonl; done"
)
HOPS = """
import sys
from collections import Counter
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


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took, with everything it started and waited for."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    """Of the largest process; never below that of this Python, from which it was forked."""


Subjects = dict[str, Callable[[], Cost]]


class Bench:
    """A ralph installed as people install it, folders for it to work in, and what is measured there."""

    def __init__(self, root: Path, runs: int) -> None:
        self.root, self.runs = root, runs
        strange = ("RALPH_", "PYTHON", "GIT_", "CLAUDE", "XDG_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
        author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {**kept, **author, "HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}
        venv.create(root / "venv", with_pip=True, symlinks=True)
        self.python, self.ralph = str(root / "venv/bin/python"), str(root / "venv/bin/ralph")
        self.runs_well(self.python, "-m", "pip", "install", "-q", "--compile", str(CHECKOUT), folder=".")
        for name in ("home", "repository", "outside"):
            self.folder(name)
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
            self.runs_well("git", *command.split(), folder=folder)

    def agent(self, name: str, text: str) -> str:
        path = self.root / name
        path.write_text(text)
        path.chmod(0o700)
        return str(path)

    def runs_well(self, *command: str, folder: str) -> None:
        subprocess.run(command, cwd=self.root / folder, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def measured(self, *command: str, folder: str, code: int = 0) -> Cost:
        """A run of the command with its output thrown away; it must end with that exit code."""
        nothing, began = subprocess.DEVNULL, time.monotonic()
        child = subprocess.Popen(
            command, cwd=self.root / folder, env=self.env, stdin=nothing, stdout=nothing, stderr=nothing
        )
        _, status, used = os.wait4(child.pid, 0)
        wall_s, child.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        if child.returncode != code:
            sys.exit(f"{shlex.join(command)}: exit code {child.returncode} in place of {code}")
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)

    def loops(self, folder: str, iterations: int) -> Cost:
        """A run that does nothing but loop, and ends at its limit."""
        self.folder(folder)
        words = ("feature.md", "build", "--agent", "true", "--max-iterations", str(iterations), *NEVER)
        return self.measured(self.ralph, *words, folder=folder, code=3)

    def table(self, title: str, subjects: Subjects, *, runs: int | None = None) -> None:
        """Prints the medians of interleaved runs, and the ratios to the first, each run beside its own."""
        costs: dict[str, list[Cost]] = {name: [] for name in subjects}
        for _ in range(runs or self.runs):
            for name, measure in subjects.items():
                costs[name].append(measure())
        print(f"\n## {title}\n\n| what | wall | CPU | ratio | CPU ratio | peak |\n|---|---|---|---|---|---|")
        first = next(iter(costs.values()))
        for name, found in costs.items():
            wall_s, cpu_s, peak = (statistics.median(getattr(one, field) for one in found) for field in Cost.__slots__)
            wall, cpu = (
                statistics.median(
                    getattr(a, of) / max(getattr(b, of), 0.001) for a, b in zip(found, first, strict=True)
                )
                for of in ("wall_s", "cpu_s")
            )
            row = f"{1000 * wall_s:.0f} ms | {1000 * cpu_s:.0f} ms | {wall:.2f} | {cpu:.2f} | {peak:.1f} MiB"
            print(f"| {name} | {row} |", flush=True)


def start(bench: Bench) -> None:
    """Starts with nothing to do."""
    bench.folder("outside")
    repository = bench.folder("repository", FINISHED)
    held = os.open(bench.root / "outside", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    settings = repository / "home" / ".ralph.env"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('export RALPH_NOTIFY_FREQUENCY="10"\n')
    settings.chmod(0o600)
    build = (bench.ralph, "feature.md", "build")
    subjects: Subjects = {
        'python -c "import click"': partial(bench.measured, bench.python, "-c", "import click", folder="outside"),
        "ralph --help": partial(bench.measured, bench.ralph, "--help", folder="outside"),
        "ralph feature.md build, finished": partial(bench.measured, *build, folder="repository"),
        "the same with a ~/.ralph.env": partial(
            bench.measured, "env", f"HOME={settings.parent}", *build, folder="repository"
        ),
        "ralph feature.md build, locked": partial(bench.measured, *build, folder="outside", code=75),
    }
    bench.table("start-up", subjects, runs=4 * bench.runs + 1)
    os.close(held)
    shutil.rmtree(settings.parent)


def loop(bench: Bench) -> None:
    """Whole runs beside a bash loop that pipes the prompt into the same agent."""
    for folder in ("repository", "outside"):
        for count in (1, 100, 1000):
            bare = ("bash", "-c", BARE, "bare", str(count), str(PROMPT))
            subjects: Subjects = {
                "bash": partial(bench.measured, *bare, folder=folder),
                "ralph": partial(bench.loops, folder, count),
            }
            bench.table(f"loop, {folder}, {count} iterations", subjects)


def strict(bench: Bench) -> None:
    """Whole runs under --strict beside the shell loop that a person would write for the same."""
    obedient = bench.agent("obedient", OBEDIENT)
    build = (bench.ralph, "feature.md", "build", "--strict", "--verify", "true", "--delay", "0", "--agent", obedient)
    bare = ("bash", "-c", BARE_STRICT, "shell", "feature_PROGRESS.md", str(PROMPT), obedient)

    def measured(command: tuple[str, ...], tasks: int, files: int) -> Cost:
        shutil.rmtree(bench.root / "strict", ignore_errors=True)
        lines = [f"- [ ] t{n}: Task {n}\n  - verify: File `made/{n}` exists\n" for n in range(tasks)]
        folder = bench.folder("strict", PROGRESS.format("IN_PROGRESS", "".join(lines)))
        (folder / "made").mkdir()
        for n in range(files):
            (folder / "src" / str(n % 100)).mkdir(parents=True, exist_ok=True)
            (folder / "src" / str(n % 100) / f"{n}.py").write_text(f"# {n}\n")
        bench.commits("strict")
        return bench.measured(*command, folder="strict")

    for tasks, files in ((30, 0), (100, 0), (30, 5000)):
        subjects: Subjects = {
            "shell": partial(measured, bare, tasks, files),
            "ralph": partial(measured, build, tasks, files),
        }
        bench.table(f"strict, {tasks} tasks, {files} more files", subjects)


def memory(bench: Bench) -> None:
    """Whether a long run takes more memory than a short one."""
    subjects: Subjects = {
        "100 iterations": partial(bench.loops, "repository", 100),
        "10,000 iterations": partial(bench.loops, "repository", 10_000),
    }
    bench.table("memory", subjects, runs=1)


def output(bench: Bench) -> None:
    """An agent that prints a gigabyte of JSON lines, beside the same into a file."""
    chatter = bench.agent("chatter", CHATTER)

    def followed() -> Cost:
        bench.folder("outside")
        cost = bench.measured(bench.ralph, "feature.md", "1", "--agent", chatter, folder="outside", code=3)
        shutil.rmtree(bench.env["XDG_STATE_HOME"])
        return cost

    subjects: Subjects = {
        "agent &#124; cat > file": partial(bench.measured, "sh", "-c", f"{chatter} | cat > ../said", folder="outside"),
        "agent > file": partial(bench.measured, "sh", "-c", f"{chatter} > ../said", folder="outside"),
        "ralph": followed,
    }
    bench.table("1 GB of output", subjects, runs=3)
    (bench.root / "said").unlink()


def marker(bench: Bench) -> None:
    """RALPH_DONE on the last line of 100 MB, beside grep."""
    bench.folder("repository", FINISHED)
    huge = bench.folder("outside", FINISHED.replace("RALPH_DONE", "IN_PROGRESS")) / "feature_PROGRESS.md"
    with huge.open("a") as file:
        for _ in range(GIGABYTE // 10 // len(LINE)):
            file.write(LINE)
        file.write("RALPH_DONE\n")
    build = (bench.ralph, "feature.md", "build")
    subjects: Subjects = {
        "grep -qx, 100 MB": partial(
            bench.measured, "grep", "-qx", "RALPH_DONE", "feature_PROGRESS.md", folder="outside"
        ),
        "ralph, finished, small": partial(bench.measured, *build, folder="repository"),
        "ralph, finished, 100 MB": partial(bench.measured, *build, folder="outside"),
    }
    bench.table("a progress file of 100 MB", subjects)


def look(bench: Bench) -> None:
    """How it stands with many plans, and with a long one."""
    agent = bench.agent("one", f"#!/bin/sh\necho {shlex.quote(json.dumps(RESULT))}\n")
    for folder, plans, iterations in (("many", 200, 1000), ("long", 1, 10_000)):
        path = bench.folder(folder)
        for number in range(plans):
            (path / f"plan{number:03}.md").write_text("# A feature\n")
            words = (f"plan{number:03}.md", "1", "--agent", agent)
            bench.measured(bench.ralph, *words, folder=folder, code=3)
        for journal in Path(bench.env["XDG_STATE_HOME"]).glob("ralph/*/journal.jsonl"):
            line, *rest = journal.read_text().splitlines(keepends=True)
            record = json.loads(line)
            lines = [json.dumps(record | {"iteration": number}) + "\n" for number in range(1, iterations + 1)]
            journal.write_text("".join([*lines, *rest]))
        (path / "feature_PROGRESS.md").unlink()
        ralph, status = bench.ralph, (bench.ralph, "status")
        subjects: Subjects = {
            "shell": partial(bench.measured, "bash", "-c", LOOK, folder=folder),
            "status": partial(bench.measured, *status, folder=folder, code=3),
            "status PLAN": partial(bench.measured, *status, "plan000", folder=folder, code=3),
            "log PLAN": partial(bench.measured, ralph, "log", "plan000", folder=folder),
            "report PLAN": partial(bench.measured, ralph, "report", "plan000", folder=folder),
        }
        bench.table(f"looking, {plans} plans of {iterations} iterations", subjects)


def silence(bench: Bench, seconds: float = 60.0) -> None:
    """What ralph and its keeper use while the agent prints nothing: of all their threads, in nanoseconds."""
    agent = bench.agent("silent", "#!/bin/sh\necho '{}'\nexec sleep 1000000\n")
    folder, nothing = bench.folder("repository"), subprocess.DEVNULL
    argv = (bench.ralph, "feature.md", "build", "--agent", agent)
    with subprocess.Popen(argv, cwd=folder, env=bench.env, stdin=nothing, stdout=nothing, stderr=nothing) as ralph:
        time.sleep(10)  # after some seconds of silence it looks less often
        keeper = Path(f"/proc/{ralph.pid}/task/{ralph.pid}/children").read_text().split()
        used: dict[str, list[int]] = {"ralph": [], "its keeper": []}
        for _ in range(2):
            for name, pid in zip(used, (ralph.pid, *keeper), strict=True):
                files = Path(f"/proc/{pid}/task").glob("*/schedstat")
                used[name].append(sum(int(file.read_text().split()[0]) for file in files))
            time.sleep(seconds * (len(used["ralph"]) == 1))
        ralph.terminate()
    print("\n## silence\n\n| what | CPU | share of a processor |\n|---|---|---|")
    for name, (before, after) in used.items():
        print(f"| {name} | {(after - before) / 1e6:.0f} ms | {(after - before) / 1e7 / seconds:.3f} % |")


def hops(bench: Bench) -> None:
    """How many modules and functions of ralph's one plain iteration passes."""
    folder = bench.folder("outside")
    words = ("feature.md", "2", "--agent", "true", *NEVER)
    bench.measured(bench.python, "-c", HOPS, *words, folder="outside", code=3)
    print(f"\n## one iteration\n\n{(folder / 'hops.txt').read_text()}", end="")


def main() -> None:
    """Prints the tables that were asked for, or all."""
    tables = {table.__name__: table for table in (start, loop, strict, memory, output, marker, look, silence, hops)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(tables)}; default: all")
    parser.add_argument("--runs", type=int, default=5, help="of each (default %(default)s)")
    asked = parser.parse_args()
    memory_disk = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - a disk's slowness is not ralph's
    print(f"load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=memory_disk) as root:
        bench = Bench(Path(root), asked.runs)
        for name in asked.tables or tables:
            tables[name](bench)


if __name__ == "__main__":
    main()
