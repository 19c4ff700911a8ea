"""Code, help, README and .env.example say the same; and the borders that the design draws between modules."""

import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import pytest
from ralph_driver import CHECKOUT, COMMAND

from ralph import options, tasklist, tasks
from ralph.cli import ralph
from ralph.lock import LOCKED
from ralph.settings import BY_VARIABLE, DROPPED, ON_COMMAND_LINE, PRIVATE, TABLE, Setting, Settings
from ralph.verdict import Reason

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
COMING_FROM = (CHECKOUT / "docs" / "coming-from.md").read_text(encoding="utf-8")
EXAMPLE = (CHECKOUT / ".env.example").read_text(encoding="utf-8")
CHANNELS = {file.stem: tomllib.loads(file.read_text("utf-8")) for file in sorted((CHECKOUT / "notify").glob("*.toml"))}
CHANNEL_SETTINGS = {
    name: str(channel.get("defaults", {}).get(name, ""))
    for channel in CHANNELS.values()
    for name in [*channel["needs"], *channel.get("optional", [])]
}
CONTROL_WORDS = {"RALPH_DONE", "RALPH_BLOCKED", "RALPH_STOP"}
FORMS = {"RALPH_NAME", "RALPH_TESTS_NO_SKIP"}
"""Not settings: how a name looks, and a switch of the tests."""
OF_OTHERS = {"--add-dir", "--dangerously-skip-permissions", "--user"}
"""Options of other programs: claude, loginctl."""
SIGNALS = {"SIGHUP": 129, "Ctrl+C": 130, "SIGTERM": 143}


VERBS = ralph.commands


def help_of(verb: click.Command) -> str:
    return " ".join(verb.get_help(click.Context(verb)).split())


def ids(settings: Iterable[Setting]) -> list[str]:
    return [setting.name for setting in settings]


@pytest.fixture(scope="module")
def help_text() -> str:
    return helped("--help")


@pytest.fixture(scope="module")
def settings_text() -> str:
    return helped("help", "settings")


def helped(*args: str) -> str:
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    return " ".join(done.stdout.split())


