"""Which files `--only` covers."""

import pytest

from ralph.strict.guard import allowed

COVERED = [
    ("tests/**", "tests/deep/er/.hidden"),
    ("**/*.test.*", "app.test.ts"),
    ("**/*.spec.*", "src/deep/app.spec.js"),
    ("**/__tests__/**", "src/__tests__/a.js"),
    ("**/__tests__/**", "__tests__/deep/a.js"),
    ("docs", "docs/a.md"),
    ("docs/", "docs/deep/a.md"),
    ("./docs", "docs/a.md"),
    ("/docs", "docs"),
    ("packages/*/tests", "packages/one/tests/deep/a.js"),
    ("packages/*/", "packages/one/a.js"),
    ("*.md", "a b\n.md"),
    ("src/**/tests/*.py", "src/tests/a.py"),
    ("src/**/tests/*.py", "src/x/y/tests/a.py"),
    ("a?c", "abc"),
    ("[!ab].py", "c.py"),
    ("[]].py", "].py"),
    ("*.{test,spec}.ts", "app.spec.ts"),
    ("[*].py", "*.py"),
    ("a(1)+.py", "a(1)+.py"),
    ("**", "any/thing"),
    ("caf\udce9/**", "caf\udce9/a"),
]
NOT_COVERED = [
    ("tests/**", "tests"),
    ("tests/**", "src/tests/a.py"),
    ("tests/*", "tests/deep/a.py"),
    ("*.md", "docs/a.md"),
    ("**/*.test.*", "src/test.ts"),
    ("docs", "docs2/a.md"),
    ("docs", "src/docs/a.md"),
    ("a?c", "a/c"),
    ("[z-a]", "z"),
    ("a.b", "axb"),
    ("*.{test,spec}.ts", "app.ts"),
    ("a", "a\n"),
    ("", "a"),
]


@pytest.mark.parametrize(("pattern", "name"), COVERED)
def test_a_pattern_covers(pattern: str, name: str) -> None:
    assert allowed(name, [["no", pattern]])


@pytest.mark.parametrize(("pattern", "name"), NOT_COVERED)
def test_a_pattern_does_not_cover(pattern: str, name: str) -> None:
    assert not allowed(name, [[pattern]])


def test_each_group_has_to_cover_it() -> None:
    tests, python = ["tests/**", "docs/**"], ["**/*.py"]
    assert allowed("tests/a.py", [tests, python])
    assert not allowed("tests/a.txt", [tests, python])
    assert not allowed("app.py", [tests, python])
    assert not allowed("tests/a.py", [tests, []])
