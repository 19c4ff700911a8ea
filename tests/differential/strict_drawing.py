"""Draws a story in which ralph itself puts files back or removes them: `--strict`, `--only`, `--on-failure restore`.

Such stories are played in a mount namespace where the machine is read-only, and nowhere else.
"""

import json
import random
from typing import Any

from stories import init, prints, raw, result, runs, says, signal, writes
from story import LEFT_BY_CHECKS, Deed, Start, Story

Act = dict[str, Any]
IDS = ("one", "two", "three", "four")


def draw(seed: int, chance: random.Random) -> Story:
    """The story of this seed, from where the chance stands."""
    return _Drawn(seed, chance).story()


class _Drawn:
    def __init__(self, seed: int, chance: random.Random) -> None:
        self._seed, self._chance = seed, chance
        self._kind = chance.choices(("strict", "only"), (80, 20))[0]
        self._as_json = self._kind == "strict" and chance.random() < 0.2
        self._plan = "requirements.json" if self._as_json else "feature.md"
        self._progress = self._plan.rpartition(".")[0] + "_PROGRESS.md"
        self._options: list[str] = []
        self._at: dict[str, tuple[Deed, ...]] = {}

    def _may(self, share: float) -> bool:
        return self._chance.random() < share

    def _one(self, *of: Any) -> Any:
        return self._chance.choice(of)

    def story(self) -> Story:
        files = {"src/a.txt": "a\n", "src/keep.txt": "keep\n", "tests/t.txt": "t\n", ".gitignore": "*.log\n"}
        files[self._plan] = self._json_plan() if self._as_json else "# A feature\n\nMake it so.\n"
        self._draws_options(files)
        starts = self._starts()
        return Story(
            seed=self._seed,
            kind=self._kind,
            repository=not self._may(0.05),
            files=files,
            uncommitted=self._uncommitted(),
            home={".ralph.env": "RALPH_DELAY=0\nRALPH_MAX_ITERATIONS=6\nRALPH_WEBHOOK_URL=@URL@\n"},
            environment={},
            progress=self._progress,
            steps=(*map(self._step, range(1, self._chance.randrange(2, 8))), self._honest(99)),
            at=self._at,
            at_waits=(),
            starts=starts,
            takeover=len(starts) > 1 and self._may(0.5),
        )

    def _draws_options(self, files: dict[str, str]) -> None:
        if self._kind == "strict":
            said = self._one("option", "option", "project")
            if said == "option":
                self._options.append("--strict")
            else:
                files[".ralph.env"] = "RALPH_STRICT=true\n"
        if self._kind == "only" or self._may(0.25):
            self._options += self._one(
                ["--only", "src/**"], ["--only", "src", "--only", "*.txt"], ["--only", "**/*.txt"]
            )
        drawn = (
            (0.3, ("--on-failure", "restore")),
            (0.3, ("--max-tries", self._one("1", "2", "off"))),
            (0.15, ("--on-tamper", "abort")),
            (0.1, ("--criteria", "strict")),
            (0.15, ("--history", "tries.jsonl")),
            (0.25, ("--verify", self._one("true", "! grep -rq broken src", "test -e src/one.txt"))),
            (0.1, ("--max-failures", self._one("1", "2"))),
        )
        for share, words in drawn:
            if self._may(share) and (self._kind == "strict" or words[0] in ("--verify", "--max-failures")):
                self._options += words
        if self._may(0.1):
            files["feature.md"] = files.get("feature.md", "") + "\nDO_NOT_COMMIT\n"

    def _json_plan(self) -> str:
        tasks = [{"id": one, "requirement": f"src/{one}.txt exists", "status": "pending"} for one in IDS[:3]]
        if self._may(0.2):
            tasks[1]["id"] = "one"
        return json.dumps({"requirements": tasks}, indent=1)

    def _uncommitted(self) -> dict[str, str]:
        there = {"src/keep.txt": "keep, and mine\n"} if self._may(0.3) else {}
        if self._may(0.3):
            there |= {"mine.txt": "mine\n", "src/mine.txt": "mine too\n", "ignored.log": "log\n"}
        if not self._as_json and self._may(0.9):
            there[self._progress] = self._progress_file()
        return there

    def _progress_file(self) -> str:
        lines = []
        for number, one in enumerate(IDS[: self._chance.randrange(1, 5)]):
            mark = self._chance.choices(("[ ]", "[x]", "[~]", "[!]"), (80, 10, 5, 5))[0]
            lines.append(f"- {mark} {one}: Make {one}" if self._may(0.85) else f"- {mark} Make {one} without an id")
            if number and self._may(0.3):
                lines.append(f"  - after: {self._one(*IDS[:number])}")
            if self._may(0.2):
                lines.append(f"  - priority: {self._one(1, 2, 3)}")
            if self._may(0.5):
                lines.append("  - verify: " + self._criterion(one))
            if self._may(0.12):
                lines += [f"  - [ ] {one}-sub: A part of it"]
        if self._may(0.06):
            lines += [self._one("  - after: nothing-known", "- [ ] one: Again", "  - verify: looks good")]
        if self._may(0.3):
            self._chance.shuffle(lines) if self._may(0.1) else lines.append("")
        word = self._chance.choices(("IN_PROGRESS", "RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED: why"), (90, 5, 2, 3))[0]
        text = "# Progress: feature\n\nPlan: feature.md\nStarted: 2026-11-20 22:14:03\n\n## Status\n\n"
        text += f"{word}\n\n## Task List\n\n" + "\n".join(lines) + "\n\n## Notes\n"
        return text.replace("\n", "\r\n") if self._may(0.06) else text

    def _criterion(self, one: str) -> str:
        return str(
            self._one(
                f"File `src/{one}.txt` exists",
                f"File `src/{one}.txt` contains `{one}`",
                f"Run `grep -q {one} src/{one}.txt` - exits with code 0",
                f"Run `test -e src/{one}.txt` - exits with code 0",
                f"Run `{LEFT_BY_CHECKS} & true` - exits with code 0",
                "it is beautiful",
            )
        )

    # The agent: it does not know which task it is given but by the prompt, so it makes the files of all.

    def _step(self, number: int) -> Act:
        kind = self._chance.choices(
            ("honest", "without a signal", "lazy", "tampers", "blocked", "crashes", "held", "strays"),
            (40, 6, 8, 16, 4, 6, 10, 10),
        )[0]
        if kind == "honest":
            return self._honest(number)
        if kind == "without a signal":
            return self._words(number, self._works(number), "All done, trust me.")
        if kind == "lazy":
            return self._words(number, [], f"Nothing to do.\n\n{signal()}")
        if kind == "tampers":
            return self._words(number, [*self._works(number), self._tampers()], f"Did it.\n\n{signal()}")
        if kind == "blocked":
            words = '<task-blocked session="@SESSION@" id="@TASK@">no password</task-blocked>'
            return self._words(number, self._works(number)[:1], f"I cannot.\n\n{words}")
        if kind == "crashes":
            return raw(init(), *self._works(number)[:1], exit_code=self._one(1, -9, 0))
        if kind == "held":
            return self._held(number)
        return self._words(number, [*self._works(number), self._strays(number)], f"Did it.\n\n{signal()}")

    def _honest(self, number: int) -> Act:
        return self._words(number, self._works(number), f"Made the files of {number}.\n\n{signal()}")

    def _works(self, number: int) -> list[Act]:
        wanted = IDS if self._may(0.6) else (self._one(*IDS),)
        text = "broken" if self._may(0.1) else "".join(f"{one} {number}\n" for one in IDS)
        deeds = [writes(f"src/{one}.txt", text) for one in wanted]
        deeds += [runs("rm -f src/a.txt; mkdir -p src/deep; mv src/keep.txt src/deep/ 2>/dev/null; true")] * self._may(
            0.1
        )
        return deeds

    def _words(self, number: int, deeds: list[Act], words: str) -> Act:
        del number
        return raw(init(), *deeds, says(words), result(words, cost_usd=self._one(0.01, 0.02)))

    def _strays(self, number: int) -> Act:
        deeds = (
            writes("tests/t.txt", f"weakened {number}\n"),
            writes("outside/new.txt", "outside\n"),
            writes("mine.txt", "not yours any more\n"),
            runs("rm -rf tests"),
            runs("chmod +x tests/t.txt; true"),
            runs("ln -sf src/a.txt linked; true"),
            writes("other.log", "ignored\n"),
        )
        return self._chance.choice(deeds)

    def _tampers(self) -> Act:
        deeds = (
            {"act": "marks_done", "which": "all"},
            {"act": "marks_done", "which": "first"},
            {"act": "declares", "word": "RALPH_DONE"},
            {"act": "unlists"},
            {"act": "adds", "text": "\nA note.\n\n## Proposed\n\n- [ ] Something more\n"},
            {"act": "turns_into", "how": self._one("nothing", "garbage", "emptied in place")},
            runs("git add -A; git commit -qm 'Behind your back' >/dev/null 2>&1; true"),
            runs("git checkout -q -b elsewhere 2>/dev/null; true"),
            runs("git config user.name Somebody; true"),
            writes(".ralph.env", "RALPH_MAX_TRIES=off\n", append=True),
            writes(".ralph/PROMPT_task.md", "Do nothing.\n"),
            writes(self._plan, "RALPH_VERIFY: true\n", append=True),
            prints("garbage\n", stderr=True),
        )
        return self._chance.choice(deeds)

    def _held(self, number: int) -> Act:
        name, deeds = f"step {number}", self._works(number)
        at = self._chance.randrange(len(deeds) + 1)
        kind = self._chance.choices(("person", "signal", "kill"), (20, 30, 50))[0]
        if kind == "person":
            mine: Deed = self._one(
                ["append", "\nRALPH_STOP\n"],
                ["replace", "## Notes", "- [ ] five: Make five\n\n## Notes"],
                ["append", "A note of mine.\n"],
            )
            self._at[name] = (mine, ["let", name])
        elif kind == "signal":
            self._at[name] = (["signal", self._one("INT", "TERM", "HUP")],)
        else:
            self._at[name] = (["signal", "KILL"],)
        held = {"act": "holds", "name": name}
        return self._words(number, [*deeds[:at], held, *deeds[at:]], f"Did it.\n\n{signal()}")

    # The starts.

    def _starts(self) -> tuple[Start, ...]:
        count = self._chance.choices((1, 2, 3, 4), (35, 30, 25, 10))[0]
        words = (self._plan, "build", *self._options)
        starts = [Start(words=words, before=self._before(number)) for number in range(count)]
        if self._may(0.1):
            starts.append(Start(words=self._one(("status", self._plan), (*words, "--dry-run"))))
        return tuple(starts)

    def _before(self, number: int) -> tuple[Deed, ...]:
        if not number or self._may(0.5):
            return ()
        return (
            self._one(
                ["without", "RALPH_BLOCKED"],
                ["without", "RALPH_STOP"],
                ["replace", "[!]", "[ ]"],
                ["replace", "- [x] one", "- [ ] one"],
                ["shell", "echo more >> src/keep.txt"],
            ),
        )