def table_rows(heading: str) -> list[list[str]]:
    """The cells of the tables in a section of the README, without its subsections' heads and rules."""
    section = re.split(r"^## ", README.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


class TestEverySettingOfTheCommandLine:
    pytestmark = pytest.mark.parametrize("setting", ON_COMMAND_LINE, ids=ids(ON_COMMAND_LINE))

    def test_is_in_the_help_with_its_default(self, setting: Setting, settings_text: str) -> None:
        names = ", ".join(f"--{name}" for name in (setting.name, setting.alias) if name)
        names += "" if setting.metavar else f" / --no-{setting.name}"
        default = f"; default: {setting.default}" if setting.default else ""
        words = (names, setting.metavar, setting.meaning, f"[{setting.variable}{default}]")
        assert " ".join(filter(None, words)) in settings_text, "an option that stands alone has no metavar"

    def test_is_in_the_readme_with_its_default(self, setting: Setting) -> None:
        row = next((row for row in table_rows("Settings") if f"`{setting.variable}`" in row), None)
        assert row, f"README.md: no row for {setting.variable} under Settings"
        option = f"`--{setting.name} {setting.metavar}`" if setting.metavar else f"`--{setting.name}`"
        assert row[0].split(", ")[0] == option, f"README.md: the option of {setting.variable}"
        assert setting.metavar or row[0].endswith(f", `--no-{setting.name}`")
        none = ("none", "the agent's own", "<plan>_PROGRESS.md")
        assert row[2].strip("`") in ([setting.default] if setting.default else none), f"README.md: {setting.variable}"

    def test_is_in_the_example_with_its_default(self, setting: Setting) -> None:
        assert setting.variable in example(), f".env.example: {setting.variable} is missing"
        assert example()[setting.variable] == setting.default, f".env.example: the default of {setting.variable}"


def example() -> Mapping[str, str]:
    """The settings in .env.example: all stand there as comments, with their defaults."""
    return dict(re.findall(r"^#(RALPH_\w+)=(.*)$", EXAMPLE, re.MULTILINE))


@pytest.mark.parametrize("name", CHANNEL_SETTINGS)
def test_every_setting_of_a_channel_is_in_both(name: str) -> None:
    channel = next(key for key, value in CHANNELS.items() if name in [*value["needs"], *value.get("optional", [])])
    row = next((row for row in table_rows("Notifications") if row[0] == channel), None)
    assert row, f"README.md: no row for {channel} under Notifications"
    column = 1 if name in CHANNELS[channel]["needs"] else 2
    assert f"`{name}`" in row[column], f"README.md: {name} is missing in the row of {channel}"
    assert name in example(), f".env.example: {name} is missing"
    assert example()[name] == CHANNEL_SETTINGS[name], f".env.example: the default of {name}"


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_setting_of_a_channel_has_words_for_the_wizard(channel: str) -> None:
    names = [*CHANNELS[channel]["needs"], *CHANNELS[channel].get("optional", [])]
    assert set(CHANNELS[channel]["help"]) == set(names)


@pytest.mark.parametrize(
    "document",
    ["README.md", ".env.example", "CHANGELOG.md", "docs/decisions.md", "docs/coming-from.md", "docs/limits.md"],
)
def test_no_document_speaks_of_a_setting_that_is_not_there(document: str) -> None:
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    known = {*BY_VARIABLE, *DROPPED, *CHANNEL_SETTINGS, *CONTROL_WORDS, *FORMS}
    assert set(re.findall(r"\bRALPH_[A-Z0-9_]*[A-Z0-9]", text)) - known == set()


HIDDEN = {"--requirements"}


def test_every_option_in_the_readme_is_in_the_help(settings_text: str) -> None:
    """Those of the examples too."""
    helps = [settings_text, *map(help_of, VERBS.values())]
    own = re.sub(r"^.*(?:tmux|systemctl|pip|crontab|pytest).*$", "", README, flags=re.MULTILINE)
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", own)) - OF_OTHERS - HIDDEN
    assert [option for option in sorted(named) if not any(option in text for text in helps)] == []


def test_what_others_call_otherwise_leads_to_options_that_are_there(settings_text: str) -> None:
    """The right column of the tables is about ralph."""
    helps = [settings_text, *map(help_of, VERBS.values())]
    rows = re.findall(r"^\|(.*)\|(.*)\|$", COMING_FROM, re.MULTILINE)
    named = {option for _, ours in rows for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)} - HIDDEN
    assert len(rows) > 80
    assert [option for option in sorted(named) if not any(option in text for text in helps)] == []
    assert "(docs/coming-from.md)" in README


def test_the_sample_of_a_task_list_is_one_that_strict_mode_takes() -> None:
    (sample,) = re.findall(r"```\n(- \[x\] db-01.*?)```", README, re.DOTALL)
    text = f"# Tasks\n\n{sample}".encode()
    tasklist.check(text, "README.md", Settings(criteria="strict"))
    selected = tasks.select(tasks.read(text))
    assert selected is not None
    assert selected.id == "auth-01", "auth-02 waits for it, whatever its priority"


def test_who_never_wants_to_give_up_is_told_each_breaker() -> None:
    """Any of them alone would end the run."""
    row = next(line for line in COMING_FROM.splitlines() if line.startswith("| it loops on a requirement"))
    assert all(f"--{setting.name} off" in row for setting in TABLE if "gives up; off" in setting.meaning)
    assert "--max-tries off" in row


def test_the_verbs_are_those_that_no_plan_may_be_called() -> None:
    assert tuple(VERBS) == options.VERBS


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",), ("help",)])
def test_the_help_fits_on_one_screen(args: tuple[str, ...]) -> None:
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    lines = done.stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_in_the_help_and_in_the_readme(verb: str, help_text: str) -> None:
    assert re.search(rf"\b{verb}\b", help_text)
    assert f"ralph {verb}" in README
    assert VERBS[verb].help


