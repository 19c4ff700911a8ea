"""Where attempts run: on this machine, each under a supervisor of its own, or on the workers of a Dask cluster."""

import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

from ralph import files
from ralph.errors import RalphError
from ralph.parallel.attempt import COMMAND, AttemptResult, TaskJob
from ralph.parallel.task_attempt import TaskAttempt
from ralph.plan.progress import encode_text
from ralph.process.programs import MARK, Finished, call_program
from ralph.process.supervisor import Command
from ralph.run.context import Run

_CONNECT_S = 10.0
_POLL_S = 0.5
_LONGEST_S = 7 * 86_400.0
# What an attempt here needs besides what a coordinator has loaded when it starts its supervisors.
_LOADED = ("ralph.parallel.attempt", "ralph.strict.controller")


class SupervisedExecutor:
    """Runs attempts and checks on this machine or through `--runner`, each below a supervisor of its own."""

    def __init__(self, run: Run):
        self._run, self._idle_supervisors = run, [*run.job_supervisors]
        self.places = run.settings.jobs
        """How many attempts can run at the same time, besides checks; the place of a supervisor that dies is lost."""
        self._threads = ThreadPoolExecutor(len(run.job_supervisors))
        if not run.settings.keep_clones:  # what a run left that was killed
            files.remove_folder(files.state_home() / "clones" / run.state.folder.name)

    def begin(self, attempt: TaskAttempt, job: TaskJob) -> None:
        """Begins the job in the background, as the attempt's work."""
        attempt.doing, attempt.is_canceled = "", False
        attempt.work = self._threads.submit(self._do_job, attempt, job)

    def close_and_wait_for_threads(self) -> None:
        """Returns when all attempts have ended, which must be canceled."""
        self._threads.shutdown()

    def _do_job(self, attempt: TaskAttempt, job: TaskJob) -> AttemptResult:
        """Returns the result of the job; if it could not be done, one that says why."""
        transcript = self._run.state.new_log_path(self._run.id, self._run.iteration.number, f".{attempt.task.id}.jsonl")
        try:
            done = self._run_attempt(attempt, json.dumps(asdict(job)).encode())
            _, start, printed = done.stdout.partition(b'{"why": ')  # a runner may greet first
            line, _, end_of_transcript = printed.partition(b"\n")
            result = AttemptResult(why=f"its attempt exited with {done.code}")
            with suppress(ValueError):
                result = AttemptResult(**json.loads(start + line))
            transcript.write_bytes(end_of_transcript)
            transcript.with_suffix(".prompt.md").write_bytes(encode_text(result.prompt))
        except Exception as error:  # noqa: BLE001 - a cluster has errors of its own
            return AttemptResult(why=str(error) or type(error).__name__)
        more = f": {attempt.doing}" if result.why and attempt.doing else ""
        return replace(result, why=result.why + more, transcript=str(transcript))

    def _run_attempt(self, attempt: TaskAttempt, job: bytes) -> Finished:
        """Runs `ralph attempt` for the job, until it is canceled."""
        run = self._run
        argv = [*run.settings.runner, "ralph", "attempt"] if run.settings.runner else COMMAND

        def on_output(_output: bytes, complaints: bytes) -> None:
            for line in complaints.decode(errors="replace").splitlines():
                if message := line.strip().removeprefix("ralph: "):
                    attempt.doing = message
                    if run.prepared_mode.asked.verbose:
                        run.screen.say_cleaned_unless_quiet(f"{attempt.task.id}: {message}")

        supervisor = self._idle_supervisors.pop()
        env = {**os.environ, MARK: f"{run.env[MARK]}:{supervisor.mark}"}
        with tempfile.TemporaryDirectory(dir=run.env["TMUX_TMPDIR"]) as folder:  # which goes with the run
            given, output = Path(folder, "job"), Path(folder, "result")
            given.write_bytes(job)
            command = Command(argv, env, output, given, loads=() if run.settings.runner else _LOADED)
            try:
                ended = supervisor.run(command, on_output, lambda *_: attempt.is_canceled)
            except RalphError:
                self.places -= 1
                raise
            self._idle_supervisors.append(supervisor)
            if ended.unstarted:
                raise OSError(f"{argv[0]} cannot be started: {ended.unstarted}")
            return Finished(ended.code, output.read_bytes(), b"")


class DaskExecutor(SupervisedExecutor):
    """Runs attempts on the workers of a cluster; if a worker dies, another one takes over its task."""

    def __init__(self, run: Run):
        super().__init__(run)
        address = run.settings.executor or ""
        try:
            self._client = import_module("distributed").Client(
                address.replace("dask:", "tcp:"), timeout=_CONNECT_S, set_as_default=False
            )
        except ImportError as error:
            raise RalphError("--executor needs Dask", fix="pip install distributed") from error
        except (OSError, ValueError) as error:
            raise RalphError(f"no cluster answers at {address}: {error}", 1) from error
        for agent in run.prepared_mode.agents:
            for worker, path in self._client.run(shutil.which, agent.command[0]).items():
                if not path:
                    run.console.complain(f"the worker {worker} has no {agent.command[0]} on its PATH")

    def close_and_wait_for_threads(self) -> None:
        """Has the workers end their attempts, and waits only for what runs here."""
        with suppress(Exception):  # raised if the cluster is gone
            self._client.close()
        super().close_and_wait_for_threads()

    def _run_attempt(self, attempt: TaskAttempt, job: bytes) -> Finished:
        future = self._client.submit(attempt_on_worker, job, pure=False)
        while not attempt.is_canceled:
            with suppress(TimeoutError):
                done: Finished = future.result(_POLL_S)
                attempt.doing = done.stderr.decode(errors="replace").rstrip().rpartition("\n")[2]
                return done
        future.cancel()
        raise TimeoutError("it was canceled")


def attempt_on_worker(job: bytes) -> Finished:
    """Runs the job on this worker; ends it if its future is canceled or the worker closes."""
    worker = import_module("distributed").get_worker()
    task = worker.state.tasks[worker.get_current_task()]
    return call_program(
        COMMAND,
        timeout_s=_LONGEST_S,
        stdin=job,
        should_end=lambda: task.state != "executing" or worker.status.name == "closing",
    )
