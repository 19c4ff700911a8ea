"""`ralph doctor`: whether a run would find what it needs, subject by subject, with the remedy.

Changes nothing.
"""

import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ralph import __version__, changes, channels, files, lock, options, progress, sources, start
from ralph.agent import command as agent
from ralph.channels.notices import oddities
from ralph.errors import RalphError
from ralph.judge import tasks as ticked
from ralph.look import plans
from ralph.options import Asked
from ralph.process import call
from ralph.progress.file import ProgressFile
from ralph.screen.text import draws, hung
from ralph.settings import ON_COMMAND_LINE, Settings, Source
from ralph.state import State
from ralph.words import counted, named, plain


class Check(NamedTuple):
    """One thing that was looked at."""

    level: str
    """`ok`; `warning`, which deserves a word; `bad`, which needs mending before a run."""
    said: str
    """What was found, without a secret."""
    fix: str = ""
    """What to do about it; what stands after a line end is a command, as it is."""
    subject: str = ""


ok, warning, bad = (partial(Check, level) for level in ("ok", "warning", "bad"))


class _Doubt(NamedTuple):
    """What is looked at: a run that is asked for, and with what."""

    asked: Asked
    settings: Settings
    agents: Sequence[agent.Agent]
    hide: Callable[[str], str]
    """Makes of a line one that shows no secret."""


def checks(asked: Asked, without: Collection[str] = ()) -> Iterator[Check]:
    """All there is to say of a run that is asked for, but for the subjects `without`, each subject together.

    What fails does not hide the others, and is said once.
    """
    settings, agents, told = Settings(), list[agent.Agent](), set[str]()
    with contextlib.suppress(RalphError, OSError):  # what is wrong with them is said below
        asked = replace(asked, plan=str(plans.find(asked.plan).path)) if asked.plan else asked
        settings = _settings_of(asked)
        agents = agent.chosen(settings, asked.agent_arguments)
    doubt = _Doubt(asked, settings, agents, _hider())
    for look in _SUBJECTS:
        subject = look.__name__.removeprefix("_")
        for one in () if subject in without else _guarded(look(doubt)):
            said = doubt.hide(one.said)
            if said not in told:
                told.add(said)
                yield Check(one.level, said, doubt.hide(one.fix), subject)


def _guarded(found: Iterator[Check]) -> Iterator[Check]:
    try:
        yield from found
    except RalphError as error:
        yield from (bad(one.what, one.fix or "mend that") for one in error.problems)
    except OSError as error:
        yield bad(f"{error.filename}: {error.strerror}", "mend that")


def _settings_of(asked: Asked) -> Settings:
    return sources.everywhere(asked.given, plans.directives(Path(asked.plan)), asked.mode)


def _settings(doubt: _Doubt) -> Iterator[Check]:
    """What was said, and where; what ends a run."""
    found = _settings_of(doubt.asked)
    agent.chosen(found, doubt.asked.agent_arguments)
    for setting in ON_COMMAND_LINE:
        if one := found.said.get(setting.field):
            yield ok(f"{setting.name} {' '.join(one.text.split())} ({one.where})")
    yield from (warning(one.what, one.fix) for one in found.remarks)
    if not any((found.max_iterations, found.max_time, found.max_cost, found.max_total_cost, found.once)):
        fix = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
        yield warning("no limit: nothing but done, failure or you ends a run", fix)
    if not found.verify:
        yield ok("no verify command: done is what the agent and the task list say")


def _plan(doubt: _Doubt) -> Iterator[Check]:
    """Its prompt, its progress file, its tasks: what a start would say of them. Raises what it would raise."""
    if not doubt.asked.plan:
        return
    found = start.find(doubt.asked)
    found.prompt()
    path, state = found.progress_path, State(found.name, found.progress_path)
    there = ProgressFile(path, state).exists()
    text = path.read_bytes() if there else b""
    now = progress.parse(text)
    start.check_place(found, now if there else None)
    yield ok(f"{path}: {ticked(now)}" if there else f"there is no {path} yet; the first start makes it")
    yield from (warning(said, "mend it, as each iteration reads it") for said in oddities(str(path), now).values())
    text = found.begun(text)
    if early := start.ends_at_once(found, progress.parse(text), state, text):
        yield (bad if early.exit_code else warning)(f"{early.what}: a start ends at once", early.fix)


def _agent(doubt: _Doubt) -> Iterator[Check]:
    """Whether each is found, and whether what it starts is wrapped."""
    wrap = doubt.settings.wrap
    agent.check_there(doubt.agents, doubt.settings)
    for one in doubt.agents:
        where = f"within {wrap[0]}, where nobody can look for it" if wrap else f"at {shutil.which(one.command[0])}"
        yield ok(f"{one.name} {where}")


