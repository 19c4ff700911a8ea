"""The rehearsal, of the sample as on a fresh machine and of one's own plan; and that nothing there is touched."""

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_server import Server
from ralph_driver import COMMAND, Project, Run, eventually, everything_in, executable, progress_text
from tmux import Tmux, lines_only

from ralph.commands.rehearsal.standin import SAMPLE_WORK

HAPPENED, WRONG = "WHAT HAPPENED", "WHAT WENT WRONG"
NOTHING = ["  nothing, and your files are as they were"]


def rehearse(project: Project, *words: str, **how: Any) -> Run:
    """Nothing is touched but what the driver writes, and nothing is left."""
    folders = (project.root.parent, Path(project.env["TMPDIR"]))
    before = everything_in(*folders)
    run = project.ralph("rehearse", *words, **how)
    now = everything_in(*folders)
    changed = [name for name in before | now if before.get(name) != now.get(name)]
    assert [name for name in changed if not name.startswith(str(project.outputs))] == []
    return run


def section(run: Run, name: str) -> list[str]:
    """The lines below a heading of the closing."""
    assert name in run.stdout.splitlines(), run.text
    return run.stdout.partition(f"{name}\n")[2].partition("\n\n")[0].splitlines()


def test_the_sample_is_planned_and_built_whatever_the_user_has_set(plain_project: Project) -> None:
    """In a home that would have every commit refused and somebody told. Nobody is, and nothing is left."""
    home = plain_project.home
    with Server() as server:
        settings = f'RALPH_SLACK_WEBHOOK_URL="{server.url("/file")}"\nRALPH_MAX_ITERATIONS=1\nRALPH_NONSENSE=1\n'
        (home / ".ralph.env").write_text(settings)
        executable(home / "hooks" / "pre-commit", "exit 1")
        config = f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n[core]\n\thooksPath = {home}/hooks\n"
        (home / ".gitconfig").write_text(config)
        folders = (plain_project.root.parent, Path(plain_project.env["TMPDIR"]))
        before = everything_in(*folders)
        env = {"RALPH_SLACK_WEBHOOK_URL": server.url("/environment"), "RALPH_AGENT": "false"}
        env |= {"RALPH_AUTO_COMMIT": "false", "XDG_STATE_HOME": str(home / "other")}
        env |= {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_TEMPLATE_DIR": "/nowhere"}
        terminal = plain_project.start_tty("rehearse", env=env)
        terminal.type("\n")  # no pauses
        run = terminal.wait()
        assert (run.code, server.received) == (0, []), run.stdout
    assert "\x1b[1m$ ralph sample.md plan\x1b[0m\n" in run.stdout
    lines = lines_only(run.stdout).splitlines()
    shown = ["cat sample.md", "ralph sample.md plan", "ralph sample.md build", "git log --oneline"]
    assert [line[2:] for line in lines if line.startswith("$ ")] == [*shown, "cat sample_PROGRESS.md"]
    assert [line[6:] for line in lines if line.startswith("- [x] ")] == list(SAMPLE_WORK)
    for number, task in enumerate(SAMPLE_WORK, 1):  # planning was the first iteration
        assert f" Task {number}: {task} " in " ".join(" ".join(lines).split())
        assert any(line.startswith(f"#{number + 1} · {number}/2 tasks (+1) · 1 commit") for line in lines)
    assert lines[-1] == "  ralph feature.md build --max-iterations 50"
    assert everything_in(*folders) == before


def test_at_a_terminal_it_takes_its_time_so_that_the_live_view_is_seen(tmux: Tmux) -> None:
    tmux.open()
    tmux.enter(f"{shlex.join(COMMAND)} rehearse")
    eventually(lambda: re.search(r"▸ Write greeting.py(.|\n)*task 1 of 2 · iteration 2 · _*\S+ · Write ", tmux.screen))
    assert tmux.exit_code() == 0, tmux.screen
    assert NOTHING[0] in tmux.screen
    assert "git add greeting.py" in tmux.screen
    assert "|| {" not in tmux.screen, "nobody types that"


def test_it_plans_builds_verifies_and_tells_without_a_trace(project: Project) -> None:
    """With settings that only the real agent understands, a monitor that must not hear of it, and no terminal."""
    (project.root / "feature.md").write_text("# F\n\nRALPH_MODEL: opus\nRALPH_MAX_COST: 5\n\n- one\n- two\n")
    project.git("commit", "-qam", "plan")
    with Server() as server:
        project.env["RALPH_SLACK_WEBHOOK_URL"] = server.url("/slack")
        more = ("--strict", "--roles", "test,build,review", "--max-iterations", "9", "--effort=high", "--", "--debug")
        verify = ("--heartbeat-url", server.url("/monitor"), "--verify", "git log -1 && ls")
        run = rehearse(project, "feature.md", *verify, *more)
        received = server.received
    assert (run.code, run.stderr, section(run, WRONG)) == (0, "", NOTHING), run.text
    assert "▸" not in run.stdout, "--verbose shows that"
    plans, builds = section(run, HAPPENED)
    assert plans.startswith("  `ralph feature.md plan`: exit code 0 · finished · 0/2 tasks · ")
    assert builds.startswith(
        "  `ralph feature.md build`: exit code 0 · done · 2/2 tasks · 2 iterations · 2 commits · "
    ), "of roles only build"
    assert ({one.path for one in received}, len(received) >= 4) == ({"/slack"}, True)
    assert all("*Rehearsal: Ralph " in json.loads(one.body)["text"] for one in received)
    del project.env["RALPH_SLACK_WEBHOOK_URL"]
    run = rehearse(project, "feature.md", "all", "--max-iterations", "9")
    (said,) = section(run, HAPPENED)
    assert said.startswith("  `ralph feature.md all`: exit code 0 · done · 2/2 tasks · 4 iterations · 2 commits")
    assert run.stdout.endswith("\nTo run it for real, with the same options:\n\n  ralph feature.md all\n")


def with_everything(project: Project) -> Path:
    """Changes of all kinds; a pipe, from which nobody should read; full paths that lead back.

    git knows the user by the place of the repository, and the plan is called like a verb.
    """
    root = project.root
    (root / ".gitignore").write_text("ignored\nran\n")
    for name in ("staged", "unstaged", "untracked", "ignored"):
        (root / name).write_text("new")
    project.git("add", ".gitignore", "staged")
    project.git("config", "core.worktree", str(root))
    os.mkfifo(root / "pipe")
    (root / "back").symlink_to("unstaged")
    executable(root / "bin" / "check", 'echo ran > "${0%/*}/ran"')
    project.env |= {"PATH": f"{root}/bin:{project.env['PATH']}", "BUILD": str(root / "build")}
    project.env["RALPH_VERIFY"] = f"check && cd '{root}' && echo changed > back && mkdir $BUILD"
    executable(root / ".git" / "hooks" / "pre-commit", "exec git diff-index --check --cached HEAD --")
    work = (project.home / ".gitconfig").rename(project.home / "work")
    where = f'[includeIf "gitdir:{root}/"]\n\tpath = {work}\n'
    (project.home / ".gitconfig").write_text(f"[user]\n\tuseConfigOnly = true\n{where}")
    (root / "sub").mkdir()
    return (root / "feature.md").rename(root / "sub" / "status")


def in_a_linked_working_tree(project: Project) -> Path:
    """Of a repository that has no other."""
    project.git("clone", "-q", "--bare", ".", "../bare.git")
    project.git("-C", "../bare.git", "worktree", "add", "-q", "../linked")
    return project.root.parent / "linked" / "feature.md"


def in_a_submodule(project: Project) -> Path:
    """Whose repository is in that of another, and names the folder that it is for."""
    outer = project.root.parent / "outer"
    shutil.copytree(project.root, outer)
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project.root), "sub"]
    project.git("-C", str(outer), *add)
    project.git("-C", str(outer / "sub"), "config", "user.name", "Of the submodule")
    return outer / "sub" / "feature.md"


