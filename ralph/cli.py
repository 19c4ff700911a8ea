"""The command line: argv to what was asked, errors to messages and exit codes. Decides nothing else."""

import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ralph import __version__, completion, options
from ralph.errors import RalphError
from ralph.screen import Detail

if TYPE_CHECKING:
    from ralph.clock import Pace

_HELP = """Works through PLAN with a coding agent: one task per iteration, a fresh agent each time, until the
progress file says RALPH_DONE and ralph has checked it.

\b
  ralph feature.md plan                        once: analyse, write the task list
  ralph feature.md build --max-iterations 50   until done
  ralph feature.md build --strict              the same, where ralph picks, checks, ticks and commits each task
  ralph rehearse [PLAN]                        see it work, with a stand-in agent
  ralph doctor [PLAN]                          is all there that a run needs?
  ralph status [PLAN] | log PLAN [N] | report PLAN
  ralph export PLAN                            a plan in JSON with today's statuses
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
        wish = os.environ.get(completion.VARIABLE)
        code = completion.complete(_run_command(), wish) if wish else run(sys.argv[1:], pace)
        sys.stdout.flush()
    except BrokenPipeError:
        code = _without_reader()
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


def _without_reader() -> int:
    """Whoever read has left, such as `head`: the end, in silence, with the exit code that click has for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


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


def _complain(message: str, code: int) -> None:
    from ralph.screen.text import attended, plain  # noqa: PLC0415 - only this way out pays

    if code == 75 and not attended():
        return
    for line in message.splitlines():
        click.echo(f"ralph: {plain(line)}", err=True)


def run(argv: Sequence[str], pace: "Pace | None" = None) -> int:
    """Does what the command line says; the exit code. Raises RalphError."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    words, rest = list(argv[:at]), list(argv[at + 1 :])
    if words[:1] == ["-C"] and words[2:3] and words[2] in options.VERBS:  # as people write it for git
        words = [words[2], *words[:2], *words[3:]]
    if not words or words[0] == "help":
        words = ["--help"]
    try:
        if words[0] in options.VERBS:
            from ralph.verbs import VERBS  # noqa: PLC0415 - a run need not load it

            verb, name = VERBS[words[0]], f"ralph {words[0]}"
            return int(verb.main(words[1:], prog_name=name, standalone_mode=False, obj=(rest, pace)) or 0)
        return int(_run_command().main([*words], prog_name="ralph", standalone_mode=False, obj=(rest, pace)) or 0)
    except click.UsageError as error:
        about = f"ralph {words[0]}" if words[0] in options.VERBS else "ralph"
        raise RalphError(f"{error.format_message()} (see {about} --help)") from error
    except click.exceptions.Exit as done:
        return done.exit_code


class _Plain(click.Command):
    """The usage in the order in which people write it."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words after `ralph` in the usage line."""
        return [*super().collect_usage_pieces(ctx)[1:], "[OPTIONS]", "[-- ARGUMENTS FOR THE AGENT]"]


def _run_command() -> click.Command:
    plan, *others = options.words()
    plan.metavar = "PLAN"
    params: list[click.Parameter] = [
        plan,
        *others,
        *options.settings(),
        options.folder(),
        click.Option(["-q", "--quiet"], is_flag=True, help="print a line per iteration, wait and run, and no more"),
        click.Option(["--verbose"], is_flag=True, help="print all that the agent says, does and is told"),
        click.Option(["--no-spinner"], is_flag=True, help="print lines alone, without the live one at the bottom"),
        click.Option(["--dry-run"], is_flag=True, help="print the command and the prompt, start nothing"),
        click.Option(["--rehearsal"], is_flag=True, hidden=True),
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
        params=params,
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
def _start(around: "tuple[list[str], Pace | None]", /, **said: Any) -> int:
    from ralph import start  # noqa: PLC0415 - --help need not load it

    rest, pace = around
    detail = Detail.of(quiet=said["quiet"], verbose=said["verbose"])
    how = {"dry_run": said["dry_run"], "rehearsal": said["rehearsal"], "detail": detail}
    asked = options.asked(said, rest, spinner=not said["no_spinner"], **how)
    if said["plan"] is None and said["requirements"] is None:
        raise click.UsageError("Missing argument 'PLAN'.")
    return start.run(asked, pace)
