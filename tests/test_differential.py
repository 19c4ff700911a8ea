"""The stories of tests/differential: drawn and played twice by one ralph they are the same to the last fact."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).with_name("differential")))

from comparing import compare
from drawing import draw
from playing import NotContainedError, Played, contained, play
from story import LEFT_BY_CHECKS, Start, Story

RALPH = Path(sys.executable).with_name("ralph")
PLAYED = (7,)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.mark.parametrize("seed", PLAYED)
def test_a_story_is_played_twice_alike(seed: int, tmp_path: Path) -> None:
    """At the third try at the latest: a loaded machine is late now and then, with a signal as with a notice."""
    story = draw(seed, contained=False)
    for tried in range(3):
        one, other = (play(story, tmp_path / f"{side}{tried}", [RALPH]) for side in "ab")
        assert len(one.starts) == len(story.starts)
        assert all(facts["left running"] == "" for facts in one.starts)
        if one.starts == other.starts:
            break
    assert one.starts == other.starts


def test_a_seed_is_one_story() -> None:
    assert [str(draw(seed)) for seed in range(50)] == [str(draw(seed)) for seed in range(50)]
    assert len({str(draw(seed)) for seed in range(50)}) == 50


def test_what_puts_files_back_is_played_only_where_the_machine_is_read_only(tmp_path: Path) -> None:
    story = next(story for story in map(draw, range(100)) if story.contained)
    with nullcontext() if contained() else pytest.raises(NotContainedError):
        play(story, tmp_path / "a", [RALPH])
    assert contained() or not [*tmp_path.iterdir()]


FACTS = ("exit code", "closing", "stderr", "agent", "notices", "journal")
DONE = '{"counted": true, "event": "iteration", "iteration": 1, "summary": "#1 · 1/2 tasks"}'
VERIFY = '{"event": "verify", "iteration": 1, "success": true}'
NOTICE = "event: progress\n  body: Plan: feature\n  Iteration 1 completed\n  #1 · 1/2 tasks · 2 commits"


def told(**of_second: str) -> Played:
    """A story's two starts: the first of one iteration, the second with these facts."""
    nothing = dict.fromkeys(FACTS, "")
    second = {name.replace("_", " "): text for name, text in of_second.items()}
    return Played(starts=[nothing | {"journal": DONE}, nothing | second], screens=["", "--- stderr\n"])


def story(*words: str) -> Story:
    """One of two starts, the second with these words."""
    drawn = draw(1, contained=False)
    return replace(drawn, files={}, environment={}, home={}, starts=(Start(words=()), Start(words=words)))


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ((), {"agent": "agent -p --include-partial-messages"}, {"agent": "agent -p"}),
        ((), {"notices": NOTICE}, {"notices": NOTICE.replace("1 comp", "2 comp").replace("#1", "#2")}),
        ((), {"journal": DONE}, {"journal": DONE.replace(": 1,", ": 2,").replace("#1", "#2")}),
        ((), {"journal": f"{VERIFY}\n{DONE}"}, {"journal": f"{DONE}\n{VERIFY}"}),
        (("feature.md", "20", "plan"), {"exit_code": "0"}, {"exit_code": "2"}),
        (("feature.md", "build", "--max-time", "1h30"), {"exit_code": "0", "agent": "agent"}, {"exit_code": "2"}),
        (("--verify", LEFT_BY_CHECKS), {"stderr": "nothing"}, {"stderr": "something"}),
    ],
)
def test_a_decision_explains(words: tuple[str, ...], old: dict[str, str], new: dict[str, str]) -> None:
    found = compare(story(*words), told(**old), told(**new))
    assert (found.difference, len(found.decisions)) == ("", 1)


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ((), {"agent": "agent -p --include-partial-messages -q"}, {"agent": "agent -p"}),
        ((), {"notices": NOTICE}, {"notices": NOTICE.replace("#1", "#3")}),
        ((), {"notices": NOTICE}, {"notices": NOTICE.replace("1 comp", "2 comp").replace("2 commits", "3 commits")}),
        ((), {"journal": f"{VERIFY}\n{DONE}"}, {"journal": DONE}),
        (("feature.md", "20"), {"exit_code": "0"}, {"exit_code": "2"}),
        (("feature.md", "20", "plan"), {"exit_code": "0"}, {"exit_code": "2", "agent": "agent"}),
        ((), {"stderr": "nothing"}, {"stderr": "something"}),
        ((), {"exit_code": "0"}, {"exit_code": "3"}),
        ((), {"left_running": ""}, {"left_running": "sleep 600"}),
    ],
)
def test_nothing_explains(words: tuple[str, ...], old: dict[str, str], new: dict[str, str]) -> None:
    assert "start 2" in compare(story(*words), told(**old), told(**new)).difference
