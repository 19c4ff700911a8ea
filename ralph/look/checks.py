"""What a run needs, looked at subject by subject. Changes nothing; when it is live, requests go out."""

import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ralph import __version__, changes, channels, files, lock, options, progress, sources, taskjson, tasklist, tasks
from ralph.agent import command as agent
from ralph.agent.stream import Stream
from ralph.agent.turn import Outcome
from ralph.channels import Channel, Notice
from ralph.channels.dialects import filled
from ralph.channels.notices import oddities
from ralph.errors import RalphError
from ralph.judge import tasks as ticked
from ralph.look import plans
from ralph.options import Asked
from ralph.process import Ended, Finished, call
from ralph.progress.file import ProgressFile
from ralph.screen.text import attended
from ralph.settings import TABLE, Given, Settings, Source
from ralph.start import Start, check_place, ends_at_once, find, told
from ralph.state import State
from ralph.verdict import Reason
from ralph.words import counted, duration, named


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
    with contextlib.suppress(RalphError, OSError):
        asked = replace(asked, plan=str(plans.find(asked.plan).path)) if asked.plan else asked
    settings, start = None, None
    with contextlib.suppress(RalphError, OSError):  # what is wrong with them is said below
        settings = sources.everywhere(asked.given, _of_plan(asked), asked.mode)[0]
        start = find(asked) if asked.plan else None
    hide, tree = hider([*asked.given, *_of_plan(asked)]), lock.working_tree(Path.cwd())
    subjects = {
        "settings": _settings(asked),
        "plan": _plan(asked) if asked.plan and settings else iter(()),
        "agent": _agent(settings or Settings(), asked.agent_arguments, live=live),
        "rights": _rights(settings or Settings(), asked.agent_arguments),
        "repository": _repository(tree, settings or Settings(), start),
        "machine": _machine(tree),
        "notices": _notices(settings or Settings(), live=live),
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
    except Exception as error:  # noqa: BLE001 - what one check stumbles over must not hide what the others say
        said = f"cannot be looked at: {type(error).__name__}: {error}"
        yield bad(said, "see what that is; a run may stumble over it too")


def _of_plan(asked: Asked) -> Sequence[Given]:
    with contextlib.suppress(OSError):
        return sources.of_plan(Path(asked.plan).read_bytes(), Path(asked.plan).name) if asked.plan else ()
    return ()


# Settings: what was said, and where; what ends a run.


def _settings(asked: Asked) -> Iterator[Check]:
    found, _, _ = sources.everywhere(asked.given, _of_plan(asked), asked.mode)
    agent.argv(found, asked.agent_arguments)
    for setting in TABLE:
        if one := found.said.get(setting.field):
            yield ok(f"{setting.name} {' '.join(one.text.split())} ({one.where})")
    if not found.said:
        yield ok("nobody set any; see ralph help settings for what holds")
    yield from (warning(one.what, one.fix) for one in found.remarks)
    if not any((found.max_iterations, found.max_time, found.max_cost, found.max_total_cost, found.once)):
        fix = "set --max-iterations, --max-time or --max-cost, here or as lines RALPH_MAX_TIME: 8h in the plan"
        yield warning("no limit: nothing but done, failure or you ends a run", fix)
    if found.verify is None:
        yield ok("no verify command: done is what the agent and the task list say")
    else:
        yield from _verify(found.verify)


def _verify(command: str) -> Iterator[Check]:
    """What is wrong with the program that it begins with."""
    word = _first_word(command)
    if word is None or call(["sh", "-c", f"command -v {word}"], timeout_s=5).code == 0:
        return
    fix = "install it, unless the plan asks for it; see --verify; without it no RALPH_DONE counts"
    yield (warning if "/" in word else bad)(f"verify: there is no program {word}", fix)


def _first_word(command: str) -> str | None:
    """The program that a shell command begins with; None when only a shell could tell."""
    word = next((one for one in command.split() if not re.match(r"\w+=", one)), "").rstrip(";")
    return word if re.fullmatch(r"[\w.+~/@:][\w.+~/@:-]*", word) else None


# The plan: its prompt, its progress file, its tasks.


def _plan(asked: Asked) -> Iterator[Check]:
    start = find(asked)
    start.prompt()
    yield from _progress(start)
    yield from _tasks(start)


def _progress(start: Start) -> Iterator[Check]:
    path, state = start.progress_path, State(start.name, start.progress_path)
    yield from _writable(Path(os.path.realpath(path)).parent, "make the folder writable")
    if not ProgressFile(path, state).exists():
        check_place(start, None)
        yield ok(f"there is no {path} yet; the first start makes it")
        return
    text = path.read_bytes()
    now = progress.parse(text)
    check_place(start, now)
    yield ok(f"{path}: {ticked(now)}")
    if died := state.died():
        yield ok(f"the last run died in iteration {died.iteration}; a start clears up after it first")
    early = None
    with contextlib.suppress(RalphError):  # what is wrong with the tasks is said of them
        early = ends_at_once(start, now, state, text)
    if now.blocked_by_ralph and attended():
        yield warning(f"ralph gave up: {now.blocked}", "a start from a terminal tries again; from cron it ends at once")
    elif early and (early.reason is not Reason.STUCK or now.tasks):
        said, why = warning if early.reason is Reason.DONE else bad, told(start, now, early)
        yield said(f"{why.what}: a start ends at once", why.fix)
    fixes = {"fence": "close it", "size": "move old notes elsewhere"}
    yield from (warning(said, fixes[what]) for what, said in oddities(str(path), now).items())
    if not os.access(path, os.W_OK):
        yield bad(f"{path} is read-only; the agent could not tick its tasks", f"chmod u+w {path}")


def _tasks(start: Start) -> Iterator[Check]:
    """What a start would say of its task list, or of the one it would make of the plan. Raises what it would raise."""
    path = start.progress_path
    text = path.read_bytes() if path.is_file() else b""
    if start.imported and not progress.parse(text).tasks:
        text = progress.with_tasks(text, tasks.lines(start.imported.tasks))
    if start.strict and not progress.parse(text).done and not tasklist.check(text, path.name, start.settings):
        said = f"there is no task yet in {path}, and --strict works by them"
        yield bad(said, "write some, or let ralph PLAN plan --strict do it")
    if start.imported and (told := taskjson.left_out(start.imported, text, path)):
        yield warning(*told)


# The agent: found, not too old, logged in.

_OLD = (2, 1, 0)
_VERSION_S, _CALL_S = 30.0, 120.0
_PAYS = {
    "ANTHROPIC_API_KEY": "that key pays, and no subscription",
    "ANTHROPIC_AUTH_TOKEN": "that token pays",
    "CLAUDE_CODE_OAUTH_TOKEN": "the subscription behind it pays",
}
_CHEAP = (
    *("-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json", "--max-turns", "1"),
    *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
    *("--no-session-persistence", "--system-prompt", "Answer with one word."),
)
"""Measured: 1.5 kB go out, in place of 116; no hook runs, no server is started, no session is kept."""


def _agent(settings: Settings, extra: Sequence[str], *, live: bool) -> Iterator[Check]:
    agent.check_there(settings.agent)
    name = settings.agent[0]
    shown, where = name.rpartition("/")[2], f"at {shutil.which(name)}"
    if not agent.is_claude(settings.agent):
        yield ok(f"{shown} {where}")
        return
    try:
        done = call([name, "--version"], timeout_s=_VERSION_S)
    except OSError as error:
        raise RalphError(agent.why_not_started(settings.agent, error), fix="install it anew") from error
    words = (done.stdout + done.stderr).decode(errors="replace")
    version = re.search(r"(\d{1,4})\.(\d{1,4})\.(\d{1,6})", words)
    if done.timed_out or done.code:
        how = "did not end" if done.timed_out else f"failed with {done.code}: {words.strip()[:200]}"
        yield bad(f"{shown} {where}: --version {how}", "install it anew")
        return
    if version and tuple(map(int, version.groups())) >= _OLD:
        yield ok(f"{shown} {version[0]} {where}")
    else:
        said = f"{shown} {version[0]} {where} is old" if version else f"{shown} {where} says no version"
        yield warning(said, "claude update; one so old may not know the flags that ralph gives it")
    yield _login(settings, extra, live=live)


def _login(settings: Settings, extra: Sequence[str], *, live: bool) -> Check:
    key = next((name for name in _PAYS if os.environ.get(name)), None)
    pays = f"{key} is set, so {_PAYS[key]}" if key else "no key in the environment, so that claude's own login pays"
    if not live:
        return ok(f"login not tried, --live does; {pays}")
    argv = [*settings.agent, *_CHEAP, "--model", settings.model or "haiku", *extra]
    env = agent.environment(os.environ, run="doctor", tmux=Path(os.devnull))
    env |= {"MAX_THINKING_TOKENS": "0", "CLAUDE_CODE_MAX_RETRIES": env.get("CLAUDE_CODE_MAX_RETRIES", "1")}
    done = call(argv, timeout_s=_CALL_S, env=env, stdin=b"Say ok.")
    if done.timed_out:
        return bad(f"claude gave no answer within {duration(_CALL_S)}", "is the network there? see status.claude.com")
    return _answered(done, pays)


def _answered(done: Finished, pays: str) -> Check:
    """What came of the call, as a run would judge it."""
    stream = Stream(lambda _event: None, lambda _line: None)
    stream.sees(done.stdout)
    stream.complains(done.stderr)
    turn = stream.turn(Ended(code=done.code), took_s=0, now=0)
    if turn.outcome is Outcome.OK:
        return ok(f"claude answered, for ${turn.cost_usd or 0:.4f}; {pays}")
    why = f"{turn.said or turn.why if turn.fix else turn.why} ({pays})"
    if turn.outcome in (Outcome.TROUBLE, Outcome.LIMIT):
        return warning(why, turn.fix or "a run waits, or tries again later")
    for_cron = "; for cron `claude setup-token` makes a CLAUDE_CODE_OAUTH_TOKEN"
    return bad(why, (turn.fix or "start claude here, and see") + for_cron * ("log in" in turn.fix))


# Rights: whether claude runs for root, and what it would run without asking.

_SANDBOX = ("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP")
"""Names that tell claude that it is in a sandbox; only exactly 1 does."""
_LOADED = (".claude/settings.json", ".claude/settings.local.json", ".mcp.json")
"""Files of the project that claude loads."""
_NOT_LOADED = {"--setting-sources", "--strict-mcp-config", "--bare", "--safe-mode"}
"""The flags of who has thought of that."""


def _rights(settings: Settings, extra: Sequence[str]) -> Iterator[Check]:
    if not agent.is_claude(settings.agent):
        return
    if os.geteuid():
        yield ok("you are not root")
    elif sandbox := _sandbox():
        yield ok(f"root, and claude is told by {sandbox} that this is a sandbox")
    else:
        fix = "use an account of its own, or in a container (in the crontab too):\nexport IS_SANDBOX=1"
        yield bad("you are root, and claude refuses to run without asking for root", fix)
    if _NOT_LOADED.isdisjoint(word.split("=")[0] for word in (*settings.agent, *extra)):
        yield from (_loaded(path) for path in map(Path, _LOADED) if path.exists())


def _sandbox() -> str:
    """The file, or the name in the environment, that tells claude that it is in a sandbox."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    path = (Path(folder) if folder else Path.home() / ".claude") / "settings.json"
    with contextlib.suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        if json.loads(path.read_bytes())["env"]["IS_SANDBOX"] == "1":
            return str(path)
    return next((name for name in _SANDBOX if os.environ.get(name) == "1"), "")


def _loaded(path: Path) -> Check:
    """What a file of the project makes claude do without asking."""
    try:
        found = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return warning(f"{path} cannot be read, so that claude ignores it, what it forbids too", "mend it")
    hooks, servers = json.dumps(found.get("hooks")).count('"command":'), found.get("mcpServers") or ()
    does = [counted(len(servers), "server") + " of tools"] if servers else []
    does += [counted(hooks, "hook")] if hooks else []
    does += [f"its {key}" for key in ("apiKeyHelper", "env") if found.get(key)]
    if not does:
        return ok(f"{path}: nothing that runs without asking")
    fix = "read it: whoever can commit here can write it; `-- --setting-sources user --strict-mcp-config` leaves it out"
    return warning(f"{path}: {', '.join(does)} with your rights, without asking", fix)


# The repository: whether the agent can commit there, and what else it would commit.

_UNFINISHED = ("MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD")
_INTRODUCE = 'tell it:\ngit config --global user.name "You"\ngit config --global user.email you@example.org'


def _repository(tree: Path, settings: Settings, start: Start | None) -> Iterator[Check]:
    if holder := lock.holder(tree):
        yield bad(f"another run works in {tree}: {holder}", "let it end; a start would exit with 75")
    if shutil.which("git") is None:
        yield bad(f"git is not on the PATH, which is {os.environ.get('PATH', '(unset)')}", "install git")
        return
    if (done := changes.git("rev-parse", "--show-toplevel", cwd=tree)).code:
        said = done.stderr.decode(errors="replace").partition("\n")[0].removeprefix("fatal: ")
        if (tree / ".git").exists():
            yield bad(f"{tree}: {said or 'git fails'}", "mend what git complains about")
        else:
            said = f"{tree} is no repository: nothing can be committed, or undone"
            yield warning(said, "git init, and commit what is there")
        return
    if any(changes.git("var", name, cwd=tree).code for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")):
        said = "git does not know who commits here, so that commits fail"
        yield (bad if settings.auto_commit else warning)(said, _INTRODUCE)
    else:
        who = changes.git("var", "GIT_AUTHOR_IDENT", cwd=tree).stdout.decode(errors="replace").rpartition(" ")[0]
        yield ok(f"commits are by {who.rpartition(' ')[0]}")
    yield from _unfinished(tree)
    own = [os.path.relpath(os.path.realpath(one), os.path.realpath(tree)) for one in (start.own if start else ())]
    now = changes.tree(tree)
    uncommitted = sorted({*now.files}.difference(own)) if now else []
    if now is None:
        yield bad(f"{tree}: git does not say what is uncommitted", "try git status")
    elif uncommitted:
        said = f"{counted(len(uncommitted), 'uncommitted file')}: {named(uncommitted, 3)}"
        yield warning(said, "commit or stash first; the agent may change them, and commit them with its own")
    else:
        yield ok("everything is committed")


def _unfinished(tree: Path) -> Iterator[Check]:
    """What somebody began there and did not end."""
    if any((changes.git_folder(tree) / name).exists() for name in _UNFINISHED):
        said = "a merge, rebase, cherry-pick or revert is not finished, and commits would become part of it"
        yield bad(said, "git status says how to end it")
    for left in changes.locks(tree):
        yield bad(f"{left} is there: a git works here, or one that was killed left it", f"remove it:\nrm {left}")
    if changes.git("symbolic-ref", "-q", "HEAD", cwd=tree).code:
        yield warning("HEAD is on no branch, and so would the commits be", "git switch -c a-branch")


# The machine.

_LITTLE_BYTES = 1_000_000_000
"""A night of transcripts, builds and the agent's own notes; a part of the disk would be a lot on a large one."""
_NO_BYTES = 50_000_000


def _machine(tree: Path) -> Iterator[Check]:
    yield ok(f"ralph {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}")
    state = files.state_home()
    yield from _writable(state, "set XDG_STATE_HOME elsewhere")
    places = [next(place for place in (one, *one.parents) if os.path.lexists(place)) for one in (tree, state)]
    free, where = min((found.f_bavail * found.f_frsize, place) for place in places for found in [os.statvfs(place)])
    said = f"{free / 1e9:.1f} GB free" if free >= _LITTLE_BYTES else f"{free / 1e6:.0f} MB free in {where}"
    if free >= _LITTLE_BYTES:
        yield ok(said)
    else:
        yield (bad if free < _NO_BYTES else warning)(said, "free some space; who cannot write works for nothing")


def _writable(folder: Path, fix: str) -> Iterator[Check]:
    """Nothing when files can be made in the folder, or the folder itself."""
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(one))
    if not place.is_dir():
        yield bad(f"{place} is no folder", fix)
    elif not os.access(place, os.W_OK | os.X_OK):
        yield bad(f"{place} cannot be written to", fix)


