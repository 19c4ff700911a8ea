"""Runs the agent once and collects what it did, records the iteration, and pauses or waits after it."""

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ralph.agent.stream import drop_stream_events
from ralph.agent.turn import Commits, Outcome, Turn, without_signals
from ralph.errors import RalphError
from ralph.notify.channels import Notice
from ralph.plan import progress
from ralph.plan.progress.file import NewMessages
from ralph.plan.prompt import Value
from ralph.plan.tasks import edits
from ralph.process import signals
from ralph.process.supervisor import Command
from ralph.run import notices
from ralph.run.context import Run
from ralph.run.judge import Iteration, TurnFindings, add_to_tally, pause_after_turn_s, quote_tasks
from ralph.run.memory import prompt_memory
from ralph.run.stop_rules import Reason, Stop, budget_usd, needs_final_check
from ralph.store import journal
from ralph.words import format_duration, format_moment, join_names, one_line, shorten

_REREAD_S = 2.0
"""Seconds between reads of the progress file during a wait, since the user may write RALPH_STOP."""
_BEAT_S = 300.0
_FILES = 100
"""The most files of an iteration that the journal names."""


def run_agent_once(run: Run) -> Iteration:
    """Runs the agent once, ends everything that it started, and returns what it did and changed."""
    _prepare_storage(run)
    run.update_iteration(number=run.earlier + run.tally.iterations + 1)
    run.pool.take_next()
    text = prompt_memory(run.state, task=run.current.task, so_far=notices.run_figures(run))
    can_run = run.pool.current.can_run(run.settings)
    values: dict[str, Value] = {"MEMORY": text, "CAN_RUN": can_run, "RED_START": run.tally.red_start}
    prompt = run.start.load_prompt().render({**run.current.values, **values, "ITERATION": run.current.number})
    transcript = run.state.new_transcript(run.id, run.current.number, prompt)
    before = _announce_iteration(run, transcript)
    run.view.show({"type": "prompt", "text": prompt})
    guard = run.controller.guard
    with guard.around_turn() if guard else contextlib.nullcontext(TurnFindings()) as findings:
        run.state.save_iteration_note(
            run.id, run.mode, run.current.number, transcript, run.current.text_before
        )  # all is known that a death needs
        messages = NewMessages(run.file.path, run.current.text_before)
        turn = _run_agent(run, transcript, prompt, messages)
    turn.another_is_free = any(one is not run.pool.current for one in run.pool.free_agents())
    findings.blocked = findings.blocked or run.git_settings.block_reason
    after = run.read_progress()
    if lost := messages.find_lost(run.file.text):
        after = run.file.edit(progress.with_section_lines, "Messages", lost)
        words = join_names([*map(os.fsdecode, lost)])
        run.console.complain(f"put back under ## Messages what the agent's copy wrote over: {words}")
    commits = Commits()
    changed = findings.changed or ()
    if not findings.blocked:  # else git may not run any more
        if not guard:
            run.command_runner.remove_orphaned_locks("the agent")
        if after.verified:  # only ralph may write that line, even if nothing is verified
            after = run.file.edit(progress.without_lines, "Verified")
        if before.round and after.rounds != before.rounds:  # only ralph counts the rounds
            after = run.file.edit(progress.with_mode, after.mode or "build", before.rounds)
        if findings.changed is None:
            commits, changed = run.changes.take_changes()
    if turn.outcome is not Outcome.OK:
        turn.handover = run.view.summarize_cut_iteration(turn.why, changed)
    return Iteration(before=before, after=after, turn=turn, commits=commits, changed=changed, findings=findings)


def _prepare_storage(run: Run) -> None:
    """Makes room for the records. Raises RalphError, before money is spent, if the iteration cannot succeed."""
    if not run.top.is_dir() or not os.path.samefile(run.top, "."):  # noqa: PTH121 - a fourth of Path's time
        raise RalphError(f"{run.top}: the working directory is gone", 1)
    if not run.start.plan.is_file():
        raise RalphError(f"{run.start.plan}: the plan is gone", 1)
    run.state.make_room()
    journal.rotate_journal(run.state.journal)
    run.file.check_writable()


