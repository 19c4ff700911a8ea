"""Modes: what holds, what follows, and that the progress file says it; planning, which is one turn and no code."""

from forks import PYTHON
from ralph_driver import Mailbox, Project, leaping, progress_text
from stories import Agent, at_limit, edits, fails, init, raw, runs, says, step, tries, writes
from test_strict import KILL

ALL = ("feature.md", "all", "--delay", "0")
HEAD = "Started: 2026-11-20 22:14:03\n"
SEES = runs("grep '^Mode:' feature_PROGRESS.md >> ../seen || echo none >> ../seen")
MISSES = edits("- [x] one", "- [ ] one (not at its edges)")
CLAIM = step(ticks="all", file="d.txt", writes_done=True)
BUILDS = step(SEES, ticks="all", file="a.txt", commits="one", writes_done=True)


def named(project: Project) -> list[str]:
    """The lines there that say the mode."""
    return [line for line in project.progress_text.splitlines() if line.startswith("Mode:")]


def has_mode(project: Project, mode: str, *settings: str, asks: str = "Look at it.") -> None:
    """There is a template of this mode."""
    path = project.root / ".ralph" / f"PROMPT_{mode}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["{#", *settings, "#}", asks, "{{ PROGRESS_FILE }}"]))


# Planning.


def test_planning_is_one_turn_that_ends_in_progress(plain_project: Project, agent: Agent) -> None:
    """Without a pause, git or done; a failure or a limit is no plan."""
    project = plain_project
    failed = [fails(exit_code=0), raw(init(), exit_code=-9), at_limit()]
    agent.story(*failed, step(), step(says("I looked around."), adds="one"))
    assert [project.plan("--no-wait").code for _ in failed] == [1, 1, 3]
    run = project.plan()
    assert (run.code, "fatal" in run.text) == (0, False), run.text
    project.has_tasks("x old", status="RALPH_DONE")
    run = project.ralph("feature.md", "plan", "--max-iterations", "5", "--delay", "1h", command=leaping())
    assert (run.code, len(agent.calls), "RALPH_DONE put back" in run.text) == (0, 5, True), run.text
    assert project.journal()[-1]["duration_s"] < 3600
    assert project.iterations("mode") == ["plan"] * 5
    assert str(project.root / "feature.md") in agent.prompts[4]
    assert run.stdout.startswith(
        "ralph: progress in feature_PROGRESS.md · no commit to return to\nralph: plan feature\n"
    )
    assert "ralph: plan ready in feature_PROGRESS.md · " in run.stdout
    assert run.stdout.endswith(" · next: ralph feature.md build\n")
    assert "\nIN_PROGRESS\n\n## Task List\n\n- [ ] one\n- [x] old\n" in project.progress_text


def test_code_written_while_planning_is_named_and_a_failure(project: Project, agent: Agent) -> None:
    project.does("echo old > edited.py; git add edited.py; git commit -qm code; echo old > dirty.py; touch mine.txt")
    commits = runs("echo x > committed.py && git add committed.py && git commit -qm eager committed.py")
    agent.story(step(*(edits("old", "new", file=name) for name in ("edited.py", "dirty.py")), commits, file="new.py"))
    run = project.plan()
    assert (run.code, len(agent.calls)) == (1, 1), run.text
    named = [f" {name}" in run.stderr for name in ("edited.py", "dirty.py", "committed.py", "new.py", "mine.txt")]
    assert named == [True, True, True, True, False], run.stderr


# What follows on what.


def test_all_plans_builds_and_validates_until_nothing_is_left(project: Project, agent: Agent) -> None:
    """A red verify sends it back as an open task does."""
    mailbox = Mailbox(project)
    plans, finds = step(SEES, adds="one"), step(SEES, MISSES)
    breaks = step(SEES, runs("touch ../red"))
    mends = step(SEES, runs("rm ../red"), file="b.txt", writes_done=True)
    agent.story(plans, BUILDS, finds, BUILDS, breaks, mends, step(SEES, says("All is there.")))
    run = project.ralph(*ALL, "--verify", "test ! -e ../red", "--notify-frequency", "1")
    assert (run.code, project.iterations("mode")) == (0, ["plan", *["build", "validate"] * 3]), run.text
    assert "ralph: done · 1/1 tasks · 7 iterations · 2 commits · " in run.text
    rounds = ["validate 1/3", "build 1/3", "validate 2/3", "build 2/3", "validate 3/3"]
    seen = (project.root.parent / "seen").read_text().splitlines()
    assert seen == ["Mode: plan", "none", *[f"Mode: {one}" for one in rounds]]
    assert project.iterations("round") == [0, 0, 1, 1, 2, 2, 3]
    assert run.text.count("exited with 1") == 1
    assert "\nRALPH_DONE\nVerified: " in project.progress_text
    assert named(project) == []
    changes = [line["message"] for line in project.journal() if line["event"] == "mode"]
    assert changes == ["plan -> build", *["build -> validate", "validate -> build"] * 2, "build -> validate"]
    left = "mode: {}\n  changed by then: {}\n"
    ways = left.format("plan -> build", "nothing"), left.format("validate -> build", "nothing")
    assert [[way in prompt for way in ways] for prompt in agent.prompts[1:4:2]] == [[True, False], [False, True]]
    told = [("ralph's notes on recent iterations" in prompt, "no database" in prompt) for prompt in agent.prompts[2::2]]
    assert told == [(False, False)] * 3, "who validates is blind first"
    assert "\nMode: build 2/3\n" in mailbox.notices[-2]
    again = project.ralph(*ALL)
    assert (again.code, again.text, len(agent.calls)) == (0, "", 7)


def test_every_run_continues_where_the_last_one_stood_and_counts_on(project: Project, agent: Agent) -> None:
    """One iteration each, as cron may start them; one that fails is tried again; used up, the user has to look."""
    forgets = [edits(f"Mode: validate {count}/2", "Mode: build") for count in (1, 2)]
    agent.story(step(adds="one"), BUILDS, fails(), step(forgets[0], MISSES), BUILDS, step(forgets[1], MISSES))
    codes = [project.ralph(*ALL, "--max-iterations", "1", "--max-rounds", "2").code for _ in range(6)]
    assert codes == [3, 3, 3, 3, 3, 4]
    assert " ".join(project.iterations("mode")) == "plan build validate validate build validate"
    assert project.iterations("round") == [0, 0, 1, 1, 1, 2]
    assert "RALPH_BLOCKED: ralph: done was claimed" not in project.progress_text
    why = 'max-rounds is 2, and validate still finds something: 1 task not ticked: "one (not'
    assert (why in project.progress_text, named(project)) == (True, [])
    assert (project.ralph(*ALL).code, len(agent.calls)) == (4, 6)
    agent.story(step(), step())
    for how in ((), ("--strict",)):
        project.has_tasks("x one: mended by the user, who has taken RALPH_BLOCKED out")
        assert project.ralph(*ALL, "--verify", "true", *how).code == 0
    assert project.iterations("mode")[6:] == ["validate"] * 2, "no agent is paid to say that it is built"


def test_what_an_iteration_learns_of_those_before_is_so(project: Project, agent: Agent) -> None:
    """All that a mode changed, a verify that refused, each failure once, and of the sums those of its own run."""
    project.has_tasks("one")
    first = [step(file=f"{name}.txt") for name in ("a", "b")]
    killed = step(runs(KILL), file="c.txt")
    agent.story(*first, fails("The disk is on fire."), killed, CLAIM, step(file="ok", writes_done=True), step())
    how = (*ALL, "--verify", "test -e ok || { echo RED; exit 1; }")
    assert [project.ralph(*how).code for _ in range(2)] == [-9, 0]
    _, _, _, fourth, fifth, sixth, validates = agent.prompts
    assert fourth.count("The disk is on fire.") == 1
    assert ("This run so far: 0/1 tasks · 3 iterations" in fourth, "so far: 0/1 tasks · 0 it" in fifth) == (True, True)
    assert " · done refused · it did not succeed\n  the verify command" in sixth
    assert "exited with 1 / RED\n" in sixth
    assert "so far" not in validates
    memory = project.ralph("log", "feature.md", "--memory").stdout
    assert "\n  changed by then: a.txt, b.txt, d.txt, ok\n" in memory


def test_without_a_mode_it_continues_in_the_one_that_is_there(project: Project, agent: Agent) -> None:
    """One on the command line is that of one start; what is none is said and ignored."""
    agent.story(step(), step(MISSES), step(MISSES), BUILDS, step(), BUILDS, BUILDS)

    def has(mode: str) -> None:
        project.progress.write_text(progress_text("x one").replace(HEAD, f"{HEAD}Mode: {mode}\n"))

    for mode, code in {"plan": 0, "validate": 3}.items():
        has("review 2/3")
        assert project.ralph("feature.md", mode).code == code
        assert named(project) == ["Mode: review 2/3"], mode
    has("validate 2/3")
    run = project.ralph("feature.md")
    assert (run.code, "work remains" in run.text) == (3, True), run.text
    assert named(project) == ["Mode: build 2/3"]
    assert project.ralph("feature.md").code == 0
    has("validate")
    assert project.ralph("feature.md").code == 0
    assert ("RALPH_DONE" in project.progress_text, named(project)) == (True, [])
    has_mode(project, "broken", "RALPH_ONCE: perhaps")
    has("broken")
    run = project.ralph("feature.md")
    assert (run.code, "Mode: broken is ignored" in run.text) == (0, True), run.text
    has("validate 1/3")
    assert project.ralph("feature.md", "build").code == 0
    assert named(project) == ["Mode: validate 1/3"]
    assert (project.ralph("feature.md").code, len(agent.calls)) == (0, 7), "RALPH_DONE counts for more"
    assert " ".join(project.iterations("mode")) == "plan validate validate build validate build build"


def test_a_mode_that_the_agent_names_holds_from_the_next_iteration_on(project: Project, agent: Agent) -> None:
    """One of a single iteration gives way to what follows on it; the run goes on."""
    project.has_tasks("one", "two", "three")
    has_mode(project, "look", "RALPH_ONCE: yes", "RALPH_MODEL: haiku")
    has_mode(project, "deep", asks="Go deep.")
    agent.story(
        step(edits(HEAD, f"{HEAD}Mode: look\n"), ticks="one"),
        step(),
        step(edits(HEAD, f"{HEAD}Mode: no/mode\n"), ticks="two"),
        step(edits("Mode: no/mode", "Mode: deep"), adds="four"),
        step(edits("Mode: deep\n", ""), ticks="all"),
        step(writes_done=True),
    )
    run = project.build()
    assert run.code == 0, run.text
    assert " ".join(project.iterations("mode")) == "build look build build deep build"
    assert ["haiku" in call.argv for call in agent.calls] == [False, True, *[False] * 4]
    assert "Go deep." in agent.calls[4].prompt
    assert run.stderr.count("Mode: no/mode is ignored: ") == 1


def test_who_validates_only_unticks_and_adds(project: Project, agent: Agent) -> None:
    project.has_tasks("x one", "two", "three")
    deeds = [edits("- [ ] two\n", ""), edits("- [x] one", "- [ ] one")]
    deeds.append(edits("## Notes", "## Validation\n\nNo.\n\n## Notes"))
    agent.story(step(*deeds, writes("a.py", "mended"), adds="four", writes_done=True))
    run = project.ralph("feature.md", "validate")
    assert (run.code, (project.root / "a.py").exists()) == (3, False), run.text
    assert 'put back what validate may not take away: "two"' in run.text
    there = [f"- [ ] {task}\n" for task in ("one", "two", "three", "four")]
    there += ["\nIN_PROGRESS\n", "\n## Validation\n\nNo.\n"]
    assert [line for line in there if line not in project.progress_text] == []
    agent.story(step(edits("- [ ] two\n", "")))
    assert 'gone from the list without being ticked: "two"; the file before' in project.build("1").stderr


def test_a_template_may_wish_for_the_users_word_before_it_continues_and_one_that_cannot_be_has_to_be_fixed(
    project: Project, agent: Agent
) -> None:
    has_mode(project, "validate", "RALPH_ONCE: yes", asks="{{ NOTHING }}")
    wish = "Plan, then write RALPH_BLOCKED: look at it."
    has_mode(project, "plan", "RALPH_ONCE: yes", "RALPH_THEN: build", asks=wish)
    agent.story(step(adds="one", blocks="look at the list"), BUILDS, step())
    for _ in range(2):
        run = project.ralph(*ALL)
        assert (run.code, len(agent.calls)) == (4, 1), run.text
    assert "RALPH_BLOCKED: look at the list" in project.progress_text
    project.progress.write_text(project.progress_text.replace("RALPH_BLOCKED: look at the list", "IN_PROGRESS"))
    run = project.ralph(*ALL)
    assert (run.code, len(agent.calls), "NOTHING" in run.text) == (2, 2, True), run.text
    (project.root / ".ralph" / "PROMPT_validate.md").unlink()
    run = project.ralph(*ALL)
    assert (run.code, project.iterations("mode")) == (0, ["plan", "build", "validate"]), run.text


def test_all_under_strict(project: Project, agent: Agent) -> None:
    """Who validates may untick and add there too; ralph gives what is new its ids, and nobody else ticks."""
    task = edits("## Task List\n", "## Task List\n\n- [ ] a: one\n  - verify: File `a.txt` exists\n")
    unticks = edits("- [x] a: one", "- [ ] a: one")
    adds = edits("## Task List\n", "## Task List\n\n- [x] two\n  - verify: File `b.txt` exists\n")
    agent.story(
        step(task),
        tries(writes("a.txt", "a")),
        step(unticks, adds, writes("b.txt", "sly")),
        tries(writes("b.txt", "b")),
        tries(writes("a.txt", "better")),
        tries(),
        step(says("All is there.")),
    )
    run = project.ralph(*ALL, "--strict")
    assert project.iterations("requirement_id") == [None, "a", None, "two", "a", "a", None], run.text
    assert " ".join(project.iterations("mode")) == "plan build validate build build build validate"
    assert run.code == 0
    assert project.git("log", "--format=%s").count("Did it") == 3
    assert "a validate iteration ticks nothing: 1 task unticked" in run.text
    assert (named(project), "RALPH_DONE" in project.progress_text) == ([], True)


FOURTH = """
import sys
from pathlib import Path
from ralph.commands.run import find_start
from ralph.commands.session import run_session
from ralph.loop.iteration import run_agent_once
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock
from ralph.run.judge import BaseController
from ralph.settings.options import Invocation

class Fourth(BaseController):
    def __init__(self, run):
        self.run = run
    def run_or_await_iteration(self):
        self.run.screen.say("the fourth way")
        return run_agent_once(self.run)

start = find_start(Invocation("feature.md", "build", (), (), None))
file = ProgressFile(start.progress_path, start.state_folder)
held = lock.acquire_lock(lock.working_tree(Path.cwd()))
sys.exit(run_session(start, file, held, Fourth))
"""


def test_the_loop_asks_no_controller_which_one_it_is(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True))
    run = project.ralph(command=(*PYTHON, "-c", FOURTH), env={"RALPH_DELAY": "0"})
    assert run.code == 0, run.text
    assert "the fourth way\n" in run.stdout
    assert "#1 · 1/1 tasks (+1)" in run.stdout


