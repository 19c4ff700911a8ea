"""The command line: argv to what was asked, errors to messages and exit codes. Decides nothing else."""

import contextlib
import gc
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ralph import __version__
from ralph.errors import RalphError
from ralph.process import signals
from ralph.screen.text import is_attended
from ralph.settings import options
from ralph.words import plain

if TYPE_CHECKING:
    from ralph.process.pace import Pace

_HELP = """\
Usage: ralph PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]

Works through PLAN with a coding agent: one task an iteration, a fresh agent
each time, until the progress file says RALPH_DONE and ralph has checked it.
MODE is any PROMPT_<mode>.md, or all; without it the one in the progress file.

  ralph feature.md plan     once: analyse, write the task list
  ralph feature.md build    until done; much used:  --max-iterations N
                            --max-time 8h  --max-cost USD  --verify COMMAND
                            --strict  --dry-run  -q  --verbose  -C DIR
  ralph feature.md all      plan, build, validate, until nothing is missing
  ralph feature.md talk     to the agent, here; then it may go on
  ralph rehearse [PLAN]     see it work, with a stand-in agent
  ralph doctor [PLAN]       is all there that a run needs?
  ralph status [PLAN]       how it stands
  ralph log [PLAN [N]]      what happened; -f: what happens
  ralph report [PLAN]       what it came to, as one HTML file
  ralph export [PLAN]       a plan in JSON with today's statuses
  ralph mcp [PLAN]          its tasks as tools, for any agent
  ralph notify setup|test   tell Slack, Discord, Telegram, ... how it goes
  ralph config commit on|off|status
  ralph init                write ./.ralph.env, with the verify command it finds
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
        code: int = ralph.main(prog_name="ralph", standalone_mode=False, obj=pace) or 0
        sys.stdout.flush()
    except click.UsageError as error:
        code = _tell(RalphError(" ".join(error.format_message().split()).rstrip("."), fix="see ralph help"))
    except RalphError as error:
        code = _tell(error)
    except OSError as error:
        if error.filename is None:
            with contextlib.suppress(OSError):  # too many open files
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left could not be written either
        code = 1
        if not isinstance(error, BrokenPipeError):  # then who read has left, such as `head`: the end, in silence
            where = f"{error.filename}: " if error.filename else ""
            _tell(RalphError(f"{where}{error.strerror}", 1))
    except (KeyboardInterrupt, click.Abort):
        code = 128 + (signals.interrupted() or 2)
    if code > 128:
        signals.die_by(code - 128)
    gc.freeze()  # else the interpreter looks through everything there is before it leaves: 5 ms of every start
    sys.exit(code)


def _tell(error: RalphError) -> int:
    """Says what is wrong, a line for each; the exit code."""
    for line in error.message.splitlines() if is_attended() or not error.for_people else ():
        click.echo(f"ralph: {plain(line)}", err=True)
    return error.exit_code


def _mend_streams() -> None:
    """With a closed stdin, stdout or stderr the next file opened would take its number; and any text can be printed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # A file name or a locale must not end in a traceback.
    sys.stdout = open(1, "w", errors="replace", closefd=False)  # noqa: SIM115 - the locale's, to the end


def _verb(name: str, where: str, meaning: str, *params: click.Parameter, **more: Any) -> click.Command:
    """The verb of that name, which loads its function. With the options of a run that gets what they ask."""
    module, _, function = where.rpartition(".")

    def call(**given: Any) -> Any:
        if "requirements" in given:
            given = {"asked": options.asked(given, *click.get_current_context().obj)}
        return getattr(import_module(module), function)(**given)

    return click.Command(name, params=[*params, _FOLDER], help=meaning, callback=call, **more)


