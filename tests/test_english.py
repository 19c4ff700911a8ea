"""The words that ralph says and is written in: idiomatic English, one word for each thing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".env.example"]
FOLDERS = ["docs", "prompts", "notify", ".github", "ralph"]
SUFFIXES = {".md", ".txt", ".yml", ".toml", ".html"}

AVOIDED = {
    r"(?:an?|the|each|every|one|no|th[ai][ts]|th[eo]se|failed|earlier|next|first|last|another|more|two|three|per|of) "
    r"(?:try|tries)(?! (?:to|again|the|it|its|out))": "attempt (`try` is a verb)",
    r"try \d|tries of|trials?": "attempt",
    r"(?:is|are|was|were|be|been|being) (?:(?:then|also|only|not|never) )?(?:said|told)": "ralph prints, reports",
    r"(?:stands?|stood) (?:in|under|there|below|for)": "is in, is under",
    r"(?:this|each|every|next|first|last|newest|later|earlier|other|two|many|of a|per) starts?": "run (as a noun)",
    r"what (?:it|they|this) (?:came|comes) to|comes? of (?:it|them)|came of": "result, outcome",
    r"(?:go|goes|went|going|gone) on": "continue",
    r"(?<!there )(?<!why )(?:is|are|was|were) no (?!longer|more|such|other|less|fewer|later)\w+": "is not a",
    r"shall": "should, will, must",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:take|takes|took|taken|taking) (?:(?:it|them|that|the|a|line|RALPH_\w+) ){0,2}out(?! of)": "delete, remove",
    r"also (?:where|when)": "even if",
    r"anew": "again",
    r"how-manieth|kin|sister systems?|to be had": "the plain word",
    r"but for": "except",
    r"keepers?": "supervisor",
    r"breaker (?:is open|opens?|opened)": "the circuit breaker tripped",
    r"silence watchdog": "idle timeout",
    r"(?:a|no|the|needs no) wrap|(?:not|is|was) wrapped": "sandbox",
    r"rights": "permissions",
    r"stand-ins?": "fake agent",
    r"(?:a|the|while it|each) landing|landed|(?:commit|task|work)s? lands?": "merge, the merge queue",
    r"crews?": "parallel workers",
    r"what passes": "retry with backoff",
    r"(?<!--)(?<!success )criteri(?:on|a)": "check",
    r"phases?": "mode",
    r"(?:a|the|every|another) person|persons": "you (in documents), the user (in code)",
    r"\w*(?:colour|behaviour|favour|neighbour)\w*|cancell(?:ed|ing)|grey|whilst|licence": "the American spelling",
}
PATTERNS = {
    re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s"), re.IGNORECASE): better for pattern, better in AVOIDED.items()
}
CODE = re.compile(r'```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}|"[^"\n]{0,200}"', re.DOTALL)


def _in_python(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of docstrings, messages and comments: strings of one word are names, not text."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _to_avoid(text: str, first_line: int = 1) -> list[str]:
    """`LINE: word (write: ...)` for each that people do not say so, outside of code and quotations."""
    prose = CODE.sub(lambda code: "`" + "\n" * code[0].count("\n") + "`", text)
    prose = re.sub(r"[ \t]*\n[ \t#>]*", "\n", prose)  # a phrase may go on behind the end of a line
    return [
        f"{first_line + prose.count(chr(10), 0, found.start())}: {found[0]!r} (write: {better})"
        for pattern, better in PATTERNS.items()
        for found in pattern.finditer(prose)
    ]


def _pages() -> list[Path]:
    below = (path for folder in FOLDERS for path in (PROJECT / folder).rglob("*") if path.suffix in SUFFIXES)
    return [PROJECT / page for page in PAGES] + sorted(below)


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_pages_and_prompts_use_plain_words(page: Path) -> None:
    assert not _to_avoid(page.read_text())


def test_messages_docstrings_and_comments_use_plain_words() -> None:
    found = {
        f"{path.relative_to(PROJECT)}:{each}"
        for path in (*(PROJECT / "ralph").rglob("*.py"), *(PROJECT / "notify").rglob("*.py"))
        for line, text in _in_python(path)
        for each in _to_avoid(text, line)
    }
    assert not found, "\n".join(sorted(found))


def test_the_check_finds_what_it_looks_for_and_nothing_in_code_or_quotations() -> None:
    assert _to_avoid("A person shall\nmend each try.") != []
    assert [line.split(":")[0] for line in _to_avoid("good\n\nwent on anew")] == ["3", "3"]
    assert (
        _to_avoid('`shall` and "anew"\n```\nmend\n```\n{{ CRITERIA }} retries, tries to start, there is no limit') == []
    )
