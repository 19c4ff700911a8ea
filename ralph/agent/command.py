"""Agents: files that describe an agent's command, settings and errors; and the environment that an agent gets."""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.process.programs import MARK
from ralph.settings.table import DENY_LISTS, Settings, Source

_MEANS = {
    "limit": Outcome.LIMIT,
    "passing": Outcome.TROUBLE,
    "person": Outcome.HOPELESS,
    "turns": Outcome.OUT_OF_TURNS,
    "budget": Outcome.OUT_OF_BUDGET,
}
_COSTS = ("max_cost", "max_iteration_cost", "max_total_cost")
# Settings that an agent supports if it has a flag of the same name; for those of _COSTS that flag is max_cost, since
# an agent without it may not report its cost.
_NEED_FLAG = ("model", "effort", "max_turns", "max_context", "tools", "deny", "mcp", *_COSTS)
_OURS = Path(__file__).parent.parent / "agents"


class Rule(NamedTuple):
    """What an error of an agent means; it applies if one of its patterns matches, from the beginning of the text."""

    means: Outcome
    fix: str = ""
    kind: str = ""
    """What the agent's stream calls the error."""
    status: str = ""
    """The HTTP status in the agent's stream."""
    exit: str = ""
    """The agent's exit code."""
    says: str = ""
    """The words of the error."""
    stderr: str = ""
    """The few lines that the agent prints if it does not start at all."""


class Agent(NamedTuple):
    """An agent; lists are words of its command line, in which {} is replaced by the value."""

    name: str
    command: Sequence[str]
    run: Sequence[str] = ()
    """Makes it work on one prompt, without asking for permission."""
    prompt: Sequence[str] = ()
    """Gives it the prompt: {} is the text, {file} a file that holds it; empty if it reads standard input."""
    talk: Sequence[str] = ()
    """Starts a conversation with the user, {} being its first prompt; empty if the agent cannot do that."""
    flags: Mapping[str, Sequence[str]] = {}
    """How to pass it each setting; it does not support one that is missing here."""
    env: Mapping[str, str] = {}
    """Extra environment variables of this agent."""
    mcp_env: Mapping[str, str] = {}
    """Extra environment variables if it gets an MCP server."""
    no_effort: Mapping[str, str] = {}
    """Extra environment variables for `--effort none`, if no flag does that."""
    doctor: Mapping[str, Any] = {}
    """What `ralph doctor` checks: the names of its keys, whether it is logged in, whether it refuses root."""
    install: str = ""
    """The command that installs it."""
    errors: Sequence[Rule] = ()
    arguments: Sequence[str] = ()
    """The user's own arguments, which come last before the prompt."""
    model_index: int = 0
    """Which model of a ladder it uses, from 0; past the end, the last one."""

    def command_line(
        self, settings: Settings, prompt: str, *, file: str = "", budget_usd: float | None = None, mcp: str = ""
    ) -> list[str]:
        """Returns the command line for one iteration, or, if the mode is interactive, for a conversation with the user.

        `file` is a file that holds the prompt, and `mcp` says, in JSON, which MCP server the agent gets.
        """
        tools = self.tools(settings)
        values: dict[str, object] = {
            "model": settings.model and settings.model[: self.model_index + 1][-1],
            "deny": ",".join(_expand_deny_lists(settings.deny)) or None,
            "tools": None if tools is None else ",".join(tools),
            "mcp": mcp or None,
        }
        env = {**self.env}
        if mcp:
            env |= self.mcp_env
        if settings.effort == "none" and self.no_effort:
            env |= self.no_effort
        else:
            values["effort"] = settings.effort
        if not settings.interactive:
            cost = None if budget_usd is None else f"{budget_usd:.6f}"
            values |= {"max_turns": settings.max_turns, "max_context": settings.max_context, "max_cost": cost}
        return [
            *(settings.wrap or ()),
            *(["env", *(f"{name}={value}" for name, value in env.items())] if env else []),
            *self.command,
            *(() if settings.interactive else self.run),
            *(
                word.replace("{}", str(value))
                for name, value in values.items()
                if value is not None
                for word in self.flags.get(name, ())
            ),
            *self.arguments,
            *(
                word.replace("{file}", file).replace("{}", prompt)
                for word in (self.talk if settings.interactive else self.prompt)
            ),
        ]

    def tools(self, settings: Settings) -> Sequence[str] | None:
        """Returns the tools that the settings allow, if the agent supports such a list; None for all tools."""
        if settings.tools and "tools" in self.flags:
            return [name for name in settings.tools[0] if all(name in group for group in settings.tools)]
        return None

    def can_run_commands(self, settings: Settings) -> bool:
        """Whether the agent can run commands."""
        tools = self.tools(settings)
        return tools is None or any(name.startswith("Bash") for name in tools)

    def rule(self, message: str, kind: str = "", status: object = "", *, code: int = 0, stderr: str = "") -> Rule:
        """Returns the first rule that applies to an error; if none does, one by which the iteration has failed."""
        text = message.strip().translate({0x2019: "'", 0xA0: " ", 0x202F: " "})
        parts = (kind, str(status or ""), str(code), text, stderr)
        for rule in self.errors:
            for pattern, of in zip(rule[2:], parts, strict=True):
                if pattern and re.match("(?im)" + pattern.replace("\n", ""), of):
                    return rule
        return Rule(Outcome.FAILED)


