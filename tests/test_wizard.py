"""`ralph notify`: a conversation that keeps what is there, and a test that tells the truth."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from http_server import Answer, Server
from ralph_driver import TtyRunning, eventually

from ralph import config, files
from ralph.channels import load
from ralph.config import HEADER
from ralph.errors import RalphError

BUILT_IN = load([files.data("notify")])
HOOK = "https://hooks.slack.com/services/T0/B0/x"

ServerMaker = Callable[..., Server]


@pytest.fixture(autouse=True)
def no_channel_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("RALPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".ralph.env"


@pytest.fixture
def serve() -> Iterator[ServerMaker]:
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def converse(*answers: str) -> Result:
    """`setup` with these lines typed; when they run out, the input ends."""

    @click.command()
    def setup() -> None:
        sys.exit(config.setup(BUILT_IN))

    return CliRunner().invoke(setup, input="".join(f"{answer}\n" for answer in answers))


def test_one_channel_takes_a_handful_of_answers(path: Path) -> None:
    result = converse("slack", HOOK, "", "", "", "n")
    assert result.exit_code == 0
    assert path.read_text() == HEADER + f"export RALPH_SLACK_WEBHOOK_URL='{HOOK}'\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "RALPH_SLACK_WEBHOOK_URL: the webhook's address" in result.output
    assert "RALPH_SLACK_USERNAME: optional; the sender's name (default Ralph)" in result.output
    assert "DISCORD" not in result.output


def test_a_channel_is_chosen_by_its_name_and_a_slip_is_asked_again(path: Path) -> None:
    result = converse("slak", "Custom", "/usr/bin/notify", "n")
    assert "'slak' is not one of" in result.output
    assert "export RALPH_CUSTOM_NOTIFY_SCRIPT='/usr/bin/notify'" in path.read_text()


def test_a_value_that_the_file_cannot_hold_is_refused(path: Path) -> None:
    result = converse("custom", "C:\\notify")
    assert isinstance(result.exception, RalphError)
    assert result.exception.message == "a value must be a single line, without a backslash"
    assert not path.exists()


def test_enter_keeps_everything_that_is_there(path: Path) -> None:
    before = f"# mine\nRALPH_MODEL=opus\nRALPH_SLACK_WEBHOOK_URL={HOOK}\nRALPH_SLACK_CHANNEL='#b'\n"
    path.write_text(before)
    result = converse("slack", "", "", "", "", "n")
    assert path.read_text() == before
    assert "Nothing changed." in result.output
    assert "value [#b]" in result.output


def test_a_secret_that_is_there_is_not_shown(path: Path) -> None:
    path.write_text("RALPH_TELEGRAM_BOT_TOKEN=123456789:abcdefghijklmnop\nRALPH_TELEGRAM_CHAT_ID=-42\n")
    result = converse("telegram", "", "", "", "n")
    assert "value [***]" in result.output
    assert "value [-42]" in result.output
    assert "mnop" not in result.output


def test_a_dash_removes_a_value(path: Path) -> None:
    path.write_text(f"RALPH_SLACK_WEBHOOK_URL={HOOK}\nRALPH_SLACK_CHANNEL='#b'\nRALPH_MODEL=opus\n")
    converse("slack", "", "-", "", "", "n")
    assert path.read_text() == f"RALPH_SLACK_WEBHOOK_URL={HOOK}\nRALPH_MODEL=opus\n"


def test_a_channel_without_what_it_needs_asks_no_further_and_stays_off(path: Path) -> None:
    path.write_text("RALPH_TELEGRAM_BOT_TOKEN=1:x\n")
    result = converse("telegram", "-", "")
    assert "Without RALPH_TELEGRAM_BOT_TOKEN and RALPH_TELEGRAM_CHAT_ID, telegram stays off." in result.output
    assert "RALPH_TELEGRAM_API_URL" not in result.output
    assert path.read_text() == ""
    assert result.exit_code == 0


@pytest.mark.parametrize("answers", [[], ["slack", HOOK, "#b", "Bot"]])
def test_a_conversation_that_breaks_off_changes_nothing(path: Path, answers: list[str]) -> None:
    path.write_text("RALPH_MODEL=opus\n")
    result = converse(*answers)
    assert "Aborted!" in result.output
    assert path.read_text() == "RALPH_MODEL=opus\n"


def test_a_broken_file_is_told_before_the_first_question(path: Path) -> None:
    path.write_text('A=1\nB="open\n')
    result = converse("slack")
    assert isinstance(result.exception, RalphError)
    assert f"{path}:2: " in result.exception.message
    assert result.output == ""


def test_it_offers_a_test_of_what_was_set_up(serve: ServerMaker) -> None:
    server = serve(Answer(), Answer(status=404, body="no such topic"))
    assert converse("webhook", server.url(), "y").output.endswith("webhook: sent\n")
    again = converse("webhook", "", "")
    assert again.output.endswith("webhook: FAILED: HTTP 404 from 127.0.0.1: no such topic\n")
    assert again.exit_code == 1


def test_what_the_environment_sets_is_said_and_is_what_the_test_uses(
    serve: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setenv("RALPH_WEBHOOK_URL", server.url())
    result = converse("webhook", "http://127.0.0.1:9/", "y")
    assert "set in the environment too, which comes before the file" in result.output
    assert result.output.endswith("webhook: sent\n")


def test_a_typed_secret_does_not_show_on_the_terminal_and_ctrl_c_writes_nothing(path: Path) -> None:
    code = (
        "import sys; from ralph import config, files; from ralph.channels import load\n"
        "config.setup(load([files.data('notify')]))"
    )
    python = TtyRunning([sys.executable, "-c", code], dict(os.environ), files.data("notify").parent)
    try:
        eventually(lambda: "set up or change?" in python.screen)
        python.type("slack\n")
        eventually(lambda: "value: " in python.screen)
        python.type("https://hooks.example/s3cret\n")
        eventually(lambda: python.screen.count("value: ") == 2)
        python.type("#builds\n")
        eventually(lambda: "#builds" in python.screen)
        assert "s3cret" not in python.screen
        python.type("\x03")
        assert python.wait().code != 0
    finally:
        python.hang_up()
    assert not path.exists()


def test_the_test_tells_what_became_of_each_channel(serve: ServerMaker, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve(Answer(status=404), Answer())
    values = {"RALPH_NTFY_URL": server.url("/a-secret-topic"), "RALPH_WEBHOOK_URL": server.url()}
    assert config.test(BUILT_IN, values | {"RALPH_TELEGRAM_CHAT_ID": "-42"}) == 1
    half = "telegram: off, because RALPH_TELEGRAM_BOT_TOKEN is not set\n"
    assert capsys.readouterr().out == f"{half}ntfy: FAILED: HTTP 404 from 127.0.0.1\nwebhook: sent\n"
    del values["RALPH_NTFY_URL"]
    assert config.test(BUILT_IN, values) == 0
    assert config.test(BUILT_IN, {}) == 1
    assert "Run `ralph notify setup` first." in capsys.readouterr().out


def test_the_usage_names_the_verbs_and_every_setting_of_every_channel() -> None:
    usage = config.usage(BUILT_IN)
    for word in ("ralph notify setup", "ralph notify test", "telegram", *(n for c in BUILT_IN for n in c.names)):
        assert word in usage