def _login(doubt: _Doubt) -> Iterator[Check]:
    """Whether each starts, and by its own word is logged in; and who pays."""
    for one in doubt.agents:
        about, program = one.doctor, one.command[0]
        if doubt.settings.wrap or not about or not shutil.which(program):
            continue
        env = {**agent.environment(os.environ, run="doctor", tmux=Path(os.devnull)), **one.env}
        done = call([program, "--version"], timeout_s=30, env=env)
        said = (done.stdout + done.stderr).decode(errors="replace").strip()[:200]
        yield bad(f"{one.name} --version fails: {said}", "install it anew") if done.code else ok(said)
        key = next((key for key in about.get("keys", ()) if os.environ.get(key)), None)
        if key:
            yield ok(f"{key} is set, and pays")
        elif "login" in about and call([program, *about["login"]], timeout_s=30, env=env).code:
            yield bad(f"{one.name}: nobody is logged in", about["login_fix"])
        else:
            yield ok(f"no key in the environment, so that {one.name}'s own login pays")


def _rights(doubt: _Doubt) -> Iterator[Check]:
    """Whether it runs for root, and what it would run without asking."""
    wrap = doubt.settings.wrap
    yield ok(f"wrapped in {wrap[0]}" if wrap else "not wrapped: the agent can do all that you can")
    for one in doubt.agents:
        sandbox = one.doctor.get("sandbox")
        if sandbox and os.environ.get(sandbox) == "1":
            yield ok(f"{one.name} is told by {sandbox} that this is a sandbox")
        elif sandbox and not os.geteuid():
            fix = f"use an account of its own, or in a container (in the crontab too):\nexport {sandbox}=1"
            yield bad(f"you are root, and {one.name} refuses to run without asking for root", fix)
        for path in one.doctor.get("loads", ()):
            with contextlib.suppress(OSError, ValueError, TypeError):  # it is ignored then
                found = dict(json.loads(Path(path).read_bytes()))
                if does := [f"its {key}" for key in one.doctor["takes_effect"] if found.get(key)]:
                    said = f"{path}: {', '.join(does)} take effect with your rights, without asking"
                    leave = "`-- --setting-sources user --strict-mcp-config` leaves it out"
                    yield warning(said, f"read it: whoever can commit here can write it; {leave}")


_INTRODUCE = 'tell it:\ngit config --global user.name "You"\ngit config --global user.email you@example.org'


def _repository(doubt: _Doubt) -> Iterator[Check]:
    """Whether the agent can commit there, and what else it would commit."""
    settings, tree = doubt.settings, lock.working_tree(Path.cwd())
    if not (tree / ".git").exists():
        yield warning(f"{tree} is no repository: nothing can be committed, or undone", "git init, and commit")
        return
    if (done := changes.git("rev-parse", "--show-toplevel", cwd=tree)).code:
        yield bad(f"{tree}: {changes.complaint(done)}", "mend what git complains about")
        return
    who = changes.git("var", "GIT_COMMITTER_IDENT", cwd=tree)
    if who.code:
        said = "git does not know who commits here, so that commits fail"
        yield (bad if settings.auto_commit else warning)(said, _INTRODUCE)
    else:
        yield ok(f"commits are by {who.stdout.decode(errors='replace').rpartition('>')[0]}>")
    for left in changes.locks(tree):
        yield bad(f"{left} is there: a git works here, or one that was killed left it", f"remove it:\nrm {left}")
    now, own = changes.tree(tree), (f"{settings.progress_file}", f"{settings.history}", "_PROGRESS.md")
    if names := sorted(name for name in (now.files if now else ()) if not name.endswith(own)):
        said = f"{counted(len(names), 'uncommitted file')}: {named(names, 3)}"
        yield warning(said, "commit or stash first; the agent may change them, and commit them with its own")
    else:
        yield ok("everything is committed")


_LITTLE_BYTES = 1_000_000_000
"""A night of transcripts, builds and the agent's own notes; a part of the disk would be a lot on a large one."""


def _machine(_doubt: _Doubt) -> Iterator[Check]:
    yield ok(f"ralph {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}")
    for path in (Path.cwd(), files.state_home()):
        place = next(one for one in (path, *path.parents) if os.path.lexists(one))
        if not os.access(place, os.W_OK):
            yield bad(f"{place} cannot be written to", "make it writable, or set XDG_STATE_HOME elsewhere")
        if (free := shutil.disk_usage(place).free) < _LITTLE_BYTES:
            yield warning(f"{free / 1e6:.0f} MB free in {place}", "free some space; who cannot write works for nothing")


_HEARTBEAT = "RALPH_HEARTBEAT_URL"


