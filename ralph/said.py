"""Everything that somebody said about the settings of a start, wherever they said it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph import directives, envfile, files, prompt
from ralph.errors import RalphError
from ralph.settings import ALIASES, BY_VARIABLE, Given, Settings, Source, resolve

_PROJECT_FILE = Path(".ralph.env")


def home_file() -> Path:
    """The person's own env file."""
    return files.home() / ".ralph.env"


def in_environment() -> list[Given]:
    """What the environment says."""
    names = [name for name in os.environ if name in BY_VARIABLE or name in ALIASES]
    return [Given(variable=n, text=os.environ[n], source=Source.ENVIRONMENT, where="environment") for n in names]


def in_files() -> tuple[list[Given], list[str]]:
    """What the two env files say, the last of a name first; and their lines that are no settings at all."""
    said, problems = [], []
    for path, source in ((_PROJECT_FILE, Source.PROJECT_FILE), (home_file(), Source.HOME_FILE)):
        entries, wrong = envfile.read(path)
        problems += wrong
        said += [
            Given(variable=entry.name, text=entry.value, source=source, where=f"{path}:{entry.line}")
            for entry in reversed(entries)
            if entry.name.startswith("RALPH_")
        ]
    return said, problems


def everywhere(given: Sequence[Given], of_plan: Sequence[Given], mode: str) -> tuple[Settings, Path, str]:
    """The settings of a start, and the template of its mode: path and text. Raises RalphError with all problems."""
    in_env_files, problems = in_files()
    said = [*given, *of_plan, *in_environment(), *in_env_files]
    template, text = Path(), ""
    try:
        template = _template(said, mode)
        text = prompt.load(template)
    except RalphError as error:
        problems.append(error.message)
    said += directives.of_template(text, template)
    return resolve(said, _channel_names(said), problems), template, text


def _template(said: Sequence[Given], mode: str) -> Path:
    known = resolve([one for one in said if one.variable in ("RALPH_PROMPTS", "RALPH_STRICT")])
    folder = known.prompts
    if folder is not None and not folder.is_dir():
        raise RalphError(f"{folder}: the folder of prompts is not there; see --prompts")
    return prompt.find("task" if known.strict and mode == "build" else mode, prompt.folders(folder))


def _channel_names(said: Sequence[Given]) -> Sequence[str]:
    """The names that channels read, looked up only when there is a name that is no setting."""
    if all(one.variable in BY_VARIABLE for one in said):
        return ()
    from ralph import channels  # noqa: PLC0415 - a start without channels need not read their files

    known = channels.settings_names(channels.load(channels.default_folders()))
    return (*known, "RALPH_RUN_ID")


def channel_values() -> Mapping[str, str]:
    """What the channels may know: RALPH_ names of `~/.ralph.env`, and stronger, of the environment."""
    entries, _ = envfile.read(home_file())
    values = {entry.name: entry.value for entry in entries if entry.name.startswith("RALPH_")}
    return {**values, **{name: value for name, value in os.environ.items() if name.startswith("RALPH_")}}