def _announce_iteration(run: Run, transcript: Path) -> progress.Progress:
    """Prints the heading, sends the first notice, and returns the progress before the iteration."""
    if run.settings.mcp and not run.controller.picks_tasks:
        run.file.edit(edits.with_ids)  # now, so that an agent that adds an id does not seem to replace the task
    before = run.file.last
    run.update_iteration(text_before=run.file.text)
    run.git_settings.begin()
    run.changes.disturbed |= run.settings.once
    run.changes.begin_iteration()
    if run.current.transcript:
        run.screen.remark("")
    else:
        run.outbox.send(notices.started_notice(run))
    run.update_iteration(transcript=transcript)
    run.screen.remark(f"ralph: {notices.iteration_heading(run)}")
    run.console.show_agent_at_work()
    return before


def _run_agent(run: Run, transcript: Path, prompt: str, messages: NewMessages) -> Turn:
    """Runs the agent until it ends, is interrupted, reaches a limit or lingers after its result; returns its turn."""
    tried = run.current.values.get("TRY")
    rung = tried - 1 if isinstance(tried, int) else run.tally.refusals + run.tally.failures // 2
    settings = run.settings
    agent = run.pool.current._replace(rung=rung)
    pace = run.pace
    stream = run.view.begin()
    silence_s = settings.idle_timeout or math.inf
    whole_s = settings.iteration_timeout or math.inf
    most_s = settings.max_time or math.inf
    result_at = retries_at = math.inf
    cut = None

    def on_output(output: bytes, complaints: bytes) -> None:
        stream.read_output(output)
        stream.read_errors(complaints)

    def should_end(silent_s: float, took_s: float, printed: int) -> bool:
        nonlocal cut, result_at, retries_at
        messages.poll()
        works = not stream.result
        result_at = math.inf if works else min(result_at, took_s)
        retries_at = min(retries_at, took_s) if stream.retry else math.inf
        reached = {
            Outcome.INTERRUPTED: signals.interrupted() is not None,
            Outcome.OK: took_s - result_at > pace.after_result_s,
            Outcome.OUT_OF_TIME: works and run.elapsed_s() >= most_s,
            Outcome.TIMED_OUT: works and took_s > whole_s,
            Outcome.TROUBLE: works and took_s - retries_at > silence_s,  # printing retries is not a sign of life
            Outcome.HUNG: works and silent_s > silence_s,
            Outcome.TOO_LONG: works and printed > pace.transcript_bytes,
            Outcome.CONTEXT_FULL: works and stream.is_context_full(settings.max_context),
        }
        cut = next((outcome for outcome, is_reached in reached.items() if is_reached), None)
        if cut is Outcome.INTERRUPTED:
            run.console.announce_end("the agent")
        stream.ended_by_ralph = cut is not None
        return stream.ended_by_ralph

    budget = budget_usd(run.file.last, run.tally, settings)
    given = transcript.with_suffix(".prompt.md")
    argv = agent.command_line(settings, prompt, file=str(given), budget_usd=budget, mcp=run.start.tools_server)
    began = time.monotonic()
    job = Command(argv, run.env, output=transcript, prompt=Path(os.devnull) if agent.prompt else given)
    try:
        ended = run.run_supervised(job, on_output, should_end)
    finally:
        if settings.max_context is not None:
            drop_stream_events(transcript)
    if ended.unstarted:
        why = f"the agent {argv[0]} cannot be started: {ended.unstarted}"
        passes = run.tally.iterations > 0  # it was there an iteration ago, so it is being replaced
        outcome = Outcome.TROUBLE if passes else Outcome.HOPELESS
        return Turn(outcome=outcome, why=f"{why} (a script needs a right #! line; see --agent)")
    turn = stream.to_turn(agent, ended, cut, took_s=time.monotonic() - began, now=pace.now())
    turn.model = settings.model[: rung + 1][-1] if settings.model and agent.flags.get("model") else turn.model
    return turn


