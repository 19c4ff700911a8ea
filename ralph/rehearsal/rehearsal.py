"""The rehearsal: ralph started for real with a stand-in agent, in a sample or in a copy, and what came of it.

Nothing in the throwaway folder leads back to one's own repository. What a stand-in cannot show, it does not show:
whether the real agent is logged in, and how well it works.
"""

import os
import re
import shlex
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ralph import changes, channels, files, journal, lock, options, progress, sources, start
from ralph.agent import command as agent
from ralph.errors import RalphError
from ralph.look.checks import checks, hider
from ralph.look.standing import reason_of
from ralph.options import Asked
from ralph.process import MARK, call, foreground, signals
from ralph.rehearsal import sample
from ralph.screen import Detail
from ralph.screen.screen import Screen
from ralph.screen.text import wrapped
from ralph.start import Start
from ralph.state import State
from ralph.verdict import Reason
from ralph.words import counted, named

_PACE_S = 0.06
"""Seconds after each step of the sample's agent on a terminal, so that a person can follow."""
_GIT_S = 60.0
_ROOM_BYTES = 20_000_000
"""What a rehearsal takes besides the copy."""
_NO_PUSH = "nothing-is-pushed-in-a-rehearsal"
_EDGE = r"""\s:=,;"'`()&|<>"""
_INTRO = """All of it is real but the agent, a stand-in: no key, no cost, and a throwaway
copy of {top}
"""
_SAMPLE_INTRO = """In a throwaway git repository ralph plans and builds a sample.
All of it is real but the agent, a stand-in: no key, no network, no cost.
"""
_SAMPLE_OUTRO = """
It works, and the repository is gone again. Your turn: write down in feature.md
what you want, then

  ralph feature.md plan
  ralph feature.md build --max-iterations 50"""


class Finding(NamedTuple):
    """Something that would go wrong, or only deserves a look."""

    said: str
    fix: str
    wrong: bool = True


@dataclass
class Rehearsal:
    """What is rehearsed and where, and what came of it so far."""

    asked: Asked
    last: Start
    """What the start that was asked for finds."""
    original: Path
    """The top of the working tree, links followed."""
    folder: Path
    """The throwaway one."""
    screen: Screen
    pace_s: float
    red: bool = False
    """The verify command fails on the untouched copy, so that the starts are rehearsed without it."""
    code: int = 0
    """The last start's exit code."""
    happened: list[str] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)

    @property
    def top(self) -> Path:
        """The top of the copy, of the same name: notices show it, and neighbours may know it."""
        return self.folder / "tree" / (self.original.name or "root")

    def counterpart(self, path: Path) -> Path:
        """What `path` is in the copy; itself, links followed, where it lies outside of the working tree."""
        real = Path(os.path.realpath(path))
        return self.top / real.relative_to(self.original) if real.is_relative_to(self.original) else real

    def moved(self, text: str) -> str:
        """The text with the copy's path wherever it names the original, or something in it, by its full path."""
        shell = Path(os.environ.get("PWD", "/"))  # which may have come there by a link
        names = {self.original, *(place for place in (shell, *shell.parents) if place.resolve() == self.original)}
        paths = "|".join(re.escape(str(name)) for name in names if name.name)
        return re.sub(rf"(?<![^{_EDGE}])(?:{paths or '(?!)'})(?![^{_EDGE}/])", lambda _: str(self.top), text)

    def progress(self, found: Start) -> Path:
        """The progress file in the copy, beside it where it lies outside of the working tree."""
        there = self.counterpart(found.progress_path)
        return there if there.is_relative_to(self.top) else self.folder / there.name

    def environment(self) -> dict[str, str]:
        """The person's, but for what would lead back to the original, and for ralph's own state."""
        env = {name: self.moved(value) for name, value in os.environ.items() if name != "OLDPWD"}
        said = env.get("GIT_CONFIG_COUNT", "")
        first = int(said) if said.isdecimal() else 0
        own = {
            "push.recurseSubmodules": _NO_PUSH,  # git push fails over it, whatever else it is told
            "core.fsmonitor": "false",  # a process that would stay
            "safe.directory": "*",
        }
        for key in ("user.name", "user.email"):  # which may hold for the original's place alone
            if who := changes.git("config", key, cwd=self.original).stdout:
                own[key] = os.fsdecode(who).rstrip("\n")
        for number, (key, value) in enumerate(own.items(), first):
            env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
        return env | {
            "GIT_CONFIG_COUNT": str(first + len(own)),
            "GIT_CEILING_DIRECTORIES": str(self.top.parent),
            "PWD": str(self.counterpart(Path.cwd())),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "RALPH_REHEARSAL": "1",
        }


