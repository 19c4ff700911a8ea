"""`ralph mcp PLAN`: the task list as tools, called by the official client of the protocol."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from forks import PYTHON
from ralph_driver import Project, progress_text
from real_agents import Play, uses
from scripted_model import Reply, Tool
from stories import Agent, init, raw, result, tool, tool_result, writes

Call = Callable[..., Awaitable[Any]]
NAMES = """
get_next_task mark_task_in_progress mark_task_complete mark_task_blocked append_learning
get_plan_summary get_state_summary add_task increment_retry update_memory
"""
TOOLS = [f"ralph_{name}" for name in NAMES.split()]


def served(project: Project, story: Callable[[Call], Awaitable[None]], *options: str) -> None:
    """Plays the story with a client of `ralph mcp feature.md`; a call gives what it came to, an error its text."""
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415 - it takes more than a second

    args = ["-m", "ralph", "mcp", "feature.md", *options]
    server = StdioServerParameters(command=PYTHON[0], args=[*PYTHON[1:], *args], env=project.env, cwd=project.root)

    async def play() -> None:
        async with Client(stdio_client(server)) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == TOOLS

            async def call(name: str, **arguments: object) -> Any:
                result = await client.call_tool(f"ralph_{name}", arguments)
                return getattr(result.content[0], "text", "") if result.is_error else result.structured_content

            await story(call)

    asyncio.run(play())


def calls(project: Project) -> list[dict[str, Any]]:
    """The lines of the journal that are calls."""
    return [line for line in project.journal() if line["event"] == "tool"]


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", text)


def test_an_agent_works_through_a_plan_with_the_ten_tools(project: Project) -> None:
    """Errors are said in words and change nothing; tries are bounded."""
    (project.root / ".ralph.env").write_text("RALPH_MAX_TRIES=2\n")

    async def story(call: Call) -> None:
        assert "there is no task in the list" in (await call("get_next_task"))["why"]
        login = await call("add_task", description="Add the login: page", verification_criteria=["`true`"], priority=2)
        assert login == {"task_id": "add_login_page", "status": "pending"}
        await call("add_task", description="Log\nout", dependencies=["add_login_page"])
        before = project.progress_text
        with_a_part = before.replace("Log out\n", "Log out\n  - [ ] part: of it\n")
        project.progress.write_text(with_a_part)
        for name, arguments, why in (
            ("mark_task_complete", {"task_id": "four"}, "there is no task four; there are: add_login_page, log_out"),
            ("mark_task_complete", {"task_id": "log_out"}, "log_out waits for add_login_page, part"),
            ("add_task", {"description": "five", "dependencies": ["six"]}, "five comes after six, which is not a task"),
            ("add_task", {"description": " \n"}, "there is no text"),
            ("append_learning", {"learning": "x", "category": "gossip"}, "'pattern', 'antipattern'"),
        ):
            assert why in await call(name, **arguments), name
        assert project.progress_text == with_a_part
        project.progress.write_text(before)
        task = (await call("get_next_task"))["task"]
        told = {"description": "Add the login: page", "priority": 2, "verification_criteria": ["`true`"], "why": []}
        assert task == {"id": "add_login_page", "status": "pending", "dependencies": [], "retry_count": 0, **told}
        assert (await call("mark_task_in_progress", task_id="add_login_page"))["status"] == "in_progress"
        assert (await call("increment_retry", task_id="add_login_page", reason="no key"))["status"] == "pending"
        checks = project.progress_text.replace("`true`", "Run `echo no page; test -e login.html` - exits with code 0")
        project.progress.write_text(checks)
        red = await call("mark_task_complete", task_id="add_login_page")
        assert "add_login_page is not done: Run `echo no page; test -e login.html` ended with 1" in red
        assert (red.endswith("\nno page"), project.progress_text) == (True, checks)
        (project.root / "login.html").touch()
        done = await call("mark_task_complete", task_id="add_login_page", verification_notes="I saw it\nin a browser")
        assert done == {"task_id": "add_login_page", "status": "complete"}
        tries = [await call("increment_retry", task_id="log_out", reason=why) for why in ("slow", "gone")]
        assert [one["status"] for one in tries] == ["pending", "blocked"]
        assert (await call("mark_task_blocked", task_id="log_out", reason="nobody logs out"))["status"] == "blocked"
        await call("append_learning", learning="Tests need a fixture", category="debugging")
        await call("update_memory", addition="The page is in login.html")
        plan = await call("get_plan_summary")
        assert (plan["total_tasks"], plan["complete"], plan["blocked"]) == (2, 1, 1)
        assert (await call("get_next_task"))["why"] == "log_out is blocked: nobody logs out"
        assert (await call("get_state_summary"))["tasks"] == {"done": 1, "total": 2, "unproved": 0}

        project.progress.write_text(project.progress_text.replace("IN_PROGRESS", "RALPH_DONE"))
        await call("add_task", description="One more")
        assert "\nIN_PROGRESS\n" in project.progress_text, "else no run would begin it"

    served(project, story)
    said = (
        "- [WHEN] add_login_page: I saw it in a browser\n"
        "- [WHEN] DEBUGGING: Tests need a fixture\n- [WHEN] MEMORY: The page is in login.html\n"
    )
    text = without_times(project.progress_text)
    assert "- [x] add_login_page: Add the login: page\n  - verify: Run `echo" in text, text
    assert "- [!] log_out: Log out\n  - after: add_login_page\n" in text, text
    assert text.endswith(f"\n## Notes\n\n{said}"), text
    assert {line["tool"] for line in calls(project)} == set(TOOLS)
    assert len([line for line in calls(project) if line["message"]]) == 5, "what fits no schema is no call"
    assert "killed" not in project.ralph("status", "feature.md").stdout, "calls are no iterations"


def test_who_may_only_propose_leaves_the_task_list_alone(project: Project) -> None:
    text = progress_text("one: the first", "two: the second", notes="\n- kept\n").replace("[ ] one", "[~] one")
    project.progress.write_text(text)

    async def story(call: Call) -> None:
        assert (await call("get_next_task"))["task"]["id"] == "one"
        assert "checks it" in (await call("mark_task_complete", task_id="one"))["note"]
        assert "not the task of this iteration" in await call("mark_task_complete", task_id="two")
        assert (await call("increment_retry", task_id="one"))["status"] == "in_progress"
        assert (await call("add_task", description="A third"))["status"] == "proposed"
        await call("append_learning", learning="it is so", category="pattern")

    served(project, story, "--propose")
    more = "- [WHEN] PATTERN: it is so\n\n## Proposed\n\n- [ ] third: A third\n"
    assert without_times(project.progress_text.removeprefix(text)) == more


def test_a_missing_extra_is_one_line_that_names_it(project: Project) -> None:
    (project.root / "nothing" / "mcp").mkdir(parents=True)
    (project.root / "nothing" / "mcp" / "__init__.py").touch()
    run = project.ralph("mcp", "feature.md", env={"PYTHONPATH": str(project.root / "nothing")}, prefix=("env",))
    assert (run.code, run.text) == (1, "ralph: ralph mcp needs the mcp package; pip install 'mcp>=2'\n")


def test_the_real_claude_calls_each_of_the_ten_beside_the_users_own_server(project: Project, play: Play) -> None:
    own = {"command": PYTHON[0], "args": [*PYTHON[1:], "-m", "ralph", "mcp", "feature.md"]}
    (project.root / "own.json").write_text(json.dumps({"mcpServers": {"mine": own}}))
    project.has_tasks("The first", "the second")
    first = {"task_id": "first"}
    ten: dict[str, dict[str, Any]] = {
        "get_next_task": {},
        "get_plan_summary": {},
        "get_state_summary": {},
        "mark_task_in_progress": first,
        "increment_retry": {**first, "reason": "no luck"},
        "mark_task_complete": {**first, "verification_notes": "seen"},
        "mark_task_blocked": {"task_id": "second", "reason": "nobody knows"},
        "append_learning": {"learning": "it is so", "category": "build"},
        "update_memory": {"addition": "so it is"},
        "add_task": {"description": "A third", "priority": 1},
    }
    asked = [Tool(f"mcp__ralph__ralph_{name}", given) for name, given in ten.items()]
    asked.append(Tool("mcp__mine__ralph_add_task", {"description": "A fourth"}))
    model = play(*map(uses, asked), Reply(text="Done."))
    run = project.build("--mcp", "--max-iterations", "1", "--", "--mcp-config", "own.json")
    assert run.code == 3, run.text
    assert "left running" not in run.text
    assert "gone from the list" not in run.text
    offered = {one["name"] for one in model.requests[0]["tools"]}
    assert {f"mcp__{server}__{name}" for server in ("ralph", "mine") for name in TOOLS} <= offered
    assert [line["tool"] for line in calls(project)] == [f"ralph_{name}" for name in (*ten, "add_task")]
    assert not any(line["message"] for line in calls(project))
    for listed in ("- [x] first: The first", "- [!] second: the second", "- [ ] third: A third\n  - priority: 1"):
        assert f"{listed}\n" in project.progress_text


def test_under_strict_a_call_is_a_proposal_that_ralph_checks_and_a_refused_one_says_nothing(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one: the first\n  - verify: File `one.txt` exists")
    call = tool("mcp__ralph__ralph_mark_task_complete", task_id="one")
    does = [init(), writes("one.txt", "1\n"), call]
    agent.story(
        raw(*does, tool_result("not the task of this iteration", is_error=True), result("Did it.")),
        raw(*does, tool_result("{}"), result("Did it.")),
    )
    run = project.build("--strict", "--mcp", "--max-iterations", "2")
    assert (run.code, "--propose" in str(agent.calls[0].argv)) == (0, True), run.text
    assert "one, attempt 1: it ended without a <task-done>" in run.text
    assert project.git("log", "--format=%s", "-1").startswith("one: ")
