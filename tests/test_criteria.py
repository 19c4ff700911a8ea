"""Acceptance criteria: how their lines are read, and real files, commands, servers and browsers behind them."""

import os
from pathlib import Path

import pytest
import requests  # noqa: F401 - first imported under another test's filters, its own warnings would be errors
from http_server import Answer, Server

from ralph.criteria import Criterion, Kind, check, in_one_browser, parse
from ralph.process.programs import call
from ralph.verify import CommandRun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def checked(one: str | Criterion, folder: Path, base_url: str | None = None) -> CommandRun:
    def run(command: str) -> CommandRun:
        done = call(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=30, cwd=str(folder))
        how = f"exited with {done.code}" if done.code >= 0 else f"was killed by signal {-done.code}"
        return CommandRun(done.code, how, done.stdout.decode())

    criterion = parse(one) if isinstance(one, str) else one
    came = check(criterion, project=folder, base_url=base_url, run=run)
    assert came
    assert "\n" not in came.what
    return came


RUN, FILE, HTTP, BROWSER, UNCHECKED = Kind


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("Run `npm test` – exits with code 0", RUN, {"command": "npm test"}),  # noqa: RUF001
        ("  - run ` npm test `: exits with exit code 2.\n", RUN, {"command": "npm test", "wanted": "2"}),
        ("Run `` echo `date` `` - exits with code 0", RUN, {"command": "echo `date`"}),
        ("- file `src/a b.py` exists.", FILE, {"path": "src/a b.py"}),
        ("File `a` contains ``x = `y` ``.", FILE, {"path": "a", "holds": "x = `y`"}),
        ("POST /api/login returns 200", HTTP, {"method": "POST", "url": "/api/login", "wanted": "200"}),
        ("- `Delete /a?b=%20` returns HTTP 204", HTTP, {"method": "Delete", "url": "/a?b=%20", "wanted": "204"}),
        ('agent-browser: click "Submit" - redirects', BROWSER, {"command": "agent-browser click Submit"}),
        ('agent-browser: click "Save - all" - a - b', BROWSER, {"command": "agent-browser click 'Save - all'"}),
        ("agent-browser: open /a?b=1&c -", BROWSER, {"command": "agent-browser open '/a?b=1&c'"}),
        ("agent-browser: fill '#a' '' — it's done", BROWSER, {"command": "agent-browser fill '#a' ''"}),
        ("The code is clean", UNCHECKED, {}),
        ("Run ``a` - exits with code 0", UNCHECKED, {}),
        ("Run `a` - exits with code 0 and Run `b` - exits with code 0", UNCHECKED, {}),
        ("Run `a\0b` - exits with code 0", UNCHECKED, {}),
        ("Please run `a` - exits with code 0", UNCHECKED, {}),
        ("File ` ` exists", UNCHECKED, {}),
        ("GET http://example.com/ returns 200", UNCHECKED, {}),
        ("agent-browser: click 'a - b", UNCHECKED, {}),
    ],
)
def test_a_line_is_read_as_people_write_it(text: str, kind: Kind, said: dict[str, str], folder: Path) -> None:
    found = parse(text)
    assert (found.text, found.kind) == (text.strip(), kind)
    assert said.items() <= found.said.items()
    if kind is UNCHECKED:
        nobody = f"not machine-checked, nobody looked: {' '.join(text.split())}"
        assert checked(text, folder) == CommandRun(0, nobody)


def test_a_command_ends_as_it_should(folder: Path) -> None:
    for command, wanted, how in [
        ("exit 3", 3, ""),
        ("echo so; exit 1", 0, "exited with 1, and should have exited with 0"),
        ("kill -9 $$", 0, "was killed by signal 9, and should have exited with 0"),
    ]:
        came = checked(f"Run `{command}` - exits with code {wanted}", folder)
        assert came.failed == (f"Run `{command}` {how}" if how else "")
        assert ("so" in came.output) == ("echo" in command)
    text = "Run `a` - exits with code 0"
    late = CommandRun(None, "had not ended after 2s", "so far\n")
    came_late = check(parse(text), project=folder, base_url=None, run=lambda _: late)
    assert came_late == CommandRun(1, "Run `a` had not ended after 2s, and should have exited with 0", "so far\n")
    assert check(parse(text), project=folder, base_url=None, run=lambda _: None) is None, "a signal is no answer"


