"""Runs the agent once and collects what it did, records the iteration, and pauses or waits after it."""

import math
import os
import time
from dataclasses import replace
from pathlib import Path

from ralph.agent.command import Agent
from ralph.agent.turn import Commits, Outcome, Turn, without_signals
from ralph.errors import RalphError
from ralph.loop.modes import undo_ticks_and_end_mode
from ralph.notify.channels import Notice
from ralph.plan import progress
from ralph.plan.progress.file import LostMessageWatch
from ralph.plan.tasks import edits
from ralph.process import signals
from ralph.process.supervisor import Command
from ralph.run import notices
from ralph.run.context import Run
from ralph.run.evidence import refuse_plan_done
from ralph.run.judge import AroundTurn, BaseController, Iteration, count_in_tally, quote_tasks, wait_before_repeat_s
from ralph.run.stop_rules import Reason, Stop, has_unaccepted_plan_done, remaining_usd
from ralph.store import journal
from ralph.store.state import UnfinishedIteration
from ralph.words import format_duration, format_moment, join_names, one_line, shorten

# Seconds between reads of the progress file during a wait, since the user may write RALPH_STOP.
_REREAD_S = 2.0
_BEAT_S = 300.0
# The most files of an iteration that the journal names.
_FILES = 100


class PlainController(BaseController):
    """The agent picks, ticks and commits; ralph checks the result."""

    def __init__(self, run: Run, around_turn: AroundTurn | None):
        self._run = run
        self.around_turn = around_turn or self.around_turn

    def run_or_await_iteration(self) -> Iteration:
        """Runs the next iteration and returns what is known of it once its agent has ended."""
        return run_agent_once(self._run)

    def accept_or_refuse_result(self, judged: Iteration) -> Iteration:
        """Refuses a RALPH_DONE that does not hold, and ends a mode of one iteration."""
        if self._run.settings.once:
            judged = undo_ticks_and_end_mode(self._run, judged)
        if judged.refused:
            refuse_plan_done(self._run, judged.refused, judged.missing)
        return judged


def run_agent_once(run: Run) -> Iteration:
    """Runs the agent once, ends everything that it started, and returns what it did and changed."""
    agent = (run.free_agents() or run.prepared_mode.agents)[0]
    prompt = _begin_and_render_prompt(run, agent)
    before, file, current = run.file.last, run.file, run.iteration
    messages = LostMessageWatch(file.path, current.text_before)
    with run.controller.around_turn() as findings:
        run.state.save_note(  # all that the next run needs if ralph dies
            UnfinishedIteration(
                run=run.id,
                mode=run.mode,
                iteration=current.number,
                transcript_path=str(current.transcript),
                progress_path=os.path.realpath(file.path),
                vouched_text=os.fsdecode(current.text_before),
            )
        )
        turn = _run_agent(run, agent, prompt, messages)
    turn.another_is_free = len(run.free_agents()) > 1
    findings.why_run_ends = findings.why_run_ends or run.git_settings.why_settings_block_git
    after = run.read_progress()
    if lost := messages.find_lost(file.text):
        file.edit(progress.with_lines_added, "Messages", lost)
        what = "put back under ## Messages what the agent's copy wrote over"
        run.console.complain(f"{what}: {join_names([*map(os.fsdecode, lost)])}")
    if after.verified:  # only ralph may write that line, even if nothing is verified
        file.edit(progress.without_control_lines, "Verified")
    if after.rounds != before.rounds:  # only ralph counts the rounds
        file.edit(progress.with_mode, after.mode or "build", before.rounds)
    commits, changed = Commits(), findings.changed or ()
    if not findings.why_run_ends:  # else git may not run any more
        run.remove_orphaned_locks("the agent")
        if findings.changed is None:
            commits, changed = run.changes.take_changes()
    if turn.outcome is not Outcome.OK:
        turn.handover = run.view.handover_of_cut_iteration(turn.why, changed)
    return Iteration(before=before, after=file.last, turn=turn, commits=commits, changed=changed, findings=findings)


