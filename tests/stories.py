"""Words to write the stories that fake_claude.py plays: events as the real claude prints them, acts, steps.

agent.story(step(ticks="first"), step(ticks="all", writes_done=True))
"""

import ast
import json
import marshal
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ralph_driver import executable

Act = dict[str, Any]
"""Something that happens in a step: an event (it has a "type") or a deed (it has an "act")."""

LAUNCH = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import fake_claude; fake_claude.main()"
"""As a module it need not be compiled each time."""


# Events, as claude 2.1 prints them with --output-format stream-json --verbose.


def init(*, key_source: str = "none", model: str = "claude-sonnet-5", **more: Any) -> Act:
    about = {"cwd": "/", "session_id": "s1", "tools": ["Bash"], "mcp_servers": [], "model": model}
    return {"type": "system", "subtype": "init", **about, "apiKeySource": key_source, **more}


def says(text: str, *, parent: str | None = None, error: str | None = None) -> Act:
    block = {"type": "text", "text": text}
    event = message("assistant", block, parent)
    return event if error is None else {**event, "error": error}


def tool(name: str, *, parent: str | None = None, tool_id: str = "t1", **arguments: Any) -> Act:
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}
    return message("assistant", block, parent)


def tool_result(text: str, *, parent: str | None = None, tool_id: str = "t1", is_error: bool = False) -> Act:
    block = {"type": "tool_result", "tool_use_id": tool_id, "content": text, "is_error": is_error}
    return message("user", block, parent)


def weighs(tokens: int, event: Act) -> Act:
    """The same message of the model, which says that so many tokens of its context are used."""
    usage = {"input_tokens": 4, "cache_read_input_tokens": tokens - 1004, "cache_creation_input_tokens": 1000}
    return {**event, "message": {**event["message"], "usage": {**usage, "output_tokens": 1}}}


def message(role: str, block: Act, parent: str | None) -> Act:
    body = {"id": "m1", "model": "claude-sonnet-5", "role": role, "content": [block], "stop_reason": None}
    return {"type": role, "message": body, "parent_tool_use_id": parent, "session_id": "s1"}


def result(text: str = "Done.", *, ok: bool = True, cost_usd: float = 0.01, **more: Any) -> Act:
    """The last event; API errors say "subtype": "success" too, as the real ones do."""
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 0}
    about = {"num_turns": 2, "duration_ms": 10, "usage": usage, "terminal_reason": "completed"}
    outcome = {"is_error": not ok, "api_error_status": None, "result": text, "total_cost_usd": cost_usd}
    return {"type": "result", "subtype": "success", "session_id": "s1", **about, **outcome, **more}


def error_result(subtype: str, *errors: str, cost_usd: float = 0.01) -> Act:
    """The results that have no "result": error_max_turns, error_during_execution, error_max_budget_usd."""
    event = result(ok=False, cost_usd=cost_usd, subtype=subtype, errors=list(errors))
    return {key: value for key, value in event.items() if key != "result"}


def api_retry(attempt: int = 1, *, status: int | None = 529, error: str = "overloaded") -> Act:
    numbers = {"attempt": attempt, "max_retries": 10, "retry_delay_ms": 567.4, "error_status": status}
    return {"type": "system", "subtype": "api_retry", **numbers, "error": error}


def rate_limit(status: str = "rejected", *, resets_at: float | None = None) -> Act:
    info: dict[str, Any] = {"status": status, "rateLimitType": "five_hour"}
    if resets_at is not None:
        info["resetsAt"] = int(resets_at)
    return {"type": "rate_limit_event", "rate_limit_info": info}


def api_error(text: str, error: str, *, status: int | None = None) -> list[Act]:
    """What claude prints when the API said no: its words, with the class of the error, and the result."""
    return [says(text, error=error), result(text, ok=False, cost_usd=0, api_error_status=status)]


LIMIT = "You've hit your session limit · resets 10:24am (UTC)"


# Deeds.

PROGRESS = "feature_PROGRESS.md"


def prints(text: str, *, stderr: bool = False, times: int = 1) -> Act:
    return {"act": "prints", "text": text, "stderr": stderr, "times": times}


def edits(old: str, new: str, file: str = PROGRESS) -> Act:
    """Replaces the first `old`."""
    return {"act": "edits", "file": file, "old": old, "new": new}


def writes(file: str, text: str, *, append: bool = False) -> Act:
    return {"act": "writes", "file": file, "text": text, "append": append}


def ticks(which: str) -> Act:
    """Ticks the first open task, all, or the one whose text begins so."""
    return {"act": "ticks", "file": PROGRESS, "which": which}


def runs(command: str) -> Act:
    """Runs a shell command and waits for it."""
    return {"act": "runs", "command": command}


def commits(message: str) -> Act:
    return runs(f"git add -A && git commit -q -m {shlex.quote(message)}")


def starts(command: str, name: str = "child", *, tool: bool = False, holds_stdout: bool = False) -> Act:
    """Starts a shell command in a session of its own; a `tool` is killed by claude itself at SIGINT."""
    return {"act": "starts", "command": command, "name": name, "tool": tool, "holds_stdout": holds_stdout}


def ignores(*signals: str) -> Act:
    """From here on: ignores("INT", "TERM")."""
    return {"act": "ignores", "signals": list(signals)}


