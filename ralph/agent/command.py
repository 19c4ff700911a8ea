"""Agents: files that say what command one is, how it is told what, and what its errors mean; and what it may know."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ralph import denied
from ralph.agent.turn import Outcome, Rule
from ralph.errors import RalphError
from ralph.process import MARK
from ralph.settings import Settings, Source

_NONE: Mapping[str, Any] = {}
_MARGIN_S = 300.0
"""The model's own longest silence after a tool has ended."""
_MEANS = {"limit": Outcome.LIMIT, "passing": Outcome.TROUBLE, "person": Outcome.HOPELESS}
_FLAG_OF = {
    **{name: name for name in ("model", "effort", "max_turns", "max_context", "tools", "deny", "mcp")},
    **dict.fromkeys(("max_cost", "max_iteration_cost", "max_total_cost"), "max_cost"),
}
"""Which flag of an agent's file each setting needs. Who has none for what it may cost does not tell what it costs."""
_OF_FIRST = ("model", "effort")
"""What is meant for the first of several agents alone."""
_TEMPLATES = (Source.MODE, Source.TEMPLATE)
_OURS = Path(__file__).parent.parent / "agents"
_ANY = "claude"
"""Whose errors an agent is taken to have of which nothing is known: most such commands start this one."""


class Agent(NamedTuple):
    """An agent; lists are words of its command line, in which {} is the value."""

    name: str
    command: Sequence[str]
    run: Sequence[str] = ()
    """Makes it do one prompt, without asking for permission."""
    prompt: Sequence[str] = ()
    """Gives it the prompt: {} is the text, {file} a file that holds it; none where its standard input has it."""
    talk: Sequence[str] = ()
    """Lets a person talk to it, {} being what it is told first; none where that cannot be."""
    flags: Mapping[str, Sequence[str]] = _NONE
    """How it is told a setting; one that is missing here it cannot be told."""
    env: Mapping[str, str] = _NONE
    mcp_env: Mapping[str, str] = _NONE
    """Its environment where it gets a server of tools."""
    no_effort: Mapping[str, str] = _NONE
    """Its environment for `--effort none`, where no flag does that."""
    silence: Sequence[str] = ()
    """Names in the environment that let a tool be silent for so many milliseconds."""
    doctor: Mapping[str, Any] = _NONE
    """What `ralph doctor` looks at: whether it is logged in, whether it minds root, what it runs without asking."""
    install: str = ""
    """The command that installs it."""
    errors: Sequence[Rule] = ()
    arguments: Sequence[str] = ()
    """A person's, which stand last."""

    def argv(
        self, settings: Settings, prompt: str, *, file: str = "", budget_usd: float | None = None, mcp: str = ""
    ) -> list[str]:
        """Its command line for one iteration, or in a mode that is a conversation for a person who talks to it.

        `file` holds the prompt, and `mcp` says, in JSON, which server of tools it gets.
        """
        talk, tools = settings.interactive, None
        if settings.tools:
            tools = [name for name in settings.tools[0] if all(name in group for group in settings.tools)]
        said: dict[str, object] = {
            "model": settings.model,
            "effort": None if settings.effort == "none" and self.no_effort else settings.effort,
            "max_turns": None if talk else settings.max_turns,
            "max_cost": None if talk or budget_usd is None else f"{budget_usd:.6f}",
            "max_context": None if talk else settings.max_context,
            "tools": None if tools is None else ",".join(tools),
            "deny": ",".join(denied.rules(settings.deny)) or None,
            "mcp": mcp or None,
        }
        words = [*(settings.wrap or ()), *self.command, *(() if talk else self.run)]
        for name, value in said.items():
            if value is not None:
                words += [word.replace("{}", str(value)) for word in self.flags.get(name, ())]
        given = self.talk if talk else self.prompt
        return [*words, *self.arguments, *(word.replace("{file}", file).replace("{}", prompt) for word in given)]

    def variables(self, settings: Settings) -> Mapping[str, str]:
        """What its environment has that of others has not."""
        return {
            **self.env,
            **(self.mcp_env if settings.mcp else {}),
            **(self.no_effort if settings.effort == "none" else {}),
        }

    def silence_s(self, settings: Settings, env: Mapping[str, str]) -> float | None:
        """How long it may print nothing before it is taken for hung.

        It is silent while a tool runs; where its environment allows that more, the default gives way, since a long test
        is no hang.
        """
        if "idle_timeout" in settings.said or settings.idle_timeout is None:
            return settings.idle_timeout
        allowed = [env.get(name, "") for name in self.silence]
        longest_ms = max((int(text) for text in allowed if re.fullmatch("[0-9]{1,9}", text)), default=0)
        return max(settings.idle_timeout, longest_ms / 1000 + _MARGIN_S)