def _begin_and_render_prompt(run: Run, agent: Agent) -> str:
    """Announces the next iteration, and returns its prompt.

    Raises RalphError, before money is spent, if it cannot succeed.
    """
    start, state, settings = run.prepared_mode, run.state, run.settings
    if not start.plan.is_file():
        raise RalphError(f"{start.plan}: the plan is gone", 1)
    state.ensure_room_for_transcripts()
    run.file.check_writable()
    if settings.mcp and not run.controller.picks_tasks:
        run.file.edit(edits.with_ids)  # now, so that an agent that adds an id does not seem to replace the task
    number = run.earlier + run.tally.iterations + 1
    prompt = start.load_mode_prompt().render(
        {
            **run.iteration.prompt_values,
            "ITERATION": number,
            "MEMORY": notices.describe_last_iterations_for_prompt(
                state, already_told_task=run.iteration.task, figures=notices.run_figures(run)
            ),
            "CAN_RUN": agent.can_run_commands(settings),
            "RED_START": run.tally.first_verify_failure or "",
        }
    )
    if run.iteration.number:
        run.screen.say_unless_quiet("")
    else:
        notices.notify_started(run)
    transcript = state.pick_transcript_and_write_prompt(run.id, number, prompt)
    run.replace_iteration_values(number=number, agent=agent.name, text_before=run.file.text, transcript=transcript)
    run.git_settings.record_begin_state()
    run.changes.disturbed |= settings.once
    run.changes.begin_iteration()
    run.screen.say_unless_quiet(f"ralph: {notices.iteration_heading(run)}")
    run.console.activity = None
    run.view.show({"type": "prompt", "text": prompt})
    return prompt


def _run_agent(run: Run, agent: Agent, prompt: str, user_messages: LostMessageWatch) -> Turn:
    """Runs the agent until it ends, is interrupted, reaches a limit or lingers after its result; returns its turn."""
    settings, clock, transcript = run.settings, run.clock, run.iteration.transcript
    tried = run.iteration.prompt_values.get("TRY")
    model_index = tried - 1 if isinstance(tried, int) else run.tally.refusals + run.tally.failures // 2
    agent = agent._replace(model_index=model_index)
    reader = run.view.new_reader()
    silence_s = settings.idle_timeout or math.inf
    result_at = retries_at = math.inf
    cut = None

    def should_end(silent_s: float, took_s: float, printed: int) -> bool:
        nonlocal cut, result_at, retries_at
        user_messages.track_new_messages()
        retries_at = min(retries_at, took_s) if reader.retry else math.inf
        reached = {
            Outcome.OUT_OF_TIME: run.remaining_s() <= 0,
            Outcome.TIMED_OUT: took_s > (settings.iteration_timeout or math.inf),
            Outcome.TROUBLE: took_s - retries_at > silence_s,  # printing retries is not a sign of life
            Outcome.HUNG: silent_s > silence_s,
            Outcome.TOO_LONG: printed > clock.max_printed_bytes,
            Outcome.CONTEXT_FULL: reader.is_time_to_cut(settings.max_context),
        }
        cut = next((outcome for outcome, is_reached in reached.items() if is_reached), None)
        result_at = min(result_at, took_s) if reader.result else math.inf
        if reader.result:
            cut = Outcome.OK if took_s - result_at > clock.after_result_s else None
        if signals.interrupted():
            cut = Outcome.INTERRUPTED
            run.console.announce_stopping("the agent")
        reader.ended_by_ralph = cut is not None
        return reader.ended_by_ralph

    budget = remaining_usd(run.file.last, run.tally, settings, settings.max_iteration_cost)
    given = transcript.with_suffix(".prompt.md")
    argv = agent.command_line(
        settings, prompt, file=str(given), budget_usd=budget, mcp=run.prepared_mode.tools_server_as_json
    )
    job = Command(argv, run.env, output=transcript, stdin_path=Path(os.devnull) if agent.prompt else given)
    began = time.monotonic()
    ended = run.run_supervised("the agent", job, reader.read_output, should_end)
    if ended.unstarted:
        why = f"the agent {argv[0]} cannot be started: {ended.unstarted} (a script needs a right #! line; see --agent)"
        is_being_replaced = run.tally.iterations > 0  # since it was there an iteration ago
        return Turn(outcome=Outcome.TROUBLE if is_being_replaced else Outcome.HOPELESS, why=why)
    turn = reader.to_turn(agent, ended, cut, clock.unix_time_s())
    turn.took_s = time.monotonic() - began
    if settings.model and agent.flags.get("model"):
        turn.model = settings.model[: model_index + 1][-1]
    return turn