class _PlanOrVerb(click.Group):
    """What does not begin with a verb is a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits at the first `--`, before anything else is looked at; `help VERB` is `VERB --help`."""
        at = [*args, "--"].index("--")
        words, ctx.obj = args[:at], (args[at + 1 :], ctx.obj)
        if words[:1] == ["--test-notify"]:  # as ralph.sh has it
            words = ["notify", "test"]
        if words[:1] in ([], ["help"]) and not ctx.resilient_parsing:
            words = [*words[1:2], "--help"]
        return super().parse_args(ctx, words)

    def resolve_command(self, _ctx: click.Context, args: list[str]) -> Any:
        """A verb with what follows it, else a run with all of it."""
        verb = self.commands.get(args[0])
        return (args[0], verb, args[1:]) if verb else ("", _RUN, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The first word: a verb or, which the shell finds itself, a plan."""
        return [CompletionItem(incomplete, type="file"), *super().shell_complete(ctx, incomplete)]

    def get_help(self, _ctx: click.Context) -> str:
        """On one screen."""
        return _HELP


def _enter(_context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Changes to the folder before anything is looked for."""
    if folder:
        os.chdir(folder)


def _option(meaning: str, *names: str, **more: Any) -> click.Option:
    return click.Option(names, help=meaning, **more)


_flag = partial(_option, is_flag=True)
_file = partial(_option, metavar="FILE", type=options.FILE)
_PLAN = click.Argument(["word"], required=False, metavar="[PLAN]", type=options.FILE)
_FOLDER = _option(
    "change to DIR first, for cron",
    "-C",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_enter,
)
_CHOICES = ("on", "off", "status", "true", "false", "yes", "no", "1", "0")
_PROGRESS = _file("if it is not <plan>_PROGRESS.md", "--progress-file")
_JSON = _flag("for a program", "--json", "as_json")
_RUN = _verb(
    "run",
    "ralph.commands.run.start_run",
    "ralph PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT] works through PLAN.",
    *options.OF_A_RUN,
    _flag("print a line per iteration, wait and run, and no more", "-q", "--quiet"),
    _flag("print all that the agent says, does and is told", "--verbose"),
    _flag("print lines alone, without the live one at the bottom", "--no-spinner"),
    _flag("print the command and the prompt, start nothing", "--dry-run"),
    epilog=_PLACES,
)
_VERBS = [
    _verb(
        "status",
        "ralph.commands.status.print_status",
        """How it stands: every plan of this folder in a line, or PLAN with its tasks and last iterations.

        Exit codes: 0 done, 3 work remains, 4 a person is needed.
        """,
        _PLAN,
        _PROGRESS,
        _JSON,
    ),
    _verb(
        "log",
        "ralph.commands.log.print_log",
        """What happened: the iterations of PLAN, a line each; with N, or `last`, what that one said and did.

        A dash stands before an iteration that changed nothing.
        """,
        _PLAN,
        click.Argument(["number"], required=False, metavar="[N]"),
        _flag("what the agent printed, as it is", "--raw", "what", flag_value="raw"),
        _flag("what it was told", "--prompt", "what", flag_value="prompt"),
        _flag("what the next iteration is told of the last ones", "--memory", "what", flag_value="memory"),
        _flag("what it committed", "--diff", "what", flag_value="diff"),
        _flag("show the running iteration, and those after it, as they happen", "-f", "--follow"),
        _flag("show all that the agent said, did and was told", "--verbose"),
        _PROGRESS,
    ),
    _verb(
        "report",
        "ralph.commands.report.write_report",
        "What PLAN came to, as one HTML file with pictures: tasks, cost, tokens and time by iteration.",
        _PLAN,
        _file("where; `-` is the standard output", "-o", "--output"),
        _flag("show it in the browser", "--open", "opens"),
        _PROGRESS,
    ),
    _verb(
        "export",
        "ralph.commands.export.print_export",
        """The tasks of PLAN as JSON, with today's statuses; a plan in JSON is printed as it is but for those.

        requirements is the form of requirements.json, plan that of implementation_plan.json, prd that of prd.json.
        """,
        _PLAN,
        _option(
            "another form than the plan's own; plan for a plan in markdown",
            "--format",
            "form",
            type=click.Choice(("requirements", "plan", "prd")),
        ),
        _file("where; PLAN itself is brought up to date", "-o", "--output"),
        _PROGRESS,
    ),
    _verb(
        "rehearse",
        "ralph.commands.rehearsal.rehearsal.rehearse",
        """Without PLAN: plans and builds a sample in a throwaway repository, with a stand-in agent: no key, no network.

        With PLAN: works through it in a throwaway copy of your repository, with your prompts, settings, verify command,
        hooks, limits and channels; then says what would have happened, and what would have gone wrong. Takes MODE and
        all options of a run. Spends nothing and leaves the repository as it is. Exit code 0 or 1.
        """,
        *options.OF_A_RUN,
        _flag("print all that the stand-in says and does", "--verbose"),
    ),
    _verb(
        "doctor",
        "ralph.commands.doctor.doctor",
        """Whether a run would find what it needs, and what to do about what is missing. Exit code 0 or 1.

        With PLAN also what is its own: settings, progress file, prompts. Takes MODE and all options of a run.
        """,
        *options.OF_A_RUN,
        _flag("all that was looked at", "--verbose"),
        _JSON,
    ),
    _verb(
        "notify",
        "ralph.commands.config.send_test_notice",
        "Channels that tell people how it goes: `setup` asks for their settings, `test` tries them.",
        click.Argument(["what"], type=click.Choice(("setup", "test"))),
    ),
    _verb(
        "config",
        "ralph.commands.config.auto_commit_setting",
        "Settings for all projects, kept in ~/.ralph.env: `ralph config commit on|off|status`.",
        click.Argument(["what"], type=click.Choice(("commit",)), expose_value=False),
        click.Argument(["choice"], type=click.Choice(_CHOICES), default="status", metavar="[on|off|status]"),
    ),
    _verb(
        "init",
        "ralph.commands.config.write_project_settings",
        "Settings for this project, in ./.ralph.env, with the verify command it finds.",
    ),
    _verb(
        "mcp",
        "ralph.commands.mcp.serve_tools",
        """Serves the tasks of PLAN as tools to an agent, over the Model Context Protocol on stdin and stdout.

        Needs the extra: pip install 'ralph-sh[mcp]'. With --mcp a run hands them to its agent itself.
        """,
        _PLAN,
        _PROGRESS,
        _flag("propose only, and leave the task list as it is", "--propose"),
    ),
    _verb(
        "attempt",
        "ralph.parallel.attempt.run_attempt",
        "What --jobs starts for each task, wherever that is: a job as JSON on stdin, what came of it on stdout.",
        hidden=True,
    ),
]


@click.group(
    cls=_PlanOrVerb,
    commands=_VERBS,
    params=[_FOLDER],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "ignore_unknown_options": True},
)
@click.version_option(__version__, "-V", "-v", "--version", message="ralph %(version)s")
def ralph() -> None:
    """All that there is."""