def rehearse(asked: Asked) -> int:
    """Shows what a start would do, and what would go wrong; 1 when something would, else 0.

    Wrong is whatever ends a start otherwise than with 0 or at a limit, a verify command that is red on the untouched
    copy, a notice that does not get through, what keeps the agent from working, and a repository that is not as it was.
    Raises RalphError where a start would, before anything is copied, and when no copy can be made.
    """
    signals.install()  # Ctrl+C and Ctrl+Z are for what runs in front; this one has to clean up
    with tempfile.TemporaryDirectory(prefix="ralph-rehearsal-", ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        for inner in ("home", "state", "tmp", "bin"):
            (folder / inner).mkdir()
        is_sample = not asked.plan
        if is_sample:
            asked = replace(asked, plan="sample.md", detail=Detail.VERBOSE)
            _make_sample(folder)
        this = _rehearsed(asked, folder, is_sample=is_sample)
    this.screen.close()
    if (number := signals.interrupted()) is not None:
        signals.die_by(number)
    return _close(this, is_sample=is_sample)


def _rehearsed(asked: Asked, folder: Path, *, is_sample: bool) -> Rehearsal:
    """All of it, up to the last start."""
    last, screen, top = _found(asked), Screen(), lock.working_tree(Path.cwd().resolve())
    this = Rehearsal(asked, last, top, folder, screen, _PACE_S if is_sample and screen.width else 0.0)
    screen.open()
    if holder := lock.holder(top):
        raise RalphError(f"another run works in {top}: {holder}", lock.LOCKED, fix="rehearse when it is over")
    text = last.progress_path.read_bytes() if last.progress_path.is_file() else b""
    now = progress.parse(text)
    is_planned = bool(last.settings.once or last.imported or now.tasks or now.done)
    this.found += [] if is_sample else _of_checks(asked, last, is_planned=is_planned)
    early = start.ends_at_once(last, now, State(last.name, last.progress_path), text)
    if early and (now.tasks or early.reason is not Reason.STUCK):  # else it is planned first
        why = start.told(last, now, early).what
        this.happened.append(f"{_name(asked)}: exit code {early.reason.code}, at once: {why}")
        return this
    before = _look(top)
    screen.agent(_SAMPLE_INTRO if is_sample else _INTRO.format(top=top))
    if is_sample:
        _show(this, "cat", "sample.md", top=top)
    _copy(this)
    _verify(this)
    if not is_planned:
        planning = replace(asked, mode="plan")
        _start(this, planning, _found(planning))
    _start(this, asked, last)
    if is_sample:
        _show(this, "git", "log", "--oneline", top=this.top)
        _show(this, "cat", "sample_PROGRESS.md", top=this.top)
    this.happened.append(f"from cron: {_from_cron(this)}")
    this.found += _changed(before, _look(top), top)
    return this


def _found(asked: Asked) -> Start:
    found = start.find(asked)
    found.prompt()
    agent.argv(found.settings, found.asked.agent_arguments)
    return found


def _name(asked: Asked) -> str:
    return f"`{shlex.join(['ralph', asked.plan, asked.mode])}`"


def _of_checks(asked: Asked, last: Start, *, is_planned: bool) -> list[Finding]:
    """What the doctor finds in the original; of a task list that is still to be planned it need not speak."""
    without = ("agent", "notices", "cron", *([] if is_planned else ["plan"]))
    seen = [one for one in checks(asked, without=without) if one.level != "ok"]
    found = [Finding(f"{one.subject}: {one.said}", one.fix, one.level == "bad") for one in seen]
    try:
        agent.check_there(last.settings.agent)
    except RalphError as error:
        found.append(Finding(f"agent: {error.what}", error.fix))
    return found


_Seen = tuple[changes.Tree | None, bytes]
"""The files of a working tree, and its branches and tags."""


def _look(top: Path) -> _Seen:
    return changes.tree(top), changes.git("for-each-ref", cwd=top).stdout


def _changed(before: _Seen, after: _Seen, top: Path) -> list[Finding]:
    """Whether the original is not as it was."""
    (was, branches), (now, others) = before, after
    found = changes.changed(was, now, top) if was and now else []
    found += ["branches and tags"] if branches != others else []
    fix = "if that was not you, a hook or the verify command reaches out of the copy: look what it does there"
    return [Finding(f"the repository is not as it was before the rehearsal: {named(found)}", fix)] if found else []


def _make_sample(folder: Path) -> None:
    """Makes it the working directory; what is the person's own in the environment does not count. Raises RalphError."""
    kept = ("GIT_EXEC_PATH", MARK)  # git may need the one; by the other an outer ralph knows what it started
    base, top = site.getuserbase(), folder / "home" / "sample"
    for name in [one for one in os.environ if one.startswith(("RALPH_", "GIT_", "XDG_")) and one not in kept]:
        del os.environ[name]
    os.environ.update(HOME=str(top.parent), GIT_CONFIG_NOSYSTEM="1", PYTHONUSERBASE=base)
    top.mkdir()
    for name, text in sample.FILES.items():
        (top / name).write_text(text, encoding="utf-8")
    for words in sample.BEGINS:
        if (done := changes.git(*words, cwd=top)).code:
            what = f"git {words[0]} does not work: {os.fsdecode(done.stderr).strip()}"
            raise RalphError(what, 1, fix="install git, or mend it; a rehearsal commits for real")
    os.chdir(top)


# The copy.


def _copy(this: Rehearsal) -> None:
    """Copies the working tree, the ignored included, and sees to it that nothing leads back. Raises RalphError."""
    if this.folder.is_relative_to(this.original):
        what = f"{this.folder.parent} is inside of {this.original}"
        raise RalphError(what, 1, fix="set TMPDIR to a folder outside of it")
    said = call(["du", "-sk", str(this.original)], timeout_s=_GIT_S).stdout.split()
    takes, free = int(said[0]) * 1024 if said else 0, shutil.disk_usage(this.folder).free
    if free < takes + _ROOM_BYTES:
        what = f"a copy of {this.original} takes {takes / 1e6:.0f} MB, and {this.folder.parent} has {free / 1e6:.0f}"
        raise RalphError(what, 1, fix="set TMPDIR to a folder with more room")
    lost = _copied(this.original, this.top)
    own = this.top / ".git"
    if own.is_file():  # a linked working tree: what all of them share, then what is this one's own
        own.unlink()
        for line in changes.git("rev-parse", "--git-common-dir", "--git-dir", cwd=this.original).stdout.splitlines():
            _copied(this.original / os.fsdecode(line), own)
        for note in ("commondir", "gitdir", "locked"):
            (own / note).unlink(missing_ok=True)
    if signals.interrupted() is not None:
        return
    shutil.rmtree(own / "worktrees", ignore_errors=True)
    _relink(this)
    _check_apart(this)
    if lost:
        fix = "what needs it, such as the verify command, may fail here only"
        this.found.append(Finding("not in the copy: " + named(lost), fix, wrong=False))
    if this.last.progress_path.is_file():  # also from outside; the plan that it names is that of the copy
        text = this.moved(os.fsdecode(this.last.progress_path.read_bytes()))
        files.replace(this.progress(this.last), os.fsencode(text))


def _copied(what: Path, to: Path) -> list[str]:
    """Copies all that is in a folder, without reading pipes; why not, for what was not copied.

    In the foreground, so that Ctrl+C ends it too.
    """
    to.mkdir(parents=True, exist_ok=True)
    why = to.parent / "not-copied"
    foreground(["cp", "-a", f"{what}/.", f"{to}/"], env={**os.environ, "LC_ALL": "C"}, cwd="/", errors=why)
    lines = why.read_text(errors="replace").splitlines()
    return [line.removeprefix("cp: ").replace(f"{what}/./", "") for line in lines]


def _relink(this: Rehearsal) -> None:
    """Points links of the copy that would lead back, or not where they did, to where they lead in the original."""
    for place, names, others in os.walk(this.top):
        for link in (path for name in (*names, *others) if (path := Path(place, name)).is_symlink()):
            target = link.readlink()
            to = Path(os.path.realpath(target) if target.is_absolute() else os.path.normpath(link.parent / target))
            if to.is_relative_to(this.original if target.is_absolute() else this.top) is target.is_absolute():
                to = this.counterpart(this.original / link.relative_to(this.top))
                link.unlink()
                link.symlink_to(to)


def _check_apart(this: Rehearsal) -> None:
    """Raises RalphError where git would find something of the original from within the copy, or could push."""
    env = this.environment()
    words = ("--show-toplevel", "--git-dir", "--git-common-dir", "--git-path", "index", "--git-path", "objects")
    found = changes.git("rev-parse", *words, cwd=this.top, env=env)
    if found.code and not (this.top / ".git").exists():
        return
    pushes = changes.git("config", "push.recurseSubmodules", cwd=this.top, env=env).stdout
    if found.code or _NO_PUSH.encode() not in pushes:
        why = os.fsdecode(found.stderr).strip() or "it is older than 2.31"
        raise RalphError(f"git does not work in a copy: {why}", 1, fix="rehearse in a clone, with a newer git")
    places = [Path(os.path.realpath(this.top / os.fsdecode(line))) for line in found.stdout.splitlines()]
    borrowed = [note for note in (places[-1] / "info" / "alternates",) if note.exists()]
    if shared := [*borrowed, *(place for place in places if not place.is_relative_to(this.top))]:
        what = f"a copy of {this.original} would share {shared[0]} with it"
        raise RalphError(what, 1, fix="rehearse in a clone: submodules, borrowed objects and GIT_DIR are not copied")


# What happens in it.


def _show(this: Rehearsal, *command: str, top: Path) -> None:
    if signals.interrupted() is None:
        this.screen.say(f"$ {shlex.join(command)}")
        this.screen.agent(os.fsdecode(call(command, timeout_s=_GIT_S, cwd=str(top)).stdout).rstrip() + "\n")


def _verify(this: Rehearsal) -> None:
    """Asks the verify command on the untouched copy, as a start does that finds RALPH_DONE."""
    settings = this.last.settings
    if not settings.verify or settings.once or signals.interrupted() is not None:
        return
    this.screen.say(f"$ {' '.join(settings.verify.split())}")
    file = this.folder / "verified_PROGRESS.md"
    text = progress.fresh(this.last.name, str(this.counterpart(this.last.plan)), "now")
    files.replace(file, progress.declared_done(progress.with_tasks(text, [b"- [x] Nothing"])))
    this.red = _ralph(this, this.asked, this.last, file, output=this.folder / "said") != 0
    if signals.interrupted() is not None:
        return
    this.screen.agent(f"on the untouched copy, it {'fails' if this.red else 'passes'}\n")
    if this.red:
        _, _, why = file.read_text(errors="replace").partition("because:")
        first, *told = re.findall("^(?:- |> (?!```))(.*)", why, re.MULTILINE) or _complaints(this)
        said = "\n".join([f"verify: on the untouched copy, {first}", *told[-3:]])
        this.found.append(Finding(said, "RALPH_DONE will count only once it passes; rehearsed without it"))


def _start(this: Rehearsal, asked: Asked, found: Start) -> None:
    """A real start of ralph in the copy and in this terminal, if those before it went well; and what came of it."""
    if this.code or signals.interrupted() is not None:
        return
    before = len(_runs(this))
    this.screen.say(f"$ {options.shown(asked, hider(asked.given))}")
    this.code = _ralph(this, asked, found, this.progress(found))
    for line in _complaints(this):
        this.screen.complain(line)
    this.screen.agent("")
    runs = _runs(this)[before:]
    outcome = _outcome(this.code, runs[-1] if runs else None)
    this.happened.append(
        f"{_name(asked)}: {outcome}" + " · if the verify command passed" * (this.red and not found.settings.once)
    )
    for line in {one.split(":")[1]: one for one in _complaints(this) if ": not sent: " in one}.values():
        said = f"notices: {line.removeprefix('ralph: ')}"
        this.found.append(Finding(said, "mend its settings, and try them with ralph notify test"))
    if this.code:
        is_limit = bool(runs and runs[-1].ended == "limit")
        why = (runs[-1].message if runs else "") or "it said why, above"
        fix = "allow it more, or let cron start it again" if is_limit else "mend it; the real agent would meet it too"
        this.found.append(Finding(f"run: {_name(asked)}: {outcome}: {why}", fix, wrong=not is_limit))


def _outcome(code: int, run: journal.Record | None) -> str:
    ended = f"exit code {code}" if code >= 0 else f"ended by {signals.name(-code)}"
    if run is None or (reason := reason_of(run)) is None:
        return f"{ended}, no iteration"
    if reason is Reason.ONCE:
        return f"{ended} · {'planned' if run.mode == 'plan' else 'done'} · {counted(run.total or 0, 'task')}"
    parts = [ended, reason.label, f"{run.done} of {counted(run.total or 0, 'task')}"]
    return " · ".join([*parts, counted(run.iterations, "iteration"), counted(run.commits, "commit")])


def _from_cron(this: Rehearsal) -> str:
    """What later starts of the same command do."""
    if this.red:
        return "each start goes on until the verify command passes"
    if this.code == 3:
        return "the next start goes on with the tasks that are left"
    if this.code:
        return "each start ends like this, until one gives up with RALPH_BLOCKED, which ends all later ones"
    return "each start does it anew" if this.last.settings.once else "it is done; each later start ends at once"


def _runs(this: Rehearsal) -> list[journal.Record]:
    """What the journal says of each start that began an iteration."""
    paths = this.folder.glob("state/ralph/*/journal.jsonl")
    return [record for path in paths for record in journal.read(path) if record.event == "run"]


def _ralph(this: Rehearsal, asked: Asked, found: Start, file: Path, output: Path | None = None) -> int:
    """Starts ralph for what was asked, with settings of the rehearsal's own behind it, which win; its exit code."""
    settings, plan = found.settings, Path(asked.plan)
    there = this.counterpart(plan.parent) / plan.name  # by the name that it was asked for by, also where it is a link's
    words = options.arguments(replace(asked, plan=str(there), agent_arguments=[]))
    words += ["--progress-file", str(file), "--agent", shlex.quote(str(_stand_in(this, there, found)))]
    words += ["--delay", f"{2 * this.pace_s}s", "--max-failures", "1"]  # it does not do better the second time
    if settings.prompts:
        words += ["--prompts", str(this.counterpart(settings.prompts))]
    if settings.verify:
        words += ["--verify", "true" if this.red else this.moved(settings.verify)]
    if settings.history:
        words += ["--history", str(this.top / settings.history.name)]
    if settings.only:
        words += ["--only", "**"]  # the stand-in does not know where it may write
    if asked.detail is not Detail.VERBOSE:
        words.append("--quiet")
    this.screen.close()  # what was said before comes before
    env, here = this.environment(), this.counterpart(Path.cwd())
    return foreground(
        [*_program("ralph"), *words], env=env, cwd=str(here), output=output, errors=this.folder / "complaints"
    )


def _complaints(this: Rehearsal) -> list[str]:
    return (this.folder / "complaints").read_text(encoding="utf-8", errors="replace").splitlines()


def _stand_in(this: Rehearsal, plan: Path, found: Start) -> Path:
    """A program that stands in for the agent; of its name, so that it gets the same arguments."""
    path = this.folder / "bin" / Path(found.settings.agent[0]).name
    mode = "plan" if found.settings.once else "build"
    commits = found.settings.auto_commit and (this.top / ".git").is_dir()
    words = [*_program("ralph.rehearsal.standin"), mode, str(plan), str(this.progress(found)), str(this.pace_s)]
    words += ["commit"] if commits else ["no-commit"]
    # it hears of Ctrl+C once it can do without a traceback
    path.write_text(f"#!/bin/sh\ntrap '' INT\nexec {shlex.join(words)}\n")
    path.chmod(0o700)
    return path


def _program(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]


# The closing.


def _close(this: Rehearsal, *, is_sample: bool) -> int:
    """Says what would have happened, and what would have gone wrong; the exit code."""
    wrong, look = ([one for one in this.found if one.wrong is wanted] for wanted in (True, False))
    _say(this, "WHAT WOULD HAVE HAPPENED", [("", line) for line in (*this.happened, _told())])
    this.screen.agent("")
    _say(this, "WHAT WOULD HAVE GONE WRONG", [*_listed(wrong)] or [("", "nothing that a rehearsal can show")])
    if look:
        this.screen.agent("")
        _say(this, "WORTH A LOOK", [*_listed(look)])
    if is_sample and not wrong:
        this.screen.agent(_SAMPLE_OUTRO)
    this.screen.close()
    return 1 if wrong else 0


def _say(this: Rehearsal, heading: str, lines: list[tuple[str, str]]) -> None:
    """Lines, each with what stands before it, below a heading; wrapped where there is an edge."""
    this.screen.say(heading)
    for lead, line in lines:
        for row in wrapped(line, this.screen.width and this.screen.width - len(lead) - 2):
            this.screen.agent(f"  {lead}{row}")
            lead = " " * len(lead)  # noqa: PLW2901 - below the first row


def _listed(found: list[Finding]) -> Iterator[tuple[str, str]]:
    for said, fix, _ in found:
        first, *more = said.splitlines()
        yield "- ", first
        yield from (("    ", line) for line in more)
        yield from (("  ", line) for line in fix.splitlines())


def _told() -> str:
    ready = channels.configured(channels.load(), sources.channel_values())
    names = ", ".join(channel.name for channel in ready)
    return (
        f"told, each time with “Rehearsal:” before it: {names}" if names else "nobody is told: see ralph notify setup"
    )
