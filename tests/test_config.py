"""`ralph notify` and `ralph config`: ~/.ralph.env is written without harm, and a test of channels tells the truth."""

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
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import Project, TtyRunning, eventually

from ralph import config, files, sources
from ralph.channels import load
from ralph.errors import RalphError
from ralph.settings import Source

BUILT_IN = load()
HOOK = "https://hooks.slack.com/services/T0/B0/x"
of_one_line = st.one_of(
    st.text(alphabet="ab '\"$`#!{}", max_size=12),  # what quoting is about, often
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r\0\\")),
)

ServerMaker = Callable[..., Server]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ~/.ralph.env of a person whose environment has no channel."""
    for name in [name for name in os.environ if name.startswith("RALPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / ".ralph.env"


@pytest.fixture
def serve() -> Iterator[ServerMaker]:
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def read(path: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Names, values and places, the last first; and what is wrong."""
    given = sources.in_file(path, Source.HOME_FILE)
    return [one[:2] + one[3:] for one in given if one.variable], [one.text for one in given if not one.variable]


# Reading.


def test_each_line_is_read_the_last_first_and_a_broken_one_is_not_shown(path: Path) -> None:
    path.write_bytes(
        b"\xef\xbb\xbfRALPH_W=true\r\n# a remark\r\n\r\nRALPH_A=1\r\n"
        b'  export RALPH_B="two\r\nlines"  # why\r\nOTHER=x\r\nRALPH_E=\r\nRALPH_T="s3cret\nRALPH_A=3\r\n'
    )
    found, problems = read(path)
    assert [(name, value, where.rpartition(":")[2]) for name, value, where in found] == [
        ("RALPH_A", "3", "10"),
        ("RALPH_E", "", "8"),
        ("RALPH_B", "two\nlines", "5"),
        ("RALPH_A", "1", "4"),
        ("RALPH_W", "true", "1"),
    ]
    assert problems == [f'{path}:9: is no NAME="value" (a quote left open?)']
    assert read(path.parent) == ([], [f"{path.parent}: cannot be read: Is a directory"])
    assert read(path.with_name("gone")) == ([], [])


# Writing.


def test_setting_and_removing_leave_every_other_line_as_it_is(path: Path) -> None:
    path.write_text("# mine\n\nA=1 # why\nRALPH_X=old\n  export B='two\nlines'\nRALPH_Y=2")
    config.keep({"RALPH_X": "new", "RALPH_Y": "", "RALPH_Z": "z", "RALPH_NOT_THERE": ""})
    kept = "# mine\n\nA=1 # why\nexport RALPH_X='new'\n  export B='two\nlines'\nexport RALPH_Z='z'\n"
    assert path.read_text() == kept
    path.unlink()
    config.keep({"RALPH_X": "1"})
    assert path.read_text() == f"{config.HEADER}export RALPH_X='1'\n"


@given(value=of_one_line)
def test_any_line_is_read_back_as_it_was(path: Path, value: str) -> None:
    config.keep({"RALPH_X": value})
    assert [text for name, text, _ in read(path)[0] if name == "RALPH_X"] == [value] * bool(value)


@pytest.mark.parametrize(
    ("data", "value", "said"),
    [
        pytest.param(b"A=1\n", "two\nlines", "a value must be a single line", id="two lines"),
        pytest.param(b"A=1\n", "C:\\", "without a backslash", id="a backslash"),
        pytest.param(b'A=1\nB="open\n', "1", r"\.ralph\.env:2: .*; mend that first", id="an open quote"),
        pytest.param(b"# caf\xe9\n", "1", "cannot be written: .*utf-8", id="another encoding"),
    ],
)
def test_what_cannot_be_written_exactly_is_refused_unseen_and_nothing_changes(
    path: Path, data: bytes, value: str, said: str
) -> None:
    path.write_bytes(data)
    with pytest.raises(RalphError, match=said) as refused:
        config.keep({"B": "2", "X": value})
    assert value == "1" or value not in refused.value.message
    assert path.read_bytes() == data