# On the way.

TICKS = step(SEES, ticks="first", file="a.txt")


def shortened(project: Project) -> str:
    """The modes of its iterations, a letter each."""
    return "".join(mode[0] for mode in project.iterations("mode"))


def test_validate_looks_on_the_way_after_so_many_ticks_and_build_continues(project: Project, agent: Agent) -> None:
    """It costs no round, nothing where nothing was ticked since, and is off unless it is asked for."""
    names = ("one", "two", "three", "four", "five", "six", "seven")
    unticks = step(SEES, edits("- [x] one", "- [ ] one (not at its edges)"))
    for asked, how, code, modes in (
        ("build", ("--validate-every", "2"), 0, "bbvbbbvbbvb"),
        ("build", ("--validate-every", "2", "--max-rounds", "1"), 0, "bbvbbbbbb"),
        ("build", (), 0, "bbbbbbb"),
        ("all", ("--max-rounds", "1"), 0, "bbbbbvbbbv"),
        ("all", ("--validate-every", "off"), 0, "bbbbbbbv"),
    ):
        project.has_tasks(*names)
        before, seen = len(project.iterations("mode")), project.root.parent / "seen"
        seen.write_text("")
        looks = modes.find("v", 0, 7)
        steps = [unticks if at == looks else step(SEES) if mode == "v" else TICKS for at, mode in enumerate(modes)]
        steps[-1 - (asked == "all")] = step(SEES, ticks="first", file="a.txt", writes_done=True)
        agent.story(*steps)
        run = project.ralph("feature.md", asked, "--delay", "0", *how)
        assert (run.code, shortened(project)[before:]) == (code, modes), run.text
        told = seen.read_text().splitlines()
        if asked == "build":
            assert set(told) == ({"none", "Mode: validate"} if "v" in modes else {"none"})
        assert named(project) == []


