"""The task list for --strict, and its acceptance checks: what a line asks for, and whether running it says it is so."""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.errors import RalphError
from ralph.notify.channels import cut_urls_to_hosts, request_status_and_error
from ralph.plan import tasks
from ralph.plan.progress import encode_text, shorten_output
from ralph.plan.prompt import Value
from ralph.plan.tasks import Task, edits
from ralph.run.judge import WhyCommitLacks
from ralph.run.stop_rules import Reason, Stop
from ralph.settings.table import Settings
from ralph.store.state import State
from ralph.words import join_names, one_line

# Lines of a command's output that the user and the next attempt get.
_LINES = 10
# Characters of a check that a message quotes, which leaves room for what was found.
_SHOWN = 150
# Seconds in which a server has to answer; a signal to stop waits for them, too.
_ANSWER_S = 10.0
_PATTERNS = (
    re.compile(
        r"(?is:run\s+(`+)(?!\s*\1)(?P<command>(?:(?!\1).)+)\1\s*(?:[-–—:,]+\s*)?"  # noqa: RUF001 - people write all three dashes
        r"exit(?:s|ed)?(?:\s+with)?(?:\s+(?:exit\s+)?(?:code|status))?\s+(?P<wanted>\d{1,3}))"
    ),
    re.compile(
        r"(?i:file\s+(`+)(?!\s*\1)(?P<path>(?:(?!\1).)+)\1"
        r"\s+(?:exists|contains\s+(`+)(?!\s*\3)(?P<holds>(?:(?!\3).)+)\3))"
    ),
    re.compile(
        r"`?(?P<method>[A-Z]{2,20}|(?i:get|head|post|put|patch|delete|options))\s+`?(?P<url>/[^\s`]*)`?"
        r"\s+returns\s+(?:(?i:HTTP|status)(?:\s+(?:code|status))?\s+)?(?P<wanted>\d{3})"
    ),
    re.compile(
        r"""(?is:agent-browser\s*:\s*(?P<action>(?:"[^"\\]*"|'[^']*'|[^"'\\])+?)(?:\s+[-–—]+(?:\s.*)?)?)"""  # noqa: RUF001
    ),
)


class CheckResult(NamedTuple):
    """The result of a check or of another command of the project."""

    code: int | None
    """Its exit code, negative for the signal that killed it; None if ralph ended it."""
    how_ended: str
    """How it ended, in words: `exited with 1`, `had not ended after 10m00s`."""
    output: str = ""
    """The end of what it printed."""
    took_s: float = 0.0
    cannot_run: bool = False
    """It says nothing about the task: the program does not exist, or no server answers."""

    @property
    def why_failed(self) -> str:
        """Why it did not pass; empty if it did."""
        return "" if self.code == 0 else self.how_ended

    @property
    def failure_with_output(self) -> str:
        """Why it did not pass, and the last lines of its output."""
        lines = [line for line in shorten_output(self.output).split("\n") if line.strip()]
        return "\n".join([self.why_failed, *lines[-_LINES:]]) if self.why_failed else ""


class Check(NamedTuple):
    """An acceptance check."""

    text: str
    fields: Mapping[str, str] = {}
    """`command` and `wanted`, for a browser also `action`; or `path`, maybe `holds`; or `method`, `url`, `wanted`.

    Empty if no machine can check it.
    """

    @property
    def is_safe_to_repeat(self) -> bool:
        """Whether it may be run at any time, unlike a click or a POST."""
        return "action" not in self.fields and self.fields.get("method", "GET").upper() in ("GET", "HEAD")


def parse_check(text: str) -> Check:
    """Parses the check on this line; its `fields` are empty if it fits no pattern.

    `Run `cmd` - exits with code N`, `File `path` exists`, `File `path` contains `text``, `METHOD /url returns STATUS`,
    `agent-browser: action - result`; as a bullet too, with a full stop, and with the dash or the words of `exits with`
    that people use in their place. A code span may hold backticks, as in markdown.
    """
    line = re.sub(r"\A[-*+]\s+", "", text).removesuffix(".").rstrip()
    for pattern in _PATTERNS:
        found = pattern.fullmatch(line)
        if not found or "\0" in line:
            continue
        fields = {name: value.strip() for name, value in found.groupdict("").items() if value}
        if "action" in fields:  # what follows the dash is for people, and is not checked
            words = shlex.split(fields["action"])
            fields |= {"command": shlex.join(["agent-browser", *words]), "wanted": "0"}
        return Check(text, fields)
    return Check(text)


def parse_checks_of_tasks(listed: Iterable[Task]) -> list[Check]:
    """Returns the checks of these tasks, including those that no machine can run."""
    return [parse_check(line) for task in listed for line in task.note_values("verify")]


def join_browser_actions(criteria: Iterable[Check]) -> list[Check]:
    """Joins browser actions in a row into one check: else a click would not find the page that was opened before."""
    found: list[Check] = []
    for one in criteria:
        if found and "action" in found[-1].fields and "action" in one.fields:
            command = f"{found[-1].fields['command']} && {one.fields['command']}"
            found[-1] = one._replace(fields={**one.fields, "command": command})
        else:
            found.append(one)
    return found


