"""Plans in JSON: what they become in the Task List."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import files, progress, taskjson, tasks
from ralph.taskjson import Imported
from ralph.tasks import Task

REQUIREMENTS = """{
  "requirements": [
    {"id": 1, "requirement": "`make bash_tool` works", "status": "done"},
    {"id": "req-002", "requirement": "The schema has a name", "status": "pending"}
  ]
}"""
PLAN = """{
  "tasks": [
    {
      "id": "auth-01",
      "description": "Create User model with password hashing",
      "priority": 1,
      "status": "complete",
      "dependencies": [],
      "verification_criteria": ["User model exists in models/user.py"],
      "estimated_tokens": 25000
    },
    {
      "id": "auth-02",
      "description": "Add registration endpoint",
      "priority": 2,
      "status": "blocked",
      "dependencies": ["auth-01"],
      "verification_criteria": ["POST /api/register returns 201", "Run `uv run pytest` - exits with code 0"],
      "blockers": ["No database", "no key"],
      "retry_count": 3
    },
    {"id": "auth-03", "description": "Log out", "priority": 3, "status": "in_progress", "dependencies": ["auth-02"]}
  ]
}"""
PRD = """{
  "project": "Shop",
  "branchName": "ralph/shop",
  "description": "A shop",
  "tasks": [
    {
      "id": "T-001",
      "title": "Add the cart",
      "description": "People collect what they want to buy.",
      "acceptanceCriteria": ["File `src/cart.py` exists"],
      "priority": 1,
      "passes": false,
      "notes": "",
      "subtasks": [
        {"id": "T-001.1", "title": "Model", "acceptanceCriteria": ["File `cart.sql` exists"], "passes": true},
        {"id": "T-001.2", "title": "View", "acceptanceCriteria": [], "passes": false}
      ]
    }
  ]
}"""
STORIES = """{
  "project": "Shop",
  "userStories": [
    {
      "id": "US-001",
      "title": "Log in",
      "description": "As a user I log in",
      "acceptanceCriteria": ["POST /login returns 200", {"description": "Typecheck passes", "passes": false}],
      "priority": "high",
      "passes": true,
      "status": "approved",
      "notes": ""
    },
    {"id": "US-002", "title": "Log out", "passes": false, "priority": null, "dependsOn": ["US-001"]}
  ]
}"""
BARE = """[
  {"category": "functional", "description": "The login works", "steps": ["Open /login", "Log in"], "passes": false},
  {"category": "style", "description": "Login works", "steps": [], "passes": true}
]"""


def listed(text: str, name: str = "plan.json") -> str:
    imported = taskjson.of_plan(Path(name), text.encode())
    assert imported is not None
    return b"\n".join(taskjson.lines(imported.tasks)).decode()


def read(text: str, name: str = "plan.json") -> tuple[Task, ...]:
    """What strict mode reads of a progress file that they came into."""
    imported = taskjson.of_plan(Path(name), text.encode())
    assert imported is not None
    fresh = progress.fresh("plan", name, "2026-11-20 22:14:03")
    return tasks.read(progress.with_tasks(fresh, taskjson.lines(imported.tasks)))


@pytest.mark.parametrize(
    ("text", "form", "lines"),
    [
        pytest.param(
            REQUIREMENTS,
            "requirements",
            """\
- [x] 1: `make bash_tool` works
- [ ] req-002: The schema has a name""",
            id="requirements have a status each",
        ),
        pytest.param(
            PLAN,
            "plan",
            """\
- [x] auth-01: Create User model with password hashing
  - priority: 1
  - verify: User model exists in models/user.py
- [!] auth-02: Add registration endpoint
  - after: auth-01
  - priority: 2
  - verify: POST /api/register returns 201
  - verify: Run `uv run pytest` - exits with code 0
  - blocked: No database; no key
- [ ] auth-03: Log out
  - after: auth-02
  - priority: 3""",
            id="a plan has an order and criteria; what was in progress is to do",
        ),
        pytest.param(
            PRD,
            "prd",
            """\