def check_there(agents: Sequence[Agent], settings: Settings) -> None:
    """Raises RalphError with cause and remedy when there is no such program; in a sandbox nobody can look."""
    needed = {settings.wrap[0]: ""} if settings.wrap else {one.command[0]: one.install for one in agents}
    for program, install in needed.items():
        if not shutil.which(program):
            path = f"is not on the PATH, which is {os.environ.get('PATH', '(unset)')}"
            what = f"the agent {program} " + ("is not there, or is not executable" if "/" in program else path)
            fix = f"install it{f' ({install})' if install else ''}, chmod +x it, or give its full path with --agent"
            raise RalphError(what, 1, fix=f"{fix} (cron has a short PATH)")


def chosen(settings: Settings, arguments: Sequence[str] = ()) -> list[Agent]:
    """The agents of a run; each but the first works while those before it are at their limit.

    Raises RalphError for what one of them shall do and cannot; where only a template asks for it, that is remarked.
    """
    program, *more = settings.agent
    first, *others = [_agent([name, *more]) for name in ([program] if more or "/" in program else program.split(","))]
    agents = [first._replace(arguments=arguments)]
    for other in others:
        flags = {name: words for name, words in other.flags.items() if name not in _OF_FIRST}
        agents.append(other._replace(flags=flags, no_effort={}))
    for agent in agents:
        said = settings.said if agent is agents[0] else settings.said.keys() - _OF_FIRST
        asked = [name for name in _FLAG_OF if name in said and getattr(settings, name) not in (None, False)]
        lacking = [settings.said[name] for name in asked if _FLAG_OF[name] not in agent.flags]
        what = f": the agent {agent.command[0]} cannot do this"
        if places := [one.where for one in lacking if one.source not in _TEMPLATES]:
            raise RalphError(", ".join(places) + what, fix="leave it out")
        settings.remarks += [RalphError(one.where + what) for one in lacking]
    return agents


def _agent(words: Sequence[str]) -> Agent:
    """The agent of a file that this names, else one that is only known to read a prompt on its standard input.

    `claude` with a path, or with words of a person's behind it, is claude, as ever.
    """
    name = words[0].rpartition("/")[2]
    is_name = [name] == [*words]
    paths = [folder / f"{name}.toml" for folder in (Path.home() / ".ralph" / "agents", _OURS)]
    path = next((path for path in paths if (is_name or name == _ANY) and path.is_file()), None)
    if path is None:
        return Agent(name, words, errors=_load(_OURS / f"{_ANY}.toml").errors)
    return _load(path) if is_name else _load(path)._replace(command=words)


def _load(path: Path) -> Agent:
    import tomllib  # noqa: PLC0415 - 7 ms that a start on a finished plan need not pay

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8").replace("\r\n", "\n"))
        rules = []
        for one in table.pop("errors", ()):
            patterns = {name: text.replace("\n", "") for name, text in one.items() if name not in ("means", "fix")}
            rules.append(Rule(_MEANS[one["means"]], one.get("fix", ""), **patterns))
            for pattern in patterns.values() if path.parent != _OURS else ():
                re.compile(pattern)
        agent = Agent(path.stem, errors=rules, **table)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, re.error) as error:
        raise RalphError(f"{path}: is no agent file: {error}") from error
    commands = agent.command, agent.run, agent.prompt, agent.talk, *agent.flags.values()
    if any(isinstance(words, str) for words in commands):
        raise RalphError(f"{path}: is no agent file: a command is a list of words")
    return agent


def environment(base: Mapping[str, str], *, run: str, tmux: Path) -> dict[str, str]:
    """What the agent gets of the environment: no secrets of ralph's, no tmux of the person's, and its mark.

    A background `git gc` would outlive the iteration, so git does that in the foreground.
    """
    env = {name: value for name, value in base.items() if not name.startswith(("RALPH_", "TMUX"))}
    env |= {name: value for name, value in base.items() if name == "RALPH_PORT"}  # of this clone: see --jobs
    outer = base.get(MARK)
    env[MARK] = f"{outer}:{run}" if outer else run
    env["TMUX_TMPDIR"] = str(tmux)
    env["PWD"] = os.getcwd()  # noqa: PTH109 - a string is what is wanted
    said = env.get("GIT_CONFIG_COUNT", "")
    count = int(said) if re.fullmatch("[0-9]{1,3}", said) else 0
    for number, key in enumerate(("gc.autoDetach", "maintenance.autoDetach"), count):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = "false"
    env["GIT_CONFIG_COUNT"] = str(count + 2)
    return env
