"""What counts as an agent's word that its task is done or blocked, and the commit's message made of its words."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import signal

from ralph.strict.signal import Finding, heard, message, wished

TOKEN = "ralph-20261120-221403-a7b3c9f2d1e8"
OLD = "ralph-20261119-030000-000000000000"
DONE = f'<task-done session="{TOKEN}">auth-02</task-done>'
BLOCKED = f'<task-blocked session="{TOKEN}" id="auth-02">the database is down</task-blocked>'
REJECTED = f'<task-reject session="{TOKEN}" id="auth-02">no test for an empty name</task-reject>'
MODE = f'<mode session="{TOKEN}">review</mode>'
SILENT = "it ended without a <task-done> or <task-blocked> signal"
FOREIGN = "the signal bears the session of another run"
BOTH = "it sent signals that differ, such as <task-done> and <task-blocked>"


def claim(said: str) -> Finding:
    return heard(said, {}, token=TOKEN, task_id="auth-02")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(f"I ran `pytest`. {DONE}\n\n", id="at the end of the last line, behind code"),
        pytest.param(f"```\nnever closed\n{DONE}", id="behind a fence that is never closed, so is none"),
        pytest.param(f"ü \ud800\n{DONE}", id="behind half a character"),
    ],
)
def test_done_is_done(said: str) -> None:
    assert claim(said) == Finding()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(
            f"<task-blocked id='auth-02' session='{TOKEN}'>x < y & \"z\"</task-blocked>",
            'x < y & "z"',
            id="the other way round, with any reason",
        ),
        pytest.param(f'<task-blocked session="{TOKEN}"></task-blocked>', "it gave no reason", id="without a reason"),
    ],
)
def test_blocked_is_blocked_with_its_reason(said: str, why: str) -> None:
    assert claim(said) == Finding(blocked=why)


def test_a_reviewer_rejects_with_a_reason() -> None:
    assert claim(f"Sorry.\n{REJECTED}") == Finding(failed="rejected: no test for an empty name", rejected=True)


def test_a_mode_is_asked_for_alone_on_a_line_and_with_the_session() -> None:
    assert wished(f"It is built.\n{MODE}\n{DONE}", TOKEN) == "review"
    for said in (f"I could say {MODE}", f"```\n{MODE}\n```", MODE.replace(TOKEN, OLD), MODE.replace(TOKEN, ""), ""):
        assert wished(said, TOKEN) == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param("", SILENT, id="nothing"),
        pytest.param(DONE.replace(TOKEN, OLD), FOREIGN, id="the token of another run"),
        pytest.param(f"{DONE.replace(TOKEN, OLD)}\n{DONE}", BOTH, id="an old token and the right one"),
        pytest.param(DONE.replace("auth-02", "b"), "the signal is for b, and the task was auth-02", id="another task"),
        pytest.param(DONE.replace("done", 'done id="b"', 1), "the signal is for b, and the task was", id="two ids"),
        pytest.param(DONE.replace("auth-02", TOKEN), "the signal is for SESSION", id="the token for an id"),
        pytest.param(f"{DONE}\n{BLOCKED}", BOTH, id="done and blocked"),
        pytest.param(f"> {DONE}", SILENT, id="in a quotation"),
        pytest.param(f"```\n{DONE}\n```", SILENT, id="in a code fence"),
        pytest.param(f"I shall say {DONE} soon.", SILENT, id="in a sentence"),
        pytest.param(f"an open `tick {DONE}", SILENT, id="behind an open backtick"),
        pytest.param(f"{DONE}\n<task-done>auth-02</task-done>", BOTH, id="a good one and a bad one"),
    ],
)
def test_anything_else_is_rejected_and_the_next_try_is_told_why(said: str, why: str) -> None:
    found = claim(said)
    assert (found.blocked, found.rejected) == ("", False)
    assert found.failed.startswith(why)
    assert TOKEN not in found.failed
    assert OLD not in found.failed
    assert "\n" not in found.failed
    assert len(found.failed) < 400


TAGS = ("<task-done", "<task-blocked", "</task-done>", "</task-blocked>", " session=", ' id="auth-02"', ">", "/>")
MARKS = ('"', "'", " ", "\n", "```", "`", "> ", "auth-02", "\ufeff", "ü")
PIECES = st.sampled_from((*TAGS, REJECTED, *MARKS, OLD, TOKEN, TOKEN[:-1], DONE, BLOCKED, f"\n{DONE}\n"))


@given(st.lists(PIECES, max_size=16).map("".join) | st.text())
def test_whatever_is_said_nothing_is_believed_without_the_token(said: str) -> None:
    found = claim(said)
    assert not (found.blocked and found.failed)
    assert TOKEN not in found.blocked + found.failed
    assert claim(said.replace(TOKEN, OLD)).failed


@given(st.text(alphabet="abc .`>-\n"), st.text(alphabet="abc .>-\n"))
def test_a_signal_on_a_line_of_its_own_is_heard_between_any_words(before: str, after: str) -> None:
    before = before.replace("```", "")  # a fence there might be closed behind the signal
    assert claim(f"{before}\n{DONE}\n{after}") == Finding()


# The message of the commit.


@pytest.mark.parametrize(
    ("said", "head", "body"),
    [
        pytest.param("Add it\n\nIt is red.\nAnd new.", "a: Add it", "It is red.\nAnd new.", id="a subject, and why"),
        pytest.param("", "a: The task's words", "", id="nothing"),
        pytest.param("x" * 80, f"a: {'x' * 71}…", "x" * 80, id="a long line is cut, and stands below in full"),
        pytest.param(f"Added it.\n\n{signal('a', 'x')}", "a: Added it", "", id="with the signal"),
        pytest.param("Closes: x\nFixes: y", "a: Closes: x", " Fixes: y", id="what git would take for a trailer"),
    ],
)
def test_the_message_is_made_of_the_agents_words(said: str, head: str, body: str) -> None:
    expected = [head, *([body] if body else []), "Ralph-Task: a"]
    assert message("a", "The task's words", said, "") == "\n\n".join(expected) + "\n"


def test_git_reads_ralphs_trailers_alone() -> None:
    said = f"Did it.\n\nRalph-Task: other\nSigned-off-by: me\n{signal('a', 'x')}"
    read = ["git", "interpret-trailers", "--parse"]
    done = subprocess.run(read, input=message("a", "", said, "review"), capture_output=True, text=True, check=True)
    assert done.stdout == "Ralph-Task: a\nRalph-Role: review\n"
