"""The agent of a check on top of others: it applies a commit. `python -m ralph.parallel.cherry_pick COMMIT`.

Its result passes the same gates as any work, and the project's hooks run at the commit.
"""

import os
import re
import sys
from pathlib import Path

from ralph.git import changes


def run_cherry_pick_agent(commit: str) -> int:
    """Reads a prompt, applies the commit to the working tree, and prints its message and the signal."""
    prompt, here = sys.stdin.read(), Path.cwd()
    signal = re.findall(r"<task-done [^<>]*>[^<>]*</task-done>", prompt)[-1]
    done = changes.run_git("cherry-pick", "--no-commit", commit, cwd=here)
    if done.code:
        names = changes.names_in(changes.run_git("diff", "--name-only", "-z", "--diff-filter=U", cwd=here).stdout)
        changes.run_git("reset", "--hard", "--quiet", cwd=here)
        print(f"conflicts in {', '.join(names)}" if names else changes.error_text(done), file=sys.stderr)
        return 1
    message = os.fsdecode(changes.run_git("show", "-s", "--format=%B", commit, cwd=here).stdout)
    task = re.escape("".join(re.findall(r"(?m)^Ralph-Task: (.+)", message)[-1:]))
    words = re.sub(rf"(?m)^Ralph-(?:Task|Role): .*\n?|\A.*?\b{task}: ", "", message).strip()  # hooks prefix it
    print(f"{words}\n\n{signal}")
    return 0


if __name__ == "__main__":
    sys.exit(run_cherry_pick_agent(sys.argv[1]))
