"""Tab, in real shells, set up by the very lines that docs/seeing.md gives."""

import re
import shlex
import shutil
import subprocess

import pytest
from ralph_driver import CHECKOUT, COMMAND, Project, eventually, everything_in, executable

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
    executable(project.root.parent / "bin" / "ralph", f'exec {shlex.join(COMMAND)} "$@"')
    for file in (".ralph/PROMPT_review.md", "sub/deep.md"):
        (project.root / file).parent.mkdir()
        (project.root / file).write_text("Look at it.\n")
    project.has_tasks("one")
    return project


OFFERED = {
    "bash --norc": {
        "ralph ": "config doctor export init log mcp notify rehearse report status",
        "ralph feature.md p": "plan",
        "ralph feature.md --strict rev": "review",
        "ralph feature.md build ": "",
        "ralph feature.md build --max-i": "--max-iteration-cost --max-iterations",
        "ralph feature.md build --on-failure ": "keep restore",
        "ralph export feature.md --format p": "plan prd",
        "ralph nothing-like-this": "",
    },
    "fish --no-config": {
        "ralph su": "sub/",
        "ralph sub/": "sub/deep.md",
        "ralph log feature.": "feature.md",
        "ralph doctor feature.": "feature.md",
        "ralph re": "rehearse report",
        "ralph config commit o": "off on",
        "ralph log feature.md --ra": "--raw",
    },
}


def tab(shell: str, line: str) -> str:
    """What shows in this shell what Tab offers behind the line."""
    if shell == "fish":
        return f"complete -C {shlex.quote(line)}"
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    typed = f"COMPREPLY=(); COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
    return typed + '; _ralph_completion ralph; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.mark.parametrize("shell", OFFERED)
def test_tab_offers_verbs_plans_modes_and_options_and_changes_nothing(there: Project, shell: str) -> None:
    before, (name, option), told = everything_in(there.root), shell.split(), OFFERED[shell]
    code = "\n".join([setup_of(name), *(f"{tab(name, line)}\necho =" for line in told)])
    argv = [name, option, "-c", code]
    done = subprocess.run(argv, cwd=there.root, env=there.env, capture_output=True, text=True, check=True)
    offered = [[word.split("\t")[0] for word in part.splitlines()] for part in done.stdout.split("=\n")]
    assert {line: " ".join(sorted(words)) for line, words in zip(told, offered, strict=False)} == told
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
