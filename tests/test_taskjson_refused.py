"""Plans in JSON that cannot be right: everything that is wrong, each at its place."""

import json
import re
from pathlib import Path

import pytest
from ralph_driver import Project

from ralph import taskjson
from ralph.errors import RalphError

ONE_WORD = "an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
WORDS = "write pending, in_progress, done, complete or blocked"


def refusal(text: str | bytes, name: str = "r.json") -> list[str]:
    with pytest.raises(RalphError) as raised:
        taskjson.of_plan(Path("folder") / name, text if isinstance(text, bytes) else text.encode())
    assert raised.value.exit_code == 2
    return raised.value.message.splitlines()


NO_JSON = [
    pytest.param('{"tasks": [\n  {"id": 1,}\n]}', "r.json:2:", id="a comma too many"),
    pytest.param('{"tasks": [\n  {"id": 1}\n', "r.json:3:1: ", id="an end too early"),
    pytest.param('{"tasks": [{"id": 1} {"id": 2}]}', "r.json:1:22: ", id="no comma"),
    pytest.param("{'tasks': []}", "r.json:1:2: ", id="other quotation marks"),
    pytest.param('{"tasks" []}', "r.json:1:10: ", id="no colon"),
    pytest.param('{"tasks": [NaN]}', "r.json: is no JSON: NaN is no number", id="no number"),
    pytest.param("hello world", "r.json:1:1: ", id="a plan in words"),
    pytest.param(b"\xff", "r.json:1:1: ", id="a byte that nobody can show"),
    pytest.param('{"tasks": [01]}', "r.json:1:13: ", id="a number with a zero first"),
    pytest.param('// all\n{"tasks": []}', "r.json:1:1: ", id="a comment"),
    pytest.param('{"tasks": []} x', "r.json:1:15: ", id="more after the end"),
    pytest.param('{"tasks": ["a\nb"]}', "r.json:1:14: ", id="a line break in a string"),
    pytest.param('{"tasks": ["ab]}', "r.json:1:12: ", id="a string without end"),
    pytest.param('{"tasks": ["\\x"]}', "r.json:1:13: ", id="an escape that is none"),
    pytest.param("[" * 100_000, "r.json: is no JSON: ", id="too deep"),
    pytest.param(f'{{"tasks": [{"1" * 5000}]}}', "r.json: is no JSON: ", id="a number of 5,000 digits"),
    pytest.param(" \n", "r.json:2:1: ", id="nothing"),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x",\n "id": 1}]}',
        'r.json:2:8: is no JSON: "id" stands there twice',
        id="a name twice",
    ),
    pytest.param(
        '{"a": {"b": [{"c": 1, "c": 2}]}, "tasks": [{"id": 1, "description": "x"}]}',
        'r.json:1:28: is no JSON: "c" stands there twice',
        id="a name twice elsewhere",
    ),
]


@pytest.mark.parametrize(("text", "begin"), NO_JSON)
def test_what_is_no_json_is_named_with_line_and_column(text: str | bytes, begin: str) -> None:
    (message,) = refusal(text)
    assert message.startswith(begin)
    assert re.search(": is no JSON: .+", message)


def test_another_encoding_is_told() -> None:
    assert refusal(b"\xff\xfe{\0}\0") == ["r.json: is not UTF-8; save it as UTF-8"]


