"""`ralph doctor`: whether a run would find what it needs, subject by subject, with the remedy.

Changes nothing; when it is live, requests go out.
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
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from ralph import __version__, changes, channels, files, lock, options, progress, sources, taskjson
from ralph.agent import command as agent
from ralph.agent.stream import Stream
from ralph.agent.turn import Outcome
from ralph.channels import Notice
from ralph.channels.notices import oddities
from ralph.errors import RalphError
from ralph.judge import tasks as ticked
from ralph.look import plans
from ralph.options import Asked
from ralph.process import Ended, call
from ralph.progress.file import ProgressFile
from ralph.screen import Detail
from ralph.screen.text import attended, draws, is_terminal, terminal_size, wrapped
from ralph.settings import TABLE, Settings, Source
from ralph.start import Start, check_place, ends_at_once, find
from ralph.state import State
from ralph.words import counted, named, plain


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    level: str
    """`ok`; `warning`, which deserves a word; `bad`, which needs mending before a run."""
    said: str
    """What was found, without a secret."""
    fix: str = ""
    """What to do about it; what stands after a line end is a command, as it is."""
    subject: str = ""


ok, warning, bad = (partial(Check, level) for level in ("ok", "warning", "bad"))


def checks(asked: Asked, *, live: bool = False, without: Collection[str] = ()) -> Iterator[Check]:
    """All there is to say of a run that is asked for, but for the subjects `without`, each subject together.

    What fails does not hide the others.
    """
    settings, start = None, None
    with contextlib.suppress(RalphError, OSError):  # what is wrong with them is said below
        asked = replace(asked, plan=str(plans.find(asked.plan).path)) if asked.plan else asked
    with contextlib.suppress(RalphError, OSError):
        settings = sources.everywhere(asked.given, plans.directives(Path(asked.plan)), asked.mode)[0]
        start = find(asked) if asked.plan else None
    known, tree, hide = settings or Settings(), lock.working_tree(Path.cwd()), _hider()
    subjects = {
        "settings": _settings(asked),
        "plan": _plan(asked) if asked.plan and settings else iter(()),
        "agent": _agent(known, asked.agent_arguments, live=live),
        "rights": _rights(known, asked.agent_arguments),
        "repository": _repository(tree, known, start),
        "machine": _machine(),
        "notices": _notices(known, live=live),
        "cron": _cron(asked, settings, hide) if settings else iter(()),
    }
    for subject in (one for one in subjects if one not in without):
        for one in _guarded(subjects[subject]):
            yield replace(one, subject=subject, said=hide(one.said), fix=hide(one.fix))


def _guarded(found: Iterator[Check]) -> Iterator[Check]:
    try:
        yield from found
    except RalphError as error:
        yield from (bad(one.what, one.fix or "mend that") for one in error.problems)
    except OSError as error:
        yield bad(f"{error.filename}: {error.strerror}", "mend that")


def _settings(asked: Asked) -> Iterator[Check]:
    """What was said, and where; what ends a run."""
    found = sources.everywhere(asked.given, plans.directives(Path(asked.plan)), asked.mode)[0]
    agent.chosen(found, asked.agent_arguments)
    for setting in TABLE:
        if one := found.said.get(setting.field):
            yield ok(f"{setting.name} {' '.join(one.text.split())} ({one.where})")
    yield from (warning(one.what, one.fix) for one in found.remarks)
    if not any((found.max_iterations, found.max_time, found.max_cost, found.max_total_cost, found.once)):
        fix = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
        yield warning("no limit: nothing but done, failure or you ends a run", fix)
    word = _program(found.verify)
    if found.verify is None:
        yield ok("no verify command: done is what the agent and the task list say")
    elif word and call(["sh", "-c", f"command -v {word}"], timeout_s=5).code:
        fix = "install it, unless the plan asks for it; see --verify; without it no RALPH_DONE counts"
        yield (warning if "/" in word else bad)(f"verify: there is no program {word}", fix)


def _program(command: str | None) -> str:
    """The word that a shell command begins with; empty when only a shell could tell what that runs."""
    found = re.match(r"[\w.+~/-]+(?=[\s;]|$)", command or "")
    return found[0] if found else ""


def _plan(asked: Asked) -> Iterator[Check]:
    """Its prompt, its progress file, its tasks: what a start would say of them. Raises what it would raise."""
    start = find(asked)
    start.prompt()
    path, state = start.progress_path, State(start.name, start.progress_path)
    there = ProgressFile(path, state).exists()
    text = path.read_bytes() if there else b""
    now = progress.parse(text)
    check_place(start, now if there else None)
    yield ok(f"{path}: {ticked(now)}" if there else f"there is no {path} yet; the first start makes it")
    if died := state.died():
        yield ok(f"the last run died in iteration {died.iteration}; a start clears up after it first")
    fixes = {"fence": "close it", "size": "move old notes elsewhere"}
    yield from (warning(said, fixes[what]) for what, said in oddities(str(path), now).items())
    text = start.begun(text)
    if start.imported and (missing := taskjson.left_out(start.imported, text, path)):
        yield warning(*missing)
    if now.blocked_by_ralph and attended():
        yield warning(f"ralph gave up: {now.blocked}", "a start from a terminal tries again; from cron it ends at once")
    elif early := ends_at_once(start, progress.parse(text), state, text):
        yield (bad if early.exit_code else warning)(f"{early.what}: a start ends at once", early.fix)


_VERSION_S, _CALL_S = 30.0, 120.0


def _agent(settings: Settings, extra: Sequence[str], *, live: bool) -> Iterator[Check]:
    """Whether each is found, starts, and is logged in; and whether what it starts is wrapped."""
    for one in agent.chosen(settings, extra):
        agent.check_there([one], settings)
        program = one.command[0]
        where = f"{one.name} at {shutil.which(program)}"
        if settings.wrap:
            yield ok(f"{one.name} within {settings.wrap[0]}, where nobody can look for it")
        elif not one.doctor:
            yield ok(where)
        elif (done := call([program, "--version"], timeout_s=_VERSION_S)).code:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()[:200]
            yield bad(f"{where}: --version fails with {done.code}: {said}", "install it anew")
        else:
            yield ok(f"{where}, {done.stdout.decode(errors='replace').strip()[:200]}")
            yield _login(settings, one, live=live)


def _login(settings: Settings, one: agent.Agent, *, live: bool) -> Check:
    """Who pays; and what comes of a call, as a run would judge it."""
    name, about = one.name, one.doctor
    key = next((key for key in about.get("keys", ()) if os.environ.get(key)), None)
    pays = f"{key} is set, and pays" if key else f"no key in the environment, so that {name}'s own login pays"
    env = {**agent.environment(os.environ, run="doctor", tmux=Path(os.devnull)), **one.env}
    if not live:
        if not key and "login" in about and call([one.command[0], *about["login"]], timeout_s=_VERSION_S, env=env).code:
            return bad(f"{name}: nobody is logged in", about["login_fix"])
        return ok(f"login not tried, --live does; {pays}")
    model = settings.model or about.get("trial_model")
    words = [word.replace("{}", model) for word in one.flags.get("model", ())] if model else []
    argv = [*one.command, *about.get("trial", one.run), *words, *one.arguments]
    env = {**about.get("trial_env", {}), **env, "MAX_THINKING_TOKENS": "0"}
    done = call(argv, timeout_s=_CALL_S, env=env, stdin=b"Say ok.")
    if done.timed_out:
        return bad(f"{name} gave no answer within two minutes", "is the network there?")
    stream = Stream(lambda _event: None, lambda _line: None, errors=one.errors)
    stream.sees(done.stdout)
    stream.complains(done.stderr)
    turn = stream.turn(Ended(code=done.code), took_s=0, now=0)
    if turn.outcome is Outcome.OK:
        cost = "" if turn.cost_usd is None else f", for ${turn.cost_usd:.4f}"
        return ok(f"{name} answered{cost}; {pays}")
    why = f"{turn.said or turn.why if turn.fix else turn.why} ({pays})"
    if turn.outcome in (Outcome.TROUBLE, Outcome.LIMIT):
        return warning(why, turn.fix or "a run waits, or tries again later")
    for_cron = f"; {about['login_for_cron']}" if "login_for_cron" in about else ""
    return bad(why, (turn.fix or f"start {name} here, and see") + for_cron * ("log in" in turn.fix))


def _rights(settings: Settings, extra: Sequence[str]) -> Iterator[Check]:
    """Whether it runs for root, and what it would run without asking."""
    first, *_ = agent.chosen(settings, extra)
    about = first.doctor
    yield ok(f"wrapped in {settings.wrap[0]}" if settings.wrap else "not wrapped: the agent can do all that you can")
    sandbox = about.get("sandbox")
    if sandbox and os.geteuid():
        yield ok("you are not root")
    elif sandbox and os.environ.get(sandbox) == "1":
        yield ok(f"root, and {first.name} is told by {sandbox} that this is a sandbox")
    elif sandbox:
        fix = f"use an account of its own, or in a container (in the crontab too):\nexport {sandbox}=1"
        yield bad(f"you are root, and {first.name} refuses to run without asking for root", fix)
    if not {*about.get("loads_not", ())}.isdisjoint(word.split("=")[0] for word in (*first.command, *extra)):
        return
    for path in (path for path in map(Path, about.get("loads", ())) if path.exists()):
        found = {}
        with contextlib.suppress(ValueError, TypeError):  # it is ignored then
            found = dict(json.loads(path.read_bytes()))
        if does := [f"its {key}" for key in about["takes_effect"] if found.get(key)]:
            fix = "read it: whoever can commit here can write it; "
            fix += "`-- --setting-sources user --strict-mcp-config` leaves it out"
            yield warning(f"{path}: {', '.join(does)} take effect with your rights, without asking", fix)


_INTRODUCE = 'tell it:\ngit config --global user.name "You"\ngit config --global user.email you@example.org'


def _repository(tree: Path, settings: Settings, start: Start | None) -> Iterator[Check]:
    """Whether the agent can commit there, and what else it would commit."""
    if shutil.which("git") is None:
        yield bad("git is not on the PATH", "install git")
        return
    if not (tree / ".git").exists():
        said = f"{tree} is no repository: nothing can be committed, or undone"
        yield warning(said, "git init, and commit what is there")
        return
    if (done := changes.git("rev-parse", "--show-toplevel", cwd=tree)).code:
        yield bad(f"{tree}: {changes.complaint(done)}", "mend what git complains about")
        return
    if any(changes.git("var", name, cwd=tree).code for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")):
        said = "git does not know who commits here, so that commits fail"
        yield (bad if settings.auto_commit else warning)(said, _INTRODUCE)
    else:
        who = changes.git("var", "GIT_AUTHOR_IDENT", cwd=tree).stdout.decode(errors="replace")
        yield ok(f"commits are by {who.rpartition('>')[0]}>")
    for left in changes.locks(tree):
        yield bad(f"{left} is there: a git works here, or one that was killed left it", f"remove it:\nrm {left}")
    own = {os.path.relpath(os.path.realpath(one), os.path.realpath(tree)) for one in (start.own if start else ())}
    now = changes.tree(tree)
    if uncommitted := sorted(set(now.files if now else ()) - own):
        said = f"{counted(len(uncommitted), 'uncommitted file')}: {named(uncommitted, 3)}"
        yield warning(said, "commit or stash first; the agent may change them, and commit them with its own")
    else:
        yield ok("everything is committed")


_LITTLE_BYTES = 1_000_000_000
"""A night of transcripts, builds and the agent's own notes; a part of the disk would be a lot on a large one."""
_NO_BYTES = 50_000_000


