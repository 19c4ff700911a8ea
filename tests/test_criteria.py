"""Acceptance criteria: how their lines are read, and real files, commands, servers and browsers behind them."""

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests  # noqa: F401 - imported in a thread that a test gives up on, it would meet the next test's filters
from http_server import Answer, Bad, Server
from hypothesis import given
from hypothesis import strategies as st

from ralph import process
from ralph.criteria import Around, Criterion, Kind, Met, check, check_each, parse
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
        done = process.call(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=10, cwd=str(folder))
        what = f"exited with {done.code}" if done.code >= 0 else f"was killed by signal {-done.code}"
        return CommandRun(code=done.code, what=what, output=done.stdout.decode(), took_s=0)

    return Around(project=folder, run=run)


@pytest.fixture
def serve() -> Iterator[ServerMaker]:
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def checked(text: str, around: Around) -> Met:
    met = check(parse(text), around)
    assert met
    assert "\n" not in met.why
    return met


def with_base(around: Around, base_url: str | None, over: Callable[[], bool] = lambda: False) -> Around:
    return Around(project=around.project, run=around.run, base_url=base_url, over=over)


# Reading.


@pytest.mark.parametrize(
    ("text", "command", "code"),
    [
        pytest.param("Run `npm test` - exits with code 0", "npm test", 0, id="as it is written down"),
        pytest.param("Run `npm test` – exits with code 0", "npm test", 0, id="with a dash"),  # noqa: RUF001
        pytest.param("Run `npm test` — exits with code 0", "npm test", 0, id="with a long dash"),
        pytest.param("Run `npm test` -- exit code 0", "npm test", 0, id="with two hyphens"),
        pytest.param("Run `npm test` exits with 2", "npm test", 2, id="without a dash and without a word"),
        pytest.param("Run `npm test`: exits with exit code 2", "npm test", 2, id="with a colon and a word too many"),
        pytest.param("Run `npm test` - exits with status 2", "npm test", 2, id="with a status"),
        pytest.param("  - run `npm test` - exits with code 0.\n", "npm test", 0, id="as a bullet, small, with a stop"),
        pytest.param("* RUN  `npm test` -  Exits with Code 255", "npm test", 255, id="loud"),
        pytest.param("Run ` npm test ` - exits with code 0", "npm test", 0, id="with room around it"),
        pytest.param("Run `` echo `date` `` - exits with code 0", "echo `date`", 0, id="in two backticks"),
        pytest.param("Run ``echo `date` `` - exits with code 0", "echo `date`", 0, id="in two, with room at one end"),
        pytest.param("Run `echo `date`` - exits with code 0", "echo `date`", 0, id="with a shell's own backticks"),
        pytest.param("Run `echo `a` `b` c` - exits with code 0", "echo `a` `b` c", 0, id="with several of them"),
        pytest.param(r"Run \`npm test\` - exits with code 0", "npm test", 0, id="copied out of a table"),
        pytest.param("Run `a - exits with code 1` - exits with code 0", "a - exits with code 1", 0, id="about itself"),
        pytest.param("Run `x --flag` - exits with code 0", "x --flag", 0, id="with hyphens"),
    ],
)
def test_a_command_is_read(text: str, command: str, code: int) -> None:
    found = parse(text)
    assert (found.kind, found.command, found.code, found.problem) == (Kind.RUN, command, code, "")
    assert found.text == text.strip()


@pytest.mark.parametrize(
    ("text", "path", "holds"),
    [
        pytest.param("File `src/auth.py` exists", "src/auth.py", "", id="a file"),
        pytest.param("- file `src/auth.py` exists.", "src/auth.py", "", id="a bullet, small, with a stop"),
        pytest.param("File `a b.txt` exists", "a b.txt", "", id="a name of two words"),
        pytest.param("File `.env..x` exists", ".env..x", "", id="dots that lead nowhere"),
        pytest.param("File `config.py` contains `JWT_SECRET`", "config.py", "JWT_SECRET", id="a text"),
        pytest.param("File `a` contains ``x = `y` ``.", "a", "x = `y` ", id="a text with backticks"),
        pytest.param("File `a` contains ` ``` `", "a", "```", id="a text that is all backticks"),
        pytest.param("File `a` contains `b` contains `c`", "a", "b` contains `c", id="the outer backticks of two"),
        pytest.param("File `a` contains `exists`", "a", "exists", id="a text that is a word of the pattern"),
    ],
)
def test_a_file_is_read(text: str, path: str, holds: str) -> None:
    found = parse(text)
    kind = Kind.CONTAINS if holds else Kind.EXISTS
    assert (found.kind, found.path, found.holds, found.problem) == (kind, path, holds, "")


