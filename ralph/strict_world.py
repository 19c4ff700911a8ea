"""The loop's world under --strict: what the agent proposes is undone, checked, ticked and committed by ralph."""

from dataclasses import replace

from ralph import progress, records, strict
from ralph.errors import RalphError
from ralph.gates import Gates
from ralph.judge import Iteration, Judgement, Verification
from ralph.onlooker import Onlooker
from ralph.process import Care
from ralph.progress import Progress
from ralph.progress_file import ProgressFile
from ralph.prompt import Value
from ralph.state import State
from ralph.stream import Audience
from ralph.verdict import Stop
from ralph.verify import CommandRun, run_command
from ralph.words import counted
from ralph.world import Job, RealWorld, Told


class StrictWorld(RealWorld):
    """The same, where the agent's word counts for nothing that can be checked."""

    def __init__(self, job: Job, file: ProgressFile, state: State, told: Told, care: Care) -> None:
        super().__init__(job, file, state, told, care)
        gates = Gates(
            token=strict.token(),
            project=self._top,
            base_url=self._settings.base_url,
            run=self._run_check,
            verify=self.verify if self._settings.verify else None,
            over=lambda: self.interrupted() is not None,
            say=lambda line: self._screen.remark(f"ralph: {line}"),
            rehearsal=job.start.rehearsal,
        )
        self._onlooker: Onlooker | None = None
        self._strict = strict.Strict(self._settings, file, self._guard, gates)

    def choose(self) -> Stop | None:
        """The task of the next iteration, or why there is none."""
        stop = self._strict.choose()
        if stop is None:
            self.run = replace(self.run, task=self._strict.attempt.task.id)
            self._state.note_strict(strict=True)
        return stop

    def _of_task(self) -> dict[str, Value]:
        return self._strict.values()

    def _audience(self) -> Audience:
        self._onlooker = Onlooker(super()._audience(), self._file.path)
        return self._onlooker

    def _undo(self) -> tuple[str, ...]:
        """What is ralph's in the progress file is put back; what was done to it, which is written down."""
        self.read()
        left = self._file.text
        what = self._strict.undo()
        if (undone := self._strict.undone) and undone.proposed:
            self._complain(f"{counted(undone.proposed, 'new task')} moved under ## Proposed")
        if undone and self._file.text != left:
            kept = self._state.keep(self._file.path.name, left)
            person = self._onlooker is not None and self._onlooker.perhaps_a_person
            who = " (perhaps yours: no tool of the agent ran just then)" if person else ""
            for one in what:
                self._complain(f"undone, since the tasks are ralph's while an agent works: {one}{who}")
            self._complain(f"{self._file.path.name} as it was left is {kept}")
            if undone.diff:
                self._write_down(records.of_tampering(self._identity, what, undone.diff, kept))
            what = () if person else what
        self._state.note_strict(strict=False)
        if rewritten := self._tries.settle():
            self._complain(f"{self._tries.path} was rewritten: put back; as it was left it is {rewritten}")
            what = (*what, "the history file was rewritten")
        return what

    def dispose(self, iteration: Iteration, judged: Judgement) -> tuple[Iteration, Judgement]:
        """Checks what the agent proposes, and ticks and commits it or writes down why not."""
        before = iteration.commits
        judged = self._strict.dispose(iteration, judged)
        commits, _ = self._changes.look()
        after = self.read()
        if not judged.failed and not judged.ended and not after.open and after.tasks:
            after = self.accept_done(Verification())
        return replace(iteration, after=after, commits=commits if commits.count else before), judged

    def accept_done(self, verified: Verification | None) -> Progress:
        """All tasks are done, and it is ralph who says so."""
        self._file.edit(progress.declared_done)
        self._changes.begin(anew=True)
        return super().accept_done(verified)

    def _run_check(self, command: str) -> CommandRun | None:
        """Runs a command that a criterion asks for, as the verify command is run."""
        self._changes.begin(anew=False)
        self._verified = True
        self._screen.remark(f"ralph: checking: {command}")
        self._status.does(f"checking: {command}")
        files = self._state.verification(self._job.run_id, self.run.iterations)
        timeout_s = self._settings.verify_timeout
        try:
            return run_command(command, self._job.env, files, self._care, timeout_s, ending=self._ends("the check"))
        except OSError as error:
            raise RalphError(f"{command}: cannot be run: {error.strerror}", 1) from error
        finally:
            self._remove_orphaned_locks("the check")