def evaluate_check(
    check: Check,
    *,
    base_url: str,
    run_unless_interrupted: Callable[[str], CheckResult | None],
    why_commit_would_lack: WhyCommitLacks = lambda *_: "",
) -> CheckResult | None:
    """Runs a check and returns its result, with exit code 0 if it is met; None if a signal ended the command.

    `run_unless_interrupted` runs a shell command, `base_url` is the address of the server, `why_commit_would_lack` says
    why the commit would lack an existing file, or its content. A check that no machine can run counts as met, with a
    note that nobody checked it.
    """
    fields = check.fields
    if not fields:
        return CheckResult(0, f"not machine-checked, nobody looked: {one_line(check.text, _SHOWN)}")
    if "path" in fields:
        return _check_file(fields["path"], fields.get("holds", ""), why_commit_would_lack)
    if "command" in fields:
        if (ended := run_unless_interrupted(fields["command"])) is None:
            return None
        code, output = ended.code, ended.output
        what = f"Run `{one_line(fields['command'], _SHOWN)}` {ended.how_ended}"
        cannot_run = code in (126, 127)  # the shell found no such program
    else:
        method, url = fields["method"].upper(), base_url.rstrip("/") + fields["url"]
        code, output = request_status_and_error(url, method, timeout_s=_ANSWER_S)  # with no secret of ours
        came = f"returned {code}" if code else f"got no answer from {cut_urls_to_hosts(base_url)}"
        what = f"{method} {one_line(fields['url'], _SHOWN)} {came}"
        cannot_run = not code
    wanted = int(fields["wanted"])
    if code == wanted:
        return CheckResult(0, what)
    what = f"cannot run: {what}" if cannot_run else f"{what} (wanted: {wanted})"
    return CheckResult(1, what, output, cannot_run=cannot_run)


def _check_file(path: str, holds: str, why_commit_would_lack: WhyCommitLacks) -> CheckResult:
    """Checks a file of the project, wherever links lead; a folder exists as well."""
    what, wanted, target = f"File `{one_line(path, _SHOWN)}`", encode_text(holds), Path(os.path.realpath(path))
    if not target.is_relative_to(Path.cwd()):
        odd = "leads out of the project; write it from the project's top folder on"
        return CheckResult(1, f"cannot run: {what} {odd}", cannot_run=True)
    if not os.path.exists(target):  # noqa: PTH110 - Path raises what this takes for a No
        odd = "does not exist"
    elif wanted not in files.read_or_empty(target):
        odd = f"does not contain `{one_line(holds, _SHOWN)}`"
    else:
        odd = why_commit_would_lack(target, wanted)
    return CheckResult(1 if odd else 0, f"{what} {odd}")


def new_run_token() -> str:
    """Returns a run token: an agent that repeats it has read this run's prompt."""
    return time.strftime("ralph-%Y%m%d-%H%M%S-") + os.urandom(6).hex()


def validate_list(text: bytes, name: str, settings: Settings) -> Sequence[Task]:
    """Returns the tidied tasks of this progress file. Raises RalphError with all that is wrong with them."""
    listed = tasks.read_tasks(edits.with_ids_and_tidy_marks(text))
    wrong = tasks.find_problems(listed)
    for task in listed:
        for one in () if task.is_done else parse_checks_of_tasks([task]):
            if not one.fields and settings.criteria == "strict":
                wrong.append(f"line {task.number}: {one.text}: no machine can check this, and --criteria is strict")
            if "url" in one.fields and settings.base_url is None:
                wrong.append(f"line {task.number}: {one.text}: needs to know where: set --base-url")
    if wrong:
        raise RalphError.of(RalphError(f"{name}: {line}") for line in wrong)
    return listed


def nothing_to_begin(listed: Sequence[Task], alone: str | None = None) -> Stop:
    """Returns why no task can be begun: they wait for others, or all are ticked and the plan is still not done.

    Or the only one that was asked for, `alone`, is done.
    """
    if (task := tasks.find_task(listed, alone)) and task.is_done:
        return Stop(Reason.ONCE)
    all_ticked = "every task is ticked, and yet done does not hold; untick what is not, or add a task"
    return Stop(Reason.STUCK, tasks.why_stuck(listed, alone) or all_ticked)


def task_prompt_values(task: Task, run_token: str, state: State) -> dict[str, Value]:
    """Returns the variables with which a prompt describes this task."""
    asked = parse_checks_of_tasks(task.self_and_completed_parents)
    own = [message.partition(": ")[2] for message in task.note_values("role") if ": " in message]
    return {
        "TASK_ID": task.id,
        "TASK": task.text + "".join(f" (a part of {one.id}: {one.text})" for one in task.above),
        "CRITERIA": [one.text for one in asked if one.fields],
        "UNCHECKED": [one.text for one in asked if not one.fields],
        "HELD": task.note_values("held"),
        "CLAIMED": "".join(task.note_values("claimed")),
        "FAILURES": [*task.note_values("failed"), *own][-3:],  # the newest
        "TOUCHED": join_names(state.uncommitted_files(task.id), 20),
        "TRY": task.failed_tries + 1,
        "SESSION": run_token,
    }
