"""`ralph report`: what the page is made of, and where it goes."""

import re
from pathlib import Path
from typing import Any

import pytest
from journals import EVENTFUL, made, records
from ralph_driver import Project, eventually
from stories import Agent, fails, marks, raw, result, step, waits_for


def heights(page: str, title: str, kind: str) -> list[float]:
    """By bar of that chart, how many percent high the part of that kind is."""
    (chart,) = re.findall(rf"<strong>{title}</strong>.*?</figure>", page, re.DOTALL)
    bars = re.findall(r"<li title.*", chart)
    found = [re.search(rf'<i class="{kind}" style="height:([\d.]+)%">', bar) for bar in bars]
    return [float(one[1]) if one else 0.0 for one in found]


def test_a_run_is_reported_outside_of_the_working_directory(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    good = [*step(ticks="one", commits="made")["acts"][:-1], result("One is done.")]
    agent.story(raw(*good), fails("The disk is on fire."), step(marks("there"), waits_for("go"), ticks="all"))
    project.build("2", "--max-stalls", "off")
    before = {path.name for path in project.root.iterdir()}
    run = project.ralph("report", "feature.md")
    assert run.code == 0, run.text
    path = Path(run.stdout.removesuffix("\n"))
    (folder,) = project.state_folders
    assert path == folder / "report.html"
    text = path.read_text()
    assert all(said in text for said in ("One is done.", "The disk is on fire.", "build ended: limit reached"))
    assert before == {path.name for path in project.root.iterdir()}
    assert "report.html  (--open shows it" in project.ralph_tty("report", "feature.md").stdout
    running = project.start("feature.md", "1")
    eventually(lambda: agent.reached("there"))
    text = project.ralph("report", "feature", "-o", "-").stdout
    assert '<span class="running">running</span>' in text, "and while another run goes on"
    agent.let("go")
    running.wait()


def test_the_place_is_a_persons_choice_and_open_shows_it(project: Project, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    opener = tmp_path / "bin" / "xdg-open"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {shown}.new && mv {shown}.new {shown}\n')
    opener.chmod(0o755)
    project.has_tasks("one", "x two")
    file = project.root / "my report.html"
    assert project.ralph("report", "feature.md", "--open", "-o", file.name).code == 0
    assert eventually(lambda: shown.exists() and shown.read_text()) == str(file)
    for text in (file.read_text(), project.ralph("report", "feature.md", "-o", "-").stdout):
        assert text.startswith("<!doctype html>")
        assert "Nothing yet." in text
    assert not project.state_folders, "nothing is made where nothing is needed"


@pytest.mark.parametrize(
    ("iterations", "said"),
    [
        pytest.param([{"cost_usd": 1, "cost_at_least": True}], "<dd>≥ $1.00 <small>", id="a lower bound"),
        pytest.param([EVENTFUL[2]], '<td class="again">build #1', id="one that is due again"),
        pytest.param([EVENTFUL[3]], '<td class="bad">build #1', id="a failure"),
        pytest.param([{"message": "a \x1b[31m\u202eb"}], "a \N{REPLACEMENT CHARACTER}[31m", id="control characters"),
        pytest.param(EVENTFUL, '$0.40 · left 3 · done 2">', id="what a bar stands for"),
        pytest.param(EVENTFUL, '$0.40 · agent 5m00s · verifying 30s">', id="of which parts"),
    ],
)
def test_what_there_was_and_what_went_wrong_is_said(iterations: list[dict[str, Any]], said: str) -> None:
    assert said in made(records(iterations))


@pytest.mark.parametrize(
    ("title", "kind", "top", "values"),
    [
        ("Tasks", "left", 5, (4, 3, 3, 4, 0, 0)),
        ("Tasks", "done", 5, (1, 2, 2, 1, 0, 5)),
        ("Tokens read", "cache_read", 2_580_050, (9e5, 2.5e6, 0, 0, 0, 7e4)),
        ("Tokens written", "output", 9000, (2000, 9000, 0, 0, 0, 700)),
    ],
)
def test_bars_are_as_high_as_the_journal_says(title: str, kind: str, top: float, values: tuple[float, ...]) -> None:
    text = made(records(EVENTFUL))
    assert heights(text, title, kind) == pytest.approx([100 * value / top for value in values], abs=0.01)


def test_runs_are_told_apart_the_newest_first_and_of_very_many_iterations_the_newest_are_shown() -> None:
    many = [{"message": "Did alpha.", "cost_usd": 1}] * 998
    night = records([*many, {"message": "Did beta."}], run="a", ended="limit")
    text = made([*night, *records([{"message": "Did gamma."}], run="b", ended="failures")])
    ends = ["build ended: failures", "build ended: limit"]
    order = [text.index(one) for one in (ends[0], "Did gamma.", ends[1], "Did beta.", "Did alpha.")]
    assert order == sorted(order)
    assert "$998.00" in text, "sums are of all"
    assert "The newest 300 are shown" in text
    assert len(heights(text, "Cost", "cost")) == 300
    assert text.count("<tr><td>") == 300