def _machine() -> Iterator[Check]:
    yield ok(f"ralph {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}")
    for path, fix in ((Path.cwd(), "make the folder writable"), (files.state_home(), "set XDG_STATE_HOME elsewhere")):
        place = next(one for one in (path, *path.parents) if os.path.lexists(one))
        if not os.access(place, os.W_OK):
            yield bad(f"{place} cannot be written to", fix)
        disk = os.statvfs(place)
        if (free := disk.f_bavail * disk.f_frsize) < _LITTLE_BYTES:
            said = f"{free / 1e6:.0f} MB free in {place}"
            yield (bad if free < _NO_BYTES else warning)(said, "free some space; who cannot write works for nothing")


_SET_UP = "ralph notify setup"
_HEARTBEAT = "RALPH_HEARTBEAT_URL"


def _notices(settings: Settings, *, live: bool) -> Iterator[Check]:
    """Who hears of a run."""
    values = sources.channel_values()
    ready = channels.configured(values)
    body = f"ralph doctor on {platform.node()} tries whether notices arrive. Nothing is running."
    for channel in ready:
        notice = Notice(event="test", title="Ralph Doctor", body=body)
        if why := channels.deliver(channel, notice, values) if live else "":
            yield bad(f"{channel.name}: not sent: {why}", _SET_UP)
        else:
            yield ok(f"{channel.name}: " + ("a notice was sent" if live else "not tried, --live does"))
    if not ready:
        yield warning("no channel is set up: nobody hears how a run ends", _SET_UP)
    if url := settings.heartbeat_url:
        if why := channels.fetch(url) if live else "":
            yield bad(f"heartbeat: {why}", "see --heartbeat-url")
        else:
            yield ok("heartbeat: the monitor was told" if live else "heartbeat: not tried, --live does")
    kept = {one.variable for one in sources.in_file(sources.home_file(), Source.HOME_FILE)[0]}
    names = {_HEARTBEAT}.union(*(channel.names for channel in ready))
    if lost := [name for name in sorted(names - kept) if os.environ.get(name)]:
        said = f"{' and '.join(lost)}: only in this environment, which cron does not have"
        yield warning(said, f"write that into {sources.home_file()}")


