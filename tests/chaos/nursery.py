"""Starts ralph again and again: imports once and then forks, so that a start costs 20 ms and not 140.

`python nursery.py ENDS` reads requests from standard input, one line of JSON each: {"argv": [...], "outputs": [...]}.
It starts a ralph for each output, all in the same moment, and answers with a line of their pids. Whenever one of them
has ended, it adds a line "pid code" to the file ENDS. It is their parent, as a shell would be.
"""

import json
import os
import sys
from pathlib import Path

import jinja2.sandbox  # noqa: F401 - a run loads it late

from ralph import cli, night  # noqa: F401 - same


def main() -> None:
    ends = Path(sys.argv[1])
    while request := sys.stdin.readline():
        asked = json.loads(request)
        gate = os.pipe()
        born = [start(asked["argv"], output, gate) for output in asked["outputs"]]
        os.close(gate[0])
        os.close(gate[1])
        print(json.dumps(born), flush=True)
        for _ in born:
            pid, status = os.wait()
            with ends.open("a") as file:
                file.write(f"{pid} {os.waitstatus_to_exitcode(status)}\n")


def start(argv: list[str], output: str, gate: tuple[int, int]) -> int:
    """The pid of a new ralph, which begins once nobody holds the far end of the gate."""
    if pid := os.fork():
        return pid
    os.setsid()
    os.close(gate[1])
    os.read(gate[0], 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor, number in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, number)
    os.closerange(3, 64)
    sys.argv = ["ralph", *argv]
    cli.main()
    raise AssertionError("cli.main leaves by sys.exit")


if __name__ == "__main__":
    main()
