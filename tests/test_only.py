"""Which files `--only` covers."""

import pytest

from ralph.strict.only import allowed

COVERED = [
    ("tests/**", "tests/a.py"),
    ("tests/**", "tests/deep/er/.hidden"),
    ("**/*.test.*", "app.test.ts"),
    ("**/*.test.*", "src/deep/app.test.ts"),
    ("**/*.spec.*", "src/app.spec.js"),
    ("**/__tests__/**", "src/__tests__/a.js"),
    ("**/__tests__/**", "__tests__/deep/a.js"),
    ("docs", "docs/a.md"),
    ("docs/", "docs/deep/a.md"),
    ("./docs", "docs/a.md"),
    ("/docs", "docs/a.md"),
    ("docs", "docs"),
    ("README.md", "README.md"),
    ("packages/*/tests", "packages/one/tests/deep/a.js"),
    ("packages/*/", "packages/one/a.js"),
    ("*.md", "a b\n.md"),
    ("src/**/tests/*.py", "src/tests/a.py"),
    ("src/**/tests/*.py", "src/x/y/tests/a.py"),
    ("a?c", "abc"),
    ("[ab].py", "a.py"),
    ("[!ab].py", "c.py"),
    ("[]].py", "].py"),
    ("[a-c]1", "b1"),
    ("*.{test,spec}.ts", "app.spec.ts"),
    ("a.b", "a.b"),
    ("[*].py", "*.py"),
    ("a(1)+.py", "a(1)+.py"),
    ("**", "any/thing"),
    (".", "any/thing"),
    ("caf\udce9/**", "caf\udce9/a"),
]
NOT_COVERED = [
    ("tests/**", "tests"),
    ("tests/**", "src/tests/a.py"),
    ("tests/**", "tests2/a.py"),
    ("tests/*", "tests/deep/a.py"),
    ("*.md", "docs/a.md"),
    ("**/*.test.*", "src/test.ts"),
    ("**/__tests__/**", "src/__tests__"),
    ("docs", "docs2/a.md"),
    ("docs", "src/docs/a.md"),
    ("a?c", "a/c"),
    ("[!a]", "/"),
    ("a[!x]b", "a/b"),
    ("[z-a]", "z"),
    ("a.b", "axb"),
    ("*.{test,spec}.ts", "app.ts"),
    ("[*].py", "a.py"),
    ("README.md", "README.md2"),
    ("a", "a\n"),
    ("", "a"),
]


@pytest.mark.parametrize(("pattern", "name"), COVERED)
def test_a_pattern_covers(pattern: str, name: str) -> None:
    assert allowed(name, [pattern])


@pytest.mark.parametrize(("pattern", "name"), NOT_COVERED)
def test_a_pattern_does_not_cover(pattern: str, name: str) -> None:
    assert not allowed(name, [pattern])


def test_one_of_several_patterns_is_enough() -> None:
    assert allowed("docs/a.md", ["tests/**", "docs"])


def test_without_a_pattern_nothing_is_covered() -> None:
    assert not allowed("a.py", [])