def record_iteration(run: Run, iteration: Iteration) -> None:
    """Records the iteration in the tally and the journal, prints its summary and remarks, and pings the monitor."""
    iteration = replace(iteration, after=run.file.last)
    message = notices.iteration_summary(run, iteration)
    run.live.tally = add_to_tally(run.tally, iteration)
    _write_down(run, iteration, message)
    crashes = run.tally.crashes
    crashes[run.current.task] = crashes[run.current.task] + 1 if iteration.turn.outcome is Outcome.FAILED else 0
    run.write_down_put_back(run.current.number)
    for remark in _collect_remarks(run, iteration):
        run.console.complain(remark)
    if not iteration.is_repeated:
        run.screen.say(message)
        run.live.summaries.append(message)
    spent = iteration.before.spent_usd + (iteration.turn.cost_usd or 0.0)
    if run.settings.max_total_cost is not None and spent:  # even without a cost, since the agent may have changed it
        run.file.edit(progress.with_spent, spent)
    if run.controller.picks_tasks or not needs_final_check(
        run.file.last, run.settings
    ):  # else once the claim is checked
        run.state.remove_iteration_note()
    run.write_statuses_to_plan()
    run.outbox.send(Notice("alive"))


def _write_down(run: Run, iteration: Iteration, message: str) -> None:
    """Writes a line of the journal and one of the history."""
    turn = iteration.turn
    commits = iteration.commits
    after = iteration.after
    words = shorten(without_signals(turn.final_words), 500)
    failed = iteration.failed or "; ".join(iteration.refused)
    bad = failed or iteration.is_repeated or (iteration.ended and iteration.ended.reason.code)
    line = run.write_journal(
        "iteration",
        round=iteration.before.round,  # the file may have the next one by now
        success=not bad and (iteration.passed or iteration.is_queued or not run.current.task),
        message=failed or turn.why or words,
        requirement_id=run.current.task or None,
        said=words,
        handover=turn.handover,
        summary=shorten(message, 500),
        ended=turn.outcome.name.lower(),
        until=turn.resets_at or 0,
        counted=not (iteration.is_repeated or iteration.is_merge),
        merge="queued" if iteration.is_queued else "checked" if iteration.is_merge else "",
        refused=bool(iteration.refused),
        duration_s=round(turn.took_s, 3),
        waited_s=round(run.tally.unrecorded_wait_s, 3),
        cost_usd=turn.cost_usd,
        cost_at_least=turn.at_least,
        **(turn.tokens or dict.fromkeys(journal.TOKENS, 0)),
        agent=run.pool.current.name,
        model=turn.model,
        done=after.ticked,
        total=len(after.tasks),
        moved=iteration.moved,
        commits=commits.count,
        added=commits.added,
        removed=commits.removed,
        base=commits.base,
        head=commits.head,
        files="\n".join(iteration.changed[:_FILES]),
        transcript=run.current.transcript.name if run.current.transcript else "",
    )
    run.tally.unrecorded_wait_s = 0.0
    if run.history and not iteration.is_repeated:
        try:
            tried = {name: line[name] for name in ("timestamp", "requirement_id", "success")}
            both = "; it said: ".join(filter(None, [failed or turn.why, words]))
            journal.append_line(run.history, tried | {"message": one_line(both, 500)}, own=False)
        except OSError as error:
            run.console.complain(f"{run.history}: cannot be written: {error.strerror}", once="history")


def _collect_remarks(run: Run, iteration: Iteration) -> Iterator[str]:
    turn = iteration.turn
    for command in turn.left_over:
        yield f"ended what the agent left running: {command}"
    if iteration.missing and not iteration.refused:
        kept = run.state.keep_copy(run.file.path.name, run.current.text_before)
        gone = quote_tasks(iteration.missing)
        yield f"gone from the list without being ticked: {gone}; the file before that is {kept}"
    if run.settings.once and turn.outcome is Outcome.OK and not iteration.after.tasks:
        yield f"there is no task in {run.file.path.name}; see what the agent wrote there"
    if (iteration.failed or turn.outcome is Outcome.HOPELESS) and run.current.transcript and not run.start.rehearsal:
        yield f"the record of this iteration is {run.current.transcript}"


