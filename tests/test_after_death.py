"""After a kill -9 of ralph in a watched iteration: what changed until all had ended is its own, later the user's.

The supervisor outlives ralph and takes the last look. The agents here kill their ralph themselves.
"""

import signal

import pytest
from ralph_driver import UNHURRIED, Project, eventually, executable, is_free
from stories import Agent, hangs, ignores, marks, runs, step, tries, waits_for, writes
from test_signals import hammer
from test_strict import KILL, ONE, built, files_of, marks_of, subjects, wants

LATE = f"trap : TERM; trap 'echo late > late.txt; exit' INT; {KILL}; sleep 60 & wait"
"""Its last write comes when ralph is dead, and it is being ended."""
TREE = """
for one in a b gone; do echo $one > $one.txt; done; git add .; git commit -qm tree
git config core.logAllRefUpdates false; rm -rf .git/logs
for one in staged dropped; do echo mine > $one.txt; git add $one.txt; done
"""
PERSON = """
echo 'the version to commit' > a.txt; git add a.txt; echo 'a scribble on top' > a.txt; rm gone.txt
echo mine > new.txt; git add new.txt; git commit -qm 'my own' new.txt; echo 'and mine' >> early.txt
echo 'mine on top' > b.txt; git add b.txt; rm b.txt
"""


LOOKS = runs("git diff --cached --name-only > ../staged.txt")


def dies(project: Project, *options: str) -> None:
    """A run in which ralph is killed; until the supervisor, too, is gone."""
    assert project.build(*options).code == -9
    eventually(lambda: is_free(project.root))


@pytest.mark.parametrize("options", [(), ("--only", "{early,late,one}.txt", "--only", "b.txt")], ids=["strict", "only"])
def test_what_the_agent_did_is_its_tasks_and_what_the_user_did_since_stays(
    project: Project, agent: Agent, options: tuple[str, ...]
) -> None:
    """Stages, commits where git keeps no log, removes, and goes on with the agent's own file."""
    project.does(TREE)
    wants(project, ONE)
    works = [writes("early.txt", "1\n"), writes("b.txt", "2\n")]
    stages = runs("git add -A; git rm -q --cached dropped.txt")
    agent.story(tries(*works, stages, runs(LATE)), tries(LOOKS, writes("one.txt", "1")))
    dies(project, "--strict", *options)
    project.does(PERSON)
    run = built(project, *options)
    assert subjects(project) == ["one: Did it", "my own", "tree", "plan"], run.text
    assert files_of(project) == ["early.txt", "late.txt", "one.txt"]
    assert project.git("show", "HEAD:early.txt") == "1\nand mine\n"
    assert (project.root.parent / "staged.txt").read_text().split() == ["a.txt", "b.txt", "dropped.txt", "staged.txt"]
    left = ["MM a.txt", "MD b.txt", "A  dropped.txt", " D gone.txt", "A  staged.txt", "?? feature_PROGRESS.md"]
    assert project.git("status", "--porcelain").splitlines() == left
    assert project.git("show", ":a.txt", ":b.txt") == "the version to commit\nmine on top\n"
    assert (project.root / "a.txt").read_text() == "a scribble on top\n"


@pytest.mark.parametrize("cheats", [False, True], ids=["staged", "committed"])
def test_what_the_user_commits_on_top_of_the_agents_work_stays_as_it_is(
    project: Project, agent: Agent, *, cheats: bool
) -> None:
    wants(project, ONE)
    adds = "git add -A; git commit -qm cheat" if cheats else "git add -A"
    agent.story(tries(writes("early.txt", "1"), runs(f"{adds}; {KILL}")), tries(LOOKS, writes("one.txt", "1")))
    dies(project, "--strict")
    project.git("commit", "-qm", "my own", "--allow-empty")
    run = built(project)
    assert (project.root.parent / "staged.txt").read_text() == ""
    assert subjects(project)[1:] == ["my own", *["cheat"] * cheats, "plan"]
    assert (
        "HEAD was moved in the iteration in which ralph died, and by somebody since: it stays" in run.text
    ) == cheats


def test_what_the_user_adds_after_ctrl_c_twice_is_a_task(project: Project, agent: Agent) -> None:
    wants(project, "- [ ] one: The first\n")
    deaf = tries(writes("early.txt", "1"), ignores("INT", "TERM"), marks("on"), hangs())
    agent.story(deaf, tries(writes("one.txt", "1")), tries(writes("two.txt", "2")))
    running = project.start("feature.md", "build", "--strict", "--delay", "0", command=UNHURRIED)
    eventually(lambda: agent.reached("on"))
    assert hammer(running, signal.SIGINT).code == -signal.SIGINT
    project.progress.write_text(project.progress_text.replace("- [", "- [ ] two: Mine\n- [", 1))
    run = built(project)
    assert (subjects(project), "undone" in run.text) == (["one: Did it", "two: Did it", "plan"], False), run.text


def test_where_nobody_could_look_all_counts_as_the_iterations_is_reported_and_kept(
    project: Project, agent: Agent
) -> None:
    """Also where the agent had ended by then, and ralph had seen what it did; then nothing more is its own."""
    wants(project, "- [ ] one: The first\n")
    pids = "supervisor=$(ps -o ppid= -p $PPID); ralph=$(ps -o ppid= -p $supervisor)"
    both = runs(f"{pids}; kill -STOP $ralph; kill -9 $supervisor; kill -9 $ralph")  # or one hears of the other's end
    agent.story(tries(writes("early.txt", "1"), runs("git reset -q"), both), tries(writes("one.txt", "1")))
    project.does("echo staged > staged.txt; git add staged.txt")
    dies(project, "--strict")
    project.does("echo mine > mine.txt")
    run = built(project)
    assert "so does what is staged: git's index as it is now is kept in " in run.text
    assert project.git("status", "--porcelain", "staged.txt") == "A  staged.txt\n"
    assert "so all that changed counts as its own: early.txt, mine.txt; as it is now it is kept in refs/" in run.text
    assert files_of(project) == ["early.txt", "mine.txt", "one.txt"]


