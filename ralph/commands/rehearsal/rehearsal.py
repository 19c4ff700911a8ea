"""The rehearsal: runs the real ralph with a fake agent, in a sample or in a copy, and reports the result.

It cannot show whether the real agent is logged in, or how well it works.
"""

import os
import re
import shlex
import site
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from ralph import files
from ralph.commands.rehearsal.standin import SAMPLE_BEGINS
from ralph.commands.run import find_start
from ralph.errors import RalphError
from ralph.git.changes import ChangeFinder, run_git
from ralph.process import lock, signals
from ralph.process.programs import run_in_front
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason
from ralph.settings.options import Invocation
from ralph.store import journal
from ralph.words import join_names, without_control_codes

_PYTHON = (sys.executable, "-P", "-m")
_INTRO = """Everything is real except the agent, a fake one: no key, no cost, and a throwaway
copy of {top}
(Whether the agent itself is there and logged in, ralph doctor says.)
"""
_SAMPLE_INTRO = """In a throwaway git repository ralph plans and builds a sample.
Everything is real except the agent, a fake one: no key, no network, no cost.
"""
_SAMPLE_OUTRO = """It works, and the repository is gone again. Your turn: write down in feature.md
what you want, then

  ralph feature.md plan
  ralph feature.md build --max-iterations 50"""
# Variables that would lead git back to the original.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")


