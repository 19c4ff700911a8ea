"""The script of a dress rehearsal: which starts of ralph it is made of, and how each is asked for."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import options, progress, start
from ralph.agent import command as agent
from ralph.progress import Progress
from ralph.rehearsal.stage import Stage
from ralph.settings import TABLE, Given, Settings, Source
from ralph.start import Asked, Start
from ralph.state import State
from ralph.verdict import Reason

_MANY = 20
"""From so many tasks on there are fewer progress notices, so as not to flood a channel within a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One start of ralph."""

    asked: Asked
    start: Start

    @property
    def words(self) -> list[str]:
        """How a person asks for it."""
        return ["ralph", *options.arguments(self.asked)]

    def in_copy(self, stage: Stage, instead: Mapping[str, str]) -> list[str]:
        """The arguments with which it happens in the copy; `instead` are settings of the rehearsal's own."""
        settings = self.start.settings
        own = {"delay": "0s", "max-failures": "1"}  # the stand-in does not do better the second time
        if settings.prompts:
            own["prompts"] = str(stage.counterpart(settings.prompts))
        if settings.verify:
            own["verify"] = stage.moved(settings.verify)
        if settings.progress_file or self.start.progress_path.is_symlink():
            own["progress-file"] = str(progress_in(stage, self.start))
        if settings.history:
            there = stage.counterpart(settings.history)
            own["history"] = str(there if there.is_relative_to(stage.top) else stage.top / there.name)
        said = [_given(name, text) for name, text in {**own, **instead}.items()]
        others = [one for one in self.asked.given if one.variable not in {own.variable for own in said}]
        asked = replace(self.asked, plan=str(plan_in(stage, self.asked)), given=[*said, *others])
        plan, mode, *rest = options.arguments(asked)
        return [plan, mode, "--rehearsal", *rest]


def _given(name: str, text: str) -> Given:
    variable = next(setting.variable for setting in TABLE if setting.name == name)
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=f"--{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All of it."""

    scenes: Sequence[Scene]
    now: Progress
    """The progress file as it is."""
    early: bool
    """The last of the starts would end at once."""

    @property
    def last(self) -> Start:
        """What the start that was asked for finds."""
        return self.scenes[-1].start

    @property
    def settings(self) -> Settings:
        """Those of that start."""
        return self.last.settings


def read(asked: Asked) -> Script:
    """What to rehearse: planning too, where there is no task yet. Raises RalphError with what a start would."""
    found = _found(asked)
    text = found.progress_path.read_bytes() if found.progress_path.is_file() else b""
    now = progress.parse(text)
    early = start.ends_at_once(found, now, State(found.name, found.progress_path), text)
    if early and early.reason is Reason.STUCK and not now.tasks:
        early = None  # it is planned first
    scenes = [Scene(asked=asked, start=found)]
    if not (found.settings.once or now.tasks or now.done or early):
        planning = replace(asked, mode="plan")
        scenes.insert(0, Scene(asked=planning, start=_found(planning)))
    return Script(scenes=scenes, now=now, early=early is not None)


def _found(asked: Asked) -> Start:
    found = start.find(asked)
    found.prompt()
    agent.argv(found.settings, found.agent_arguments)
    return found


def plan_in(stage: Stage, asked: Asked) -> Path:
    """The plan in the copy, by the name that it was asked for by, also where that is a link's."""
    plan = Path(asked.plan)
    return stage.counterpart(plan.parent) / plan.name


def progress_in(stage: Stage, found: Start) -> Path:
    """Where the progress file is on the stage: in the copy, or beside it where it lies outside of the working tree."""
    there = stage.counterpart(found.progress_path)
    return there if there.is_relative_to(stage.top) else stage.folder / "progress" / there.name


def fewer_notices(settings: Settings, tasks: int) -> dict[str, str]:
    """Five progress notices at most where there are many tasks."""
    every = settings.notify_frequency
    return {} if every is None or tasks < _MANY else {"notify-frequency": str(max(every, tasks // 4))}


def stand_in(python: Sequence[str], scene: Scene, stage: Stage, *, commits: bool, pace_s: float) -> str:
    """A program that stands in for the agent of this scene, whatever arguments it gets: its text."""
    plan, file = plan_in(stage, scene.asked), progress_in(stage, scene.start)
    mode = "plan" if scene.start.settings.once else "build"
    words = [*python, mode, str(plan), str(file), "--pace", str(pace_s), *["--no-commit"] * (not commits)]
    words += ["--only", scene.start.settings.only[0]] if scene.start.settings.only else []
    # it hears of Ctrl+C once it can do without a traceback
    return f"#!/bin/sh\ntrap '' INT\nexec {shlex.join(words)}\n"
