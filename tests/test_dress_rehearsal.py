"""The dress rehearsal of a person's own plan: what it shows, and that nothing of theirs is touched."""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from http_server import Answer, Server
from ralph_driver import Project, Run, alive, eventually, progress_text

from ralph.journal import Record
from ralph.rehearsal import closing, untouched
from ralph.rehearsal.closing import Rehearsed, Take
from ralph.rehearsal.marked import Told

PATIENCE_S = 60
WRONG, LOOK = "WHAT WOULD HAVE GONE WRONG", "WORTH A LOOK"
NOTHING = "  nothing that a rehearsal can show"
Found = dict[str, tuple[int, bytes]]


def rehearse(project: Project, *words: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()) -> Run:
    env = {"IS_SANDBOX": "1", **(env or {})}  # the tests may be root's
    words = ("rehearse", *(words or ("feature.md", "9")))
    return project.ralph(*words, env=env, prefix=prefix, timeout_s=PATIENCE_S)


def everything_in(folder: Path) -> Found:
    """Names, modes and contents of all there is, what git keeps included."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (kind, data)
    return found


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def litter(project: Project) -> list[str]:
    return names_in(Path(project.env["TMPDIR"]))


def section(run: Run, name: str) -> list[str]:
    """The lines below a heading of the closing."""
    assert name in run.stdout.splitlines(), run.text
    return run.stdout.partition(f"\n{name}\n")[2].partition("\n\n")[0].splitlines()


def hook(project: Project, name: str, script: str) -> None:
    path = project.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# A plan that would go well.


def test_it_plans_builds_verifies_and_tells_without_a_trace(project: Project) -> None:
    """With settings that only the real agent understands, a monitor that must not hear of it, and no terminal."""
    (project.root / "feature.md").write_text("# F\n\nRALPH_MODEL: opus\nRALPH_MAX_COST: 5\n\n- one\n- two\n")
    project.git("commit", "-qam", "plan")
    with Server() as server:
        urls = {"SLACK_WEBHOOK": server.url("/slack"), "HEARTBEAT": server.url("/monitor")}
        (project.home / ".ralph.env").write_text("".join(f"RALPH_{name}_URL={url}\n" for name, url in urls.items()))
        (project.home / ".ralph.env").chmod(0o600)
        before = everything_in(project.root.parent)
        monitor = ("--heartbeat-url", urls["HEARTBEAT"])
        run = rehearse(
            project, "feature.md", *monitor, "--verify", "git log -1 && ls", "--effort=high", "--", "--debug"
        )
        received = server.received
    assert (run.code, run.stderr) == (0, ""), run.text
    assert section(run, WRONG) == [NOTHING]
    assert LOOK not in run.stdout
    assert "on the untouched copy, the verify command passes" in run.stdout
    shown = [line for line in run.stdout.splitlines() if line.startswith("$ ")]
    assert shown[1:] == [
        f"$ ralph feature.md {mode} --verify 'git log -1 && ls' --heartbeat-url ***/*** --effort high -- --debug"
        for mode in ("plan", "build")
    ]
    assert "ralph: verified in 0s" in run.stdout
    assert "pays" not in run.stdout
    assert section(run, "WHAT WOULD HAVE HAPPENED") == [
        "  `ralph feature.md plan`: exit code 0 · planned · 2 tasks",
        "  `ralph feature.md build`: exit code 0 · done · 2 of 2 tasks · 2 iterations · 2 commits",
        "  from cron: it is done; each later start ends at once with exit code 0",
        "  slack is told: Ralph Started (2 times), Ralph Planning Complete!, Ralph Progress, Ralph Complete!",
    ]
    assert {one.path for one in received} == {"/slack"}
    assert all("*Rehearsal: Ralph " in json.loads(one.body)["text"] for one in received)
    same_but_outputs(project, before)
    assert not litter(project)
    assert not list(project.state.iterdir())


def same_but_outputs(project: Project, before: Found) -> None:
    now = everything_in(project.root.parent)
    assert {name for name in before | now if before.get(name) != now.get(name)} <= {
        f"outputs/{name}" for name in names_in(project.outputs)
    }


def with_all_kinds_of_changes(project: Project) -> Path:
    """And with a pipe, from which nobody should read, and a file of the stand-in's name."""
    for name in ("staged", "unstaged", "stashed"):
        (project.root / name).write_text("old")
    (project.root / ".gitignore").write_text("ignored\n*.md\n")
    project.git("add", "-f", ".")
    project.git("commit", "-qm", "more")
    (project.root / "stashed").write_text("new")
    project.git("stash")
    for name in ("staged", "unstaged", "untracked", "ignored", "standin"):
        (project.root / name).write_text("new")
    project.git("add", "staged")
    os.mkfifo(project.root / "pipe")
    return project.root / "feature.md"


