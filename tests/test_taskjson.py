"""Plans in JSON: what they become in the Task List, and everything that is wrong with one, each at its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import Project
from stories import Agent, runs, tries, writes

from ralph.errors import RalphError
from ralph.plan import taskjson
from ralph.plan.taskjson import ImportedTasks

PRD = """{
  "project": "Shop", "branchName": "ralph/shop", "description": "A shop",
  "userStories": [
    {"id": "T-001", "title": "Add the cart", "description": "People collect what they want to buy.",
     "acceptanceCriteria": ["File `src/cart.py` exists"], "priority": 1, "passes": false, "notes": "", "subtasks": [
       {"id": "T-001.1", "title": "Model", "acceptanceCriteria": ["File `cart.sql` exists"], "passes": true},
       {"id": "T-001.2", "title": "View", "acceptanceCriteria": [], "passes": false}
     ]},
    {"id": "US-001", "title": "Log in", "description": "As a user I log in", "status": "approved", "notes": "",
     "acceptanceCriteria": ["POST /login returns 200", {"description": "Typecheck passes", "passes": false}],
     "priority": "high", "passes": true},
    {"id": "US-002", "title": "Log out", "passes": null, "priority": null, "dependsOn": ["US-001"]},
    {"id": "US-003", "title": "Pay", "passes": false, "status": "blocked", "blockers": ["no key"]}
  ]
}"""
LISTED = """- [ ] T-001: Add the cart
  - priority: 1
  - verify: File `src/cart.py` exists
  - [x] T-001.1: Model
    - verify: File `cart.sql` exists
  - [ ] T-001.2: View
- [x] US-001: Log in
  - priority: 2
  - verify: POST /login returns 200
  - verify: Typecheck passes
- [ ] US-002: Log out
  - after: US-001
- [!] US-003: Pay"""


def imported(text: str, name: str = "plan.json") -> ImportedTasks:
    found = taskjson.find_task_list(Path(name), text.encode(errors="surrogateescape"))
    assert found is not None
    return found


def listed(text: str, name: str = "plan.json") -> str:
    return b"\n".join(imported(text, name).lines).decode(errors="surrogateescape")


def test_each_form_is_known_by_its_shape_and_words_as_words() -> None:
    assert (imported(PRD).form, listed(PRD)) == ("prd", LISTED)
    steps = ["Run `grep 'a  b' c`\n- exits with\r\ncode 0"]
    add = {"description": "Login: add it", "done": True, "steps": steps}
    first, second = imported(json.dumps([add, {"description": "many words " * 100, "passes": False}])).tasks
    assert (first.id, first.text, first.mark) == ("login_add_it", "Login: add it", "x")
    assert first.note_values("verify") == ["Run `grep 'a  b' c` - exits with code 0"], "a command keeps its blanks"
    assert (second.text[-1], len(second.text)) == ("…", 300)
    text = '{"tasks": [{"id": 1.1, "description": "x"}, {"id": 1.10, "description": "y", "dependencies": [1.1]}]}'
    assert listed(text) == "- [ ] 1.1: x\n- [ ] 1.10: y\n  - after: 1.1", "ids as they are spelled"
    assert listed('\ufeff[{"id": 1, "title": "x", "passes": false}]') == "- [ ] 1: x"
    assert imported('[{"description": "caf\udce9", "passes": false}]').lines == [b"- [ ] caf: caf\xe9"]


MARKDOWN = """# A shop

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


def test_a_plan_in_markdown_may_hold_one_as_a_block() -> None:
    for text in (MARKDOWN, MARKDOWN.replace("\n", "\r\n")):
        assert listed(text, "plan.md") == "- [ ] US-001: Log in"
        assert imported(text, "plan.md").place == "plan.md:17"
    block = '```json ralph\n{"tasks": [{"id": "a", "description": "Yes", "priority": 1, "status": "pending"}]}\n```\n'
    assert listed(block, "plan.md") == "- [ ] a: Yes\n  - priority: 1", "one that says it is one is one"
    assert taskjson.find_task_list(Path("plan.md"), b"```json\n{ ... }\n```\n") is None


# What is refused, and whole runs.


def of(**fields: Any) -> str:
    """A list with one task, which has these fields besides."""
    return json.dumps({"tasks": [{"id": 1, "description": "x", **fields}]})


