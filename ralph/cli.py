"""The command line: parses arguments, calls a verb, and turns errors into messages and exit codes."""

import contextlib
import os
import sys
from functools import partial
from pkgutil import resolve_name
from typing import Any

import click

from ralph import __version__
from ralph.errors import RalphError
from ralph.process import signals
from ralph.screen.text import is_any_output_on_terminal
from ralph.settings.options import FILE, OF_A_RUN, CommandWithGroupedHelp, parse_command_line
from ralph.words import without_control_codes

_HELP = """\
Usage: ralph PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT]

Work through PLAN with a coding agent: one task per iteration, with a fresh
agent each time, until RALPH_DONE is set and verified.

Run:    ralph feature.md plan    write the task list, once
        ralph feature.md build   work until done;  all: plan, build, validate
        ralph feature.md talk    chat with the agent about the plan
        common options: --max-iterations N, --max-time 8h, --max-cost USD,
        --verify COMMAND, --strict, --dry-run, -q, --verbose, -C DIR
Look:   ralph status [PLAN]      progress;  report: as HTML, with charts
        ralph log [PLAN [N]]     what happened;  -f: what happens now
        ralph export [PLAN]      tasks as JSON;  mcp: as tools for an agent
Set up: ralph rehearse [PLAN]    watch a run with a fake agent, at no cost
        ralph doctor [PLAN]      check the setup;  init: write ./.ralph.env
        ralph notify setup|test  send notifications;  config commit on|off
More:   ralph help settings      all options of a run;  help VERB: of a verb

Alone on a line of the progress file: RALPH_STOP stops after the current
iteration, RALPH_BLOCKED: why needs you, RALPH_DONE means that all is done.
Exit codes: 0 done, 1 error, 2 wrong usage, 3 stopped early, work remains,
4 needs you, 75 another run is active here; 129, 130, 143 by signal."""

_PLACES = """Defaults are in brackets. You can also set each one in the environment (--max-time as RALPH_MAX_TIME), as a
line `RALPH_MAX_TIME: 8h` in the plan, in ./.ralph.env, in ~/.ralph.env, or in a prompt template; the command line
wins, then the first of these. The plan, ./.ralph.env and templates cannot set the agent, since it could write them."""


def main(clock: object = None) -> None:
    """The `ralph` command. Tests pass another clock, with which an hour takes a moment."""
    _prepare_standard_streams()
    try:
        code: int = ralph.main(prog_name="ralph", standalone_mode=False, obj=clock) or 0
        sys.stdout.flush()
    except click.UsageError as error:
        code = _print_error(RalphError(" ".join(error.format_message().split()).rstrip("."), fix="see ralph help"))
    except RalphError as error:
        code = _print_error(error)
    except BrokenPipeError:
        code = 1  # the reader left, as `head` does: end silently
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code = _print_error(RalphError(f"{where}{error.strerror}", 1))
    except (KeyboardInterrupt, click.Abort):
        code = 128 + (signals.interrupted() or 2)
    if code > 128:
        signals.die_by_signal(code - 128)
    with contextlib.suppress(OSError, AttributeError):  # stderr is None if it was closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # else the interpreter examines all objects first: 5 ms of every run


def _print_error(error: RalphError) -> int:
    """Prints each problem on a line of its own and returns the exit code."""
    if is_any_output_on_terminal() or not error.for_people or "RALPH_REHEARSAL" in os.environ:
        for line in error.message.splitlines():
            click.echo(f"ralph: {without_control_codes(line)}", err=True)
    return error.exit_code


