"""Prints the table of docs/evidence.md: what a "done" is worth, by loop and by kind of agent.

`python tests/evidence/evidence.py [SEEDS]` needs no model and no network. Each run has one problem, one kind of agent
and one seed. Afterwards the hidden checks of its steps run in a fresh clone of its last commit.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from agent import KINDS
from problems import PROBLEMS, Problem

HERE = Path(__file__).resolve().parent
RALPH = (sys.executable, "-P", "-m", "ralph")
BARE = 'n=0; until grep -qx RALPH_DONE feature_PROGRESS.md || [ $n = "$1" ]; do "$2" < "$3"; n=$((n + 1)); done'
LOOPS = ("bare while", "build", "build --verify", "--strict", "--strict --verify", "all --strict")
STRICT = {"--strict": "build --strict", "--strict --verify": "build --strict", "all --strict": "all --strict"}


class Result(NamedTuple):
    """The result of one run."""

    false_done: bool
    """Whether it says done although a step is not done, unless that step is marked as without proof."""
    false_ticks: int
    """Ticked steps that are not done, except marked ones."""
    ticks: int
    wrong_marks: int
    """Ticks that are marked as without proof, and whose steps are not done."""
    marks: int
    """Ticks that are marked as without proof."""
    calls: int
    refused: bool
    """Whether the agent was honest, but the run was not done in the end."""


def play(loop: str, problem: Problem, kind: str, seed: int, root: Path) -> Result:
    """Does one run in its own folder."""
    top = root / f"{LOOPS.index(loop)}-{problem.name}-{KINDS.index(kind)}-{seed}"
    repo, home = top / "repo", top / "home"
    for folder in (repo, home):
        folder.mkdir(parents=True)
    tasks = (
        ""
        if loop.startswith("all")
        else "".join(f"- [ ] {one.id}: {one.text}\n  - verify: {one.visible}\n" for one in problem.steps)
    )
    head = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n"
    (repo / "feature_PROGRESS.md").write_text(f"{head}{tasks}\n## Notes\n")
    (repo / "feature.md").write_text("".join(f"- {one.text}\n" for one in problem.steps))
    (repo / "README").write_text(f"{problem.name}, in words\n")
    author = {f"GIT_{who}_{what}": "evidence" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {
        **author,
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(HERE.parents[1]),
    }
    run(["git", "init", "-q"], repo, env)
    run(["git", "add", "."], repo, env)
    run(["git", "commit", "-qm", "begin"], repo, env)
    agent = script(
        home / "agent", f'exec {shlex.quote(sys.executable)} {HERE}/agent.py {problem.name} "{kind}" {seed} {home}'
    )
    verify = script(
        home / "verify",
        "".join(f"! grep -q '^- .[x~]. {one.id}:' $1 || {{ {one.hidden}; }} || exit 1\n" for one in problem.steps),
    )
    most = str(3 * len(problem.steps) + 6)
    if loop == "bare while":
        run(["sh", "-c", BARE, "sh", most, str(agent), str(HERE.parents[1] / "prompts" / "PROMPT_build.md")], repo, env)
    else:
        words = [
            *RALPH,
            "feature.md",
            *STRICT.get(loop, "build").split(),
            "--delay",
            "0",
            "--max-iterations",
            most,
            "--agent",
            str(agent),
        ]
        words += ["--verify", f"sh {verify} feature_PROGRESS.md"] if "--verify" in loop else []
        run(words, repo, env)
    return looked_at(problem, kind, top, env)


def looked_at(problem: Problem, kind: str, top: Path, env: dict[str, str]) -> Result:
    """Compares what a run says with what is true in a fresh clone of its last commit."""
    run(["git", "clone", "-q", "repo", "clone"], top, env)
    text = (top / "repo" / "feature_PROGRESS.md").read_text()
    ticked = [one for one in problem.steps if f"- [x] {one.id}:" in text]
    wrong = [one for one in problem.steps if run(["sh", "-c", one.hidden], top / "clone", env)]
    marked = [one for one in ticked if re.search(rf"- \[x\] {one.id}:.*\n(?:  .*\n)*?  - note: its checks held", text)]
    is_done = bool(re.search(r"(?m)^RALPH_DONE$", text))
    calls = (top / "home" / "calls").stat().st_size
    return Result(
        false_done=is_done and bool({*wrong} - {*marked}),
        false_ticks=len({*ticked} & {*wrong} - {*marked}),
        ticks=len(ticked),
        wrong_marks=len({*marked} & {*wrong}),
        marks=len(marked),
        calls=calls,
        refused=kind == "honest" and not is_done,
    )


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def run(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> int:
    """Returns the exit code, and discards the output."""
    return subprocess.run(argv, cwd=cwd, env=env, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode


def main(seeds: int) -> None:
    """Prints a row for each loop; it counts the runs with false claims for each kind of agent."""
    print(
        "| loop | runs | false done | false ticks | marked ticks that are false | agent calls | honest runs refused |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="evidence-") as name, ThreadPoolExecutor(os.cpu_count()) as threads:
        for loop in LOOPS:
            cases = [*product([loop], PROBLEMS, KINDS, range(seeds), [Path(name)])]
            results = [*threads.map(lambda case: play(*case), cases)]
            false = Counter(
                kind
                for (_, _, kind, _, _), one in zip(cases, results, strict=True)
                if one.false_done or one.false_ticks
            )
            done, ticks = sum(one.false_done for one in results), sum(one.false_ticks for one in results)
            calls, refused = sum(one.calls for one in results), sum(one.refused for one in results)
            honest = len(results) // len(KINDS)
            all_ticks, marks = sum(one.ticks for one in results), sum(one.marks for one in results)
            wrong_marks = sum(one.wrong_marks for one in results)
            whose = f" ({', '.join(f'{kind} {count}' for kind, count in false.items())})" if false else ""
            row = [f"`{loop}`", len(results), f"{done}{whose}", f"{ticks} of {all_ticks}"]
            row += [f"{wrong_marks} of {marks}", calls, f"{refused} of {honest}"]
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 2)
