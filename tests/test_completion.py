"""Tab, in real shells, set up by the very lines that docs/seeing.md gives."""

import re
import shlex
import shutil
import subprocess

import pytest
from ralph_driver import CHECKOUT, COMMAND, Project, everything_in, executable

OFFERED = {
    "bash --norc": {
        "ralph ": "config doctor export init log mcp notify rehearse report status",
        "ralph feature.md p": "plan",
        "ralph feature.md --strict rev": "review",
        "ralph feature.md build ": "",
        "ralph feature.md build --max-i": "--max-iteration-cost --max-iterations",
        "ralph export feature.md --format p": "plan prd",
    },
    "fish --no-config": {
        "ralph sub/": "sub/deep.md",
        "ralph log feature.": "feature.md",
        "ralph doctor feature.": "feature.md",
        "ralph config commit o": "off on",
    },
    "zsh -f": {"ralph": "_ralph_completion"},
}
"""What is offered at the end of each line; zsh, which asks at a keyboard alone, tells whom it would ask."""


def tab(shell: str, line: str) -> str:
    """What shows in this shell what Tab offers behind the line."""
    if shell == "fish":
        return f"complete -C {shlex.quote(line)}"
    if shell == "zsh":
        return "whence _ralph_completion"
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    typed = f"COMPREPLY=(); COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
    return typed + '; _ralph_completion ralph; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.mark.parametrize("start", OFFERED)
def test_tab_offers_verbs_plans_modes_and_options_and_changes_nothing(project: Project, start: str) -> None:
    (shell, option), told = start.split(), OFFERED[start]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    executable(project.root.parent / "bin" / "ralph", f'exec {shlex.join(COMMAND)} "$@"')
    for file in (".ralph/PROMPT_review.md", "sub/deep.md"):
        (project.root / file).parent.mkdir()
        (project.root / file).write_text("Look at it.\n")
    before = everything_in(project.root)
    page = (CHECKOUT / "docs" / "seeing.md").read_text("utf-8")
    (setup,) = re.findall(rf"^(.*_RALPH_COMPLETE={shell}_source ralph.*?)(?:  +#.*)?$", page, re.MULTILINE)
    asked = "".join(f"{tab(shell, line)}\necho =\n" for line in told)
    argv = [shell, option, "-c", f"{setup}\n{asked}"]
    done = subprocess.run(argv, cwd=project.root, env=project.env, capture_output=True, text=True, check=False)
    offered = [[word.split("\t")[0] for word in part.splitlines()] for part in done.stdout.split("=\n")]
    assert {line: " ".join(sorted(words)) for line, words in zip(told, offered, strict=False)} == told, done.stderr
    assert (everything_in(project.root), project.state_folders) == (before, [])