def _prepare_standard_streams() -> None:
    """Opens closed standard streams, whose numbers the next files would get; and makes any text printable."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:  # it gets the lowest number that is free
        pass
    os.close(spare)
    # A file name or a locale must not end in a traceback.
    sys.stdout = open(1, "w", errors="ascii", closefd=False)  # noqa: SIM115 - the locale's, to the end


def _make_verb(name: str, where: str, meaning: str, *params: click.Parameter, **more: Any) -> click.Command:
    """Returns the verb of that name; it imports its function when called, and parses the options of a run."""

    def call(**given: Any) -> Any:
        if "requirements" in given:
            given = {"asked": parse_command_line(given, *click.get_current_context().obj)}
        return resolve_name(where)(**given)

    return CommandWithGroupedHelp(name, params=[*params, _FOLDER], help=meaning, callback=call, **more)


class _RalphGroup(click.Group):
    """The command: the first word is a verb, or else the plan of a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at the first `--` before click sees them; turns `help VERB` into `VERB --help`."""
        at = [*args, "--"].index("--")
        words, ctx.obj = args[:at], (args[at + 1 :], ctx.obj)
        match words:
            case ["--test-notify", *_]:  # as ralph.sh has it
                words = ["notify", "test"]
            case ["help", "settings"]:
                os.environ.setdefault("LESS", "FRX")  # as git has it: what fits on the screen needs no pager
                click.echo_via_pager(_RUN.get_help(click.Context(_RUN, parent=ctx, info_name="")))
                ctx.exit()
            case ["help", word, *_] if word not in self.commands:
                raise click.UsageError(f"there is no help on {word}")
            case [] | ["help", *_] if not ctx.resilient_parsing:
                words = [*words[1:2], "--help"]
        return super().parse_args(ctx, words)

    def resolve_command(self, _ctx: click.Context, args: list[str]) -> Any:
        """Returns the verb and its arguments, or a run with all arguments."""
        verb = self.commands.get(args[0])
        return (args[0], verb, args[1:]) if verb else ("", _RUN, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Completes the first word: a verb, or a plan, which the shell finds itself."""
        return [*FILE.shell_complete(ctx, _PLAN, incomplete), *super().shell_complete(ctx, incomplete)]

    def get_help(self, _ctx: click.Context) -> str:
        """The help on one screen."""
        return _HELP


def _option(meaning: str, *names: str, **more: Any) -> click.Option:
    return click.Option(names, help=meaning, **more)


_flag = partial(_option, is_flag=True)
_file = partial(_option, metavar="FILE", type=FILE)


