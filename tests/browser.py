"""A real browser without a window: Chromium, told what to do over a pipe by its own protocol; no driver is needed."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUIET = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --disable-extensions --remote-debugging-pipe"""
_AS_3_AND_4 = """
import fcntl, os, sys
for fd, copy in enumerate([fcntl.fcntl(int(given), fcntl.F_DUPFD_CLOEXEC, 9) for given in sys.argv[1:3]], 3):
    os.dup2(copy, fd)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Where the browser reads and writes."""
_PATIENCE_S = 30.0


def program() -> str | None:
    """Where the browser is; None when there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def started(found: str, folder: Path) -> Iterator["Browser"]:
    """A browser with an empty profile in that folder, gone afterwards with all of its processes."""
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    argv = [sys.executable, "-I", "-S", "-c", _AS_3_AND_4, str(commands), str(answers), found, *QUIET.split()]
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "about:blank"]
    env = {**os.environ, "HOME": str(folder), "TZ": "UTC", "CHROMIUM_FLAGS": ""}
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            argv, env=env, pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
        )
    os.close(commands)
    os.close(answers)
    browser = Browser(to_browser, from_browser)
    try:
        browser.attach()
        yield browser
    finally:
        os.close(to_browser)  # at the end of its commands it leaves
        os.close(from_browser)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
        process.kill()
        process.wait()


class Browser:
    """A page in it; `requests` are the addresses that pages asked for, `complaints` what stands on the console."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._read = b""
        self._page = ""
        self._loaded = False
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def attach(self) -> None:
        """Opens the page that all the rest is about."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._page = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def look(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Loads the file as a screen of that width shows it; below 500 pixels as a phone does."""
        self.requests.clear()
        self.complaints.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._loaded = False
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._take()

    def value(self, script: str) -> Any:
        """What the expression comes to in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key goes down and up again, where the focus is."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            code = {"Enter": 13, "Tab": 9}[key]
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Writes what it looks like, as PNG."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._page:
            message["sessionId"] = self._page
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (said := self._take()).get("id") != number:
            pass
        assert "error" not in said, said
        return dict(said["result"])

    def _take(self) -> dict[str, Any]:
        """The next thing it says."""
        deadline = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser said nothing for {_PATIENCE_S} s"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser is gone"
            self._read += data
        line, _, self._read = self._read.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        self._note(said)
        return said

    def _note(self, said: dict[str, Any]) -> None:
        params = said.get("params", {})
        match said.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params))
            case "Page.loadEventFired":
                self._loaded = True
