"""A channel is a file: what it may say, and what is said when it is wrong."""

from pathlib import Path

import pytest

from ralph import files
from ralph.channels import Channel, configured, default_folders, load, settings_names
from ralph.errors import RalphError

BUILT_IN = load([files.data("notify")])

PAGER = """
needs = ["RALPH_PAGER_URL"]
secret = ["RALPH_PAGER_URL"]
[request]
url = "{{ RALPH_PAGER_URL }}"
method = "PUT"
[request.json]
text = "{{ title }}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notify"
    folder.mkdir()
    return folder


def test_the_built_in_channels() -> None:
    assert [channel.name for channel in BUILT_IN] == [
        "apprise",
        "custom",
        "discord",
        "ntfy",
        "slack",
        "telegram",
        "webhook",
    ]


@pytest.mark.parametrize("channel", BUILT_IN, ids=lambda channel: channel.name)
def test_a_built_in_channel_explains_each_of_its_settings(channel: Channel) -> None:
    assert channel.needs
    assert set(channel.help) == set(channel.names)


def test_a_few_lines_make_a_channel(folder: Path) -> None:
    (folder / "pager.toml").write_text(PAGER)
    (channel,) = load([folder])
    assert (channel.name, channel.title, channel.needs) == ("pager", "Pager", ("RALPH_PAGER_URL",))
    assert channel.request == {"url": "{{ RALPH_PAGER_URL }}", "method": "PUT", "json": {"text": "{{ title }}"}}


def test_a_persons_file_replaces_the_built_in_one_of_its_name(folder: Path) -> None:
    (folder / "slack.toml").write_text(PAGER)
    (folder / "notes.txt").write_text("no channel")
    channels = {channel.name: channel for channel in load([files.data("notify"), folder])}
    assert channels["slack"].needs == ("RALPH_PAGER_URL",)
    assert len(channels) == len(BUILT_IN)


def test_a_folder_that_is_missing_has_no_channels(tmp_path: Path) -> None:
    assert load([tmp_path / "gone"]) == ()


def test_channels_come_from_ralph_and_from_the_persons_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folders() == (files.data("notify"), tmp_path / ".ralph" / "notify")


def test_the_settings_of_all_channels_are_known() -> None:
    assert {"RALPH_SLACK_WEBHOOK_URL", "RALPH_TELEGRAM_API_URL", "RALPH_NTFY_TOKEN"} <= settings_names(BUILT_IN)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        pytest.param({}, [], id="nothing set"),
        pytest.param({"RALPH_TELEGRAM_BOT_TOKEN": "1:x"}, [], id="half of what telegram needs"),
        pytest.param(
            {"RALPH_TELEGRAM_BOT_TOKEN": "1:x", "RALPH_TELEGRAM_CHAT_ID": "7"}, ["telegram"], id="all that it needs"
        ),
        pytest.param({"RALPH_SLACK_WEBHOOK_URL": " "}, [], id="set to nothing"),
        pytest.param({"RALPH_SLACK_USERNAME": "Bot"}, [], id="only what is optional"),
    ],
)
def test_a_channel_is_on_when_it_has_all_it_needs(values: dict[str, str], names: list[str]) -> None:
    assert [channel.name for channel in configured(BUILT_IN, values)] == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("needs = RALPH_X", "line 1", id="no TOML"),
        pytest.param("needs = []", r"needs either \[request\] or command", id="nowhere to send to"),
        pytest.param('command = ["x"]\n[request]\nurl = "x"', "needs either", id="two ways to send"),
        pytest.param("command = []", "needs either", id="no program"),
        pytest.param("command = 'notify-send'", "command must be a list of texts", id="a command as one text"),
        pytest.param('need = ["RALPH_X"]\ncommand = ["x"]', "unknown key need; known are needs", id="a typo"),
        pytest.param("title = 1\ncommand = ['x']", "title must be a text", id="a title that is a number"),
        pytest.param("needs = [1]\ncommand = ['x']", "needs must be a list of texts", id="a name that is a number"),
        pytest.param("needs = ['PATH']\ncommand = ['x']", "PATH: a setting is named RALPH_", id="a foreign name"),
        pytest.param(
            "secret = ['RALPH_X']\ncommand = ['x']", "secret: RALPH_X is neither in needs nor", id="a secret of nothing"
        ),
        pytest.param("help = 'no'\ncommand = ['x']", "help must be a table", id="a help that is no table"),
        pytest.param("[request]\nmethod = 'PUT'", "request.url is missing", id="no address"),
        pytest.param("[request]\nurl = 'x'\nbdoy = 'x'", "unknown key request.bdoy", id="a typo in the request"),
        pytest.param("[request]\nurl = 'x'\nbody = 'x'\njson = {}", "exclude each other", id="two contents"),
        pytest.param(
            "[request]\nurl = 'x'\nheaders = {A = 1}", "request.headers must be a table of texts", id="a header"
        ),
        pytest.param("[request]\nurl = 'x'\njson = {at = 2026-01-01}", "request.json: .* date", id="a date in JSON"),
        pytest.param("[request]\nurl = 'x'\njson = 'x'", "request.json must be a table", id="JSON as a text"),
        pytest.param("command = ['x']\nchecked = 'yes'", "checked must be true or false", id="a text for a yes"),
    ],
)
def test_a_malformed_file_is_named_with_what_is_wrong(folder: Path, text: str, complaint: str) -> None:
    (folder / "mine.toml").write_text(text)
    with pytest.raises(RalphError, match=f"^{folder}/mine.toml: .*{complaint}"):
        load([folder])


def test_a_file_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "mine.toml").write_bytes(b"\xff")
    with pytest.raises(RalphError, match=r"mine\.toml: .*utf-8"):
        load([folder])


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "mine.toml").mkdir()
    with pytest.raises(RalphError, match=r"mine\.toml: cannot be read: Is a directory"):
        load([folder])