_CRONS_PATH = "/usr/bin:/bin"
"""What cron gives on Debian and its kin, on Fedora and on macOS, if the crontab says nothing."""


def _cron(asked: Asked, settings: Settings, hide: Callable[[str], str]) -> Iterator[Check]:
    """What it would not give to a run that finds it here, and the line for the crontab that does."""
    decided = [one for one in settings.said.values() if one.source is Source.ENVIRONMENT]
    given = {one.variable: one.text for one in decided if one.variable != _HEARTBEAT}  # which is not to be shown
    agents = agent.chosen(settings, asked.agent_arguments)
    given |= {name: "1" for one in agents if (name := one.doctor.get("sandbox")) and os.environ.get(name) == "1"}
    programs = [settings.wrap[0]] if settings.wrap else [one.command[0] for one in agents]
    needed = ("ralph", "git", *programs, _program(settings.verify) or "sh")
    lost = [one for one in needed if "/" not in one and not shutil.which(one, path=_CRONS_PATH)]
    lost += given
    if not lost:
        yield ok(f"what a run needs is there too, on the PATH {_CRONS_PATH}")
        return
    path = os.environ.get("PATH", _CRONS_PATH)
    given["PATH"] = path + ("" if shutil.which("ralph") else f":{Path(sys.argv[0]).absolute().parent}")
    words = [f"{name}={shlex.quote(hide(text))}" for name, text in given.items()]
    line = f"cd {shlex.quote(str(Path.cwd()))} && {' '.join(words)} "
    words = options.arguments(replace(asked, plan=asked.plan or "PLAN"))
    line += hide(shlex.join(["ralph", *map(hide, words)]))  # in words, as quotes within quotes confuse it
    line = line.replace("%", r"\%")  # a bare % ends a command there
    yield warning(f"cron, whose PATH is {_CRONS_PATH}, has no {' and no '.join(lost)}", f"in the crontab:\n{line}")


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


