"""--strict: the agent proposes, ralph disposes. Whole runs with a scripted agent in a real repository."""

import json
import re
import shutil
import signal as signals
from pathlib import Path

import stories
from http_server import Server
from ralph_driver import Mailbox, Project, Run, eventually, executable, progress_text
from stories import Agent, edits, error_result, fails, hangs, init, marks, raw, runs, step, ticks, tries, writes

TOKEN = re.compile(r"ralph-\d{8}-\d{6}-[0-9a-f]{12}")


def wants(project: Project, text: str) -> None:
    """Writes a progress file with this task list."""
    heading = "## Task List\n\n"
    project.progress.write_text(progress_text().replace(heading, heading + text))


def built(project: Project, *args: str, code: int = 0) -> Run:
    """A run in strict mode, with its exit code."""
    run = project.build("--strict", *args)
    assert run.code == code, run.text
    return run


def listed(project: Project) -> list[str]:
    """The lines of the task list."""
    section = project.progress_text.split("## Task List\n\n")[1].split("\n## ")[0]
    return section.rstrip("\n").split("\n")


def marks_of(project: Project) -> list[str]:
    """Of each task of the top level its mark, and its id if that has three letters."""
    return [line[:9] for line in listed(project) if line.startswith("- ")]


def files_of(project: Project, commit: str = "HEAD") -> list[str]:
    return project.git("show", "--format=", "--name-only", "-z", commit).split("\0")[:-1]


def subjects(project: Project) -> list[str]:
    return project.git("log", "--format=%s").splitlines()


def kept(project: Project) -> list[str]:
    return [path.read_text() for path in (project.state_folders[0] / "kept").iterdir() if path.is_file()]


