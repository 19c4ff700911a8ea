"""Plants each fault of mutants.md in a copy of the tree, and sees that the tests named there find it.

`python tests/mutants.py [-j 2] [--only WORD] [--check]`: with `--check` it only sees whether they can be planted. It
ends with an error if one cannot, if a test that shall find one fails without it, or if one lives.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SENTENCES = Path(__file__).with_suffix(".md")
FAULT = re.compile(
    r"^### (?P<sentence>.+)\n\n`(?P<file>[^`]+)`, found by (?P<tests>.+)\n\n```diff\n(?P<plant>(?:[-+ ].*\n|\n)+)```$",
    re.MULTILINE,
)
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", "__pycache__", "node_modules", ".hypothesis", "mutants-*"
)
LONGEST_S = 120.0
FAILED = 1
"""What pytest ends with when a test has failed; everything else is no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One that must never live."""

    sentence: str
    file: str
    tests: list[str]
    old: str
    new: str

    def planted(self) -> str:
        """The text of its file with the fault."""
        text = (CHECKOUT / self.file).read_text("utf-8")
        if (count := text.count(self.old)) != 1:
            sys.exit(f"{self.sentence}: what it replaces stands {count} times in {self.file}")
        planted = text.replace(self.old, self.new)
        compile(planted, self.file, "exec")
        return planted


def read(text: str) -> list[Fault]:
    """The faults that mutants.md describes."""
    found = []
    for match in FAULT.finditer(text):
        tests = [f"tests/{name.strip(' `')}" for name in match["tests"].split(",")]
        lines = match["plant"].splitlines()
        old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        found.append(Fault(sentence=match["sentence"], file=match["file"], tests=tests, old=old, new=new))
    assert len(found) == len(re.findall("^### ", text, re.MULTILINE)), "a sentence in mutants.md has another form"
    return found


def run(tree: Path, *arguments: str, within_s: float = LONGEST_S) -> tuple[int, str, list[str]]:
    """The exit code and the output of pytest there, and what failed; what does not end in time has failed."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "", "COLUMNS": "400"}
    with subprocess.Popen(
        argv, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as tests:
        try:
            said, _ = tests.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
            return FAILED, "", [f"no end after {within_s:g} s"]
    return tests.returncode, said, re.findall(r"^(?:FAILED|ERROR) (.+)$", said, re.MULTILINE)


def judged(fault: Fault, base: Path) -> str:
    """What became of it in a copy of that tree: killed, ALIVE, or no verdict."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        tree = shutil.copytree(base, Path(folder) / "tree", symlinks=True)
        (tree / fault.file).write_text(fault.planted(), "utf-8")
        module = fault.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        argv = [sys.executable, "-P", "-c", f"import {module}"]
        if subprocess.run(argv, env={"PYTHONPATH": str(tree)}, capture_output=True, check=False).returncode:
            return f"no verdict: {module} can no longer be imported"
        code, said, failed = run(tree, "-x", *fault.tests)
    if code == FAILED:
        return f"killed by {failed[0][:200]}"
    return f"no verdict: pytest ended with {code}: {said.strip()[-300:]}" if code else "ALIVE"


def be_sound(faults: Sequence[Fault], base: Path, jobs: int) -> None:
    """The tests that shall find these faults pass without them; what fails on a busy machine is tried once more.

    What they compile stays there: 5 s of each fault's tests.
    """
    tests = sorted({test for fault in faults for test in fault.tests})
    code, said, failed = run(base, "-n", str(jobs), *tests, within_s=LONGEST_S * len(tests))
    if code == FAILED and failed:
        code, said, failed = run(base, *(line.partition(" - ")[0] for line in failed))
    if code:
        sys.exit(f"without any fault these tests do not pass: {failed or said[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at the same time")
    parser.add_argument("--only", default="", metavar="WORD", help="those with this word in sentence, file or tests")
    parser.add_argument("--check", action="store_true", help="no more than whether they can be planted")
    asked = parser.parse_args()
    everything = read(SENTENCES.read_text("utf-8"))
    faults = [one for one in everything if asked.only in f"{one.sentence} {one.file} {' '.join(one.tests)}"]
    for fault in faults:
        fault.planted()
    print(f"{len(faults)} can be planted")
    if asked.check:
        return
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(asked.j) as threads:
        base = shutil.copytree(CHECKOUT, Path(folder) / "tree", ignore=LEFT_OUT, symlinks=True)
        be_sound(faults, base, asked.j)
        for fault, verdict in zip(faults, threads.map(judged, faults, repeat(base)), strict=True):
            print(f"{fault.sentence}: {verdict}", flush=True)
            killed += verdict.startswith("killed")
    print(f"{killed} of {len(faults)} killed")
    sys.exit(killed < len(faults))


if __name__ == "__main__":
    main()