OUT = "leads out of the project; write it"


def test_a_file_of_the_project_exists_or_not_and_contains_a_text_or_not_wherever_links_lead(folder: Path) -> None:
    for name in ("project/src", "project-two"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "a b.py").write_bytes("\0SECRET = 'ü'\n".encode() + b"\xff")
    os.mkfifo(folder / "pipe")
    for link, leads in {"in": "src/a b.py", "out": "../project-two/a b.py", "etc": "/etc", "loop": "loop"}.items():
        (folder / link).symlink_to(leads)
    for text, is_met, what in [
        ("`src/a b.py` exists", True, "exists"),
        ("`src/` exists", True, "exists"),
        ("`src/c.py` exists", False, "does not exist"),
        ("`pipe` contains `x`", False, "is no file"),
        (f"`{'x' * 5000}` exists", False, "cannot be read"),
        ("`src/a b.py` contains `SECRET = 'ü'`", True, "contains `SECRET"),
        ("`src/a b.py` contains `secret`", False, "does not contain `secret`"),
        ("`in` contains `SECRET`", True, "contains `SECRET"),
        ("`out` contains `SECRET`", False, OUT),
        ("`etc/passwd` exists", False, OUT),
        ("`loop` exists", False, "cannot be read"),
        ("`/etc/passwd` exists", False, OUT),
        ("`a/../../project-two/a b.py` exists", False, OUT),
    ]:
        came = checked(f"File {text}", folder)
        assert (came.code == 0, what in came.what) == (is_met, True), came.what


def test_a_server_is_asked_without_content_below_the_base_url_and_a_redirect_is_not_followed(folder: Path) -> None:
    with Server(Answer(status=201), Answer(status=500, body="no table"), Answer(status=302, location="/")) as server:
        base = server.url("/v1/")
        assert checked("post /api/x?y=z returns 201", folder, base) == CommandRun(0, "POST /api/x?y=z returned 201")
        wrong = CommandRun(1, "GET /x returned 500, and should have returned 200", "no table")
        assert checked("GET /x returns 200", folder, base) == wrong
        assert checked("GET /here returns 302", folder, base).code == 0
    request = server.received[0]
    assert (request.method, request.path, request.body, len(server.received)) == ("POST", "/v1/api/x?y=z", b"", 3)
    gone = checked("GET /x returns 200", folder, base.replace("http://", "http://me:passw0rd@"))
    assert gone.failed.startswith("GET /x got no answer of 127.0.0.1:")
    assert gone.output == "Connection refused"


def test_actions_in_a_row_share_a_browser_and_end_at_the_first_that_fails(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "agent-browser"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >> {tmp_path}/log\necho "did $*"; [ "$2" != Broken ]\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    said = ("open /login - shows it", 'click "Sign in; $(touch x) & go"', "click Broken - well", "click Next")
    actions = [parse(f"agent-browser: {one}") for one in said]
    together = in_one_browser([*actions, parse("File `x` exists"), actions[0]])
    assert [one.kind for one in together] == [BROWSER, FILE, BROWSER]
    came = checked(together[0], folder)
    assert came.output.splitlines()[-1] == "did click Broken"
    assert "agent-browser click Broken && agent-browser click Next` exited with 1" in came.failed
    assert (tmp_path / "log").read_text() == "open|/login|click|Sign in; $(touch x) & go|click|Broken|"
    assert not list(folder.iterdir()), "the shell sees no more than words"
    assert checked(together[2], folder).code == 0
