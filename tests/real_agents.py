"""The real agents: each with a home of its own, no key that is one, and no address but a scripted model's.

They are those on PATH. What each prints and how it fails was measured with the versions that .ci/run names.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from ralph_driver import Project, Run
from scripted_model import Reply, ScriptedModel, Tool

Play = Callable[..., ScriptedModel]

AS_ROOT = os.getuid() == 0
SLOW_S = 240.0
"""Of opencode a turn takes four seconds of a processor, and more of one that is busy."""
_CLAUDE = {
    "ANTHROPIC_API_KEY": "dummy",
    "ANTHROPIC_BASE_URL": "@URL@",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    **({"IS_SANDBOX": "1"} if AS_ROOT else {}),
}
_CODEX = """
model = "m1"
model_provider = "t"
analytics.enabled = false
features.plugins = false
[model_providers.t]
name = "t"
base_url = "@URL@/v1"
wire_api = "responses"
env_key = "T_KEY"
request_max_retries = 0
stream_max_retries = 1
"""
_GEMINI = """{
"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": false, "maxAttempts": 1},
"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}
}"""
_OPENCODE = """{"model": "t/m1", "provider": {"t": {
"npm": "@ai-sdk/openai-compatible", "models": {"m1": {}}, "options": {"baseURL": "@URL@/v1", "apiKey": "dummy"}
}}}"""


class Kind(NamedTuple):
    """What has to be known of a real agent to drive it against a model on loopback, whose address is @URL@."""

    model: str
    shell: str
    """Its tool for shell commands."""
    command: str
    """What that tool calls the command."""
    file: str
    """Its settings, in the home folder."""
    settings: str
    env: Mapping[str, str]


KINDS = {
    "claude": Kind("sonnet", "Bash", "command", ".claude/settings.json", "{}", _CLAUDE),
    "codex": Kind("m1", "exec_command", "cmd", ".codex/config.toml", _CODEX, {"T_KEY": "dummy"}),
    "gemini": Kind(
        *("gemini-2.5-pro", "run_shell_command", "command", ".gemini/settings.json", _GEMINI),
        {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": "@URL@"},
    ),
    "opencode": Kind(
        *("t/m1", "bash", "command", ".config/opencode/opencode.json", _OPENCODE),
        {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
}


class Real:
    """One of them in a project, and the model that it asks."""

    def __init__(self, project: Project, name: str, request: pytest.FixtureRequest) -> None:
        found = shutil.which(name)
        if not found:
            pytest.skip(f"no {name} on PATH")
        self.name, self.kind, self._project, self._request = name, KINDS[name], project, request
        node = shutil.which("node") or found
        fake, _, others = project.env["PATH"].partition(os.pathsep)
        project.env["PATH"] = os.pathsep.join([str(Path(found).parent), fake, others, str(Path(node).parent)])
        project.env["CLAUDE_CODE_TMPDIR"] = project.env["TMPDIR"]

    def play(self, *script: Reply) -> ScriptedModel:
        """The model that says this, known to the agent."""
        model = ScriptedModel(script)
        self._request.addfinalizer(model.server_close)
        file = self._project.home / self.kind.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.kind.settings.replace("@URL@", model.url("")))
        self._project.env |= {name: text.replace("@URL@", model.url("")) for name, text in self.kind.env.items()}
        return model

    def runs(self, command: str, text: str | None = None) -> Reply:
        """It says something and runs a shell command."""
        more = {"description": "scripted"} if self.name == "opencode" else {}
        return Reply(text=text, tools=[Tool(name=self.kind.shell, input={self.kind.command: command, **more})])

    def build(self, *words: str) -> Run:
        return self._project.build("--agent", self.name, "--model", self.kind.model, *words, timeout_s=SLOW_S)


def uses(*tools: Tool, text: str | None = None) -> Reply:
    return Reply(text=text, tools=tools)


@pytest.fixture
def real(request: pytest.FixtureRequest, project: Project) -> Real:
    return Real(project, request.param, request)


@pytest.fixture
def play(request: pytest.FixtureRequest, project: Project) -> Play:
    """Gives the project the real claude; called with replies, it starts the model that says them."""
    return Real(project, "claude", request).play
