"""The output that pages show is what ralph prints today, but for times, costs, hashes and versions."""

import re
import runpy
import shutil
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT

SAMPLES = runpy.run_path(str(CHECKOUT / "docs" / "samples.py"))
PICTURES = runpy.run_path(str(CHECKOUT / "docs" / "pictures.py"))


@pytest.mark.parametrize("page", SAMPLES["PAGES"], ids=lambda page: page.name)
def test_the_samples_on_a_page_are_what_ralph_prints(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert len(re.findall("<!-- sample -->", text)) >= 3
    today = SAMPLES["page_with_samples"](page, tmp_path)
    normalized = SAMPLES["normalized"]
    assert normalized(text) == normalized(today), "run `python docs/samples.py`"


def test_the_pictures_show_what_ralph_shows_today(tmp_path: Path) -> None:
    """And the page that report.png is a picture of; it has lengths in percent, and dates without a year."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")

    def timeless(text: str) -> str:
        text = re.sub(r' style="[^"]*"| textLength="[^"]*"|\b\d\d-\d\d \d\d:\d\d\b', "", SAMPLES["normalized"](text))
        return re.sub(r"\b\d+s\b|(?<=Times are in )\w+|(?<=by ralph )\S+", "_", text)

    for name, today in PICTURES["pictures"](tmp_path).items():
        drawn = (PICTURES["PICTURES"] / name).read_text("utf-8")
        assert timeless(drawn) == timeless(today), f"{name}: run `python docs/pictures.py`"


def test_what_differs_from_run_to_run_is_all_that_the_comparison_forgives() -> None:
    normalized = SAMPLES["normalized"]
    first = "#1 · 0/2 tasks · 4s · $0.07 · 1a2b3c4"
    assert normalized(first) == normalized("#1 · 0/2 tasks · 1h02m · $1.12 · 4d5e6f7")
    assert normalized(first) != normalized("#1 · 1/2 tasks · 4s · $0.07 · 1a2b3c4")
