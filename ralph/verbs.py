"""The verbs of the command line: everything but a run. Parses and calls; decides nothing."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ralph import completion, options
from ralph.errors import RalphError

if TYPE_CHECKING:
    from ralph.clock import Pace

_FORMATS = ("requirements", "plan", "prd")
_HELP_TOO = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=_HELP_TOO)
@click.argument("what", default="", metavar="setup|test", shell_complete=completion.one_of(("setup", "test")))
def _notify(what: str) -> int:
    """Channels that tell people how it goes: `setup` asks for their settings, `test` tries them."""
    from ralph import channels, said  # noqa: PLC0415 - not needed by a run
    from ralph.channels import wizard  # noqa: PLC0415

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


def _enter(_context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Changes to the folder before anything is looked for."""
    if folder is not None:
        from ralph import start  # noqa: PLC0415 - --help need not load it

        start.change_to(folder)


_FOLDER = click.option(*options.FOLDER, metavar="DIR", expose_value=False, callback=_enter, help="look there")
_PLAN = click.argument("plan", shell_complete=completion.plans)
_PERHAPS_PLAN = click.argument("plan", required=False, shell_complete=completion.plans)
_FILE = click.option("--progress-file", metavar="FILE", help="the progress file, if not <plan>_PROGRESS.md")
_JSON = click.option("--json", "as_json", is_flag=True, help="for a program")


@click.command(context_settings=_HELP_TOO)
@_PERHAPS_PLAN
@_FOLDER
@_FILE
@_JSON
def _status(plan: str | None, progress_file: str | None, as_json: bool) -> int:
    """How it stands: every plan of this folder in a line, or PLAN with its tasks and last iterations.

    Exit codes: 0 done, 3 work remains, 4 a person is needed.
    """
    from ralph import status  # noqa: PLC0415 - not needed by a run

    return status.status(plan, progress_file=progress_file, as_json=as_json)


@click.command(context_settings=_HELP_TOO)
@_PERHAPS_PLAN
@click.argument("number", required=False, metavar="[N]")
@click.option("--raw", "what", flag_value="raw", help="what the agent printed, as it is")
@click.option("--prompt", "what", flag_value="prompt", help="what it was told")
@click.option("--diff", "what", flag_value="diff", help="what it committed")
@click.option("-f", "--follow", is_flag=True, help="show the running iteration, and those after it, as they happen")
@click.option("--verbose", is_flag=True, help="show all that the agent said, did and was told")
@_FOLDER
@_FILE
def _log(plan: str | None, number: str | None, what: str | None, progress_file: str | None, **how: bool) -> int:
    """What happened: the iterations of PLAN, a line each; with N, or `last`, what that one said and did.

    PLAN may be left out where there is only one. A dash stands before an iteration that changed nothing.
    """
    from ralph import log, plans  # noqa: PLC0415 - not needed by a run

    found, number = plans.meant(plan, number, progress_file)
    return log.log(found, number, what=what, **how)


@click.command(context_settings=_HELP_TOO)
@_PLAN
@click.option("-o", "--output", metavar="FILE", help="where to write it; `-` is the standard output")
@click.option("--open", "opens", is_flag=True, help="show it in the browser")
@_FOLDER
@_FILE
def _report(plan: str, output: str | None, opens: bool, progress_file: str | None) -> int:
    """What PLAN came to, as one HTML file with pictures: tasks, cost, tokens and time by iteration."""
    from ralph import report  # noqa: PLC0415 - not needed by a run

    return report.report(plan, output=output, opens=opens, progress_file=progress_file)


@click.command(context_settings=_HELP_TOO)
@_PLAN
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    metavar="|".join(_FORMATS),
    shell_complete=completion.one_of(_FORMATS),
    help="another form than the plan's own; plan for a plan in markdown",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completion.a_path("file"),
    help="where to write it; PLAN itself is brought up to date",
)
@_FOLDER
@_FILE
def _export(plan: str, form: str | None, output: str | None, progress_file: str | None) -> int:
    """The tasks of PLAN as JSON, with today's statuses; a plan in JSON is printed as it is but for those.

    requirements is the form of requirements.json, plan that of implementation_plan.json, prd that of prd.json.
    """
    from ralph import export  # noqa: PLC0415 - not needed by a run

    return export.export(plan, form=form, output=output, progress_file=progress_file)


@click.pass_obj
def _rehearse(around: "tuple[list[str], Pace | None]", /, **said: Any) -> int:
    """Without PLAN: plans and builds a sample in a throwaway repository, with a stand-in agent: no key, no network.

    With PLAN: its dress rehearsal. The stand-in agent works through a throwaway copy of your repository with your
    prompts, settings, verify command, limits and channels; then you read what would have gone wrong. Takes MODE and all
    options of a run. Spends nothing and leaves the repository as it is.
    """
    from ralph.rehearsal import dress, of_sample  # noqa: PLC0415 - not needed by a run

    rest, _ = around
    asked = options.asked(said, rest)
    return dress.rehearse(asked) if asked.plan else of_sample.rehearse()


@click.pass_obj
def _doctor(around: "tuple[list[str], Pace | None]", /, *, live: bool, as_json: bool, **said: Any) -> int:
    """Whether a run would find what it needs: each check a line, ok or what to do. Exit code 0 or 1.

    With PLAN also what is its own: settings, progress file, prompts. Takes MODE and all options of a run.
    """
    from ralph import doctor  # noqa: PLC0415 - not needed by a run

    rest, _ = around
    return doctor.doctor(options.asked(said, rest), live=live, as_json=as_json)


def _with_plan(name: str, callback: Any, *more: click.Parameter) -> click.Command:
    """A verb that takes the words and options of a run."""
    params = [*options.words(), *more, *options.settings(), options.folder()]
    return click.Command(name, params=params, callback=callback, help=callback.__doc__, context_settings=_HELP_TOO)


VERBS: dict[str, click.Command] = {
    "status": _status,
    "log": _log,
    "report": _report,
    "export": _export,
    "rehearse": _with_plan("rehearse", _rehearse),
    "doctor": _with_plan(
        "doctor",
        _doctor,
        click.Option(["--live"], is_flag=True, help="also log in with one cheap call, and reach the channels"),
        click.Option(["--json", "as_json"], is_flag=True, help="for a program"),
    ),
    "notify": _notify,
    "config": _config,
}
