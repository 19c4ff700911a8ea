"""`ralph report`: what the page is made of, and where it goes."""

import html.parser
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import EVENTFUL, HOSTILE, KINDS, made, records
from ralph_driver import Project, eventually, progress_text
from stories import Agent, fails, init, marks, raw, result, step, waits_for

from ralph import journal
from ralph.report.figures import groups
from ralph.report.scale import SECONDS, TASKS, TOKENS, USD, Unit, ticks


class Tags(html.parser.HTMLParser):
    """The tags of a page, and that they are closed in turn."""

    LEFT_OPEN = frozenset({"meta", "td", "th", "tr", "li", "thead"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.LEFT_OPEN:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.LEFT_OPEN:
            assert self.open.pop() == tag


def test_a_run_is_reported_outside_of_the_working_directory(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    good = [*step(ticks="one", commits="made")["acts"][:-1], result("One is done.")]
    agent.story(raw(*good), fails("The disk is on fire."))
    project.build("2", "--max-stalls", "off")
    before = {path.name for path in project.root.iterdir()}
    run = project.ralph("report", "feature.md")
    assert run.code == 0, run.text
    path = Path(run.stdout.removesuffix("\n"))
    (folder,) = project.state_folders
    assert (path, path.stat().st_mode & 0o777) == (folder / "report.html", 0o600)
    text = path.read_text()
    assert "One is done." in text
    assert "The disk is on fire." in text
    assert "ended: <b>limit reached</b>" in text
    assert before == {path.name for path in project.root.iterdir()}


def test_a_report_of_a_run_that_goes_on(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one"), step(marks("there"), waits_for("go"), ticks="all", writes_done=True))
    running = project.start("feature.md", "--delay", "0")
    eventually(lambda: agent.reached("there"))
    try:
        text = project.ralph("report", "feature", "-o", "-").stdout
    finally:
        agent.let("go")
    assert running.wait().code == 0
    assert '<span class="state running">running</span>' in text
    assert "build <b>goes on</b>" in text
    after = project.ralph("report", "feature", "-o", "-").stdout
    assert '<span class="state done">' in after
    assert "ended: <b>done</b>" in after


@pytest.mark.parametrize("name", ["out.html", "-"])
def test_the_place_is_a_persons_choice(project: Project, name: str) -> None:
    project.has_tasks("one", "x two")
    run = project.ralph("report", "feature.md", "-o", name)
    assert run.code == 0, run.text
    text = (project.root / name).read_text() if name == "out.html" else run.stdout
    assert text.startswith("<!doctype html>")
    assert "None yet." in text
    assert not project.state_folders, "nothing is made where nothing is needed"


def test_a_pipe_is_written_to_and_not_replaced(project: Project) -> None:
    project.has_tasks("one")
    pipe = project.root / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        run = project.ralph("report", "feature.md", "-o", "pipe")
        if not pipe.is_fifo():
            reader.kill()
        text = reader.communicate()[0].decode()
    assert (run.code, run.stdout) == (0, "pipe\n"), run.text
    assert text.endswith("</html>")
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["-o", "gone/out.html"], "gone/out.html: cannot be written: No such file", id="no such folder"),
        pytest.param(["-o", "."], "cannot be written: Is a directory", id="a folder"),
        pytest.param(["-o", "-", "--open"], "--open shows a file", id="nothing to open"),
    ],
)
def test_what_cannot_be_written_is_said(project: Project, words: list[str], said: str) -> None:
    project.has_tasks("one")
    run = project.ralph("report", "feature.md", *words)
    assert run.code in {1, 2}
    assert said in run.stderr
    assert not run.stdout


def test_a_plan_that_never_ran_has_no_report(project: Project) -> None:
    run = project.ralph("report", "feature.md")
    assert (run.code, run.stdout) == (2, "")
    assert "feature: nothing to report: no feature_PROGRESS.md" in run.stderr


def test_a_journal_that_cannot_be_read_is_said(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    project.build("1")
    (folder,) = project.state_folders
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()
    run = project.ralph("report", "feature.md")
    assert run.code == 1
    assert "journal.jsonl: cannot be read" in run.stderr


def test_open_shows_the_file(project: Project, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    opener = tmp_path / "bin" / "xdg-open"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {shown}.new && mv {shown}.new {shown}\n')
    opener.chmod(0o755)
    project.has_tasks("one")
    assert project.ralph("report", "feature.md", "--open", "-o", "my report.html").code == 0
    assert eventually(lambda: shown.exists() and shown.read_text()) == str(project.root / "my report.html")


def test_a_journal_with_torn_lines_and_foreign_records_still_gives_a_page(project: Project, agent: Agent) -> None:
    agent.story(raw(init(), result("One is done.")), repeat=True)
    project.build("1")
    (folder,) = project.state_folders
    odd: list[dict[str, Any]] = [
        {"event": "iteration"},
        {"event": "run", "run": 7},
        {"tokens": []},
        {"event": "iteration"},
    ]
    odd[-1] |= {
        "cost_usd": "much",
        "tasks": {"done": None},
        "tokens": {"input": -5},
        "duration_s": -1,
        "timestamp": "x",
    }
    with (folder / "journal.jsonl").open("a") as file:
        file.write('{"event": "iteration", "mess\n[1]\n' + "".join(json.dumps(one) + "\n" for one in odd) + '{"torn')
    run = project.ralph("report", "feature.md", "-o", "-")
    assert run.code == 0, run.text
    assert "One is done." in run.stdout
    assert Tags(run.stdout).found.count(("td", {})) == 8, "a row, and none for what is nonsense"


@pytest.mark.parametrize(
    ("iterations", "said"),
    [
        pytest.param([{"tasks": (0, 1, 0, 0)}], "No cost was reported.", id="none has a cost"),
        pytest.param([{"cost_usd": 0.0}], "The cost that was reported is $0.00.", id="nothing was paid"),
        pytest.param([{"cost_usd": 1}], "No tokens were reported.", id="no tokens"),
        pytest.param([{"cost_usd": 1}], "No task was listed.", id="nobody looked at the tasks"),
        pytest.param([{"cost_usd": 1, "cost_at_least": True}], "<dd>≥ $1.00</dd>", id="a lower bound"),
        pytest.param([], "None yet.", id="no iteration"),
        pytest.param(
            [{"ended": "limit", "counted": False, "success": False}], "not counted", id="one that is due again"
        ),
        pytest.param([{"ended": "died", "counted": False, "success": False}], ">died ", id="a death"),
        pytest.param([{}], "<b>has no end on record</b>: ralph was killed", id="a run without an end"),
        pytest.param([{"message": "a \x1b[31m\u202eb"}], "a \N{REPLACEMENT CHARACTER}[31m", id="control characters"),
    ],
)
def test_what_is_not_there_is_said(iterations: list[dict[str, Any]], said: str) -> None:
    assert said in made(records(iterations))


def test_runs_are_told_apart_the_newest_first() -> None:
    night = records(
        [{"message": "Did alpha.", "tasks": (0, 1, 0, 0)}, {"message": "Did beta."}],
        run="a",
        ended="limit",
        message="max-cost $5",
    )
    day = records([{"message": "Did gamma."}], run="b", ended="failures", message="three in a row")
    text = made([*night, *day], "")
    ends = ["ended: <b>failed</b>: three in a row", "ended: <b>limit reached</b>: max-cost $5"]
    order = [ends[0], "Did gamma.", ends[1], "Did beta.", "Did alpha."]
    assert [text.index(one) for one in order] == sorted(text.index(one) for one in order)
    assert text.count("run ended: limit reached") == 1, "the chart says it too"


def test_the_page_needs_nothing_else() -> None:
    text = made(records(EVENTFUL), progress_text("one"))
    tags = Tags(text)
    assert {tag for tag, _ in tags.found}.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "image"})
    attributes = [(name, value or "") for _, attrs in tags.found for name, value in attrs.items()]
    assert not [one for one in attributes if one[0].startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name in {"src", "href", "action", "data"})
    assert not re.search(r"https?:|url\(|@import", text)


def test_ten_thousand_iterations_make_less_than_two_megabytes() -> None:
    full = {"message": "x" * 500, "commits": {"count": 3, "head": "0" * 40}, "cost_at_least": True, "waited_s": 60}
    tasks = progress_text(*(f"x Task {n}: {'word ' * 30}" for n in range(3000)))
    lines = records([{**EVENTFUL[0], **full, "cost_usd": 0.1 + n % 7} for n in range(10_000)], ended="limit")
    text = made(lines, tasks)
    assert len(text.encode()) < 2_000_000
    assert text.count("<tr><td>") == 10_000
    assert "each bar is 50 iterations" in text
    costs = re.search(r'id="chart-cost".*?</figure>', text, re.DOTALL)
    assert costs
    values = [float(value) for value in re.findall(r'<g data-from="\d+" data-to="\d+" data-value="([\d.]+)"', costs[0])]
    assert len(values) == 200
    assert sum(values) == pytest.approx(sum(line.get("cost_usd", 0) for line in lines))


@pytest.mark.parametrize(
    ("count", "size", "bars_"),
    [(1, 1, 1), (400, 1, 400), (401, 2, 201), (999, 5, 200), (10_000, 50, 200), (1_000_000, 5000, 200)],
)
def test_bars_stand_for_equal_groups_of_a_round_size(count: int, size: int, bars_: int) -> None:
    (row,) = journal.rows(journal.records(records([{}])))
    parts = groups([row] * count)
    assert (len(parts), {len(part.rows) for part in parts[:-1]} or {size}) == (bars_, {size})
    assert sum(len(part.rows) for part in parts) == count


@pytest.mark.parametrize(
    ("unit", "largest", "labels"),
    [
        (TASKS, 0, ["0", "1"]),
        (TASKS, 3, ["0", "1", "2", "3"]),
        (TASKS, 15, ["0", "5", "10", "15"]),
        (USD, 0.0123, ["$0.00", "$0.005", "$0.01", "$0.015"]),
        (USD, 1.17, ["$0.00", "$0.50", "$1.00", "$1.50"]),
        (USD, 6455, ["$0.00", "$2k", "$4k", "$6k", "$8k"]),
        (TOKENS, 2_970_000, ["0", "1M", "2M", "3M"]),
        (SECONDS, 0.9, ["0s", "0.5s", "1s"]),
        (SECONDS, 95, ["0s", "30s", "1m", "1m30s", "2m"]),
        (SECONDS, 5400, ["0s", "30m", "1h", "1h30m"]),
        (SECONDS, 9000, ["0s", "1h", "2h", "3h"]),
        (SECONDS, 400_000, ["0s", "48h", "96h", "144h"]),
    ],
)
def test_axes_have_round_ticks(unit: Unit, largest: float, labels: list[str]) -> None:
    assert [unit.tick(value) for value in ticks(largest, unit)] == labels


@given(largest=st.floats(1e-6, 1e19), unit=st.sampled_from([TASKS, USD, TOKENS, SECONDS]))
def test_an_axis_reaches_its_largest_value_and_not_far_beyond(largest: float, unit: Unit) -> None:
    axis = ticks(largest, unit)
    assert axis[0] == 0
    assert 2 <= len(axis) <= 6
    assert axis[-1] >= largest * (1 - 1e-8)
    assert axis[-2] < largest


TEXT = st.text(st.characters(codec=None), max_size=40) | st.just(HOSTILE)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
NUMBER = st.integers(-5, 10**16) | st.floats() | st.none()
COUNTS = st.dictionaries(
    st.sampled_from(["done", "total", "ticked", "new", *KINDS, "count", "head", "added"]), NUMBER | TEXT
)
RECORD = st.fixed_dictionaries(
    {
        "event": st.sampled_from(["iteration", "verify", "run", "wait"]),
        "run": st.sampled_from(["a", "b"]),
        "timestamp": st.sampled_from(["2026-11-20T22:14:03Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
    },
    optional={
        **dict.fromkeys(("mode", "ended", "message", "summary", "transcript"), TEXT | ANYTHING),
        **dict.fromkeys(("duration_s", "waited_s", "cost_usd", "context", "iteration"), NUMBER | ANYTHING),
        **dict.fromkeys(("tasks", "tokens", "commits"), COUNTS | ANYTHING),
        **dict.fromkeys(("success", "counted", "cost_at_least"), st.booleans() | ANYTHING),
    },
)


@given(lines=st.lists(RECORD, max_size=6), text=TEXT.map(progress_text) | st.none(), name=TEXT)
@settings(max_examples=40, deadline=None)
def test_any_records_give_a_page_that_parses(lines: list[dict[str, Any]], text: str | None, name: str) -> None:
    found = Tags(made(lines, text, name=name)).found
    assert {tag for tag, _ in found}.isdisjoint({"script", "img"})
    assert sum(tag == "tr" for tag, _ in found) >= len(journal.rows(journal.records(lines)))
    numbers = [value for _, attrs in found for key in ("height", "width", "y", "x") if (value := attrs.get(key))]
    assert not [value for value in numbers if value.startswith(("-", "nan", "inf")) and value != "-8"]


def test_the_times_are_the_readers(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    project.build("1")
    (first, *_) = journal.records(project.journal())
    for zone, ahead in (("UTC0", 0), ("XYZ-5:30", 19_800)):
        text = project.ralph("report", "feature.md", "-o", "-", env={"TZ": zone}).stdout
        assert f"<td>{time.strftime('%m-%d %H:%M', time.gmtime(first.at + ahead))}<td>" in text
        assert f"Times are in {re.split('[-0]', zone)[0]}." in text


def test_time_that_no_iteration_follows_is_counted_too() -> None:
    """A night of waiting that Ctrl+C ended, and a claim that was verified at a start."""
    lines = records([EVENTFUL[3]], waited_s=4000.0 + 7200, ended="interrupted", message="SIGINT")
    lines.append({**lines[0], "event": "verify", "iteration": 0, "success": True, "duration_s": 90})
    text = made(lines)
    assert "waiting 3h06m" in text
    assert "verifying 1m30s" in text
