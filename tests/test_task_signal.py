"""What counts as an agent's word that its task is done or blocked, and the commit's message made of its words."""

import subprocess

import pytest
from stories import signal

from ralph.strict.final_words import JudgedAttempt, commit_message, read_agents_claim, requested_mode

TOKEN = "ralph-20261120-221403-a7b3c9f2d1e8"
OLD = "ralph-20261119-030000-000000000000"
DONE = f'<task-done session="{TOKEN}">auth-02</task-done>'
BLOCKED = f'<task-blocked session="{TOKEN}" id="auth-02">the database is down</task-blocked>'
REJECTED = f'<task-reject session="{TOKEN}" id="auth-02">no test for an empty name</task-reject>'
MODE = f'<mode session="{TOKEN}">review</mode>'
SILENT = (
    "it ended without a <task-done> or <task-blocked> signal that counts: alone on a line, without markup, "
    "with session and id from the prompt"
)
FOREIGN = "the signal bears the session of another run; the one that counts is in the prompt"
BOTH = "it sent signals that differ, such as <task-done> and <task-blocked>; only one of them can be true"
ITS_TOKEN = "the signal is for SESSION, and the task was auth-02"
HEARD = {
    f"I ran `pytest`. {DONE}\n\n": JudgedAttempt(),
    f"```\nnever closed, so no fence\n{DONE}": JudgedAttempt(),
    f"ü \ud800\n{DONE}": JudgedAttempt(),
    f"<task-blocked id='auth-02' session='{TOKEN}'>x < {TOKEN}</task-blocked>": JudgedAttempt(
        why_blocked="x < SESSION"
    ),
    f'<task-blocked session="{TOKEN}"></task-blocked>': JudgedAttempt(why_blocked="it gave no reason"),
    f"Sorry.\n{REJECTED}": JudgedAttempt(why_failed="rejected: no test for an empty name", rejected=True),
    f"> {DONE}": JudgedAttempt(why_failed=SILENT),
    f"```\n{DONE}\n```": JudgedAttempt(why_failed=SILENT),
    f"I shall say {DONE} soon.": JudgedAttempt(why_failed=SILENT),
    f"an open `tick {DONE}": JudgedAttempt(why_failed=SILENT),
    DONE.replace(TOKEN, OLD): JudgedAttempt(why_failed=FOREIGN),
    f"{DONE}\n{BLOCKED}": JudgedAttempt(why_failed=BOTH),
    f"{DONE}\n<task-done>auth-02</task-done>": JudgedAttempt(why_failed=BOTH),
    DONE.replace("auth-02", "b"): JudgedAttempt(why_failed="the signal is for b, and the task was auth-02"),
    DONE.replace("done", f'done id="{TOKEN}"', 1): JudgedAttempt(why_failed=ITS_TOKEN),
    DONE.replace("auth-02", TOKEN): JudgedAttempt(why_failed=ITS_TOKEN),
}
"""What an agent says last, and what is found in it; why it does not count the next try is told, never with a token."""


@pytest.mark.parametrize(("said", "found"), HEARD.items())
def test_one_word_of_this_session_and_task_counts(said: str, found: JudgedAttempt) -> None:
    assert read_agents_claim(said, {}, token=TOKEN, task_id="auth-02") == found


def test_a_mode_is_asked_for_alone_on_a_line_and_with_the_session() -> None:
    assert requested_mode(f"It is built.\n{MODE}\n{DONE}", TOKEN) == "review"
    for said in (f"I could say {MODE}", f"```\n{MODE}\n```", MODE.replace(TOKEN, OLD), MODE.replace(TOKEN, ""), ""):
        assert requested_mode(said, TOKEN) == ""


def test_the_message_is_made_of_the_agents_words_and_git_reads_ralphs_trailers_alone() -> None:
    assert commit_message("a", "The task's words.", "", "") == "a: The task's words\n\nRalph-Task: a\n"
    said = f"{'x' * 80}\n\nIt is red.\nRalph-Task: other\nSigned-off-by: me\n# not a comment\n{signal('a', 'x')}"
    told = commit_message("a", "", said, "review")
    body = f"{'x' * 80}\n\nIt is red.\nRalph-Task: other\nSigned-off-by: me\n# not a comment"
    assert told == f"a: {'x' * 71}…\n\n{body}\n\nRalph-Task: a\nRalph-Role: review\n"
    read = ["git", "interpret-trailers", "--parse"]
    done = subprocess.run(read, input=told, capture_output=True, text=True, check=True)
    assert done.stdout == "Ralph-Task: a\nRalph-Role: review\n"
