"""Who changed the progress file while an agent worked, as far as it can be seen."""

import json
from pathlib import Path
from typing import Any

import pytest
from stories import says, tool, tool_result

from ralph.agent.stream import Stream
from ralph.onlooker import Onlooker

SAVED = "the file is saved"
QUIET = "all is quiet"
CALL, RESULT, TALK = tool("Bash", command="x"), tool_result("done"), says("Hm.")


@pytest.mark.parametrize(
    ("what", "person"),
    [
        pytest.param([TALK, QUIET, SAVED, QUIET], True, id="while it thinks"),
        pytest.param([CALL, QUIET, RESULT, QUIET, SAVED, QUIET, TALK], True, id="after its tool has ended"),
        pytest.param([TALK, CALL, QUIET, SAVED, QUIET, RESULT], False, id="while its tool runs"),
        pytest.param([TALK, CALL, SAVED, RESULT], False, id="while its tool ran, which was soon over"),
        pytest.param([TALK, SAVED, CALL], False, id="before a tool was heard of: it may have been that one"),
        pytest.param([TALK, QUIET, SAVED, QUIET, CALL, SAVED, RESULT], False, id="both"),
        pytest.param([TALK, QUIET, SAVED], False, id="at the very end, when nobody looked"),
        pytest.param([QUIET, SAVED, QUIET], False, id="of an agent that tells of no tools"),
        pytest.param([TALK, QUIET, CALL, RESULT, QUIET], False, id="nobody did"),
    ],
)
def test_a_change_is_perhaps_a_persons(tmp_path: Path, what: list[Any], person: bool) -> None:
    file = tmp_path / "progress.md"
    file.write_text("")
    stream = Stream(lambda _event: onlooker.hears(), lambda _line: None)
    onlooker = Onlooker(stream, file)
    for one in what:
        if one is SAVED:
            file.write_text(file.read_text() + "x")
        elif one is QUIET:
            onlooker.hears_nothing()
        else:
            stream.sees(json.dumps(one).encode() + b"\n")
    assert onlooker.perhaps_a_person == person
