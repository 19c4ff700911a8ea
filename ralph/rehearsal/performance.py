"""The performance of a dress rehearsal: the copy is made, verified untouched, and ralph is started in it for real."""

import contextlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import channels, files, journal, progress, sources
from ralph.agent import command as agent
from ralph.errors import RalphError
from ralph.look.checks import Check, checks, hider
from ralph.process import Files, Job, Keeper, foreground, signals
from ralph.rehearsal import itself, marked, scenery, script, severed
from ralph.rehearsal.closing import Rehearsed, Take, of_copy, of_verification
from ralph.rehearsal.of_sample import pace_s
from ralph.rehearsal.script import Scene, Script
from ralph.rehearsal.stage import Stage
from ralph.screen.screen import Screen
from ralph.settings import Settings
from ralph.verify import CommandRun, run_command, shell
from ralph.words import duration

_INTRO = """A dress rehearsal: all of it is real but the agent, a stand-in that costs nothing,
in a throwaway copy of {top}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """One performance, in a folder that belongs to it."""

    play: Script
    stage: Stage
    screen: Screen
    keeper: Keeper
    mark: str

    def run(self) -> Rehearsed:
        """Everything from the copy to the last start."""
        names = [channel.name for channel in _channels()]
        found = [*self._checks(), *self._copy()]
        verified = self._verified()
        found += of_verification(verified, done=self.play.now.done)
        return Rehearsed(
            takes=self._takes(verified),
            early=self.play.early,
            red=bool(verified and verified.failed),
            told=marked.told(self._state / "ralph"),
            channels=names,
            found=found,
        )

    @property
    def _settings(self) -> Settings:
        return self.play.settings

    @property
    def _here(self) -> Path:
        """The working directory, in the copy."""
        return self.stage.counterpart(Path.cwd())

    @property
    def _state(self) -> Path:
        return self.stage.folder / "state"

    @property
    def _commits(self) -> bool:
        return self._settings.auto_commit and (self.stage.top / ".git").is_dir()

    def _checks(self) -> list[Check]:
        """What a look at the original shows, of all that the doctor asks for."""
        others = ("settings", "rights", "repository", "machine")
        found = [*checks(self.play.scenes[0].asked, without=("agent", "notices", "cron", *others))]  # before it plans
        found += checks(self.play.scenes[-1].asked, without=("agent", "notices", "cron", "plan"))
        try:
            agent.check_there(self._settings.agent)
        except RalphError as error:
            found.append(Check("bad", error.what, error.fix, subject="agent"))
        return found

    def _copy(self) -> list[Check]:
        """What is not in it. Raises RalphError when there is no room for it."""
        self.screen.agent(_INTRO.format(top=self.stage.original))
        self._progress.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._state, self.stage.folder / "tmp", self.stage.folder / "bin"):
            folder.mkdir()
        lost = scenery.make(self.stage, self.screen.agent)
        self._bring_progress()
        return of_copy(lost)

    @property
    def _progress(self) -> Path:
        return script.progress_in(self.stage, self.play.last)

    def _bring_progress(self) -> None:
        """The progress file, also from outside of the tree; the plan that it names is that of the copy."""
        file = self.play.last.progress_path
        if file.is_file() and signals.interrupted() is None:
            text, plan = file.read_bytes(), self.play.last.plan
            named = b"Plan: " + os.fsencode(plan)
            text = text.replace(named, b"Plan: " + os.fsencode(self.stage.counterpart(plan)), 1)
            files.replace(self._progress, text)

    def _environment(self) -> dict[str, str]:
        """The person's, but for what would lead back to the original, and for ralph's own state."""
        env = severed.environment(os.environ, self.stage)
        env.pop("OLDPWD", None)
        return env | {
            "PWD": str(self._here),
            "TMPDIR": str(self.stage.folder / "tmp"),
            "XDG_STATE_HOME": str(self._state),
        }

    def _verified(self) -> CommandRun | None:
        """What the verify command says about the untouched copy; None when nobody asks it."""
        command = self.stage.moved(self._settings.verify or "")
        if not command or self._settings.once or self.play.early or signals.interrupted() is not None:
            return None
        self.screen.say(f"$ {' '.join(command.split())}")
        paths = Files(prompt=Path(os.devnull), output=self.stage.folder / "verified", errors=self.stage.folder / "err")
        with contextlib.chdir(self._here):
            env = agent.environment(self._environment(), run=self.mark, tmux=self.stage.folder / "tmp")
        job = Job(argv=shell(command), env=env, files=paths, folder=self._here)
        run = run_command("the verify command", job, self.keeper, self._settings.verify_timeout)
        for line in run.remarks:
            self.screen.complain(f"ralph: {line}")
        if run.interrupted:
            return None
        verified = replace(run, what=f"the verify command `{' '.join(command.split())}` {run.what}")
        how = verified.failed or f"the verify command passes in {duration(verified.took_s)}"
        self.screen.agent(f"  on the untouched copy, {how}\n")
        return verified

    def _takes(self, verified: CommandRun | None) -> list[Take]:
        """Each start in its turn, up to the first that fails. One that is red anyway is not asked again."""
        instead = {"verify": "true"} if verified and verified.failed else {}
        if instead and self.play.now.done:
            files.replace(self._progress, progress.in_progress(self._progress.read_bytes()))
        takes: list[Take] = []
        for scene in self.play.scenes:
            if signals.interrupted() is None and (not takes or takes[-1].code == 0):
                takes.append(self._take(scene, instead))
        return takes

    def _take(self, scene: Scene, instead: Mapping[str, str]) -> Take:
        """A real start of ralph in this terminal."""
        before, tasks = len(self._runs()), self._tasks()
        agent_file = self._stand_in(scene, pace_s(self.screen, tasks))
        own = {**instead, **script.fewer_notices(scene.start.settings, tasks), "agent": shlex.quote(str(agent_file))}
        words = scene.in_copy(self.stage, own)
        self.screen.say(f"$ {hider(scene.asked.given)(shlex.join(scene.words))}")
        self.screen.close()  # what was said before comes before
        code = foreground([*itself.program("ralph.cli"), *words], env=self._environment(), cwd=str(self._here))
        runs = self._runs()
        if signals.interrupted() is None:
            self.screen.agent("")
        run = runs[-1] if len(runs) > before else None
        return Take(words=scene.words, once=scene.start.settings.once, code=code, run=run)

    def _tasks(self) -> int:
        return len(progress.parse(self._progress.read_bytes()).tasks) if self._progress.is_file() else 0

    def _runs(self) -> list[journal.Record]:
        """What the journal says of each start that began an iteration."""
        paths = self._state.glob("ralph/*/journal.jsonl")
        return [record for path in paths for record in journal.read(path) if record.event == "run"]

    def _stand_in(self, scene: Scene, pace_s: float) -> Path:
        """Named as the agent is, so that it gets the same arguments, whose sense it need not understand."""
        path = self.stage.folder / "bin" / Path(scene.start.settings.agent[0]).name
        python = itself.program("ralph.rehearsal.standin")
        path.write_text(script.stand_in(python, scene, self.stage, commits=self._commits, pace_s=pace_s))
        path.chmod(0o700)
        return path


def _channels() -> tuple[channels.Channel, ...]:
    return channels.configured(channels.load(channels.default_folders()), sources.channel_values())