def _notices(_doubt: _Doubt) -> Iterator[Check]:
    """Who hears of a run."""
    ready = channels.configured(sources.channel_values())
    for channel in ready:
        yield ok(f"{channel.name}: set up, `ralph notify test` tries it")
    if all(channel.events for channel in ready):
        yield warning("no channel is set up: nobody hears how a run ends", "ralph notify setup")
    if lost := [name for channel in ready for name in channel.names if os.environ.get(name)]:
        said = f"{' and '.join(lost)}: from this environment, which cron does not have"
        yield warning(said, f"write that into {sources.home_file()}")


def _cron(doubt: _Doubt) -> Iterator[Check]:
    """The line for the crontab that gives a run what it finds here."""
    asked, hide = doubt.asked, doubt.hide
    if not asked.plan:
        return
    decided = [one for one in doubt.settings.said.values() if one.source is Source.ENVIRONMENT]
    given = {one.variable: one.text for one in decided if one.variable != _HEARTBEAT}  # which is not to be shown
    names = [*(one.doctor.get("sandbox", "") for one in doubt.agents), "PATH"]
    given |= {name: os.environ[name] for name in names if name in os.environ}
    if not shutil.which("ralph"):
        given["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{Path(sys.argv[0]).absolute().parent}"
    line = f"cd {shlex.quote(str(Path.cwd()))} && "
    line += "".join(f"{name}={shlex.quote(hide(text))} " for name, text in given.items())
    words = ["ralph", *options.arguments(asked)]
    line += hide(shlex.join(map(hide, words)))  # in words, as quotes within quotes confuse it
    yield ok(
        "this line of a crontab gives a run all that it finds here", "\n" + line.replace("%", r"\%")
    )  # % ends a command


_SUBJECTS = (_settings, _plan, _agent, _login, _rights, _repository, _machine, _notices, _cron)

_KEYS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "_PAT", "_URL")
_SAID = re.compile(
    r"""(?ix) ( (?: key | token | secret | password | _pat ) (?: = | : \s* )  # assigned, or a header's
              | --[\w-]* (?: key | token | secret | password ) \s  # an option's
              | \b authorization: \s* (?: (?: bearer | basic | token ) \s )? )
              (?: "[^"]*" | '[^']*' | [^\s,)"']+ )"""
)
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
_SHORT = 4
"""What is so short is no secret, and would be found everywhere."""


def _hider() -> Callable[[str], str]:
    """What makes of a line one that shows no secret: no address, no key of the environment or of the person's file."""
    known = {**sources.channel_values(), **os.environ}
    values = [value.strip() for name, value in known.items() if name.upper().endswith(_KEYS)]
    secrets = [one for one in values if len(one) > _SHORT and not one.startswith(("/", "~", "."))]  # a path is none
    return lambda line: _SAID.sub(r"\1***", channels.without_secrets(_ADDRESS.sub(r"\1/***", line), secrets))


_MARKS = {
    "ok": ("ok   ", "\x1b[32m✓\x1b[0m "),
    "warning": ("warn ", "\x1b[33m!\x1b[0m "),
    "bad": ("BAD  ", "\x1b[31m✗\x1b[0m "),
}
"""From the best to the worst: a word, and what is drawn."""


def doctor(asked: Asked, *, as_json: bool) -> int:
    """Looks at everything and says what it saw, what needs mending last; 1 when something does, else 0."""
    seen = list(checks(asked))
    wrong = dict.fromkeys(one.subject for one in seen if one.level == "bad")
    if as_json:
        print(json.dumps({"ok": not wrong, "checks": [one._asdict() for one in seen]}))
        return 1 if wrong else 0
    subjects, levels = [list(its) for _, its in groupby(seen, lambda one: one.subject)], list(_MARKS)
    for its in sorted(subjects, key=lambda its: max(levels.index(one.level) for one in its)):
        good = Check("ok", " · ".join(one.said for one in its), its[-1].fix, its[0].subject)
        for check in its if asked.verbose else [one for one in its if one.level != "ok"] or [good]:
            _print(check)
    print(
        f"{counted(len(wrong), 'thing')} to mend: {', '.join(wrong)}." if wrong else "A run would find what it needs."
    )
    return 1 if wrong else 0


def _print(check: Check) -> None:
    """Its rows, and below them the remedy; a command stands on a line of its own, to be copied."""
    drawn = draws() and not os.environ.get("NO_COLOR")
    margin = " " * (14 if drawn else 17)
    remedy, _, command = check.fix.partition("\n")
    rows = [*hung(margin, " ".join(check.said.split())), *(hung(margin, f"→ {remedy}") if remedy else ())]
    print(f"{_MARKS[check.level][drawn]}{check.subject:12}{rows[0].removeprefix(margin)}")
    for row in (*rows[1:], *(f"    {plain(line)}" for line in command.splitlines())):
        print(row)
