"""The rehearsal, of the sample as on a fresh machine and of one's own plan; and that nothing there is touched."""

import fcntl
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from http_server import Server
from ralph_driver import Project, Run, eventually, progress_text
from tmux import lines_only

from ralph.rehearsal import sample

HAPPENED, WRONG = "WHAT WOULD HAVE HAPPENED", "WHAT WOULD HAVE GONE WRONG"
NOTHING = ["  nothing: each start ended well, and your repository is as it was"]
Found = dict[str, tuple[int, bytes]]


def rehearse(project: Project, *words: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()) -> Run:
    env = {"IS_SANDBOX": "1", **(env or {})}  # the tests may be root's
    return project.ralph("rehearse", *(words or ("feature.md", "9")), env=env, prefix=prefix)


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
    """What lies in the folder for temporary files."""
    return names_in(Path(project.env["TMPDIR"]))


def section(run: Run, name: str) -> list[str]:
    """The lines below a heading of the closing."""
    assert name in run.stdout.splitlines(), run.text
    return run.stdout.partition(f"{name}\n")[2].partition("\n\n")[0].splitlines()


def hook(project: Project, name: str, script: str) -> None:
    path = project.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def same_but_outputs(project: Project, before: Found) -> None:
    now = everything_in(project.root.parent)
    changed = {name for name in before | now if before.get(name) != now.get(name)}
    assert changed <= {f"outputs/{name}" for name in names_in(project.outputs)}


# The sample.


