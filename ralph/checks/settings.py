"""The settings of a start: whether they are right, what was said, and where."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import plans, sources, start, taskjson
from ralph.agent import command as agent
from ralph.checks.check import Check, of_error
from ralph.errors import RalphError
from ralph.settings import TABLE, Given, Setting, Settings, resolve
from ralph.start import Asked, Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a start would go by; where something is wrong, what is right of it."""

    asked: Asked
    """With the plan's file where its name was given."""
    start: Start | None
    """None without a plan, or when something is wrong."""
    settings: Settings
    given: Sequence[Given]
    """All that was said, wherever."""
    problems: Sequence[Check]


def basis(asked: Asked) -> Basis:
    """What there is to go by."""
    asked = _by_name(asked)
    given = [*asked.given, *_of_plan(Path(asked.plan)), *sources.in_environment(), *sources.in_files()[0]]
    if wrong := [*_wrong_tasks(Path(asked.plan))]:
        wrong += _wrong_settings(asked)
        return Basis(asked=asked, start=None, settings=_right(given), given=given, problems=wrong)
    try:
        if asked.plan:
            found = start.find(asked)
            settings, template, text = found.settings, found.template, found.template_text
        else:
            found = None
            settings, template, text = sources.everywhere(asked.given, (), asked.mode)
        given += sources.of_template(text, template)
        agent.argv(settings, asked.agent_arguments)
    except RalphError as error:
        return Basis(asked=asked, start=None, settings=_right(given), given=given, problems=of_error("settings", error))
    except OSError as error:
        wrong = [Check(name="settings", ok=False, said=str(error), remedy="make it readable")]
        return Basis(asked=asked, start=None, settings=_right(given), given=given, problems=wrong)
    return Basis(asked=asked, start=found, settings=settings, given=given, problems=[])


def _wrong_tasks(plan: Path) -> list[Check]:
    """What is wrong with the tasks that the plan holds in JSON."""
    try:
        with contextlib.suppress(OSError):
            taskjson.of_plan(plan, plan.read_bytes())
    except RalphError as error:
        return [replace(one, remedy=one.remedy or f"mend that in {plan}") for one in of_error("tasks", error)]
    return []


def _wrong_settings(asked: Asked) -> list[Check]:
    """The same of the settings."""
    try:
        sources.everywhere(asked.given, _of_plan(Path(asked.plan)), asked.mode)
    except RalphError as error:
        return of_error("settings", error)
    return []


def _of_plan(plan: Path) -> Sequence[Given]:
    with contextlib.suppress(OSError):
        return sources.of_plan(plan.read_bytes(), plan.name) if plan.is_file() else ()
    return ()


def _by_name(asked: Asked) -> Asked:
    """With the plan's file where its name was given, as elsewhere."""
    with contextlib.suppress(RalphError, OSError):
        return replace(asked, plan=str(plans.find(asked.plan).path)) if asked.plan else asked
    return asked


def _right(given: Sequence[Given]) -> Settings:
    """The settings of those that are well-formed and agree, so that other checks have something to go by."""
    good: list[Given] = []
    for one in given:
        with contextlib.suppress(RalphError):
            resolve([*good, one])
            good.append(one)
    return resolve(good)


def said_settings(basis: Basis) -> list[Check]:
    """Everything that is wrong with them; else a line for each that somebody set, and where."""
    if basis.problems:
        return list(basis.problems)
    found = [Check(name="settings", ok=False, said=one, obstacle=False) for one in basis.settings.dropped]
    found += [_line(setting, basis) for setting in TABLE if setting.field in basis.settings.said]
    return found or [Check(name="settings", ok=True, said="nobody set any; see ralph help settings for what holds")]


def _line(setting: Setting, basis: Basis) -> Check:
    where = basis.settings.said[setting.field]
    texts = [one.text for one in basis.given if (one.variable, one.where) == (setting.variable, where)]
    text = " ".join(texts if setting.many else texts[:1])
    return Check(name="settings", ok=True, said=f"{setting.name} {' '.join(text.split())} ({where})")
