"""The agent: found, of a version that was measured, and willing to start here."""

import contextlib
import os
import re
import shutil
from pathlib import Path

from ralph import files
from ralph.agent import command as agent
from ralph.checks import project
from ralph.checks.check import Check, of_error
from ralph.errors import RalphError
from ralph.process import call
from ralph.settings import Settings

MEASURED = (2, 1, 197)
"""What the facts about claude in this project were measured with."""
_OLD = (2, 1, 0)
_VERSION_S = 30.0
_SANDBOX = ("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP")
"""Names that tell claude that it is in a sandbox; only exactly 1 does."""


def agent_found(settings: Settings) -> Check:
    """Whether the program that is the agent is there."""
    try:
        agent.check_there(settings.agent)
    except RalphError as error:
        return of_error("agent", error)[0]
    return Check(name="agent", ok=True, said=_where(settings))


def version(settings: Settings) -> Check:
    """Whether the agent is there and says, if it is claude, that it is one that is known."""
    there = agent_found(settings)
    if not there.ok or not agent.is_claude(settings.agent):
        return there
    try:
        done = call([settings.agent[0], "--version"], timeout_s=_VERSION_S)
    except OSError as error:
        said = agent.why_not_started(settings.agent, error)
        return Check(name="agent", ok=False, said=said, remedy="install it anew")
    words = (done.stdout + done.stderr).decode(errors="replace")
    if done.timed_out or done.code:
        how = "did not end" if done.timed_out else f"failed with {done.code}: {words.strip()[:200]}"
        return Check(name="agent", ok=False, said=f"{_where(settings)}: --version {how}", remedy="install it anew")
    return _judged(words, _where(settings))


def _where(settings: Settings) -> str:
    name = settings.agent[0]
    return f"{name.rpartition('/')[2]} at {program(name)}"


def program(name: str) -> str | None:
    """The one that is started: of those on the PATH the first whose #! line, if it has one, leads to something."""
    found = [one for folder in os.get_exec_path() if (one := shutil.which(name, path=folder))]
    return next((one for one in found if all(map(shutil.which, interpreter(one)[:1]))), next(iter(found), None))


def interpreter(program: str) -> list[str]:
    """The words of its #! line."""
    with contextlib.suppress(OSError), Path(program).open("rb") as file:
        if file.read(2) == b"#!":
            return file.readline(200).decode(errors="replace").split()
    return []


def _judged(words: str, where: str) -> Check:
    """What the version means; claude has changed its flags and its words before."""
    measured = ".".join(map(str, MEASURED))
    found = re.search(r"(\d{1,4})\.(\d{1,4})\.(\d{1,6})", words)
    if found is None:
        said = f"{where}: says no version; {measured} was measured"
        return Check(name="agent", ok=False, said=said, remedy="see what claude --version says", obstacle=False)
    said = where.replace(" at ", f" {found[0]} at ", 1)
    number = tuple(map(int, found.groups()))
    if number == MEASURED:
        return Check(name="agent", ok=True, said=said)
    said += f"; not measured, {measured} was"
    return Check(name="agent", ok=number >= _OLD, said=said, remedy="" if number >= _OLD else _UPDATE, obstacle=False)


_UPDATE = "claude update; one so old may not know the flags that ralph gives it"


def rights(settings: Settings) -> list[Check]:
    """Whether claude, which runs without asking, would refuse to do so for root; nothing for another agent."""
    if not agent.is_claude(settings.agent):
        return []
    if os.geteuid():
        return [Check(name="rights", ok=True, said=f"user {os.geteuid()}, who is not root")]
    if sandbox := _told_by_file() or next(iter(told_by_environment(settings)), ""):
        return [Check(name="rights", ok=True, said=f"root, and claude is told by {sandbox} that this is a sandbox")]
    said = "you are root, and claude refuses to run without asking for root"
    remedy = "use an account of its own, or in a container: export IS_SANDBOX=1 (in the crontab too)"
    return [Check(name="rights", ok=False, said=said, remedy=remedy)]


def told_by_environment(settings: Settings) -> list[str]:
    """The names without which claude would refuse to run for root."""
    if os.geteuid() or not agent.is_claude(settings.agent) or _told_by_file():
        return []
    return [name for name in _SANDBOX if os.environ.get(name) == "1"][:1]


def _told_by_file() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    path = (Path(folder) if folder else files.home() / ".claude") / "settings.json"
    return str(path) if project.table(path, "env").get("IS_SANDBOX") == "1" else ""


def nested() -> Check:
    """Whether this is inside of another claude, which some versions refuse."""
    if not os.environ.get("CLAUDECODE"):
        return Check(name="nested", ok=True, said="not inside of another claude")
    said = "CLAUDECODE is set: this runs inside of another claude, and some versions refuse that"
    return Check(name="nested", ok=False, said=said, remedy="unset CLAUDECODE", obstacle=False)