@pytest.mark.parametrize(
    ("text", "method", "url", "status"),
    [
        pytest.param("POST /api/login returns 200", "POST", "/api/login", 200, id="as it is written down"),
        pytest.param("GET /a?b=c&d=%20 returns 404.", "GET", "/a?b=c&d=%20", 404, id="with a query"),
        pytest.param("`GET /a` returns 200", "GET", "/a", 200, id="in backticks"),
        pytest.param("GET `/a` returns 200", "GET", "/a", 200, id="half in backticks"),
        pytest.param("PROPFIND / returns 207", "PROPFIND", "/", 207, id="a rare method"),
        pytest.param("Get /a returns 200", "GET", "/a", 200, id="a small method"),
        pytest.param("- DELETE /a returns HTTP 204", "DELETE", "/a", 204, id="with the word HTTP"),
        pytest.param("PATCH /a returns status code 422", "PATCH", "/a", 422, id="with the words status code"),
    ],
)
def test_a_request_is_read(text: str, method: str, url: str, status: int) -> None:
    found = parse(text)
    assert (found.kind, found.method, found.url, found.status) == (Kind.HTTP, method, url, status)
    assert found.problem == ""


@pytest.mark.parametrize(
    ("text", "action"),
    [
        pytest.param('agent-browser: click "Submit" - redirects', ("click", "Submit"), id="as it is written down"),
        pytest.param("Agent-Browser: open /login", ("open", "/login"), id="without a result"),
        pytest.param('agent-browser: click "Save - all" - a - b', ("click", "Save - all"), id="a dash in quotes"),
        pytest.param("agent-browser: fill '#a' x-y — done", ("fill", "#a", "x-y"), id="a hyphen in a word"),
        pytest.param("agent-browser: click a - the user's page", ("click", "a"), id="an apostrophe in the result"),
        pytest.param('agent-browser: `click "A"` - works', ("click", "A"), id="in backticks"),
    ],
)
def test_an_action_in_a_browser_is_read(text: str, action: tuple[str, ...]) -> None:
    found = parse(text)
    assert (found.kind, found.action, found.problem) == (Kind.BROWSER, action, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("The code is clean", id="prose"),
        pytest.param("Run npm test - exits with code 0", id="a command without backticks"),
        pytest.param("Run `npm test`", id="a command without a code"),
        pytest.param("Run `` - exits with code 0", id="no command"),
        pytest.param("Run ```` - exits with code 0", id="backticks alone"),
        pytest.param("Run ` ` - exits with code 0", id="blanks alone"),
        pytest.param("Run ``a` - exits with code 0", id="backticks that do not fit"),
        pytest.param("Run `a` - exits with code 0 and Run `b` - exits with code 0", id="two commands in one"),
        pytest.param("Run `a` or `b - exits with code 0", id="one backtick too many"),
        pytest.param("Please run `a` - exits with code 0", id="a command within a sentence"),
        pytest.param("Run `a` - exits with code 0, quickly", id="more than the pattern says"),
        pytest.param("Run `a` - exits with code 99999999999999999999", id="a code of many digits"),
        pytest.param("File `a` does not exist", id="the opposite"),
        pytest.param("File a exists", id="a file without backticks"),
        pytest.param("File `a` contains b", id="a text without backticks"),
        pytest.param("File ` ` exists", id="a file without a name"),
        pytest.param("GET api returns 200", id="a URL without a slash"),
        pytest.param("GET http://example.com/ returns 200", id="another server"),
        pytest.param("The /a returns 200", id="a word that is no method"),
        pytest.param("GET /a b returns 200", id="a URL of two words"),
        pytest.param("GET /a returns 2000", id="four digits"),
        pytest.param("agent-browser:", id="no action"),
        pytest.param("agent-browser: ` `", id="a blank action"),
    ],
)
def test_anything_else_is_not_machine_checked_and_that_is_said(text: str, around: Around) -> None:
    assert parse(text) == Criterion(text=text.strip())
    met = checked(text, around)
    assert (met.met, met.criterion.kind) == (True, Kind.UNCHECKED)
    assert met.why.startswith("not machine-checked, nobody looked: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("File `/etc/passwd` exists", "no path within the project", id="a path from the root"),
        pytest.param("File `~/.netrc` contains `x`", "no path within the project", id="a path from home"),
        pytest.param("File `../x` exists", "may not go up", id="a path up"),
        pytest.param("File `a/../../x` contains `x`", "may not go up", id="a path down and up"),
        pytest.param("File `..` exists", "may not go up", id="up alone"),
        pytest.param("Run `a` - exits with code 256", "0 to 255", id="a code that no program has"),
        pytest.param("GET / returns 600", "100 to 599", id="a status that no server has"),
        pytest.param("agent-browser: click 'a - b", "never closed", id="an open quotation"),
        pytest.param("Run `a\0b` - exits with code 0", "NUL", id="a NUL"),
        pytest.param("File `\ud800` exists", "half a character", id="half a character"),
    ],
)
def test_what_can_never_be_met_is_known_from_its_text(text: str, words: str, around: Around) -> None:
    assert words in parse(text).problem
    met = checked(text, around)
    assert not met.met
    assert words in met.why