# Notices: who hears of a run.

_SET_UP = "ralph notify setup"
_HEARTBEAT = "RALPH_HEARTBEAT_URL"


def _notices(settings: Settings, *, live: bool) -> Iterator[Check]:
    known, values = channels.load(), sources.channel_values()
    ready = channels.configured(known, values)
    with ThreadPoolExecutor() as pool:  # one that is dead takes its time
        yield from pool.map(lambda channel: _channel(channel, values, live=live), ready)
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


def _channel(channel: Channel, values: Mapping[str, str], *, live: bool) -> Check:
    body = f"ralph doctor on {platform.node()} tries whether notices arrive. Nothing is running."
    notice = Notice(event="test", title="Ralph Doctor", body=body)
    if live:
        why = channels.deliver(channel, notice, values)
        return bad(f"{channel.name}: not sent: {why}", _SET_UP) if why else ok(f"{channel.name}: a notice was sent")
    program = filled(channel.command[0], channel.settings(values) | notice.variables) if channel.command else ""
    if program and not shutil.which(os.path.expanduser(program)):  # noqa: PTH111 - a Path would turn ./notify into notify
        return bad(f"{channel.name}: {program} is not there, or not executable", _SET_UP)
    return ok(f"{channel.name} is set up; not tried, --live does")


