"""Acceptance criteria: how their lines are read, and real files, commands, servers and browsers behind them."""

import os
from pathlib import Path

import pytest
import requests  # noqa: F401 - first imported under another test's filters, its own warnings would be errors
from http_server import Answer, Server
from ralph_driver import executable

from ralph.process.programs import call_program
from ralph.run.acceptance import Check, CheckResult, evaluate_check, join_browser_actions, parse_check


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def shell(command: str) -> CheckResult:
    done = call_program(["sh", "-c", f"exec 2>&1\n{command}"], timeout_s=30)
    return CheckResult(done.code, f"exited with {done.code}", done.stdout.decode())


def checked(one: str | Check, base_url: str = "") -> CheckResult:
    came = evaluate_check(
        parse_check(one) if isinstance(one, str) else one, base_url=base_url, run_unless_interrupted=shell
    )
    assert came
    assert "\n" not in came.how_ended
    return came


LINES = {
    "Run `npm test` – exits with code 0": {"command": "npm test", "wanted": "0"},  # noqa: RUF001
    "- run ` npm test `: exits with exit code 2.": {"command": "npm test", "wanted": "2"},
    "Run `` echo `date` `` - exits with code 0": {"command": "echo `date`", "wanted": "0"},
    "- file `src/a b.py` exists.": {"path": "src/a b.py"},
    "File `a` contains ``x = `y` ``.": {"path": "a", "holds": "x = `y`"},
    "POST /api/login returns 200": {"method": "POST", "url": "/api/login", "wanted": "200"},
    "- `Delete /a?b=%20` returns HTTP 204": {"method": "Delete", "url": "/a?b=%20", "wanted": "204"},
    "The  code is clean": {},
    "Run `a` - exits with code 0 and Run `b` - exits with code 0": {},
    "Run `a\0b` - exits with code 0": {},
    "File ` ` exists": {},
    "GET http://example.com/ returns 200": {},
    "agent-browser: click 'a - b": {},
}


def test_a_line_is_read_as_people_write_it() -> None:
    assert {line: parse_check(line).fields for line in LINES} == LINES
    assert (
        parse_check('agent-browser: click "Save - all" - a - b').fields["command"] == "agent-browser click 'Save - all'"
    )
    assert parse_check("agent-browser: fill '#a' '' — it's done").fields["command"] == "agent-browser fill '#a' ''"
    assert checked("The  code is clean") == CheckResult(0, "not machine-checked, nobody looked: The code is clean")


def test_a_command_ends_as_it_should() -> None:
    assert checked("Run `exit 3` - exits with code 3") == CheckResult(0, "Run `exit 3` exited with 3")
    what = "Run `echo so; exit 1` exited with 1 (wanted: 0)"
    assert checked("Run `echo so; exit 1` - exits with code 0") == CheckResult(1, what, "so\n")
    endless, late = parse_check("Run `a` - exits with code 0"), CheckResult(None, "had not ended after 2s")
    came = evaluate_check(endless, base_url="", run_unless_interrupted=lambda _: late)
    assert came == CheckResult(1, "Run `a` had not ended after 2s (wanted: 0)")
    assert evaluate_check(endless, base_url="", run_unless_interrupted=lambda _: None) is None, "a signal is no answer"


OUT = "leads out of the project; write it"


def test_a_file_of_the_project_exists_or_not_and_contains_a_text_or_not_wherever_links_lead(folder: Path) -> None:
    for name in ("project/src", "project-two"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "a b.py").write_bytes("\0SECRET = 'ü'\n".encode() + b"\xff")
    os.mkfifo(folder / "pipe")
    for link, leads in {"in": "src/a b.py", "out": "../project-two/a b.py", "etc": "/etc", "loop": "loop"}.items():
        (folder / link).symlink_to(leads)
    for text in (
        "`src/a b.py` exists",
        "`src/` exists",
        "`src/a b.py` contains `SECRET = 'ü'`",
        "`in` contains `SECRET`",
    ):
        assert checked(f"File {text}").code == 0, text
    for text, what in {
        "`src/c.py` exists": "does not exist",
        "`pipe` contains `x`": "does not contain `x`",
        f"`{'x' * 5000}` exists": "does not exist",
        "`src/a b.py` contains `secret`": "does not contain `secret`",
        "`out` contains `SECRET`": OUT,
        "`etc/passwd` exists": OUT,
        "`loop` exists": "does not exist",
        "`a/../../project-two/a b.py` exists": OUT,
    }.items():
        assert what in checked(f"File {text}").why_failed, text


def test_a_server_is_asked_without_content_below_the_base_url_and_a_redirect_is_not_followed() -> None:
    with Server(Answer(status=201), Answer(status=500, body="no table"), Answer(status=302)) as server:
        base = server.url("/v1/")
        assert checked("post /api/x?y=z returns 201", base) == CheckResult(0, "POST /api/x?y=z returned 201")
        wrong = CheckResult(1, "GET /x returned 500 (wanted: 200)", "no table")
        assert checked("GET /x returns 200", base) == wrong
        assert checked("GET /here returns 302", base).code == 0
    request = server.received[0]
    assert (request.command, request.path, request.body, len(server.received)) == ("POST", "/v1/api/x?y=z", b"", 3)
    gone = checked("GET /x returns 200", base.replace("http://", "http://me:passw0rd@"))
    assert (gone.cannot_run, "GET /x got no answer from 127.0.0.1:" in gone.why_failed) == (True, True)
    assert gone.output == "Connection refused"


def test_actions_in_a_row_share_a_browser_and_end_at_the_first_that_fails(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = f'printf "%s|" "$@" >> {tmp_path}/log\n[ "$2" != Broken ]'
    script = executable(tmp_path / "bin" / "agent-browser", logs)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    said = ("open /login - shows it", 'click "Sign in; $(touch x) & go"', "click Broken - well", "click Next")
    actions = [parse_check(f"agent-browser: {one}") for one in said]
    together = join_browser_actions([*actions, parse_check("File `x` exists"), actions[0]])
    assert together[1:] == [parse_check("File `x` exists"), actions[0]]
    came = checked(together[0])
    assert "agent-browser click Broken && agent-browser click Next` exited with 1" in came.why_failed
    assert (tmp_path / "log").read_text() == "open|/login|click|Sign in; $(touch x) & go|click|Broken|"
    assert not list(folder.iterdir()), "the shell sees no more than words"
