"""Two hundred starts at once on one plan, as a cron that was held up for hours: one runs."""

from ralph_driver import Project, eventually
from ralphs import ralphs_in
from stories import Agent, step, waits_for

BUILD = ("feature.md", "build", "--delay", "0")
LOCKED = 75
STARTS = 200


def test_of_two_hundred_starts_at_once_one_runs_and_the_others_leave_in_silence(project: Project, agent: Agent) -> None:
    """There is no progress file yet either: one of them makes it."""
    agent.story(step(waits_for("go"), writes_done=True))
    with ralphs_in(project.root, project.env, project.outputs) as ralphs:
        pids = ralphs.start_many(STARTS, *BUILD)
        eventually(lambda: len(ralphs.codes()) == STARTS - 1, 60)
        agent.let("go")
        (winner,) = set(pids) - ralphs.codes().keys()
        assert ralphs.code(winner) == 0
        assert sorted(ralphs.codes().values()) == [0] + [LOCKED] * (STARTS - 1)
        assert {ralphs.said(pid) for pid in pids if pid != winner} == {""}
        assert "ralph: done" in ralphs.said(winner)
    assert len(agent.calls) == 1
    assert [path.name for path in project.root.iterdir() if "PROGRESS" in path.name] == ["feature_PROGRESS.md"]
