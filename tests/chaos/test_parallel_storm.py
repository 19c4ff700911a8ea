"""kill -9, TERM and INT of whatever works under --jobs, with roles, while the user commits: nothing lost or doubled.

The coordinator, attempts, supervisors, the ralphs and the agents in the clones: each may be the next one that dies.
"""

import contextlib
import os
import random
import re
import time
from signal import SIGINT, SIGKILL, SIGTERM

import pytest
from ralph_driver import LONG, Project, executable, marked

KILLS = 150 if LONG else 6
TASKS = [f"t{number}" for number in range(1, 61 if LONG else 6)]
AGENT = r"""
prompt=$(cat)
signal=$(printf '%s' "$prompt" | grep -o '<task-done session="ralph-[^<>]*>[^<>]*</task-done>' | tail -n 1)
task=${signal#*>}; task=${task%<*}
sleep 0.$(( $$ % 5 ))
case $prompt in
*"You review"*) [ $(( $$ % 9 )) != 0 ] || exit 3 ;;
*)
  case $(( $$ % 9 )) in
  0) exit 3 ;;
  1) touch red.txt ;;
  2) echo "$task $$" >> shared.txt ;;
  3) git add -A; git commit -qm cheat ;;
  esac
  echo "$task by $$" > $task.txt ;;
esac
printf 'Made it.\n\n%s\n' "$signal"
"""
UNLIMITED = [word for name in ("tries", "failures", "stalls") for word in (f"--max-{name}", "off")]
HOW = ("--jobs", "3", "--landing-window", "2", "--roles", "build,review", "--verify", "! test -e red.txt", *UNLIMITED)


def strike(project: Project, coordinator: int, chance: random.Random) -> None:
    """Ends one process of the run: half of the time the coordinator."""
    others = [pid for pid in marked(project.env["TEST_MARK"]) if pid not in (coordinator, os.getpid())]
    if chance.random() < 0.5 or not others:
        number, pid = chance.choice([SIGKILL, SIGKILL, SIGTERM, SIGINT]), coordinator
    else:
        number, pid = SIGKILL, chance.choice(others)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.parametrize("seed", range(2 if LONG else 1))
def test_whoever_dies_each_task_is_merged_once_and_each_commit_has_passed(project: Project, seed: int) -> None:
    chance = random.Random(seed)
    agent = executable(project.home / "claude", AGENT)
    project.has_tasks(*(f"{task}: Make it" for task in TASKS))
    owns, kills = [], 0
    words = ("feature.md", "build", "--strict", "--agent", str(agent), *HOW)
    while kills < KILLS:
        running = project.start(*words)
        while kills < KILLS and running.process.poll() is None:
            time.sleep(chance.uniform(0.1, 1.5))  # when it strikes is what the storm is about
            strike(project, running.pid, chance)
            kills += 1
            if chance.random() < 0.3:
                owns.append(f"own{kills}.txt")
                commit = f"git add {owns[-1]} && git commit -qm own {owns[-1]}"
                project.does(f"echo > {owns[-1]}; until {commit}; do sleep 0.05; done")  # ralph's git may hold a lock
        if running.process.poll() is None and kills >= KILLS:
            break
        assert "Traceback" not in running.wait().text
    run = running.wait(300)
    while run.code != 0:
        kills += 1
        assert kills < KILLS + 20, run.text
        project.progress.write_text(re.sub(r"(?m)^RALPH_BLOCKED.*\n", "", project.progress_text))
        run = project.ralph(*words, timeout_s=300)
    merged = re.findall(r"(?m)^Ralph-Task: (.+)$", project.git("log", "--format=%B"))
    assert sorted(merged) == sorted(TASKS), "each once"
    for commit in project.git("rev-list", "HEAD").split():
        assert "red.txt" not in project.git("ls-tree", "--name-only", commit).split(), "each has passed"
    there = set(project.git("ls-tree", "--name-only", "HEAD").split())
    assert there >= {*owns, *(f"{task}.txt" for task in TASKS)}
    assert "\nRALPH_DONE\n" in project.progress_text
    assert not project.git("for-each-ref", "refs/ralph/queue")
    assert not marked(project.env["TEST_MARK"])