def hostile_home(project: Project, server: Server) -> None:
    """A home that would have every commit refused, and somebody told."""
    settings = f'RALPH_SLACK_WEBHOOK_URL="{server.url("/file")}"\nRALPH_MAX_ITERATIONS=1\nRALPH_NONSENSE=1\n'
    (project.home / ".ralph.env").write_text(settings)
    (project.home / "hooks").mkdir()
    (project.home / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (project.home / "hooks" / "pre-commit").chmod(0o755)
    config = f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n[core]\n\thooksPath = {project.home}/hooks\n"
    (project.home / ".gitconfig").write_text(config)


def test_it_plans_builds_and_shows_what_came_of_it_whatever_a_person_has_set(plain_project: Project) -> None:
    """Nobody is told, and nothing is left."""
    other = plain_project.root.parent / "other"
    with Server() as server:
        hostile_home(plain_project, server)
        before = everything_in(plain_project.home)
        env = {"RALPH_SLACK_WEBHOOK_URL": server.url("/environment"), "RALPH_AGENT": "false"}
        env |= {"RALPH_AUTO_COMMIT": "false", "XDG_STATE_HOME": str(other)}
        env |= {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_TEMPLATE_DIR": "/nowhere"}
        run = plain_project.ralph_tty("rehearse", env=env)
        assert (run.code, server.received) == (0, []), run.stdout
    assert "\x1b[1m$ ralph sample.md plan\x1b[0m\n" in run.stdout
    lines = lines_only(run.stdout).splitlines()
    shown = ["cat sample.md", "ralph sample.md plan", "ralph sample.md build", "git log --oneline"]
    assert [line[2:] for line in lines if line.startswith("$ ")] == [*shown, "cat sample_PROGRESS.md"]
    log = lines[lines.index("$ git log --oneline") + 1 :]
    messages = [work.message for work in sample.WORK.values()]
    assert [line.partition(" ")[2] for line in log[:4]] == [*reversed(messages), "A plan"]
    assert [line[6:] for line in log if line.startswith("- [x] ")] == list(sample.WORK)
    assert lines.count("  ▸ Bash python3 -m unittest discover") == 2
    for number, task in enumerate(sample.WORK, 1):  # planning was the first iteration
        assert f" Task {number}: {task} " in " ".join(" ".join(lines).split())
        assert any(line.startswith(f"#{number + 1} · {number}/3 tasks (+1) · 1 commit") for line in lines)
    assert lines[-1] == "  ralph feature.md build --max-iterations 50"
    assert (other.exists(), litter(plain_project)) == (False, [])
    assert everything_in(plain_project.home) == before
    assert names_in(plain_project.root) == ["feature.md"]


def test_a_sample_that_cannot_be_made_says_why_and_exits_1(plain_project: Project) -> None:
    git = plain_project.root.parent / "bin" / "git"
    git.write_text("#!/bin/sh\necho no room >&2; exit 9\n")
    git.chmod(0o755)
    run = plain_project.ralph("rehearse")
    assert (run.code, run.stdout) == (1, ""), run.text
    assert "git does not work: no room; install git, or mend it" in run.stderr
    assert litter(plain_project) == []


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
        more = ("--heartbeat-url", urls["HEARTBEAT"], "--verify", "git log -1 && ls", "--effort=high", "--", "--debug")
        run = rehearse(project, "feature.md", *more)
        received = server.received
    assert (run.code, run.stderr) == (0, ""), run.text
    assert section(run, WRONG) == NOTHING
    assert "▸" not in run.stdout, "--verbose shows that"
    plans, builds = section(run, HAPPENED)
    assert plans.startswith("  `ralph feature.md plan`: exit code 0 · finished · 0/2 tasks · ")
    assert builds.startswith("  `ralph feature.md build`: exit code 0 · done · 2/2 tasks · 2 iterations · 2 commits · ")
    assert {one.path for one in received} == {"/slack"}
    assert len(received) >= 4
    assert all("*Rehearsal: Ralph " in json.loads(one.body)["text"] for one in received)
    same_but_outputs(project, before)
    assert not litter(project)
    assert not list(project.state.iterdir())


def test_all_modes_are_rehearsed_in_one_start_and_roles_as_build(project: Project) -> None:
    (project.root / "feature.md").write_text("# A feature\n\n- one thing\n- another\n")
    project.git("commit", "-qam", "more")
    run = rehearse(project, "feature.md", "all", "--max-iterations", "9")
    assert run.code == 0, run.text
    (said,) = section(run, HAPPENED)
    assert said.startswith("  `ralph feature.md all`: exit code 0 · done · 2/2 tasks · 4 iterations · 2 commits")
    assert "#4 · 2/2 tasks" in run.stdout
    run = rehearse(project, "feature.md", "--strict", "--roles", "test,build,review", "--max-iterations", "9")
    assert run.code == 0, run.text
    assert "done · 2/2 tasks · 2 iterations · 2 commits" in section(run, HAPPENED)[-1]


def with_everything(project: Project) -> Path:
    """Changes of all kinds; a pipe, from which nobody should read; full paths that lead back.

    git knows the person by the place of the repository, its hook mends, and the plan is called like a verb.
    """
    (project.root / ".gitignore").write_text("ignored\nran\n")
    for name in ("staged", "unstaged", "untracked", "ignored"):
        (project.root / name).write_text("new")
    project.git("add", ".gitignore", "staged")
    os.mkfifo(project.root / "pipe")
    (project.root / "back").symlink_to("unstaged")
    (project.root / "bin").mkdir()
    (project.root / "bin" / "check").write_text('#!/bin/sh\necho ran > "${0%/*}/ran"\n')
    (project.root / "bin" / "check").chmod(0o755)
    project.env |= {"PATH": f"{project.root}/bin:{project.env['PATH']}", "BUILD": str(project.root / "build")}
    project.env["RALPH_VERIFY"] = f"check && cd '{project.root}' && echo changed > back && mkdir $BUILD"
    hook(project, "pre-commit", 'mkdir "$GIT_DIR/mended" || exec git diff-index --check --cached HEAD --; exit 1')
    work = (project.home / ".gitconfig").rename(project.home / "work")
    where = f'[includeIf "gitdir:{project.root}/"]\n\tpath = {work}\n'
    (project.home / ".gitconfig").write_text(f"[user]\n\tuseConfigOnly = true\n{where}")
    (project.root / "sub").mkdir()
    return (project.root / "feature.md").rename(project.root / "sub" / "status")


def with_its_progress_elsewhere(project: Project) -> Path:
    elsewhere = project.root.parent / "elsewhere_PROGRESS.md"
    elsewhere.write_text(progress_text("one", plan=str(project.root / "feature")))
    project.env["RALPH_PROGRESS_FILE"] = "../elsewhere_PROGRESS.md"
    return project.root / "feature.md"


def in_a_linked_working_tree(project: Project) -> Path:
    """Of a repository that has no other."""
    project.git("clone", "-q", "--bare", ".", "../bare.git")
    project.git("-C", "../bare.git", "worktree", "add", "-q", "../linked")
    return project.root.parent / "linked" / "feature.md"


def in_a_tree_that_gits_settings_name(project: Project) -> Path:
    project.git("config", "core.worktree", str(project.root))
    return project.root / "feature.md"


def in_a_submodule(project: Project) -> Path:
    outer = project.root.parent / "outer"
    shutil.copytree(project.root, outer)
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project.root), "sub"]
    project.git("-C", str(outer), *add)
    return outer / "sub" / "feature.md"


def without_git(project: Project) -> Path:
    shutil.rmtree(project.root / ".git")
    return (project.root / "feature.md").rename(project.root / "-p.md")


def told_by_the_environment(project: Project) -> Path:
    (project.root / ".git").rename(project.root.parent / "elsewhere.git")
    project.env["GIT_DIR"] = str(project.root.parent / "elsewhere.git")
    return project.root / "feature.md"


@pytest.mark.parametrize(
    ("arranged", "commits"),
    [
        (with_everything, 1),
        (with_its_progress_elsewhere, 1),
        (in_a_linked_working_tree, 1),
        (in_a_tree_that_gits_settings_name, 1),
        (in_a_submodule, None),
        (without_git, 0),
        (told_by_the_environment, 0),
    ],
)
def test_nothing_is_touched_wherever_it_lies(
    project: Project, arranged: Callable[[Project], Path], commits: int | None
) -> None:
    """What a copy would share with the original is not rehearsed."""
    plan = arranged(project)
    file = plan.with_name(f"{plan.name.removesuffix('.md')}_PROGRESS.md")
    file.write_text(progress_text("one"))
    before = everything_in(project.root.parent)
    run = rehearse(project, f"./{plan.name}", "build", "--max-iterations", "3", "-C", str(plan.parent))
    same_but_outputs(project, before)
    assert not litter(project)
    if commits is None:
        assert run.code == 1, run.text
        assert "rehearse in a clone" in run.stderr
    else:
        assert run.code == 0, run.text
        assert section(run, WRONG) == NOTHING
        assert f"1/1 tasks · 1 iteration · {commits} commit" in section(run, HAPPENED)[0]