- [ ] T-001: Add the cart (People collect what they want to buy.)
  - priority: 1
  - verify: File `src/cart.py` exists
  - [x] T-001.1: Model
    - verify: File `cart.sql` exists
  - [ ] T-001.2: View""",
            id="subtasks are nested",
        ),
        pytest.param(
            STORIES,
            "prd",
            """\
- [x] US-001: Log in (As a user I log in)
  - priority: 2
  - verify: POST /login returns 200
  - verify: Typecheck passes
- [ ] US-002: Log out
  - after: US-001""",
            id="stories as people write them",
        ),
        pytest.param(
            BARE,
            "prd",
            """\
- [ ] login_works: The login works
  - verify: Open /login
  - verify: Log in
- [x] login_works_2: Login works""",
            id="a list alone gets ids from its words",
        ),
    ],
)
def test_each_form_is_told_by_its_shape(text: str, form: str, lines: str) -> None:
    imported = taskjson.of_plan(Path("anything.json"), text.encode())
    assert imported is not None
    assert imported.form == form
    assert listed(text) == lines


def test_strict_mode_reads_what_the_file_said() -> None:
    first, second, third = read(PLAN)
    assert tasks.problems((first, second, third)) == []
    assert [task.mark for task in (first, second, third)] == ["x", "!", " "]
    assert (second.id, second.after, second.priority) == ("auth-02", ("auth-01",), 2)
    assert second.criteria == ("POST /api/register returns 201", "Run `uv run pytest` - exits with code 0")
    assert second.blocked == "No database; no key"
    (cart,) = read(PRD)
    assert [(task.id, task.done) for task in cart.subtasks] == [("T-001.1", True), ("T-001.2", False)]


def test_numbers_are_ids_as_they_are_spelled() -> None:
    text = '{"tasks": [{"id": 1.1, "description": "x"}, {"id": 1.10, "description": "y", "dependencies": [1.1]}]}'
    assert [(task.id, task.after) for task in read(text)] == [("1.1", ()), ("1.10", ("1.1",))]


def test_a_status_counts_for_more_than_a_word_of_another_form() -> None:
    text = '{"requirements": [{"id": 1, "requirement": "x", "status": "pending", "passes": true}]}'
    assert read(text)[0].mark == " "


def test_ids_stay_where_words_look_like_ids() -> None:
    text = '[{"description": "Login: add it", "passes": false}, {"description": "Login: test it", "passes": false}]'
    assert [(task.id, task.text) for task in read(text)] == [
        ("login_add_it", "Login: add it"),
        ("login_test_it", "Login: test it"),
    ]


def test_a_command_keeps_its_blanks() -> None:
    text = json.dumps([{"description": "x", "passes": False, "steps": ["Run `grep 'a  b' c`\n- exits with\r\ncode 0"]}])
    assert read(text)[0].criteria == ("Run `grep 'a  b' c` - exits with code 0",)


def test_nothing_that_steers_a_terminal_comes_into_the_list() -> None:
    (task,) = read(json.dumps([{"title": "Red\x1b[31m\u202e\0", "passes": False, "steps": ["See \x9b2J\x00 it"]}]))
    assert (task.text, task.criteria) == ("Red[31m", ("See 2J it",))


def test_a_long_description_is_cut_in_the_list_at_a_word() -> None:
    text = json.dumps([{"title": "Short", "description": "many words " * 100, "passes": False}])
    (task,) = read(text)
    assert len(task.text) <= 300
    assert task.text.startswith("Short (many words")
    assert task.text.endswith("…)")


@pytest.mark.parametrize(
    ("title", "description", "text"),
    [
        pytest.param("Log in", "Log in", "Log in", id="both the same"),
        pytest.param("Log in", "Log in with a key", "Log in with a key", id="the description goes on"),
        pytest.param("Log", "Login is broken", "Log (Login is broken)", id="unless it is another word"),
        pytest.param("Log in…", "Log in with a key", "Log in with a key", id="a title that was cut"),
        pytest.param("", "Log in", "Log in", id="no title"),
        pytest.param("Log\n in ", "", "Log in", id="no description"),
    ],
)
def test_title_and_description_make_one_text(title: str, description: str, text: str) -> None:
    said = json.dumps([{"title": title, "description": description, "passes": False}])
    assert read(said)[0].text == text


MARKDOWN = """# A shop

