"""When ralph gives up (design sections 3 and 4): stalls, what counts as a change, and the one try after a block."""

import re

from ralph_driver import Mailbox, Project
from stories import Agent, fails, runs, step, writes

MENDED = "sed -i /^RALPH_BLOCKED/d feature_PROGRESS.md"
NOTE = "echo 'Thought about it.' >> feature_PROGRESS.md"
MOVES = (
    step(ticks="one"),
    step(adds="three"),
    step(runs("git add draft.txt")),
    step(writes("edited.py", "3\n")),
    step(writes("edited.py", "1\n")),
    step(writes("sub/new.txt", "")),
    step(runs("chmod +x clean.py")),
    step(commits="all of it"),
    step(runs("rm clean.py")),
)
IDLE = (
    step(),
    step(runs(f"{NOTE} && git add feature_PROGRESS.md && git commit -q -m notes feature_PROGRESS.md")),
    step(runs("echo x > build.log; mkdir out; echo x > out/run.log")),
    step(runs("sed -i 's/x. two/ ] two/' feature_PROGRESS.md; echo 2 > within/code.py")),
    step(),
)


def test_what_counts_as_a_change_and_five_iterations_without_one_need_the_user(project: Project, agent: Agent) -> None:
    """None are ticks taken back, ignored files, ralph's own, and what stands in the progress file, committed or not.

    Nor are changes within another repository, or what the agent only touches, as the two below say.
    """
    project.has_tasks("one", "x two")
    project.does("echo 1 > clean.py; echo 1 > edited.py; echo '*.log' > .gitignore; git add .; git commit -qm work")
    project.does("echo 2 > edited.py; echo 1 > draft.txt")
    project.does("git init -q within; cd within; touch code.py; git add .; git commit -qm work; echo 1 > code.py")
    agent.story(*MOVES, *IDLE)
    run = project.build("--max-stalls", "1", str(len(MOVES)))
    assert (run.code, len(agent.calls)) == (3, len(MOVES)), run.text
    mailbox = Mailbox(project)
    project.env["XDG_STATE_HOME"] = str(project.root / ".local" / "state")
    run = project.build()
    assert (run.code, len(agent.calls)) == (4, len(MOVES + IDLE)), run.text
    assert re.search(r"^RALPH_BLOCKED: ralph: 5 iterations .*changed nothing", project.progress_text, re.MULTILINE)
    assert ("Ralph Blocked" in mailbox.titles[-1], "changed nothing" in mailbox.notices[-1]) == (True, True)
    told = len(mailbox.notices)
    again = project.build()
    assert (again.code, again.text, len(agent.calls) - len(MOVES), len(mailbox.notices)) == (4, "", 5, told)


def test_in_a_folder_of_a_repository_all_of_it_counts(project: Project, agent: Agent) -> None:
    (project.root / "sub").mkdir()
    agent.story(step(writes("../new.py", "2\n")), *[step(runs(f"touch ../new.py; {NOTE}"))] * 2)
    for calls in (2, 3):
        run = project.ralph("../feature.md", "--max-stalls", "1", "--delay", "0", cwd=project.root / "sub")
        assert (run.code, len(agent.calls)) == (4, calls), run.text
        project.does(f"cd sub; {MENDED}")


def test_outside_of_a_repository(plain_project: Project, agent: Agent) -> None:
    """A .git file that is empty, or of NULs, is none, and leads to no locks that git left: one is the agent's file."""
    plain_project.does("touch .git; mkdir there; touch there/there.txt")
    spoils = runs(r"rm there/there.txt; printf '\0\0' > .git")
    agent.story(step(writes("Cargo.lock", "x")), step(spoils), step(runs(f"touch Cargo.lock; {NOTE}")))
    run = plain_project.build("--max-stalls", "1")
    assert (run.code, len(agent.calls)) == (4, 3), run.text
    assert (plain_project.root / "Cargo.lock").exists()


def test_after_a_block_there_is_one_attempt_until_a_good_iteration(project: Project, agent: Agent) -> None:
    """Whoever starts ralph from a terminal is there to have mended it; a block of the agent's own stays."""
    project.has_tasks("one", "two")
    agent.story(*[fails()] * 3, fails("Again."), step(), step(ticks="one"), *[fails()] * 3)
    run = project.build()
    assert (run.code, len(agent.calls)) == (1, 3), run.text
    assert run.stderr.rstrip().splitlines()[-1].startswith("ralph: ")
    assert (project.build().code, len(agent.calls)) == (4, 3), "the file keeps it from going on"
    project.does(MENDED)
    assert (project.build().code, len(agent.calls)) == (1, 4), "one failure is enough"
    assert re.search(r"^RALPH_BLOCKED: ralph: 3 iterations failed.*: Again\.$", project.progress_text, re.MULTILINE)
    project.does(MENDED)
    assert (project.build().code, len(agent.calls)) == (1, 9), "a quiet one is none; then it takes three again"
    agent.story(fails(), step(ticks="all", writes_done=True))
    merging = project.root / ".git" / "MERGE_HEAD"
    merging.write_text(project.git("rev-parse", "HEAD"))
    assert project.ralph_tty("feature.md", "--strict").code == 2
    assert "RALPH_BLOCKED" in project.progress_text, "it goes only where an iteration begins"
    merging.unlink()
    for code, calls in ((1, 10), (0, 11)):
        run = project.ralph_tty("feature.md", "--delay", "0")
        assert (run.code, len(agent.calls)) == (code, calls), run.text
        assert "took RALPH_BLOCKED out of feature_PROGRESS.md" in run.stdout
        assert ("fix it, then run ralph again" in run.stdout) == (code == 1)
    assert "RALPH_BLOCKED" not in project.progress_text
    project.has_tasks("one", status="RALPH_BLOCKED: which database?")
    run = project.ralph_tty("feature.md")
    assert (run.code, len(agent.calls), "which database?" in run.stdout) == (4, 11, True), run.stdout


def test_a_claim_with_no_task_and_no_change_is_refused_and_the_users_holds(project: Project, agent: Agent) -> None:
    project.has_tasks()
    agent.story(*[step(writes_done=True)] * 3)
    run = project.build()
    assert (run.code, len(agent.calls)) == (4, 3), run.text
    said = "no task in the list, and no change since the plan began: plan first, or write the tasks"
    assert run.stderr.count(f"ralph: RALPH_DONE refused: {said}\n") == 3
    assert "RALPH_BLOCKED: ralph: done was claimed 3 times in a row" in project.progress_text
    project.has_tasks(status="RALPH_DONE")
    assert project.build().code == 0
    project.has_tasks()
    agent.story(step(file="made.txt"), step(writes_done=True))
    assert project.build("1").code == 3
    assert (project.build().code, len(agent.calls)) == (0, 5), "what an earlier start changed counts, too"
    project.has_tasks("x one")
    project.does("sed -i 's/^Started/Spent: $1\\n&/' feature_PROGRESS.md")
    agent.story(step(runs("sed -i '/one/d' feature_PROGRESS.md"), writes_done=True))
    assert project.build().code == 0, "so does what was ticked, and is no longer in the list"


def test_a_refused_done_or_two_failures_climb_the_ladder_of_models_and_a_good_iteration_goes_back(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one", "two")
    claim = step(file="x", writes_done=True)
    agent.story(fails(), fails(), step(file="a"), step(file="b"), claim, step(ticks="all", writes_done=True))
    run = project.build("--model", "haiku, opus")
    assert run.code == 0, run.text
    assert project.iterations("model") == ["haiku", "haiku", "opus", "haiku", "haiku", "opus"]
