"""`ralph report` as a browser shows it, on a phone, on a tablet and on a desk."""

import html
import json
import shutil
import subprocess
from typing import Any

import pytest
from journals import EVENTFUL, HOSTILE, made, records
from ralph_driver import progress_text

WIDTHS = (360, 768, 1600)
LONG = "a_name_without_any_place_to_break_it_" * 12
EVIL = HOSTILE.replace("\x00", "").encode(errors="replace").decode()
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


def pages() -> dict[str, str]:
    """Reports of every kind: made when they are looked at, for they take a second."""
    return {
        "some": made(records(EVENTFUL), progress_text("x one", "two")),
        "many": made(records([{**EVENTFUL[1], "cost_usd": 180} for _ in range(249)])),
        "thousands": made(records([{**EVENTFUL[1], "cost_usd": 9} for _ in range(1_500)])),
        "long words": made(
            records([{**EVENTFUL[0], "message": LONG}], ended=LONG), progress_text(LONG), name=LONG, why=LONG
        ),
        "hostile": made(
            records([{**EVENTFUL[0], "message": EVIL, "mode": EVIL, "ended": EVIL}], ended=EVIL, message=EVIL),
            progress_text(EVIL),
            name=EVIL,
            why=EVIL,
        ),
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, Any]]:
    """What there is to see of each report at each width."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("browser")
    made_pages = pages()
    each = [(name, width) for name in made_pages for width in WIDTHS]
    frames = [
        f'<iframe srcdoc="{html.escape(made_pages[name])}" style="width:{width}px;border:0">' for name, width in each
    ]
    file = folder / "frames.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + "</iframe>".join([*frames, LOOK]))
    argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300)
    found = json.loads(html.unescape(done.stdout.split("<pre>")[-1].split("</pre>")[0]))
    return dict(zip(each, found, strict=True))


def test_no_label_touches_another_and_nothing_sticks_out(seen: dict[tuple[str, int], dict[str, Any]]) -> None:
    for (name, width), one in seen.items():
        assert (one["figures"], one["overlaps"], one["outside"]) == (6, [], []), (name, width)
        assert one["width"] == width
        assert one["labels"] >= 5, "one for each chart"


def test_the_agents_words_do_nothing_and_nothing_is_asked_for(seen: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert [one["foreign"] + one["asked"] for one in seen.values()] == [0] * len(seen)
    last = seen["hostile", WIDTHS[0]]["last"]
    assert "</script></style></title><img src=x onerror=alert(1)>\"'&amp;" in last
