"""The fake claude, with deeds that a drawn story may ask for whatever the progress file has become.

Run as fake_claude.py is: `python deeds.py FOLDER [the agent's arguments]`. Where what a deed needs is not there, it
does nothing, so that two ralphs that leave the same file see the same agent.
"""

# Started thousands of times: what os and open do, without the milliseconds of pathlib.
# ruff: noqa: PTH100, PTH103, PTH105, PTH107, PTH112, PTH113, PTH118, PTH120, PTH211
from __future__ import annotations

import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import fake_claude

TYPE_CHECKING = False  # the one of typing, without typing
if TYPE_CHECKING:
    from typing import Any

STATUS = re.compile(rb"^(IN_PROGRESS|RALPH_DONE|RALPH_STOP|RALPH_BLOCKED.*)\r?$", re.MULTILINE)
BOX = re.compile(rb"^[ \t]*[-*+] \[[ xX~!]\] .*(?:\r?\n|$)", re.MULTILINE)
OPEN = re.compile(rb"^[ \t]*[-*+] \[ \] .*(?:\r?\n|$)", re.MULTILINE)


def text_of(act: dict[str, Any]) -> bytes:
    try:
        return fake_claude.content(act["file"])
    except OSError:
        return b""


def save(act: dict[str, Any], text: bytes) -> None:
    """As an editor does; not where the file has become a folder."""
    if not os.path.isdir(act["file"]):
        fake_claude.write(act["file"] + ".tmp", text)
        os.replace(act["file"] + ".tmp", act["file"])


def marks_done(act: dict[str, Any]) -> None:
    """Ticks the first open task, or all."""
    text = text_of(act)
    if fake_claude.OPEN_TASK.search(text):
        save(act, fake_claude.OPEN_TASK.sub(rb"\1[x]", text, 1 if act["which"] == "first" else 0))


def unticks(act: dict[str, Any]) -> None:
    """Opens the first ticked task again."""
    save(act, re.sub(rb"^([ \t]*[-*+] )\[[xX]\]", rb"\1[ ]", text_of(act), count=1, flags=re.MULTILINE))


def declares(act: dict[str, Any]) -> None:
    """Writes a word of its own in the place of the status."""
    word, text = fake_claude.encoded(act["word"]), text_of(act)
    if STATUS.search(text):
        save(act, STATUS.sub(lambda _: word, text, 1))
    else:
        save(act, text + b"\n" + word + b"\n")


def lists(act: dict[str, Any]) -> None:
    """Adds a task behind the last one."""
    text, line = text_of(act), b"- [ ] " + fake_claude.encoded(act["task"]) + b"\n"
    ends = [match.end() for match in BOX.finditer(text)]
    at = ends[-1] if ends else len(text)
    save(act, text[:at] + (b"" if ends else b"\n## Task List\n\n") + line + text[at:])


def unlists(act: dict[str, Any]) -> None:
    """Takes the first open task out of the list."""
    save(act, OPEN.sub(b"", text_of(act), 1))


def adds(act: dict[str, Any]) -> None:
    """Appends a text to the progress file."""
    save(act, text_of(act) + fake_claude.encoded(act["text"]))


def turns_into(act: dict[str, Any]) -> None:
    """What a confused agent makes of the progress file."""
    file, how = act["file"], act["how"]
    if os.path.isfile(file) and how != "emptied in place":
        os.remove(file)
    if how == "a folder":
        os.makedirs(os.path.join(file, "inside"), exist_ok=True)
    elif how == "a link":
        os.symlink("feature.md", file)
    elif how == "garbage":
        fake_claude.write(file, b"\0\xff\xfe\n" * 20)
    elif how == "emptied in place" and os.path.isfile(file):
        fake_claude.write(file, b"")


def limited(act: dict[str, Any]) -> None:
    """A usage limit as claude tells it; it ends so many seconds from now, or nobody knows when."""
    info = {"status": "rejected", "rateLimitType": "five_hour", "isUsingOverage": False}
    if act["resets_in_s"] is not None:
        info["resetsAt"] = int(time.time() + act["resets_in_s"])
    fake_claude.emit({"type": "rate_limit_event", "rate_limit_info": info})


def holds(act: dict[str, Any]) -> None:
    """Says that the story got here, and waits until it may go on."""
    fake_claude.marks({"name": f"at-{act['name']}"})
    fake_claude.waits_for({"name": f"go-{act['name']}"})


fake_claude.ACTS |= {
    deed.__name__: deed for deed in (marks_done, unticks, declares, lists, unlists, adds, turns_into, limited, holds)
}

if __name__ == "__main__":
    fake_claude.main()
