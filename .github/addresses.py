"""addresses.py PROJECT REF [FOLDER]: makes the links that a package index shows lead back to the project.

The README's pictures and links are relative, so that they work in any clone or fork. On a package index they would be
broken: there they need the project's address, such as https://github.com/you/ralph, and the tag.
"""

import re
import sys
from pathlib import Path

_TARGET = re.compile(r'((?:src|srcset)="|\]\()(?![a-z]+:|#)([^")]+)')
_PICTURES = (".svg", ".png")


def absolute(text: str, project: str, ref: str) -> str:
    """Returns the text of a page at the top of the project, with full addresses in place of relative ones."""

    def full(found: re.Match[str]) -> str:
        path = found[2].partition("#")[0]
        return f"{found[1]}{project}/{'raw' if path.endswith(_PICTURES) else 'blob'}/{ref}/{found[2]}"

    return _TARGET.sub(full, text)


def urls(project: str, ref: str) -> str:
    """Returns the table of the project's pages for pyproject.toml."""
    pages = {"": "Homepage", "/issues": "Issues", f"/blob/{ref}/CHANGELOG.md": "Changelog"}
    lines = [f'{name} = "{project}{path}"' for path, name in pages.items()]
    return "\n".join(["", "[project.urls]", *lines, f'Documentation = "{project}/blob/{ref}/docs/README.md"', ""])


if __name__ == "__main__":
    to, tag, folder = sys.argv[1], sys.argv[2], Path(*sys.argv[3:])
    readme, build = folder / "README.md", folder / "pyproject.toml"
    readme.write_text(absolute(readme.read_text("utf-8"), to, tag), "utf-8")
    build.write_text(build.read_text("utf-8") + urls(to, tag), "utf-8")