For example `{"userStories": []}`.

````md
```json
{"userStories": [{"id": "no", "title": "Only shown", "passes": false}]}
```
````

1. The API answers:

   ```json
   {"tasks": [{"id": 1, "title": "Buy milk", "status": "open"}]}
   ```

- These:

  ```json
  {"userStories": [{"id": "US-001", "title": "Log in", "passes": false}]}
  ```
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_plan_in_markdown_may_hold_one_as_a_block(newline: str) -> None:
    assert listed(MARKDOWN.replace("\n", newline), "plan.md") == "- [ ] US-001: Log in"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# Plan\n\n- [ ] a task\n", id="no block"),
        pytest.param('```json\n{"name": "x"}\n```\n', id="JSON of another shape"),
        pytest.param('```json\n{"tasks": [{"id": 1, "title": "Buy milk", "status": "open"}]}\n```\n', id="an example"),
        pytest.param('```json\n{"tasks": [1, 2]}\n```\n', id="a list of something else"),
        pytest.param('```json\n{"userStories": ["As a user"]}\n```\n', id="stories in words"),
        pytest.param("```json\n{ ... }\n```\n", id="no JSON at all"),
        pytest.param('```jsonc\n[{"description": "x", "passes": false}]\n```\n', id="another language"),
        pytest.param('```json\n[{"description": "x", "passes": false}]\n', id="a fence that is never closed"),
        pytest.param('```\n```json\n[{"description": "x", "passes": false}]\n```\n', id="in another fence"),
    ],
)
def test_any_other_plan_in_markdown_is_an_ordinary_one(text: str) -> None:
    assert taskjson.of_plan(Path("plan.md"), text.encode()) is None


def test_a_block_that_says_it_is_one_is_one_and_the_others_are_examples() -> None:
    example = '```json\n{"requirements": [{"id": 9, "requirement": "No"}]}\n```\n'
    block = '```json ralph\n{"tasks": [{"id": "a", "description": "Yes", "priority": 1, "status": "pending"}]}\n```\n'
    assert listed(example + block, "plan.md") == "- [ ] a: Yes\n  - priority: 1"


def imported(text: str, name: str = "r.json") -> Imported:
    found = taskjson.of_plan(Path(name), text.encode())
    assert found is not None
    return found


