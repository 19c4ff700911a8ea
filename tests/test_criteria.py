"""Acceptance criteria: how their lines are read, and real files, commands, servers and browsers behind them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import requests  # noqa: F401 - first imported under another test's filters, its own warnings would be errors
from http_server import Answer, Server
from hypothesis import given
from hypothesis import strategies as st

from ralph import process
from ralph.criteria import Criterion, Kind, Met, check, in_one_browser, parse
from ralph.verify import CommandRun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def shell(folder: Path) -> Callable[[str], CommandRun]:
    def run(command: str) -> CommandRun:
        done = process.call(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=30, cwd=str(folder))
        what = f"exited with {done.code}" if done.code >= 0 else f"was killed by signal {-done.code}"
        return CommandRun(code=done.code, what=what, output=done.stdout.decode(), took_s=0)

    return run


def checked(one: str | Criterion, folder: Path, base_url: str | None = None) -> Met:
    criterion = parse(one) if isinstance(one, str) else one
    met = check(criterion, project=folder, base_url=base_url, run=shell(folder))
    assert met
    assert "\n" not in met.why
    return met


RUN, FILE, HTTP, BROWSER = Kind.RUN, Kind.FILE, Kind.HTTP, Kind.BROWSER


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
    ],
)
def test_a_line_is_read_as_people_write_it(text: str, kind: Kind, said: dict[str, str]) -> None:
    found = parse(text)
    assert (found.text, found.kind) == (text.strip(), kind)
    assert said.items() <= found.said.items()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The code is clean",
        "Run ``a` - exits with code 0",
        "Run `a` - exits with code 0 and Run `b` - exits with code 0",
        "Run `a\0b` - exits with code 0",
        "Please run `a` - exits with code 0",
        "File ` ` exists",
        "GET http://example.com/ returns 200",
        "agent-browser: click 'a - b",
    ],
)
def test_anything_else_is_not_machine_checked_and_that_is_said(text: str, folder: Path) -> None:
    assert parse(text) == Criterion(text=text)
    met = checked(text, folder)
    assert met.met
    assert met.why.startswith("not machine-checked, nobody looked: ")


@given(st.text() | st.text(alphabet="`Run File exists contains 0-agent-browser:/\"'\\- ", max_size=60))
def test_any_text_is_some_criterion(text: str) -> None:
    for full in (text, f"Run {text} - exits with code 0", f"File {text} exists", f"agent-browser: {text}"):
        assert parse(full).text == full.strip()


@pytest.mark.parametrize(
    ("text", "met", "why"),
    [
        pytest.param("Run `exit 3` - exits with code 3", True, "Run `exit 3` exited with 3", id="a failure as wanted"),
        pytest.param(
            "Run `exit 1` - exits with code 0",
            False,
            "Run `exit 1` exited with 1, and should have exited with 0",
            id="a failure",
        ),
        pytest.param(
            "Run `kill -9 $$` - exits with code 0",
            False,
            "Run `kill -9 $$` was killed by signal 9, and should have exited with 0",
            id="killed",
        ),
    ],
)
def test_a_command_is_run(text: str, met: bool, why: str, folder: Path) -> None:
    assert checked(text, folder)[:2] == (met, why)


def test_what_it_printed_and_what_was_found_is_seen_when_it_is_not_met(folder: Path) -> None:
    (folder / "here").touch()
    assert checked("Run `ls; exit 1` - exits with code 0", folder).output == "here\n"
    met = checked(f"Run `: {'x' * 5000}; exit 1` - exits with code 0", folder)
    assert met.why.endswith("…` exited with 1, and should have exited with 0")
    assert len(met.why) < 300


def test_a_command_that_ralph_ended_is_not_met_and_one_that_a_signal_ended_says_nothing(folder: Path) -> None:
    ended = CommandRun(code=None, what="had not ended after 2s", output="so far\n", took_s=2)
    wanted = parse("Run `sleep 9` - exits with code 0")
    met = check(wanted, project=folder, base_url=None, run=lambda _: ended)
    assert met == Met(False, "Run `sleep 9` had not ended after 2s, and should have exited with 0", "so far\n")
    assert check(wanted, project=folder, base_url=None, run=lambda _: None) is None


def test_a_file_exists_or_not_and_contains_a_text_or_not(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a b.py").write_bytes("\0SECRET = 'ü'\n".encode() + b"\xff")
    os.mkfifo(folder / "pipe")
    assert checked("File `src/a b.py` exists", folder).why == "File `src/a b.py` exists"
    assert checked("File `src/` exists", folder).met, "a folder too"
    assert checked("File `src/c.py` exists", folder) == Met(False, "File `src/c.py` does not exist")
    assert checked("File `pipe` contains `x`", folder).why == "File `pipe` is no file", "and nobody waits for it"
    assert not checked(f"File `{'x' * 5000}` exists", folder).met
    assert checked("File `src/a b.py` contains `SECRET = 'ü'`", folder).met
    without = checked("File `src/a b.py` contains `secret`", folder)
    assert without == Met(False, "File `src/a b.py` does not contain `secret`")
    assert checked("File `gone.py` contains `x`", folder).why == "File `gone.py` does not exist"


@pytest.mark.parametrize(
    ("leads", "words"),
    [
        pytest.param("/etc/passwd", "leads out of the project", id="to the system"),
        pytest.param("../project-two/file", "leads out of the project", id="to a neighbour of nearly the same name"),
        pytest.param("link", "File `link` ", id="to itself"),
        pytest.param("folder/file", "", id="to a file of the project"),
    ],
)
def test_a_link_counts_within_the_project_only(leads: str, words: str, folder: Path) -> None:
    for name in ("project/folder", "project-two"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "file").write_text("x")
    (folder / "link").symlink_to(leads)
    (folder.parent / "other").symlink_to(folder)
    for project in (folder, folder.parent / "other"):
        for text in ("File `link` exists", "File `link` contains `x`"):
            met = checked(text, project)
            assert (met.met, words in met.why) == (not words, True), met.why
        for path in ("/etc/passwd", "../project-two/file", "a/../../x"):
            assert "leads out of the project; write it" in checked(f"File `{path}` exists", project).why


def test_a_server_is_asked_without_content_below_the_base_url(folder: Path) -> None:
    with Server(Answer(status=201)) as server:
        met = checked("post /api/x?y=z returns 201", folder, server.url("/v1/"))
    assert met == Met(True, "POST /api/x?y=z returned 201")
    (request,) = server.received
    assert (request.method, request.path, request.body) == ("POST", "/v1/api/x?y=z", b"")


def test_another_status_is_told_with_what_the_server_said_and_a_redirect_is_not_followed(folder: Path) -> None:
    with Server(Answer(status=500, body="Traceback: no such table")) as server:
        met = checked("GET /x returns 200", folder, server.url(""))
    assert met == Met(False, "GET /x returned 500, not 200", "Traceback: no such table")
    with Server(Answer(status=302, location="/there"), Answer()) as server:
        assert checked("GET /here returns 302", folder, server.url("")).met
    assert len(server.received) == 1


def test_nobody_listening_is_told_without_secrets(folder: Path) -> None:
    with Server() as server:
        address = server.url("/s3cr3t").replace("http://", "http://me:passw0rd@")
    met = checked("GET /x returns 200", folder, address)
    assert "return 200: 127.0.0.1:" in met.why
    assert met.why.endswith(": Connection refused")
    assert "passw0rd" not in met.why + met.output


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
    met = checked(together[0], folder)
    assert (met.met, met.output.splitlines()[-1]) == (False, "did click Broken")
    assert (
        "agent-browser click Broken && agent-browser click Next` exited with 1, and should have exited with 0"
        in met.why
    )
    assert (tmp_path / "log").read_text() == "open|/login|click|Sign in; $(touch x) & go|click|Broken|"
    assert not list(folder.iterdir()), "the shell sees no more than words"
    assert checked(together[2], folder).met
