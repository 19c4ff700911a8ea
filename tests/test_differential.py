"""The stories of tests/differential: drawn and played twice by one ralph they are the same to the last fact."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).with_name("differential")))

from drawing import draw
from playing import NotContainedError, contained, play

RALPH = Path(sys.executable).with_name("ralph")
PLAYED = (3, 5, 7, 11, 13)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.mark.parametrize("seed", PLAYED)
def test_a_story_is_played_twice_alike(seed: int, tmp_path: Path) -> None:
    story = draw(seed, contained=False)
    one, other = (play(story, tmp_path / side, [RALPH]) for side in ("a", "b"))
    assert one.starts == other.starts
    assert len(one.starts) == len(story.starts)
    assert all(facts["left running"] == "" for facts in one.starts)


def test_a_seed_is_one_story() -> None:
    assert [str(draw(seed)) for seed in range(50)] == [str(draw(seed)) for seed in range(50)]
    assert len({str(draw(seed)) for seed in range(50)}) == 50


def test_what_puts_files_back_is_played_only_where_the_machine_is_read_only(tmp_path: Path) -> None:
    story = next(story for story in map(draw, range(100)) if story.contained)
    with nullcontext() if contained() else pytest.raises(NotContainedError):
        play(story, tmp_path / "a", [RALPH])
    assert contained() or not [*tmp_path.iterdir()]
