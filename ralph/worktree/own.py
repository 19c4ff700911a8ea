"""Which files of a working tree are ralph's own."""

import os
from collections.abc import Collection
from pathlib import Path


class Own:
    """Holds the names of ralph's files, and of all in its folders; by whatever way they are reached."""

    def __init__(self, root: Path, paths: Collection[Path]) -> None:
        real = os.path.realpath(root)
        ways = {(os.path.realpath(path), real) for path in paths} | {
            (str(path.absolute()), str(root)) for path in paths
        }
        self.names = frozenset(os.path.relpath(path, top) for path, top in ways)
        self._folders = tuple(f"{name}/" for name in self.names if not name.startswith(".."))

    def __contains__(self, name: str) -> bool:
        return name in self.names or name.startswith(self._folders)
