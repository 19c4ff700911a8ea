"""`ralph report` as a browser shows it, on a phone, on a tablet and on a desk."""

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from journals import EVENTFUL, HOSTILE, made, records
from ralph_driver import progress_text

WIDTHS = (360, 768, 1600)
LONG = "a_name_without_any_place_to_break_it_" * 12
LOOK = """<pre></pre><script>onload = () => {
  const boxes = (page, root) => [...root.querySelectorAll("*")].flatMap(one => [...one.childNodes])
    .filter(one => one.nodeType === 3 && one.data.trim()).map(one => {
      const range = page.createRange(); range.selectNodeContents(one);
      return [one.data.trim(), [...range.getClientRects()].filter(box => box.width)] });
  const touch = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > .5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > .5;
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, overlaps = [], outside = [], figures = [...page.querySelectorAll("figure, dl")];
    for (const figure of figures) {
      const found = boxes(page, figure), edge = figure.getBoundingClientRect();
      found.forEach(([text, mine], at) => {
        if (mine.some(box => box.left < edge.left || box.right > edge.right)) outside.push(text);
        for (const [other, its] of found.slice(at + 1))
          if (mine.some(a => its.some(b => touch(a, b)))) overlaps.push([text, other]) }) }
    return {overlaps, outside, figures: figures.length, width: page.documentElement.scrollWidth,
      labels: page.querySelectorAll("ol b").length, foreign: page.querySelectorAll("img, script").length,
      asked: frame.contentWindow.performance.getEntriesByType("resource").length,
      last: page.querySelector("td:last-child").textContent} });
  document.querySelector("pre").textContent = JSON.stringify(seen) }</script>"""
"""What a page that holds the report at several widths finds out about it."""


def look(page: str, folder: Path) -> list[dict[str, Any]]:
    """What there is to see of a report at each width."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    frames = [f'<iframe srcdoc="{html.escape(page)}" style="width:{width}px;border:0"></iframe>' for width in WIDTHS]
    file = folder / "frames.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + "".join(frames) + LOOK)
    argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
    found: list[dict[str, Any]] = json.loads(html.unescape(done.stdout.split("<pre>")[-1].split("</pre>")[0]))
    return found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(made(records(EVENTFUL), progress_text("x one", "two")), id="some"),
        pytest.param(made(records([{**EVENTFUL[1], "cost_usd": 180} for _ in range(399)])), id="many"),
        pytest.param(made(records([{**EVENTFUL[1], "cost_usd": 9} for _ in range(12_500)])), id="thousands"),
        pytest.param(
            made(records([{**EVENTFUL[0], "message": LONG}], ended=LONG), progress_text(LONG), name=LONG, why=LONG),
            id="long words",
        ),
    ],
)
def test_no_label_touches_another_and_nothing_sticks_out(page: str, tmp_path: Path) -> None:
    for width, seen in zip(WIDTHS, look(page, tmp_path), strict=True):
        assert (seen["figures"], seen["overlaps"], seen["outside"]) == (9, [], []), width
        assert seen["width"] == width
        assert seen["labels"] >= 8, "one for each chart"
        assert seen["asked"] == 0


def test_the_agents_words_do_nothing(tmp_path: Path) -> None:
    words = HOSTILE.replace("\x00", "").encode(errors="replace").decode()
    lines = records([{**EVENTFUL[0], "message": words, "mode": words, "ended": words}], ended=words, message=words)
    for seen in look(made(lines, progress_text(words), name=words, why=words), tmp_path):
        assert seen["foreign"] == seen["asked"] == 0
        assert seen["last"].startswith("</script></style></title><img src=x onerror=alert(1)>\"'&amp;")
