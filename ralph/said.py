"""Everything that somebody said about the settings of a start, wherever they said it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph import directives, envfile, files, prompt
from ralph.errors import RalphError
from ralph.settings import BY_VARIABLE, Given, Settings, Source, resolve

_PROJECT_FILE = Path(".ralph.env")


def home_file() -> Path:
    """The person's own env file."""
    return files.home() / ".ralph.env"


def in_environment() -> list[Given]:
    """What the environment says."""
    names = [name for name in os.environ if name in BY_VARIABLE]
    return [Given(variable=n, text=os.environ[n], source=Source.ENVIRONMENT, where=f"environment: {n}") for n in names]


def in_file(path: Path, source: Source) -> list[Given]:
    """What an env file says. Raises RalphError with every line that is no setting."""
    entries, problems = envfile.read(path)
    if problems:
        raise RalphError("\n".join(problems))
    said = [entry for entry in entries if entry.name.startswith("RALPH_")]
    return [Given(variable=e.name, text=e.value, source=source, where=f"{path}:{e.line}") for e in reversed(said)]


def everywhere(given: Sequence[Given], of_plan: Sequence[Given], mode: str) -> tuple[Settings, Path, str]:
    """The settings of a start, and the template of its mode: path and text."""
    said = [*given, *of_plan, *in_environment()]
    said += [*in_file(_PROJECT_FILE, Source.PROJECT_FILE), *in_file(home_file(), Source.HOME_FILE)]
    folder = resolve([one for one in said if one.variable == "RALPH_PROMPTS"]).prompts
    if folder is not None and not folder.is_dir():
        raise RalphError(f"{folder}: the folder of prompts is not there; see --prompts")
    path = prompt.find(mode, prompt.folders(folder))
    text = prompt.load(path)
    said += directives.of_template(text, path)
    return resolve(said, _channel_names(said)), path, text


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
