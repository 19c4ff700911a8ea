"""Which files `--only` covers."""

import pytest

from ralph.strict.guard import matches_every_group

COVERS: dict[str, tuple[list[str], list[str]]] = {
    "tests/**": (["tests/deep/er/.hidden"], ["tests", "src/tests/a.py"]),
    "tests/*": (["tests/a.py"], ["tests/deep/a.py"]),
    "**/*.test.*": (["app.test.ts", "src/deep/app.test.js"], ["src/test.ts"]),
    "docs": (["docs", "docs/a.md"], ["docs2/a.md", "src/docs/a.md"]),
    "docs/": (["docs/deep/a.md"], ["docs"]),
    "{src/,lib/}*.py": (["src/a.py", "lib/b.py"], ["src/deep/a.py"]),
    "packages/*/tests": (["packages/one/tests/deep/a.js"], ["packages/one/two/tests/a.js"]),
    "*.md": (["a b\n.md"], ["docs/a.md"]),
    "a?c": (["abc"], ["a/c"]),
    "[!ab].py": (["c.py"], ["a.py"]),
    "[]].py": (["].py"], ["a.py"]),
    "[*].py": (["*.py"], ["a.py"]),
    "a(1)+.py": (["a(1)+.py"], ["a11.py", "a(1)+xpy", "a(1)+.py\n"]),
    "caf\udce9/**": (["caf\udce9/a"], ["café/a"]),
}


@pytest.mark.parametrize(("pattern", "names"), COVERS.items(), ids=COVERS)
def test_a_pattern_covers_these_and_not_those(pattern: str, names: tuple[list[str], list[str]]) -> None:
    for name in names[0]:
        assert matches_every_group(name, [["no", pattern], ["**"]]), name
        assert not matches_every_group(name, [[pattern], ["no"]]), "each group has to cover it"
    for name in names[1]:
        assert not matches_every_group(name, [[pattern]]), name
