"""What --strict costs: whole runs to the end of a task list, beside a shell loop that a person would write for it."""

import shutil

from bench_tools import CHECKOUT, HERE, PLAN, PROGRESS, Cost, Place, interleaved, median

_SHELL = r"""
while found=$(grep -n -m 1 '^- \[ \]' "$1"); do
  number=${found%%:*} task=${found#*] }
  id=${task%%:*}
  file=$(sed -n "$((number + 1))s/.*File \`\(.*\)\` exists.*/\1/p" "$1")
  signal="<task-done session=\"bench\">$id</task-done>"
  { cat "$2"; printf 'File `%s` exists\n%s\n' "$file" "$signal"; } | "$3" > "$4"
  grep -qxF "$signal" "$4" && [ -e "$file" ] && sh -c true || exit 1
  sed -i "${number}s/\[ \]/[x]/" "$1"
  git add "$file" "$1" && git commit -qm "$task" || exit 1
done
"""
_SCRIPT = r"""#!/bin/sh
prompt=$(cat)
: > "$(printf '%s\n' "$prompt" | sed -n 's/.*File `\(.*\)` exists.*/\1/p' | head -n 1)"
printf '%s\n' "$prompt" | grep -m 1 '^<task-done '
"""
FILES = 5000


class Tasks:
    """A repository with a task list, made anew for each run."""

    def __init__(self, place: Place, tasks: int, files: int) -> None:
        self._place, self._name = place, f"strict-{tasks}-{files}"
        self._agent = place.compile("obedient.c") or place.script("obedient", _SCRIPT)
        self._fill(tasks, files)

    def ralph(self) -> Cost:
        """A run under --strict."""
        return self._place.measure([str(self._place.ralph), *self.arguments()], folder=self.fresh())

    def shell(self) -> Cost:
        """The same by the shell."""
        prompt, out = CHECKOUT / "prompts" / "PROMPT_build.md", self._place.root / "said.txt"
        command = ["bash", "-c", _SHELL, "shell", PROGRESS, str(prompt), str(self._agent), str(out)]
        return self._place.measure(command, folder=self.fresh())

    def arguments(self) -> list[str]:
        """ralph's."""
        return [PLAN, "build", "--strict", "--verify", "true", "--delay", "0", "--agent", str(self._agent)]

    def fresh(self) -> str:
        """The folder, as if nothing had been done; git knows it, as it does some time after a clone."""
        self._place.new_state()
        folder = self._place.root / "strict"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._place.root / self._name, folder)
        self._place.run("git", "status", folder="strict")
        return "strict"

    def _fill(self, tasks: int, files: int) -> None:
        folder = self._place.root / self._name
        (folder / "made").mkdir(parents=True)
        (folder / "made" / "README").touch()
        (folder / PLAN).write_text("# A feature\n\nBuild it.\n")
        lines = [f"- [ ] t{n}: Task {n}\n  - verify: File `made/{n}` exists\n" for n in range(tasks)]
        text = f"# Progress: feature\n\nPlan: {PLAN}\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n{''.join(lines)}"
        (folder / PROGRESS).write_text(text)
        for n in range(files):
            path = folder / "src" / str(n % 100) / f"{n}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {n}\n")
        for command in ("init -q", "config user.name bench", "config user.email bench@localhost", "add ."):
            self._place.run("git", *command.split(), folder=self._name)
        self._place.run("git", "commit", "-qm", "begin", folder=self._name)


def compare(place: Place, runs: int) -> None:
    """Prints a row for each length of the list, and what an iteration costs."""
    print(f"\n## strict\n\nMedians of {runs} interleaved runs; the repository has that many files more than tasks.\n")
    print("| tasks | files | ralph wall | shell wall | ratio | ralph CPU | shell CPU | an iteration: ralph | shell |")
    print("|---|---|---|---|---|---|---|---|---|")
    few, many, _ = (_row(place, tasks, files, runs) for tasks, files in ((30, 0), (100, 0), (30, FILES)))
    ralph, shell = (1000 * (after - before) / 70 for before, after in zip(few, many, strict=True))
    share = f"ralph's own share {ralph - shell:.1f} ms"
    print(f"\neach task beyond 30: ralph {ralph:.1f} ms, shell {shell:.1f} ms, ratio {ralph / shell:.1f}, {share}")


def _row(place: Place, tasks: int, files: int, runs: int) -> tuple[float, float]:
    """Prints it; the seconds that ralph took, and those of the shell."""
    to_do = Tasks(place, tasks, files)
    costs = interleaved({"ralph": to_do.ralph, "shell": to_do.shell}, runs)
    walls = [median(cost.wall_s for cost in costs[name]) for name in ("ralph", "shell")]
    cpus = [median(cost.cpu_s for cost in costs[name]) for name in ("ralph", "shell")]
    each = [f"{1000 * wall / tasks:.1f} ms" for wall in walls]
    print(
        f"| {tasks} | {files} | {walls[0]:.2f} s | {walls[1]:.2f} s | {walls[0] / walls[1]:.1f} "
        f"| {cpus[0]:.2f} s | {cpus[1]:.2f} s | {each[0]} | {each[1]} |"
    )
    return walls[0], walls[1]


def split(place: Place, tasks: int) -> None:
    """Prints what each part of a strict iteration took."""
    report = place.root / "parts.txt"
    to_do = Tasks(place, tasks, 1)
    place.run(
        str(place.python), str(HERE / "parts.py"), str(report), str(tasks), *to_do.arguments(), folder=to_do.fresh()
    )
    print(f"\n## each part of a strict iteration\n\nMean of {tasks}.\n\n{report.read_text()}", end="")
