"""Plants each fault of mutants.md in a copy of the tree, and sees that the tests named there find it.

`python tests/mutants.py [-j 2] [--only WORD] [--check]`: with `--check` it says only which can be planted. It ends with
1 if a fault lives, with 2 if one cannot be planted or a test that shall find it fails without it.
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
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
        """The text of its file with the fault. Raises ValueError where that is impossible."""
        text = (CHECKOUT / self.file).read_text("utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"what it replaces in {self.file} stands there {count} times")
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


def judged(fault: Fault, base: Path) -> tuple[str, str]:
    """What became of it in a copy of that tree: killed, ALIVE or not plantable; and by whom, or why."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        tree = shutil.copytree(base, Path(folder) / "tree", symlinks=True)
        (tree / fault.file).write_text(fault.planted(), "utf-8")
        module = fault.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        argv = [sys.executable, "-P", "-c", f"import {module}"]
        if subprocess.run(argv, env={"PYTHONPATH": str(tree)}, capture_output=True, check=False).returncode:
            return "not plantable", f"{module} can no longer be imported"
        code, said, failed = run(tree, "-x", *fault.tests)
    if code == FAILED:
        return "killed", f"by {failed[0][:200]}"
    return ("not plantable", f"pytest ended with {code}: {said.strip()[-300:]}") if code else ("ALIVE", "")


def sound(faults: Sequence[Fault], base: Path, jobs: int) -> bool:
    """Whether the tests that shall find these faults pass without them; what fails once on a busy machine may again.

    What they compile stays there: 5 s of each fault's tests.
    """
    tests = sorted({test for fault in faults for test in fault.tests})
    code, said, failed = run(base, "-n", str(jobs), *tests, within_s=LONGEST_S * len(tests))
    if code == FAILED and failed:
        code, said, failed = run(base, *(line.partition(" - ")[0] for line in failed))
    if code:
        print(f"without any fault these tests do not pass: {failed or said[-2000:]}")
    return code == 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", type=int, default=1, metavar="N", help="so many at the same time")
    parser.add_argument("--only", default="", metavar="WORD", help="those with this word in sentence, file or tests")
    parser.add_argument("--check", action="store_true", help="whether they can be planted, and no more")
    asked = parser.parse_args()
    everything = read(SENTENCES.read_text("utf-8"))
    faults = [one for one in everything if asked.only in f"{one.sentence} {one.file} {' '.join(one.tests)}"]
    counts = {"killed": 0, "ALIVE": 0, "not plantable": 0, "plantable": 0}

    def one(fault: Fault) -> None:
        began = time.monotonic()
        try:
            fault.planted()
            what, why = ("plantable", "") if asked.check else judged(fault, base)
        except (OSError, ValueError, SyntaxError) as error:
            what, why = "not plantable", str(error)
        counts[what] += 1
        if what != "plantable":
            print(f"{what:13} {time.monotonic() - began:5.1f} s  {fault.sentence} ({why})", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(asked.j) as threads:
        base = Path(folder) / "tree"
        if not asked.check:
            shutil.copytree(CHECKOUT, base, ignore=LEFT_OUT, symlinks=True)
            if not sound(faults, base, asked.j):
                return 2
        list(threads.map(one, faults))
    print(", ".join(f"{count} {what}" for what, count in counts.items() if count))
    return 1 if counts["ALIVE"] else 2 if counts["not plantable"] else 0


if __name__ == "__main__":
    sys.exit(main())
