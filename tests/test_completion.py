"""Tab, in real shells, set up by the very lines that docs/seeing.md gives."""

import re
import shlex
import shutil
import subprocess

import pytest
from ralph_driver import CHECKOUT, COMMAND, Project, eventually

SEEING = (CHECKOUT / "docs" / "seeing.md").read_text("utf-8")


def setup_of(shell: str) -> str:
    """The line of the page that sets this shell up."""
    (line,) = re.findall(rf"^(.*_RALPH_COMPLETE={shell}_source ralph.*?)(?:  +#.*)?$", SEEING, re.MULTILINE)
    return str(line)


@pytest.fixture
def there(project: Project) -> Project:
    """A project with a plan, a mode of its own, and `ralph` on the PATH."""
    ralph = project.root.parent / "bin" / "ralph"
    ralph.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    ralph.chmod(0o755)
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_review.md").write_text("Look at it.\n")
    project.has_tasks("one")
    return project


def offered(project: Project, shell: str, line: str) -> list[str]:
    """What this shell offers, set up by the page's line, when Tab is pressed behind these words."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    ask = {
        "bash": f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _ralph_completion ralph\n"
        '[ -z "$COMPREPLY" ] || printf "%s\\n" "${COMPREPLY[@]}"',
        "fish": f"complete -C {shlex.quote(line)}",
    }
    flag = {"bash": "--norc", "fish": "--no-config"}[shell]
    argv = [shell, flag, "-c", f"{setup_of(shell)}\n{ask[shell]}"]
    done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, text=True, check=True)
    return sorted(word.split("\t")[0] for word in done.stdout.splitlines())


OFFERED = {
    "ralph ": "config doctor export init log mcp notify rehearse report status",
    "ralph re": "rehearse report",
    "ralph feature.md p": "plan",
    "ralph feature.md rev": "review",
    "ralph feature.md al": "all",
    "ralph feature.md build --max-i": "--max-iteration-cost --max-iterations",
    "ralph feature.md --strict bu": "build",
    "ralph feature.md build --on-failure ": "keep restore",
    "ralph log feature.md --ra": "--raw",
    "ralph export feature.md --format p": "plan prd",
    "ralph config commit o": "off on",
    "ralph nothing-like-this": "",
}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_tab_offers_verbs_plans_modes_and_options(there: Project, shell: str) -> None:
    lines = [*OFFERED][:: 1 if shell == "bash" else -3]  # the other shell asks ralph for the same
    assert {line: offered(there, shell, line) for line in lines} == {line: OFFERED[line].split() for line in lines}


def test_plans_are_found_by_the_shell_itself(there: Project) -> None:
    (there.root / "sub").mkdir()
    (there.root / "sub" / "deep.md").write_text("# Deep\n")
    before = sorted(there.root.rglob("*"))
    for line, found in {"ralph su": "sub/", "ralph sub/": "sub/deep.md", "ralph log feature.": "feature.md"}.items():
        assert offered(there, "fish", line) == [found], line
    assert (sorted(there.root.rglob("*")), there.state_folders) == (before, []), "Tab changes nothing"


def test_zsh_completes_at_the_keyboard(there: Project) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    zsh = there.start_tty(command=("zsh", "-f", "-i"), env={"PS1": "$ "})
    zsh.type(f"autoload -Uz compinit && compinit -u\n{setup_of('zsh')}\necho re'ady'\n")
    eventually(lambda: "ready" in zsh.screen)
    zsh.type("ralph log feature.m\t")
    eventually(lambda: "feature.md" in zsh.screen)
    zsh.type("--ra\t")
    eventually(lambda: "--raw" in zsh.screen)
    zsh.type("\x15exit\n")
    assert zsh.wait().code == 0
