"""Reading back what ralph notes for the case that it dies: from a folder in which an agent may write."""

import io
import pickle
from typing import Any

UNREADABLE = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, LookupError, TypeError, ValueError)
"""What a file that was cut short, is another version's, or somebody else's may cause."""
_TYPES = {
    *(("pathlib", name) for name in ("Path", "PosixPath")),
    *(("pathlib._local", name) for name in ("Path", "PosixPath")),  # Python 3.13
    ("builtins", "frozenset"),
    ("ralph.worktree.configured", "Configured"),
    ("ralph.worktree.disk", "Seen"),
    ("ralph.worktree.head", "Head"),
    ("ralph.worktree.ignoring", "Ignoring"),
    ("ralph.worktree.index", "Entry"),
    ("ralph.worktree.jj", "Operation"),
    ("ralph.worktree.own", "Own"),
    ("ralph.worktree.repository", "Repository"),
    ("ralph.worktree.snapshot", "Snapshot"),
}


class _OfThese(pickle.Unpickler):
    """Anything else that a pickle names would be run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _TYPES:
            raise pickle.UnpicklingError(f"{module}.{name} is nothing that ralph notes")
        return super().find_class(module, name)


def loads(data: bytes) -> Any:
    """What was noted. Raises one of UNREADABLE where that cannot be told, and runs nothing that it names."""
    return _OfThese(io.BytesIO(data)).load()