def _expand_deny_lists(denied: Sequence[str]) -> Iterator[str]:
    """Yields them as rules for claude, such as `Bash(git push:*)`; a list becomes one rule for each of its commands."""
    for name in denied:
        if name in DENY_LISTS:
            yield from (f"Bash({command}:*)" for command in DENY_LISTS[name][0].split(", "))
        else:
            yield name


def check_installed(agents: Sequence[Agent], settings: Settings) -> None:
    """Raises RalphError with cause and remedy if an agent's program is not found.

    With `--wrap`, checks only the sandbox's program, since ralph cannot look inside the sandbox.
    """
    needed = {settings.wrap[0]: ""} if settings.wrap else {one.command[0]: one.install for one in agents}
    for program, install in needed.items():
        if not shutil.which(program):
            raise RalphError(
                f"the agent {program} is not on the PATH, or not executable; PATH is {os.environ.get('PATH', 'unset')}",
                1,
                fix=f"install it{install and f' ({install})'}, chmod +x it, or give its full path with --agent "
                "(cron has a short PATH)",
            )


def choose_agents(settings: Settings, agent_arguments: Sequence[str] = ()) -> list[Agent]:
    """Returns the agents of a run; each but the first works while those before it are at their limit.

    Raises RalphError for settings that one of them does not support; these are only remarks if a template asks for
    them, or if the agents are a mode's own.
    """
    program, *more = settings.agent
    names = [program] if more else program.split(",")
    first, *others = [_find_agent([name, *more]) for name in names]
    agents = [first if settings.has_own_agent else first._replace(arguments=agent_arguments)]
    agents += [other._replace(flags={**other.flags, "model": (), "effort": ()}, no_effort={}) for other in others]
    problems = list[RalphError]()
    for agent in agents:
        for name in _NEED_FLAG:
            given, flag = settings.given.get(name), "max_cost" if name in _COSTS else name
            if given and flag not in agent.flags and getattr(settings, name) not in (None, False):
                cannot = RalphError(
                    f"{given.where}: the agent {agent.command[0]} does not support {given.variable}", fix="leave it out"
                )
                is_remark = given.source is Source.TEMPLATE or settings.has_own_agent
                (settings.remarks if is_remark else problems).append(cannot)
    if problems:
        raise RalphError.of(problems)
    return agents


def _find_agent(words: list[str]) -> Agent:
    """Returns the agent whose file `words` names, or else one only known to read a prompt on its standard input.

    `claude` with a path, or followed by other words, still counts as claude.
    """
    name = words[0].rpartition("/")[2]
    for folder in (Path.home() / ".ralph" / "agents", _OURS):
        path = folder / f"{name}.toml"
        if path.is_file() and (words == [name] or name == "claude"):
            agent = _load_agent_file(path)
            return agent if words == [name] else agent._replace(command=words)
    # Most such commands start claude.
    return Agent(name, words, errors=_load_agent_file(_OURS / "claude.toml").errors)


def _load_agent_file(path: Path) -> Agent:
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        rules = [Rule(_MEANS[one.pop("means")], **one) for one in table.pop("errors", ())]
        agent = Agent(path.stem, errors=rules, **table)
        if path.parent != _OURS:  # the user's: raise here if a pattern, table or list is malformed
            agent.rule("")
            agent.command_line(Settings(effort="none"), "", mcp="none")
        words = [agent.command, agent.run, agent.prompt, agent.talk, *agent.flags.values()]
        are_words = (isinstance(one, list | tuple) and all(isinstance(word, str) for word in one) for one in words)
        if not agent.command or not all(are_words):
            raise TypeError("a command is a list of words")  # noqa: TRY301 - handled like Python's own errors
    except (OSError, ValueError, TypeError, AttributeError, LookupError, re.error) as error:
        raise RalphError(f"{path}: not an agent file: {error}") from error
    return agent


def base_agent_environment(*, run: str, tmux_folder: str) -> dict[str, str]:
    """Returns the agent's environment: without ralph's secrets and the user's tmux, and with the run's mark.

    A background `git gc` would outlive the iteration, so git runs it in the foreground.
    """
    outer = os.environ
    env = {  # --jobs sets RALPH_PORT
        name: value for name, value in outer.items() if name == "RALPH_PORT" or not name.startswith(("RALPH_", "TMUX"))
    }
    return env | {
        MARK: f"{outer.get(MARK, '')}:{run}".lstrip(":"),
        "TMUX_TMPDIR": tmux_folder,
        "PWD": str(Path.cwd()),
        # This is how `git -c` passes settings to its child processes.
        "GIT_CONFIG_PARAMETERS": f"{env.get('GIT_CONFIG_PARAMETERS', '')} 'gc.autoDetach=false'".strip(),
    }
