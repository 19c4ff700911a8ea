"""`ralph report` as a browser shows it, on a desk and on a phone, by day and by night."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import browser as chromium
import pytest
from browser import Browser
from journals import EVENTFUL, HOSTILE, KINDS, made, records
from ralph_driver import progress_text

from ralph.standing import Standing


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = chromium.program()
    if found is None:
        pytest.skip("chromium is not installed")
    with chromium.started(found, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The report of the eventful journal."""
    path = tmp_path / "report.html"
    lines = records(EVENTFUL, ended="limit", message="max-iterations 6")
    path.write_text(made(lines, progress_text("x one", "two", "three", "four", "five")))
    return path


MEASURE = """(name => {
  const figure = document.getElementById("chart-" + name), plot = figure.querySelector(".plot").getBoundingClientRect();
  const ticks = [...figure.querySelectorAll("text.y")].map(one => {
    const box = one.getBoundingClientRect(); return [one.textContent, plot.bottom - (box.top + box.bottom) / 2] });
  const bars = [...figure.querySelectorAll(".plot > g")].map(one => ({
    data: {...one.dataset}, tip: one.querySelector("title").textContent,
    parts: [...one.querySelectorAll("rect:not(.hit)")].map(part => {
      const box = part.getBoundingClientRect();
      return {kind: part.getAttribute("class"), height: box.height, foot: plot.bottom - box.bottom,
              left: box.left - plot.left, right: box.right - plot.left}})}));
  return {ticks, bars, width: plot.width, height: plot.height};
})"""
UNITS = {"": 1, "k": 1e3, "M": 1e6, "s": 1, "m": 60, "h": 3600}


def tick(label: str) -> float:
    """What a label of an axis says."""
    parts = re.findall(r"([\d.]+)([a-zA-Z]?)", label)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def bars(browser: Browser, name: str) -> list[dict[str, float]]:
    """By bar, what each of its parts measures on the scale that the axis shows."""
    seen = browser.value(f"{MEASURE}('{name}')")
    (low, low_at), (high, high_at) = [(tick(label), at) for label, at in (seen["ticks"][0], seen["ticks"][-1])]
    assert low == 0
    per_pixel = (high - low) / (high_at - low_at)
    assert [tick(label) for label, _ in seen["ticks"]] == pytest.approx(
        [(at - low_at) * per_pixel for _, at in seen["ticks"]], abs=per_pixel
    ), "equal steps"
    assert [(bar["data"]["from"], bar["data"]["to"]) for bar in seen["bars"]] == [(str(n), str(n)) for n in range(1, 7)]
    wide = seen["width"] / len(seen["bars"])
    for at, bar in enumerate(seen["bars"]):
        stacked = 0.0
        for part in bar["parts"]:
            assert at * wide - 1 <= part["left"] < part["right"] <= (at + 1) * wide + 1, "each in its place"
            assert part["foot"] == pytest.approx(stacked, abs=0.1), "each stands on the one below"
            stacked += part["height"]
        assert stacked * per_pixel == pytest.approx(float(bar["data"]["value"]), abs=per_pixel / 5)
    return [{part["kind"]: part["height"] * per_pixel for part in bar["parts"]} for bar in seen["bars"]]


def sums(values: list[float]) -> list[float]:
    return list(itertools.accumulate(values))


def of_tokens(index: int) -> list[float]:
    return [(one.get("tokens") or (0, 0, 0, 0))[index] for one in EVENTFUL]


COSTS = [one["cost_usd"] or 0.0 for one in EVENTFUL]
TIMES: dict[str, list[float]] = {
    "agent": [one["duration_s"] for one in EVENTFUL],
    "waiting": [one.get("waited_s", 0) for one in EVENTFUL],
    "verifying": [30 if one.get("success", True) else 0 for one in EVENTFUL],
}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param("tasks", {"left": [4, 3, 3, 4, 4, 0]}, id="the tasks that are left"),
        pytest.param("cost", {"cost": COSTS}, id="the cost"),
        pytest.param("cost-sum", {"cost": sums(COSTS)}, id="the cost in all"),
        *(
            pytest.param(f"tokens-{kind}", {kind: of_tokens(at)}, id=f"the tokens of the kind {kind}")
            for at, kind in enumerate(KINDS)
        ),
        pytest.param("tokens-sum", {k: sums(of_tokens(at)) for at, k in enumerate(KINDS)}, id="the tokens in all"),
        pytest.param("time", TIMES, id="the time of each kind"),
    ],
)
@pytest.mark.parametrize("width", [1280, 390])
def test_the_bars_measure_what_the_journal_says(
    browser: Browser, file: Path, name: str, wanted: dict[str, list[float]], width: int
) -> None:
    browser.look(file, width=width)
    found = bars(browser, name)
    most = max(sum(bar.values()) for bar in found)
    for kind, values in wanted.items():
        assert [bar.get(kind, 0.0) for bar in found] == pytest.approx(values, abs=most / 500), kind
    assert {kind for bar in found for kind in bar} <= wanted.keys()