_PLAN = click.Argument(["plan_word"], required=False, metavar="[PLAN]", type=FILE)
_FOLDER = _option(
    "change to DIR first, for cron",
    "-C",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    is_eager=True,
    expose_value=False,
    callback=lambda _context, _option, folder: os.chdir(folder) if folder else None,
)
_PROGRESS = _file("if it is not <plan>_PROGRESS.md", "--progress-file")
_JSON = _flag("print JSON", "--json", "as_json")
_RUN = _make_verb(
    "run",
    "ralph.commands.run:start_run",
    "ralph PLAN [MODE] [MAX_ITERATIONS] [OPTIONS] [-- ARGUMENTS FOR THE AGENT] works through PLAN.",
    _flag("print only one line per iteration, wait and run", "-q", "--quiet"),
    _flag("print everything: prompts, messages and tool calls", "--verbose"),
    _flag("print lines only, without the status line at the bottom", "--no-spinner"),
    _flag("print the command and the prompt, start nothing", "--dry-run"),
    *OF_A_RUN,
    epilog=_PLACES,
)
_VERBS = [
    _make_verb(
        "status",
        "ralph.commands.status:print_status",
        """Progress: one line per plan in this folder, or PLAN with its tasks and last iterations.

        Exit codes: 0 done, 3 work remains, 4 needs you.
        """,
        _PLAN,
        _PROGRESS,
        _JSON,
    ),
    _make_verb(
        "log",
        "ralph.commands.log:print_log_or_iteration",
        """What happened: one line per iteration of PLAN; with N, or `last`, what that one said and did.

        A dash marks an iteration that changed nothing.
        """,
        _PLAN,
        click.Argument(["number"], required=False, metavar="[N]"),
        _flag("the agent's output, unchanged", "--raw", "part", flag_value="raw"),
        _flag("its prompt", "--prompt", "part", flag_value="prompt"),
        _flag("ralph's notes on recent iterations, for the next prompt", "--memory", "part", flag_value="memory"),
        _flag("what it committed", "--diff", "part", flag_value="diff"),
        _flag("show the running iteration, and those after it, as they happen", "-f", "--follow"),
        _flag("show everything: prompts, messages and tool calls", "--verbose"),
        _PROGRESS,
    ),
    _make_verb(
        "report",
        "ralph.commands.report:write_report",
        "Summary of PLAN with charts, as one HTML file: tasks, cost, tokens and time by iteration.",
        _PLAN,
        _file("output file; `-` is the standard output", "-o", "--output"),
        _flag("show it in the browser", "--open", "opens"),
        _PROGRESS,
    ),
    _make_verb(
        "export",
        "ralph.commands.export:export_tasks",
        """The tasks of PLAN as JSON, with today's statuses; the rest of a plan in JSON stays unchanged.

        requirements is the form of requirements.json, plan that of implementation_plan.json, prd that of prd.json.
        """,
        _PLAN,
        _option(
            "another form than the plan's own; plan for a plan in markdown",
            "--format",
            "form",
            type=click.Choice(("requirements", "plan", "prd")),
        ),
        _file("output file; PLAN itself is updated in place", "-o", "--output"),
        _PROGRESS,
    ),
    _make_verb(
        "rehearse",
        "ralph.commands.rehearsal.rehearsal:rehearse",
        """Without PLAN: plans and builds a sample in a throwaway repository, with a fake agent: no key, no network.

        With PLAN: works through it in a throwaway copy of your repository, with your prompts, settings, verify command,
        hooks, limits and channels; then prints what happened and what went wrong. Takes MODE and
        all options of a run. Spends nothing and leaves the repository as it is. Exit code 0 or 1.
        """,
        _flag("print everything that the fake agent says and does", "--verbose"),
        *OF_A_RUN,
    ),
    _make_verb(
        "doctor",
        "ralph.commands.doctor:doctor",
        """Checks the setup for a run, and says how to fix what is missing. Exit code 0 or 1.

        With PLAN it also checks its settings, progress file and prompts. Takes MODE and all options of a run.
        """,
        _flag("print every check, not only one per subject", "--verbose"),
        _JSON,
        *OF_A_RUN,
    ),
    _make_verb(
        "notify",
        "ralph.commands.config:set_up_or_test_channels",
        "Send notifications: `setup` asks for the settings of a channel, `test` sends one through each.",
        click.Argument(["what"], type=click.Choice(("setup", "test"))),
    ),
    _make_verb(
        "config",
        "ralph.commands.config:set_or_show_auto_commit",
        "Settings for all projects, kept in ~/.ralph.env: `ralph config commit on|off|status`.",
        click.Argument(["what"], type=click.Choice(("commit",)), expose_value=False),
        click.Argument(
            ["choice"],
            type=click.Choice(("on", "off", "status", "true", "false", "yes", "no", "1", "0")),
            default="status",
            metavar="[on|off|status]",
        ),
    ),
    _make_verb(
        "init",
        "ralph.commands.config:create_settings_with_verify",
        "Settings for this project, in ./.ralph.env, with the verify command it finds.",
    ),
    _make_verb(
        "mcp",
        "ralph.commands.mcp:serve_tools",
        """Serves the tasks of PLAN as tools to an agent, over the Model Context Protocol on stdin and stdout.

        Needs the package mcp: pip install 'mcp>=2'. With --mcp a run hands them to its agent itself.
        """,
        _PLAN,
        _PROGRESS,
        _flag("propose only, and leave the task list as it is", "--propose"),
    ),
    click.Command(
        "attempt",
        help="What --jobs starts for each task, wherever that is: a job as JSON on stdin, its result on stdout.",
        callback=lambda: resolve_name("ralph.parallel.attempt:serve_attempt")(main),
        hidden=True,
    ),
]


_show_version = click.version_option(__version__, "-V", "-v", "--version", message="ralph %(version)s")
_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "ignore_unknown_options": True}
ralph = _show_version(_RalphGroup("ralph", commands=_VERBS, params=[_FOLDER], context_settings=_CONTEXT_SETTINGS))
"""The root of all commands."""