def test_it_looks_too_when_all_below_a_heading_is_done_and_under_jobs_once_nobody_works(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one", "two", "three", "four")
    parts = project.progress_text.replace("- [ ] one", "### First\n\n- [ ] one").replace(
        "- [ ] three", "\n### Second\n\n- [ ] three"
    )
    project.progress.write_text(parts)
    last = step(SEES, ticks="first", file="a.txt", writes_done=True)
    agent.story(TICKS, TICKS, step(SEES), TICKS, last)
    run = project.build("--validate-every", "100")
    assert (run.code, shortened(project)) == (0, "bbvbb"), run.text
    project.has_tasks("one: Make it", "two: Make it", "three: Make it\n  - after: one, two")
    commits = tries(runs("echo > made-by.$$"))
    agent.story(commits, commits, step(), commits)
    run = project.ralph("feature.md", "build", "--strict", "--jobs", "2", "--delay", "0", "--validate-every", "2")
    modes = [mode for mode, counts in project.iterations("mode", "counted")[5:] if counts]
    assert (run.code, modes) == (0, ["build", "build", "validate", "build"]), run.text
    project.has_tasks("one: Make it", "two: Make it", "three: Make it")
    before = len(project.iterations("mode"))
    waits = f"until grep -q '\\[x\\]' {project.progress}; do sleep 0.05; done; echo > made-by.$$"
    agent.story(commits, tries(runs(waits)), step(), commits)
    run = project.ralph("feature.md", "build", "--strict", "--jobs", "2", "--delay", "0", "--validate-every", "1")
    modes = [mode for mode, counts in project.iterations("mode", "counted")[before:] if counts]
    assert (run.code, modes) == (0, ["build", "build", "validate", "build"]), "no task begins while it is due"
