"""Everything that somebody said about the settings: environment, env files, plan, template; `~/.ralph.env` written."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph import files, prompt
from ralph.errors import RalphError
from ralph.progress.reading import blocks
from ralph.settings import ALIASES, BY_VARIABLE, DROPPED, Given, Settings, Source, resolve

HEADER = "# Settings of ralph for all projects; `ralph notify setup` writes here, and so may you.\n\n"
_PRIVATE = 0o600
_PROJECT_FILE = Path(".ralph.env")
_DIRECTIVE = re.compile(r"[ ]{0,3}(RALPH_[A-Z0-9_]+):(.*)")
_CONTROL = ("RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED")


def home_file() -> Path:
    """The person's own env file."""
    return Path.home() / ".ralph.env"


def open_to_others(path: Path) -> bool:
    """Whether somebody besides the owner may read or write the file."""
    return path.exists() and bool(path.stat().st_mode & 0o077)


def in_environment() -> list[Given]:
    """What the environment says."""
    names = [name for name in os.environ if name in BY_VARIABLE or name in ALIASES or name in DROPPED]
    return [Given(variable=n, text=os.environ[n], source=Source.ENVIRONMENT, where="environment") for n in names]


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
                    given.insert(0, Given(variable=one.key, text=one.value, source=source, where=f"{path}:{line}"))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(RalphError(f"{path}: cannot be read: {error.strerror}"))
    return given, problems


def in_files() -> tuple[list[Given], list[RalphError]]:
    """What the two env files say."""
    of_project, wrong = in_file(_PROJECT_FILE, Source.PROJECT_FILE)
    of_person, also_wrong = in_file(home_file(), Source.HOME_FILE)
    return [*of_project, *of_person], [*wrong, *also_wrong]


def of_plan(text: bytes, name: str) -> list[Given]:
    """The directives of a plan: lines of their own, outside of code fences."""
    given = []
    for line in blocks(text).lines:
        where = f"{name}:{text.count(bytes([10]), 0, line.start) + 1}"
        found = _DIRECTIVE.fullmatch(line.body.decode(errors="replace"))
        if found and found[1] not in _CONTROL:
            given.append(Given(variable=found[1], text=found[2], source=Source.PLAN, where=where))
        elif line.body.strip() == b"DO_NOT_COMMIT":
            given.append(Given(variable="RALPH_AUTO_COMMIT", text="false", source=Source.DO_NOT_COMMIT, where=where))
    return given


def of_template(text: str, path: Path) -> list[Given]:
    """The directives in a template's leading `{# … #}` comment."""
    given = []
    if comment := prompt.LEADING_COMMENT.match(text):
        for number, line in enumerate(comment[1].splitlines(), text.count("\n", 0, comment.start(1)) + 1):
            if one := _DIRECTIVE.fullmatch(line.strip()):
                given.append(Given(variable=one[1], text=one[2], source=Source.TEMPLATE, where=f"{path}:{number}"))
    return given


def everywhere(given: Sequence[Given], of_plan: Sequence[Given], mode: str) -> tuple[Settings, Path, str]:
    """The settings of a start, and the template of its mode: path and text. Raises RalphError with all problems."""
    in_env_files, problems = in_files()
    said = [*given, *of_plan, *in_environment(), *in_env_files]
    template, text = Path(), ""
    try:
        template = _template(said, mode)
        text = prompt.load(template)
    except RalphError as error:
        problems.append(error)
    said += of_template(text, template)
    return resolve(said, _channel_names(said), problems), template, text


def _template(said: Sequence[Given], mode: str) -> Path:
    known = resolve([one for one in said if one.variable in ("RALPH_PROMPTS", "RALPH_STRICT")])
    folder = known.prompts
    if folder is not None and not folder.is_dir():
        raise RalphError(f"{folder}: the folder of prompts is not there", fix="see --prompts")
    return prompt.find("task" if known.strict and mode == "build" else mode, prompt.folders(folder))


def _channel_names(said: Sequence[Given]) -> Sequence[str]:
    """The names that channels read, looked up only when there is a name that is no setting."""
    if all(one.variable in BY_VARIABLE for one in said):
        return ()
    from ralph import channels  # noqa: PLC0415 - a start without channels need not read their files

    return [*(name for channel in channels.load() for name in channel.names), "RALPH_RUN_ID"]


def channel_values() -> Mapping[str, str]:
    """What the channels may know: RALPH_ names of `~/.ralph.env`, and stronger, of the environment."""
    of_file = {one.variable: one.text for one in reversed(in_file(home_file(), Source.HOME_FILE)[0])}
    return of_file | {name: value for name, value in os.environ.items() if name.startswith("RALPH_")}


def kept(path: Path) -> dict[str, str]:
    """What an env file sets. Raises RalphError where it cannot be read whole: an edit could land in an open quote."""
    given, problems = in_file(path, Source.HOME_FILE)
    if problems:
        raise RalphError.of([*problems, RalphError("Mend that first; nothing was changed.")], 1)
    return {one.variable: one.text for one in reversed(given)}


def keep(path: Path, values: Mapping[str, str | None]) -> None:
    """Sets names in an env file, or removes those that are None; from then on only its owner can read it."""
    from dotenv import set_key, unset_key  # noqa: PLC0415 - no run writes one

    real = Path(os.path.realpath(path))  # dotenv would put a file in the place of a link
    present = kept(real)
    if real.exists() and not real.is_file():  # a link to /dev/null, say
        raise RalphError(f"{path}: is no regular file, so it is not edited", 1)
    if any(re.search(r"[\\\r\n\0]", text) for text in values.values() if text):  # not every python-dotenv reads it back
        raise RalphError("a value must be a single line, without a backslash")
    try:
        if not real.exists():
            files.replace(real, HEADER.encode(), mode=_PRIVATE)
        real.chmod(_PRIVATE)
        for name, text in values.items():
            if text is not None:
                set_key(real, name, text, export=True)
            elif name in present:
                unset_key(real, name)
    except UnicodeDecodeError as error:
        raise RalphError(f"{path}: is not UTF-8", 1, fix="save it as UTF-8") from error
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error
