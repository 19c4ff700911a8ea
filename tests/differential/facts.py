"""What a person sees after a start of ralph, as texts that two starts of the same story have in common.

Times, durations, hashes, pids and places are no facts; each has a word that stands for all of its kind.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Facts = dict[str, str]
"""By what they are: exit code, closing, stderr, agent, notices, journal, files, git, kept, left running."""

_STANDS_FOR = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "<run>"),
        (r"\b\d{8}-\d{6}\b", "<stamp>"),
        (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"\b[0-2]\d:[0-5]\d\b", "<time>"),
        (r"\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b|\b\d+h\d\dm\b", "<duration>"),
        (r"\bpid \d+", "pid <pid>"),
        (r"\b127\.0\.0\.1:\d{2,}", "<server>"),
        (r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}\b", "<hash>"),
        (r"ralph-<stamp>-<hash>|ralph-<run>[0-9a-f]*", "<session>"),
    )
)
_SUMS = re.compile(
    r"(?m)^(?:(?:Tasks|Iterations|Commits|Time|Waited|Cost|Task list created in|Task list): .*|\S+ tasks · .*)\n?"
    r"| · done refused$"
)
"""What a run came to: a line for each sum once, one line for all of them now."""
_JOURNAL = frozenset(
    {"event", "mode", "iteration", "success", "ended", "counted", "refused", "message", "summary", "requirement_id"}
    | {"cost_usd", "cost_at_least", "done", "total", "ticked", "new", "commits", "added", "removed", "changed"}
    | {"why", "command", "iterations", "waits", "agent", "model", "pays"}
)
"""What of a line of the journal is compared."""


def plain(text: str | bytes, here: Path) -> str:
    """The text with what differs from run to run replaced."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    text = text.replace(str(here), "<here>")
    for pattern, word in _STANDS_FOR:
        text = pattern.sub(word, text)
    return text


def closing(stdout: str, code: int) -> str:
    """The first words of the last line, in which a run says why it ended; nothing of one that was killed."""
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", stdout).strip().splitlines() if code >= 0 else []
    return re.split(r" · |: ", lines[-1].removeprefix("ralph: "))[0] if lines else ""


def of_complaints(stderr: str, code: int | None) -> str:
    """Whether there is anything; where a start was refused, how many lines, since all problems are told at once."""
    if code == 2:
        return f"{len(stderr.splitlines())} lines"
    return "something" if stderr.strip() else "nothing"


def of_agent(calls: Sequence[Any], own: str, here: Path) -> str:
    """How the agent was called, a line each; with the whole prompt where the template is the story's `own`."""
    lines = []
    for call in calls:
        lines.append(plain(" ".join(["agent", *call.argv]), here))
        known = {name: text for name, text in call.env.items() if name.startswith(("MAX_", "CLAUDE"))}
        lines += [f"  {name}={text}" for name, text in sorted(known.items())]
        if own and own in call.prompt:
            lines += [f"  | {line}" for line in plain(call.prompt, here).splitlines()]
    return "\n".join(lines)


def of_notices(received: Sequence[Mapping[str, Any]], here: Path) -> str:
    """Each notice as it came, the first first."""
    return "\n".join(plain("\n  ".join(str(one).splitlines()), here) for one in map(_notice, received))


def _notice(body: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {_SUMS.sub('', str(text))}" for name, text in body.items())


def of_journal(lines: Sequence[Mapping[str, Any]], here: Path) -> str:
    """The facts of each line."""
    return "\n".join(json.dumps(_plain(_fact(line), here), ensure_ascii=False) for line in lines)


def _plain(value: Any, here: Path) -> Any:
    """The same with its texts made plain, and its sums as people read them."""
    if isinstance(value, dict):
        return {name: _plain(one, here) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, here) for one in value]
    return plain(value, here) if isinstance(value, str) else round(value, 6) if isinstance(value, float) else value


def _fact(line: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared; an older ralph had tasks and commits in objects of their own."""
    flat = dict(line)
    for name in ("tasks", "commits"):
        if isinstance(inner := line.get(name), dict):
            flat |= {key: value for key, value in inner.items() if key != "count"}
            flat["commits"] = inner.get("count", flat.get("commits"))
    names = _JOURNAL - ({"summary", "cost_at_least"} if line.get("ended") == "died" else set())
    return {name: flat[name] for name in sorted(names & flat.keys())}


def of_files(folder: Path, here: Path, *, without: Sequence[str] = (".git",)) -> str:
    """Every file below: its name, what it is and what it holds."""
    blocks = []
    for path in sorted(_below(folder, without)):
        if str(path.relative_to(folder)) in without:
            continue
        about = plain(str(path.relative_to(folder)), here)
        if path.is_symlink():
            blocks.append(f"== {about} -> {plain(str(path.readlink()), here)}")
        elif path.is_dir():
            blocks.append(f"== {about}/")
        elif path.is_file():
            mode = " executable" if os.access(path, os.X_OK) and path.stat().st_mode & 0o111 else ""
            blocks.append(f"== {about}{mode}\n{plain(path.read_bytes(), here)}")
        else:
            blocks.append(f"== {about} is no file")
    return "\n".join(blocks)


def _below(folder: Path, without: Sequence[str]) -> list[Path]:
    found = []
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        links = [name for name in folders if Path(top, name).is_symlink()]
        empty = [name for name in folders if name not in links and not os.listdir(Path(top, name))]  # noqa: PTH208
        found += [Path(top, name) for name in (*files, *links, *empty)]
    return found


def of_git(root: Path, env: Mapping[str, str], here: Path) -> str:
    """All commits with what they changed, what is not committed, and every ref."""
    if not (root / ".git").exists():
        return "no repository"

    def raw(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, env=env, check=False, capture_output=True)
        said = done.stdout.decode("utf-8", "surrogateescape")
        return said + ("" if done.returncode == 0 else f"exit code {done.returncode}\n")

    def git(*words: str) -> str:
        return plain(raw(*words), here)

    branch = git("symbolic-ref", "-q", "HEAD")
    text = branch + git("status", "--porcelain") + git("log", "-p", "--format=commit %an%n%B", "HEAD")
    refs = {*raw("for-each-ref", "--format=%(refname)").splitlines()} - {branch.strip()}
    kept = [(plain(ref, here), git("log", "-p", "-1", "--format=commit %B", ref)) for ref in refs]
    # those of an iteration have its number, which is now that of the plan
    text += "".join(sorted(re.sub(r"(?<=<run>-)\d+\b", "<n>", f"{name}\n{log}") for name, log in kept))
    locks = sorted(path.name for path in (root / ".git").rglob("*.lock"))
    return text + "".join(f"lock {name}\n" for name in locks)