_LEVELS = {"ok": "\x1b[32m✓\x1b[0m ", "warning": "\x1b[33m!\x1b[0m ", "bad": "\x1b[31m✗\x1b[0m "}
"""From the best to the worst, as they are drawn."""
_WORDS = {"ok": "ok   ", "warning": "warn ", "bad": "BAD  "}
_SUBJECT_COLUMNS = 12
_NARROWEST = 20


def doctor(asked: Asked, *, live: bool, as_json: bool) -> int:
    """Looks at everything and says what it saw, what needs mending last; 1 when something does, else 0."""
    if live and not as_json:
        print("Asking claude and the channels, which can take a minute.", flush=True)
    seen = list(checks(asked, live=live))
    bad = dict.fromkeys(one.subject for one in seen if one.level == "bad")
    if as_json:
        print(json.dumps({"ok": not bad, "checks": [asdict(one) for one in seen]}))
        return 1 if bad else 0
    subjects = [list(its) for _, its in groupby(seen, lambda one: one.subject)]
    for its in sorted(subjects, key=lambda its: max(list(_LEVELS).index(one.level) for one in its)):
        wrong = [one for one in its if one.level != "ok"]
        good = [Check("ok", " · ".join(one.said for one in its), subject=its[0].subject)]
        for check in its if asked.detail is Detail.VERBOSE else wrong or good:
            _print(check)
    print(f"{counted(len(bad), 'thing')} to mend: {', '.join(bad)}." if bad else "A run would find what it needs.")
    return 1 if bad else 0


def _print(check: Check) -> None:
    """Its rows, and below them the remedy; a command stands on a line of its own, to be copied."""
    drawn = draws() and not os.environ.get("NO_COLOR")
    margin = " " * (_SUBJECT_COLUMNS + (2 if drawn else 5))
    room = max(_NARROWEST, terminal_size().columns - len(margin)) if is_terminal(1) else None
    remedy, _, commands = check.fix.partition("\n")
    rows = [*wrapped(" ".join(check.said.split()), room), *(wrapped(f"→ {remedy}", room) if remedy else ())]
    mark = _LEVELS[check.level] if drawn else _WORDS[check.level]
    print(f"{mark}{check.subject:{_SUBJECT_COLUMNS}}{rows[0]}")
    for row in rows[1:]:
        print(margin + row)
    for command in commands.splitlines():
        print(f"    {plain(command)}")
