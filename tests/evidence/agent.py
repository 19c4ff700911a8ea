"""An agent without a model: `python agent.py PROBLEM KIND SEED FOLDER`, the prompt on standard input.

FOLDER counts its calls. The prompt tells it whether ralph picks its task (--strict), and whether to plan or validate.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

from problems import PROBLEMS, Step, solve

KINDS = ("honest", "lazy", "lying", "forgetful", "cut off", "gaming")
PROGRESS = Path("feature_PROGRESS.md")
SIGNAL = re.compile(r'<task-done session="[^"]+">([^<]+)</task-done>')


class Agent:
    """One call of the agent, with its kind and its random numbers."""

    def __init__(self, name: str, kind: str, seed: str, folder: str) -> None:
        calls = Path(folder) / "calls"
        with calls.open("ab") as file:
            file.write(b".")
        self.problem = next(one for one in PROBLEMS if one.name == name)
        self.kind, self._chance = kind, random.Random(f"{name} {kind} {seed} {calls.stat().st_size}")

    def works(self, prompt: str) -> None:
        """Plans, validates or does one step, as the prompt asks."""
        signal = SIGNAL.findall(prompt)
        text = PROGRESS.read_text()
        if "You plan" in prompt.partition("\n")[0]:
            return self._plans(text)
        if "You validate" in prompt.partition("\n")[0]:
            return self._validates(text)
        ids = signal[-1:] or re.findall(r"^- \[ \] (\w+):", text, re.MULTILINE)[:1]
        step = next((one for one in self.problem.steps if ids == [one.id]), None)
        if step and self._does(step) and not signal:
            self._ticks(step)
        if signal:
            print(f"Did {ids[0]}.\n\n" + SIGNAL.search(prompt[prompt.rindex("<task-done") :])[0])  # type: ignore[index] # it is there
        return None

    def _does(self, step: Step) -> bool:
        """Does the step, or what this kind of agent does instead. Exits with 1 if it is cut off."""
        lucky = self._chance.random() < 0.5
        if self.kind == "lazy" or (self.kind == "lying" and lucky):
            if self.kind == "lying":
                with Path("notes.txt").open("a") as notes:
                    notes.write("worked hard\n")
            return True
        forgets = ""
        if self.kind == "forgetful" and lucky:
            forgets = self._chance.choice([one.id for one in self.problem.steps if one is not step])
        if self.kind == "gaming" and lucky:
            PROGRESS.write_text(
                re.sub(r"(?m)^  - verify: .*$", "  - verify: Run `true` - exits with code 0", PROGRESS.read_text())
            )
            Path(".ralph.env").write_text("RALPH_VERIFY=true\n")
            return True
        if not self._is_done(step) or forgets:
            solve(self.problem, step, Path(), forgets=forgets)
        if self.kind == "cut off" and lucky:
            sys.exit(1)
        return True

    def _is_done(self, step: Step) -> bool:
        return not subprocess.run(["sh", "-c", step.hidden], check=False, capture_output=True).returncode

    def _ticks(self, step: Step) -> None:
        """Ticks, commits and claims to be done, as the agent does without --strict."""
        text = PROGRESS.read_text().replace(f"- [ ] {step.id}:", f"- [x] {step.id}:")
        if "- [ ]" not in text:
            text = text.replace("\nIN_PROGRESS\n", "\nRALPH_DONE\n")
        PROGRESS.write_text(text)
        subprocess.run(
            ["sh", "-c", "git add -A . && git commit -qm step --allow-empty"], check=True, stdout=subprocess.DEVNULL
        )

    def _plans(self, text: str) -> None:
        """Lists all steps. If ralph names checks that prove nothing, all but the lazy check the README's words."""
        is_told = "so they prove nothing" in text and self.kind != "lazy"
        told = {one.id: f"File `README` contains `{one.line[2:]}`" for one in self.problem.steps if one.line[0] == "#"}
        checks = {one.id: one.visible for one in self.problem.steps} | (told if is_told else {})
        lines = [f"- [ ] {one.id}: {one.text}\n  - verify: {checks[one.id]}\n" for one in self.problem.steps]
        PROGRESS.write_text(re.sub(r"(## Task List\n\n)[^#]*(?=\n## )", lambda old: old[1] + "".join(lines), text))

    def _validates(self, text: str) -> None:
        """Unticks what is not done, unless this kind of agent lies, cheats or is lazy."""
        if self.kind in ("honest", "forgetful", "cut off"):
            for step in self.problem.steps:
                if not self._is_done(step):
                    text = text.replace(f"- [x] {step.id}:", f"- [ ] {step.id}:")
            PROGRESS.write_text(text)


if __name__ == "__main__":
    os.environ.pop("GIT_DIR", None)
    Agent(*sys.argv[1:]).works(sys.stdin.read())
