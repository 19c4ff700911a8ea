"""Everything that somebody said about the settings of a start: environment, env files, plan, template."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph import prompt
from ralph.errors import RalphError
from ralph.progress.reading import blocks
from ralph.settings import BY_VARIABLE, Given, Settings, Source, resolve

_DIRECTIVE = re.compile(r"[ ]{0,3}(RALPH_[A-Z0-9_]+):(.*)")
_CONTROL = ("RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED")


def home_file() -> Path:
    """The person's own env file."""
    return Path.home() / ".ralph.env"


def in_file(path: Path, source: Source) -> tuple[list[Given], list[RalphError]]:
    """The RALPH_ names that an env file sets, the last first; and its lines that are no settings at all."""
    given: list[Given] = []
    problems: list[RalphError] = []
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
            from dotenv.parser import parse_stream  # noqa: PLC0415 - 20 ms that a start without env files need not pay

            for one in parse_stream(file):
                text = one.original.string
                line = one.original.line + text[: len(text) - len(text.lstrip())].count("\n")
                if one.error:
                    problems.append(RalphError(f'{path}:{line}: is no NAME="value" (a quote left open?)'))
                elif one.key and one.key.startswith("RALPH_") and one.value is not None:
                    given.insert(0, Given(one.key, one.value, source, f"{path}:{line}"))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(RalphError(f"{path}: cannot be read: {error.strerror}"))
    return given, problems


def of_plan(text: bytes, name: str) -> list[Given]:
    """The directives of a plan: lines of their own, outside of code fences."""
    given = []
    for line in blocks(text).lines:
        where = f"{name}:{text.count(bytes([10]), 0, line.start) + 1}"
        found = _DIRECTIVE.fullmatch(line.body.decode(errors="replace"))
        if found and found[1] not in _CONTROL:
            given.append(Given(found[1], found[2], Source.PLAN, where))
        elif line.body.strip() == b"DO_NOT_COMMIT":
            given.append(Given("RALPH_AUTO_COMMIT", "false", Source.DO_NOT_COMMIT, where))
    return given


def of_template(text: str, path: Path) -> list[Given]:
    """The directives in a template's leading `{# … #}` comment."""
    given: list[Given] = []
    if comment := prompt.LEADING_COMMENT.match(text):
        first = text.count("\n", 0, comment.start(1)) + 1
        for number, line in enumerate(comment[1].splitlines(), first):
            if found := _DIRECTIVE.fullmatch(line.strip()):
                setting = BY_VARIABLE.get(found[1])
                source = Source.MODE if setting and Source.MODE in setting.sources else Source.TEMPLATE
                given.append(Given(found[1], found[2], source, f"{path}:{number}"))
    if "RALPH_REHEARSAL" in os.environ:  # a stand-in does not know where it may write
        given = [one for one in given if one.variable != "RALPH_ONLY"]
    return given


def collected(given: Sequence[Given], of_plan: Sequence[Given]) -> tuple[list[Given], list[RalphError]]:
    """All that is said but for templates, which each mode has its own of; and what is no setting at all."""
    names = [name for name in os.environ if name in BY_VARIABLE]  # any other name there is nobody's business
    in_environment = [Given(name, os.environ[name], Source.ENVIRONMENT, "environment") for name in names]
    of_project, wrong = in_file(Path(".ralph.env"), Source.PROJECT_FILE)
    of_person, also_wrong = in_file(home_file(), Source.HOME_FILE)
    return [*given, *of_plan, *in_environment, *of_project, *of_person], [*wrong, *also_wrong]


def of_mode(said: Sequence[Given], mode: str, problems: Sequence[RalphError] = ()) -> tuple[Settings, Path, str]:
    """The settings of a mode, and its template: path and text. Raises RalphError with all problems."""
    problems, template, text = [*problems], Path(), ""
    try:
        template = _template(said, mode)
        text = prompt.load(template)
    except RalphError as error:
        problems.append(error)
    said = [*said, *of_template(text, template)]
    names: list[str] = []
    if any(one.variable not in BY_VARIABLE for one in said):
        from ralph import channels  # noqa: PLC0415 - 20 ms that a start on a finished plan need not pay

        names = [name for channel in channels.load() for name in channel.names]
    settings = resolve(said, names, problems)
    home = home_file()
    if home.exists() and home.stat().st_mode & 0o077:
        remark = RalphError(f"{home} can be read by others and may hold secrets", fix=f"chmod 600 {home}")
        settings.remarks.append(remark)
    return settings, template, text


def everywhere(given: Sequence[Given], of_plan: Sequence[Given], mode: str) -> Settings:
    """The settings of a mode, whatever the progress file says. Raises RalphError with all problems."""
    said, problems = collected(given, of_plan)
    return of_mode(said, "build" if mode in ("", "all") else mode, problems)[0]


def alone(said: Sequence[Given], *variables: str) -> Settings:
    """What is said of these settings, before anything else is looked at."""
    return resolve([one for one in said if one.variable in variables])


def _template(said: Sequence[Given], mode: str) -> Path:
    known = alone(said, "RALPH_PROMPTS", "RALPH_STRICT")
    folder = known.prompts
    if folder is not None and not folder.is_dir():
        raise RalphError(f"{folder}: the folder of prompts is not there", fix="see --prompts")
    return prompt.find("task" if known.strict and mode == "build" else mode, prompt.folders(folder))


def channel_values() -> Mapping[str, str]:
    """What the channels may know: RALPH_ names of `~/.ralph.env`, and stronger, of the environment."""
    of_file = {one.variable: one.text for one in reversed(in_file(home_file(), Source.HOME_FILE)[0])}
    return of_file | {name: value for name, value in os.environ.items() if name.startswith("RALPH_")}
