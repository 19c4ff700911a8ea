"""The page of `ralph report`: what it is made of, and what a browser shows on a phone, a tablet and a desk."""

import html
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import progress_text

from ralph.commands import report
from ralph.commands.plans import Plan, PlanDetails
from ralph.plan import progress
from ralph.store import journal

BEGAN = 1_795_215_600
KINDS = ("input", "output", "cache_read", "cache_write")
EVENTFUL: list[dict[str, Any]] = [
    {"cost_usd": 0.4, "duration_s": 300, "tasks": (1, 5, True), "tokens": (100, 2000, 900_000, 40_000)},
    {"cost_usd": 1.25, "duration_s": 752, "tasks": (2, 5, True), "tokens": (50, 9000, 2_500_000, 80_000)},
    {"cost_usd": 0.02, "duration_s": 20, "tasks": (2, 5, False), "success": False, "counted": False, "ended": "limit"},
    {"cost_usd": 0.6, "duration_s": 420, "waited_s": 4000, "tasks": (1, 5, True), "success": False, "ended": "failed"},
    {"cost_at_least": True, "duration_s": 60, "success": False, "counted": False, "ended": "died"},
    {"cost_usd": 0.33, "duration_s": 200, "tasks": (5, 5, True), "tokens": (7, 700, 70_000, 7_000)},
]
EVIL = "</script></style></title><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x9b\u202eevil?"
LONG = "a_name_without_any_place_to_break_it_" * 12
WIDTHS = (360, 768, 1600)


def records(iterations: list[dict[str, Any]], *, run: str = "r", **end: Any) -> list[dict[str, Any]]:
    """A journal of these iterations, each ten minutes after the one before; the good ones are verified in 30 s."""
    lines = []
    for number, given in enumerate(iterations, 1):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN + 600 * number))
        common = {"timestamp": stamp, "run": run, "mode": "build", "iteration": number}
        line: dict[str, Any] = {"success": True, "counted": True, "ended": "ok", "message": f"Did {number}."}
        line |= {"summary": f"#{number} · 2/5 tasks (+1) · 1 commit · 5m00s · $0.40", **given}
        line |= dict(zip(("done", "total", "moved"), line.pop("tasks", ()), strict=False))
        line |= dict(zip(KINDS, line.pop("tokens", ()), strict=False))
        lines.append({**common, "event": "iteration", **line})
        if line["success"]:
            lines.append({**common, "event": "verify", "success": True, "duration_s": 30})
    return [*lines, *([{**common, "event": "run", "success": False, "summary": end["ended"], **end}] if end else [])]


def made(lines: list[dict[str, Any]], text: str = "", *, name: str = "feature", why: str = "") -> str:
    """The report of such a journal and of such a progress file."""
    seen = PlanDetails(
        plan=Plan(name=name, path=Path("feature.md"), progress_path=Path("feature_PROGRESS.md")),
        state="stopped",
        why=why,
        next_step_hint="",
        holder=None,
        progress=progress.parse(text.encode()),
        records=journal.parse_all_records(lines),
    )
    return report.render_page(seen).decode()


def heights(page: str, title: str, kind: str) -> list[float]:
    """How many percent high the parts of that kind are in the bars of that chart."""
    (chart,) = re.findall(rf"<h3>{title}</h3>.*?</figure>", page, re.DOTALL)
    return [float(one) for one in re.findall(rf'<b class="{kind}" style="height:([\d.]+)%">', chart)]


def test_the_newest_run_comes_first_and_its_bars_are_as_high_as_the_journal_says() -> None:
    """Of a plan of very many iterations."""
    many: list[dict[str, Any]] = [*[{"message": "Did alpha.", "cost_usd": 1}] * 998, {"message": "Did beta."}]
    text = made([*records(many, run="a", ended="limit"), *records(EVENTFUL, run="b", ended="failures")])
    ends = ["build ended: failures", "build ended: limit"]
    order = [text.index(one) for one in (ends[0], "Did 6.", ends[1], "Did beta.", "Did alpha.")]
    assert order == sorted(order)
    for said in (
        "Cost: ≥ $1000.60 <small>",  # sums are of all
        "At most the newest 300 iterations; `ralph log feature` has all of them.",
        '<li class="iteration again">2026-11-20 23:30 build #3',
        '<li class="iteration bad">2026-11-20 23:40 build #4',
        '$0.40 · done 2 · left 3">',
        '$0.40 · agent 5m00s · verifying 30s">',
    ):
        assert said in text, said
    untold = made(records([{}]))
    assert "Cost: not reported <" in untold
    assert "Tokens: not reported <" in untold
    for title, kind, top, values in (
        ("Tasks", "left", 5, (4, 3, 3, 4)),
        ("Tasks", "done", 5, (1, 2, 2, 1, 5)),  # at the foot, in the strong color: a finished plan looks finished
        ("Tokens read", "cache read", 2_580_050, (9e5, 2.5e6, 7e4)),
        ("Tokens written", "output", 9000, (2000, 9000, 700)),
    ):
        percent = [100 * value / top for value in values]
        assert heights(text, title, kind) == pytest.approx(percent, abs=0.01)


