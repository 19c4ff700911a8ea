"""The agent: found, of a version that was measured, and willing to start here."""

import os
import re
import shlex
import shutil
from pathlib import Path

from ralph import agent, files
from ralph.checks import project
from ralph.checks.check import Check, of_error
from ralph.errors import RalphError
from ralph.process import call
from ralph.settings import Settings

MEASURED = (2, 1, 197)
"""What the facts about claude in this project were measured with."""
_OLD = (2, 1, 0)
_VERSION_S = 30.0
_CRON_PATH = "/usr/bin:/bin"
"""What cron gives on Debian and its kin, on Fedora and on macOS, if the crontab says nothing."""


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
    program = settings.agent[0]
    return f"{program.rpartition('/')[2]} at {shutil.which(program)}"


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
    if sandbox := _sandbox():
        return [Check(name="rights", ok=True, said=f"root, and claude is told by {sandbox} that this is a sandbox")]
    said = "you are root, and claude refuses to run without asking for root"
    remedy = "use an account of its own, or in a container: export IS_SANDBOX=1 (in the crontab too)"
    return [Check(name="rights", ok=False, said=said, remedy=remedy)]


def _sandbox() -> str:
    """What tells claude that it is in a sandbox; only exactly 1 does."""
    names = ("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP")
    if told := next((name for name in names if os.environ.get(name) == "1"), ""):
        return told
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    path = (Path(folder) if folder else files.home() / ".claude") / "settings.json"
    return str(path) if project.table(path, "env").get("IS_SANDBOX") == "1" else ""


def nested() -> Check:
    """Whether this is inside of another claude, which some versions refuse."""
    if not os.environ.get("CLAUDECODE"):
        return Check(name="nested", ok=True, said="not inside of another claude")
    said = "CLAUDECODE is set: this runs inside of another claude, and some versions refuse that"
    return Check(name="nested", ok=False, said=said, remedy="unset CLAUDECODE", obstacle=False)


def cron(settings: Settings, words: list[str]) -> list[Check]:
    """Whether the agent would be found from cron, where the PATH is short; `words` are those of the run."""
    first = shutil.which(settings.agent[0])
    if first is None:
        return []
    needs = ["ralph", "git", settings.agent[0], *_interpreter(Path(first))]
    lost = [name for name in needs if shutil.which(name) and not shutil.which(name, path=_CRON_PATH)]
    lost = [name for name in lost if "/" not in name]
    if not lost:
        return [Check(name="cron", ok=True, said=f"what a run needs is on cron's PATH, {_CRON_PATH}")]
    said = f"cron's PATH is {_CRON_PATH}, where there is no {' and no '.join(lost)}"
    remedy = f"in the crontab: {_line(needs, words)}"
    return [Check(name="cron", ok=False, said=said, remedy=remedy, obstacle=False)]


def _line(needs: list[str], words: list[str]) -> str:
    """The command of a crontab line for this folder; cron takes a % for the end of it."""
    found = {os.path.dirname(shutil.which(name) or "") for name in needs if "/" not in name}  # noqa: PTH120 - strings
    here = [os.path.abspath(one) for one in os.environ.get("PATH", "").split(":") if one in found]  # noqa: PTH100
    path = ":".join(dict.fromkeys([*filter(None, here), *_CRON_PATH.split(":")]))
    sandbox = "IS_SANDBOX=1 " if os.environ.get("IS_SANDBOX") == "1" and not os.geteuid() else ""
    line = f"cd {shlex.quote(str(Path.cwd()))} && {sandbox}PATH={shlex.quote(path)} {shlex.join(words)}"
    return line.replace("%", r"\%")


def _interpreter(program: Path) -> list[str]:
    """The program that `#!/usr/bin/env NAME` asks for."""
    try:
        with program.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return []
    found = re.match(rb"#!\s*/usr/bin/env\s+(?:-S\s+)?([\w.+-]+)", first)
    return [found[1].decode()] if found else []