def record_and_report(run: Run, iteration: Iteration) -> None:
    """Records the iteration in the tally and the journal, prints its summary and remarks, and pings the monitor."""
    iteration = replace(iteration, after=run.file.last)
    turn, file, settings = iteration.turn, run.file, run.settings
    summary = notices.iteration_summary(run, iteration)
    count_in_tally(run.tally, iteration, run.iteration.task)
    _append_to_journal_and_history(run, iteration, summary)
    run.write_tampering_to_journal(run.iteration.number)
    if iteration.missing and not iteration.refused:
        kept = run.state.keep_copy(file.path.name, run.iteration.text_before)
        what = f"gone from the list without being ticked: {quote_tasks(iteration.missing)}"
        run.console.complain(f"{what}; the file before that is {kept}")
    if (iteration.failed or turn.outcome is Outcome.HOPELESS) and not run.prepared_mode.rehearsal:
        run.console.complain(f"the record of this iteration is {run.iteration.transcript}")
    if not iteration.is_repeated:
        run.screen.say(summary)
        run.last_lines.append(summary)
    spent = iteration.before.spent_usd + (turn.cost_usd or 0.0)
    if settings.max_total_cost is not None and spent:  # even without a cost, since the agent may have changed it
        file.edit(progress.with_spent, spent)
    if run.controller.picks_tasks or not has_unaccepted_plan_done(file.last, settings):  # else once it is checked
        run.state.remove_iteration_note()
    run.write_statuses_to_plan()
    run.outbox.send(Notice("alive"))


def _append_to_journal_and_history(run: Run, iteration: Iteration, summary: str) -> None:
    """Writes a line of the journal and one of the history."""
    turn, commits, after, task = iteration.turn, iteration.commits, iteration.after, run.iteration.task
    words = shorten(without_signals(turn.final_words), 500)
    failed = iteration.failed or "; ".join(iteration.refused)
    is_good = not (failed or iteration.is_repeated or (iteration.run_stop and iteration.run_stop.reason.code))
    line = run.write_journal(
        "iteration",
        round=iteration.before.round,  # the file may have the next one by now
        success=is_good and (iteration.passed or iteration.is_queued or not task),
        message=failed or turn.why or words,
        requirement_id=task or None,
        said=words,
        handover=turn.handover,
        summary=summary,
        ended=turn.outcome.name.lower(),
        until=turn.resets_at,
        counted=not (iteration.is_repeated or iteration.is_merge),
        merge="queued" if iteration.is_queued else "checked" if iteration.is_merge else "",
        refused=bool(iteration.refused),
        duration_s=round(turn.took_s, 3),
        waited_s=round(run.tally.unrecorded_wait_s, 3),
        cost_usd=turn.cost_usd,
        cost_at_least=turn.at_least,
        **(turn.tokens or {}),
        agent=run.iteration.agent,
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
        transcript=run.iteration.transcript.name,
    )
    run.tally.unrecorded_wait_s = 0.0
    if run.history and not iteration.is_repeated:
        try:
            tried = {name: line[name] for name in ("timestamp", "requirement_id", "success")}
            both = "; it said: ".join(filter(None, [failed or turn.why, words]))
            journal.append_line(run.history, tried | {"message": one_line(both, 500)}, is_own_file=False)
        except OSError as error:
            run.console.complain(f"{run.history}: cannot be written: {error.strerror}", once="history")


