"""What is a plan's own: its prompts, its progress file, and the lock on its tree."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from ralph import lock, progress, prompt, sources
from ralph.channels.notices import oddities
from ralph.checks.check import Check, of_error
from ralph.checks.machine import writable
from ralph.errors import RalphError
from ralph.judge import tasks
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.screen.text import attended
from ralph.settings import Settings, resolve
from ralph.start import Early, Start, check_folder, check_same_plan, ends_at_once
from ralph.state import State
from ralph.verdict import Reason

_SAMPLE: dict[str, str | int | bool] = {
    "PLAN_FILE": "/plan.md",
    "PROGRESS_FILE": "plan_PROGRESS.md",
    "PLAN_NAME": "plan",
    "AUTO_COMMIT": True,
    "MAX_ITERATIONS": "",
}
"""Stand for a plan's own values where there is none."""


def prompts(settings: Settings, start: Start | None) -> list[Check]:
    """Whether the template of each mode can be rendered."""
    places = prompt.folders(settings.prompts)
    values = {**(start.values if start else _SAMPLE), "ITERATION": 1}
    good, found = [], []
    for mode in prompt.modes(places):
        try:
            template = prompt.find(mode, places)
            text = prompt.load(template)
            resolve(sources.of_template(text, template))
            prompt.Prompt(template, text, places).render(values)
            good.append(f"{mode} ({template})")
        except RalphError as error:
            found += [
                replace(one, remedy=one.remedy or "mend it; that mode cannot run") for one in of_error("prompts", error)
            ]
    return [Check(name="prompts", ok=True, said=f"{', '.join(good)} can be rendered"), *found] if good else found


def progress_file(start: Start) -> list[Check]:
    """What its progress file says, and what a start would make of that."""
    path = start.progress_path
    state = _state(start)
    if not ProgressFile(path, state).exists():
        check_folder(start)
        folder = writable("progress", path.absolute().parent, "make the folder writable")
        said = f"there is no {path} yet; the first start makes it"
        return [Check(name="progress", ok=True, said=said) if folder.ok else folder]
    text = path.read_bytes()
    now = progress.parse(text)
    check_same_plan(start, now)
    found = [Check(name="progress", ok=True, said=f"{path}: {tasks(now)}"), *_end(start, now, text)]
    return [*found, *_oddities(path, now), *_unwritable(path)]


def _state(start: Start) -> State:
    return State(start.name, start.progress_path)


def _end(start: Start, now: Progress, text: bytes) -> list[Check]:
    """Why a start would end at once."""
    died = _state(start).died()
    if died is not None:
        said = f"the last run died in iteration {died.iteration}; a start clears up after it first"
        return [Check(name="progress", ok=True, said=said), *_end_of(start, now, text)]
    return _end_of(start, now, text)


def _end_of(start: Start, now: Progress, text: bytes) -> list[Check]:
    if now.blocked_by_ralph and attended():
        said = f"ralph gave up: {now.blocked}"
        remedy = "a start from a terminal tries again; from cron it ends at once"
        return [Check(name="progress", ok=False, said=said, remedy=remedy, obstacle=False)]
    with contextlib.suppress(RalphError):  # what is wrong with the tasks is said of them
        early = ends_at_once(start, now, _state(start), text)
        return [] if early is None or (early.stop.reason is Reason.STUCK and not now.tasks) else [_said(early)]
    return []


def _said(early: Early) -> Check:
    done = early.stop.reason is Reason.DONE
    return Check(
        name="progress", ok=False, said=f"{early.what}: a start ends at once", remedy=early.fix, obstacle=not done
    )


def _oddities(path: Path, now: Progress) -> list[Check]:
    remedies = {"fence": "close it", "size": "move old notes elsewhere"}
    return [
        Check(name="progress", ok=False, said=said, remedy=remedies[what], obstacle=False)
        for what, said in oddities(str(path), now).items()
    ]


def _unwritable(path: Path) -> list[Check]:
    if path.exists() and not os.access(path, os.W_OK):
        said = f"{path} is read-only; the agent could not tick its tasks"
        return [Check(name="progress", ok=False, said=said, remedy=f"chmod u+w {path}")]
    folder = writable("progress", Path(os.path.realpath(path)).parent, "make the folder writable")
    return [] if folder.ok else [folder]


def free(tree: Path) -> Check:
    """Whether no other run works there."""
    holder = lock.holder(tree)
    if holder is None:
        return Check(name="lock", ok=True, said=f"no run works in {tree}")
    said = f"another run works in {tree}: {holder}"
    return Check(name="lock", ok=False, said=said, remedy="let it end; a start would exit with 75")
