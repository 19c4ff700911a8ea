"""The message of the commit that ralph makes for a task."""

import subprocess
from pathlib import Path

import pytest
from stories import signal

from ralph.strict.signal import message

SIXTY = "Add the endpoint that people have asked for since the spring"


@pytest.mark.parametrize(
    ("said", "head", "body"),
    [
        pytest.param("Added it.", "a: Added it", "", id="one sentence"),
        pytest.param("Add it\n\nIt is red.\nAnd new.", "a: Add it", "It is red.\nAnd new.", id="a subject, and why"),
        pytest.param(f"{SIXTY}\n\nIt is red.", f"a: {SIXTY}", "It is red.", id="one of sixty characters as it is"),
        pytest.param(f"{SIXTY} x. It is red.", f"a: {SIXTY} x", "It is red.", id="a longer line: its first sentence"),
        pytest.param("", "a: The task's words", "", id="nothing"),
        pytest.param(f"Added it.\n\n{signal('a', 'x')}", "a: Added it", "", id="with the signal"),
        pytest.param("Closes: x\nFixes: y", "a: Closes: x", " Fixes: y", id="what git would take for a trailer"),
    ],
)
def test_is_made_of_the_agents_words(said: str, head: str, body: str) -> None:
    expected = [head, *([body] if body else []), "Ralph-Task: a"]
    assert message("a", "The task's words", said) == "\n\n".join(expected) + "\n"


def test_a_long_sentence_is_cut_and_stands_below_in_full() -> None:
    said = "It " + "really " * 30 + "works."
    head, blank, *body = message("a", "", said).splitlines()
    assert len(head) <= 75
    assert head.endswith(" …")
    assert blank == ""
    assert said in " ".join(body)


def test_git_reads_one_trailer_and_it_is_ralphs(tmp_path: Path) -> None:
    said = f"Did it.\n\nRalph-Task: other\nSigned-off-by: me\n{signal('a', 'x')}"
    read = ["git", "interpret-trailers", "--parse"]
    done = subprocess.run(read, input=message("a", "", said), capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "Ralph-Task: a\n"