def told_by_the_environment(project: Project) -> Path:
    """Which names the progress file, and the repository, without which the folder has none."""
    (project.root / ".git").rename(project.root.parent / "elsewhere.git")
    project.env["GIT_DIR"] = str(project.root.parent / "elsewhere.git")
    elsewhere = project.root.parent / "elsewhere_PROGRESS.md"
    elsewhere.write_text(progress_text("one", plan=str(project.root / "-p.md")))
    project.env["RALPH_PROGRESS_FILE"] = "../elsewhere_PROGRESS.md"
    return (project.root / "feature.md").rename(project.root / "-p.md")


@pytest.mark.parametrize(
    ("arranged", "commits"),
    [(with_everything, 1), (in_a_linked_working_tree, 1), (in_a_submodule, 1), (told_by_the_environment, 0)],
)
def test_nothing_is_touched_wherever_it_lies(
    project: Project, arranged: Callable[[Project], Path], commits: int
) -> None:
    plan = arranged(project)
    file = plan.with_name(f"{plan.name.removesuffix('.md')}_PROGRESS.md")
    file.write_text(progress_text("one"))
    run = rehearse(project, f"./{plan.name}", "build", "--max-iterations", "3", "-C", str(plan.parent))
    assert (run.code, section(run, WRONG)) == (0, NOTHING), run.text
    assert f"1/1 tasks · 1 iteration · {commits} commit" in section(run, HAPPENED)[0]


