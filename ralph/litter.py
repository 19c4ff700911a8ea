"""What a ralph that was killed had half written beside the progress file."""

import contextlib
import re
from collections.abc import Callable, Collection
from pathlib import Path


def sweep(path: Path, known: Collection[bytes], keep: Callable[[str, bytes], Path]) -> list[Path]:
    """Removes what lies beside `path` under the names of unfinished edits of it; where it was kept.

    Kept is what is none of the `known` texts: in the moment of an edit, what somebody has just saved has such a name.
    """
    target = Path(path.resolve())
    ours = re.compile(re.escape(f".{target.name[:80]}.") + r"[a-z0-9_]+\.ralph")
    kept = []
    with contextlib.suppress(OSError):
        for one in sorted(target.parent.iterdir()):
            if ours.fullmatch(one.name) and one.is_file() and not one.is_symlink():
                if (held := one.read_bytes()).strip(b"\0") and held not in known:
                    kept.append(keep(target.name, held))
                one.unlink()
    return kept