@given(st.text())
def test_any_text_is_some_criterion(text: str) -> None:
    assert parse(text).text == text.strip()


@given(st.text(alphabet="`Run File exists contains 0-agent-browser:/\"'\\- ", max_size=60))
def test_so_is_what_looks_like_one(text: str) -> None:
    for full in (text, f"Run {text} - exits with code 0", f"File {text} exists", f"agent-browser: {text}"):
        assert parse(full).text == full.strip()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Run `" + "a` " * 30_000, id="backticks"),
        pytest.param("agent-browser: " + "\"'" * 30_000, id="quotation marks"),
        pytest.param("agent-browser: " + "a -" * 30_000, id="dashes"),
        pytest.param("Run `a`" + " " * 30_000 + "x", id="blanks"),
        pytest.param("agent-browser: a" + " " * 30_000 + "x", id="blanks in an action"),
    ],
)
def test_a_long_line_is_read_in_no_time(text: str) -> None:
    begin = time.process_time()
    parse(text)
    assert time.process_time() - begin < 2


# Commands.


@pytest.mark.parametrize(
    ("text", "met", "why"),
    [
        pytest.param("Run `true` - exits with code 0", True, "Run `true` exited with 0", id="as it should"),
        pytest.param("Run `exit 3` - exits with code 3", True, "Run `exit 3` exited with 3", id="a failure as wanted"),
        pytest.param("Run `exit 1` - exits with code 0", False, "Run `exit 1` exited with 1, not 0", id="a failure"),
        pytest.param("Run `true` - exits with code 2", False, "Run `true` exited with 0, not 2", id="no failure"),
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


def test_what_a_command_printed_is_there_when_it_is_not_met(around: Around) -> None:
    assert checked("Run `echo no; exit 1` - exits with code 0", around).output == "no\n"
    assert checked("Run `echo yes` - exits with code 0", around).output == ""


def test_a_command_runs_in_the_project(around: Around, folder: Path) -> None:
    (folder / "here").touch()
    assert checked("Run `test -e here` - exits with code 0", around).met


def test_what_was_found_is_seen_behind_a_long_command(around: Around) -> None:
    met = checked(f"Run `: {'x' * 5000}; exit 1` - exits with code 0", around)
    assert met.why.endswith("…` exited with 1, not 0")
    assert len(met.why) < 300


def test_a_command_that_ralph_ended_is_not_met_whatever_its_code_was(folder: Path) -> None:
    ended = CommandRun(code=None, what="had not ended after 2s", output="so far\n", took_s=2)
    met = checked("Run `sleep 9` - exits with code 0", Around(project=folder, run=lambda _: ended))
    assert (met.met, met.output) == (False, "so far\n")
    assert met.why == "Run `sleep 9` had not ended after 2s, and should have exited with 0"


def test_a_signal_leaves_nothing_known(folder: Path) -> None:
    asked: list[str] = []
    around = Around(project=folder, run=lambda command: asked.append(command))  # noqa: PLW0108 - returns None, typed so
    texts = ["File `x` exists", "Run `a` - exits with code 0", "Run `b` - exits with code 0"]
    results = list(check_each(map(parse, texts), around))
    assert [result and result.met for result in results] == [False, None]
    assert asked == ["a"]


REAL = """
import os, sys
from pathlib import Path
from ralph.criteria import Around, check_each, parse
from ralph.process import Files, Job, Keeper, Patience, signals
from ralph.verify import run_command, shell

folder, mark = Path(sys.argv[1]), os.environ["TEST_MARK"]
os.chdir(folder)
signals.install()
keeper = Keeper(mark, Patience(interrupt_s=0.2, terminate_s=0.2), folder / "keeper.txt")
files = Files(prompt=Path(os.devnull), output=folder / "out", errors=folder / "err")
def run(command):
    job = Job(argv=shell(command), env={**os.environ, "RALPH": str(os.getpid())}, files=files)
    ran = run_command("the check", job, keeper, 1)
    return None if ran.interrupted else ran
around = Around(project=folder, run=run)
for met in check_each(map(parse, sys.argv[2:]), around):
    print(met and (met.met, met.why, met.output), flush=True)
keeper.dismiss()
"""


def test_the_runner_of_the_verify_command_knows_codes_times_and_signals(folder: Path, mark: str) -> None:
    slow = "Run `trap 'exit 0' INT TERM; echo three; sleep 100 & wait`"
    texts = [
        "Run `echo one; exit 3` - exits with code 3",
        "Run `echo two; exit 4` - exits with code 3",
        f"{slow} - exits with code 0",
        "Run `kill -INT $RALPH; sleep 100` - exits with code 0",
        "Run `echo five` - exits with code 0",
    ]
    env = {**os.environ, "TEST_MARK": mark}
    done = process.call([sys.executable, "-P", "-c", REAL, str(folder), *texts], timeout_s=30, env=env)
    assert done.stdout.decode().splitlines() == [
        str((True, "Run `echo one; exit 3` exited with 3", "")),
        str((False, "Run `echo two; exit 4` exited with 4, not 3", "two\n")),
        str((False, f"{slow} had not ended after 1s, and should have exited with 0", "three\n")),
        "None",
    ], done.stderr.decode()


# Files.


def test_a_file_exists_or_not(around: Around, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a b.py").touch()
    assert checked("File `src/a b.py` exists", around).why == "File `src/a b.py` exists"
    assert checked("File `src` exists", around).met, "a folder too"
    assert checked("File `src/` exists", around).met
    missing = checked("File `src/c.py` exists", around)
    assert (missing.met, missing.why) == (False, "File `src/c.py` does not exist")
    assert checked("File `src/a b.py/` exists", around).why == "File `src/a b.py/` is no folder"
    assert not checked("File `src/a b.py/x` exists", around).met
    assert not checked(f"File `{'x' * 5000}` exists", around).met


def test_a_file_contains_a_text_or_not(around: Around, folder: Path) -> None:
    (folder / "config.py").write_text("JWT_SECRET = 'ü'\n")
    assert checked("File `config.py` contains `JWT_SECRET = 'ü'`", around).met
    without = checked("File `config.py` contains `jwt_secret`", around)
    assert (without.met, without.why) == (False, "File `config.py` does not contain `jwt_secret`")
    assert checked("File `gone.py` contains `x`", around).why == "File `gone.py` does not exist"
    assert checked("File `.` contains `x`", around).why == "File `.` cannot be read: Is a directory"


def test_bytes_are_looked_at_whatever_they_are(around: Around, folder: Path) -> None:
    (folder / "blob").write_bytes(b"\xff\x00needle\xfe")
    assert checked("File `blob` contains `needle`", around).met


@pytest.mark.parametrize("at", [0, (1 << 20) - 3, (1 << 20) - 1, 1 << 20, (3 << 20) - 5])
def test_a_text_is_found_wherever_it_stands_in_a_big_file(at: int, around: Around, folder: Path) -> None:
    (folder / "big").write_bytes(b"n" * at + b"needle" + b"e" * (1 << 20))
    assert checked("File `big` contains `needle`", around).met
    assert checked("File `big` contains `d`", around).met
    assert not checked("File `big` contains `needless`", around).met


def test_looking_through_a_big_file_can_be_ended(around: Around, folder: Path) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    begin = time.monotonic()
    stop = with_base(around, None, over=lambda: time.monotonic() - begin > 0.2)
    assert check(parse("File `huge` contains `x`"), stop) is None
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("text", ["File `link` exists", "File `link` contains `x`"])
@pytest.mark.parametrize(
    ("leads", "words"),
    [
        pytest.param("/etc/passwd", "leads out of the project", id="to the system"),
        pytest.param("../outside", "leads out of the project", id="up"),
        pytest.param("../project-two/file", "leads out of the project", id="to a neighbour of nearly the same name"),
        pytest.param("../nowhere", "leads out of the project", id="out, to what is not there"),
        pytest.param("nowhere", "does not exist", id="to what is not there"),
        pytest.param("link", "cannot be found", id="to itself"),
        pytest.param("folder/file", "", id="to a file of the project"),
    ],
)
def test_a_link_counts_within_the_project_only(text: str, leads: str, words: str, around: Around, folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder.parent / "project-two").mkdir()
    for file in (folder / "folder" / "file", folder.parent / "outside", folder.parent / "project-two" / "file"):
        file.write_text("x")
    (folder / "link").symlink_to(leads)
    met = checked(text, around)
    assert (met.met, words in met.why) == (not words, True), met.why


def test_a_folder_that_leads_out_is_not_followed_either(around: Around, folder: Path) -> None:
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "file").write_text("x")
    (folder / "in").symlink_to("../outside")
    assert "leads out" in checked("File `in/file` contains `x`", around).why


def test_a_project_behind_a_link_is_a_project(around: Around, folder: Path) -> None:
    (folder / "file").write_text("x")
    (folder.parent / "other").symlink_to(folder)
    assert checked("File `file` contains `x`", Around(project=folder.parent / "other", run=around.run)).met


@pytest.mark.parametrize("text", ["File `pipe` exists", "File `pipe` contains `x`"])
def test_a_pipe_is_no_file_and_nobody_waits_for_it(text: str, around: Around, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    waiting = threading.Thread(target=lambda: checked(text, around), daemon=True)
    waiting.start()
    waiting.join(5)
    assert not waiting.is_alive()
    assert checked(text, around).why == "File `pipe` is no file"


# Servers.


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_a_server_is_asked_without_content(method: str, serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=201))
    met = checked(f"{method} /api/x?y=z returns 201", with_base(around, server.url("")))
    assert (met.met, met.why) == (True, f"{method} /api/x?y=z returned 201")
    (request,) = server.received
    assert (request.method, request.path, request.body) == (method, "/api/x?y=z", b"")
    assert request.headers["Authorization"] is None


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_the_path_is_added_to_the_base_url(base: str, serve: ServerMaker, around: Around) -> None:
    server = serve()
    assert checked("GET /x returns 200", with_base(around, server.url(base))).met
    assert server.received[0].path == f"{base.rstrip('/')}/x"


def test_another_status_is_told_with_what_the_server_said(serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=500, body="Traceback: no such table"))
    met = checked("GET /x returns 200", with_base(around, server.url("")))
    assert (met.met, met.why, met.output) == (False, "GET /x returned 500, not 200", "Traceback: no such table")


def test_a_redirect_is_an_answer_and_is_not_followed(serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=302, location="/there"), Answer())
    assert checked("GET /here returns 302", with_base(around, server.url(""))).met
    assert len(server.received) == 1


