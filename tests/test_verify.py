"""The verify command (design section 5, under Done): real runs, what it prints, and who dies in the middle of it."""

import re
import shlex
import signal

from offspring import Offspring
from ralph_driver import Mailbox, Project, eventually, paced
from stories import Agent, edits, runs, step

from ralph.plan import progress

CLAIM = step(ticks="all", writes_done=True)


def checks(project: Project, command: str = "true") -> tuple[str, str]:
    """The options for a verify command that counts its runs and then does `command`."""
    return "--verify", f"echo run >> {shlex.quote(str(project.home / 'count'))}; {command}"


def count(project: Project) -> int:
    """How often it has run."""
    return (project.home / "count").read_text().count("run")


def test_what_fails_is_taken_back_with_why_and_what_holds_is_done_and_the_next_run_believes_it(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    """The user's word, too; and the command knows no secret, has nothing to read, and leaves nothing running."""
    project.env["RALPH_TELEGRAM_BOT_TOKEN"] = "s3cr3t"
    looks = "cd; env > env.txt; cat > stdin.txt; cd -; touch build.out"
    red = "{ echo 'FAIL: expected 3, got 4'; exit 7; }"
    mailbox = Mailbox(project)
    check = checks(project, f"{looks}; test -e mended.txt || {red}; {offspring.hidden('server')} &")
    project.has_tasks("x one", status="RALPH_DONE", notes="\nMine.\n")
    mends = step(runs("cp feature_PROGRESS.md seen.md"), file="mended.txt", writes_done=True, commits="m")
    agent.story(CLAIM, mends)
    run = project.build(*check, command=paced(interrupt_s=0.5, terminate_s=0.5))
    assert (run.code, count(project), len(agent.calls), offspring.alive()) == (0, 3, 2, []), run.text
    assert run.stderr.count("RALPH_DONE refused") == 2
    seen, _, section = (project.root / "seen.md").read_text().partition("\n## Verification\n")
    assert "\nIN_PROGRESS\n" in seen
    assert all(words in section for words in ("the verify command", "mended.txt", "exited with 7"))
    assert "\n>     FAIL: expected 3, got 4\n" in section
    seen_by_people = (run.stdout, project.ralph("log", "feature.md").stdout, mailbox.notices[-1])
    assert all("FAIL: expected 3, got 4\n" in text for text in seen_by_people)
    done = rf"\nRALPH_DONE\nVerified: 2[-0-9]+ [:0-9]+ {project.git('rev-parse', 'HEAD')[:10]}\n"
    assert re.search(done, project.progress_text)
    assert project.progress_text.endswith("## Notes\n\nMine.\n")
    assert "s3cr3t" not in (project.home / "env.txt").read_text()
    assert (project.home / "stdin.txt").read_bytes() == b""
    again = project.build(*check)
    assert (again.code, again.text, count(project), len(agent.calls)) == (0, "", 3, 2)


def test_it_is_ended_with_all_it_started_when_its_time_is_over(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    tree = f"{offspring.stubborn('stubborn')} & {offspring.hidden('hidden')} & {offspring.daemon('daemon')}"
    there = "; ".join(map(offspring.until, ("stubborn", "hidden", "daemon")))
    leaps = paced(awake_clock_s=600, marks=project.home, interrupt_s=0.5, terminate_s=0.5)
    project.has_tasks("one")
    agent.story(CLAIM)
    deaf = "trap '' INT TERM HUP; mktemp ~/mark-XXXX; sleep 600"
    command = f"echo begun; touch .git/index.lock; {tree}; {there}; {deaf}"
    run = project.build("1", "--verify-timeout", "5m", "--verify", command, command=leaps)
    assert (run.code, offspring.alive()) == (3, []), run.text
    assert "had not ended after 5m00s" in project.progress_text
    assert "\n>     begun\n" in project.progress_text
    assert not (project.root / ".git" / "index.lock").exists(), "else the next iteration cannot commit"


def test_a_signal_in_the_middle_leaves_the_claim_for_the_next_run_which_verifies_it_once(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    """That it is verified is ralph's word alone."""
    project.has_tasks("one")
    forges = step(edits("IN_PROGRESS", "RALPH_DONE\nVerified: 2026-11-20 22:14:03 0123456789"), ticks="all")
    agent.story(forges, forges)
    begun = "grep -q RALPH_DONE feature_PROGRESS.md || exit 1"
    command = f"{begun}; {offspring.hidden('hidden')} & {offspring.sleeper('check')}"
    running = project.start("feature.md", "build", "--verify", command, command=paced(interrupt_s=0.5))
    eventually(lambda: offspring.alive() == ["check", "hidden"] or running.poll() is not None)
    running.signal(signal.SIGINT)
    run = running.wait()
    assert (run.code, offspring.alive()) == (-signal.SIGINT, []), run.text
    assert "\nRALPH_DONE\n\n" in project.progress_text
    mailbox, check = Mailbox(project), checks(project)
    for _ in range(2):
        run = project.build(*check)
        assert (run.code, count(project), len(agent.calls)) == (0, 1, 1), run.text
        assert "\nRALPH_DONE\nVerified: " in project.progress_text
    assert mailbox.notices == [], "nothing was done, so nobody is told"
    project.has_tasks("one")
    assert (project.build().code, len(agent.calls), "Verified: " in project.progress_text) == (0, 2, False)


def test_what_the_user_asks_for_while_it_runs_keeps_the_run_going(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(CLAIM, CLAIM, CLAIM)
    adds = r"sed -i 's/^- \[x\] one/&\n- [ ] two/' feature_PROGRESS.md"
    asks = r"printf '\n## Messages\n\nIn blue, please.\n' >> feature_PROGRESS.md"
    run = project.build(*checks(project, f"case $(wc -l < ~/count) in 2) {adds};; 3) {asks};; esac"))
    assert (run.code, count(project), len(agent.calls), "refused" in run.text) == (0, 4, 3, False), run.text
    assert "ralph: back to work: two came while it was verified" in run.stderr


NASTY = rb"""
printf '\033]0;title\007\033[31mred\033[0m\000\377\n'
printf '```\n# Heading\nRALPH_DONE\nRALPH_BLOCKED: no\n- [ ] no task\n- [x] none\n## Verification\n> ```\n'
sed -i 's/RALPH_DONE/&\nVerified: x/' feature_PROGRESS.md
echo mine >> feature_PROGRESS.md
exit 3
"""


def test_whatever_it_prints_is_quoted_and_means_nothing(project: Project, agent: Agent) -> None:
    """And what it does to the progress file is no word of ralph's."""
    script = project.home / "check.sh"
    script.write_bytes(b"yes 'a line of it' | head -c 5200000\n" + NASTY)
    project.has_tasks("one", notes="\n```\nan open fence\n")
    agent.story(CLAIM)
    run = project.build("1", "--verify", f"sh {script}")
    assert run.code == 3, run.text
    now = progress.parse(project.progress.read_bytes())
    assert (now.done, now.blocked, now.ticked, len(now.tasks), now.elsewhere) == (False, None, 1, 1, [])
    assert "\n>     red\N{REPLACEMENT CHARACTER}\n" in project.progress_text
    assert not set(project.progress_text) & set("\x1b\0\x07")
    assert "\nVerified: x\n" not in project.progress_text
    assert project.progress.stat().st_size < 10_000
    (log,) = [data for name, data in project.transcripts().items() if name.endswith("0001.verify.log") and data]
    assert len(log) > 5_000_000, "all of it is there for the user"
    agent.story(step(file="made.txt", writes_done=True))
    assert project.build("--verify", "rm feature_PROGRESS.md").code == 0
    assert re.search(r"^Verified: .* [0-9a-f]{10}-dirty-[0-9a-f]{8}$", project.progress_text, re.MULTILINE), (
        "not committed"
    )
    assert project.progress_text.endswith("\n```\nan open fence\nmine\nmine\n")


def test_what_it_leaves_is_not_progress_of_an_agent_that_does_nothing(project: Project, agent: Agent) -> None:
    """It claims and does nothing in turns, while each check leaves a new file behind."""
    project.has_tasks("x one")
    agent.story(*[step(writes_done=True), step()] * 4)
    run = project.build("--max-stalls", "3", "--verify", "date +%N >> check.out; exit 1")
    assert (run.code, len(agent.calls)) == (4, 3), run.text
