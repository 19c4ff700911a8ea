"""Draws the pictures for the pages, from a real run of ralph with a scripted agent in a terminal of 88 columns.

python docs/pictures.py
"""
# ruff: noqa: INP001, TID251 - a script, in no package, which runs tmux, chromium and ralph

import html
import json
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

PICTURES = Path(__file__).resolve().parent / "pictures"
SAMPLES = runpy.run_path(str(PICTURES.parent / "samples.py"))
COLUMNS, LETTER, ROW, EDGE = 88, 8.4, 19, 14
COLORS = {"light": ("#ffffff", "#1f2328", "#656d76", "#d1d9e0"), "dark": ("#0d1117", "#e6edf3", "#9198a1", "#3d444d")}
"""The colors of the background, the text, dim text, and the frame."""
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SGR = re.compile(r"\x1b\[([\d;]*)m")


def _style(color: str) -> str:
    back, front, dim, frame = COLORS[color]
    return f"rect {{ fill: {back}; stroke: {frame} }} text {{ fill: {front} }} .dim {{ fill: {dim} }}"


def drawn(rows: list[str], style: str, about: str) -> str:
    """Returns the rows of a terminal, with their bold and dim parts, as an SVG of text."""
    height = len(rows) * ROW + 2 * EDGE
    width = COLUMNS * LETTER + 2 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">',
        f"<title>{html.escape(about)}</title>",
        f"<style>text {{ font: 14px {FONT}; white-space: pre }} .bold {{ font-weight: 700 }} {style}</style>",
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8"/>',
    ]
    kind = ""  # it continues beyond the end of a row
    for number, row in enumerate(rows):
        parts = list[str]()
        for at, part in enumerate(SGR.split(row)):
            if at % 2:
                kind = {"1": "bold", "2": "dim"}.get(part, "" if part in ("", "0", "22") else kind)
            elif part:
                parts.append(f'<tspan class="{kind}">{html.escape(part)}</tspan>' if kind else html.escape(part))
        if parts:
            long = len(SGR.sub("", row)) * LETTER
            place = f'x="{EDGE}" y="{EDGE + number * ROW + 14}" textLength="{long:g}" lengthAdjust="spacingAndGlyphs"'
            lines.append(f"<text {place}>{''.join(parts)}</text>")
    return "\n".join([*lines, "</svg>", ""])


class _Terminal:
    """A shell in its own terminal, on a machine of the samples."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env = {**env, "PS1": "$ ", "SHELL": "/bin/sh", "TERM": "xterm-256color"}
        self._name = f"ralph-picture-{uuid.uuid4().hex}"
        size = ("-x", str(COLUMNS), "-y", "60", "-c", str(folder))
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "main", *size, "sh")

    def _tmux(self, *args: str) -> str:
        command = ["tmux", "-u", "-L", self._name, *args]
        return subprocess.run(command, env=self._env, check=True, capture_output=True, text=True).stdout

    def types(self, line: str) -> None:
        self._tmux("send-keys", "-t", "main", line, "Enter")

    def rows_once(self, shown: Callable[[str], bool]) -> list[str]:
        """Returns the rows on the screen, as soon as `shown` accepts them."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            rows = self._tmux("capture-pane", "-p", "-e", "-t", "main").rstrip().split("\n")
            if shown(SGR.sub("", "\n".join(rows))):
                return rows
            time.sleep(0.05)
        raise TimeoutError("\n".join(rows))

    def close(self) -> None:
        self._tmux("kill-server")


def pictures(folder: Path, pause_s: float = 0) -> dict[str, str]:
    """Returns file names and contents: the live view in two colors, the status, and the page of the report."""
    machine = SAMPLES["Machine"](folder, pause_s)
    turns = json.loads(json.dumps(SAMPLES["TURNS"]))
    go = machine.top / "go"
    turns[1]["does"].insert(3, ["waits", str(go)])
    turns[1]["does"].insert(3, ["runs", SAMPLES["TEST"]])
    del turns[1]["does"][5]
    (machine.top / "agent" / "turns").write_text(json.dumps(turns))
    terminal = _Terminal(machine.env, machine.project)
    try:
        terminal.rows_once(lambda text: text.startswith("$"))
        terminal.types("ralph feature.md plan")
        terminal.rows_once(lambda text: text.endswith("\n$"))
        terminal.types("ralph feature.md build --max-iterations 50")
        live = terminal.rows_once(lambda text: "Bash " + SAMPLES["TEST"] in text.split("\n")[-1])
        go.touch()
        terminal.rows_once(lambda text: text.endswith("\n$"))
        terminal.types("clear")
        terminal.rows_once(lambda text: text == "$")
        terminal.types("ralph status feature.md")
        status = terminal.rows_once(lambda text: text.endswith("\n$"))[:-1]
    finally:
        terminal.close()
    page = machine.prints("ralph report feature.md -o -")
    adapts = f"{_style('light')} @media (prefers-color-scheme: dark) {{ {_style('dark')} }}"
    return {
        **{f"live-{color}.svg": drawn(live, _style(color), "ralph plans and builds in a terminal") for color in COLORS},
        "status.svg": drawn(status, adapts, "ralph status of a plan that is done"),
        "report.html": page,
    }


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ralph-picture-") as name:
        for file, text in pictures(Path(name), pause_s=4).items():
            (PICTURES / file).write_text(text, encoding="utf-8")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        sys.exit("report.png was not updated: chromium is not installed")
    look = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1220"]
    shot = f"--screenshot={PICTURES / 'report.png'}"
    subprocess.run([chromium, *look, shot, (PICTURES / "report.html").as_uri()], check=True, capture_output=True)
