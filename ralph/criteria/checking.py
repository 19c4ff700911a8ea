"""Whether criteria are met, found out by doing what they say."""

import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.channels import http
from ralph.criteria import inside
from ralph.criteria.reading import Criterion, Kind
from ralph.errors import RalphError

if TYPE_CHECKING:
    from ralph.verify import CommandRun

BROWSER = "agent-browser"
_ANSWER_S = 10.0
"""Seconds in which a server has to answer; a signal to stop waits for them."""
_SHOWN = 150
_MOST_ACTIONS = 250
"""Actions in one go: exit codes say which of them failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What criteria are checked in and with."""

    project: Path
    run: "Callable[[str], CommandRun | None]"
    """Runs a shell command; None when a signal ended it."""
    base_url: str | None = None
    over: Callable[[], bool] = lambda: False
    """Whether a signal asked ralph to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What came of checking a criterion."""

    criterion: Criterion
    met: bool
    why: str
    """What was found, and where it is something else, what should have been: one line."""
    output: str = ""
    """The end of what a command printed or the beginning of a server's answer, when it is not met."""


def check(criterion: Criterion, around: Around) -> Met | None:
    """Whether this one is met; None when a signal ended the search.

    An UNCHECKED one counts as met, with a note that nobody looked.
    """
    return next(check_each([criterion], around))


def check_each(criteria: Iterable[Criterion], around: Around) -> Iterator[Met | None]:
    """The same for each of them in turn, found out when it is asked for; nothing comes after a None.

    Browser actions that follow one another share one browser, else no click would find the page that was opened.
    """
    for browsing, some in groupby(criteria, lambda one: one.kind is Kind.BROWSER and not one.problem):
        group = list(some)
        for met in _browsed(group, around) if browsing else (_alone(one, around) for one in group):
            yield met
            if met is None:
                return


def _alone(criterion: Criterion, around: Around) -> Met | None:
    if criterion.problem:
        return _unmet(criterion, f"{_shown(criterion.text)}: {criterion.problem}")
    return _CHECKS[criterion.kind](criterion, around)


def _ran(criterion: Criterion, around: Around) -> Met | None:
    run = around.run(criterion.command)
    if run is None:
        return None
    what, code = f"Run `{_shown(criterion.command)}` {run.what}", criterion.code
    if run.code == code:
        return Met(criterion=criterion, met=True, why=what)
    known = run.code is not None and run.code >= 0
    return _unmet(criterion, f"{what}, {'not' if known else 'and should have exited with'} {code}", run.output)


def _exists(criterion: Criterion, around: Around) -> Met:
    """A folder counts as well."""
    try:
        inside.find(around.project, criterion.path)
    except inside.NotSoError as found:
        return _unmet(criterion, f"File `{_shown(criterion.path)}` {found}")
    return Met(criterion=criterion, met=True, why=f"File `{_shown(criterion.path)}` exists")


def _contains(criterion: Criterion, around: Around) -> Met | None:
    file = f"File `{_shown(criterion.path)}`"
    try:
        if not inside.search(around.project, criterion.path, criterion.holds, around.over):
            return None
    except inside.NotSoError as found:
        return _unmet(criterion, f"{file} {found}")
    return Met(criterion=criterion, met=True, why=f"{file} contains `{_shown(criterion.holds)}`")


def _asked(criterion: Criterion, around: Around) -> Met | None:
    """A redirect is an answer and is not followed; a request has no content and bears no secret."""
    what = f"{criterion.method} {_shown(criterion.url)}"
    if not around.base_url:
        return _unmet(criterion, f"{what} was not asked: nobody said of which server; set --base-url")
    if not (origin := http.origin(around.base_url)):
        return _unmet(criterion, f"{what} was not asked: --base-url is no web address; it begins with http://")
    url = around.base_url.rstrip("/") + criterion.url
    try:
        with http.ask(criterion.method, url, timeout_s=_ANSWER_S) as answer:
            status = answer.status_code
            said = "" if status == criterion.status else http.beginning(answer)
    except RalphError as error:
        status, said = 0, error.message
    if around.over():
        return None
    if not status:
        return _unmet(criterion, f"{what}, which should return {criterion.status}: {origin}: {said}")
    if status == criterion.status:
        return Met(criterion=criterion, met=True, why=f"{what} returned {status}")
    return _unmet(criterion, f"{what} returned {status}, not {criterion.status}", said)


def _browsed(criteria: Sequence[Criterion], around: Around) -> Iterator[Met | None]:
    """Met where `agent-browser` exits with 0; what stands behind the dash is for people, and nobody checks it."""
    if shutil.which(BROWSER) is None:
        yield from (_unmet(one, f"{BROWSER} is not installed, so `{_action(one)}` was not tried") for one in criteria)
        return
    some, rest = criteria[:_MOST_ACTIONS], criteria[_MOST_ACTIONS:]
    run = around.run("\n".join(f"{_line(one)} || exit {number}" for number, one in enumerate(some, 1)))
    yield from ([None] if run is None else [_tried(one, number, run) for number, one in enumerate(some, 1)])
    if rest:
        yield from _browsed(rest, around)


def _line(criterion: Criterion) -> str:
    return shlex.join((BROWSER, *criterion.action))


def _action(criterion: Criterion) -> str:
    return _shown(_line(criterion))


def _tried(criterion: Criterion, number: int, run: "CommandRun") -> Met:
    """What came of the action of this number."""
    if run.code is None or run.code < 0:
        return _unmet(criterion, f"`{_action(criterion)}`, which should exit with 0: it {run.what}", run.output)
    if run.code == 0 or number < run.code:
        return Met(criterion=criterion, met=True, why=f"`{_action(criterion)}` exited with 0")
    if number == run.code:
        return _unmet(criterion, f"`{_action(criterion)}` failed, and should exit with 0", run.output)
    return _unmet(criterion, f"`{_action(criterion)}` was not tried, since an action before it failed")


def _believed(criterion: Criterion, _around: Around) -> Met:
    return Met(criterion=criterion, met=True, why=f"not machine-checked, nobody looked: {_shown(criterion.text)}")


_CHECKS: dict[Kind, Callable[[Criterion, Around], Met | None]] = {
    Kind.RUN: _ran,
    Kind.EXISTS: _exists,
    Kind.CONTAINS: _contains,
    Kind.HTTP: _asked,
    Kind.UNCHECKED: _believed,
}


def _unmet(criterion: Criterion, why: str, output: str = "") -> Met:
    return Met(criterion=criterion, met=False, why=why, output=output)


def _shown(text: str) -> str:
    """The text on one line, and not so long that what was found is cut off behind it."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
