"""The dress rehearsal of a plan: all of it real but the agent, in a throwaway copy of the repository.

What a stand-in agent cannot show, it does not show: whether the real one is logged in, and how well it works. What lies
outside of the working tree is there as it is, and is not copied.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ralph import lock
from ralph.errors import RalphError
from ralph.process import MARK, Keeper, Patience, call, end_strays, signals
from ralph.rehearsal import closing, script, stage, untouched
from ralph.rehearsal.closing import Rehearsed
from ralph.rehearsal.performance import Performance
from ralph.rehearsal.script import Script
from ralph.rehearsal.stage import Stage
from ralph.screen.screen import Screen
from ralph.start import Asked

_GIT_S = 30.0


def rehearse(asked: Asked) -> int:
    """Rehearses the plan in a copy, removes it, and shows what would have happened and what would have gone wrong.

    1 when something would have gone wrong, else 0. Wrong is whatever ends a start otherwise than with 0 or at a limit
    (a hook that fails), a verify command that is red on the untouched copy, missing or hanging, a notice that does not
    get through, what keeps the agent from working (it is missing, git does not know who commits, no room), and a
    repository that is not as it was. Uncommitted files, fewer iterations than tasks, no limit, little room and a plan
    that is done already only deserve a look.
    Raises RalphError where a start would, before anything is copied, and when there is no room for a copy.
    """
    play = script.read(asked)
    top = _top(Path.cwd().resolve())
    if holder := lock.holder(lock.working_tree(Path.cwd())):
        raise RalphError(f"another run works in {top}: {holder}; rehearse when it is over", lock.LOCKED)
    signals.install(lambda: None)  # Ctrl+C and Ctrl+Z are for what runs in front; this one has to clean up
    before = untouched.look(top)
    screen = Screen()
    rehearsed = _rehearsed(play, top, screen)
    changed = untouched.differences(before, untouched.look(top), top)
    for check in changed:
        screen.complain(f"ralph: {check.said}")
    screen.close()
    if (number := signals.interrupted()) is not None:
        signals.die_by(number)
    return _close(replace(rehearsed, found=[*rehearsed.found, *changed]), screen)


def _top(folder: Path) -> Path:
    """The top of the working tree as git knows it, also where the environment tells git; else the folder."""
    with contextlib.suppress(OSError):
        done = call(["git", "rev-parse", "--show-toplevel"], timeout_s=_GIT_S)
        top = Path(os.fsdecode(done.stdout.rstrip(b"\n")))
        if done.code == 0 and folder.is_relative_to(top):
            return top
    return lock.working_tree(folder)


def _rehearsed(play: Script, top: Path, screen: Screen) -> Rehearsed:
    """What came of it; the copy is gone by then."""
    with stage.throwaway() as name:
        here = Stage(folder=Path(name).resolve(), original=top)
        if here.folder.is_relative_to(top):
            raise RalphError(f"{here.folder.parent} is inside of {top}; set TMPDIR to a folder outside of it", 1)
        mark = f"rehearsal-{secrets.token_hex(4)}"
        with _kept(here.folder, mark) as keeper:
            screen.open()  # the first thread
            return Performance(play=play, stage=here, screen=screen, keeper=keeper, mark=mark).run()


@contextlib.contextmanager
def _kept(folder: Path, mark: str) -> Iterator[Keeper]:
    """A keeper that removes the folder if this process is killed, after all that ran for it in this terminal."""

    def clear_up() -> None:
        end_strays(mark, Patience())
        _remove(folder)

    os.environ[MARK] = ":".join(filter(None, (os.environ.get(MARK), mark)))
    keeper = Keeper(mark, Patience(), folder / "keeper.txt", at_last=clear_up)
    try:
        yield keeper
    finally:
        keeper.dismiss()


def _remove(folder: Path) -> None:
    """With the folders in it that are read-only, as a cache of modules may be."""
    for place, names, _ in os.walk(folder):
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _close(rehearsed: Rehearsed, screen: Screen) -> int:
    for number, (heading, lines) in enumerate(closing.sections(rehearsed).items()):
        if number:
            screen.agent("")
        screen.say(heading)
        for line in lines:
            screen.agent(line)
    screen.close()
    return 1 if rehearsed.wrong else 0