# Cron: what it would not give to a run that finds it here, and the line for the crontab that does.

_CRONS_PATH = "/usr/bin:/bin"
"""What cron gives on Debian and its kin, on Fedora and on macOS, if the crontab says nothing."""


def _cron(asked: Asked, settings: Settings, hide: Callable[[str], str]) -> Iterator[Check]:
    decided = [one for one in settings.said.values() if one.source is Source.ENVIRONMENT]
    of_environment = {one.variable: one.text for one in decided if one.variable != _HEARTBEAT}  # no secret is shown
    verified_by = _first_word(settings.verify or "") or "sh"
    lost = [one for one in ("ralph", "git", settings.agent[0], verified_by) if not shutil.which(one, path=_CRONS_PATH)]
    needs_sandbox = agent.is_claude(settings.agent) and not os.geteuid()
    sandbox = [name for name in (_sandbox(),) if needs_sandbox and name in _SANDBOX]
    lost = [*(one for one in lost if "/" not in one), *of_environment, *sandbox]
    if not lost:
        yield ok(f"what a run needs is there too, on the PATH {_CRONS_PATH}")
        return
    command = options.shown(replace(asked, plan=asked.plan or "PLAN"), hide)
    path = os.environ.get("PATH", _CRONS_PATH)
    path += "" if shutil.which("ralph") else f":{Path(sys.argv[0]).absolute().parent}"
    given = of_environment | dict.fromkeys(sandbox, "1") | {"PATH": path}
    words = [f"{name}={shlex.quote(hide(text))}" for name, text in given.items()]
    line = f"cd {shlex.quote(str(Path.cwd()))} && {' '.join(words)} {command}"
    line = line.replace("%", r"\%")  # a bare % ends a command there
    yield warning(f"cron, whose PATH is {_CRONS_PATH}, has no {' and no '.join(lost)}", f"in the crontab:\n{line}")