def rehearse(asked: Invocation) -> int:
    """Shows what a run would do, and what would go wrong; returns 1 if something would, else 0.

    A run goes wrong if it ends other than with 0 or at a limit, or if the original repository changes. Raises
    RalphError if the settings are wrong, before anything is copied, or if no copy can be made.
    """
    signals.install_handlers()  # Ctrl+C and Ctrl+Z are for what runs in front; this one has to clean up
    is_sample = not asked.plan
    with tempfile.TemporaryDirectory(prefix="ralph-rehearsal-", ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        if is_sample:
            asked = asked._replace(plan="sample.md", verbose=True)
            _enter_sample(folder / "home" / "sample")
            if os.isatty(0):  # somebody watches
                (folder / "pauses").touch()
        command, happened, wrong = _rehearse_plan(asked, folder, is_sample=is_sample)
    if signals.interrupted():
        raise KeyboardInterrupt
    nothing = ["nothing, and your files are as they were"]
    for title, lines in (("WHAT HAPPENED", happened), ("WHAT WENT WRONG", wrong or nothing)):
        _say(title, bold=True)
        _say("  " + "\n  ".join(lines) + "\n")
    if wrong:
        return 1
    _say(_SAMPLE_OUTRO if is_sample else f"To run it for real, with the same options:\n\n  {command}")
    return 0


def _enter_sample(top: Path) -> None:
    """Makes the sample repository, changes to it, and drops the user's own settings. Raises RalphError if git fails."""
    for name in [*os.environ]:
        if name.startswith(("RALPH_", "GIT_", "XDG_")):
            del os.environ[name]
    os.environ |= {
        "PYTHONUSERBASE": site.getuserbase(),  # ralph itself may be there
        "HOME": str(top.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",  # where a python3 is
        "PAGER": "cat",
    }
    top.mkdir(parents=True)
    os.chdir(top)
    if run_in_front(["sh", "-c", SAMPLE_BEGINS]):
        raise RalphError("git does not work", 1, fix="install git, or fix it; a rehearsal commits for real")


def _rehearse_plan(asked: Invocation, folder: Path, *, is_sample: bool) -> tuple[str, list[str], list[str]]:
    """Rehearses in a copy; returns the last command, what happened and what went wrong, each in one line."""
    found, original = find_start(asked), lock.working_tree(Path.cwd())
    lock.acquire_lock(original)  # a run would change it meanwhile
    watched = ChangeFinder(original, ())
    watched.take_first_look()
    _say(_SAMPLE_INTRO if is_sample else _INTRO.format(top=original))
    plan, run_there = _copy_tree_with_fake_agent(found, original, folder)
    if is_sample:
        run_there("cat sample.md")
    last_mode, now = asked.mode or found.mode, found.progress_before
    is_planned = found.imported or now.tasks or now.done or found.settings.once
    quiet = () if asked.verbose else ("--quiet",)
    happened, wrong = list[str](), list[str]()
    for mode in [last_mode] if is_planned else ["plan", last_mode]:
        command = shlex.join(["ralph", asked.plan, mode])
        code = run_there(command, [*_PYTHON, "ralph", plan, mode, *quiet])
        happened.append(f"`{command}`: exit code {code}")
        for path in folder.glob("state/ralph/*/journal.jsonl"):
            last = journal.read(path)[-1]
            happened[-1] += f" · {last.summary} · {last.so_far}"
        if code not in (0, Reason.LIMIT.code):
            but = "the real agent would meet that too, unless a check failed because the fake one builds nothing"
            wrong.append(f"`{command}` exits with {code}; {but}")
        if code:
            break
    if is_sample:
        run_there("git log --oneline")
        run_there("cat sample_PROGRESS.md")
    if names := watched.take_changes()[1]:
        message = f"your repository is not as it was before the rehearsal: {join_names(names)}"
        wrong.append(f"{message}; if that was not you, a hook or the verify command reaches out of the copy")
    return command, happened, wrong


def _copy_tree_with_fake_agent(found: PreparedStart, original: Path, folder: Path) -> tuple[str, Callable[..., int]]:
    """Copies the tree, goes there, and makes the fake agent; returns the plan's name there, and what runs a command.

    What would lead that command to the original leads to the copy.
    """
    top = folder / "tree" / original.name  # the same name as the original, since notices show it
    _copy_whole_tree(original, top, folder)
    with_copied_paths = partial(re.sub, re.escape(str(original)) + r"(?![\w.-])", lambda _: str(top))
    plan, settings = with_copied_paths(found.asked.plan), found.settings
    here, file = (Path(with_copied_paths(os.path.realpath(path))) for path in (".", found.progress_path))
    if not file.is_relative_to(top):
        file = folder / file.name
    if text := files.read_text_or_empty(found.progress_path):  # the plan that it names is that of the copy
        files.replace_file(file, os.fsencode(with_copied_paths(text)))
    work = "commit" if settings.auto_commit and (top / ".git").exists() else "keep"
    if settings.once and found.asked.mode != "all":
        work = ""
    agent = folder / "claude"  # with the name of claude, which takes every setting
    words = [*_PYTHON, "ralph.commands.rehearsal.standin", work, plan, str(file), str(folder / "pauses")]
    agent.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    agent.chmod(0o700)
    env = {
        **{name: with_copied_paths(value) for name, value in os.environ.items() if name not in _ELSEWHERE},
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "push.recurseSubmodules",
        "GIT_CONFIG_VALUE_0": "nothing-is-pushed-in-a-rehearsal",  # git push fails over it
        "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": "*",
        **{one.variable: one.text for one in found.asked.given},
        "XDG_STATE_HOME": str(folder / "state"),
        "RALPH_REHEARSAL": "1",
        "RALPH_PROGRESS_FILE": os.path.relpath(file, here),
        "RALPH_AGENT": shlex.quote(str(agent)),
        "RALPH_DELAY": "0",
        "RALPH_MAX_FAILURES": "1",  # it would not do better the second time
        "RALPH_VERIFY": with_copied_paths(settings.verify or ""),
        "RALPH_WRAP": "env" * bool(settings.wrap),  # a sandbox does not know where the copy is
    }
    os.chdir(here)
    return plan, partial(_run_shown, env=env)


def _copy_whole_tree(original: Path, copy: Path, repository_parent: Path) -> None:
    """Copies the current working tree, including ignored files, and its repository, which may lie elsewhere."""
    _copy_folder(original, copy)
    git = copy / ".git"
    found = run_git("rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir").stdout
    if git.is_file() and found:  # of a linked working tree, or of a submodule
        common, own = map(Path, os.fsdecode(found).splitlines())
        repository = repository_parent / "repository"
        _copy_folder(common, repository)
        git.write_bytes(b"gitdir: " + os.fsencode(repository / own.relative_to(common)))
        git = repository
    config = partial(run_git, "config", "--file", str(git / "config"))
    config("--unset-all", "core.worktree")  # it is the original
    for key in ("user.name", "user.email"):  # which may depend on the original's path
        if who := run_git("config", key).stdout:
            config(key, os.fsdecode(who).rstrip("\n"))


def _copy_folder(folder: Path, copy: Path) -> None:
    """Copies what can be copied; cp names the rest."""
    copy.mkdir(parents=True)
    run_in_front(["cp", "-a", f"{folder}/.", f"{copy}/"])


def _say(text: str, *, bold: bool = False) -> None:
    click.secho(without_control_codes(text), bold=bold)


def _run_shown(shown: str, argv: Sequence[str] = (), *, env: Mapping[str, str]) -> int:
    """Prints a command and runs it, or `argv` in its place, in this terminal; returns its exit code."""
    _say(f"$ {shown}", bold=True)
    code = run_in_front(argv or shown.split(), env)
    _say("")
    return code
