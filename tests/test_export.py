"""`ralph export`: today's statuses over the untouched original, and other forms of it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import Project
from test_taskjson import MARKDOWN, PLAN, PRD, REQUIREMENTS, STORIES
from test_taskjson import imported as read

from ralph import export, progress, taskjson, tasks


def has(project: Project, text: str | bytes, *lines: str, name: str = "plan.json") -> Path:
    """Writes a plan, and its progress file with these lines in the Task List; without any, with what it imports."""
    path = project.root / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    imported = taskjson.of_plan(path, path.read_bytes())
    listed = [line.encode() for line in lines] or (tasks.lines(imported.tasks) if imported else [])
    fresh = progress.fresh("plan", str(path), "2026-11-20 22:14:03")
    (project.root / "plan_PROGRESS.md").write_bytes(progress.with_tasks(fresh, listed))
    return path


def exported(project: Project, *args: str) -> str:
    run = project.ralph("export", "plan", *args)
    assert (run.code, run.stderr) == (0, "")
    return run.stdout


ODD = (
    "\ufeff{\r\n"
    '\t"owner":   "caf\\u00e9 é",  "requirements" : [\r\n'
    '\t\t{ "id":1 , "requirement":"One",\t"status" :  "pending", "weight": 1.50e+3 },\r\n'
    '\t\t{ "id":2 , "requirement":"Two",\t"x": {"status": "pending"} },\r\n'
    '\t\t{ "status":"pending","id":"3","requirement":"Three" }\r\n'
    "\t] }\r\n\r\n"
)


def test_only_the_statuses_change_byte_for_byte(project: Project) -> None:
    path = has(project, ODD, "- [x] 1: One", "- [x] 2: Two", "- [ ] 3: Three")
    run = project.ralph("export", "plan.json", "-o", "out.json")
    assert (run.code, run.text) == (0, "")
    expected = ODD.replace('"status" :  "pending"', '"status" :  "done"')
    expected = expected.replace('{"status": "pending"} }', '{"status": "pending"}, "status": "done" }')
    assert (project.root / "out.json").read_bytes() == expected.removeprefix("\ufeff").encode()
    assert path.read_bytes() == ODD.encode()


TWO = '{"tasks":[{"id":1,"description":"x","status":"Completed"},{"id":2,"description":"y","status":"todo"}]}'


def updated(text: str, *lines: str) -> str:
    """The JSON with the statuses that these lines of the Task List have."""
    return export.updated(read(text), tasks.read("\n".join(["# Tasks", *lines, ""]).encode()))


@pytest.mark.parametrize(
    ("text", "lines", "changes"),
    [
        pytest.param(
            PLAN,
            ["- [x] auth-01: x", "- [~] auth-02: x", "- [!] auth-03: Log out", "  - blocked: nobody is logged in"],
            [
                ('"status": "blocked"', '"status": "in_progress"'),
                ('3, "status": "in_progress"', '3, "status": "blocked"'),
            ],
            id="a plan says what is in progress and blocked, and keeps what else it says",
        ),
        pytest.param(
            PRD,
            ["- [ ] T-001: Add the cart", "  - [x] T-001.1: Model", "  - [X] T-001.2: View"],
            [("false", "true")],
            id="done subtasks make a story pass",
        ),
        pytest.param(
            TWO, ["- [x] 1: x", "- [x] 2: y"], [("todo", "Completed")], id="its own word for done is used again"
        ),
        pytest.param(
            STORIES,
            ["- [!] US-001: Log in", "  - blocked: no key", "- [x] US-002: Log out"],
            [('"passes": true', '"passes": false'), ('"Log out", "passes": false', '"Log out", "passes": true')],
            id="a status of somebody else stays",
        ),
        pytest.param(REQUIREMENTS, ["- [x] req-002: x"], [("pending", "done")], id="one that left the list stays"),
    ],
)
def test_a_file_gets_todays_statuses(text: str, lines: list[str], changes: list[tuple[str, str]]) -> None:
    made = updated(text, *lines)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert made == text


def test_new_tasks_come_last_in_the_form_of_the_others() -> None:
    made = updated(PLAN, "- [x] auth-01: x", "  - [ ] salt: Add salt", "- [x] docs: Write", "  - after: auth-01")
    salt = {"id": "salt", "description": "Add salt", "verification_criteria": [], "status": "pending"}
    docs = {"id": "docs", "description": "Write", "verification_criteria": [], "status": "complete"}
    docs["dependencies"] = ["auth-01"]
    assert made == PLAN.replace("\n  ]", "".join(f",\n    {json.dumps(one)}" for one in (salt, docs)) + "\n  ]")


def test_in_markdown_only_the_block_changes(project: Project) -> None:
    text = ("\ufeff" + MARKDOWN).replace("\n", "\r\n").encode() + b"\xff"
    path = has(project, text, "- [x] US-001: Log in", name="plan.md")
    path.chmod(0o640)
    assert exported(project, "-o", "plan.md") == ""
    assert path.stat().st_mode & 0o777 == 0o640
    old = b'"Log in", "passes": false'
    assert path.read_bytes() == text.replace(old, b'"Log in", "passes": true')
    assert exported(project).strip() == '{"userStories": [{"id": "US-001", "title": "Log in", "passes": true}]}'


def test_an_ordinary_plan_becomes_an_implementation_plan_or_another_form_in_another_file(project: Project) -> None:
    lines = ("- [x] Add the cart", "- [ ] pay: Pay", "  - after: add_cart", "  - [ ] card: By card")
    path = has(project, "# Shop\n", *lines, name="plan.md")
    plain: dict[str, Any] = {"status": "pending", "verification_criteria": []}
    cart = plain | {"id": "add_cart", "description": "Add the cart", "status": "complete"}
    pay = plain | {"id": "pay", "description": "Pay", "dependencies": ["add_cart", "card"]}
    card = plain | {"id": "card", "description": "By card"}
    assert json.loads(exported(project)) == {"tasks": [cart, pay, card]}
    prd = json.loads(exported(project, "--format", "prd"))
    assert [task["passes"] for task in prd["tasks"]] == [True, False, False]
    run = project.ralph("export", "plan", "-o", "plan.md")
    assert (run.code, path.read_text()) == (2, "# Shop\n")


def test_what_cannot_be_exported_is_refused_and_nothing_changes(project: Project) -> None:
    has(project, REQUIREMENTS)
    (project.root / "link.md").symlink_to("plan_PROGRESS.md")
    before = {path: path.read_bytes() for path in project.root.rglob("*.*") if path.is_file()}
    for args, message in [
        (["plan", "-o", "link.md"], "link.md: would not be what it is"),
        (["plan", "-o", "no/where.json"], "no/where.json: cannot be written: No such"),
        (["other"], "there is no such plan"),
        (["feature"], "feature_PROGRESS.md: has no task"),
        (["plan", "--format", "prd", "-o", "plan.json"], "plan.json: would not be what it is"),
    ]:
        run = project.ralph("export", *args)
        assert (run.code, run.stdout) == (2, "")
        assert message in run.stderr
    assert {path: path.read_bytes() for path in project.root.rglob("*.*") if path.is_file()} == before


def test_the_name_leads_to_the_plan_that_the_progress_file_names(project: Project) -> None:
    (project.root / ".ralph").mkdir()
    path = has(project, PLAN, "- [x] auth-01: x", name=".ralph/plan.json")
    file = project.root / "plan_PROGRESS.md"
    file.write_text(file.read_text().replace(f"Plan: {path}", "Plan: .ralph/plan.json"))
    assert exported(project) == PLAN
    file.rename(project.root / "mine.md")
    args = ("export", ".ralph/plan.json", "-C", str(project.root), "--progress-file", "mine.md", "-o", "-")
    assert project.ralph(*args, cwd=project.home).stdout == PLAN


# What holds for any file and any list.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(st.text(max_size=5).map("x".__add__), JSON, max_size=3)
STATUS: dict[str, tuple[str, list[Any]]] = {
    "requirements": ("status", ["pending", "done", "blocked"]),
    "tasks": ("status", ["pending", "in_progress", "complete", "blocked"]),
    "userStories": ("passes", [True, False]),
}


@st.composite
def plans(draw: st.DrawFn) -> str:
    """A file of one of the forms in any style."""
    name = draw(st.sampled_from(sorted(STATUS)))
    field, words = STATUS[name]
    listed: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, 5))):
        task = {**draw(UNKNOWN), "id": draw(st.sampled_from([place, f"t-{place}"]))}
        task[field] = draw(st.sampled_from(words))
        text = draw(st.sampled_from(["Do it", "é: x", "y" * 400]))
        task["requirement" if name == "requirements" else "description"] = text
        if draw(st.booleans()) and listed:
            task["dependencies"] = [draw(st.sampled_from([other["id"] for other in listed]))]
        if draw(st.booleans()):
            task["acceptanceCriteria"] = ["Run `x  y` - exits with code 0"]
        listed.append({key: task[key] for key in draw(st.permutations(sorted(task)))})
    style: dict[str, Any] = draw(st.sampled_from([{}, {"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}]))
    text = json.dumps({**draw(UNKNOWN), name: listed}, ensure_ascii=draw(st.booleans()), **style)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(plans(), st.sampled_from(["requirements", "plan", "prd"]), st.data())
def test_nothing_but_the_status_values_differs_and_any_form_says_the_same(
    text: str, form: str, data: st.DataObject
) -> None:
    imported = read(text)
    marks = " x" if "prd" in (imported.form, form) else " x!"
    today = [replace(task, mark=data.draw(st.sampled_from(marks))) for task in imported.tasks]
    made = export.updated(imported, today)
    values = re.compile(r'("(?:status|passes)":\s?)(?:"(?:pending|in_progress|complete|done|blocked)"|true|false)')
    assert values.sub(r"\1?", made) == values.sub(r"\1?", text)
    assert [task.mark for task in read(made).tasks] == [task.mark for task in today]
    assert export.updated(imported, imported.tasks) == text
    other = read(json.dumps(export.converted(today, form)))
    assert (other.form, tasks.lines(other.tasks)) == (form, tasks.lines(today))