def pause_or_wait(run: Run, iteration: Iteration) -> Stop | None:
    """Sends the progress notice and pauses, or waits out a limit or trouble. Returns a Stop if waiting is pointless."""
    if iteration.is_repeated:
        return _wait_for_limit_or_trouble(run, iteration.turn)
    every = run.settings.notify_frequency
    count = run.tally.iterations
    if every is not None and not iteration.is_merge and (count == 1 or count % every == 0):
        run.outbox.send(notices.progress_notice(run, iteration))
    if not run.controller.is_parallel:
        pause_between(run)
    return None


def pause_between(run: Run) -> None:
    """Pauses between two iterations, unless there is something else to do."""
    if run.tally.iterations and run.settings.delay and not _wait_is_pointless(run):
        run.console.set_activity("next iteration", run.settings.delay)
        _sleep(run, run.settings.delay)


def _wait_for_limit_or_trouble(run: Run, turn: Turn) -> Stop | None:
    """Waits until a usage limit or trouble is over, and says so. Returns a Stop if max-time is over sooner.

    Does not wait for a limit if another agent can work meanwhile.
    """
    is_old = run.controller.last_attempt_began_at < run.tally.last_wait_ended_at  # ralph has waited for its limit since
    if is_old or _wait_is_pointless(run):
        return None
    now = run.pace.now()
    most_s = run.settings.max_time
    until = now + pause_after_turn_s(turn, repeats=run.tally.repeats - 1, now=now)
    if turn.outcome is Outcome.LIMIT:
        pool = run.pool
        until = pool.note_limit(until, pool.agents if run.controller.is_parallel else [pool.current])
        if free := pool.free_agents():
            limited = f"{pool.current.name} is at its limit, until {format_moment(until, now)}"
            what = f"{free[0].name} works while {limited}"
            run.screen.say(f"ralph: {what}: {turn.why}")
            run.outbox.send(notices.waiting_notice(run, what, turn.why))
            return None
    seconds = until - now
    waiting = f"waiting until {format_moment(until, now)} ({format_duration(seconds)})"
    if most_s is not None and run.elapsed_s() + seconds >= most_s:
        return Stop(Reason.LIMIT, f"max-time is {format_duration(most_s)}, sooner over than {waiting}: {turn.why}")
    run.screen.say(f"ralph: {waiting}: {turn.outcome.value}: {turn.why}")
    run.write_journal("wait", success=True, message=turn.why, until=round(until, 3), planned_s=round(seconds, 3))
    if turn.outcome is Outcome.LIMIT and run.tally.repeats == 1:
        run.outbox.send(notices.waiting_notice(run, waiting, turn.why))
    run.console.set_activity(f"until {format_moment(until, now)}: {turn.outcome.value}", seconds)
    if not run.controller.pause_new_work_until(until):
        wait_watching_file(run, seconds)
    return None


def wait_watching_file(run: Run, seconds: float) -> None:
    """Waits that many seconds, or until the user writes something into the progress file that ends the run."""
    waited_s = _sleep(run, seconds)
    run.tally.unrecorded_wait_s += waited_s
    run.tally.last_wait_ended_at = run.pace.uptime_s()
    run.tally.waited_s += waited_s


def _wait_is_pointless(run: Run) -> bool:
    """Whether there is something else to do: the file says stop or done, or a limit is reached."""
    return needs_final_check(run.read_progress(), run.settings) or run.stop_reason() is not None


def _sleep(run: Run, seconds: float) -> float:
    """Waits so many seconds, by two clocks: one can be set, the other may miss sleep. Returns how many passed."""
    pace = run.pace
    began = beat = running = pace.uptime_s()
    until = pace.now() + seconds
    while not signals.interrupted() and pace.now() < until and running - began < seconds:
        if running > began and _wait_is_pointless(run):
            break
        if running - beat >= _BEAT_S:
            beat = running
            run.outbox.send(Notice("alive"))
        pace.sleep(min(_REREAD_S, seconds - (running - began), until - pace.now()))
        running = pace.uptime_s()
    return running - began
