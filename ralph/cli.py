"""The command line: argv to what was asked, errors to messages and exit codes. Decides nothing else."""

import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ralph import __version__
from ralph.errors import RalphError
from ralph.settings import ON_COMMAND_LINE, Given, Source

if TYPE_CHECKING:
    from ralph.clock import Pace

_HELP = """Works through PLAN with a coding agent: one task per iteration, a fresh agent each time, until the
progress file says RALPH_DONE and ralph has checked it.

\b
  ralph feature.md plan                        once: analyse, write the task list
  ralph feature.md build --max-iterations 50   until done
  ralph rehearse                               see it work, with a stand-in agent
  ralph notify setup | test                    tell Slack, Discord, Telegram, ... how it goes
  ralph config commit on | off | status        whether the agent commits
MODE is build, plan, or any PROMPT_<mode>.md; a number there is MAX_ITERATIONS.

\b
In the progress file, alone on a line:
  RALPH_STOP            stop before the next iteration (exit 3)
  RALPH_BLOCKED: why    a person is needed (exit 4)
  RALPH_DONE            all is done (exit 0)
Ctrl+C stops at once and leaves nothing running."""

_EPILOG = """Each setting may also stand, under the name in brackets, in the environment, as a line
`RALPH_NAME: value` in the plan, in ./.ralph.env, in ~/.ralph.env, or in a prompt template; the command line wins, then
the first of these. The plan, ./.ralph.env and templates may not name the agent: it could write them.

Exit codes: 0 done, 1 it does not work, 2 wrong use, 3 a limit or RALPH_STOP, 4 a person is needed, 75 another run
works here; 129, 130, 143 by signal."""


def main(pace: "Pace | None" = None) -> None:
    """The `ralph` command. Another pace is for tests, where an hour takes a moment."""
    _mend_streams()
    try:
        code = run(sys.argv[1:], pace)
    except RalphError as error:
        code = error.exit_code
        _complain(error.message, code)
    except (KeyboardInterrupt, click.Abort):
        code = 130
    if code > 128:
        from ralph.process import signals  # noqa: PLC0415 - 15 ms that only this way out pays

        signals.die_by(code - 128)
    gc.freeze()  # else the interpreter looks through everything there is before it leaves: 5 ms of every start
    sys.exit(code)


def _mend_streams() -> None:
    """With a closed stdin, stdout or stderr the next file opened would take its number; and any text can be printed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a file name or a locale must not end in a traceback


def _complain(message: str, code: int) -> None:
    from ralph.terminal import attended, plain  # noqa: PLC0415 - only this way out pays

    if code == 75 and not attended():
        return
    for line in message.splitlines():
        click.echo(f"ralph: {plain(line)}", err=True)


def run(argv: Sequence[str], pace: "Pace | None" = None) -> int:
    """Does what the command line says; the exit code. Raises RalphError."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    words, rest = list(argv[:at]), list(argv[at + 1 :])
    if not words or words[0] == "help":
        words = ["--help"]
    try:
        if words[0] in _VERBS:
            return int(_VERBS[words[0]].main(words[1:], prog_name=f"ralph {words[0]}", standalone_mode=False) or 0)
        return int(_run_command().main([*words], prog_name="ralph", standalone_mode=False, obj=(rest, pace)) or 0)
    except click.UsageError as error:
        raise RalphError(f"{error.format_message()} (see ralph --help)") from error
    except click.exceptions.Exit as done:
        return done.exit_code


class _Plain(click.Command):
    """The usage in the order in which people write it."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words after `ralph` in the usage line."""
        return [*super().collect_usage_pieces(ctx)[1:], "[OPTIONS]", "[-- ARGUMENTS FOR THE AGENT]"]


def _run_command() -> click.Command:
    options: list[click.Parameter] = [
        click.Argument(["plan"], required=True),
        click.Argument(["mode"], required=False, default=None),
        click.Argument(["number"], required=False, default=None, metavar="[MAX_ITERATIONS]"),
        *(
            click.Option(
                [setting.field, f"--{setting.name}", *([f"--{setting.alias}"] * bool(setting.alias))],
                metavar=setting.metavar,
                help=f"{setting.meaning}  [{setting.variable}; default: {setting.default}]",
            )
            for setting in ON_COMMAND_LINE
        ),
        click.Option(["--no-auto-commit"], is_flag=True, help="the same as --auto-commit false"),
        click.Option(["--no-wait"], is_flag=True, help="the same as --wait false"),
        click.Option(["-C", "folder"], metavar="DIR", help="change to DIR first, for cron"),
        click.Option(["--dry-run"], is_flag=True, help="print the command and the prompt, start nothing"),
        click.Option(
            ["-V", "-v", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="the version",
        ),
    ]
    return _Plain(
        "ralph",
        params=options,
        callback=_start,
        help=_HELP,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"ralph {__version__}")
        context.exit()


@click.pass_obj
def _start(
    around: "tuple[list[str], Pace | None]",
    /,
    *,
    folder: str | None,
    dry_run: bool,
    no_auto_commit: bool,
    no_wait: bool,
    **said: str | None,
) -> int:
    from ralph import start  # noqa: PLC0415 - --help need not load it

    rest, pace = around
    plan, mode, number = said["plan"] or "", said["mode"], said["number"]
    if mode is not None and mode.isdigit():
        mode, number = None, mode
    given = [
        Given(variable=s.variable, text=text, source=Source.COMMAND_LINE, where=f"--{s.name}")
        for s in ON_COMMAND_LINE
        if (text := said[s.field]) is not None
    ]
    if number is not None:
        given.append(_given("RALPH_MAX_ITERATIONS", number, "MAX_ITERATIONS"))
    if no_auto_commit:
        given.insert(0, _given("RALPH_AUTO_COMMIT", "false", "--no-auto-commit"))
    if no_wait:
        given.insert(0, _given("RALPH_WAIT", "false", "--no-wait"))
    asked = start.Asked(
        plan=plan, mode=mode or "build", given=given, agent_arguments=rest, folder=folder, dry_run=dry_run
    )
    return start.run(asked, pace)


def _given(variable: str, text: str, where: str) -> Given:
    if not text.strip():
        raise RalphError(f"{where}: is empty")
    return Given(variable=variable, text=text, source=Source.COMMAND_LINE, where=where)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="", metavar="setup|test")
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", default="")
@click.argument("choice", default="", metavar="on|off|status")
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def _rehearse() -> int:
    """Plan and build a sample for real in a throwaway repository, with a stand-in agent: no key, no network."""
    from ralph import rehearse  # noqa: PLC0415 - not needed by a run

    return rehearse.rehearse()


_VERBS: dict[str, click.Command] = {"notify": _notify, "config": _config, "rehearse": _rehearse}