def test_a_linked_file_stays_linked_and_becomes_private(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text("A=1\n")
    real.chmod(0o644)
    path.symlink_to(real)
    config.keep({"X": "1"})
    assert (path.is_symlink(), real.read_text()) == (True, "A=1\nexport X='1'\n")
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_commits_are_set_for_good_in_a_private_file(project: Project) -> None:
    for word in ("off", "on"):
        assert project.ralph("config", "commit", word).code == 0
        status = project.ralph("config", "commit", "status").stdout
        assert status.startswith(f"auto-commit is {word} ({project.home}/.ralph.env:")
    assert (project.home / ".ralph.env").stat().st_mode & 0o777 == 0o600
    for args in ((), ("commit", "perhaps"), ("colour", "on")):
        run = project.ralph("config", *args)
        assert (run.code, run.stderr.count("\n"), "see ralph help" in run.stderr) == (2, 1, True)


@pytest.mark.parametrize(
    ("there", "verify", "others"),
    [
        pytest.param(
            {"Makefile": "all:\ntest:\n\tx\n", "go.mod": ""}, "make test", ["go test ./..."], id="make and go"
        ),
        pytest.param(
            {"pyproject.toml": "[project]", "uv.lock": ""}, "uv run pytest", ["python -m pytest"], id="python with uv"
        ),
        pytest.param(
            {"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""}, "yarn test", ["npm test"], id="yarn"
        ),
        pytest.param(
            {"package.json": '{"test": "echo \\"Error: no test specified\\" && exit 1"}'}, "", [], id="no test"
        ),
        pytest.param({"Cargo.toml": "", "pom.xml": ""}, "cargo test", ["mvn -q test"], id="cargo and maven"),
    ],
)
def test_a_project_gets_settings_with_the_verify_command_that_it_seems_to_have(
    project: Project, there: dict[str, str], verify: str, others: list[str]
) -> None:
    for name, text in there.items():
        (project.root / name).write_text(text)
    run = project.ralph("init")
    assert (run.code, run.stderr) == (0, ""), run.text
    assert all(f": {command}\n" in run.stdout for command in [verify, *others] if command)
    file = project.root / ".ralph.env"
    assert [one[:2] for one in sources.in_file(file, Source.PROJECT_FILE)] == [("RALPH_VERIFY", verify)]
    assert [command for command in others if f"\n#RALPH_VERIFY='{command}'\n" not in file.read_text()] == []
    assert "\n#RALPH_STRICT=false\n" in file.read_text()
    written = file.read_bytes()
    again = project.ralph("init")
    assert (again.code, again.stderr.count("\n"), file.read_bytes()) == (1, 1, written)
    assert verify in again.stdout


# The conversation.


def converse(*answers: str) -> Result:
    """`setup` with these lines typed; when they run out, the input ends."""

    @click.command()
    def setup() -> None:
        sys.exit(config.setup(BUILT_IN))

    return CliRunner().invoke(setup, input="".join(f"{answer}\n" for answer in answers))


def test_one_channel_takes_a_handful_of_answers_and_can_be_changed(path: Path) -> None:
    path.write_text("# mine\nRALPH_MODEL=opus\n")
    path.chmod(0o644)
    new = converse("slak", "Slack", HOOK, "#b", "", "", "n")
    assert "'slak' is not one of" in new.output
    assert "RALPH_SLACK_WEBHOOK_URL: the webhook's address" in new.output
    assert "RALPH_SLACK_USERNAME: optional; the sender's name" in new.output
    assert "DISCORD" not in new.output
    hook, channel = f"export RALPH_SLACK_WEBHOOK_URL='{HOOK}'\n", "export RALPH_SLACK_CHANNEL='#b'\n"
    assert path.read_text() == f"# mine\nRALPH_MODEL=opus\n{hook}{channel}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    kept = converse("slack", "", "", "", "", "n")
    assert path.read_text() == f"# mine\nRALPH_MODEL=opus\n{hook}{channel}"
    assert [said for said in ("value [***]", "value [#b]") if said not in kept.output] == []
    assert "T0" not in kept.output

    converse("slack", "", "-", "", "", "n")
    assert path.read_text() == f"# mine\nRALPH_MODEL=opus\n{hook}"
    gone = converse("slack", "-", "", "", "")
    assert "Without RALPH_SLACK_WEBHOOK_URL, slack stays off." in gone.output
    assert (path.read_text(), gone.exit_code) == ("# mine\nRALPH_MODEL=opus\n", 0)


def test_it_offers_a_test_of_what_was_set_up_by_what_counts(
    path: Path, serve: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(Answer(), Answer(status=404, body="no such topic"))
    assert converse("webhook", server.url(), "y").output.endswith("webhook: sent\n")
    assert server.url() in path.read_text()
    monkeypatch.setenv("RALPH_WEBHOOK_URL", server.url())
    again = converse("webhook", "http://127.0.0.1:9/", "")
    assert again.output.endswith(": HTTP 404: no such topic\n")
    assert again.exit_code == 1


def test_a_typed_secret_does_not_show_on_the_terminal_and_ctrl_c_writes_nothing(path: Path) -> None:
    code = "from ralph import config; from ralph.channels import load; config.setup(load())"
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


def test_the_test_tells_what_became_of_each_channel(
    path: Path, serve: ServerMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(Answer(status=404), Answer())
    topic, hook = server.url("/a-secret-topic"), server.url()
    path.write_text(f"RALPH_NTFY_URL={topic}\nRALPH_WEBHOOK_URL={hook}\nRALPH_TELEGRAM_CHAT_ID=-42\n")
    assert config.test(BUILT_IN) == 1
    half = "telegram: off, because RALPH_TELEGRAM_BOT_TOKEN is not set\n"
    assert capsys.readouterr().out == f"ntfy: FAILED: {server.host}: HTTP 404\n{half}webhook: sent\n"
    path.unlink()
    assert config.test(BUILT_IN) == 1
    assert "Run `ralph notify setup` first; there are apprise, custom, discord," in capsys.readouterr().out
