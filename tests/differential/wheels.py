"""An installed ralph of any revision, or of the working tree: each a wheel in a virtual environment of its own."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

YESTERDAY = "e3f30597d718fc9e34dfe606872b6e7fd3f6478a"
"""The revision of this repository that all later ones are compared with."""
WORKING_TREE = "."

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / "build" / "differential"
"""Which git ignores."""
_PACKAGED = ("ralph", "prompts", "notify", "pyproject.toml", "README.md", "LICENSE")


def installed(what: str) -> Path:
    """The `ralph` command of a revision, of the working tree (`.`), or of a tree elsewhere (a path with a slash).

    Made once for each content, which takes some ten seconds and pip's usual index.
    """
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        _copy(what, tree)
        place = CACHE / _digest(tree)
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            _install(tree, place)
            (place / "whole").touch()
    return place / "bin" / "ralph"


def _copy(what: str, tree: Path) -> None:
    if what == WORKING_TREE or "/" in what:
        source = CHECKOUT if what == WORKING_TREE else Path(what)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in _PACKAGED:
            if (source / name).is_dir():
                shutil.copytree(source / name, tree / name, ignore=ignored)
            else:
                tree.mkdir(exist_ok=True)
                shutil.copy(source / name, tree / name)
        return
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", what, *_PACKAGED], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE
    ).stdout
    subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)


def _digest(tree: Path) -> str:
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    whole = hashlib.sha256(sys.version.encode())
    for path in files:
        whole.update(f"{path.relative_to(tree)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:12]


def _install(tree: Path, place: Path) -> None:
    def run(*words: str | Path) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    run(sys.executable, "-m", "venv", place)
    pip = (place / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-cache-dir")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", place / "wheel", tree)
    run(*pip, "install", *(place / "wheel").glob("*.whl"))
