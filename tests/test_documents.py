"""Code, help, README and docs say the same; and what importing costs and does."""

import re
import runpy
import subprocess
import sys

import click
import pytest
from ralph_driver import CHECKOUT

from ralph import cli, files
from ralph.notify.channels import read_channel_files
from ralph.plan import tasks
from ralph.process.lock import LOCKED
from ralph.run import acceptance
from ralph.run.stop_rules import Reason
from ralph.settings.table import BY_VARIABLE, Settings

PAGES = {file.name: file.read_text("utf-8") for file in [*(CHECKOUT / "docs").glob("*.md"), CHECKOUT / "README.md"]}
CHANNELS = {
    name: one for name, one in read_channel_files().items() if one.path.is_relative_to(files.builtin_folder("notify"))
}
CHANNEL_SETTINGS = [name for channel in CHANNELS.values() for name in channel.setting_names]
CONTROL_WORDS = {"RALPH_DONE", "RALPH_BLOCKED", "RALPH_STOP"}
NO_SETTINGS = {
    "RALPH_NAME",
    "RALPH_TESTS_NO_SKIP",
    "RALPH_TESTS_LONG",
    "RALPH_PORT",
    "RALPH_AGENT_REVIEW",
    *CONTROL_WORDS,
}
NOT_IN_THE_HELP = {"--add-dir", "--dangerously-skip-permissions", "--init", "--name", "--requirements", "--version"}
"""Options of claude and docker, a hidden one, and that of ralph alone."""
VERBS = cli.ralph.commands
CONTEXT = click.Context(cli.ralph)
HELP = cli.ralph.get_help(CONTEXT)
RUN = cli.ralph.resolve_command(CONTEXT, ["feature.md"])[1]
ALL_HELP = " ".join(word for one in (*VERBS.values(), RUN) for word in one.get_help(click.Context(one)).split())
"""What every option is said to do."""


def rows(text: str, heading: str) -> dict[str, str]:
    """The first two cells of the tables in a section."""
    section = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `?(.+?)`? \| (.+?) \|", section, re.MULTILINE))


def test_the_pages_that_are_made_of_the_settings_are_up_to_date() -> None:
    documents = runpy.run_path(str(CHECKOUT / "docs" / "generate.py"))["documents"]()
    assert {file.name for file in documents} == {
        "settings.md",
        "commands.md",
        "exit-codes.md",
        "mcp.md",
        ".env.example",
    }
    for file, text in documents.items():
        assert file.read_text("utf-8") == text, f"{file} is not what docs/generate.py makes"
    example = (CHECKOUT / ".env.example").read_text("utf-8")
    assert [name for name in CHANNEL_SETTINGS if f"\n#{name}=" not in example] == []
    assert all(line.startswith("#") for line in example.splitlines() if line), "it sets nothing"


@pytest.mark.parametrize("document", [*PAGES, ".env.example", "CHANGELOG.md"])
def test_no_document_speaks_of_a_setting_or_an_option_that_is_not_there(document: str) -> None:
    text = PAGES.get(document) or (CHECKOUT / document).read_text("utf-8")
    spoken_of = set(re.findall(r"\bRALPH_[A-Z0-9_]*[A-Z0-9]", text))
    assert spoken_of - {*BY_VARIABLE, *CHANNEL_SETTINGS, *NO_SETTINGS} == set()
    text = re.sub(r"^.*(?:git log|tmux|systemctl|loginctl|pip |pytest).*$", "", text, flags=re.MULTILINE)
    text = re.sub("```sh\n#!/bin/sh.*?```", "", text, flags=re.DOTALL)  # scripts of the user's
    if document == "coming-from.md":  # the right column of its tables is about ralph
        text = "\n".join(ours for _, ours in re.findall(r"^\|(.*)\|(.*)\|$", text, re.MULTILINE))
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text)) - NOT_IN_THE_HELP
    assert [option for option in sorted(named) if option not in ALL_HELP] == []


def test_every_setting_of_a_channel_has_words_for_people_and_for_the_wizard() -> None:
    for name, channel in CHANNELS.items():
        needs, more = (", ".join(f"`{one}`" for one in names) for names in (channel.needs, channel.optional))
        assert f"| {name} | {needs} | {more} |".replace("  ", " ") in PAGES["notifications.md"]
        assert set(channel.help) == set(channel.setting_names), name


def test_the_help_fits_on_one_screen_and_knows_every_verb() -> None:
    assert len(HELP.splitlines()) <= 22
    assert max(map(len, HELP.splitlines())) <= 80
    for verb in (name for name, command in VERBS.items() if not command.hidden):
        assert VERBS[verb].help
        assert re.search(rf"\b{verb}\b", HELP)
        assert f"ralph {verb}" in PAGES["README.md"]


def test_the_exit_codes_are_those_of_the_code_and_the_control_words_are_explained() -> None:
    signals = {"SIGHUP": 129, "Ctrl+C": 130, "SIGTERM": 143}
    codes = {reason.code for reason in Reason if reason is not Reason.INTERRUPTED} | {2, LOCKED}
    said = rows(PAGES["exit-codes.md"], "What each means")
    assert {int(code) for code in said if code.isdigit()} == codes
    assert all(f"{name} {number}" in said["by signal"] for name, number in signals.items())
    shown = {int(code) for code in re.findall(r"\b\d+\b", HELP.split("Exit codes:")[1])}
    assert shown == codes | set(signals.values()), "ralph --help says other exit codes than README.md"
    explained = " ".join(rows(PAGES["README.md"], "How it works"))
    assert [word for word in CONTROL_WORDS if word not in explained or word not in HELP] == []


def test_the_sample_of_a_task_list_is_one_that_strict_mode_takes() -> None:
    page = "strict.md"
    (sample,) = re.findall(r"```\n(- \[x\] db-01.*?)```", PAGES[page], re.DOTALL)
    text = f"# Tasks\n\n{sample}".encode()
    acceptance.validate_list(text, page, Settings(criteria="strict"))
    selected = tasks.select_next(tasks.read_tasks(text))
    assert (selected.id if selected else "") == "auth-01", "auth-02 waits for it, whatever its priority"


def test_the_pages_are_short_enough_to_be_read() -> None:
    readme = PAGES["README.md"].splitlines()
    assert len(readme) <= 170
    assert max(map(len, re.sub("```.*?```", "", PAGES["README.md"], flags=re.DOTALL).splitlines())) <= 104
    assert len(PAGES["decisions.md"].splitlines()) <= 150


def loaded_by(modules: str) -> set[str]:
    """What a fresh process has in memory after these imports, and did not have before."""
    script = f"import sys; before = set(sys.modules); import {modules}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-BP", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_what_costs_time_waits_until_it_is_needed() -> None:
    heavy = {"jinja2", "requests", "dotenv", "subprocess", "ctypes", "tempfile", "tomllib", "ralph.notify.channels"}
    heavy -= loaded_by("click")  # for which every start pays anyway
    assert loaded_by("ralph.cli, ralph.commands.run, ralph.run.judge, ralph.plan.progress.file") & heavy == set()
    of_strict = re.compile(r"ralph\.(strict|parallel|plan\.taskjson).*")
    assert [name for name in loaded_by("ralph.commands.session") if of_strict.fullmatch(name)] == []
