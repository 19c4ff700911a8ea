"""Where attempts run: on this machine, each under a supervisor of its own, or on the workers of a Dask cluster."""

import contextlib
import io
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib import import_module
from queue import SimpleQueue
from typing import IO, Any

from ralph.errors import RalphError
from ralph.parallel.attempt import RALPH, AttemptResult, TaskJob
from ralph.process import signals
from ralph.process.programs import MARK, call_program
from ralph.process.supervisor import Command as Program
from ralph.process.supervisor import Supervisor
from ralph.run.context import Run

_CONNECT_S = 10.0
_LONGEST_S = 7 * 86_400.0


class LocalExecutor:
    """Runs attempts on this machine or through `--runner`, as many at once as there are supervisors."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._free = SimpleQueue[Supervisor]()
        for supervisor in run.supervisors:
            self._free.put(supervisor)
        self.places = len(run.supervisors)
        """How many attempts and checks can run at the same time; the place of a supervisor that dies is lost."""
        self._threads = ThreadPoolExecutor(len(run.supervisors))
        self._canceled = set[str]()
        self.doing: dict[str, str] = {}
        """The last message of each task's attempt, by task."""

    def submit(self, job: TaskJob) -> Future[AttemptResult]:
        """Begins the job in the background and returns a future of its result."""
        self._canceled.discard(job.task)
        self.doing[job.task] = ""
        return self._threads.submit(self._attempt, job)

    def cancel(self, task: str) -> None:
        """Has the attempt at this task end, with everything that it started. Returns at once."""
        self._canceled.add(task)

    def close(self) -> None:
        """Cancels all attempts and returns when they have ended."""
        self._canceled.update(self.doing)
        self._threads.shutdown()

    def _attempt(self, job: TaskJob) -> AttemptResult:
        run = self._run
        output = run.state.new_record(run.id, run.current.number, f".{job.task}.attempt")
        given = output.with_suffix(".job")
        given.write_text(json.dumps(asdict(job)))

        def on_output(_output: bytes, complaints: bytes) -> None:
            for line in complaints.decode(errors="replace").splitlines():
                if message := line.strip().removeprefix("ralph: "):
                    self.doing[job.task] = message
                    if run.screen.verbose:
                        run.screen.say_for_agent(f"{job.task}: {message}")

        def should_end(_silent_s: float, _took_s: float, _printed: int) -> bool:
            return job.task in self._canceled or signals.interrupted() is not None

        argv = [*RALPH, "attempt"]
        if not job.source:  # it can run anywhere
            argv = [*(run.settings.runner or ()), "ralph", "attempt"]
        supervisor = self._free.get()
        env = {**os.environ, MARK: f"{run.env[MARK]}:{supervisor.mark}"}
        program = Program(argv, env, output, prompt=given)
        try:
            ended = supervisor.run(program, on_output, should_end, run.pace.awake_s)
            self._free.put(supervisor)
            if ended.unstarted:
                return AttemptResult(why=f"{argv[0]} cannot be started: {ended.unstarted}")
            with output.open("rb") as printed:
                result = _read_result(printed, ended.code, self.doing[job.task])
                transcript = output.with_suffix(".transcript")
                with transcript.open("wb") as file:
                    shutil.copyfileobj(printed, file)
            return replace(result, transcript_file=str(transcript))
        except RalphError:
            self.places -= 1
            raise
        finally:
            for path in (given, output, program.errors):
                path.unlink(missing_ok=True)


class DaskExecutor(LocalExecutor):
    """Runs attempts on the workers of a cluster; if a worker dies, another one takes over its task."""

    def __init__(self, run: Run, address: str) -> None:
        super().__init__(run)
        try:
            distributed = import_module("distributed")
        except ImportError as error:
            raise RalphError("--executor needs Dask", fix="pip install distributed") from error
        try:
            place = address.replace("dask:", "tcp:")
            self._client = distributed.Client(place, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RalphError(f"no cluster answers at {address}: {error}", 1) from error
        for program in (agent.command[0] for agent in run.start.agents):
            for worker, path in self._client.run(shutil.which, program).items():
                if not path:
                    run.console.complain(f"the worker {worker} has no {program} on its PATH")
        self._cluster = self._client.get_executor(pure=False)
        self._futures = dict[str, Future[AttemptResult]]()

    def submit(self, job: TaskJob) -> Future[AttemptResult]:
        """Sends the job to the cluster and returns a future of its result."""
        future = Future[AttemptResult]()
        try:
            future = self._cluster.submit(on_worker, asdict(job))
        except Exception as error:  # noqa: BLE001 - a cluster has errors of its own; this one is gone
            future.set_exception(error)
        self._futures[job.task] = future
        return future

    def cancel(self, task: str) -> None:
        """Cancels the future of this task's attempt, whereupon its worker ends the attempt."""
        if future := self._futures.get(task):
            future.cancel()
        super().cancel(task)

    def close(self) -> None:
        """Has the workers end their attempts, and does not wait for that."""
        with contextlib.suppress(Exception):  # raised if the cluster is gone
            self._cluster.shutdown(wait=False)
            self._client.close()


def on_worker(job: Mapping[str, Any]) -> AttemptResult:
    """Runs the job on this worker and returns its result; ends it if its future is canceled or the worker closes."""
    worker = import_module("distributed").get_worker()
    task = worker.state.tasks[worker.get_current_task()]

    def should_end() -> bool:
        return bool(task.state != "executing" or worker.status.name == "closing")

    reads, writes = os.pipe()  # a pipe that closes if the worker dies
    try:
        given = json.dumps({**job, "ends_with_worker": True}).encode()
        done = call_program(
            [*RALPH, "attempt"], timeout_s=_LONGEST_S, stdin=given, inherited_fds=(reads,), should_end=should_end
        )
    finally:
        os.close(reads)
        os.close(writes)
    printed = io.BytesIO(done.stdout)
    result = _read_result(printed, done.code, done.stderr.decode(errors="replace").rstrip().rpartition("\n")[2])
    return replace(result, transcript=printed.read().decode(errors="surrogateescape"))


def _read_result(printed: IO[bytes], code: int, message: str) -> AttemptResult:
    """Reads the result that an attempt printed; leaves `printed` at the transcript, which comes next.

    If the attempt could not begin, the result also has its last `message`.
    """
    for line in printed:
        with contextlib.suppress(ValueError):
            result = AttemptResult(**json.loads(line[line.index(b'{"why": ') :]))  # a runner may greet first
            return replace(result, why=f"{result.why}: {message}") if result.why and message else result
    return AttemptResult(why=f"its attempt exited with {code}: {message}")