ONE = "- [ ] one: The first\n  - verify: File `one.txt` exists\n"
CIRCLE = "- [ ] a: A\n  - after: b\n- [ ] b: B\n  - after: a\n"
TWO = "- [ ] two: The second\n  - after: one\n  - verify: Run `grep -q two two.txt` - exits with code 0\n"
OTHER = "- [ ] oth: Another\n"
ODD = ("-rf", "*.py", "new\nline", ":(top)x", ":!y", " ", 'say "x"', "é", "#x", "back\\slash", "a(b) | c")
LIES = (ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"))
KILL = "kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID))"
"""Of ralph: the parent of the supervisor, which is the parent of whoever is the parent."""


def test_tasks_are_ticked_and_committed_one_by_one_with_what_the_agent_changed(project: Project, agent: Agent) -> None:
    """In a commit is neither what the user left uncommitted, nor what is ignored, nor what checks leave behind.

    Nor what a failed try of another task did, nor another plan's progress file.
    """
    project.does(
        "mkdir -p src .git/info ~/.config/git; echo '*.tmp' > .git/info/exclude; echo '*.swp' > ~/.config/git/ignore\n"
        "echo 1 > gone.py; echo 1 > src/b.py; git add gone.py src; git commit -qm before\n"
        "echo > mine.txt; echo > staged.txt; git add staged.txt; echo > later.txt; git add -N later.txt"
    )
    wants(project, TWO + ONE + OTHER)
    other = project.root / "other_PROGRESS.md"
    other.write_text("## Task List\n\n- [ ] a\n")
    moves = runs("rm -r gone.py src; ln -s .. src; mkdir gone.py; echo > gone.py/x; echo > gone.py/y.tmp; echo > a.swp")
    agent.story(
        tries(writes("half.txt", "1"), edits("[ ]", "[x]", file=str(other))),
        tries(writes("other.txt", "1"), said="Other."),
        tries(writes("one.txt", "1\n"), *(writes(name, "x") for name in ODD), said="Add one.txt\n\nIt holds a number."),
        tries(writes("two.txt", "two\n"), moves, said="Added two.txt."),
    )
    built(project, "--verify", "touch of_verify")
    passed = [("oth", True), ("one", True), ("two", True)]
    assert project.iterations("requirement_id", "success") == [("one", False), *passed]
    assert marks_of(project) == ["- [x] two", "- [x] one", "- [x] oth"]
    first = agent.prompts[0]
    assert "one: The first" in first
    assert "File `one.txt` exists" in first
    assert "The second" not in first, "it is given one task"
    assert re.search(r"\nRALPH_DONE\nVerified: \S+ \S+ [0-9a-f]{10}(-dirty-[0-9a-f]{8})?\n", project.progress_text)
    log = project.git("log", "--reverse", "--format=%s|%(trailers:key=Ralph-Task,valueonly,separator=%x2C)")
    assert log.splitlines()[2:] == ["oth: Other|oth", "one: Add one.txt|one", "two: Added two.txt|two"]
    assert files_of(project, "HEAD~2") == ["other.txt"]
    assert {*files_of(project, "HEAD~1")} == {"half.txt", "one.txt", *ODD}
    assert files_of(project) == ["gone.py", "gone.py/x", "src", "src/b.py", "two.txt"]
    untracked = [f"?? {name}" for name in (project.progress.name, "mine.txt", "of_verify", other.name)]
    assert project.git("status", "--porcelain").splitlines() == [" A later.txt", "A  staged.txt", *untracked]
    assert (project.root / "gone.py" / "y.tmp").exists()


def test_a_failed_attempt_tells_the_next_one_why_and_leaves_it_all_there(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """A signal that is missing, a criterion that is not met, a red verify; then all is well."""
    wants(project, ONE + TWO)
    half = writes("half.txt", "1")
    agent.story(tries(half, signals=""), tries(half), tries(*LIES, writes("one.txt", "1")))
    words = ("--max-tries", "off", "--task", "one")
    built(project, *words, "--max-iterations", "2", code=3)
    built(project, *words, "--max-iterations", "1", "--verify", "yes 'a line' | head -99; echo RED; false", code=3)
    assert project.iterations("requirement_id", "success") == [("one", False)] * 3
    failed = [line for line in listed(project) if "failed:" in line]
    assert re.fullmatch(r"  - failed: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d attempt 1: .*", failed[0]), failed
    told = ("it ended without", "`one.txt` does not", f"exited with 1{' / a line' * 9} / RED")
    for line, reason, prompt in zip(failed, told, [*agent.prompts[1:], ""], strict=True):
        assert reason in line
        assert (line.partition(": ")[2] in prompt) == bool(prompt)
    assert marks_of(project) == ["- [ ] one", "- [ ] two"]
    assert "RALPH_DONE" not in project.progress_text
    assert subjects(project) == ["plan"]
    assert not TOKEN.search(project.progress_text)
    first, last = agent.prompts[0], agent.prompts[-1]
    assert TOKEN.findall(first)
    assert set(TOKEN.findall(first)).isdisjoint(TOKEN.findall(last)), "each run has a token of its own"
    script = executable(tmp_path / "plain", 'sed -n "s/^\\(<task-done .*\\)/\\1/p"')
    built(project, "--agent", str(script), *words)
    assert project.iterations("requirement_id", "success")[-1] == ("one", True), "a plain program's word counts too"
    assert listed(project)[:2] == ONE.replace("[ ]", "[x]").rstrip("\n").split("\n")
    assert files_of(project) == ["half.txt", "one.txt"]


def test_what_failed_is_thrown_away_where_that_is_asked_for_but_never_what_is_ignored(
    project: Project, agent: Agent
) -> None:
    """The last try is cut short by its turns; an iteration in which the agent itself fails is none."""
    project.does(
        "printf '.env\nnode_modules/\n.ralph.env\n' > .gitignore; git add .gitignore; git commit -qm rules\n"
        "mkdir node_modules; for one in .env node_modules/x.js .ralph.env mine.txt; do echo '# a secret' > $one; done"
    )
    secrets = [project.root / name for name in (".env", "node_modules/x.js", ".ralph.env")]
    wants(project, ONE.replace("  -", "  - verify: Run `test -e half.txt && touch of_check` - exits with code 0\n  -"))
    hides = "mkdir -p ~/.config/git; echo half.txt > ~/.config/git/ignore"
    spoils = f"{hides}; rm .gitignore; echo > half.txt; echo spoilt > mine.txt; echo gone > feature.md"
    cut = raw(init(), writes("half.txt", "1"), error_result("error_max_turns", "Reached maximum number of turns"))
    agent.story(tries(runs(spoils)), fails(), cut)
    built(project, "--on-failure", "restore", "--max-tries", "2", code=4)
    assert project.iterations("success") == [False] * 3
    assert "- [!] one: The first" in listed(project)
    assert project.git("status", "--porcelain").splitlines() == ["?? feature_PROGRESS.md", "?? mine.txt"]
    assert all(path.read_text() == "# a secret\n" for path in (*secrets, project.root / "mine.txt"))
    thrown = project.git("log", "--glob=refs/ralph", "--not", "main", "--format=", "--name-status").split()
    assert sorted(thrown) == [".gitignore", *"AAAADM", "feature.md", "half.txt", "half.txt", "mine.txt", "of_check"]
    wants(project, ONE)
    agent.story(tries(runs("rm .gitignore; echo > one.txt")))
    built(project)
    assert all(path.read_text() == "# a secret\n" for path in secrets)
    assert project.git("show", "--format=", "--name-status").split() == ["D", ".gitignore", "A", "one.txt"]


def test_three_failures_or_the_agents_word_block_a_task_and_the_others_continue(project: Project, agent: Agent) -> None:
    """Status, log and whoever is away hear of it; the next cron tick says nothing and starts no agent.

    The last subtask has to meet what its task asks for.
    """
    mailbox = Mailbox(project)
    wants(project, ONE + "  - [ ] part: A part\n- [ ] two: The second\n" + OTHER)
    project.progress.write_text(project.progress_text.replace("IN_PROGRESS", "RALPH_DONE"))
    blocked = '<task-blocked session="@SESSION@" id="@TASK@">which number?</task-blocked>'
    agent.story(tries(), tries(signals=blocked), tries(writes("other", "1")), tries(), tries(), tries(signals=blocked))
    run = built(project, "--no-auto-commit", code=4)
    assert "RALPH_DONE refused: 4 tasks not ticked" in run.text, "the user's word does not do, either"
    fails, two, passes = ("part", False), ("two", False), ("oth", True)
    assert project.iterations("requirement_id", "success") == [fails, two, passes, fails, fails, two]
    assert "a part of one: The first" in agent.prompts[0]
    assert marks_of(project) == ["- [ ] one", "- [!] two", "- [x] oth"]
    assert "  - [!] part: A part" in listed(project)
    assert sum("- failed:" in line for line in listed(project)) == 3
    assert "  - blocked: by the agent: which number?" in listed(project)
    assert "part" in run.stdout.splitlines()[-1]
    given_up = "part is blocked: given up after attempt 3: File `one.txt` does not exist"
    for said in ("Ralph Blocked", given_up, "which number?", "change [!] to [ ] in feature_PROGRESS.md"):
        assert said in mailbox.notices[-1]
    assert subjects(project) == ["plan"]
    status = project.ralph("status", "--json")
    assert (status.code, json.loads(status.stdout)[0]["state"]) == (4, "blocked")
    assert "part, attempt 1: " in project.ralph("log", "feature.md").stdout
    assert built(project, code=4).text == ""
    assert len(agent.calls) == 6
    project.progress.write_text(project.progress_text.replace("[!]", "[ ]"))
    assert project.ralph("status", "--json").code == 3, "a start goes on"
    agent.story(tries(writes("one.txt", "1")))
    built(project, "--task", "part")
    assert marks_of(project) == ["- [x] one", "- [ ] two", "- [x] oth"]


def test_what_an_agent_blocked_is_tried_again_after_what_else_can_begin_and_what_the_user_blocked_is_not(
    project: Project, agent: Agent
) -> None:
    """So is that at which agents failed outright twice in a row."""
    wants(project, "- [ ] one: The first\n- [ ] two: The second\n- [ ] thr: The third\n- [!] you: Mine\n")
    blocked = '<task-blocked session="@SESSION@" id="@TASK@">needs thr first</task-blocked>'
    made = tries(runs("grep -o 'reopened: .*' *_PROGRESS.md | tee $(mktemp -u made-XXXXXX)"))
    agent.story(tries(signals=blocked, said="No table yet."), fails(), fails(), made, made, made)
    built(project, "--max-failures", "off", "--history", "h.jsonl", code=4)
    assert project.iterations("requirement_id", "success") == [
        *[("one", False), ("two", False), ("two", False)],
        *[("thr", True), ("one", True), ("two", True)],
    ]
    (why,) = filter(None, (path.read_text() for path in project.root.glob("made-*")))
    assert re.fullmatch(r"reopened: \d{4}-\S+ \S+: it was blocked by the agent: needs thr first\n", why)
    assert marks_of(project) == ["- [x] one", "- [x] two", "- [x] thr", "- [!] you"]
    assert "one is blocked: needs thr first; it said: No table yet." in (project.root / "h.jsonl").read_text()


def test_an_attempt_that_git_does_not_take_or_that_changes_nothing_has_failed(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """The user's git holds the lock of the index for a moment. What changes no file needs somebody who checks it."""
    git, once = shutil.which("git", path=project.env["PATH"]), tmp_path / "once"
    locked = f'*" --intent-to-add "*) [ -e {once} ] || {{ touch {once}; echo "fatal: locked" >&2; exit 128; }} ;;'
    executable(tmp_path / "bin" / "git", f'case " $* " in {locked} esac\nexec {git} "$@"')
    wants(project, "- [ ] one: The first\n")
    agent.story(tries(writes("one.txt", "1")), tries(writes("two.txt", "2")), tries(), tries())
    assert "one, attempt 1: git add fails: locked" in built(project).text
    assert files_of(project) == ["one.txt", "two.txt"]
    wants(project, "- [ ] one: The first\n")
    built(project, "--max-iterations", "2", "--verify", "true", code=3)
    assert "attempt 1: it changed nothing, and nothing checks it" in project.progress_text


def test_a_list_that_cannot_work_is_reported_before_money_is_spent(project: Project, agent: Agent) -> None:
    """A circle, a request to nowhere and a criterion for no machine; then one in which nothing can be begun.

    A plan iteration that makes a circle has failed.
    """
    built(project, "--dry-run", code=4)
    wants(project, TWO + ONE)
    shown = built(project, "--dry-run").stdout
    assert "Your task, one: The first" in shown
    assert TOKEN.search(shown)
    for alone, why in {"two": "two waits for one", "nobody": "there is no task nobody in the list"}.items():
        assert why in built(project, "--task", alone, code=4).text
    criteria = ("GET /x returns 200", "it is clean")
    wants(project, CIRCLE + "".join(f"  - verify: {criterion}\n" for criterion in criteria))
    run = built(project, "--criteria", "strict", code=2)
    told = re.findall(r"feature_PROGRESS.md: line 1\d.*", run.stderr)
    assert len(told) == 3, run.stderr
    for said, line in zip(("wait for each other", "--base-url", "it is clean"), told, strict=True):
        assert said in line
    doctor = project.ralph("doctor", "feature.md", "--strict")
    assert doctor.code == 1, doctor.text
    assert "feature_PROGRESS.md: line 12: these tasks wait for each other: a, b" in doctor.stdout
    wants(project, "- [x] a: A\n- [x] a: B\n")  # all ticked, and wrong
    both = built(project, code=2).stderr, project.ralph("doctor", "feature.md", "--strict").stdout
    assert all("a is the id of another task" in text for text in both), both
    stuck = "- [!] a: A\n  - blocked: no key\n- [ ] b: B\n  - after: a\n"
    wants(project, "- [x] a: A\n")
    run = built(project, "--verify", "false", "--max-failures", "off", code=4)
    assert "every task is ticked, and yet done does not hold" in run.text
    built(project, "--verify", "false", code=4)
    assert "RALPH_BLOCKED: ralph: verify was red before the first task (exited with 1) and no" in project.progress_text
    reasons = {"": "there is no task in the list; write some", stuck: "a is blocked: no key; b waits for a"}
    for text, why in reasons.items():
        wants(project, text)
        run = project.ralph_tty("feature.md", "build", "--strict")
        assert run.code == 4, run.text
        assert f"feature: stuck: {why}" in run.stdout
        assert built(project, code=4).text == ""
    doctor = project.ralph("doctor", "feature.md", "--strict")
    assert "feature: stuck: a is blocked: no key; b waits for a: a run ends at once" in doctor.stdout
    assert "change [!] to [ ] in feature_PROGRESS.md" in doctor.stdout
    assert not any(agent.prompts)
    wants(project, "")
    agent.story(step(adds=CIRCLE.removeprefix("- [ ] ").rstrip("\n")))
    planned = project.plan("--strict")
    assert (planned.code, "wait for each other: a, b" in planned.text) == (1, True), planned.text


def test_an_agent_that_ticks_all_says_done_and_commits_gets_one_task_at_most(project: Project, agent: Agent) -> None:
    """It may write notes and propose tasks, and each try is in the history that it reads.

    What was put back is seen the morning after.
    """
    mailbox = Mailbox(project)
    wants(project, ONE + TWO)
    project.commits("the list")
    history = project.root / "history.jsonl"
    history.write_text('{"requirement_id": "old"}\n')
    proposal = "## Notes\nUse tabs.\n\n## Proposed\n\n- [ ] a third thing\n"
    commits = runs("git add one.txt; git commit -qm mine")
    agent.story(
        tries(edits("## Notes\n", proposal)),
        tries(*LIES, writes("one.txt", "1"), commits, said="Made one.txt."),
        tries(*LIES),
    )
    built(project, "--history", "history.jsonl", "--max-iterations", "2", code=3)
    assert marks_of(project) == ["- [x] one", "- [ ] two"]
    assert "RALPH_DONE" not in project.progress_text
    assert proposal.replace("[ ]", "[x]") in project.progress_text, "what it proposes is its own to tick"
    (tampering,) = [line for line in project.journal() if line["event"] == "tamper"]
    assert (tampering["iteration"], tampering["message"]) == (2, "1 tick, RALPH_DONE, 1 commit")
    seen = [
        mailbox.notices[-1],
        *(project.ralph(*words, "feature.md").stdout for words in (["log"], ["report", "-o-"])),
    ]
    assert all("put back in #2: 1 tick, RALPH_DONE, 1 commit" in text for text in seen)
    assert "put back in #2: " in project.ralph("log", "feature.md", "2").stdout
    assert any("RALPH_DONE" in text for text in kept(project))
    assert subjects(project) == ["one: Made one.txt", "the list", "plan"], "its commit is undone, and its work judged"
    assert project.git("for-each-ref", "--format=%(contents:subject)", "refs/ralph").split() == ["mine"]
    assert "- [x] one: The first" in project.git("show", "HEAD:feature_PROGRESS.md"), "since git tracks it"
    assert files_of(project) == ["feature_PROGRESS.md", "one.txt"]
    old, failed, passed = map(json.loads, history.read_text().splitlines())
    assert old == {"requirement_id": "old"}
    assert list(failed) == ["timestamp", "requirement_id", "success", "message"]
    assert (failed["requirement_id"], failed["success"], "one.txt" in failed["message"]) == ("one", False, True)
    assert (passed["success"], passed["message"]) == (True, "Made one.txt.")
    assert str(history) in agent.prompts[0]
    built(project, "--on-tamper", "abort", code=4)
    assert "RALPH_BLOCKED: ralph: " in project.progress_text
    assert marks_of(project) == ["- [x] one", "- [ ] two"]
    assert built(project, code=4).text == ""


def test_only_holds_without_strict_and_in_commits_too(project: Project, agent: Agent) -> None:
    app = project.root / "app.py"
    project.does(
        "mkdir -p .git/info; echo '*.tmp' > .git/info/exclude; echo app > app.py; git add -A; git commit -qm app\n"
        "git config commit.cleanup strip; echo 'app, and what the user is writing' > app.py"
    )
    project.has_tasks("one")
    acts = writes("app.py", "cheat\n"), writes("tests/a.py", "test\n"), writes("a.tmp", "ignored")
    commits = runs("git add -A; git commit -q --cleanup=verbatim -m 'tests and more\n\n# What'")
    agent.story(step(*acts, ticks="all", writes_done=True, after=[commits]))
    run = project.build("--only", "tests/**")
    assert run.code == 0, run.text
    assert app.read_text() == "app, and what the user is writing\n"
    assert (project.root / "a.tmp").exists()
    assert project.git("show", "HEAD:app.py") == "app\n"
    assert project.git("log", "-1", "--format=%B", "--name-only") == "tests and more\n\n# What\n\n\ntests/a.py\n"


def test_a_signal_puts_the_task_down_also_in_the_middle_of_its_checks(project: Project, agent: Agent) -> None:
    """What the user saves while the agent thinks stays, or is kept where it is in the task list."""
    task = "- [ ] one: The first\n  - verify: Run `sh check.sh` - exits with code 0\n"
    task += "  - verify: GET / returns 200\n" * 2 + "  - begun: 2026-11-20 22:14:03\n"
    wants(project, task)
    half = stories.says(f"\x1b[2JHalf of it.\n{' and so on' * 999}\nRALPH_DONE\n{stories.signal()}")
    hung = tries(half, writes("a.txt", "a"), stories.tool("Bash", command="make all\nmake it"), marks("there"), hangs())
    agent.story(hung, tries(writes("check.sh", "touch there; sleep 60\n")), tries(writes("check.sh", "true\n")))
    with Server() as server:
        server.go.clear()
        words = ("feature.md", "build", "--strict", "--base-url", server.url(), "--history", "h.jsonl")
        run = project.start(*words)
        eventually(lambda: agent.reached("there"))
        assert "- [~] one: The first" in listed(project)
        text = project.progress_text.replace("## Notes\n", "## Notes\nMine.\n")
        project.progress.write_text(text.replace("The first", "The very first"))
        run.signal(signals.SIGTERM)
        assert run.wait().code == -signals.SIGTERM
        assert listed(project) == task.rstrip("\n").split("\n")
        assert "\nMine.\n" in project.progress_text
        assert any("The very first" in text for text in kept(project))
        (first,) = project.iterations("handover")
        assert (len(first.split()) <= 144, TOKEN.search(first), "\x1b" in first) == (True, None, False)
        run = project.start(*words)
        eventually((project.root / "there").exists)
        run.signal(signals.SIGINT)
        assert run.wait().code == -signals.SIGINT
        assert project.iterations("requirement_id", "success") == [("one", False)] * 2
        assert (project.root / "h.jsonl").read_text().count('"success": false') == 2
        assert f"One was cut short before it was ready: {first}\n" in agent.prompts[1]
        left = "it was in: Bash make all …; files it had changed, which may be gone since: a.txt; its last words: "
        assert f"SIGTERM; {left}\N{REPLACEMENT CHARACTER}[2JHalf of it. " in first
        assert listed(project) == task.rstrip("\n").split("\n")
        run = project.start(*words)
        eventually(lambda: server.received)
        run.signal(signals.SIGTERM)
        server.go.set()
        assert run.wait().code == -signals.SIGTERM
    assert len(server.received) == 1, "no check is begun any more"


def test_a_failed_attempt_climbs_the_ladder_of_models_and_a_new_task_begins_at_its_foot(
    project: Project, agent: Agent
) -> None:
    """Also in the next start, since the task's own lines say it; the last rung is the last."""
    wants(project, ONE + OTHER + "  - after: one\n")
    good = tries(writes("one.txt", "1\n"))
    agent.story(tries(), tries(), good, tries(writes("two.txt", "2\n")))
    how = ("--model", " haiku, sonnet ,opus", "--max-tries", "off")
    built(project, *how, "--max-iterations", "1", code=3)
    shown = project.build("--strict", "--dry-run", *how).stdout
    assert "--model sonnet" in shown
    run = built(project, *how)
    models = ["haiku", "sonnet", "opus", "haiku"]
    assert [call.argv[call.argv.index("--model") + 1] for call in agent.calls] == models
    assert project.iterations("model") == models
    summaries = [line for line in run.stdout.splitlines() if line.startswith("#")]
    assert [f" · {model} · " in line for model, line in zip(models[1:], summaries, strict=True)] == [True] * 3
    assert " · opus · " in project.ralph("log", "feature.md").stdout
    page = project.ralph("report", "feature.md", "-o", "-").stdout
    for model, told in {
        "haiku": "1 of 2 first attempts passed, 1 attempt for 1 done task",
        "opus": "0 of 0",
        "sonnet": "0 attempts for 0 done tasks",
    }.items():
        assert told in page.split(f">{model}: $")[1].split("\n")[0]
    agent.story(*[tries()] * 4, good)
    wants(project, "- [ ] new: Another\n  - verify: Run `grep -q 9 one.txt` - exits with code 0\n")
    assert project.build("--strict", *how, "--max-iterations", "4").code == 3
    assert project.iterations("model")[4:] == ["haiku", "sonnet", "opus", "opus"]
