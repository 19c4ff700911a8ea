"""Tab, in real shells, set up by the very lines that docs/seeing.md gives."""

import re
import shlex
import shutil
import subprocess

import pytest
from ralph_driver import CHECKOUT, COMMAND, Project, eventually, everything_in

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


def offered(project: Project, argv: list[str], asks: dict[str, str]) -> dict[str, str]:
    """What this shell offers, set up by the page's line, when Tab is pressed behind each of these lines."""
    code = "\n".join([setup_of(argv[0]), *(f"{ask}\necho =" for ask in asks.values())])
    argv = [*argv, "-c", code]
    done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, text=True, check=True)
    found = [[word.split("\t")[0] for word in part.splitlines()] for part in done.stdout.split("=\n")]
    return {line: " ".join(sorted(words)) for line, words in zip(asks, found, strict=False)}


def test_tab_in_bash_offers_verbs_modes_and_options(there: Project) -> None:
    told = {
        "ralph ": "config doctor export init log mcp notify rehearse report status",
        "ralph feature.md p": "plan",
        "ralph feature.md --strict rev": "review",
        "ralph feature.md build --max-i": "--max-iteration-cost --max-iterations",
        "ralph feature.md build --on-failure ": "keep restore",
        "ralph export feature.md --format p": "plan prd",
        "ralph nothing-like-this": "",
    }
    asks = {}
    for line in told:
        words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
        typed = f"COMPREPLY=(); COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
        asks[line] = typed + '; _ralph_completion ralph; printf "%s\\n" "${COMPREPLY[@]}"'
    assert offered(there, ["bash", "--norc"], asks) == told


def test_tab_in_fish_offers_plans_as_well_and_changes_nothing(there: Project) -> None:
    before = everything_in(there.root)
    told = {
        "ralph su": "sub/",
        "ralph sub/": "sub/deep.md",
        "ralph log feature.": "feature.md",
        "ralph re": "rehearse report",
        "ralph config commit o": "off on",
        "ralph log feature.md --ra": "--raw",
    }
    asks = {line: f"complete -C {shlex.quote(line)}" for line in told}
    assert offered(there, ["fish", "--no-config"], asks) == told
    assert (everything_in(there.root), there.state_folders) == (before, [])


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