WRONG = [
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "completed": true}]}',
        'tasks[0].completed: does not say that it is done; write "status": "done"',
        id="a word for done that no form has",
    ),
    pytest.param(
        '{"requirements": [{"id": 1}]}',
        "requirements[0].requirement: is missing; say what shall be built",
        id="no words",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": null}]}',
        "tasks[0].description: is missing; say what shall be built",
        id="null for words",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": " "}]}',
        "tasks[0].description: is missing; say what shall be built",
        id="blank words",
    ),
    pytest.param(
        '{"userStories": [{"id": 1, "title": ["x"]}]}',
        "userStories[0].title: must be a string, not a list",
        id="a list for words",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x"}, {"description": "y"}]}',
        "tasks[1].id: is missing, though others have one",
        id="an id is missing",
    ),
    pytest.param(
        '{"tasks": [{"id": "a b", "description": "x"}]}',
        f'tasks[0].id: "a b" is no id: {ONE_WORD}',
        id="an id of two words",
    ),
    pytest.param(
        '{"tasks": [{"id": "#1", "description": "x"}]}',
        f'tasks[0].id: "#1" is no id: {ONE_WORD}',
        id="an id with a sign",
    ),
    pytest.param(
        '{"tasks": [{"id": -1, "description": "x"}]}', f'tasks[0].id: "-1" is no id: {ONE_WORD}', id="a negative id"
    ),
    pytest.param(
        '{"tasks": [{"id": true, "description": "x"}]}',
        "tasks[0].id: must be a string or a whole number, not true",
        id="an id that is true",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x"}, {"id": "1", "description": "y"}]}',
        'tasks[1].id: "1" is the id of tasks[0] too',
        id="an id twice, as number and string",
    ),
    pytest.param(
        '{"tasks": [{"id": "a", "description": "x", "subtasks": [{"id": "a", "title": "y"}]}]}',
        'tasks[0].subtasks[0].id: "a" is the id of tasks[0] too',
        id="the id of a subtask",
    ),
    pytest.param(
        '{"requirements": [{"id": 1, "requirement": "x", "status": "fine"}]}',
        f'requirements[0].status: "fine" is no status; {WORDS}',
        id="a status that is none",
    ),
    pytest.param(
        '{"requirements": [{"id": 1, "requirement": "x", "status": true}]}',
        f"requirements[0].status: true is no status; {WORDS}",
        id="a status that is no word",
    ),
    pytest.param(
        '{"userStories": [{"title": "x", "passes": "no"}]}',
        "userStories[0].passes: must be true or false, not a string",
        id="passes in words",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "priority": "soon"}]}',
        'tasks[0].priority: "soon" is no priority; write a whole number, 1 for the first',
        id="a priority in words",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "priority": 1.5}]}',
        "tasks[0].priority: 1.5 is no priority; write a whole number, 1 for the first",
        id="half a priority",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "dependencies": "a"}]}',
        "tasks[0].dependencies: must be a list, not a string",
        id="dependencies in words",
    ),
    pytest.param(
        '{"requirements": [{"id": 1, "requirement": "x", "dependencies": ["x"]}]}',
        'requirements[0].dependencies[0]: unknown id "x"',
        id="an unknown dependency",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "dependencies": [null]}]}',
        "tasks[0].dependencies[0]: must be a string or a whole number, not null",
        id="no dependency",
    ),
    pytest.param(
        '{"tasks": [{"id": "a", "description": "x", "dependencies": ["a"]}]}',
        "tasks[0]: nothing could begin: a waits for itself",
        id="waits for itself",
    ),
    pytest.param(
        '{"tasks": [{"id": "a", "description": "x", "subtasks": [{"id": "b", "title": "y", "dependencies": ["a"]}]}]}',
        "tasks[0]: nothing could begin: a, b wait for each other",
        id="waits for what it is part of",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "verification_criteria": [3]}]}',
        "tasks[0].verification_criteria[0]: must be a string, not a number",
        id="a criterion that is a number",
    ),
    pytest.param(
        '{"userStories": [{"title": "x", "acceptanceCriteria": [{"text": " "}]}]}',
        "userStories[0].acceptanceCriteria[0].text: is empty; say what must hold",
        id="an empty criterion",
    ),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "subtasks": "y"}]}',
        "tasks[0].subtasks: must be a list, not a string",
        id="subtasks in words",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_named_at_its_path(text: str, message: str) -> None:
    assert refusal(text) == [f"r.json{message}" if message[:1] == ":" else f"r.json:1: {message}"]


