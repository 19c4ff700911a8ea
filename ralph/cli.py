"""The command line: argv to what was asked, errors to messages and exit codes. Decides nothing else."""

import gc
import io
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph import __version__, options
from ralph.errors import RalphError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ralph.run import Pace

_HELP = """\
Usage: ralph PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]

Works through PLAN with a coding agent: one task an iteration, a fresh agent
each time, until the progress file says RALPH_DONE and ralph has checked it.
MODE is build, plan, or any PROMPT_<mode>.md.

  ralph feature.md plan     once: analyse, write the task list
  ralph feature.md build    until done; much used:  --max-iterations N
                            --max-time 8h  --max-cost USD  --verify COMMAND
                            --strict  --dry-run  -q  --verbose  -C DIR
  ralph rehearse [PLAN]     see it work, with a stand-in agent
  ralph doctor [PLAN]       is all there that a run needs?
  ralph status [PLAN]       how it stands
  ralph log PLAN [N]        what happened; -f: what happens
  ralph report PLAN         what it came to, as one HTML file
  ralph export PLAN         a plan in JSON with today's statuses
  ralph notify setup|test   tell Slack, Discord, Telegram, ... how it goes
  ralph config commit on|off|status
  ralph help settings       all options of a run;  ralph help VERB  of a verb

Alone on a line of the progress file: RALPH_STOP stops before the next
iteration, RALPH_BLOCKED: why says that a person is needed, RALPH_DONE that all
is done. Ctrl+C stops at once and leaves nothing running.

Exit codes: 0 done, 1 it does not work, 2 wrong use, 3 a limit or RALPH_STOP,
4 a person is needed, 75 another run works here; 129, 130, 143 by signal."""

_PLACES = """Each setting may also stand, under the name in brackets, in the environment, as a line
`RALPH_NAME: value` in the plan, in ./.ralph.env, in ~/.ralph.env, or in a prompt template; the command line wins, then
the first of these. The plan, ./.ralph.env and templates may not name the agent: it could write them."""


def main(pace: "Pace | None" = None) -> None:
    """The `ralph` command. Another pace is for tests, where an hour takes a moment."""
    _mend_streams()
    try:
        code = run(sys.argv[1:], pace)
        sys.stdout.flush()
    except RalphError as error:
        code = _tell(error)
    except OSError as error:
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left could not be written either
        code = 1
        if not isinstance(error, BrokenPipeError):  # then who read has left, such as `head`: the end, in silence
            _tell(RalphError(f"the output cannot be written: {error.strerror}", 1))
    except (KeyboardInterrupt, click.Abort):
        code = 130
    if code > 128:
        from ralph.process import signals  # noqa: PLC0415 - 15 ms that only this way out pays

        signals.die_by(code - 128)
    gc.freeze()  # else the interpreter looks through everything there is before it leaves: 5 ms of every start
    sys.exit(code)


def _tell(error: RalphError) -> int:
    """Says what is wrong, a line for each; the exit code. To be told that a run works here is for people."""
    from ralph.screen.text import attended  # noqa: PLC0415 - only this way out pays
    from ralph.words import plain  # noqa: PLC0415 - same

    for line in error.message.splitlines() if error.exit_code != 75 or attended() else ():
        click.echo(f"ralph: {plain(line)}", err=True)
    return error.exit_code


