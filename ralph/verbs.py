"""The verbs of the command line: everything but a run. Parses and calls; decides nothing."""

import sys

import click

from ralph import completion
from ralph.errors import RalphError

_HELP_TOO = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=_HELP_TOO)
@click.argument("what", default="", metavar="setup|test", shell_complete=completion.one_of(("setup", "test")))
def _notify(what: str) -> int:
    """Channels that tell people how it goes: `setup` asks for their settings, `test` tries them."""
    from ralph import channels, said, wizard  # noqa: PLC0415 - not needed by a run

    known = channels.load(channels.default_folders())
    if what == "test":
        return wizard.test(known, said.channel_values())
    if what != "setup":
        click.echo(wizard.usage(known), err=True)
        return 2
    if not sys.stdin.isatty():
        raise RalphError("ralph notify setup asks questions and needs a terminal; or write ~/.ralph.env yourself")
    return wizard.setup(said.home_file(), known)


@click.command(context_settings=_HELP_TOO)
@click.argument("what", default="", metavar="commit", shell_complete=completion.one_of(("commit",)))
@click.argument(
    "choice", default="", metavar="on|off|status", shell_complete=completion.one_of(("on", "off", "status"))
)
def _config(what: str, choice: str) -> int:
    """Settings for all projects, kept in ~/.ralph.env: `ralph config commit on|off|status`."""
    from ralph import envfile, said  # noqa: PLC0415 - not needed by a run
    from ralph.settings import BY_VARIABLE, resolve  # noqa: PLC0415

    setting = BY_VARIABLE["RALPH_AUTO_COMMIT"]
    try:
        on = choice != "status" and setting.parse(choice)
    except ValueError:
        what = ""
    if what != "commit":
        raise RalphError("usage: ralph config commit on|off|status")
    path = said.home_file()
    if choice != "status":
        envfile.update(path, {"RALPH_AUTO_COMMIT": "true" if on else "false"})
        click.echo(f"auto-commit is {'on' if on else 'off'} in {path}")
    in_env_files, problems = said.in_files()
    given = [one for one in [*said.in_environment(), *in_env_files] if one.variable == setting.variable]
    settings = resolve(given, problems=problems)
    where = settings.said.get(setting.field, "default")
    click.echo(f"auto-commit is {'on' if settings.auto_commit else 'off'} ({where})")
    return 0


@click.command(context_settings=_HELP_TOO)
def _rehearse() -> int:
    """Plan and build a sample for real in a throwaway repository, with a stand-in agent: no key, no network."""
    from ralph import rehearse  # noqa: PLC0415 - not needed by a run

    return rehearse.rehearse()


VERBS: dict[str, click.Command] = {
    "rehearse": _rehearse,
    "notify": _notify,
    "config": _config,
}