def test_everything_is_named_at_once_in_the_order_of_the_file() -> None:
    text = """{"tasks": [
      {"id": "a", "description": "x", "dependencies": ["b"], "status": "fine"},
      {"id": "b", "dependencies": ["a", "zz"]},
      {"id": "c d", "description": "x", "dependencies": ["e"]},
      {"id": "e", "description": "x", "dependencies": ["f"]},
      {"id": "f", "description": "x", "dependencies": ["e"]},
      7
    ]}"""
    assert refusal(text) == [
        f'r.json:2: tasks[0].status: "fine" is no status; {WORDS}',
        "r.json:3: tasks[1].description: is missing; say what shall be built",
        'r.json:3: tasks[1].dependencies[1]: unknown id "zz"',
        f'r.json:4: tasks[2].id: "c d" is no id: {ONE_WORD}',
        "r.json:6: tasks[5]: must be an object, not a number",
    ]


def test_a_subtask_waits_for_what_its_task_waits_for() -> None:
    text = """{"tasks": [
      {"id": "a", "description": "x", "dependencies": ["c"], "subtasks": [{"id": "b", "title": "x"}]},
      {"id": "c", "description": "x", "dependencies": ["b"]}
    ]}"""
    (message,) = refusal(text)
    assert message == "r.json:2: tasks[0]: nothing could begin: a, b, c wait for each other"


def test_a_file_in_json_that_is_no_task_list_says_what_would_be() -> None:
    for text in ('{"name": "shop"}', "3", '"x"', "[]", '["x"]', '{"requirements": {}}', '{"requirements": []}'):
        (message,) = refusal(text)
        assert message.startswith("r.json: holds no task list; a plan in JSON is an object with the list")


def test_a_long_chain_is_no_circle_and_takes_no_time() -> None:
    chain = [{"id": place, "description": "x", "dependencies": [place - 1] if place else []} for place in range(3000)]
    assert taskjson.of_plan(Path("r.json"), json.dumps({"tasks": chain}).encode()) is not None


IN_MARKDOWN = [
    pytest.param(
        '# Plan\n\n```json\n{"userStories": [\n  {"id": 1, "title": "x", "passes": "no"}\n]}\n```\n',
        "p.md:5: userStories[0].passes: must be true or false, not a string; "
        "a block that is only an example is begun with ```text",
        id="a value",
    ),
    pytest.param(
        '# Plan\n\n```json\n[{"description": "x", "passes": false},]\n```\n',
        "p.md:4:",
        id="JSON that is broken",
    ),
    pytest.param(
        '```json\n[{"title": "x", "passes": false}]\n```\n\n~~~json\n[{"title": "y", "passes": false}]\n~~~\n',
        "p.md: holds 2 task lists in JSON, at lines 1, 5; leave one; "
        "a block that is only an example is begun with ```text",
        id="two of them",
    ),
    pytest.param(
        '```json ralph\n{"name": "shop"}\n```\n',
        "p.md:1: holds no task list; a plan in JSON is an object with the list",
        id="one that says it is one",
    ),
    pytest.param(
        '\n```json\n{"tasks": [{"id": 1, "title": "x", "dependencies": []}], "userStories": [{"id": 2}]}\n```\n',
        "p.md:2: holds 2 task lists: tasks, userStories; leave one; a block that is only",
        id="a block with two lists",
    ),
]


@pytest.mark.parametrize(("text", "message"), IN_MARKDOWN)
def test_what_is_wrong_in_a_block_is_named_with_the_line_of_the_plan(text: str, message: str) -> None:
    (said,) = refusal(text, "p.md")
    assert said.startswith(message)
    assert said.endswith("; a block that is only an example is begun with ```text")


def test_two_lists_in_one_file_are_refused_since_one_of_them_would_be_lost() -> None:
    (message,) = refusal('{"requirements": [{"id": 1}],\n "userStories": [{"id": "x", "title": "X"}]}')
    assert message == "r.json: holds 2 task lists: requirements, userStories; leave one"


def test_a_start_on_a_broken_file_costs_nothing_and_says_it_all(project: Project) -> None:
    (project.root / "r.json").write_text('{"requirements": [{"id": 1}, {"id": 1, "requirement": "x"}]}')
    run = project.ralph("r.json")
    assert run.code == 2
    assert run.stderr.splitlines() == [
        "ralph: r.json:1: requirements[0].requirement: is missing; say what shall be built",
        'ralph: r.json:1: requirements[1].id: "1" is the id of requirements[0] too',
    ]
    assert not (project.root / "r_PROGRESS.md").exists()