# Secrets.

_KEYS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "_PAT")
_SAID = re.compile(
    r"""(?ix) ( (?:key|token|secret|password|passwd|_pat) =  # assigned
              | --[\w-]*(?:key|token|secret|password) [ ]    # an option
              | -(?:key|token): [ ]* | \bauthorization: [ ]* (?:(?:bearer|basic|token)[ ])?  # a header
              ) (?: "[^"]*" | '[^']*' | [^\s,)"']+ )"""
)
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
_SHORT = 4
"""What is so short is no secret, and would be found everywhere."""


def hider(given: Iterable[Given]) -> Callable[[str], str]:
    """What makes of a line one that shows no secret: none of the channels', no address, no key of the environment."""
    values = sources.channel_values()
    try:
        known = channels.load()
    except (RalphError, OSError):  # a file of the person's own is not right; a check says so
        known = channels.load([files.data("notify")])
    secret_names = {_HEARTBEAT}.union(*(channel.secret for channel in known))
    secrets = {values.get(name, "").strip() for name in secret_names}
    named_so = (value.strip() for name, value in os.environ.items() if name.upper().endswith(_KEYS))
    secrets |= {value for value in named_so if not value.startswith(("/", "~", "."))}  # a path is none
    secrets |= {one.text.strip() for one in given if one.variable == _HEARTBEAT}
    longer = [one for one in secrets if len(one) > _SHORT]
    return lambda line: _SAID.sub(r"\1***", channels.without_secrets(_ADDRESS.sub(r"\1/***", line), longer))
