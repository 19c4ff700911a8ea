"""Acceptance criteria: how their lines are read, and real files, commands, servers and browsers behind them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import requests  # noqa: F401 - first imported under another test's filters, its own warnings would be errors
from http_server import Answer, Bad, Server
from hypothesis import given
from hypothesis import strategies as st

from ralph import process
from ralph.criteria import Around, Criterion, Kind, Met, check_each, parse
from ralph.verify import CommandRun

ServerMaker = Callable[..., Server]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def around(folder: Path) -> Around:
    def run(command: str) -> CommandRun:
        done = process.call(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=30, cwd=str(folder))
        what = f"exited with {done.code}" if done.code >= 0 else f"was killed by signal {-done.code}"
        return CommandRun(code=done.code, what=what, output=done.stdout.decode(), took_s=0)

    return Around(project=folder, run=run)


@pytest.fixture
def serve() -> Iterator[ServerMaker]:
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def checked(text: str, around: Around) -> Met:
    met = next(check_each([parse(text)], around))
    assert met
    assert "\n" not in met.why
    return met


# Reading.


@pytest.mark.parametrize(
    ("text", "command", "code"),
    [
        pytest.param("Run `npm test` - exits with code 0", "npm test", 0, id="as it is written down"),
        pytest.param("Run `npm test` – exits with code 0", "npm test", 0, id="with a dash"),  # noqa: RUF001
        pytest.param("Run `npm test` exits with 2", "npm test", 2, id="without a dash and without a word"),
        pytest.param("Run `npm test`: exits with exit code 2", "npm test", 2, id="with a colon and a word too many"),
        pytest.param("  - run ` npm test ` - exits with status 0.\n", "npm test", 0, id="as a bullet, with a stop"),
        pytest.param("Run `` echo `date` `` - exits with code 0", "echo `date`", 0, id="in two backticks"),
        pytest.param(
            "Run `echo `a` `b` c` - exits with code 0", "echo `a` `b` c", 0, id="with a shell's own backticks"
        ),
        pytest.param(r"Run \`npm test\` - exits with code 0", "npm test", 0, id="copied out of a table"),
    ],
)
def test_a_command_is_read(text: str, command: str, code: int) -> None:
    wanted = Criterion(text=text.strip(), kind=Kind.RUN, command=command, wanted=code)
    assert parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "path", "holds"),
    [
        pytest.param("- file `src/a b.py` exists.", "src/a b.py", "", id="a bullet, small, with a stop"),
        pytest.param("File `config.py` contains `JWT_SECRET`", "config.py", "JWT_SECRET", id="a text"),
        pytest.param("File `a` contains ``x = `y` ``.", "a", "x = `y` ", id="a text with backticks"),
        pytest.param("File `a` contains `b` contains `c`", "a", "b` contains `c", id="the outer backticks of two"),
    ],
)
def test_a_file_is_read(text: str, path: str, holds: str) -> None:
    assert parse(text) == Criterion(text=text, kind=Kind.FILE, path=path, holds=holds)


@pytest.mark.parametrize(
    ("text", "method", "url", "status"),
    [
        pytest.param("POST /api/login returns 200", "POST", "/api/login", 200, id="as it is written down"),
        pytest.param("GET /a?b=c&d=%20 returns 404.", "GET", "/a?b=c&d=%20", 404, id="with a query"),
        pytest.param("- `Delete /a` returns HTTP 204", "DELETE", "/a", 204, id="in backticks, with the word HTTP"),
    ],
)
def test_a_request_is_read(text: str, method: str, url: str, status: int) -> None:
    assert parse(text) == Criterion(text=text, kind=Kind.HTTP, method=method, url=url, wanted=status)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        pytest.param('agent-browser: click "Submit" - redirects', ["click", "Submit"], id="as it is written down"),
        pytest.param("Agent-Browser: open /login", ["open", "/login"], id="without a result"),
        pytest.param('agent-browser: click "Save - all" - a - b', ["click", "Save - all"], id="a dash in quotes"),
        pytest.param("agent-browser: fill '#a' x-y — done", ["fill", "#a", "x-y"], id="a hyphen in a word"),
        pytest.param("agent-browser: `click a` - the user's page", ["click", "a"], id="an apostrophe in the result"),
    ],
)
def test_an_action_in_a_browser_is_read(text: str, action: list[str]) -> None:
    assert parse(text) == Criterion(text=text, kind=Kind.BROWSER, action=action)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The code is clean",
        "Run `npm test`",
        "Run ``a` - exits with code 0",
        "Run `a` - exits with code 0 and Run `b` - exits with code 0",
        "Please run `a` - exits with code 0",
        "Run `a` - exits with code 0, quickly",
        "File `a` does not exist",
        "File ` ` exists",
        "GET http://example.com/ returns 200",
        "GET /a returns 2000",
        "agent-browser: ` `",
    ],
)
def test_anything_else_is_not_machine_checked_and_that_is_said(text: str, around: Around) -> None:
    assert parse(text) == Criterion(text=text)
    met = checked(text, around)
    assert (met.met, met.criterion.kind) == (True, Kind.UNCHECKED)
    assert met.why.startswith("not machine-checked, nobody looked: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("File `/etc/passwd` exists", "from the project's top folder on", id="a path from the root"),
        pytest.param("File `a/../../x` contains `x`", "may lead out", id="a path down and up"),
        pytest.param("Run `a` - exits with code 256", "0 to 255", id="a code that no program has"),
        pytest.param("GET / returns 600", "100 to 599", id="a status that no server has"),
        pytest.param("agent-browser: click 'a - b", "never closed", id="an open quotation"),
        pytest.param("Run `a\0b` - exits with code 0", "NUL", id="a NUL"),
    ],
)
def test_what_can_never_be_met_is_known_from_its_text(text: str, words: str, around: Around) -> None:
    assert words in parse(text).problem
    met = checked(text, around)
    assert (met.met, words in met.why) == (False, True)


@given(st.text() | st.text(alphabet="`Run File exists contains 0-agent-browser:/\"'\\- ", max_size=60))
def test_any_text_is_some_criterion(text: str) -> None:
    for full in (text, f"Run {text} - exits with code 0", f"File {text} exists", f"agent-browser: {text}"):
        assert parse(full).text == full.strip()


# Commands.


@pytest.mark.parametrize(
    ("text", "met", "why"),
    [
        pytest.param("Run `exit 3` - exits with code 3", True, "Run `exit 3` exited with 3", id="a failure as wanted"),
        pytest.param("Run `exit 1` - exits with code 0", False, "Run `exit 1` exited with 1, not 0", id="a failure"),
        pytest.param(
            "Run `kill -9 $$` - exits with code 0",
            False,
            "Run `kill -9 $$` was killed by signal 9, and should have exited with 0",
            id="killed",
        ),
    ],
)
def test_a_command_is_run(text: str, met: bool, why: str, around: Around) -> None:
    result = checked(text, around)
    assert (result.met, result.why) == (met, why)


def test_a_command_runs_in_the_project_and_what_it_printed_is_there_when_it_is_not_met(around: Around) -> None:
    (around.project / "here").touch()
    assert checked("Run `ls; exit 1` - exits with code 0", around).output == "here\n"
    assert checked("Run `ls` - exits with code 0", around).output == ""


def test_what_was_found_is_seen_behind_a_long_command(around: Around) -> None:
    met = checked(f"Run `: {'x' * 5000}; exit 1` - exits with code 0", around)
    assert met.why.endswith("…` exited with 1, not 0")
    assert len(met.why) < 300


def test_a_command_that_ralph_ended_is_not_met_whatever_its_code_was(folder: Path) -> None:
    ended = CommandRun(code=None, what="had not ended after 2s", output="so far\n", took_s=2)
    for text in ("Run `sleep 9` - exits with code 0", "Run `sleep 9` - exits with code 3"):
        met = checked(text, Around(project=folder, run=lambda _: ended))
        assert (met.met, met.output) == (False, "so far\n")
        assert met.why.startswith("Run `sleep 9` had not ended after 2s, and should have exited with ")


def test_a_signal_leaves_nothing_known(folder: Path, serve: ServerMaker) -> None:
    asked: list[str] = []
    around = Around(project=folder, run=lambda command: asked.append(command))  # noqa: PLW0108 - returns None, typed so
    texts = ["File `x` exists", "Run `a` - exits with code 0", "Run `b` - exits with code 0"]
    results = list(check_each(map(parse, texts), around))
    assert [result and result.met for result in results] == [False, None]
    assert asked == ["a"]
    stopped = replace(around, base_url=serve(Answer(status=200)).url(""), over=lambda: True)
    assert list(check_each([parse("GET /x returns 200"), parse("File `x` exists")], stopped)) == [None]


# Files.


def test_a_file_exists_or_not(around: Around, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a b.py").touch()
    os.mkfifo(folder / "pipe")
    assert checked("File `src/a b.py` exists", around).why == "File `src/a b.py` exists"
    assert checked("File `src/` exists", around).met, "a folder too"
    missing = checked("File `src/c.py` exists", around)
    assert (missing.met, missing.why) == (False, "File `src/c.py` does not exist")
    assert checked("File `src/a b.py/` exists", around).why == "File `src/a b.py/` is no folder"
    assert checked("File `pipe` contains `x`", around).why == "File `pipe` is no file", "and nobody waits for it"
    assert not checked(f"File `{'x' * 5000}` exists", around).met


def test_a_file_contains_a_text_or_not(around: Around, folder: Path) -> None:
    (folder / "config.py").write_bytes("\0JWT_SECRET = 'ü'\n".encode() + b"\xff")
    assert checked("File `config.py` contains `JWT_SECRET = 'ü'`", around).met
    without = checked("File `config.py` contains `jwt_secret`", around)
    assert (without.met, without.why) == (False, "File `config.py` does not contain `jwt_secret`")
    assert checked("File `gone.py` contains `x`", around).why == "File `gone.py` does not exist"
    assert checked("File `.` contains `x`", around).why == "File `.` cannot be read: Is a directory"


@pytest.mark.parametrize("at", [0, (1 << 20) - 3, 1 << 20, (3 << 20) - 5])
def test_a_text_is_found_wherever_it_stands_in_a_big_file(at: int, around: Around, folder: Path) -> None:
    (folder / "big").write_bytes(b"n" * at + b"needle" + b"e" * (1 << 20))
    assert checked("File `big` contains `needle`", around).met
    assert not checked("File `big` contains `needless`", around).met


@pytest.mark.parametrize("text", ["File `link` exists", "File `link` contains `x`"])
@pytest.mark.parametrize(
    ("leads", "words"),
    [
        pytest.param("/etc/passwd", "leads out of the project", id="to the system"),
        pytest.param("../project-two/file", "leads out of the project", id="to a neighbour of nearly the same name"),
        pytest.param("../nowhere", "leads out of the project", id="out, to what is not there"),
        pytest.param("link", "File `link` ", id="to itself"),
        pytest.param("folder/file", "", id="to a file of the project"),
    ],
)
def test_a_link_counts_within_the_project_only(text: str, leads: str, words: str, around: Around, folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder.parent / "project-two").mkdir()
    for file in (folder / "folder" / "file", folder.parent / "project-two" / "file"):
        file.write_text("x")
    (folder / "link").symlink_to(leads)
    (folder.parent / "other").symlink_to(folder)
    for project in (folder, folder.parent / "other"):
        met = checked(text, replace(around, project=project))
        assert (met.met, words in met.why) == (not words, True), met.why


# Servers.


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_a_server_is_asked_without_content_below_the_base_url(base: str, serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=201))
    met = checked("POST /api/x?y=z returns 201", replace(around, base_url=server.url(base)))
    assert (met.met, met.why) == (True, "POST /api/x?y=z returned 201")
    (request,) = server.received
    assert (request.method, request.path, request.body) == ("POST", f"{base.rstrip('/')}/api/x?y=z", b"")


def test_another_status_is_told_with_what_the_server_said(serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=500, body="Traceback: no such table"))
    met = checked("GET /x returns 200", replace(around, base_url=server.url("")))
    assert (met.met, met.why, met.output) == (False, "GET /x returned 500, not 200", "Traceback: no such table")


def test_a_redirect_is_an_answer_and_is_not_followed(serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=302, location="/there"), Answer())
    assert checked("GET /here returns 302", replace(around, base_url=server.url(""))).met
    assert len(server.received) == 1


def test_nobody_listening_is_told_without_secrets(around: Around) -> None:
    with Server() as server:
        address = server.url("/s3cr3t").replace("http://", "http://me:passw0rd@")
    met = checked("GET /x returns 200", replace(around, base_url=address))
    port = address.split(":")[-1].split("/")[0]
    nobody = f"http://127.0.0.1:{port}: Connection refused"
    assert (met.met, met.why) == (False, f"GET /x, which should return 200: {nobody}")


def test_a_status_counts_though_what_follows_never_ends(serve: ServerMaker, around: Around) -> None:
    dripping = replace(around, base_url=serve(Bad.DRIP_BODY).url(""))
    assert checked("GET /events returns 500", dripping).met
    assert (
        checked("GET /events returns 200", replace(around, base_url=serve(Bad.DRIP_BODY).url(""))).output[:3] == "..."
    )


def test_no_proxy_and_no_password_of_this_machine_is_used(
    serve: ServerMaker, around: Around, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = serve(Answer(status=502)), serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checked("GET /x returns 200", replace(around, base_url=server.url(""))).met
    assert (proxy.received, server.received[0].headers["Authorization"]) == ([], None)


# Browsers.


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for agent-browser: writes down its words, and fails at `click Broken`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "agent-browser"
    script.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" >> {tmp_path}/log; echo >> {tmp_path}/log\n'
        'echo "did $*"; [ "$2" != Broken ] || { echo "no such button" >&2; exit 5; }\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path / "log"


def test_a_browser_does_what_it_is_told_and_nobody_reads_the_result(around: Around, browser: Path) -> None:
    assert checked('agent-browser: click "Sign in; $(touch x) & go" - redirects', around).met
    assert browser.read_text() == "click|Sign in; $(touch x) & go|\n"
    assert not list(around.project.iterdir()), "the shell sees no more than words"


def test_actions_in_a_row_share_a_browser_and_end_at_the_first_that_fails(around: Around, browser: Path) -> None:
    runs: list[str] = []

    def run(command: str) -> CommandRun | None:
        runs.append(command)
        return around.run(command)

    actions = [
        parse(f"agent-browser: {text} - well") for text in ("open http://127.0.0.1/", "click Broken", "click Next")
    ]
    met = list(check_each([*actions, parse("File `x` exists"), actions[0]], replace(around, run=run)))
    assert [(one and one.met, one and one.why) for one in met] == [
        (True, "`agent-browser open http://127.0.0.1/` exited with 0"),
        (False, "`agent-browser click Broken` failed, and should exit with 0"),
        (False, "`agent-browser click Next` was not tried, since an action before it failed"),
        (False, "File `x` does not exist"),
        (True, "`agent-browser open http://127.0.0.1/` exited with 0"),
    ]
    assert met[1]
    assert met[1].output == "did open http://127.0.0.1/\ndid click Broken\nno such button\n"
    assert len(runs) == 2
    assert browser.read_text().splitlines() == ["open|http://127.0.0.1/|", "click|Broken|", "open|http://127.0.0.1/|"]


def test_a_browser_that_was_ended_or_is_not_there_met_nothing(
    around: Around, browser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not browser.exists()
    ended = CommandRun(code=None, what="had not ended after 2s", output="", took_s=2)
    met = checked("agent-browser: wait 9 - well", replace(around, run=lambda _: ended))
    assert (met.met, "it had not ended after 2s" in met.why) == (False, True)
    monkeypatch.setenv("PATH", "/nowhere")
    met = checked("agent-browser: open /login - shows a form", around)
    assert (met.met, met.why) == (False, "agent-browser is not installed, so `agent-browser open /login` was not tried")