def test_it_says_how_many_attempts_the_tasks_took_and_of_a_plan_that_never_ran_what_comes_next() -> None:
    tries = [{"success": False}, {}, {}]
    lines = records([{**one, "requirement_id": name} for one, name in zip(tries, ("a", "a", "b"), strict=True)])
    page = made(lines, progress_text("x a: first", "x b: second", "c: third"))
    assert "Model not reported: $0.00 <small>1 of 2 first attempts passed, 3 attempts for 2 done tasks<" in page
    assert '<li class="done">[x] a: first <small>2 attempts</small>' in page
    assert '<li class="done">[x] b: second <small></small>' in page
    assert '<li class="">[ ] c: third <small></small>' in page
    empty = made([])
    assert "Nothing yet." in empty
    assert "Cost:" not in empty


LOOK = """<pre></pre><script>onload = () => {
  const boxes = (page, root) => [...root.querySelectorAll("*")].flatMap(one => [...one.childNodes])
    .filter(one => one.nodeType === 3 && one.data.trim()).map(one => {
      const range = page.createRange(); range.selectNodeContents(one);
      return [one.data.trim(), [...range.getClientRects()].filter(box => box.width)] });
  const touch = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > .5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > .5;
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, overlaps = [], outside = [], figures = [...page.querySelectorAll("figure, ul")];
    for (const figure of figures) {
      const found = boxes(page, figure), edge = figure.getBoundingClientRect();
      found.forEach(([text, mine], at) => {
        if (mine.some(box => box.left < edge.left || box.right > edge.right)) outside.push(text);
        for (const [other, its] of found.slice(at + 1))
          if (mine.some(a => its.some(b => touch(a, b)))) overlaps.push([text, other]) }) }
    return {overlaps, outside, figures: figures.length, width: page.documentElement.scrollWidth,
      foreign: page.querySelectorAll("img, script").length,
      asked: frame.contentWindow.performance.getEntriesByType("resource").length,
      last: [...page.querySelectorAll("li")].pop().textContent} });
  document.querySelector("pre").textContent = JSON.stringify(seen) }</script>"""
"""What a page that holds the report at several widths finds out about it."""


def test_in_a_browser_no_label_touches_another_nothing_sticks_out_and_the_agents_words_do_nothing(
    tmp_path: Path,
) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    evil = {**EVENTFUL[0], "message": EVIL, "mode": EVIL, "ended": EVIL}
    pages = {
        "some": made(records(EVENTFUL), progress_text("x one", "two")),
        "thousands": made(records([{**EVENTFUL[0], "cost_usd": 180}] * 1_500)),
        "long": made(records([{**EVENTFUL[0], "message": LONG}], ended=LONG), progress_text(LONG), name=LONG, why=LONG),
        "hostile": made(records([evil], ended=EVIL, message=EVIL), progress_text(EVIL), name=EVIL, why=EVIL),
    }
    each = [(name, width) for name in pages for width in WIDTHS]
    frames = [f'<iframe srcdoc="{html.escape(pages[name])}" style="width:{width}px;border:0">' for name, width in each]
    file = tmp_path / "frames.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + "</iframe>".join([*frames, LOOK]))
    argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run([*argv, "--dump-dom", file.as_uri()], check=True, capture_output=True, text=True, timeout=300)
    seen = dict(zip(each, json.loads(html.unescape(done.stdout.split("<pre>")[-1].split("</pre>")[0])), strict=True))
    for (name, width), one in seen.items():
        assert (one["figures"], one["overlaps"], one["outside"]) == (8, [], []), (name, width)
        assert one["width"] == width
        assert one["foreign"] + one["asked"] == 0, "no picture, no script, nothing of another place"
    told = seen["hostile", WIDTHS[0]]["last"]
    assert "</script></style></title><img src=x onerror=alert(1)>\"'&amp;" in told
