"""The keeper of a run: ralph's child that is a session of its own and no other program."""

from pathlib import Path

from ralph_driver import eventually


def parent(pid: int) -> int:
    """The pid of whoever is the parent of this one."""
    return int(_row(pid)[1])


def keeper_of(ralph: int) -> int:
    """The pid of this ralph's keeper, once it is there."""
    return eventually(lambda: next(iter(sorted(filter(lambda pid: _keeps(pid, ralph), _pids()), key=_born)), 0))


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _keeps(pid: int, ralph: int) -> bool:
    """A program of ralph's own looks the same for the moment before it is one, but is younger."""
    try:
        _, up, _, session, *_ = _row(pid)
        lines = [Path(f"/proc/{one}/cmdline").read_bytes() for one in (pid, ralph)]
    except OSError:
        return False
    return (int(up), int(session)) == (ralph, pid) and lines[0] == lines[1]


def _born(pid: int) -> int:
    return int(_row(pid)[19])


def _row(pid: int) -> list[bytes]:
    """What proc(5) says of it from its state on."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