BLOCK = '# P\n\n```json\n[{"title": "x", "passes": false}]\n```\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tasks": [\n  {"id" 1}\n]}', "r.json: not JSON that can be read: Expecting ':' delimiter: line 2 "),
        (f'[{{"id": {"1" * 5000}}}]', "r.json: not JSON that can be read: "),
        ('{"tasks": [{"id": 1}], "stories": [{"id": 1}]}', "r.json: holds no task list, or several; "),
        (of(id="a b"), "r.json:1: tasks[0].id: must be one word of at most 64 letters, digits, _ . and -"),
        (of(priority="soon"), "r.json:1: tasks[0].priority: must be a whole number, "),
        (of(steps=[7.5, {}]), "r.json:1: tasks[0].steps: must be a list of what has to hold"),
        (of(subtasks=[7]), "r.json:1: tasks[0].subtasks: must be a list of tasks"),
        (BLOCK.replace("false", '"no"'), "p.md:4: [0].passes: must be true, false, pending, in_progress, "),
        (BLOCK.replace("}", ""), "p.md: not JSON that can be read: Expecting ',' delimiter: line 4 "),
        (BLOCK * 2, "p.md:3, p.md:8: are several task lists in JSON; leave one; "),
        ('```json ralph\n{"name": "shop"}\n```\n', "p.md:1: holds no task list, or several; "),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_path(text: str, message: str) -> None:
    with pytest.raises(RalphError) as raised:
        taskjson.find_task_list(Path("folder", message.partition(":")[0]), text.encode())
    assert (raised.value.exit_code, raised.value.message[: len(message)]) == (2, message)


def test_a_plan_in_json_costs_nothing_while_it_is_wrong_is_never_written_to_and_what_is_added_is_reported(
    project: Project, agent: Agent
) -> None:
    one = {"id": "one", "requirement": "one.txt exists", "status": "pending", "mine": 1}
    two = {"id": "two", "requirement": "two.txt exists", "status": "pending", "subtasks": [{"id": "c", "title": "C"}]}
    build = ("r.json", "build", "--delay", "0")
    plan = project.root / "r.json"
    (project.root / "link.json").symlink_to(plan)
    plan.write_text(json.dumps({"requirements": [{"id": "y"}, {**one, "dependencies": ["y", "zz"]}]}))
    broken = project.ralph(*build)
    assert (broken.code, (project.root / "r_PROGRESS.md").exists()) == (2, False)
    assert broken.stderr.splitlines() == [
        "ralph: r.json:1: requirements[0]: has no description; say what to build",
        "ralph: r.json: line 1: one comes after zz, which is not a task",
    ]
    plan.write_text(json.dumps({"requirements": [one]}))
    agent.story(tries(), tries(writes("one.txt", "1")))
    first = project.ralph(*build, "--max-iterations", "1")
    assert first.code == 3, first.text
    assert "1 task taken from r.json into the Task List" in first.stderr
    text = json.dumps({"requirements": [one, two, {**two, "id": "three", "status": "done", "subtasks": []}]})
    plan.write_text(text)
    for file in ("link.json", "r_PROGRESS.md", "."):
        run = project.ralph(*build, "--history", file)
        assert (run.code, "a file of its own such as attempts.jsonl" in run.stderr) == (2, True), run.text
    second = project.ralph(*build)
    assert second.code == 0, second.text
    told = "2 tasks of r.json not in the Task List, and so not built: two, c; describe there what to build"
    assert told in second.stderr
    assert "`- [ ] two: …`" in project.ralph_tty("r.json", "build", "--strict").stdout
    assert plan.read_text() == text
    assert project.ralph("export", "r.json").stdout == text.replace("pending", "done", 1)


def test_the_usage_line_of_ralph1_works_as_written(project: Project, agent: Agent) -> None:
    """It selects, commits, restores, writes the history, and says in the file what is done: there and nowhere else."""
    plan = project.root / "r.json"
    text = '{ "requirements" :[\r\n' + ",\n".join(
        f'{{"id":{n},\t"status" : "pending","requirement":"{n}"}}' for n in "123"
    )
    plan.write_bytes(f"{text}]}}".encode())
    project.commits("the requirements")
    agent.story(
        tries(writes("1.txt", "1"), writes("r.json", "[]")),
        tries(writes("junk.txt", "1"), signals=""),
        tries(runs("grep -q done r.json"), writes("3.txt", "1")),
        tries(writes("2.txt", "1")),
    )
    words = "--duration=4h --requirements=r.json --history=h.jsonl --model=sonnet --reasoning=med --no-spinner"
    run = project.ralph(*words.split(), "--delay", "0")
    assert run.code == 0, run.text
    assert "--model sonnet --effort medium" in " ".join(agent.calls[0].argv)
    assert plan.read_bytes().decode() == text.replace("pending", "done") + "]}"
    assert project.git("show", "HEAD:r.json").count("done") == 3
    assert project.ralph(*words.split()).text == "", "nothing has changed since"
    assert project.git("log", "--format=%s").startswith("2: Did it\n3: Did it\n1: Did it\n")
    assert (project.root / "junk.txt").exists() is False
    tried = [json.loads(line) for line in (project.root / "h.jsonl").read_text().splitlines()]
    assert [(one["requirement_id"], one["success"]) for one in tried] == [
        ("1", True),
        ("2", False),
        ("3", True),
        ("2", True),
    ]
    plain = project.ralph("--requirements", "r.json", "--no-strict", "--dry-run", "--progress-file", "p.md")
    assert (plain.code, "task-done" in plain.stdout) == (0, False)
