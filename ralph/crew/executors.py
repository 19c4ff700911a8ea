"""Where attempts run: on this machine, each below a keeper of its own; or on the workers of a Dask cluster."""

import itertools
import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib import import_module
from threading import Event, Thread
from typing import Any

from ralph.crew.attempt import RALPH, Attempt, Job
from ralph.errors import RalphError
from ralph.process import signals
from ralph.process.keeper import Job as Program
from ralph.process.keeper import Keeper
from ralph.process.programs import MARK, call
from ralph.run import Run

_CONNECT_S = 10.0
_BEAT_S = 5.0
_SILENCE_S = 60.0
"""After so long without a word of the coordinator a worker ends what it does for it."""
_LONGEST_S = 7 * 86_400.0


class Local:
    """Runs attempts on this machine, or behind `--runner`; as many at once as there are keepers."""

    def __init__(self, run: Run) -> None:
        self._run, self._free = run, list(run.keepers)
        self._threads = ThreadPoolExecutor(len(run.keepers))
        self.cancelled = set[str]()
        """Tasks whose attempts shall end, with all that they started."""
        self.doing: dict[str, str] = {}
        """By task, what its attempt said last."""

    def submit(self, job: Job) -> Future[Attempt]:
        """What becomes of the job, some time."""
        return self._threads.submit(self._below_a_keeper, job)

    def now(self, job: Job) -> Attempt:
        """What becomes of the job, on this machine, at once."""
        return self._attempt(self._run.keeper, job)

    def close(self) -> None:
        """Returns when all have ended."""
        self._threads.shutdown()

    def _below_a_keeper(self, job: Job) -> Attempt:
        keeper = self._free.pop()  # there are as many threads
        try:
            return self._attempt(keeper, job)
        finally:
            self._free.append(keeper)

    def _attempt(self, keeper: Keeper, job: Job) -> Attempt:
        run = self._run
        output = run.state.record(run.id, run.number, f".{job.task}.attempt")
        given = output.with_suffix(".job")
        given.write_text(json.dumps(asdict(job)))
        self.doing[job.task] = ""

        def hear(_output: bytes, complaints: bytes) -> None:
            for line in complaints.decode(errors="replace").splitlines():
                if said := line.strip().removeprefix("ralph: "):
                    self.doing[job.task] = said
                    if run.screen.verbose:
                        run.screen.agent(f"{job.task}: {said}")

        def over(_silent_s: float, _took_s: float, _printed: int) -> bool:
            return job.task in self.cancelled or signals.interrupted() is not None

        argv = [*RALPH, "attempt"]
        if not job.source:  # it can run anywhere
            argv = [*(run.settings.runner or ()), "ralph", "attempt"]
        env = {**os.environ, MARK: f"{run.env[MARK]}:{keeper.mark}"}
        program = Program(argv, env, output, prompt=given)
        ended = keeper.run(program, hear, over, run.pace.awake)
        try:
            return _told(output.read_text(), self.doing[job.task])
        except ValueError as error:
            why = f"exited with {ended.code}: {self.doing[job.task]}"
            raise RalphError(f"the attempt of {job.task} {why}", 1) from error
        finally:
            for path in (given, output, program.errors):
                path.unlink(missing_ok=True)


class Dask(Local):
    """Runs attempts on the workers of a cluster; a worker that dies gives its task back to the others."""

    def __init__(self, run: Run, address: str) -> None:
        super().__init__(run)
        try:
            distributed = import_module("distributed")
        except ImportError as error:
            raise RalphError("--executor needs Dask", fix="pip install 'ralph-sh[dask]'") from error
        try:
            self._client = distributed.Client(
                address.replace("dask:", "tcp:"), timeout=_CONNECT_S, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise RalphError(f"no cluster answers at {address}: {error}", 1) from error
        for program in (agent.command[0] for agent in run.agents):
            for worker, path in self._client.run(shutil.which, program).items():
                if not path:
                    run.complain(f"the worker {worker} has no {program} on its PATH")
        self._cluster = self._client.get_executor(pure=False)
        self._word, self._ended = distributed.Variable(f"ralph-{run.id}", client=self._client), Event()
        Thread(target=self._keep_in_touch, daemon=True).start()

    def submit(self, job: Job) -> Future[Attempt]:
        """What becomes of the job, some time."""
        future: Future[Attempt] = self._cluster.submit(on_worker, asdict(job), self._word.name)
        return future

    def close(self) -> None:
        """Tells the workers to end what they do."""
        self._ended.set()
        self._word.set([0, None])
        self._cluster.shutdown(wait=True)
        self._client.close()

    def _keep_in_touch(self) -> None:
        for beat in itertools.count(1):
            self._word.set([beat, sorted(self.cancelled)])
            if self._ended.wait(_BEAT_S):
                break


def on_worker(job: Mapping[str, Any], word: str) -> Attempt:
    """What becomes of the job on this machine, a worker's; it ends once its coordinator says so, or is gone."""
    distributed = import_module("distributed")
    said, heard_at, looked_at = distributed.Variable(word), time.monotonic(), 0.0
    beat, cancelled = None, list[str]()

    def over() -> bool:
        nonlocal beat, cancelled, heard_at, looked_at
        if time.monotonic() - looked_at > _BEAT_S / 2:
            looked_at = time.monotonic()
            now, cancelled = said.get(timeout=_SILENCE_S)
            beat, heard_at = now, looked_at if now != beat else heard_at
        return cancelled is None or job["task"] in cancelled or time.monotonic() - heard_at > _SILENCE_S

    done = call([*RALPH, "attempt"], timeout_s=_LONGEST_S, stdin=json.dumps(job).encode(), over=over)
    if not done.stdout:
        raise RalphError(f"the attempt of {job['task']} exited with {done.code}", 1)
    return _told(done.stdout, done.stderr.decode(errors="replace").rstrip().rpartition("\n")[2])


def _told(printed: str | bytes, said: str) -> Attempt:
    """What an attempt printed, and where it could not begin, what it said last."""
    told = Attempt(**json.loads(printed))
    return replace(told, why=f"{told.why}: {said}") if told.why and said else told
