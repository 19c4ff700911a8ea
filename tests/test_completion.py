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
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (line,) = re.findall(rf"^(.*_RALPH_COMPLETE={shell}_source ralph.*?)(?:  +#.*)?$", SEEING, re.MULTILINE)
    return str(line)


@pytest.fixture
def there(project: Project) -> Project:
    """A project with plans, a mode of its own, and `ralph` on the PATH."""
    ralph = project.root.parent / "bin" / "ralph"
    ralph.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    ralph.chmod(0o755)
    for file in (".ralph/PROMPT_review.md", "sub/deep.md"):
        (project.root / file).parent.mkdir()
        (project.root / file).write_text("Look at it.\n")
    project.has_tasks("one")
    return project


def offered(project: Project, argv: list[str], ask: str) -> str:
    """What this shell offers, set up by the page's line, when Tab is pressed behind these words."""
    argv = [*argv, "-c", f"{setup_of(argv[0])}\n{ask}"]
    done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, text=True, check=True)
    return " ".join(sorted(word.split("\t")[0] for word in done.stdout.splitlines()))


def test_tab_in_bash_offers_verbs_modes_and_options(there: Project) -> None:
    for line, found in {
        "ralph ": "config doctor export init log mcp notify rehearse report status",
        "ralph feature.md p": "plan",
        "ralph feature.md --strict rev": "review",
        "ralph feature.md build --max-i": "--max-iteration-cost --max-iterations",
        "ralph feature.md build --on-failure ": "keep restore",
        "ralph export feature.md --format p": "plan prd",
        "ralph nothing-like-this": "",
    }.items():
        words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
        ask = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _ralph_completion ralph\n"
        ask += '[ -z "$COMPREPLY" ] || printf "%s\\n" "${COMPREPLY[@]}"'
        assert offered(there, ["bash", "--norc"], ask) == found, line


def test_tab_in_fish_offers_plans_as_well_and_changes_nothing(there: Project) -> None:
    before = sorted(there.root.rglob("*"))
    for line, found in {
        "ralph su": "sub/",
        "ralph sub/": "sub/deep.md",
        "ralph log feature.": "feature.md",
        "ralph re": "rehearse report",
        "ralph config commit o": "off on",
        "ralph log feature.md --ra": "--raw",
    }.items():
        assert offered(there, ["fish", "--no-config"], f"complete -C {shlex.quote(line)}") == found, line
    assert (sorted(there.root.rglob("*")), there.state_folders) == (before, [])


def test_zsh_completes_at_the_keyboard(there: Project) -> None:
    line = setup_of("zsh")
    zsh = there.start_tty(command=("zsh", "-f", "-i"), env={"PS1": "$ "})
    zsh.type(f"autoload -Uz compinit && compinit -u\n{line}\necho re'ady'\n")
    eventually(lambda: "ready" in zsh.screen)
    zsh.type("ralph log feature.m\t")
    eventually(lambda: "feature.md" in zsh.screen)
    zsh.type("--ra\t")
    eventually(lambda: "--raw" in zsh.screen)
    zsh.type("\x15exit\n")
    assert zsh.wait().code == 0
