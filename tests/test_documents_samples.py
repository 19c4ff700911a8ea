"""The output that pages show is what ralph prints today, but for times, costs, hashes and versions."""

import re
import runpy
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT

SAMPLES = runpy.run_path(str(CHECKOUT / "docs" / "samples.py"))


@pytest.mark.parametrize("page", SAMPLES["PAGES"], ids=lambda page: page.name)
def test_the_samples_on_a_page_are_what_ralph_prints(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert len(re.findall("<!-- sample -->", text)) >= 3
    today = SAMPLES["page_with_samples"](page, tmp_path)
    normalized = SAMPLES["normalized"]
    assert normalized(text) == normalized(today), "run `python docs/samples.py`"


def test_what_differs_from_run_to_run_is_all_that_the_comparison_forgives() -> None:
    normalized = SAMPLES["normalized"]
    first = "#1 · 0/2 tasks · 4s · $0.07 · 1a2b3c4"
    assert normalized(first) == normalized("#1 · 0/2 tasks · 1h02m · $1.12 · 4d5e6f7")
    assert normalized(first) != normalized("#1 · 1/2 tasks · 4s · $0.07 · 1a2b3c4")
