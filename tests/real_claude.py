"""The real `claude` with a home of its own, no key that is one, and no address but the scripted model's.

It is the one on PATH, or the one that RALPH_TEST_CLAUDE names.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from ralph_driver import Project
from scripted_model import Reply, ScriptedModel, Tool

AS_ROOT = os.getuid() == 0

Play = Callable[..., ScriptedModel]


@pytest.fixture(scope="session")
def claude() -> Path:
    found = os.environ.get("RALPH_TEST_CLAUDE") or shutil.which("claude")
    if not found:
        pytest.skip("no claude: neither on PATH nor named by RALPH_TEST_CLAUDE")
    return Path(found).absolute()


@pytest.fixture
def play(project: Project, claude: Path, tmp_path: Path) -> Iterator[Play]:
    """Gives the project the real claude; called with replies, it starts the model that says them."""
    programs = tmp_path / "bin"
    (programs / "claude").unlink()
    (programs / "claude").symlink_to(claude)
    project.env |= {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_TMPDIR": project.env["TMPDIR"],
        "DISABLE_AUTOUPDATER": "1",
        **({"IS_SANDBOX": "1"} if AS_ROOT else {}),
    }
    with ExitStack() as models:

        def start(*script: Reply) -> ScriptedModel:
            model = models.enter_context(ScriptedModel(script))
            project.env["ANTHROPIC_BASE_URL"] = model.url
            return model

        yield start


def uses(*tools: Tool, text: str | None = None) -> Reply:
    return Reply(text=text, tools=tools)