def marks(name: str) -> Act:
    """Tells the test that the story got here: agent.reached(name)."""
    return {"act": "marks", "name": name}


def waits_for(name: str) -> Act:
    """Holds the story until the test says agent.let(name)."""
    return {"act": "waits_for", "name": name}


def sleeps(seconds: float) -> Act:
    return {"act": "sleeps", "seconds": seconds}


def hangs() -> Act:
    return sleeps(3600)


# Steps.


def step(
    *acts: Act,
    ticks: str | None = None,
    adds: str | None = None,
    file: str | None = None,
    commits: str | None = None,
    writes_done: bool = False,
    blocks: str | None = None,
    cost_usd: float = 0.01,
    exit_code: int = 0,
    after: Sequence[Act] = (),
) -> Act:
    """One good invocation: init, the acts, the keywords in this order, the result, `after`, exit."""
    deeds: list[Act | None] = [
        {"act": "ticks", "file": PROGRESS, "which": ticks} if ticks else None,
        edits("## Task List\n\n", f"## Task List\n\n- [ ] {adds}\n") if adds else None,
        writes(file, f"{file}\n", append=True) if file else None,
        edits("IN_PROGRESS", "RALPH_DONE") if writes_done else None,
        edits("IN_PROGRESS", f"RALPH_BLOCKED: {blocks}") if blocks else None,
        runs(f"git add -A && git commit -q -m {shlex.quote(commits)}") if commits else None,
    ]
    done = [deed for deed in deeds if deed is not None]
    return raw(init(), *acts, *done, result(cost_usd=cost_usd), *after, exit_code=exit_code)


def raw(*acts: Act, exit_code: int = 0) -> Act:
    """One invocation that does exactly these acts; a negative exit code is a death by that signal."""
    return {"acts": list(acts), "exit_code": exit_code}


def signal(task: str = "@TASK@", session: str = "@SESSION@") -> str:
    """What --strict asks for in the agent's final words; as it stands in the prompt, unless told."""
    return f'<task-done session="{session}">{task}</task-done>'


def tries(*acts: Act, said: str = "Did it.", signals: str | None = None, cost_usd: float = 0.01) -> Act:
    """An invocation under --strict: the acts, then these final words with the signal on a line of its own."""
    words = f"{said}\n\n{signal() if signals is None else signals}".strip()
    return raw(init(), *acts, says(words), result(words, cost_usd=cost_usd))


def fails(text: str = "It went wrong.", *, exit_code: int = 1) -> Act:
    """An invocation that ends badly for no reason that is known."""
    return raw(init(), says(text), result(text, ok=False), exit_code=exit_code)


def at_limit(*acts: Act, resets_in_s: float | None = 3600, text: str = LIMIT) -> Act:
    """An invocation that ends, after the acts, because the account's limit is reached."""
    resets_at = None if resets_in_s is None else time.time() + resets_in_s
    limit = [rate_limit(resets_at=resets_at), *api_error(text, "rate_limit", status=429)]
    return raw(init(), *acts, *limit, exit_code=1)


def refused(text: str, error: str, *, status: int | None = None) -> Act:
    """An invocation that ends with an API error of that class."""
    return raw(init(), *api_error(text, error, status=status), exit_code=1)


def _deed(act: Act) -> Act:
    """The same for who knows no JSON: an event is a line that is printed."""
    return prints(json.dumps(act, ensure_ascii=False) + "\n") if "type" in act else act


class Agent:
    """The fake claude of one test: its story goes in, its log comes out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.story()

    def story(self, *steps: Act, repeat: bool = False) -> None:
        """One step per invocation; after the last one exit 97, or with `repeat` the last one again."""
        played = [{**one, "acts": list(map(_deed, one["acts"]))} for one in steps]
        (self.folder / "story").write_bytes(marshal.dumps({"steps": played, "repeat": repeat}))
        (self.folder / "count").write_bytes(b"")

    def install(self, path: Path) -> Path:
        """Puts a launcher there: `exec` keeps the pid, and -S starts Python in half the time."""
        words = [sys.executable, "-I", "-S", "-c", LAUNCH, str(self.folder)]
        return executable(path, f'exec {shlex.join(words)} "$@"')

    @property
    def calls(self) -> list[SimpleNamespace]:
        """Each invocation: its argv, prompt, cwd, pid and what else fake_claude.py logs of it."""
        return [SimpleNamespace(**line) for line in self._log() if "call" in line]

    @property
    def prompts(self) -> list[str]:
        return [call.prompt for call in self.calls]

    def child(self, name: str = "child") -> int | None:
        """The pid of a process that a step started, once it is there."""
        return next((int(line["pid"]) for line in self._log() if line.get("child") == name), None)

    def was_interrupted(self) -> bool:
        return any("interrupted" in line for line in self._log())

    def reached(self, name: str) -> bool:
        return (self.folder / f"mark-{name}").exists()

    def let(self, name: str) -> None:
        (self.folder / f"mark-{name}").touch()

    def _log(self) -> list[dict[str, Any]]:
        log = self.folder / "log"
        return [ast.literal_eval(line) for line in log.read_text().splitlines()] if log.exists() else []