def _mend_streams() -> None:
    """With a closed stdin, stdout or stderr the next file opened would take its number; and any text can be printed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115 - stays open as the other does
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a file name or a locale must not end in a traceback


def run(argv: Sequence[str], pace: "Pace | None" = None) -> int:
    """Does what the command line says; the exit code. Raises RalphError."""
    try:
        return int(ralph.main([*argv], prog_name="ralph", standalone_mode=False, obj=pace) or 0)
    except click.UsageError as error:
        about = error.ctx.command_path if error.ctx and error.ctx.info_name else "ralph"
        raise RalphError(f"{error.format_message()} (see {about} --help)") from error
    except (RalphError, OSError) as error:
        try:
            Path.cwd()
        except OSError:
            raise RalphError("the folder that this runs in is gone", fix="cd to where the plan is") from error
        raise


class _PlanOrVerb(click.Group):
    """What does not begin with a verb is a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits at the first `--`, before anything else is looked at; `help VERB` is `VERB --help`."""
        at = args.index("--") if "--" in args else len(args)
        words, ctx.obj = args[:at], (args[at + 1 :], ctx.obj)
        if words[:1] in ([], ["help"]) and not ctx.resilient_parsing:
            words = [*words[1:2], "--help"]
        return super().parse_args(ctx, words)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A verb with what follows it, else a run with all of it."""
        verb = self.commands.get(args[0])
        if verb and ctx.obj[0] and args[0] not in ("rehearse", "doctor"):
            raise click.UsageError("What follows -- is for the agent, and there is none.")
        return (args[0], verb, args[1:]) if verb else ("", _run, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The first word: a verb or a plan, or an option of a run."""
        run = _run.make_context("", [], parent=ctx, resilient_parsing=True)
        if incomplete.startswith("-"):
            return _run.shell_complete(run, incomplete)
        verbs = super().shell_complete(ctx, incomplete)
        found = options.plans(run, _run.params[0], incomplete)
        return [*verbs, *(one for one in found if one.type == "plain" or not verbs)]

    def format_help(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """On one screen."""
        formatter.write(_HELP)


class _Run(click.Command):
    """What `ralph PLAN` does."""

    def format_usage(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In the order in which people write it."""
        formatter.write_usage("ralph", "PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]")


def _enter(_context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Changes to the folder before anything is looked for."""
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise RalphError(f"-C {folder}: {error.strerror}") from error


def _option(meaning: str, *names: str, **more: Any) -> click.Option:
    return click.Option(names, help=meaning, **more)


_flag = partial(_option, is_flag=True)
_VERSION = click.version_option(__version__, "-V", "-v", "--version", message="ralph %(version)s")
_ENTER: dict[str, Any] = {"is_eager": True, "expose_value": False, "callback": _enter}
_FOLDER = _option("change to DIR first, for cron", "-C", "folder", metavar="DIR", type=options.FOLDER, **_ENTER)
_FILE = _option("if it is not <plan>_PROGRESS.md", "--progress-file", metavar="FILE", type=options.FILE)
_JSON = _flag("for a program", "--json", "as_json")
_LIVE = _flag("also log in with one cheap call, and reach the channels", "--live")
_EACH = _flag("a line for each thing that was looked at", "--verbose")
_ALL = _flag("print all that the stand-in says and does", "--verbose")
_FORMS = click.Choice(("requirements", "plan", "prd"))
_OF_A_RUN = [
    *options.OF_A_RUN,
    _FOLDER,
    _flag("print a line per iteration, wait and run, and no more", "-q", "--quiet"),
    _flag("print all that the agent says, does and is told", "--verbose"),
    _flag("print lines alone, without the live one at the bottom", "--no-spinner"),
    _flag("print the command and the prompt, start nothing", "--dry-run"),
]


@click.group(
    cls=_PlanOrVerb,
    params=[_FOLDER],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "ignore_unknown_options": True},
)
@_VERSION
def ralph() -> None:
    """All that there is."""


@click.command(cls=_Run, params=_OF_A_RUN, epilog=_PLACES)
@_VERSION
@click.pass_obj
def _run(around: "tuple[list[str], Pace | None]", /, **said: Any) -> int:
    """Works through PLAN with a coding agent."""
    rest, pace = around
    asked = options.asked(said, rest)
    if not asked.plan:
        raise click.UsageError("Missing argument 'PLAN'.")
    if not Path(asked.plan).is_file() and (fix := options.meant(asked)):
        raise RalphError(f"{asked.plan}: No such file", fix=fix)
    from ralph import start  # noqa: PLC0415 - --help need not load it

    return start.run(asked, pace)


def _verb(module: str, meaning: str, *params: click.Parameter) -> None:
    """A verb that looks at a plan: the function of its name, in the module of its name, which only it loads."""
    name = module.rpartition(".")[2]

    def look(plan: str | None, **said: Any) -> Any:
        return getattr(import_module(module), name)(plan, **said)

    plan = click.Argument(["plan"], required=name in ("report", "export"), shell_complete=options.plans)
    ralph.add_command(click.Command(name, params=[plan, *params], callback=look, help=meaning))


_verb(
    "ralph.look.status",
    """How it stands: every plan of this folder in a line, or PLAN with its tasks and last iterations.

    Exit codes: 0 done, 3 work remains, 4 a person is needed.
    """,
    _FOLDER,
    _FILE,
    _JSON,
)
_verb(
    "ralph.look.log",
    """What happened: the iterations of PLAN, a line each; with N, or `last`, what that one said and did.

    PLAN may be left out where there is only one. A dash stands before an iteration that changed nothing.
    """,
    click.Argument(["number"], required=False, metavar="[N]"),
    _flag("what the agent printed, as it is", "--raw", "what", flag_value="raw"),
    _flag("what it was told", "--prompt", "what", flag_value="prompt"),
    _flag("what it committed", "--diff", "what", flag_value="diff"),
    _flag("show the running iteration, and those after it, as they happen", "-f", "--follow"),
    _flag("show all that the agent said, did and was told", "--verbose"),
    _FOLDER,
    _FILE,
)
_verb(
    "ralph.look.report",
    "What PLAN came to, as one HTML file with pictures: tasks, cost, tokens and time by iteration.",
    _option("where; `-` is the standard output", "-o", "--output", metavar="FILE", type=options.FILE),
    _flag("show it in the browser", "--open", "opens"),
    _FOLDER,
    _FILE,
)
_verb(
    "ralph.export",
    """The tasks of PLAN as JSON, with today's statuses; a plan in JSON is printed as it is but for those.

    requirements is the form of requirements.json, plan that of implementation_plan.json, prd that of prd.json.
    """,
    _option("another form than the plan's own; plan for a plan in markdown", "--format", "form", type=_FORMS),
    _option("where; PLAN itself is brought up to date", "-o", "--output", metavar="FILE", type=options.FILE),
    _FOLDER,
    _FILE,
)


@ralph.command("rehearse", params=[*options.OF_A_RUN, _FOLDER, _ALL])
@click.pass_obj
def _rehearse(around: "tuple[list[str], Pace | None]", /, **said: Any) -> int:
    """Without PLAN: plans and builds a sample in a throwaway repository, with a stand-in agent: no key, no network.

    With PLAN: works through it in a throwaway copy of your repository, with your prompts, settings, verify command,
    hooks, limits and channels; then says what would have happened, and what would have gone wrong. Takes MODE and all
    options of a run. Spends nothing and leaves the repository as it is. Exit code 0 or 1.
    """
    from ralph.rehearsal import rehearsal  # noqa: PLC0415 - a verb loads what it needs

    return rehearsal.rehearse(options.asked(said, around[0]))


@ralph.command("doctor", params=[*options.OF_A_RUN, _FOLDER, _LIVE, _EACH, _JSON])
@click.pass_obj
def _doctor(
    around: "tuple[list[str], Pace | None]", /, *, live: bool, verbose: bool, as_json: bool, **said: Any
) -> int:
    """Whether a run would find what it needs: each subject a line, with what to do. Exit code 0 or 1.

    With PLAN also what is its own: settings, progress file, prompts. Takes MODE and all options of a run.
    """
    from ralph.look import doctor  # noqa: PLC0415 - a verb loads what it needs

    return doctor.doctor(options.asked(said, around[0]), live=live, as_json=as_json, verbose=verbose)


@ralph.command("notify", params=[click.Argument(["what"], required=False, type=click.Choice(("setup", "test")))])
def _notify(what: str | None) -> int:
    """Channels that tell people how it goes: `setup` asks for their settings, `test` tries them."""
    from ralph import channels, sources  # noqa: PLC0415 - a verb loads what it needs
    from ralph.channels import wizard  # noqa: PLC0415 - same

    known = channels.load()
    if what == "test":
        return wizard.test(known, sources.channel_values())
    if what is None:
        click.echo(wizard.usage(known), err=True)
        return 2
    if not sys.stdin.isatty():
        raise RalphError("ralph notify setup asks questions and needs a terminal", fix="or write ~/.ralph.env yourself")
    return wizard.setup(known)


@ralph.command("config")
@click.argument("what", required=False, type=options.Words(("commit",)))
@click.argument("choice", required=False, type=options.Words(("on", "off", "status")))
def _config(what: str | None, choice: str | None) -> int:
    """Settings for all projects, kept in ~/.ralph.env: `ralph config commit on|off|status`."""
    from ralph import settings, sources  # noqa: PLC0415 - a verb loads what it needs

    if what != "commit" or choice not in ("on", "off", "status"):
        raise RalphError("usage: ralph config commit on|off|status")
    if choice != "status":
        path = sources.home_file()
        sources.keep(path, {"RALPH_AUTO_COMMIT": "true" if choice == "on" else "false"})
        click.echo(f"auto-commit is {choice} in {path}")
    in_files, problems = sources.in_files()
    given = [one for one in [*sources.in_environment(), *in_files] if one.variable == "RALPH_AUTO_COMMIT"]
    counts = settings.resolve(given, problems=problems)
    where = counts.said.get("auto_commit", "default")
    click.echo(f"auto-commit is {'on' if counts.auto_commit else 'off'} ({where})")
    return 0
