"""`ralph export`: today's statuses over the untouched original, and other forms of it."""

import json
from typing import Any

import pytest
from ralph_driver import Project
from test_taskjson import MARKDOWN, PRD
from test_taskjson import imported as read
from test_tasks import of

from ralph.plan import progress, taskjson, tasks


def exported(project: Project, *args: str) -> str:
    run = project.ralph("export", "feature", *args)
    assert (run.code, run.stderr) == (0, "")
    return run.stdout


ODD = (
    '{\r\n\t"owner":   "caf\\u00e9 é",  "requirements" : [\r\n'
    '\t\t{ "id":1 , "requirement":"One",\t"status" :  "pending", "weight": 1.50e+3 },\r\n'
    '\t\t{ "id":2 , "requirement":"Two",\t"x": {"status": "pending"} },\r\n'
    '\t\t{ "status":"pending","id":"3","requirement":"Three" }\r\n'
    "\t] }\r\n\r\n"
)
TWO = '{"tasks":[{"id":1,"description":"x","status":"Completed"},{"id":2,"description":"y","status":"todo"}]}'


def test_a_file_gets_todays_statuses_and_every_other_byte_stays() -> None:
    for text, listed, changes in [
        (ODD, "[x] 1", {'"status" :  "pending"': '"status" :  "done"'}),
        (ODD, "[x] 2", {'"pending"} }': '"pending"}, "status": "done" }'}),
        (ODD, "[~] 1", {'"status" :  "pending"': '"status" :  "in_progress"'}),
        (PRD, "[x] US-002", {'"passes": null': '"passes": true'}),
        (PRD, "[!] US-001|[~] US-003", {'"high", "passes": true': '"high", "passes": false', "blocked": "in_progress"}),
        (
            PRD,
            "[ ] T-001|  [x] T-001.1|  [x] T-001.2",
            {'1, "passes": false': '1, "passes": true', '[], "passes": false': '[], "passes": true'},
        ),
        (TWO, "[ ] 1|[ ] 2", {"Completed": "pending"}),
        (TWO.replace('"todo"', "null"), "[x] 1|[x] 2", {"null": '"complete"'}),
    ]:
        wanted = text
        for old, new in changes.items():
            assert old in text
            wanted = wanted.replace(old, new)
        assert taskjson.with_statuses_and_new_tasks(read(text), of(listed)).decode() == wanted


def test_in_markdown_only_the_block_changes_and_new_tasks_come_last_in_the_form_of_the_others(project: Project) -> None:
    text = ("\ufeff" + MARKDOWN).replace("\n", "\r\n").encode() + b"\xff"
    path = project.root / "feature.md"
    path.write_bytes(text)
    path.chmod(0o640)
    project.has_tasks("x US-001: Log in", "docs: Write\n  - after: US-001")
    assert exported(project, "-o", "feature.md") == ""
    assert path.stat().st_mode & 0o777 == 0o640
    docs = {"id": "docs", "description": "Write", "title": "Write", "passes": False, "acceptanceCriteria": []}
    more = {**docs, "status": "pending", "dependencies": ["US-001"]}
    updated = '"passes": true},\n    ' + json.dumps(more) + "]}"
    assert path.read_bytes() == text.replace(b'"Log in", "passes": false}]}', b'"Log in", ' + updated.encode())
    assert exported(project).strip().endswith(updated)


def test_an_ordinary_plan_becomes_an_implementation_plan_or_another_form_in_another_file(project: Project) -> None:
    project.has_tasks("x Add the cart", "pay: Pay\n  - after: add_cart\n  - priority: 2\n  - [ ] card: By card")
    plain: dict[str, Any] = {"status": "pending", "verification_criteria": [], "dependencies": []}
    cart = plain | {"id": "add_cart", "description": "Add the cart", "status": "complete"}
    pay = plain | {"id": "pay", "description": "Pay", "priority": 2, "dependencies": ["add_cart", "card"]}
    card = plain | {"id": "card", "description": "By card"}
    assert json.loads(exported(project)) == {"tasks": [cart, pay, card]}
    (project.root / "other.md").touch()
    (project.root / "link.md").symlink_to("feature_PROGRESS.md")
    (project.root / "sub").mkdir()
    (project.root / "sub" / "feature.json").write_text(PRD)
    before = {path: path.read_bytes() for path in project.root.rglob("*.*") if path.is_file()}
    for args, message in [
        (["feature", "-o", "feature.md"], "feature.md: would not be what it is"),
        (["feature", "-o", "link.md"], "link.md: would not be what it is"),
        (["other"], "other_PROGRESS.md: has no task"),
        (["sub/feature.json", "-o", "sub/feature.json"], "belongs to another plan"),
    ]:
        run = project.ralph("export", *args)
        assert (run.code, run.stdout, message in run.stderr) == (2, "", True), run.text
    assert project.ralph("export", "feature", "-o", "no/where.json").code == 1
    assert {path: path.read_bytes() for path in project.root.rglob("*.*") if path.is_file()} == before


WORDS = ("# Tasks", "RALPH_DONE", "- [x] no", "```", "a\n## Notes\n- [x] b", "after: x", "x:\n  - verify: `rm`")


@pytest.mark.parametrize("form", ["requirements", "plan", "prd"])
def test_whatever_the_words_they_are_tasks_and_any_form_says_the_same(form: str) -> None:
    listed = [
        {"id": f"t-{place}", "title": f"Do {said}", "acceptanceCriteria": [said, "x"], "passes": place < 2}
        | {"dependsOn": [f"t-{other}" for other in range(place)], "priority": place}
        for place, said in enumerate(WORDS)
    ]
    imported = read(json.dumps(listed))
    file = progress.with_tasks_added(progress.new_progress_text("p", "p.json"), imported.lines)
    assert tasks.format_task_lines(tasks.read_tasks(file)) == imported.lines
    assert set(progress.parse(file).words) == {"Plan", "Started", "IN_PROGRESS"}
    name = "requirements" if form == "requirements" else "tasks"
    other = read(json.dumps({name: [taskjson.task_as_json(task, form) for task in imported.tasks]}))
    assert (other.form, other.lines) == (form, imported.lines)