def where_the_person_has_another_name(project: Project) -> Path:
    """git knows who they are by the place of the repository; its hooks mend, and are strict about space and words."""
    hook(project, "pre-commit", 'mkdir "$GIT_DIR/mended" || exec git diff-index --check --cached HEAD --; exit 1')
    hook(project, "commit-msg", 'grep -Eqx "(chore|feat|fix): [a-z].{1,70}" "$1"')
    work = project.home / "work"
    (project.home / ".gitconfig").rename(work)
    (project.home / ".gitconfig").write_text(
        f'[user]\n\tuseConfigOnly = true\n[includeIf "gitdir:{project.root}/"]\n\tpath = {work}\n'
    )
    return project.root / "feature.md"


def in_a_linked_working_tree(project: Project) -> Path:
    project.git("worktree", "add", "-q", "../linked")
    return project.root.parent / "linked" / "feature.md"


def in_a_folder_of_the_tree_and_called_like_a_verb(project: Project) -> Path:
    (project.root / "sub").mkdir()
    return (project.root / "feature.md").rename(project.root / "sub" / "status")


def in_a_submodule(project: Project) -> Path:
    outer = project.root.parent / "outer"
    shutil.copytree(project.root, outer)
    add = ["git", "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project.root), "sub"]
    subprocess.run(add, cwd=outer, env=project.env, check=True, capture_output=True)
    return outer / "sub" / "feature.md"


def around_a_submodule(project: Project) -> Path:
    return in_a_submodule(project).parents[1] / "feature.md"


def without_git(project: Project) -> Path:
    shutil.rmtree(project.root / ".git")
    return (project.root / "feature.md").rename(project.root / "-p.md")


def told_by_the_environment(project: Project) -> Path:
    """Where the repository is, where the progress file and programs; and the verify command names it all in full."""
    (project.root / ".gitignore").write_text("ran\nbuild\n")
    for folder in ("bin", "build"):
        (project.root / folder).mkdir()
    (project.root / "bin" / "check").write_text('#!/bin/sh\necho ran > "${0%/*}/ran"\n')
    (project.root / "bin" / "check").chmod(0o755)
    project.env["PATH"] = f"{project.root}/bin:{project.env['PATH']}"
    project.env["BUILD"] = str(project.root / "build")
    project.env["RALPH_VERIFY"] = f'check && cd "{project.root}" && echo > build/one && echo > $BUILD/two'
    (project.root / ".git").rename(project.root.parent / "elsewhere.git")
    project.env["GIT_DIR"] = str(project.root.parent / "elsewhere.git")
    elsewhere = project.root.parent / "elsewhere_PROGRESS.md"
    elsewhere.write_text(progress_text("one", plan=str(project.root / "feature")))
    project.env["RALPH_PROGRESS_FILE"] = "../elsewhere_PROGRESS.md"
    return project.root / "feature.md"


def with_objects_that_are_elsewhere(project: Project) -> Path:
    (project.root / ".git" / "objects").rename(project.root.parent / "objects")
    (project.root / ".git" / "objects").symlink_to("../../objects")
    (project.root / "feature.md").rename(project.root.parent / "plan")
    (project.root / "feature.md").symlink_to("../plan")
    return project.root / "feature.md"


def with_borrowed_objects_and_a_part_of_the_tree(project: Project) -> Path:
    """And with a server, which the verify command asks."""
    (project.root / "far").mkdir()
    (project.root / "far" / "file").write_text("")
    project.git("add", ".")
    project.git("commit", "-qm", "more")
    base = project.root.parent / "base"
    shutil.copytree(project.root / ".git", base)
    shutil.rmtree(project.root / ".git" / "objects")
    (project.root / ".git" / "objects" / "info").mkdir(parents=True)
    (project.root / ".git" / "objects" / "info" / "alternates").write_text("../../../base/objects\n")
    project.git("remote", "add", "origin", str(base))
    project.git("sparse-checkout", "set", "--cone")
    project.env["RALPH_VERIFY"] = "git fetch -q origin"
    return project.root / "feature.md"


def with_links_that_lead_back_and_out(project: Project) -> Path:
    """The plan and the progress file among them."""
    (project.root / "docs").mkdir()
    (project.root / "feature.md").rename(project.root / "docs" / "v2.md")
    (project.root / "feature.md").symlink_to("docs/v2.md")
    (project.root.parent / "real.md").write_text(progress_text("one"))
    project.progress.symlink_to("../real.md")
    (project.root.parent / "beside").write_text("beside")
    (project.root / "inside").write_text("inside")
    (project.root / "back").symlink_to(project.root / "inside")
    (project.root / "out").symlink_to("../beside")
    project.env["RALPH_VERIFY"] = 'test "$(cat out)" = beside && echo changed > back'
    return project.root / "feature.md"


@pytest.mark.parametrize(
    "arranged",
    [
        with_all_kinds_of_changes,
        where_the_person_has_another_name,
        in_a_linked_working_tree,
        in_a_folder_of_the_tree_and_called_like_a_verb,
        in_a_submodule,
        around_a_submodule,
        without_git,
        told_by_the_environment,
        with_objects_that_are_elsewhere,
        with_borrowed_objects_and_a_part_of_the_tree,
        with_links_that_lead_back_and_out,
    ],
)
def test_nothing_is_touched_wherever_it_lies(project: Project, arranged: Callable[[Project], Path]) -> None:
    plan = arranged(project)
    if not (file := plan.with_name(f"{plan.name.removesuffix('.md')}_PROGRESS.md")).exists():
        file.write_text(progress_text("one"))
    before = everything_in(project.root.parent)
    run = rehearse(project, f"./{plan.name}", "build", "--max-iterations", "3", "-C", str(plan.parent))
    assert run.code == 0, run.text
    assert section(run, WRONG) == [NOTHING]
    commits = 0 if arranged is without_git else 1
    assert f"1 of 1 tasks · 1 iteration · {commits} commit" in run.stdout
    same_but_outputs(project, before)
    assert not litter(project)


def test_a_mode_of_ones_own_with_its_own_settings(project: Project) -> None:
    own = project.root / ".ralph"
    own.mkdir()
    (own / "PROMPT_polish.md").write_text(
        "{#\nRALPH_MAX_TURNS: 5\nRALPH_MAX_ITERATIONS: 4\n#}\nPolish {{ PLAN_FILE }}\n"
    )
    project.has_tasks("one", "x two")
    run = rehearse(project, "feature.md", "polish")
    assert run.code == 0, run.text
    assert "  `ralph feature.md polish`: exit code 0 · done · 2 of 2 tasks · 1 iteration · 1 commit" in run.stdout
    assert "ralph feature.md plan" not in run.stdout


# What would go wrong.


def fails_in_a_hook(project: Project) -> None:
    hook(project, "pre-commit", "echo the tests fail >&2; exit 1")


def has_no_agent(project: Project) -> None:
    (project.root.parent / "bin" / "claude").unlink()


def is_nobody_nowhere_in_a_merge(project: Project) -> None:
    (project.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    (project.root / ".git" / "MERGE_HEAD").write_text(project.git("rev-parse", "HEAD"))
    project.env["XDG_STATE_HOME"] = str(project.root / "feature.md")


def is_blocked(project: Project) -> None:
    project.progress.write_text(progress_text("one", status="RALPH_BLOCKED: no key"))


def is_stopped(project: Project) -> None:
    project.progress.write_text(progress_text("one", status="RALPH_STOP"))


def reaches_out(project: Project) -> None:
    hook(project, "post-commit", f"echo new > {shlex.quote(str(project.root / 'feature.md'))}")


def is_fine(project: Project) -> None:
    del project


@pytest.mark.parametrize(
    ("so_that_it", "words", "says"),
    [
        pytest.param(
            fails_in_a_hook,
            ("--verify", "no-such"),
            ("run: `ralph feature.md build`: exit code 1: ", "the tests fail", "there is no such command"),
            id="a hook refuses commits, and there is no such verify command",
        ),
        pytest.param(
            has_no_agent,
            ("--verify", "echo RED; exit 3"),
            ("agent: claude is not on the PATH", "exited with 3\n      RED\n    RALPH_DONE will count only"),
            id="there is no agent, and verify is red",
        ),
        pytest.param(
            is_fine,
            ("--verify", "exec sleep 60", "--verify-timeout", "0.2", "--max-iterations", "1"),
            ("had not ended after 0s", "--verify-timeout"),
            id="verify hangs",
        ),
        pytest.param(is_fine, ("--verify", "! ls standin-*"), ("stand-in's work",), id="verify dislikes the work"),
        pytest.param(
            is_nobody_nowhere_in_a_merge,
            (),
            ("repository: git does not know who commits", "feature.md is no folder", "repository: a merge is not"),
            id="the doctor would say so",
        ),
        pytest.param(is_blocked, (), ("is blocked: no key: a start ends at once",), id="it is blocked"),
        pytest.param(is_stopped, (), ("is stopped: a start ends at once",), id="it is stopped"),
        pytest.param(reaches_out, (), ("as it was before the rehearsal: feature.md",), id="a hook reaches out"),
    ],
)
def test_what_would_go_wrong_is_said_with_a_remedy(
    project: Project, so_that_it: Callable[[Project], None], words: tuple[str, ...], says: tuple[str, ...]
) -> None:
    project.has_tasks("one", "two")
    so_that_it(project)
    run = rehearse(project, "feature.md", "--max-time", "1h", *words)
    assert run.code == 1, run.text
    wrong = "\n".join(section(run, WRONG))
    assert [words for words in says if words not in wrong] == [], run.text
    assert "Traceback" not in run.text
    assert "the record of this iteration" not in run.text, "it is removed"
    assert not litter(project)


def test_what_only_deserves_a_look_is_no_failure(project: Project, no_override: list[str]) -> None:
    project.has_tasks("x one", status="RALPH_DONE")
    (project.root / "mine").write_text("not committed")
    (project.root / "mine").chmod(0)
    run = rehearse(project, "feature.md", prefix=no_override)
    assert run.code == 0, run.text
    assert section(run, WRONG) == [NOTHING]
    look = "\n".join(section(run, LOOK))
    assert "settings: no limit" in look
    assert "repository: 1 uncommitted file: mine" in look
    assert "not in the copy: cannot open 'mine' for reading: Permission denied" in look
    assert "feature is done: a start ends at once" in look


def test_where_ralph_gave_up_a_person_who_looks_on_starts_it_anew(project: Project) -> None:
    project.has_tasks("one", status="RALPH_BLOCKED: ralph: three failures")
    run = project.ralph_tty("rehearse", "feature.md", "2", env={"IS_SANDBOX": "1"}, timeout_s=PATIENCE_S)
    assert run.code == 0, run.stdout
    assert NOTHING in run.stdout
    assert "1 of 1 tasks" in run.stdout


def test_what_changed_though_git_ignores_it_deserves_a_look(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does something else there meanwhile changes such files."""
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (project.root / ".gitignore").write_text("build\n")
    (project.root / "build").mkdir()
    before = untouched.look(project.root)
    (project.root / "build" / "out").write_text("")
    [check] = untouched.differences(before, untouched.look(project.root), project.root)
    assert check.level == "warning"
    assert "build/ (ignored by git)" in check.said


def test_a_channel_that_nothing_gets_through_to(project: Project) -> None:
    project.has_tasks("one")
    with Server(Answer(status=404, body="gone")) as server:
        run = rehearse(project, env={"RALPH_SLACK_WEBHOOK_URL": server.url("/secret-path")})
    assert run.code == 1, run.text
    assert section(run, WRONG) == [
        "  - notices: slack: not sent: Rehearsal: Ralph Started: HTTP 404 from 127.0.0.1: gone",
        "    mend its settings, and try them with ralph notify test",
    ]
    assert "slack is told: Ralph Started, Ralph Progress, Ralph Complete!, 3 of 3 did not get there" in run.stdout
    assert "secret-path" not in run.text


def test_a_hook_that_pushes_pushes_nothing(project: Project) -> None:
    """Nor does one that knows other names for the place, and settings by which git would go there."""
    bare = project.root.parent / "bare.git"
    project.git("clone", "-q", "--bare", ".", str(bare))
    project.git("remote", "add", "origin", str(bare))
    project.git("config", "remote.origin.pushurl", str(bare))
    project.git("fetch", "-q", "origin")
    project.git("config", "--global", f"url.{bare.parent}/.pushInsteadOf", "short:")
    project.git("config", "--global", "remote.other.url", str(bare))
    project.git("config", "--global", "remote.other.pushurl", str(bare))
    places = {"origin": "own", "other": "other", str(bare): "path", f"short:{bare.name}": "short"}
    pushes = "; ".join(f"git push {place} origin/main:refs/heads/{name}" for place, name in places.items())
    hook(project, "post-commit", f"{pushes}; git config --global alias.mine log")
    project.has_tasks("one")
    before, home = everything_in(bare), everything_in(project.home)
    run = rehearse(project)
    assert run.code == 0, run.text
    assert everything_in(bare) == before
    assert everything_in(project.home) == home
    project.git("commit", "-q", "--allow-empty", "-m", "for real")
    new = set(everything_in(bare)) - set(before)
    assert new == {f"refs/heads/{name}" for name in places.values()}, "the hook does push, where it is no rehearsal"


def test_a_setting_that_is_wrong_is_said_before_anything_is_copied(project: Project) -> None:
    run = rehearse(project, "feature.md", "--model", "opus", "--agent", "cat", "--max-iterations", "3")
    assert (run.code, run.stdout) == (2, "")
    assert "only claude understands this" in run.stderr


# Ends that nobody planned.


@pytest.mark.parametrize("how", ["Ctrl+C", "kill -9"])
def test_while_it_verifies_it_can_be_ended_and_leaves_nothing(
    project: Project, how: str, no_override: list[str]
) -> None:
    """Also where it made folders that are read-only."""
    project.has_tasks("one", "two")
    pid_file = project.root.parent / "pid"
    verify = f"mkdir -p mod/pkg; touch mod/pkg/file; chmod -R a-w mod; echo $$ > {pid_file}; exec sleep 1000"
    running = project.start_tty("rehearse", "feature.md", "--verify", verify, prefix=no_override)
    pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), PATIENCE_S))
    if how == "Ctrl+C":
        running.type("\x03")
    else:
        os.kill(running.pid, signal.SIGKILL)
    assert running.wait(PATIENCE_S).code == -(signal.SIGINT if how == "Ctrl+C" else signal.SIGKILL)
    eventually(lambda: not alive(pid) and not litter(project), PATIENCE_S)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_in_the_middle_of_a_run_it_can_be_ended_and_leaves_nothing(project: Project, which: signal.Signals) -> None:
    project.has_tasks(*(f"number {number}" for number in range(1, 10)))
    running = project.start_tty("rehearse", "feature.md")
    eventually(lambda: "▸ Write standin" in running.screen, PATIENCE_S)
    running.signal(which)
    run = running.wait(PATIENCE_S)
    assert run.code == -which, run.stdout
    assert WRONG not in run.stdout
    assert "Traceback" not in run.stdout
    assert "09-number-9" not in run.stdout, "it ended at once"
    assert "not as it was" not in run.stdout
    assert not litter(project)


def test_a_disk_without_room_is_said_before_anything_is_copied(project: Project) -> None:
    small = project.root.parent / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root, and not in every container, can mount a small disk")
    try:
        run = rehearse(project, env={"TMPDIR": str(small)})
        left = names_in(small)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
    assert run.code == 1, run.text
    assert "a copy of the repository takes " in run.stderr
    assert f"set TMPDIR to another folder than {small}" in run.stderr
    assert not left


def test_the_copy_is_not_made_within_the_original(project: Project) -> None:
    (project.root / "tmp").mkdir()
    run = rehearse(project, env={"TMPDIR": str(project.root / "tmp")})
    assert run.code == 1
    assert "set TMPDIR to a folder outside of it" in run.stderr
    assert not list((project.root / "tmp").iterdir())


def test_while_a_run_works_there_it_waits_its_turn(project: Project) -> None:
    fd = os.open(project.root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        run = project.ralph_tty("rehearse", "feature.md")
    finally:
        os.close(fd)
    assert run.code == 75
    assert "another run works in" in run.stdout


# The closing.


def ended(how: str, code: int, mode: str = "build") -> Rehearsed:
    """A rehearsal of one start that ended so."""
    run = None
    if how:
        run = Record(
            event="run", run="r", mode=mode, number=1, at=1.0, success=False, message="why", ended=how, done=1, total=2
        )
    take = Take(words=("ralph", "feature.md", mode), once=mode != "build", code=code, run=run)
    return Rehearsed(takes=[take], early=False, red=False, told=Told(sent=(), failed=()), channels=[], found=[])


@pytest.mark.parametrize(
    ("rehearsed", "says"),
    [
        pytest.param(ended("done", 0), "it is done; each later start ends at once with exit code 0", id="done"),
        pytest.param(ended("once", 0, "polish"), "each start does it anew", id="a mode that is one iteration"),
        pytest.param(ended("limit", 3), "the next start goes on with the tasks that are left", id="a limit"),
        pytest.param(
            ended("failures", 1),
            "after as many of these as --max-failures allows, RALPH_BLOCKED ends each start at once with exit code 4",
            id="failures, of which a rehearsal needs but one",
        ),
        pytest.param(ended("", 2), "each start ends like this", id="no iteration"),
    ],
)
def test_what_later_starts_would_do(rehearsed: Rehearsed, says: str) -> None:
    assert f"  from cron: {says}" in closing.sections(rehearsed)["WHAT WOULD HAVE HAPPENED"]


def test_a_limit_only_deserves_a_look() -> None:
    said = closing.sections(ended("limit", 3))
    assert said[WRONG] == [NOTHING]
    assert "1 of 2 tasks done" in said[LOOK][0]


def test_of_an_end_without_a_word_in_the_journal_it_says_once_where_to_look() -> None:
    said = closing.sections(ended("", 2))[WRONG]
    assert said == ["  - run: `ralph feature.md build`: exit code 2: it said why, above"]