class TestWhatTheFileHasAndTheTaskListHasNot:
    FILE = """{"tasks": [
        {"id": 1, "description": "Log in", "status": "done"},
        {"id": 2, "description": "Log out", "subtasks": [{"id": "c", "description": "The button"}]},
        {"id": 3, "description": "Forget", "status": "done"}]}"""

    @pytest.mark.parametrize(
        ("lines", "missing"),
        [
            pytest.param("- [x] 1: Log in\n- [ ] 2: Log out\n  - [ ] c: The button", (), id="nothing"),
            pytest.param("- [x] 2: Log out\n  - [x] c: The button", (), id="nothing that is done in the file"),
            pytest.param("- [x] 1: Log in\n- [x] 2: Off", ("c",), id="a subtask"),
            pytest.param("- [x] 1: Log in", ("2", "c"), id="a task with its subtask"),
            pytest.param("- [ ] Log out\n  - [ ] c: The button", (), id="nothing, where a person took the id away"),
            pytest.param("", ("2", "c"), id="all of it"),
        ],
    )
    def test_is_known_by_id_and_by_words(self, lines: str, missing: tuple[str, ...]) -> None:
        assert taskjson.missing(imported(self.FILE), f"# Tasks\n\n{lines}\n".encode()) == missing

    def test_is_said_with_what_to_do(self) -> None:
        assert "; ".join(taskjson.left_out(imported(self.FILE), ["2", "c"], Path("r_PROGRESS.md"))) == (
            "2 tasks of r.json are not in the Task List, and not built: 2, c; "
            "to have them built, write them there, in r_PROGRESS.md, such as `- [ ] 2: Log out`"
        )

    def test_is_not_said_of_thousands(self) -> None:
        text = json.dumps({"tasks": [{"id": place, "description": "x " * 99} for place in range(3000)]})
        names = taskjson.missing(imported(text), b"")
        said = "; ".join(taskjson.left_out(imported(text), names, Path("r_PROGRESS.md")))
        assert (len(names), len(said) < 300, "0, 1, 2, 3, 4, …;" in said) == (3000, True, True)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        pytest.param(STORIES, "prd.json", "tasks taken from prd.json into the Task List", id="a file"),
        pytest.param(
            MARKDOWN,
            "shop.md",
            "1 task taken from shop.md:19 into the Task List; were it only an example, ```text would begin it",
            id="a block, with its line",
        ),
    ],
)
def test_what_was_taken_into_the_task_list_is_said(text: str, name: str, said: str) -> None:
    assert taskjson.taken_over(imported(text, name)).endswith(said)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("requirements.json", "requirements"),
        ("a/b/feature.md", "feature"),
        ("notes", "notes"),
        ("v1.json.md", "v1.json"),
        ("v1.md.json", "v1.md"),
        ("plan.txt", "plan.txt"),
    ],
)
def test_the_name_of_a_plan_is_without_its_kind(path: str, name: str) -> None:
    assert files.plan_name(Path(path)) == name


def test_bytes_that_are_no_utf8_come_into_the_list_as_they_are() -> None:
    imported = taskjson.of_plan(Path("p.json"), b'\xef\xbb\xbf[{"description": "caf\xe9", "passes": false}]\r\n')
    assert imported is not None
    assert taskjson.lines(imported.tasks) == [b"- [ ] caf: caf\xe9"]


WORDS = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "# Tasks",
        "RALPH_DONE",
        "- [x] no",
        "```",
        "a\n## Notes\n- [x] b",
        "after: x",
        "x:\n  - verify: `rm`",
        "\x1b[2J\x00",
    ]
)
STORY = st.fixed_dictionaries(
    {
        "title": WORDS.filter(lambda words: any(map(str.isalnum, words))),
        "passes": st.booleans(),
        "acceptanceCriteria": st.lists(WORDS.map(lambda words: f"it says {words}"), max_size=3),
    },
    optional={"description": WORDS, "priority": st.integers(0, 9)},
)


@given(st.lists(STORY, min_size=1, max_size=5), st.data())
def test_whatever_the_words_they_are_tasks_and_nothing_else(stories: list[dict[str, Any]], data: st.DataObject) -> None:
    for place, story in enumerate(stories):
        story["id"] = f"id-{place}"
        others = [f"id-{other}" for other in range(place)]
        story["dependencies"] = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    text = json.dumps({"userStories": stories}, ensure_ascii=data.draw(st.booleans()))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps({"userStories": stories})
    found = read(text)
    assert [task.id for task in tasks.flat(found)] == [story["id"] for story in stories]
    assert [task.done for task in found] == [story["passes"] for story in stories]
    assert [task.after for task in found] == [tuple(story["dependencies"]) for story in stories]
    assert [task.priority for task in found] == [story.get("priority") for story in stories]
    assert [len(task.criteria) for task in found] == [len(story["acceptanceCriteria"]) for story in stories]
    imported = taskjson.of_plan(Path("p.json"), text.encode())
    assert imported is not None
    now = progress.parse(progress.with_tasks(progress.fresh("p", "p.json", "now"), taskjson.lines(imported.tasks)))
    assert (now.done, now.stop, now.blocked, now.unclosed_fence) == (False, False, None, None)
    assert len(now.tasks) == len(stories)
