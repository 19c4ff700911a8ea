"""Draws a story from a seed: what people, agents, files and machines do to ralph, each alone and in company."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import strict_drawing
from playing import OWN_TEMPLATE
from stories import api_error, api_retry, error_result, init, prints, raw, result, runs, says, sleeps, starts, writes
from story import LEFT_BY_CHECKS, Deed, Start, Story

Act = dict[str, Any]
MOST_CALLS = 6
"""Iterations of a start where nothing else bounds it."""

_PLACES = ("option", "environment", "plan", "project", "home")
_SETTINGS: dict[str, tuple[str, ...]] = {
    "max-iterations": ("1", "2", "3", "4"),
    "max-failures": ("1", "2", "3", "off"),
    "max-stalls": ("1", "2", "3", "off"),
    "max-cost": ("0.02", "0.05", "5"),
    "max-iteration-cost": ("0.01", "2"),
    "max-total-cost": ("0.03", "0.05", "9"),
    "notify-frequency": ("1", "2", "3", "off"),
    "delay": ("0", "0s"),
    "auto-commit": ("true", "false", "yes", "0"),
    "verify-timeout": ("20s", "1m"),
    "idle-timeout": ("20s", "5m", "off"),
    "iteration-timeout": ("60s", "1h", "off"),
    "max-context": ("60%", "off"),
    "model": ("opus", "claude-sonnet-5"),
    "effort": ("none", "low", "med", "high", "max"),
    "max-turns": ("3", "50"),
    "wait": ("true", "false"),
    "keep-transcripts": ("200MB", "1MB"),
    "verify": ("true", "test -e src/a.txt", "! grep -q broken src/*", f"{LEFT_BY_CHECKS} & true"),
}
_CHECKS = {
    "green": "echo fine",
    "red": "echo 3 failed; false",
    "flaky": "echo once >> @HERE@/tmp/checks; test $(wc -l < @HERE@/tmp/checks) -gt 2",
    "slow": "sleep 600",
    "held": "test -e @HERE@/agent/mark-at-verify || { : > @HERE@/agent/mark-at-verify; sleep 600; }",
}
_INVALID = {
    "max-iterations": ("0x", "-1", "many", "1.5"),
    "max-failures": ("never", "-2"),
    "max-stalls": ("x",),
    "max-cost": ("-1", "cheap"),
    "max-total-cost": ("1e", "€5"),
    "delay": ("soon", "-2s"),
    "auto-commit": ("maybe",),
    "idle-timeout": ("4x", "30"),
    "max-context": ("60", "140%"),
    "effort": ("enormous",),
    "max-turns": ("none", "0"),
    "prompts": ("nowhere",),
}
_FLAGS = ("wait", "auto-commit")
"""Options that are going to be flags: their values stand in files and in the environment."""
_FOR_CLAUDE = ("max-cost", "max-iteration-cost", "max-total-cost", "max-context", "model", "effort", "max-turns")
_UNKNOWN = (("MAX_ITERATION", "3"), ("VERIFI", "true"), ("WEBHOOK_URL", "http://127.0.0.1:9/"), ("AGENT", "helper"))

_TASKS = (
    "Parse the header",
    "Write the tests",
    "Name `things` well",
    "Ünïcode — too",
    "A task: with (signs) *and* more",
)
_TEMPERS = {
    "able": {"works": 55, "odd": 15, "fails": 6, "limit": 6, "trouble": 4, "hangs": 3, "held": 14, "hopeless": 2},
    "unlucky": {"fails": 75, "works": 10, "odd": 5, "held": 10},
    "idle": {"idle": 75, "works": 10, "held": 10, "odd": 5},
    "boastful": {"claims": 70, "works": 15, "odd": 5, "held": 10},
}
"""How often an agent of each kind does what."""
_WORDS = ("IN_PROGRESS", "RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED: which database?", "RALPH_BLOCKED")
_BLOCKED_BY_RALPH = "RALPH_BLOCKED: ralph: 3 iterations failed in a row: it went wrong"


def draw(seed: int, *, contained: bool = True) -> Story:
    """The story of this seed; always the same. `contained` is whether stories that put files back may come."""
    chance = random.Random(seed)
    if chance.random() < 0.35 and contained:
        return strict_drawing.draw(seed, chance)
    return _Drawn(seed, chance).story()


class _Drawn:
    """A story while it is made: one method for each of its parts."""

    def __init__(self, seed: int, chance: random.Random) -> None:
        self._seed, self._chance = seed, chance
        self._files = {"src/a.txt": "a\n", "feature.md": "# A feature\n\nMake it so.\n"}
        self._uncommitted: dict[str, str] = {}
        self._home: dict[str, str] = {}
        self._home_env = [f"RALPH_MAX_ITERATIONS={MOST_CALLS}", "RALPH_DELAY=0"]
        self._environment: dict[str, str] = {}
        self._options: list[str] = []
        self._progress = "feature_PROGRESS.md"
        self._at: dict[str, tuple[Deed, ...]] = {}
        self._mode = "build"
        self._hung = False
        self._temper = chance.choices([*_TEMPERS], (50, 14, 12, 24))[0]
        self._helper = self._may(0.1)

    def _may(self, share: float) -> bool:
        return self._chance.random() < share

    def _one(self, *of: Any) -> Any:
        return self._chance.choice(of)

    def story(self) -> Story:
        self._draws_mode()
        self._draws_settings()
        self._draws_channels()
        self._draws_surroundings()
        steps = self._steps()
        waits = tuple(self._at_wait() for _ in range(2))
        all_starts = self._starts()
        self._home[".ralph.env"] = "\n".join([*self._home_env, ""])
        return Story(
            seed=self._seed,
            kind="plain",
            repository=not self._may(0.08),
            files=self._files,
            uncommitted=self._uncommitted,
            home=self._home,
            environment=self._environment,
            progress=self._progress,
            steps=steps,
            at=self._at,
            at_waits=waits,
            starts=all_starts,
            takeover=len(all_starts) > 1 and self._may(0.5),
        )

    def _draws_mode(self) -> None:
        self._mode = self._chance.choices(("build", "plan", "review"), (70, 15, 15))[0]
        if self._mode == "review":
            once = self._may(0.3)
            head = "{#\nRALPH_ONCE: yes\n#}\n" if once else self._one("", "{# RALPH_MAX_FAILURES: 2 #}\n")
            names = [
                "PLAN_FILE",
                "PROGRESS_FILE",
                "PLAN_NAME",
                "AUTO_COMMIT",
                "ITERATION",
                "MAX_ITERATIONS",
                "STRICT",
                "VERIFY",
            ]
            if self._may(0.25):
                head, body = "", "".join(f"{name} ${{{name}}}\n" for name in names[:3])
            else:
                body = "".join(f"{name} {{{{ {name} }}}}\n" for name in names)
            place = self._one(self._files, self._home)
            place[".ralph/PROMPT_review.md"] = f"{head}{OWN_TEMPLATE}\n{body}"
            if self._may(0.06):
                place[".ralph/PROMPT_review.md"] += self._one("{{ NO_SUCH }}\n", "{% if %}\n", "{{ PLAN_FILE\n")

    def _draws_settings(self) -> None:
        names = [name for name in _SETTINGS if not (self._helper and name in _FOR_CLAUDE)]
        for name in self._chance.sample(names, self._chance.randrange(6)):
            for place in self._chance.sample(_PLACES, self._one(1, 1, 1, 2)):
                self._says(place, name, self._one(*_SETTINGS[name]))
        if self._may(0.25):
            self._draws_checks()
        if self._may(0.06):
            for name in self._chance.sample([*_INVALID], self._one(1, 1, 2)):
                self._says(self._one(*_PLACES), name, self._one(*_INVALID[name]))
        if self._may(0.03):
            name, text = self._one(*_UNKNOWN)
            self._says(self._one("plan", "project"), name.lower().replace("_", "-"), text)
        if self._may(0.08):
            self._progress = self._one("notes/state.md", "other.md")
            self._says(self._one(*_PLACES), "progress-file", self._progress)
            self._files["notes/keep"] = ""
        if self._may(0.05):
            self._files["feature.md"] += "\nDO_NOT_COMMIT\n"

    def _draws_checks(self) -> None:
        """A verify command that is red, flaky, slow, or during which somebody comes by."""
        kind = self._chance.choices(("green", "red", "flaky", "slow", "held"), (25, 15, 35, 8, 17))[0]
        if kind == "slow":
            self._says("option", "verify-timeout", "2s")
        if kind == "held":
            self._at["verify"] = (["signal", self._one("INT", "TERM", "KILL")],)
        self._says(self._one(*_PLACES), "verify", _CHECKS[kind])

    def _says(self, place: str, name: str, text: str) -> None:
        variable = "RALPH_" + name.upper().replace("-", "_")
        if place == "option" and name in _FLAGS:
            place = "environment"
        if place == "option":
            self._options += [f"--{name}", text]
        elif place == "environment":
            self._environment[variable] = text
        elif place == "plan":
            self._files["feature.md"] += f"\n{variable}: {text}\n"
        elif place == "project":
            text = f"'{text}'" if " " in text else text
            self._files[".ralph.env"] = self._files.get(".ralph.env", "# mine\n") + f"{variable}={text}\n"
        else:
            self._home_env.append(f"{variable}='{text}'")

    def _draws_channels(self) -> None:
        if self._may(0.7):
            self._home_env.append("RALPH_WEBHOOK_URL=@URL@")
        elif self._may(0.7):
            self._home["tell"] = "#!/bin/sh\nprintf '%s\\0' \"$1\" >> @HERE@/notices\nexit 3\n"
            self._home_env.append("RALPH_CUSTOM_NOTIFY_SCRIPT=@HERE@/home/tell")
        if self._may(0.2):
            self._home_env.append("RALPH_HEARTBEAT_URL=@URL@beat")

    def _draws_surroundings(self) -> None:
        if self._may(0.2):
            self._files[".gitignore"] = "*_PROGRESS.md\n.ralph.env\n"
        if self._may(0.15):
            self._uncommitted["src/mine.txt"] = "what I was at\n"
        if self._helper or self._may(0.04):
            name = self._one("helper", "helper --fast") if self._helper else self._one("helper", "nowhere-to-be-found")
            self._environment["RALPH_AGENT"] = name
        if self._may(0.78):
            self._uncommitted[self._progress] = self._progress_file()
        if self._may(0.12):
            self._files["feature.md"] = self._files["feature.md"].replace("\n", "\r\n")
        if self._may(0.06):
            task = {"id": "json-1", "requirement": "What the plan says as JSON", "status": "pending"}
            self._files["feature.md"] += f"\n```json\n{json.dumps({'requirements': [task]}, indent=1)}\n```\n"
        if self._may(0.04):
            self._files["feature.md"] = self._one(
                "", "\ufeff# Plan\n\nRALPH_MAX_STALLS: 2\n", "```\nRALPH_MAX_COST: x\n"
            )

    def _progress_file(self) -> str:
        tasks = self._chance.sample(_TASKS, self._chance.randrange(1, 5))
        marks = [self._one("[ ]", "[ ]", "[x]", "[X]") for _ in tasks]
        bullet = self._one("-", "-", "-", "*", "+")
        listed = "".join(f"{bullet} {mark} {task}\n" for mark, task in zip(marks, tasks, strict=True))
        if self._may(0.2):
            listed += f"  {bullet} [ ] nested below\n"
        word = self._chance.choices((*_WORDS, _BLOCKED_BY_RALPH), (70, 8, 5, 4, 1, 6))[0]
        heading = self._chance.choices(
            ("## Task List", "## Tasks", "# Task breakdown", "## What to do"), (75, 10, 5, 10)
        )[0]
        text = f"# Progress: feature\n\nPlan: feature.md\nStarted: 2026-11-20 22:14:03\n\n## Status\n\n{word}\n\n"
        text += f"{heading}\n\n{listed}\n## Notes\n"
        oddity = self._chance.choices(tuple(_ODD), (30, *[4] * (len(_ODD) - 1)))[0]
        return _ODD[oddity](text)

    # The agent.

    def _steps(self) -> tuple[Act, ...]:
        steps = [self._step(number) for number in range(1, self._chance.randrange(2, MOST_CALLS + 1))]
        if self._mode == "plan" and self._may(0.7):
            steps[0] = raw(init(), *(_lists(task) for task in _TASKS[:3]), result("Planned."))
        last = [_marks_done("all"), _declares("RALPH_DONE")]
        return (*steps, raw(init(), *last, result("All of it.")))

    def _step(self, number: int) -> Act:
        kinds, weights = zip(*_TEMPERS[self._temper].items(), strict=True)
        deeds = self._deeds(number)
        kind = self._chance.choices(kinds, weights)[0]
        if kind == "hangs" and self._hung:
            kind = "held"
        made: dict[str, Callable[[], Act]] = {
            "works": lambda: self._ends(number, deeds),
            "odd": lambda: self._ends(number, [*deeds, self._odd_deed()]),
            "idle": lambda: self._ends(number, [says("Hm.")]),
            "claims": lambda: self._ends(number, [*deeds[:1], _declares("RALPH_DONE")]),
            "fails": lambda: self._fails(deeds),
            "limit": lambda: self._limit(deeds),
            "trouble": lambda: self._trouble(deeds),
            "hopeless": self._hopeless,
            "hangs": lambda: self._hangs(deeds),
            "held": lambda: self._held(number, deeds),
        }
        return made[kind]()

    def _limit(self, deeds: Sequence[Act]) -> Act:
        resets_in_s = self._one(3, 600, None)  # 3: whole seconds, and some for a slow machine
        words = api_error("You've hit your session limit", "rate_limit", status=429)
        return raw(init(), *deeds, {"act": "limited", "resets_in_s": resets_in_s}, *words, exit_code=1)

    def _trouble(self, deeds: Sequence[Act]) -> Act:
        return raw(init(), *deeds, api_retry(), *api_error("API Error: 529 Overloaded", "overloaded"), exit_code=1)

    def _hopeless(self) -> Act:
        error = self._one("authentication_failed", "billing_error", "invalid_request")
        return raw(init(), *api_error("Please run /login", error, status=401), exit_code=1)

    def _hangs(self, deeds: Sequence[Act]) -> Act:
        self._hung = True
        self._options += self._one(["--idle-timeout", "3s"], ["--iteration-timeout", "4s"], ["--max-time", "6s"])
        return raw(init(), *deeds, sleeps(3600))

    def _deeds(self, number: int) -> list[Act]:
        choices: list[Callable[[], Act]] = [
            lambda: _marks_done("first"),
            lambda: writes(f"src/{self._one('a', 'b', 'c')}.txt", f"{number}\n", append=True),
            lambda: writes(f"made/by/{number}.txt", self._one("fine\n", "broken\n", "crlf\r\n")),
            lambda: runs(f"git add -A >/dev/null 2>&1; git commit -qm 'Work {number}' >/dev/null 2>&1; true"),
            lambda: _lists(f"Found in {number}"),
            lambda: _adds(f"\nA note of {number}.\n"),
            lambda: says(self._one("I take the first one.", "Ähm, let me see…", "RALPH_DONE\nis not yet true")),
        ]
        weights = (10, 6, 4, 8, 3, 3, 4)
        deeds = [one() for one in self._chance.choices(choices, weights, k=self._chance.randrange(5))]
        if self._may(0.14):
            deeds += [_marks_done("all")] * self._may(0.7) + [_declares("RALPH_DONE")]
        return deeds

    def _odd_deed(self) -> Act:
        number = self._chance.randrange(100)
        pid = f"echo $$ > @TMP@/{number}.pid; exec sleep 600"
        odd: tuple[Callable[[], Act], ...] = (
            lambda: {"act": "unlists"},
            lambda: {"act": "unticks"},
            lambda: {"act": "turns_into", "how": self._one("nothing", "garbage", "emptied in place")},
            lambda: {"act": "turns_into", "how": self._one("a folder", "a link")},
            lambda: _declares(self._one(*_WORDS[1:])),
            lambda: _adds(self._one("\n```\nRALPH_DONE\n", "\n\nRALPH_DONE\n", "\n## Tasks\n- [ ] another\n")),
            lambda: prints(self._one("no json\n", '{"type": "unheard-of"}\n', "\0\x1b[31m\udcff\n", "{\n"), times=3),
            lambda: prints("a complaint\n", stderr=True, times=2),
            lambda: starts(f"exec sleep 6{number:02d}", holds_stdout=(self._may(0.5), self._may(0.3))[1]),
            lambda: runs(f"setsid sh -c '{pid.replace('@TMP@', '$TMPDIR')}' >/dev/null 2>&1 & true"),
            lambda: runs(f"(env -i setsid sh -c \"{pid.replace('@TMP@', '$TMPDIR').replace('$$', chr(92) + '$$')}\" "
                         ">/dev/null 2>&1 &)"),
            lambda: runs("test ! -d .git || : > .git/index.lock"),
            lambda: writes("feature.md", "\nRALPH_MAX_COST: 7\n", append=True),
            lambda: writes(".ralph.env", "RALPH_MAX_FAILURES=1\n", append=True),
            lambda: runs("git checkout -q -b other >/dev/null 2>&1; true"),
            lambda: runs("rm -rf src; true"),
        )  # fmt: skip
        return self._chance.choice(odd)()

    def _ends(self, number: int, deeds: Sequence[Act]) -> Act:
        after = [_marks_done("first")] if self._may(0.05) else []
        cost_usd = self._one(0.01, 0.01, 0.03, 0.2)
        more = error_result("error_max_turns", cost_usd=cost_usd) if self._may(0.06) else None
        more = error_result("error_max_budget_usd", cost_usd=cost_usd) if self._may(0.05) else more
        end = more or result(self._one("Done.", f"Did {number}.\n\nMore words."), cost_usd=cost_usd)
        return raw(init(key_source=self._one("none", "none", "ANTHROPIC_API_KEY")), *deeds, end, *after)

    def _fails(self, deeds: Sequence[Act]) -> Act:
        if self._may(0.5):
            return raw(init(), *deeds, exit_code=self._one(1, 0, 3, -9, -11, 127))
        text = self._one("It went wrong.", "an\nerror of\nthree lines", "")
        return raw(init(), *deeds, result(text, ok=False), exit_code=self._one(0, 1))

    def _held(self, number: int, deeds: Sequence[Act]) -> Act:
        """Somebody does something while the agent is at work."""
        name, at = f"step {number}", self._chance.randrange(len(deeds) + 1)
        ignoring: list[Act] = []
        kind = self._chance.choices(("person", "signal", "two signals", "kill"), (40, 30, 6, 24))[0]
        if kind == "person":
            self._at[name] = (*self._persons_deeds(), ["let", name])
        elif kind == "signal":
            self._at[name] = (["signal", self._one("INT", "INT", "TERM", "HUP")],)
        elif kind == "kill":
            self._at[name] = (["signal", "KILL"],)
        else:
            ignoring = [{"act": "ignores", "signals": ["INT", "TERM", "HUP"]}]
            self._at[name] = (["signal", self._one("INT", "TERM")], ["pause", "0.5"], ["signal", "INT"])
        held = {"act": "holds", "name": name}
        return self._ends(number, [*deeds[:at], *ignoring, held, *deeds[at:]])

    def _persons_deeds(self) -> tuple[Deed, ...]:
        deeds: tuple[Deed, ...] = (
            ["append", "\nRALPH_STOP\n"],
            ["append", "\n## Messages\n\nDo it in blue.\n"],
            ["replace", "## Notes", "- [ ] What I forgot\n\n## Notes"],
            ["replace", "[ ]", "[x]"],
            ["replace", "IN_PROGRESS", "RALPH_DONE"],
            ["shell", "echo mine > src/person.txt; git add -A; git commit -qm Mine"],
            ["shell", "rm -f *_PROGRESS.md"],
        )
        return (self._one(*deeds),)

    def _at_wait(self) -> tuple[Deed, ...]:
        deed: Deed = self._one(
            ["signal", "INT"],
            ["signal", "TERM"],
            ["signal", "HUP"],
            ["signal", "KILL"],
            ["append", "\nRALPH_STOP\n"],
            ["replace", "IN_PROGRESS", "RALPH_DONE"],
        )
        return (deed, ["pause", "4"], ["signal", "INT"]) if deed[0] != "signal" else (deed,)

    # The starts.

    def _starts(self) -> tuple[Start, ...]:
        count = self._chance.choices((1, 2, 3, 4, 5), (30, 30, 22, 12, 6))[0]
        made = []
        for number in range(count):
            mode = "build" if number and self._mode == "plan" and self._may(0.8) else self._mode
            words = ["feature.md", *([mode] if mode != "build" or self._may(0.7) else [])]
            if words[1:] and self._may(0.1):
                words.append(self._one("1", "2", "3"))
            words += [*self._options, *self._more()]
            terminal = "--" not in words and self._may(0.1)
            words += ["--no-spinner"] * terminal
            made.append(Start(words=tuple(words), before=self._before(number), terminal=terminal))
        if self._may(0.06):
            made.append(self._stranger())
        return tuple(made)

    def _more(self) -> tuple[str, ...]:
        return self._chance.choices(
            ((), ("-q",), ("--verbose",), ("--no-wait",), ("--max-iterations", "1"), ("--", "--add-dir", "../lib")),
            (75, 5, 3, 5, 8, 4),
        )[0]

    def _before(self, number: int) -> tuple[Deed, ...]:
        if not number or self._may(0.5):
            return ()
        deeds: tuple[Deed, ...] = (
            ["without", "RALPH_STOP"],
            ["without", "RALPH_BLOCKED"],
            ["without", "RALPH_BLOCKED"],
            ["replace", "RALPH_DONE", "IN_PROGRESS"],
            ["replace", "## Notes", "- [ ] One more\n\n## Notes"],
            ["shell", "rm -f *_PROGRESS.md"],
            ["shell", "echo again > src/again.txt"],
        )
        return (self._one(*deeds),)

    def _stranger(self) -> Start:
        return Start(
            words=self._one(
                ("feature.md", "20", "plan", *self._options),
                ("feature.md", "2", "99", *self._options),
                ("feature.md", "build", "--max-time", "1h30"),
                ("nowhere.md", "build"),
                ("feature.md", "biuld"),
                ("feature.md", "build", "--max-iteration"),
                ("feature.md", "build", "--max-iterations"),
                ("build", "feature.md"),
                ("stauts",),
                ("--requirements", "feature.md", "build", *self._options),
                ("-C", "src", "../feature.md", "build"),
                ("feature.md", "build", "--dry-run"),
                ("status", "feature.md"),
                ("config", "commit", "off"),
                ("config", "commit", "status"),
            ),
        )


def _marks_done(which: str) -> Act:
    return {"act": "marks_done", "which": which}


def _declares(word: str) -> Act:
    return {"act": "declares", "word": word}


def _lists(task: str) -> Act:
    return {"act": "lists", "task": task}


def _adds(text: str) -> Act:
    return {"act": "adds", "text": text}


_ODD: dict[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "BOM": lambda text: "\ufeff" + text,
    "no end of line": lambda text: text.rstrip("\n"),
    "an unclosed fence": lambda text: text.replace("## Task", "```sh\nRALPH_STOP\n\n## Task", 1),
    "a word in a fence": lambda text: text + "\n```\nRALPH_DONE\n- [ ] no task\n```\n",
    "bytes that are no UTF-8": lambda text: text + "caf\udce9\n",
    "a message": lambda text: text + "\n## Messages\n\nUse tabs.\n",
    "of another plan": lambda text: text.replace("Plan: feature.md", "Plan: src/a.txt"),
    "money spent": lambda text: text.replace("## Status", "Spent: $0.02\n\n## Status"),
    "verified": lambda text: text.replace("RALPH_DONE", "RALPH_DONE\nVerified: 2026-11-20 23:00:00"),
    "empty": lambda text: text[:0],
    "prose": lambda text: "Just a few words.\n" + text[:0],
    "tasks in the notes": lambda text: text + "- [ ] not in the list\n",
    "words in prose": lambda text: text + "Never write RALPH_DONE here.\n  RALPH_STOP\n",
}