def test_a_hook_pushes_nothing_and_what_it_refuses_or_does_to_the_original_is_reported(
    project: Project, no_override: list[str]
) -> None:
    """Nor by the path of the place; a limit is nothing wrong, and what could not be copied is said."""
    bare = project.root.parent / "bare.git"
    project.git("clone", "-q", "--bare", ".", str(bare))
    project.git("remote", "add", "origin", str(bare))
    pushes = "git push origin origin/main:refs/heads/own; git push ../bare.git origin/main:refs/heads/path"
    executable(project.root / ".git" / "hooks" / "pre-commit", f"git fetch -q || exit 1; {pushes}; true")
    (project.root / "mine").write_text("for nobody")
    (project.root / "mine").chmod(0)
    project.has_tasks("one", "two")
    run = rehearse(project, "feature.md", "1", prefix=no_override)
    assert (run.code, section(run, WRONG)) == (0, NOTHING), run.text
    assert "exit code 3 · limit reached: max-iterations is 1 · 1/2 tasks · 1 iteration · 1 commit" in run.stdout
    assert "mine' for reading: Permission denied" in run.stderr
    project.git("commit", "-q", "--allow-empty", "-m", "for real")
    new = {path.name for path in (bare / "refs" / "heads").iterdir()}
    assert new == {"own", "path"}, "the hook does push, where it is no rehearsal"
    hook = f"echo new > '{project.root}/feature.md'; echo the tests fail >&2; exit 1"
    executable(project.root / ".git" / "hooks" / "pre-commit", hook)
    run = project.ralph("rehearse", "feature.md", "9")
    failed, touched = section(run, WRONG)
    assert run.code == 1
    assert re.search("exit code 1 · failed: .*the tests fail", section(run, HAPPENED)[0])
    assert "`ralph feature.md build` exits with 1; " in failed
    assert "your repository is not as it was before the rehearsal: feature.md; " in touched


def test_at_any_time_it_can_be_ended_and_leaves_nothing(project: Project, no_override: list[str]) -> None:
    """Also where it made folders that are read-only."""
    project.has_tasks("one", "two")
    pid_file, temporary = project.root.parent / "pid", Path(project.env["TMPDIR"])
    verify = f"mkdir -p mod/pkg; touch mod/pkg/file; chmod -R a-w mod; echo $$ > {pid_file}; exec sleep 1000"
    running = project.start("rehearse", "feature.md", "--verify", verify, prefix=no_override)
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip())
    running.signal(signal.SIGTERM)
    run = running.wait()
    assert (run.code, WRONG in run.stdout, everything_in(temporary)) == (-signal.SIGTERM, False, {}), run.stdout
    verified, git = project.outputs / "verified", shutil.which("git", path=project.env["PATH"])
    kills = f'[ ! -e {verified} ] || case "$*" in *"-C {project.root} "*) kill $PPID ;; esac\nexec {git} "$@"'
    executable(project.root.parent / "bin" / "git", kills)
    run = project.ralph("rehearse", "feature.md", "--verify", f"touch {verified}")
    assert (run.code, HAPPENED in run.stdout) == (-signal.SIGTERM, False), "at its last look"
    assert everything_in(temporary) == {}


def test_what_cannot_be_rehearsed_is_not_copied(project: Project) -> None:
    """What is done, what a start would refuse, what another run works on."""
    project.has_tasks("x one", status="RALPH_DONE")
    run = rehearse(project, "feature.md")
    assert (run.code, section(run, HAPPENED)) == (0, ["  `ralph feature.md build`: exit code 0"])
    assert run.stderr.startswith("ralph: feature: done; delete RALPH_DONE")
    project.has_tasks("one")
    fd = os.open(project.root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert "another run works in" in project.ralph_tty("rehearse", "feature.md").stdout
    assert rehearse(project, "feature.md").code == 75
    os.close(fd)
    executable(project.root.parent / "broken" / "git", "echo no room >&2; exit 9")
    no_git = {"PATH": f"{project.root.parent}/broken:{project.env['PATH']}"}
    for words, env, code, said in (
        ("feature.md --max-time soon", {}, 2, "--max-time"),
        ("-C .", no_git, 1, "no room\nralph: git does not work; install git, or fix it"),
    ):
        run = rehearse(project, *words.split(), env=env)
        assert (run.code, said in run.stderr, WRONG in run.stdout) == (code, True, False), run.text