def test_a_plan_that_the_agent_removed_comes_back(project: Project, agent: Agent) -> None:
    plan = project.root / "feature.md"
    project.does("git rm -q --cached feature.md; git commit -qm untracked")
    text = plan.read_text()
    wants(project, ONE)
    agent.story(tries(runs(f"rm feature.md; {KILL}")), tries(writes("one.txt", "1")))
    dies(project, "--strict")
    run = built(project)
    assert (plan.read_text(), files_of(project)) == (text, ["one.txt"]), run.text
    plan.unlink()
    assert project.build("--strict").code == 2, "the user may remove it"


def test_a_plan_that_the_agent_of_a_living_run_removed_is_no_other_runs_business(
    project: Project, agent: Agent
) -> None:
    plan = project.root / "feature.md"
    wants(project, ONE)
    agent.story(tries(runs("rm feature.md"), waits_for("go"), writes("one.txt", "1")))
    running = project.start("feature.md", "build", "--strict", "--delay", "0")
    eventually(lambda: not plan.exists())
    for words in ((), ("--dry-run",)):
        other = project.ralph("feature.md", "build", "--strict", *words)
        assert (other.code, "died" in other.text, plan.exists()) == (2, False, False), other.text
    agent.let("go")
    run = running.wait()
    assert (run.code, plan.exists(), files_of(project)) == (0, True, ["one.txt"]), run.text


def test_a_plain_iteration_with_only_leaves_in_commits_what_may_stay(project: Project, agent: Agent) -> None:
    commits = runs(f"mkdir src; echo > src/a; echo > outside; git add src outside; git commit -qm both; {KILL}")
    project.has_tasks("one")
    agent.story(step(commits), step(ticks="all", writes_done=True))
    only = ("--only", "src/**")
    dies(project, *only)
    run = project.build(*only)
    assert (run.code, "Traceback" in run.text) == (0, False), run.text
    assert (subjects(project), files_of(project)) == (["both", "plan"], ["src/a"])
    assert not (project.root / "outside").exists()
    assert "put back in #1: outside, 1 commit" in project.ralph("log", "feature.md").stdout


def test_the_commit_that_a_death_cut_off_gets_the_tracked_progress_file_too(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    project.does("git add feature_PROGRESS.md; git commit -qm track")
    once = project.outputs / "once"
    executable(project.root / ".git" / "hooks" / "pre-commit", f"[ -e {once} ] && exit 0; touch {once}; {KILL} $PPID")
    agent.story(tries(writes("one.txt", "1")))
    dies(project, "--strict")
    run = built(project)
    assert files_of(project) == ["feature_PROGRESS.md", "one.txt"], run.text
    assert "- [x] one" in project.git("show", "HEAD:feature_PROGRESS.md")


def test_a_tick_whose_commit_a_hook_refuses_is_taken_back(project: Project, agent: Agent) -> None:
    """Ralph dies while the hook runs, which is then let go on."""
    wants(project, ONE)
    once = project.outputs / "once"
    refuses = f'[ -e {once} ] && {{ echo "lint: no"; exit 1; }}; touch {once}; {KILL} $PPID'
    executable(project.root / ".git" / "hooks" / "pre-commit", refuses)
    agent.story(tries(writes("one.txt", "1")), tries(writes("one.txt", "2")))
    dies(project, "--strict")
    run = built(project, "--max-tries", "2", code=4)
    assert "one was ticked when ralph was killed, and cannot be committed: git exited with 1: lint: no" in run.stderr
    assert (marks_of(project), subjects(project), len(agent.calls)) == (["- [!] one"], ["plan"], 2)


NOTES = [
    "FirstVerifyResult",
    "GitConfigFiles",
    "TreeBefore",
    "UnfinishedIteration",
    "UncommittedFiles",
    "TreeAfterDeath",
]


@pytest.mark.parametrize("note", NOTES)
def test_a_kill_at_any_note_is_followed_by_one_recovery(project: Project, agent: Agent, note: str) -> None:
    wants(project, "- [ ] one: The first\n  - verify: Run `test -e one.txt` exits 0\n")
    work = tries(writes("one.txt", "1"), runs("sleep 0.3"))
    agent.story(*[work] * 3)
    options = ("--strict", "--verify", "true")
    killed = project.start("feature.md", "build", *options)
    there = (
        "UnfinishedIteration" if note == "TreeAfterDeath" else note
    )  # that one the supervisor writes, of an open iteration
    eventually(lambda: [one for one in project.state.glob(f"ralph/*/running/{there}") if one.stat().st_size])
    killed.signal(signal.SIGKILL)
    killed.wait()
    eventually(lambda: is_free(project.root))
    run = project.build(*options)
    died = [line for line in project.journal() if line.get("ended") == "died"]
    assert (run.code, marks_of(project), len(subjects(project))) == (0, ["- [x] one"], 2), run.text
    assert project.git("show", "HEAD:one.txt") == "1"
    assert (len(died), run.text.count("the run before was killed")) in ((0, 0), (1, 1)), run.text
    assert not project.build(*options).text, "nothing is left to recover"
