"""Plans in JSON that cannot be right: everything that is wrong, each at its place."""

import json
from pathlib import Path

import pytest
from ralph_driver import Project

from ralph import imports
from ralph.errors import RalphError

ONE_WORD = "an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
WORDS = "write pending, in_progress, done, complete or blocked"


def refusal(text: str | bytes, name: str = "r.json") -> list[str]:
    with pytest.raises(RalphError) as raised:
        imports.of_plan(Path("folder") / name, text if isinstance(text, bytes) else text.encode())
    assert raised.value.exit_code == 2
    return raised.value.message.splitlines()


NO_JSON = [
    pytest.param(
        '{"tasks": [\n  {"id": 1,}\n]}', "r.json:2:11: is no JSON: a comma too many before }", id="a comma too many"
    ),
    pytest.param(
        '{"tasks": [\n  {"id": 1}\n',
        "r.json:3:1: is no JSON: the file ends where a comma or ] is expected",
        id="an end too early",
    ),
    pytest.param(
        '{"tasks": [{"id": 1} {"id": 2}]}', "r.json:1:22: is no JSON: expected a comma or ], not {", id="no comma"
    ),
    pytest.param(
        "{'tasks': []}",
        'r.json:1:2: is no JSON: expected a name in "quotation marks", not \'',
        id="other quotation marks",
    ),
    pytest.param('{"tasks" []}', "r.json:1:10: is no JSON: expected a colon, not [", id="no colon"),
    pytest.param('{"tasks": [NaN]}', "r.json:1:12: is no JSON: expected a value, not NaN", id="no number"),
    pytest.param("hello world", "r.json:1:1: is no JSON: expected a value, not hello", id="a plan in words"),
    pytest.param(b"\xff", "r.json:1:1: is no JSON: expected a value", id="a byte that nobody can show"),
    pytest.param(
        '{"tasks": [01]}', "r.json:1:13: is no JSON: expected a comma or ], not 1", id="a number with a zero first"
    ),
    pytest.param('// all\n{"tasks": []}', "r.json:1:1: is no JSON: JSON has no comments", id="a comment"),
    pytest.param('{"tasks": []} x', "r.json:1:15: is no JSON: there is more after the end", id="more after the end"),
    pytest.param(
        '{"tasks": ["a\nb"]}',
        "r.json:1:14: is no JSON: a line break or control character within a string; write \\n",
        id="a line break in a string",
    ),
    pytest.param('{"tasks": ["ab]}', "r.json:1:12: is no JSON: a string that does not end", id="a string without end"),
    pytest.param(
        '{"tasks": ["\\x"]}', "r.json:1:13: is no JSON: a string that is not right", id="an escape that is none"
    ),
    pytest.param("[" * 300, "r.json:1:102: is no JSON: lists and objects are nested more than 100 deep", id="too deep"),
    pytest.param(
        "\ufeff{x}",
        'r.json:1:2: is no JSON: expected a name in "quotation marks", not x',
        id="a byte order mark is no column",
    ),
    pytest.param(b"\xff\xfe{\0}\0", "r.json: is not UTF-8; save it as UTF-8", id="another encoding"),
    pytest.param(" \n", "r.json:2:1: is no JSON: the file ends where a value is expected", id="nothing"),
]


@pytest.mark.parametrize(("text", "message"), NO_JSON)
def test_what_is_no_json_is_named_with_line_and_column(text: str | bytes, message: str) -> None:
    assert refusal(text) == [message]


WRONG = [
    pytest.param('{"requirements": {}}', ": requirements: must be a list, not an object", id="no list"),
    pytest.param('{"requirements": []}', "requirements: is empty; write what shall be built", id="an empty list"),
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "completed": true}]}',
        'tasks[0].completed: does not say that it is done; write "status": "done"',
        id="a word for done that no form has",
    ),
    pytest.param("[]", "the list: is empty; write what shall be built", id="an empty list alone"),
    pytest.param('["x"]', "[0]: must be an object, not a string", id="a string for a task"),
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
        "tasks[0].description: is empty; say what shall be built",
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
        'tasks[0].dependencies[0]: nothing could begin: "a" waits for "a"',
        id="waits for itself",
    ),
    pytest.param(
        '{"tasks": [{"id": "a", "description": "x", "subtasks": [{"id": "b", "title": "y", "dependencies": ["a"]}]}]}',
        'tasks[0].subtasks[0].dependencies[0]: nothing could begin: "a" waits for "b", "b" waits for "a"',
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
    pytest.param(
        '{"tasks": [{"id": 1, "description": "x", "id": 1}]}', "tasks[0].id: stands there twice", id="a name twice"
    ),
    pytest.param(
        '{"a": {"b": [{"c": 1, "c": 2}]}, "tasks": [{"id": 1, "description": "x"}]}',
        "a.b[0].c: stands there twice",
        id="a name twice elsewhere",
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
    messages = refusal(text)
    circles = [message for message in messages if "nothing could begin" in message]
    assert len(circles) == 2
    assert [message for message in messages if message not in circles] == [
        f'r.json:2: tasks[0].status: "fine" is no status; {WORDS}',
        "r.json:3: tasks[1].description: is missing; say what shall be built",
        'r.json:3: tasks[1].dependencies[1]: unknown id "zz"',
        f'r.json:4: tasks[2].id: "c d" is no id: {ONE_WORD}',
        "r.json:7: tasks[5]: must be an object, not a number",
    ]


def test_a_subtask_waits_for_what_its_task_waits_for() -> None:
    text = """{"tasks": [
      {"id": "a", "description": "x", "dependencies": ["c"], "subtasks": [{"id": "b", "title": "x"}]},
      {"id": "c", "description": "x", "dependencies": ["b"]}
    ]}"""
    (message,) = refusal(text)
    assert 'nothing could begin: "b" waits for "c", "c" waits for "b"' in message or '"c" waits for "b", "b"' in message


def test_a_file_in_json_that_is_no_task_list_says_what_would_be() -> None:
    for text in ('{"name": "shop"}', "3", '"x"'):
        (message,) = refusal(text)
        assert message.startswith("r.json: holds no task list; a plan in JSON is an object with the list")


def test_a_long_chain_is_no_circle_and_takes_no_time() -> None:
    chain = [{"id": place, "description": "x", "dependencies": [place - 1] if place else []} for place in range(3000)]
    assert imports.of_plan(Path("r.json"), json.dumps({"tasks": chain}).encode()) is not None


IN_MARKDOWN = [
    pytest.param(
        '# Plan\n\n```json\n{"userStories": [\n  {"id": 1, "title": "x", "passes": "no"}\n]}\n```\n',
        "p.md:5: userStories[0].passes: must be true or false, not a string; "
        "a block that is only an example is begun with ```text",
        id="a value",
    ),
    pytest.param(
        '# Plan\n\n```json\n[{"description": "x", "passes": false},]\n```\n',
        "p.md:4:39: is no JSON: a comma too many before ]; a block that is only an example is begun with ```text",
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
