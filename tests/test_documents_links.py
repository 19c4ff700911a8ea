"""Every page leads somewhere: links, anchors, commands and names of files are there."""

import re
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT

from ralph import cli, files

TOP_LEVEL = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PAGES = [*(CHECKOUT / name for name in TOP_LEVEL), *sorted((CHECKOUT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(CHECKOUT)) for page in PAGES]
MODES = {page.stem.removeprefix("PROMPT_") for page in files.builtin_folder("prompts").glob("PROMPT_*.md")}
WORDS = {"all", "MODE", "PLAN", "[MODE]", "VERB", "settings", "setup", "test", "commit", "fix"}
"""What stands behind a plan or a verb and is not a mode of ralph's own."""


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Those that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)\s]+)\)", without_code(page.read_text("utf-8")))
    wrong = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_of_the_project_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"`((?:ralph|tests|docs|prompts|notify)/[\w./-]*\w)`", text)
    assert [name for name in named if name != "tests/test_auth.py" and not (CHECKOUT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_that_a_page_gives_are_verbs_or_a_plan_with_a_mode(page: Path) -> None:
    text = page.read_text("utf-8")
    if page.name == "coming-from.md":  # the left column of its tables is about others
        text = "\n".join(re.findall(r"^\|.*\|(.*)\|$", text, re.MULTILINE))
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    given = [
        *re.findall(r"`ralph ([^`]+)`", text),
        *re.findall(r"^(?:\$ )?ralph +([^#\n]+)", blocks, re.MULTILINE),
    ]
    wrong = []
    for command in given:
        first, *rest = [word for word in command.split() if not word.startswith("-")] or ["PLAN"]
        is_plan, quoted = "." in first or first.isupper(), ("'", '"')
        known = MODES | WORDS | {"build"} if is_plan else {*cli.ralph.commands, "help"}
        word = (rest[0].rstrip(":") if rest else "build") if is_plan else first
        if word not in known and not word.startswith(quoted):
            wrong.append(command)
    assert wrong == []


def test_the_index_leads_to_every_page_and_the_readme_to_the_index() -> None:
    index = (CHECKOUT / "docs" / "README.md").read_text("utf-8")
    pages = [page.relative_to(CHECKOUT / "docs") for page in PAGES if page.is_relative_to(CHECKOUT / "docs")]
    assert [str(page) for page in pages if page.name != "README.md" and f"({page})" not in index] == []
    assert "(docs/README.md)" in (CHECKOUT / "README.md").read_text("utf-8")


def test_each_page_says_first_what_its_reader_will_be_able_to_do() -> None:
    wrong = []
    for page in PAGES:
        if page.is_relative_to(CHECKOUT / "docs"):
            first = page.read_text("utf-8").split("\n\n", 2)[1]
            if not re.match("Here you |In ten minutes you |This page ", first):
                wrong.append(page.name)
    assert wrong == []