def notify_and_pause_or_wait(run: Run, iteration: Iteration) -> Stop | None:
    """Sends the progress notice and pauses, or waits out a limit or trouble. Returns a Stop if waiting is pointless."""
    if iteration.is_repeated:
        return _wait_unless_time_runs_out(run, iteration.turn)
    every, count = run.settings.notify_frequency, run.tally.iterations
    if every is not None and not iteration.is_merge and (count == 1 or count % every == 0):
        what = f"Iteration {run.iteration.number} {'failed' if iteration.failed else 'completed'}"
        notices.send_notice(run, "progress", what, run.last_lines[-1])
    if not run.controller.has_work_to_finish:
        pause_between(run)
    return None


def pause_between(run: Run) -> None:
    """Pauses between two iterations, unless there is something else to do."""
    if run.tally.iterations and run.settings.delay:
        run.console.set_activity("pausing")
        wait_at_most(run, run.settings.delay, counts_as_waiting=False)


def _wait_unless_time_runs_out(run: Run, turn: Turn) -> Stop | None:
    """Waits until a usage limit or trouble is over, and says so. Returns a Stop if max-time is over sooner.

    Does not wait for a limit if another agent can work meanwhile.
    """
    tally, current, now = run.tally, run.iteration, run.clock.unix_time_s()
    if current.began < tally.last_wait_ended_at or _is_stop_or_done_due(run):  # ralph has waited for its limit since
        return None
    until = now + wait_before_repeat_s(turn, repeats=tally.repeats - 1, now=now)
    free, names = [], [one.name for one in run.prepared_mode.agents]
    if turn.outcome is Outcome.LIMIT:
        run.limited_until.update(dict.fromkeys([current.agent] if current.agent else names, until))
        until = min(run.limited_until.get(name, until) for name in names)
        free = run.free_agents()
    moment, seconds = format_moment(until, now), until - now
    what = f"waiting until {moment} ({format_duration(seconds)})"
    if free:
        what = f"{free[0].name} works while {current.agent} is at its limit, until {moment}"
    elif seconds >= run.remaining_s():
        most = f"max-time is {format_duration(run.settings.max_time or 0.0)}"
        return Stop(Reason.LIMIT, f"{most}, sooner over than {what}: {turn.why}")
    run.screen.say(f"ralph: {what}: {turn.outcome.value}: {turn.why}")
    if turn.outcome is Outcome.LIMIT and (free or tally.repeats == 1):
        why = f"Reason: {shorten(turn.why, 1000)}"
        notices.send_notice(run, "waiting", what.capitalize(), why)
    if not free:
        run.write_journal("wait", success=True, message=turn.why, until=round(until, 3), planned_s=round(seconds, 3))
        run.console.set_activity(f"until {moment}: {turn.outcome.value}")
        if not run.controller.delay_new_agents(until):
            wait_at_most(run, seconds)
    return None


def wait_at_most(run: Run, seconds: float, *, counts_as_waiting: bool = True) -> None:
    """Waits that long, by a clock that nobody sets. A mere pause does not count as waiting.

    Ends sooner if there is something else to do: the user wrote stop or done into the file, or a limit is reached.
    """
    clock, tally = run.clock, run.tally
    began = beat = now = clock.boot_clock_s()
    until = began + seconds
    while now < until and not _is_stop_or_done_due(run):
        if now - beat >= _BEAT_S:
            beat = now
            run.outbox.send(Notice("alive"))
        clock.sleep_until_signal(min(_REREAD_S, until - now))
        now = clock.boot_clock_s()
    if counts_as_waiting:
        tally.unrecorded_wait_s += now - began
        tally.waited_s += now - began
        tally.last_wait_ended_at = now


def _is_stop_or_done_due(run: Run) -> bool:
    return has_unaccepted_plan_done(run.read_progress(), run.settings) or run.stop_reason() is not None