def test_the_example_sets_nothing() -> None:
    assert [line for line in EXAMPLE.splitlines() if line.strip() and not line.startswith("#")] == []


def test_the_files_of_projects_are_said_to_set_no_secrets() -> None:
    private = [setting.variable for setting in TABLE if setting.sources == PRIVATE]
    assert all(f"`{name}`" in README for name in private)


def test_the_exit_codes_are_those_of_the_code(help_text: str) -> None:
    rows = {row[0]: row[1] for row in table_rows("Exit codes")}
    said = {int(code) for code in rows if code.isdigit()}
    assert said == {reason.code for reason in Reason if reason is not Reason.INTERRUPTED} | {2, LOCKED}
    assert all(f"{name} {number}" in rows["by signal"] for name, number in SIGNALS.items())
    shown = {int(code) for code in re.findall(r"\b\d+\b", help_text.split("Exit codes:")[1])}
    assert shown == said | set(SIGNALS.values()), "ralph --help says other exit codes than README.md"


@pytest.mark.parametrize("word", sorted(CONTROL_WORDS))
def test_the_control_words_are_explained(word: str, help_text: str) -> None:
    assert word in help_text
    assert any(word in row[0] for row in table_rows("The progress file")), f"README.md: {word} has no row"


@functools.cache
def loaded_by(module: str) -> set[str]:
    """What a fresh process has in memory after this import, and did not have before."""
    script = f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, env=env)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def of_click() -> set[str]:
    """What every start pays for anyway."""
    return loaded_by("click")


@pytest.mark.parametrize("module", ["ralph.cli", "ralph.settings", "ralph.start", "ralph.judge", "ralph.progress.file"])
def test_what_costs_time_waits_until_it_is_needed(module: str, of_click: set[str]) -> None:
    heavy = {"jinja2", "requests", "dotenv", "subprocess", "ctypes", "difflib", "tempfile", "shutil", "tomllib"}
    assert loaded_by(module) & ({*heavy, "ralph.process", "ralph.channels"} - of_click) == set()


def test_a_run_that_is_not_strict_does_not_wait_for_what_only_strict_needs() -> None:
    of_strict = re.compile(r"ralph\.(strict|tasklist|gates|claim(?!s)|criteria|tasks|worktree|guard|taskjson).*")
    assert [name for name in loaded_by("ralph.session") if of_strict.fullmatch(name)] == []


MODULES = sorted(
    ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
    for file in (CHECKOUT / "ralph").rglob("*.py")
    if "data" not in file.parts
)
WATCH = """
import os, signal, sys, threading, traceback
import click, json, pathlib, shutil, subprocess, tempfile, typing  # not ours, and slow: once for all
sys.dont_write_bytecode = True
seen = []
doing = "subprocess.Popen os.fork os.exec os.posix_spawn os.kill os.mkdir os.remove os.rename os.putenv".split()
doing += "socket.connect socket.bind _thread.start_new_thread".split()
def hook(event, args):
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append((event, args[0]))
    elif event in doing:
        seen.append((event, args))
    elif event == "open" and str(args[0]).endswith((".md", ".toml", ".env")):
        seen.append((event, args[0]))
def watch(module):
    environment = dict(os.environ)
    handlers = [signal.getsignal(n) for n in range(1, 32)]
    sys.addaudithook(hook)
    __import__(module)
    assert environment == dict(os.environ), "the environment"
    assert handlers == [signal.getsignal(n) for n in range(1, 32)], "signal handlers"
    assert threading.active_count() == 1, "threads"
    assert not seen, seen
for module in sys.argv[1:]:
    if os.fork() == 0:
        try:
            watch(module)
        except BaseException:
            print(module, traceback.format_exc())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def test_importing_does_nothing(tmp_path: Path) -> None:
    """Each module first: no files but modules, no environment, no output, no processes, no threads, no handlers."""
    words = [sys.executable, "-P", "-c", WATCH, *MODULES]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())