def test_the_burn_down_begins_with_what_there_was_and_ends_with_what_is_left(browser: Browser, file: Path) -> None:
    browser.look(file)
    drawn = browser.value("""["total", "left"].map(kind => {
      const path = document.querySelector("#chart-tasks .line." + kind), plot = path.ownerSVGElement;
      const step = plot.viewBox.baseVal.height / 6;  // the axis goes to 6
      return Array.from({length: 13}, (_, half) => half / 2).map(x => {
        const at = path.getAttribute("d").match(/[MHV][^MHV]*/g).reduce((pen, one) => {
          const [a, b] = one.slice(1).split(" ").map(Number);
          if (one[0] === "M") return {x: a, y: b, at: b};
          if (one[0] === "V") return {...pen, y: a};
          return {x: a, y: pen.y, at: pen.x < x && x <= a ? pen.y : pen.at};
        }, {});
        return 6 - at.at / step;
      });
    })""")
    total, left = ([round(one, 2) for one in line] for line in drawn)
    assert [tick(label) for label, _ in browser.value(f"{MEASURE}('tasks')")["ticks"]][-1] == 6
    assert (left[0], left[1::2]) == (3, [4, 3, 3, 4, 4, 0]), "two of five were new in the first"
    assert (total[0], total[1::2]) == (3, [5] * 6)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_asks_for_nothing_and_complains_of_nothing(
    browser: Browser, file: Path, width: int, dark: bool
) -> None:
    long = "a_name_without_any_place_to_break_it_" * 12
    lines = records(
        [*EVENTFUL, {"message": long, "cost_usd": 12345.678, "cost_at_least": True}], ended=long, message=long
    )
    file.write_text(made(lines, progress_text(long), name=long, standing=Standing(state="blocked", why=long)))
    browser.look(file, width=width, dark=dark)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("window.innerWidth") == width, "a phone does not zoom out to see all of it"
    outside = """[...document.querySelectorAll("main *")]
      .filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
    assert browser.value(outside) == []
    assert browser.requests == [file.resolve().as_uri()]
    assert browser.complaints == []


def test_on_a_phone_what_an_iteration_did_has_the_whole_width(browser: Browser, file: Path) -> None:
    browser.look(file, width=390)
    for cell in (".run th", "td:last-child"):
        share = f"(one => one.offsetWidth / one.closest('table').offsetWidth)(document.querySelector('{cell}'))"
        assert browser.value(share) > 0.9, cell
    assert browser.value("getComputedStyle(document.querySelector('td')).fontSize") == "14px", "not made smaller"


def test_dark_is_dark_and_light_is_light_and_both_can_be_read(browser: Browser, file: Path) -> None:
    contrast = """(() => {
      const part = one => one <= .04045 ? one / 12.92 : ((one + .055) / 1.055) ** 2.4;
      const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(one => part(one / 255));
        return .2126 * r + .7152 * g + .0722 * b };
      const behind = one => { for (; one; one = one.parentElement) {
        const colour = getComputedStyle(one).backgroundColor; if (!/, 0\\)$/.test(colour)) return light(colour) } };
      const words = document.querySelectorAll("h1, p, dt, dd, a, td, th, li, text, summary, footer, .state");
      const ratios = [...words].map(one => {
        const style = getComputedStyle(one), two = [light(one.matches("text") ? style.fill : style.color), behind(one)];
        return (Math.max(...two) + .05) / (Math.min(...two) + .05) });
      return [light(getComputedStyle(document.body).backgroundColor), Math.min(...ratios)];
    })()"""
    browser.look(file)
    light, least_light = browser.value(contrast)
    browser.look(file, dark=True)
    dark, least_dark = browser.value(contrast)
    assert light > 0.8
    assert dark < 0.05
    assert min(least_light, least_dark) >= 4.5


def test_the_agents_words_do_nothing(browser: Browser, file: Path) -> None:
    lines = records([{"message": HOSTILE, "ended": HOSTILE, "mode": HOSTILE, "commits": {"count": 1, "head": HOSTILE}}])
    file.write_text(made(lines, progress_text(HOSTILE), name=HOSTILE, standing=Standing(state="blocked", why=HOSTILE)))
    browser.look(file)
    assert browser.value("document.querySelectorAll('img, script').length") == 0
    assert browser.value("document.querySelector('td:last-child').textContent").startswith(
        "</script></style></title><img"
    )
    assert "&amp;" in browser.value("document.querySelector('.why').textContent"), "not unescaped twice"
    assert (browser.complaints, browser.requests) == ([], [file.resolve().as_uri()])


def test_what_got_past_the_escaping_would_be_stopped_by_the_policy(browser: Browser, file: Path) -> None:
    hole = (
        '<img src="http://127.0.0.1:9/x" onerror="document.title = 1"><script>document.title = "open"</script></body>'
    )
    file.write_text(file.read_text().replace("</body>", hole))
    browser.look(file)
    assert "ralph report" in browser.value("document.title")
    assert browser.complaints, "it says what it refused"


def test_a_long_message_is_opened_with_the_keyboard(browser: Browser, file: Path) -> None:
    file.write_text(made(records([{"message": "word " * 99 + "end"}])))
    browser.look(file)
    height = "document.querySelector('td details').getBoundingClientRect().height"
    closed = browser.value(height)
    browser.value("document.querySelector('summary').focus()")
    browser.press("Enter")
    assert browser.value(height) > closed
    assert browser.value("(one => one.scrollHeight - one.clientHeight)(document.querySelector('summary span'))") <= 0


def test_on_paper_nothing_is_folded_away(browser: Browser, file: Path) -> None:
    file.write_text(made(records([{"message": "word " * 99 + "end"}])))
    browser.look(file, dark=True, media="print")
    hidden = "(one => one.scrollHeight - one.clientHeight)(document.querySelector('summary span'))"
    assert browser.value(hidden) <= 0
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