# What would go wrong.


@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("pre-commit", "echo the tests fail >&2; exit 1", "exit code 1 · failed: .*the tests fail"),
        ("post-commit", "cd $ORIGINAL && echo new > feature.md", "as it was before .*: feature.md"),
    ],
    ids=["a hook refuses commits", "a hook reaches out"],
)
def test_what_would_go_wrong_is_said(project: Project, name: str, script: str, says: str) -> None:
    project.has_tasks("one", "two")
    hook(project, name, f"ORIGINAL='{project.root}'\n{script}")
    run = rehearse(project)
    assert run.code == 1, run.text
    assert section(run, WRONG) != NOTHING
    assert re.search(says, "\n".join(section(run, HAPPENED) + section(run, WRONG))), run.text
    assert not litter(project)


def test_a_limit_and_what_could_not_be_copied_is_nothing_wrong(project: Project, no_override: list[str]) -> None:
    project.has_tasks("one", "two")
    (project.root / "mine").write_text("for nobody")
    (project.root / "mine").chmod(0)
    run = rehearse(project, "feature.md", "1", prefix=no_override)
    assert run.code == 0, run.text
    assert "exit code 3 · limit reached" in section(run, HAPPENED)[-1]
    assert section(run, WRONG) == NOTHING
    assert "not all could be copied" in run.stderr
    assert "mine' for reading: Permission denied" in run.stderr


def test_a_hook_that_pushes_pushes_nothing(project: Project) -> None:
    """Nor does one that knows other names for the place, and settings by which git would go there."""
    bare = project.root.parent / "bare.git"
    project.git("clone", "-q", "--bare", ".", str(bare))
    project.git("remote", "add", "origin", str(bare))
    project.git("config", "remote.origin.pushurl", str(bare))
    project.git("fetch", "-q", "origin")
    project.git("config", "--global", f"url.{bare.parent}/.pushInsteadOf", "short:")
    places = {"origin": "own", str(bare): "path", f"short:{bare.name}": "short"}
    pushes = "; ".join(f"git push {place} origin/main:refs/heads/{name}" for place, name in places.items())
    hook(project, "post-commit", f"git fetch -q || echo > fetch-fails; {pushes}")
    project.has_tasks("one")
    before = everything_in(bare)
    run = rehearse(project, "feature.md", "9", "--verify", "test ! -e fetch-fails")
    assert run.code == 0, run.text
    assert everything_in(bare) == before
    project.git("commit", "-q", "--allow-empty", "-m", "for real")
    new = set(everything_in(bare)) - set(before)
    assert new == {f"refs/heads/{name}" for name in places.values()}, "the hook does push, where it is no rehearsal"


# Ends that nobody planned.


def test_while_it_verifies_it_can_be_ended_and_leaves_nothing(project: Project, no_override: list[str]) -> None:
    """Also where it made folders that are read-only."""
    project.has_tasks("one", "two")
    pid_file = project.root.parent / "pid"
    verify = f"mkdir -p mod/pkg; touch mod/pkg/file; chmod -R a-w mod; echo $$ > {pid_file}; exec sleep 1000"
    running = project.start("rehearse", "feature.md", "--verify", verify, prefix=no_override)
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip())
    running.signal(signal.SIGTERM)
    run = running.wait()
    assert run.code == -signal.SIGTERM, run.stdout
    assert WRONG not in run.stdout
    assert not litter(project), "and what it started has ended: each test sees to that"


def test_without_a_place_for_the_copy_the_remedy_is_named(project: Project) -> None:
    place = project.root / "tmp"
    place.mkdir()
    run = rehearse(project, env={"TMPDIR": str(place)})
    assert run.code == 1, run.text
    assert re.search(r"no copy of .* fits into itself; set TMPDIR to a folder outside of it\n", run.stderr)
    assert not names_in(place)


def test_what_needs_no_copy_gets_none(project: Project) -> None:
    """What is done, what a start would refuse, and a tree in which another run works."""
    project.has_tasks("x one", status="RALPH_DONE")
    run = rehearse(project)
    assert (run.code, section(run, HAPPENED)) == (0, ["  exit code 0 at once: feature is done"])
    assert "copy" not in run.stdout
    run = rehearse(project, "feature.md", "--max-time", "soon")
    assert (run.code, run.stdout) == (2, "")
    assert "--max-time" in run.stderr
    fd = os.open(project.root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    run = project.ralph_tty("rehearse", "feature.md")
    os.close(fd)
    assert (run.code, "another run works in" in run.stdout) == (75, True)


# The stand-in agent.
