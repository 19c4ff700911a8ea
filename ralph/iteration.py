"""One turn of the agent and a look at what came of it; and the record of that."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from ralph import journal, progress
from ralph.agent import command as agent
from ralph.agent.stream import Stream, drop_parts
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.channels import notices
from ralph.claims import claims_done
from ralph.errors import RalphError
from ralph.judge import Iteration, Judgement, Watched, over_budget, summary, tallied
from ralph.process import Files, Job
from ralph.prompt import Value
from ralph.run import Run
from ralph.state import TRANSCRIPTS_BYTES
from ralph.verdict import budget_usd
from ralph.words import counted


def iterate(run: Run) -> Iteration:
    """One turn of the agent, with everything it started ended again, and what it changed."""
    _check_place(run)
    _rotate(run)
    number = run.earlier + run.tally.iterations + 1
    prompt = run.prompt.render(_variables(run, number))
    run.files = files = run.state.transcripts(run.id, number, prompt)
    stream = _begin(run, number, files)
    run.view.told(prompt)
    run.tries.begin()
    with run.guard.watching(run) if run.guard else contextlib.nullcontext(Watched()) as watched:
        before = run.file.last
        turn = _turn(run, files, stream)
    commits, changed = Commits(), tuple[str, ...]()
    after = run.read()
    if not watched.strayed:  # else no git may run any more
        if not run.guard:
            run.remove_orphaned_locks("the agent")
        if after.verified:  # that word is ralph's alone, also where nothing is verified today
            after = run.file.edit(progress.without_verified)
        commits, changed = run.changes.look()
    return Iteration(
        number=number,
        before=before,
        after=after,
        turn=turn,
        commits=commits,
        changed=changed,
        ended_s=run.elapsed_s(),
        task=run.task,
        tampered=watched.tampered,
        outside=watched.outside,
        strayed=watched.strayed,
    )


def _check_place(run: Run) -> None:
    """Raises RalphError before money is spent on an iteration that cannot come to anything."""
    if not run.top.is_dir() or not run.top.samefile("."):
        raise RalphError(f"{run.top}: the working directory is gone", 1)
    if not run.start.plan.is_file():
        raise RalphError(f"{run.start.plan}: the plan is gone", 1)
    run.state.check_room()
    run.file.check_writable()


def _rotate(run: Run) -> None:
    """Now and then: looking through the transcripts takes longer the more there are."""
    run.unrotated_bytes += run.files.size() if run.files else 0
    if run.unrotated_bytes > TRANSCRIPTS_BYTES // 10:
        run.unrotated_bytes = 0
        run.state.rotate()


def _variables(run: Run, number: int) -> dict[str, Value]:
    values = {**run.start.values, **(run.strict.values() if run.strict else {}), "ITERATION": number}
    if run.earlier:  # who is told "17 of at most 5" would think that it is over
        values["MAX_ITERATIONS"] = ""
    return values


def _begin(run: Run, number: int, files: Files) -> Stream:
    """The note for after a death, the heading, the first notice; what will read the agent's output."""
    before, run.text_before = run.file.last, run.file.text
    run.state.begin(run.id, run.start.mode, number, files.output, run.text_before)
    run.changes.begin(anew=run.settings.once or run.verified)
    run.verified = False
    if run.iterated:
        run.screen.remark("")
    else:
        run.outbox.send(notices.started(run))
    run.iterated, run.number = True, number
    run.screen.remark(f"ralph: {notices.heading(run, before)}")
    stream = Stream(run.view.show, run.view.tell, windows=run.windows, max_context=run.settings.max_context)
    run.view.begin(stream)
    run.status.iterates(run.tally, before, 0 if run.settings.once else number)
    return stream


def _turn(run: Run, files: Files, stream: Stream) -> Turn:
    settings, most_s = run.settings, run.settings.max_time
    argv = agent.argv(settings, run.start.agent_arguments, budget_usd(run.file.last, run.tally, settings))
    bounds = agent.Bounds(
        silence_s=agent.silence_s(settings, run.env),
        whole_s=settings.iteration_timeout,
        output_bytes=run.pace.transcript_bytes,
        out_of_time=lambda: most_s is not None and run.elapsed_s() >= most_s,
    )
    try:
        job = Job(argv=argv, env=run.env, files=files)
        return agent.turn(job, run.keeper, stream, bounds, now=run.now, quiet=run.view.quiet, ending=run.view.ending)
    finally:
        if settings.max_context is not None:
            drop_parts(files.output)


def record(run: Run, iteration: Iteration, judged: Judgement) -> None:
    """The journal, the tally, the summary line, what deserves one of its own; a monitor hears that ralph is alive."""
    iteration = replace(iteration, after=run.file.last)
    waited_s, run.waited_before_s = run.tally.waited_s - run.waited_before_s, run.tally.waited_s
    line = journal.of_iteration(run.identity, iteration, judged, waited_s=waited_s, files=run.files)
    if not judged.again:
        run.state.note("iterations", str(iteration.number))
    run.write_down(line)
    if not judged.again:
        _add_to_history(run, line)
    was_half_open, run.tally = run.tally.half_open, tallied(run.tally, iteration, judged)
    run.number = run.earlier + run.tally.iterations if run.tally.iterations else 0
    if was_half_open and not run.tally.half_open:
        run.state.close_breaker()
    run.status.knows(run.tally, iteration.after, run.number)
    for remark in _remarks(run, iteration, judged):
        run.complain(remark)
    if not judged.again:
        run.screen.say(summary(iteration, judged))
        run.waited_until = None
    spent = (iteration.before.spent_usd or 0.0) + (iteration.turn.cost_usd or 0.0)
    if run.settings.max_total_cost is not None and spent:  # also without a cost: the agent may have changed it
        run.file.edit(lambda text: progress.with_spent(text, spent))
    if run.strict or not claims_done(run, run.file.last):  # else it is judged once that is checked
        run.state.end()
    run.heartbeat.beat()


def _add_to_history(run: Run, line: journal.Line) -> None:
    try:
        run.tries.add(journal.of_try(line))
    except OSError as error:
        run.complain(f"{run.tries.path}: cannot be written: {error.strerror}", once="history")


def _remarks(run: Run, iteration: Iteration, judged: Judgement) -> Iterator[str]:
    turn = iteration.turn
    for command in turn.left_over:
        yield f"ended what the agent left running: {command}"
    if judged.missing and not judged.refused:
        kept = run.state.keep(run.file.path.name, run.text_before)
        count = counted(len(judged.missing), "open task")
        yield f"{count} gone from the list without being ticked; the file before that is {kept}"
    if run.settings.once and turn.outcome is Outcome.OK and not iteration.after.tasks:
        yield f"there is no task in {run.file.path.name}; see what the agent wrote there"
    if expensive := over_budget(iteration, run.settings):
        yield expensive
    if (judged.failed or turn.outcome is Outcome.HOPELESS) and run.files and not run.start.rehearsal:
        yield f"the record of this iteration is {run.files.output}"
