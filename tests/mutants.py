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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
    tests: tuple[str, ...]
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
    found = [_fault(match) for match in FAULT.finditer(text)]
    assert len(found) == len(re.findall("^### ", text, re.MULTILINE)), "a sentence in mutants.md has another form"
    return found


def _fault(match: re.Match[str]) -> Fault:
    lines = match["plant"].splitlines()
    return Fault(
        sentence=match["sentence"],
        file=match["file"],
        tests=tuple(f"tests/{name.strip(' `')}" for name in match["tests"].split(",")),
        old="".join(f"{line[1:]}\n" for line in lines if not line.startswith("+")),
        new="".join(f"{line[1:]}\n" for line in lines if not line.startswith("-")),
    )


@contextmanager
def copy(of: Path, *, whole: bool = True) -> Iterator[Path]:
    """The tree as it is now, in a folder that goes away; `whole` with what Python has compiled in it."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(of, tree, ignore=None if whole else LEFT_OUT, symlinks=True)
        yield tree


def run(tree: Path, *arguments: str, within_s: float = LONGEST_S) -> tuple[int, str, list[tuple[str, str]]]:
    """The exit code and the output of pytest there, what failed and why; what does not end in time has failed."""
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
            return FAILED, "", [("the clock", f"no end after {within_s:g} s")]
    return tests.returncode, said, re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$", said, re.MULTILINE)


def judged(fault: Fault, base: Path) -> tuple[str, str]:
    """What became of it: killed, ALIVE or not plantable; and by whom, or why."""
    try:
        planted = fault.planted()
    except (OSError, ValueError, SyntaxError) as error:
        return "not plantable", str(error)
    with copy(base) as tree:
        (tree / fault.file).write_text(planted, "utf-8")
        module = fault.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        imports = subprocess.run(
            [sys.executable, "-P", "-c", f"import {module}"],
            env={"PYTHONPATH": str(tree)},
            capture_output=True,
            check=False,
        )
        if imports.returncode:
            return "not plantable", f"{module} can no longer be imported"
        code, said, failed = run(tree, "-x", *fault.tests)
        if code == FAILED:
            return "killed", f"by {failed[0][0]}: {failed[0][1][:120]}"
        if code:
            return "not plantable", f"{' '.join(fault.tests)}: pytest ended with {code}: {said.strip()[-300:]}"
    return "ALIVE", ""


def sound(faults: Sequence[Fault], base: Path, jobs: int) -> bool:
    """Whether the tests that shall find these faults pass without them; what fails once on a busy machine may again.

    What they compile stays there: 5 s of each fault's tests.
    """
    tests = sorted({test for fault in faults for test in fault.tests})
    code, said, failed = run(base, "-n", str(jobs), *tests, within_s=LONGEST_S * len(tests))
    if code == FAILED and failed:
        code, said, failed = run(base, *(name for name, _ in failed))
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
    if asked.check:
        return check(faults)
    with copy(CHECKOUT, whole=False) as base:
        return plant(faults, base, asked.j) if sound(faults, base, asked.j) else 2


def plant(faults: Sequence[Fault], base: Path, jobs: int) -> int:
    """Says of each what became of it; the exit code."""
    counts = {"killed": 0, "ALIVE": 0, "not plantable": 0}

    def one(fault: Fault) -> None:
        began = time.monotonic()
        what, why = judged(fault, base)
        counts[what] += 1
        print(f"{what:13} {time.monotonic() - began:5.1f} s  {fault.sentence} ({why})", flush=True)

    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(one, faults))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["ALIVE"] else 2 if counts["not plantable"] else 0


def check(faults: Sequence[Fault]) -> int:
    """Says which cannot be planted."""
    wrong = 0
    for fault in faults:
        try:
            fault.planted()
        except (OSError, ValueError, SyntaxError) as error:
            wrong += 1
            print(f"not plantable  {fault.sentence} ({error})")
    print(f"{len(faults) - wrong} of {len(faults)} can be planted")
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
