"""The agent of an integration: applies a commit that an attempt made elsewhere, and says that its task is done.

So its result passes the same gates as any work, and the project's hooks run at the commit.
"""

import os
import re
import sys
from pathlib import Path

from ralph import changes


def apply(commit: str) -> int:
    """Reads a prompt, applies the commit to the working tree, and prints its message and the signal."""
    prompt, here = sys.stdin.read(), Path.cwd()
    signal = re.findall(r"<task-done [^<>]*>[^<>]*</task-done>", prompt)[-1]
    done = changes.git("cherry-pick", "--no-commit", commit, cwd=here)
    if done.code:
        names = changes.names_in(changes.git("diff", "--name-only", "-z", "--diff-filter=U", cwd=here).stdout)
        changes.git("reset", "--hard", "--quiet", cwd=here)
        print(f"conflicts in {', '.join(names)}" if names else changes.complaint(done), file=sys.stderr)
        return 1
    said = os.fsdecode(changes.git("show", "-s", "--format=%B", commit, cwd=here).stdout)
    words = re.sub(r"(?m)^Ralph-(?:Task|Role): .*\n?|\A[\w.-]+: ", "", said).strip()
    print(f"{words}\n\n{signal}")
    return 0


if __name__ == "__main__":
    sys.exit(apply(sys.argv[1]))
