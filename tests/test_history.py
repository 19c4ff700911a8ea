"""The journal as rows and sums: the same numbers by whatever way, and an answer for whatever stands there."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph import history, journal
from ralph.history import Sums

COSTS = st.one_of(st.none(), st.floats(0, 100).map(lambda usd: round(usd, 4)))
ITERATIONS = st.fixed_dictionaries(
    {
        "event": st.just("iteration"),
        "counted": st.booleans(),
        "cost_usd": COSTS,
        "cost_at_least": st.booleans(),
        "ended": st.sampled_from(["ok", "failed", "died"]),
    }
)
RECORDS = st.lists(st.one_of(ITERATIONS, st.fixed_dictionaries({"event": st.sampled_from(["wait", "verify", "run"])})))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = tuple(
    "event run mode iteration success message summary ended counted refused duration_s waited_s cost_usd tokens "  # noqa: SIM905 - a list of words
    "cost_at_least context model tasks commits transcript timestamp sums until".split()
)
IN_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@IN_ONE_FILE
@given(records=RECORDS, known=st.sets(st.integers(0, 30)))
def test_the_sums_of_a_journal_are_those_of_its_lines(
    tmp_path: Path, records: list[dict[str, Any]], known: set[int]
) -> None:
    """Whichever of the lines carry the sums so far, the last ones included."""
    so_far, lines = Sums(), []
    for number, record in enumerate(records):
        so_far = history.added(so_far, record)
        told = {"iterations": so_far.iterations, "cost_usd": so_far.cost_usd, "cost_at_least": so_far.cost_at_least}
        lines.append({**record, "sums": told} if number in known else record)
    costs = [record["cost_usd"] for record in records if record.get("cost_usd") is not None]
    found = history.sums(written(tmp_path / "journal.jsonl", lines))
    assert found == so_far
    assert found.iterations == sum(record.get("counted") is True for record in records)
    assert found.cost_usd == (pytest.approx(sum(costs), abs=1e-4) if costs else None)


@IN_ONE_FILE
@given(records=st.lists(st.dictionaries(st.sampled_from(NAMES), JSON), max_size=5))
def test_whatever_stands_there_has_rows_and_sums(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    iterations = [{**record, "event": "iteration"} for record in records]
    path = written(tmp_path / "journal.jsonl", [*records, *iterations])
    assert len(list(history.rows(journal.read(path)))) >= len(iterations)
    history.sums(path)
    assert all(history.stamp(record) >= 0 for record in records)


def test_each_verification_belongs_to_the_iteration_that_it_was_made_for() -> None:
    def verify(run: str, seconds: float) -> dict[str, Any]:
        return {"event": "verify", "run": run, "duration_s": seconds}

    def iteration(run: str) -> dict[str, Any]:
        return {"event": "iteration", "run": run}

    records = [verify("a", 1), verify("a", 2), iteration("a"), iteration("a"), verify("a", 4), iteration("b")]
    assert [row.verified_s for row in history.rows(records)] == [3, 0, 0]


def test_an_old_line_without_a_summary_has_words_all_the_same() -> None:
    (row,) = history.rows([{"event": "iteration", "iteration": 7, "message": "ralph was killed", "ended": "died"}])
    assert row.summary == "#7 · ralph was killed"
    assert (row.done, row.cost_usd, row.context, row.at) == (None, None, None, 0)
