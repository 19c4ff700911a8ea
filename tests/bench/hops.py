"""How far a plain iteration goes: its modules, functions and calls of ralph's, as `sys.setprofile` sees them.

`hops.py`, started with the interpreter that has ralph: three iterations of a null agent, of which the third is counted.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

AGENT = "#!/bin/sh\ncat > /dev/null\necho working\necho on >> made.txt\n"
ITERATION = 3
Function = tuple[str, str]
"""A module and a function of it."""


class Hops:
    """What is called during one iteration."""

    def __init__(self) -> None:
        self.calls = 0
        self.functions: set[Function] = set()
        self.across: Counter[tuple[str, str]] = Counter()
        self._number = 0

    def sees(self, frame: FrameType, event: str, _argument: Any) -> None:
        """A profiler of one thread."""
        name = str(frame.f_globals.get("__name__"))
        if event != "call" or name.partition(".")[0] != "ralph":
            return
        self._number += (name, frame.f_code.co_name) == ("ralph.loop", "reason_to_stop")
        if self._number != ITERATION:
            return
        self.calls += 1
        self.functions.add((name, frame.f_code.co_qualname))
        caller = str(frame.f_back.f_globals.get("__name__")) if frame.f_back else ""
        if caller != name and caller.partition(".")[0] == "ralph":
            self.across[caller, name] += 1


def main() -> None:
    """Prints the figures, and the modules with the calls that come into each from others."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {"HOME": folder, "XDG_STATE_HOME": f"{folder}/state"}
        Path("agent").write_text(AGENT)
        Path("agent").chmod(0o700)
        Path("plan.md").write_text("A plan.\n")
        sys.argv[1:] = ["plan.md", str(ITERATION), "--agent", f"{folder}/agent", "--delay", "0", "-q"]
        from ralph.cli import main as ralph  # noqa: PLC0415 - the environment comes first

        hops = Hops()
        sys.setprofile(hops.sees)
        try:
            ralph()
        except SystemExit:
            sys.setprofile(None)
    modules = {name for name, _ in hops.functions}
    print(f"{len(modules)} modules, {len(hops.functions)} functions, {hops.calls} calls,")
    print(f"{hops.across.total()} of them across {len(hops.across)} borders of modules")
    for name in sorted(modules):
        print(f"  {name}: {sum(count for (_, into), count in hops.across.items() if into == name)}")


if __name__ == "__main__":
    main()