def test_without_a_base_url_it_is_said_what_to_set(around: Around) -> None:
    met = checked("GET /x returns 200", around)
    assert (met.met, "--base-url" in met.why) == (False, True)


@pytest.mark.parametrize("base", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://[::1", "http://"])
def test_a_base_url_that_is_no_web_address_is_told(base: str, around: Around) -> None:
    met = checked("GET /x returns 200", with_base(around, base))
    assert (met.met, "--base-url is no web address" in met.why) == (False, True)


def test_nobody_listening_is_told_without_secrets(around: Around) -> None:
    with Server() as server:
        address = server.url("/s3cr3t").replace("http://", "http://me:passw0rd@")
    met = checked("GET /x returns 200", with_base(around, address))
    port = address.split(":")[-1].split("/")[0]
    nobody = f"http://127.0.0.1:{port}: Connection refused"
    assert (met.met, met.why) == (False, f"GET /x, which should return 200: {nobody}")


def test_a_server_that_breaks_off_is_told(serve: ServerMaker, around: Around) -> None:
    server = serve(Bad.RESET)
    met = checked("GET /x returns 200", with_base(around, server.url("")))
    assert (met.met, met.why) == (False, f"GET /x, which should return 200: {server.url('')}: Connection reset by peer")


def test_what_drips_behind_another_status_is_told_in_part(serve: ServerMaker, around: Around) -> None:
    met = checked("GET /events returns 200", with_base(around, serve(Bad.DRIP_BODY).url("")))
    assert (met.why, met.output[:3]) == ("GET /events returned 500, not 200", "...")


def test_a_status_counts_though_what_follows_never_ends(serve: ServerMaker, around: Around) -> None:
    server = serve(Bad.DRIP_BODY)
    assert checked("GET /events returns 500", with_base(around, server.url(""))).met


def test_a_signal_while_a_server_is_asked_leaves_nothing_known(serve: ServerMaker, around: Around) -> None:
    server = serve(Answer(status=200))
    stop = with_base(around, server.url(""), over=lambda: bool(server.received))
    assert check(parse("GET /x returns 200"), stop) is None


def test_no_proxy_stands_before_this_machine(
    serve: ServerMaker, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = serve(Answer(status=502)), serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert checked("GET /x returns 200", with_base(around, server.url(""))).met
    assert proxy.received == []


def test_a_password_of_netrc_stays_where_it_is(
    serve: ServerMaker, around: Around, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = serve()
    checked("GET /x returns 200", with_base(around, server.url("")))
    assert server.received[0].headers["Authorization"] is None


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
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path / "log"


def test_a_browser_does_what_it_is_told_and_nobody_reads_the_result(around: Around, browser: Path) -> None:
    met = checked('agent-browser: click "Sign in; $(touch x) & go" - redirects', around)
    assert met.met
    assert browser.read_text() == "click|Sign in; $(touch x) & go|\n"
    assert not list(around.project.iterdir()), "the shell sees no more than words"


def test_an_action_that_fails_is_told(around: Around, browser: Path) -> None:
    met = checked("agent-browser: click Broken - works", around)
    assert (met.met, met.why) == (False, "`agent-browser click Broken` failed, and should exit with 0")
    assert met.output == "did click Broken\nno such button\n"
    assert browser.exists()


def test_actions_in_a_row_share_a_browser_and_end_at_the_first_that_fails(around: Around, browser: Path) -> None:
    runs: list[str] = []

    def run(command: str) -> CommandRun | None:
        runs.append(command)
        return around.run(command)

    texts = ["open http://127.0.0.1/", "click Broken", "click Next"]
    criteria = [parse(f"agent-browser: {text} - well") for text in texts]
    met = list(check_each([*criteria, parse("File `x` exists"), criteria[0]], Around(project=around.project, run=run)))
    assert [one and one.met for one in met] == [True, False, False, False, True]
    assert met[2]
    assert met[2].why == "`agent-browser click Next` was not tried, since an action before it failed"
    assert len(runs) == 2
    assert browser.read_text().splitlines() == ["open|http://127.0.0.1/|", "click|Broken|", "open|http://127.0.0.1/|"]


def test_a_browser_that_was_ended_met_nothing(browser: Path, folder: Path) -> None:
    del browser  # it is installed
    ended = CommandRun(code=None, what="had not ended after 2s", output="", took_s=2)
    met = checked("agent-browser: wait 9 - well", Around(project=folder, run=lambda _: ended))
    assert (met.met, "it had not ended after 2s" in met.why) == (False, True)


def test_a_browser_that_is_not_installed_meets_nothing(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    met = checked("agent-browser: open /login - shows a form", around)
    assert (met.met, met.why) == (False, "agent-browser is not installed, so `agent-browser open /login` was not tried")
