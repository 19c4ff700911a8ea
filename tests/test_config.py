"""`ralph notify`, `config` and `init`: ~/.ralph.env is edited without harm, and a test of channels tells the truth."""

import signal
import stat
from pathlib import Path

import pytest
from http_server import Answer, Server
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import Project, Run, eventually

from ralph.commands import config
from ralph.errors import RalphError
from ralph.settings import sources
from ralph.settings.table import Source


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's ~/.ralph.env."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ralph.env"


def test_an_edit_leaves_every_other_line_as_it_is_a_link_a_link_and_the_file_private(path: Path) -> None:
    config.save_home_settings({"RALPH_X": "1"})
    assert path.read_text() == "export RALPH_X='1'\n"
    real = path.rename(path.with_name("dotfiles"))
    path.symlink_to(real)
    real.write_text("# mine\n\nA=1 # why\nRALPH_X=old\n  export B='two\nlines'\nRALPH_Y=2")
    real.chmod(0o644)
    config.save_home_settings({"RALPH_X": "new", "RALPH_Y": "", "RALPH_Z": "z", "RALPH_NOT_THERE": ""})
    kept = "# mine\n\nA=1 # why\nexport RALPH_X='new'\n  export B='two\nlines'\nexport RALPH_Z='z'\n"
    assert (path.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, kept, 0o600)


@given(value=st.text("ab '\"$`#!{}=\t\f\x85\u2028é", max_size=12))
def test_any_line_is_read_back_as_it_was(path: Path, value: str) -> None:
    config.save_home_settings({"RALPH_X": value})
    found = sources.read_env_file(path, Source.HOME_FILE)
    assert [one.text for one in found if one.variable == "RALPH_X"] == [value] * bool(value)


def test_what_cannot_be_written_exactly_is_refused_and_nothing_changes(path: Path) -> None:
    for data, value, said in (
        (b"A=1\n", "two\nlines", "a value must be a single line"),
        (b"A=1\n", "C:\\", "without a backslash"),
        (b'A=1\nB="open\n', "1", r"\.ralph\.env:2: .*; fix that first"),
    ):
        path.write_bytes(data)
        with pytest.raises(RalphError, match=said) as refused:
            config.save_home_settings({"B": "2", "X": value})
        assert value == "1" or value not in refused.value.message
        assert path.read_bytes() == data


def test_commits_are_set_for_good(project: Project) -> None:
    for word, is_on in {"off": "off", "true": "on", "no": "off", "1": "on"}.items():
        assert project.ralph("config", "commit", word).code == 0
        status = project.ralph("config", "commit").stdout
        assert status.startswith(f"auto-commit is {is_on} ({project.home}/.ralph.env:")


def test_a_project_gets_settings_with_the_verify_command_that_it_seems_to_have(project: Project) -> None:
    file = project.root / ".ralph.env"
    (project.root / "yarn.lock").touch()
    for name, there, found in (
        ("package.json", '{"test": "jest"}', "RALPH_VERIFY='yarn test'\n#RALPH_VERIFY='npm test'"),
        ("package.json", '{"build": "tsc"}', "RALPH_VERIFY="),
        ("package.json", '{"test": "echo \\"Error: no test specified\\" && exit 1"}', "RALPH_VERIFY="),
        ("package.json", '{"test":"echo \\"Error: no test specified\\" && exit 1"}', "RALPH_VERIFY="),
        ("Makefile", "all:\ntest:\n\tx\n", "RALPH_VERIFY='make test'"),
    ):
        (project.root / name).write_text(there)
        run = project.ralph("init")
        assert (run.code, "yarn.lock: yarn test" in run.stdout) == (0, "jest" in there), run.text
        text = file.read_text()
        assert text.endswith(f"all of them.\n\n{found}\n"), text
        assert (project.ralph("init").code, file.read_text()) == (1, text)
        file.unlink()


def converse(project: Project, *answers: str, **env: str) -> Run:
    """`ralph notify setup` in a terminal, where each answer is typed when it is asked for."""
    terminal, before = project.start_tty("notify", "setup", env=env), [""]
    for answer in answers:
        eventually(lambda: terminal.stdout.removeprefix(before[0]).endswith(": "))
        before[0] = terminal.stdout
        terminal.type(answer if answer == "\x03" else f"{answer}\n")
    return terminal.wait()


def test_one_channel_takes_a_handful_of_answers_and_can_be_changed(project: Project) -> None:
    path = project.home / ".ralph.env"
    path.write_text("RALPH_MODEL=opus\n")
    url = "https://hooks.slack.com/services/T0/B0/x"
    assert converse(project, "Slack", url, "\x03").code == -signal.SIGINT
    assert path.read_text() == "RALPH_MODEL=opus\n"
    new = converse(project, "slak", "Slack", url, "#b", "", "").stdout
    assert ("'slak' is not one of" in new, "B0" in new) == (True, False)
    assert "RALPH_SLACK_WEBHOOK_URL: the webhook's address" in new
    assert "RALPH_SLACK_USERNAME: optional; the sender's name" in new
    hook, channel = f"export RALPH_SLACK_WEBHOOK_URL='{url}'\n", "export RALPH_SLACK_CHANNEL='#b'\n"
    assert path.read_text() == f"RALPH_MODEL=opus\n{hook}{channel}"
    kept = converse(project, "slack", "", "", "", "").stdout
    assert path.read_text() == f"RALPH_MODEL=opus\n{hook}{channel}"
    assert ("value [***]" in kept, "value [#b]" in kept, "T0" in kept) == (True, True, False)
    gone = converse(project, "slack", "-", "-", "", "")
    assert gone.stdout.endswith("To see whether it works, run `ralph notify test`.\n")
    assert (path.read_text(), gone.code) == ("RALPH_MODEL=opus\n", 0)


def test_a_test_tells_what_became_of_each_channel(project: Project) -> None:
    none = project.ralph("--test-notify")
    assert (none.code, "Run `ralph notify setup` first, which names them" in none.stdout) == (1, True)
    assert "needs a terminal" in project.ralph("notify", "setup").stderr
    (project.home / ".ralph.env").write_text("RALPH_TELEGRAM_CHAT_ID=-42\n")
    off = "telegram: off, because RALPH_TELEGRAM_BOT_TOKEN is not set\n"
    with Server(Answer(404), Answer()) as server:
        assert converse(project, "webhook", "http://127.0.0.1:9/").code == 0
        url = {"RALPH_WEBHOOK_URL": server.url()}
        failed, sent = [project.ralph("notify", "test", env=url) for _ in range(2)]  # the environment counts
    assert (failed.code, failed.stdout) == (1, f"{off}webhook: FAILED: {server.host}: HTTP 404\n")
    assert (sent.code, sent.stdout) == (0, f"{off}webhook: sent\n")
