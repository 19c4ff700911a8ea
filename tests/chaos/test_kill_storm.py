"""kill -9 at random moments, hundreds of times: nothing lost, nothing left, the same command finishes the plan."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from ralph_driver import Project
from storm import VICTIMS, Storm
from written_down import BY_RENAME, IN_PLACE, TASKS, THE_END

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")

STORMS_AT_ONCE = 3
KILLS = 25
NO_BREAKER = {"RALPH_MAX_FAILURES": "off", "RALPH_MAX_STALLS": "off"}
"""An agent that is killed has failed, and after some of that ralph wants a person."""
RALPH_TOO = [whom for whom, roles in VICTIMS.items() if "ralph" in roles]


def places(project: Project) -> list[Project]:
    """So many repositories in one project, each with the plan."""
    made = []
    for name in map(str, range(STORMS_AT_ONCE)):
        root, outputs = project.root / name, project.outputs / name
        outputs.mkdir()
        shutil.copytree(project.root / ".git", root / ".git")
        shutil.copy(project.root / "feature.md", root)
        made.append(replace(project, root=root, outputs=outputs))
        made[-1].git("config", "maintenance.auto", "false")
    return made


def rage(project: Project, seed: str, saves: str, victims: list[str]) -> None:
    """Some storms at once, each over a repository of its own."""
    everywhere = places(project)
    storms = [
        Storm(place, f"{seed}-{number}", saves=saves, victims=victims, kills=KILLS)
        for number, place in enumerate(everywhere)
    ]
    with ThreadPoolExecutor(STORMS_AT_ONCE) as threads:
        list(threads.map(Storm.rages, storms))
    assert sum(storm.killed for storm in storms) > STORMS_AT_ONCE * KILLS // 2, "a calm storm proves little"
    for place in everywhere:
        assert "\nRALPH_DONE\n" in place.progress_text
        assert {*TASKS, THE_END} <= {*place.git("ls-tree", "--name-only", "HEAD").split()}


def test_whatever_is_killed_the_same_command_finishes_the_plan(project: Project) -> None:
    project.env |= NO_BREAKER
    rage(project, "anything", BY_RENAME, [*VICTIMS])


def test_a_ralph_that_is_killed_again_and_again_does_not_give_up(project: Project) -> None:
    rage(project, "ralph", BY_RENAME, RALPH_TOO)


def test_whatever_is_killed_while_an_agent_saves_in_place(project: Project) -> None:
    """The file is empty then; ralph brings back what it was before the iteration, whose work is done again."""
    project.env |= NO_BREAKER
    rage(project, "in-place", IN_PLACE, [*VICTIMS])
