"""`ralph notify`, `config` and `init`: ~/.ralph.env is edited without harm, and a test of channels tells the truth."""

import os
import stat
import sys
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

HOOK = "https://hooks.slack.com/services/T0/B0/x"
of_one_line = st.one_of(
    st.text(alphabet="ab '\"$`#!{}", max_size=12),  # what quoting is about, often
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r\0\\")),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ~/.ralph.env of a person whose environment has no channel."""
    for name in [name for name in os.environ if name.startswith("RALPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / ".ralph.env"


def test_each_line_is_read_the_last_first_and_a_broken_one_is_not_shown(path: Path) -> None:
    path.write_bytes(
        b"\xef\xbb\xbfRALPH_W=true\r\n# a remark\r\n\r\nRALPH_A=1\r\n"
        b'  export RALPH_B="two\r\nlines"  # why\r\nOTHER=x\r\nRALPH_T="s3cret\nRALPH_A=3\r\n'
    )
    given = sources.in_file(path, Source.HOME_FILE)
    assert [(one.variable, one.text, one.where) for one in given] == [
        ("RALPH_A", "3", f"{path}:9"),
        ("", f'{path}:8: is no NAME="value" (a quote left open?)', f"{path}:8"),
        ("RALPH_B", "two\nlines", f"{path}:5"),
        ("RALPH_A", "1", f"{path}:4"),
        ("RALPH_W", "true", f"{path}:1"),
    ]
    (told,) = sources.in_file(path.parent, Source.HOME_FILE)
    assert told.text == f"{path.parent}: cannot be read: Is a directory"


def test_an_edit_leaves_every_other_line_as_it_is_a_link_a_link_and_the_file_private(path: Path) -> None:
    config.keep({"RALPH_X": "1"})
    assert path.read_text() == f"{config.HEADER}export RALPH_X='1'\n"
    real = path.rename(path.with_name("dotfiles"))
    path.symlink_to(real)
    real.write_text("# mine\n\nA=1 # why\nRALPH_X=old\n  export B='two\nlines'\nRALPH_Y=2")
    real.chmod(0o644)
    config.keep({"RALPH_X": "new", "RALPH_Y": "", "RALPH_Z": "z", "RALPH_NOT_THERE": ""})
    kept = "# mine\n\nA=1 # why\nexport RALPH_X='new'\n  export B='two\nlines'\nexport RALPH_Z='z'\n"
    assert (path.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, kept, 0o600)


@given(value=of_one_line)
def test_any_line_is_read_back_as_it_was(path: Path, value: str) -> None:
    config.keep({"RALPH_X": value})
    found = sources.in_file(path, Source.HOME_FILE)
    assert [one.text for one in found if one.variable == "RALPH_X"] == [value] * bool(value)


@pytest.mark.parametrize(
    ("data", "value", "said"),
    [
        (b"A=1\n", "two\nlines", "a value must be a single line"),
        (b"A=1\n", "C:\\", "without a backslash"),
        (b'A=1\nB="open\n', "1", r"\.ralph\.env:2: .*; mend that first"),
        (b"# caf\xe9\n", "1", "cannot be written: .*utf-8"),
    ],
)
def test_what_cannot_be_written_exactly_is_refused_and_nothing_changes(
    path: Path, data: bytes, value: str, said: str
) -> None:
    path.write_bytes(data)
    with pytest.raises(RalphError, match=said) as refused:
        config.keep({"B": "2", "X": value})
    assert value == "1" or value not in refused.value.message
    assert path.read_bytes() == data


def test_commits_are_set_for_good(project: Project) -> None:
    for word in ("off", "on"):
        assert project.ralph("config", "commit", word).code == 0
        status = project.ralph("config", "commit", "status").stdout
        assert status.startswith(f"auto-commit is {word} ({project.home}/.ralph.env:")
    run = project.ralph("config", "commit", "perhaps")
    assert (run.code, run.stderr.count("\n"), "see ralph help" in run.stderr) == (2, 1, True)


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ({"Makefile": "all:\ntest:\n\tx\n", "go.mod": ""}, ["make test", "go test ./..."]),
        ({"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""}, ["yarn test", "npm test"]),
        ({"package.json": '{"test": "echo \\"Error: no test specified\\" && exit 1"}', "yarn.lock": ""}, []),
        ({"package.json": '{"scripts": {"build": "tsc"}}', "pnpm-lock.yaml": "", "go.mod": ""}, ["go test ./..."]),
    ],
)
def test_a_project_gets_settings_with_the_verify_command_that_it_seems_to_have(
    project: Project, there: dict[str, str], found: list[str]
) -> None:
    for name, text in there.items():
        (project.root / name).write_text(text)
    run = project.ralph("init")
    assert (run.code, [command for command in found if f": {command}\n" not in run.stdout]) == (0, []), run.text
    file = project.root / ".ralph.env"
    verify, *others = [*found, ""]
    assert [one[:2] for one in sources.in_file(file, Source.PROJECT_FILE)] == [("RALPH_VERIFY", verify)]
    text = file.read_text()
    assert all(
        f"\n#{line}\n" in text for line in ("RALPH_STRICT=false", *(f"RALPH_VERIFY='{one}'" for one in others[:-1]))
    )
    assert (project.ralph("init").code, file.read_text()) == (1, text)


def converse(*answers: str) -> Result:
    """`setup` with these lines typed; when they run out, the input ends."""

    @click.command()
    def setup() -> None:
        sys.exit(config.setup(load()))

    return CliRunner().invoke(setup, input="".join(f"{answer}\n" for answer in answers))


def test_one_channel_takes_a_handful_of_answers_and_can_be_changed(path: Path) -> None:
    path.write_text("RALPH_MODEL=opus\n")
    new = converse("slak", "Slack", HOOK, "#b", "", "", "n").output
    assert "'slak' is not one of" in new
    assert "RALPH_SLACK_WEBHOOK_URL: the webhook's address" in new
    assert "RALPH_SLACK_USERNAME: optional; the sender's name" in new
    hook, channel = f"export RALPH_SLACK_WEBHOOK_URL='{HOOK}'\n", "export RALPH_SLACK_CHANNEL='#b'\n"
    assert path.read_text() == f"RALPH_MODEL=opus\n{hook}{channel}"

    kept = converse("slack", "", "", "", "", "n").output
    assert path.read_text() == f"RALPH_MODEL=opus\n{hook}{channel}"
    assert ("value [***]" in kept, "value [#b]" in kept, "T0" in kept) == (True, True, False)

    gone = converse("slack", "-", "-", "", "")
    assert "Without RALPH_SLACK_WEBHOOK_URL, slack stays off." in gone.output
    assert (path.read_text(), gone.exit_code) == ("RALPH_MODEL=opus\n", 0)


def test_it_offers_a_test_of_what_counts_which_tells_what_became_of_each_channel(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (config.test(load()), path.exists()) == (1, False)
    assert "Run `ralph notify setup` first; there are apprise, custom, discord," in capsys.readouterr().out
    with Server(Answer(), Answer(status=404), Answer()) as server:
        assert converse("webhook", server.url(), "y").output.endswith("webhook: sent\n")
        monkeypatch.setenv("RALPH_WEBHOOK_URL", server.url())
        failed = converse("webhook", "http://127.0.0.1:9/", "")
        assert (failed.exit_code, failed.output.endswith(f"webhook: FAILED: {server.host}: HTTP 404\n")) == (1, True)
        config.keep({"RALPH_TELEGRAM_CHAT_ID": "-42"})
        assert config.test(load()) == 0
    half = "telegram: off, because RALPH_TELEGRAM_BOT_TOKEN is not set\n"
    assert capsys.readouterr().out.endswith(f"{half}webhook: sent\n")


def test_a_typed_secret_does_not_show_on_the_terminal_and_ctrl_c_writes_nothing(path: Path) -> None:
    code = "from ralph import config; from ralph.channels import load; config.setup(load())"
    python = TtyRunning([sys.executable, "-c", code], dict(os.environ), files.data("notify").parent)
    try:
        eventually(lambda: "set up or change?" in python.screen)
        python.type("slack\n")
        eventually(lambda: "value: " in python.screen)
        python.type("https://hooks.example/s3cret\n")
        eventually(lambda: python.screen.count("value: ") == 2)
        assert "s3cret" not in python.screen
        python.type("\x03")
        assert python.wait().code != 0
    finally:
        python.hang_up()
    assert not path.exists()
