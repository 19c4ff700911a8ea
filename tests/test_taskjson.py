"""Plans in JSON: what they become in the Task List, and everything that is wrong with one, each at its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import Project

from ralph import files, progress, taskjson, tasks
from ralph.errors import RalphError
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


def imported(text: str, name: str = "plan.json") -> Imported:
    found = taskjson.of_plan(Path(name), text.encode(errors="surrogateescape"))
    assert found is not None
    return found


def listed(text: str, name: str = "plan.json") -> str:
    return b"\n".join(tasks.lines(imported(text, name).tasks)).decode(errors="surrogateescape")


def read(text: str) -> tuple[Task, ...]:
    """What strict mode reads of a progress file that they came into."""
    fresh = progress.fresh("plan", "plan.json", "2026-11-20 22:14:03")
    return tasks.read(progress.with_tasks(fresh, tasks.lines(imported(text).tasks)))


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
def test_each_form_is_told_by_its_shape_and_read_from_the_list_as_it_was_said(text: str, form: str, lines: str) -> None:
    assert imported(text).form == form
    assert listed(text) == lines
    assert list(read(text)) == imported(text).tasks


def test_numbers_are_ids_as_they_are_spelled() -> None:
    text = '{"tasks": [{"id": 1.1, "description": "x"}, {"id": 1.10, "description": "y", "dependencies": [1.1]}]}'
    assert [(task.id, task.after) for task in read(text)] == [("1.1", ()), ("1.10", ("1.1",))]


def test_a_status_counts_for_more_than_a_word_of_another_form() -> None:
    text = '{"requirements": [{"id": 1, "requirement": "x", "status": "pending", "passes": true}]}'
    assert read(text)[0].mark == " "


def test_words_are_told_as_words() -> None:
    text = json.dumps(
        [
            {"description": "Login: add it", "passes": False, "steps": ["Run `grep 'a  b' c`\n- exits with\r\ncode 0"]},
            {"description": "Login: test it", "passes": False},
            {"title": "Red\x1b[31m\u202e\0", "passes": False, "steps": ["See \x9b2J\x00 it"]},
            {"title": "Short", "description": "many words " * 100, "passes": False},
        ]
    )
    add, test, red, short = read(text)
    assert [(task.id, task.text) for task in (add, test)] == [
        ("login_add_it", "Login: add it"),
        ("login_test_it", "Login: test it"),
    ]
    assert add.criteria == ("Run `grep 'a  b' c` - exits with code 0",), "a command keeps its blanks"
    assert (red.text, red.criteria) == ("Red[31m", ("See 2J it",)), "and nothing steers a terminal"
    assert short.text.startswith("Short (many words")
    assert (short.text.endswith("…"), len(short.text) <= 300) == (True, True)


@pytest.mark.parametrize(
    ("title", "description", "text"),
    [
        pytest.param("Log in", "Log in with a key", "Log in with a key", id="the description goes on"),
        pytest.param("Log in", "As a user", "Log in (As a user)", id="both"),
        pytest.param("Log in…", "Log in with a key", "Log in with a key", id="a title that was cut"),
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
        pytest.param('```json\n{"tasks": [{"id": 1, "title": "Buy milk", "status": "open"}]}\n```\n', id="an example"),
        pytest.param("```json\n{ ... }\n```\n", id="no JSON at all"),
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


class TestWhatTheFileHasAndTheTaskListHasNot:
    FILE = """{"tasks": [
        {"id": 1, "description": "Log in", "status": "done"},
        {"id": 2, "description": "Log out", "subtasks": [{"id": "c", "description": "The button"}]},
        {"id": 3, "description": "Forget", "status": "done"}]}"""

    @pytest.mark.parametrize(
        ("lines", "missing"),
        [
            pytest.param("- [x] 1: Log in\n- [ ] 2: Log out\n  - [ ] c: The button", (), id="nothing"),
            pytest.param("- [x] 1: Log in\n- [x] 2: Off", ("c",), id="a subtask"),
            pytest.param("- [x] 1: Log in", ("2", "c"), id="a task with its subtask"),
            pytest.param("- [ ] Log out\n  - [ ] c: The button", (), id="nothing, where a person took the id away"),
        ],
    )
    def test_is_known_by_id_and_by_words(self, lines: str, missing: tuple[str, ...]) -> None:
        told = taskjson.left_out(imported(self.FILE), f"# Tasks\n\n{lines}\n".encode(), Path("r_PROGRESS.md"))
        assert tuple(told[0].partition("not built: ")[2].split(", ")) == missing if missing else told == ()

    def test_is_said_with_what_to_do(self) -> None:
        assert "; ".join(taskjson.left_out(imported(self.FILE), b"", Path("r_PROGRESS.md"))) == (
            "2 tasks of plan.json are not in the Task List, and not built: 2, c; "
            "to have them built, write them there, in r_PROGRESS.md, such as `- [ ] 2: Log out`"
        )

    def test_is_not_said_of_hundreds(self) -> None:
        text = json.dumps({"tasks": [{"id": place, "description": "x " * 99} for place in range(300)]})
        said = "; ".join(taskjson.left_out(imported(text), b"", Path("r_PROGRESS.md")))
        assert (len(said) < 300, "0, 1, 2, 3, 4 and 295 more;" in said) == (True, True)


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
    ("path", "name"), [("a/b/feature.md", "feature"), ("v1.json.md", "v1.json"), ("v1.md.json", "v1.md"), ("x", "x")]
)
def test_the_name_of_a_plan_is_without_its_kind(path: str, name: str) -> None:
    assert files.plan_name(Path(path)) == name


def test_bytes_that_are_no_utf8_come_into_the_list_as_they_are() -> None:
    found = taskjson.of_plan(Path("p.json"), b'\xef\xbb\xbf[{"description": "caf\xe9", "passes": false}]\r\n')
    assert found is not None
    assert tasks.lines(found.tasks) == [b"- [ ] caf: caf\xe9"]


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
    now = progress.parse(progress.with_tasks(progress.fresh("p", "p.json", "now"), tasks.lines(imported(text).tasks)))
    assert (now.done, now.stop, now.blocked, now.unclosed_fence) == (False, False, None, None)
    assert len(now.tasks) == len(stories)


# What is refused.

ONE_WORD = "an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
WORDS_FOR_IT = "write pending, in_progress, done, complete or blocked"


def refusal(text: str | bytes, name: str = "r.json") -> list[str]:
    with pytest.raises(RalphError) as raised:
        taskjson.of_plan(Path("folder") / name, text if isinstance(text, bytes) else text.encode())
    assert raised.value.exit_code == 2
    return raised.value.message.splitlines()


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        pytest.param('{"tasks": [\n  {"id": 1,}\n]}', "r.json:2:", id="a comma too many"),
        pytest.param('{"tasks": [{"id": 1} {"id": 2}]}', "r.json:1:22: ", id="no comma"),
        pytest.param("hello world", "r.json:1:1: ", id="a plan in words"),
        pytest.param(b"\xff\xfe{\0}\0", "r.json:1:1: ", id="another encoding"),
        pytest.param("[" * 100_000, "r.json: ", id="too deep"),
        pytest.param(" \n", "r.json:2:1: ", id="nothing"),
    ],
)
def test_what_is_no_json_is_named_with_line_and_column(text: str | bytes, begin: str) -> None:
    (message,) = refusal(text)
    assert message.startswith(f"{begin.removesuffix(' ')} is no JSON: " if begin.endswith(" ") else begin)


def of(**fields: Any) -> str:
    """A list with one task, which has these fields besides."""
    return json.dumps({"tasks": [{"id": 1, "description": "x", **fields}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (of(completed=True), 'tasks[0].completed: does not say that it is done; write "status": "done"'),
        (of(description=None), "tasks[0]: has no description; say what shall be built"),
        ('{"userStories": [{"title": ["x"]}]}', "userStories[0].title: must be a string, not a list"),
        (of(subtasks=[{"id": 2, "title": "y"}, {"title": "z"}]), "tasks[0].subtasks[1].id: is missing, though others"),
        (of(id="a b"), f'tasks[0].id: "a b" {ONE_WORD.replace("an id is", "is no id: an id is")}'),
        (of(subtasks=[{"id": "1", "title": "y"}]), 'tasks[0].subtasks[0].id: "1" is the id of line 1 too'),
        (of(status="fine"), f'tasks[0].status: "fine" is no status; {WORDS_FOR_IT}'),
        ('{"userStories": [{"title": "x", "passes": "no"}]}', 'userStories[0].passes: must be true or false, not "no"'),
        (of(priority="soon"), 'tasks[0].priority: "soon" is no priority; write a whole number, 1 for the first'),
        (of(dependencies=["x"]), 'tasks[0].dependencies[0]: unknown id "x"'),
        (of(verification_criteria=[" "]), 'tasks[0].verification_criteria[0]: must be what has to hold, not " "'),
        (of(subtasks=[7]), "tasks[0].subtasks[0]: must be an object, not 7"),
        (of(subtasks="y"), 'tasks[0].subtasks: must be a list, not "y"'),
    ],
)
def test_what_is_wrong_is_named_at_its_path(text: str, message: str) -> None:
    (said,) = refusal(text)
    assert said.startswith(f"r.json:1: {message}")


def test_everything_is_named_at_once_in_the_order_of_the_file() -> None:
    text = """{"tasks": [
      {"id": "a", "description": "x", "dependencies": ["b"], "status": "fine"},
      {"id": "b", "dependencies": ["a", "zz"]},
      {"id": "c d", "description": "x"},
      7
    ]}"""
    assert refusal(text) == [
        "r.json:1: tasks[3]: must be an object, not 7",
        f'r.json:2: tasks[0].status: "fine" is no status; {WORDS_FOR_IT}',
        "r.json:3: tasks[1]: has no description; say what shall be built",
        'r.json:3: tasks[1].dependencies[1]: unknown id "zz"',
        f'r.json:4: tasks[2].id: "c d" {ONE_WORD.replace("an id is", "is no id: an id is")}',
    ]


def test_what_waits_for_itself_is_named_with_its_lines() -> None:
    text = """{"tasks": [
      {"id": "a", "description": "x", "dependencies": ["c"], "subtasks": [{"id": "b", "title": "x"}]},
      {"id": "c", "description": "x", "dependencies": ["b"]}
    ]}"""
    assert refusal(text) == ["r.json: lines 2, 3: a, b, c wait for each other"]
    chain = [{"id": place, "description": "x", "dependencies": [place - 1] if place else []} for place in range(1500)]
    assert taskjson.of_plan(Path("r.json"), json.dumps({"tasks": chain}).encode()) is not None


def test_a_file_in_json_that_is_no_task_list_or_two_says_what_would_be() -> None:
    for text in ('{"name": "shop"}', "3", "[]", '["x"]', '{"requirements": {}}', '{"requirements": []}'):
        (message,) = refusal(text)
        assert message.startswith("r.json: holds no task list; a plan in JSON is an object with the list")
    (message,) = refusal('{"requirements": [{"id": 1}],\n "userStories": [{"id": "x", "title": "X"}]}')
    assert message == "r.json: holds 2 task lists: userStories, requirements; leave one"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            '# Plan\n\n```json\n{"userStories": [\n  {"id": 1, "title": "x", "passes": "no"}\n]}\n```\n',
            'p.md:5: userStories[0].passes: must be true or false, not "no"; ',
            id="a value",
        ),
        pytest.param('# Plan\n\n```json\n[{"description": "x", "passes": false},]\n```\n', "p.md:4:", id="broken JSON"),
        pytest.param(
            '```json\n[{"title": "x", "passes": false}]\n```\n~~~json\n[{"title": "y", "passes": false}]\n~~~',
            "p.md: holds 2 task lists in JSON, at lines 1, 4; leave one; ",
            id="two of them",
        ),
        pytest.param(
            '```json ralph\n{"name": "shop"}\n```\n', "p.md:1: holds no task list; ", id="one that says it is"
        ),
    ],
)
def test_what_is_wrong_in_a_block_is_named_with_the_line_of_the_plan(text: str, message: str) -> None:
    (said,) = refusal(text, "p.md")
    assert said.startswith(message)
    assert said.endswith("; a block that is only an example is begun with ```text")


def test_a_start_on_a_broken_file_costs_nothing_and_says_it_all(project: Project) -> None:
    (project.root / "r.json").write_text('{"requirements": [{"id": 1}, {"id": 1, "requirement": "x"}]}')
    run = project.ralph("r.json")
    assert run.code == 2
    assert run.stderr.splitlines() == [
        "ralph: r.json:1: requirements[0]: has no description; say what shall be built",
        'ralph: r.json:1: requirements[1].id: "1" is the id of line 1 too',
    ]
    assert not (project.root / "r_PROGRESS.md").exists()
