"""The differences that are meant: each a sentence, and what tells it from a fault, as narrow as can be.

A `Rewriting` says how yesterday's words for one fact of one start read once the decision is taken; what still differs
then is a fault. An `Ending` is for a start that is something else now: it and what comes after are not compared.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from facts import Facts
from story import LEFT_BY_CHECKS, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A story, what the older one showed of it, and which of its starts is looked at."""

    story: Story
    old: Sequence[Facts]
    screens: Sequence[str]
    """The older one's."""
    number: int
    """The start, from 0."""

    @property
    def words(self) -> tuple[str, ...]:
        return self.story.starts[self.number].words

    def says(self, variable: str) -> bool:
        """Whether this setting, or another text, stands in the words, the environment or a file of the story."""
        option = "--" + variable.removeprefix("RALPH_").lower().replace("_", "-")
        texts = (*self.words, *self.story.environment, *self.story.environment.values())
        texts += (*self.story.files.values(), *self.story.uncommitted.values(), *self.story.home.values())
        return option in self.words or any(variable in text for text in texts)

    def iterations_before(self, number: int) -> int:
        """Iterations of the plan before the start of that number, as the journal counts them."""
        lines = [json.loads(line) for facts in self.old[: max(number, 0)] for line in facts["journal"].splitlines()]
        return sum(line.get("counted") is True and line["event"] == "iteration" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """How the older one would have said a fact."""

    sentence: str
    fact: str
    rewrite: Callable[[Seen, str, str], str]
    """Of what was seen, the older one's text and the newer one's: the older one's as it would be now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Whether the start differs from here on because of a decision."""

    sentence: str
    holds: Callable[[Seen, Facts], bool]
    """Of what was seen, and the newer one's facts of this start."""


def _without_partial_messages(_: Seen, old: str, new: str) -> str:
    return old if "--include-partial-messages" in new else old.replace(" --include-partial-messages", "")


def _numbered_by_plan(seen: Seen, old: str, new: str) -> str:
    before = seen.iterations_before(seen.number)
    if old == new or not before:
        return old
    pattern = re.compile(r"(?<=#)\d+\b|(?<=^  Iteration )\d+\b|(?<=^body: Iteration )\d+\b", re.MULTILINE)
    return pattern.sub(lambda number: str(int(number[0]) + before), old)


def _journal_numbered_by_plan(seen: Seen, old: str, new: str) -> str:
    before = seen.iterations_before(seen.number)
    if old == new or not before:
        return old

    def numbered(line: str) -> str:
        fact = json.loads(line)
        died = fact.get("ended") == "died"  # in the start before
        if fact["iteration"]:  # 0 is before the first of a start
            fact["iteration"] += seen.iterations_before(seen.number - 1) if died else before
        if "summary" in fact:
            fact["summary"] = re.sub(r"^#\d+", lambda number: f"#{int(number[0][1:]) + before}", fact["summary"])
        return json.dumps(fact, ensure_ascii=False)

    return "\n".join(map(numbered, old.splitlines()))


def _prompt_numbered_by_plan(seen: Seen, old: str, new: str) -> str:
    before = seen.iterations_before(seen.number)
    if old == new or not before:
        return old
    text = re.sub(r"(?<=  \| ITERATION )\d+", lambda number: str(int(number[0]) + before), old)
    return (
        re.sub(r"(?<=  \| MAX_ITERATIONS )\d+", "", text)
        if re.search(r"\| MAX_ITERATIONS $", new, re.MULTILINE)
        else text
    )


def _verified_after(_: Seen, old: str, new: str) -> str:
    """Where a line of verify stands behind its iteration's, which then does not know yet what came of it."""
    was, now = old.splitlines(), new.splitlines()
    for at in range(min(len(was), len(now)) - 1):
        verify, iteration = was[at : at + 2]
        if now[at + 1] != verify or json.loads(verify)["event"] != "verify" or now[at] == verify:
            continue
        said, says = json.loads(iteration), json.loads(now[at])
        if not json.loads(verify)["success"]:
            said |= {name: says.get(name) for name in ("success", "refused", "message", "summary") if name in said}
        was[at : at + 2] = [json.dumps(said, ensure_ascii=False), verify]
    return "\n".join(was)


def _refused_after(_: Seen, old: str, new: str) -> str:
    """A notice of an iteration goes out before verify has looked at its claim."""
    told = " · done refused"
    return new if old.replace(told, "") == new.replace(told, "") else old


def _said_of_dropped_settings(seen: Seen, old: str, new: str) -> str:
    more = (old, new) == ("nothing", "something") or (old.endswith(" lines") and new == f"{int(old[:-6]) + 1} lines")
    return new if more and seen.says("RALPH_KEEP_TRANSCRIPTS") else old


def _left_by_checks(seen: Seen, old: str, new: str) -> str:
    return new if (old, new) == ("nothing", "something") and seen.says(LEFT_BY_CHECKS) else old


def _plan_changed(seen: Seen, old: str, new: str) -> str:
    """Where nothing but that line stood on standard error."""
    complaints = seen.screens[seen.number].partition("--- stderr\n")[2].strip().splitlines()
    only = all(line.endswith("it counts from the next start on") for line in complaints)
    return new if (old, new) == ("something", "nothing") and only else old


def _last_line_numbered(_: Seen, old: str, new: str) -> str:
    """Of `ralph status`, whose last line is an iteration's."""
    number = re.compile(r"(?<=<time>  #)\d+")
    return new if number.sub("N", old) == number.sub("N", new) else old


def _hurried(seen: Seen, old: str, new: str) -> str:
    """Where ralph is asked twice: it waits neither for git nor for a notice then, and how far these got is luck."""
    deeds = (*seen.story.at.values(), *seen.story.at_waits)
    return new if any(sum(deed[0] == "signal" for deed in one) > 1 for one in deeds) else old


def _quoted_in_notes(_: Seen, old: str, new: str) -> str:
    """Where the same lines stand there, those that were among ralph's now as a quotation."""
    told = "> Kept by ralph when it put the task list back:"

    def words(text: str) -> list[str]:
        lines = (line.removeprefix("> ").strip("\0 \r") for line in text.splitlines() if line != told)
        return sorted(line for line in lines if line not in ("", "## Notes"))

    return new if told in new and words(old) == words(new) else old


def _kept_once(_: Seen, old: str, new: str) -> str:
    """Where both keep the same, and the older one has it more than once; now its folder stands in its name, too."""
    begins = re.compile(r"^== <stamp>-\d+-(?:\.ralph_)?", re.MULTILINE)
    was, now = (set(begins.split(text)) for text in (old, new))
    return new if {one.strip() for one in was} == {one.strip() for one in now} else old


def _undone_as_lines(_: Seen, old: str, new: str) -> str:
    """Where both say of the same line that something was undone; what that was, stands in the file as well."""
    was, now = ([json.loads(line) for line in text.splitlines()] for text in (old, new))
    for one, other in zip(was, now, strict=False):
        if one.get("event") == other.get("event") and bool(one.get("tampered")) == bool(other.get("tampered")):
            told = one["event"] == "tamper" or (one["event"] == "run" and one["ended"] == "tampered")
            one |= {name: other[name] for name in ("tampered", *(["message"] * told)) if name in one and name in other}
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in was)


def _blocked_by_lines(_: Seen, old: str, new: str) -> str:
    """The same where --on-tamper abort wrote it down."""
    said = re.search(r"(?:RALPH_BLOCKED: ralph: |Reason: ).*\(undone\)", new)
    return re.sub(r"(?:RALPH_BLOCKED: ralph: |Reason: ).*\(undone\)", lambda _: said[0], old) if said else old


def _none_of_tasks(_: Seen, old: str, _new: str) -> str:
    return re.sub(r"^(  |body: )No task in (?=\S+$)", r"\1Tasks: none in ", old, flags=re.MULTILINE)


def _where_it_waited(_: Seen, old: str, new: str) -> str:
    """The last line, of a run that waited."""
    was, now = old.splitlines(), new.splitlines()
    if was and now and json.loads(was[-1])["event"] == "run" and json.loads(was[-1]).get("waits"):
        number = json.loads(now[-1]).get("iteration")
        was[-1] = json.dumps(json.loads(was[-1]) | {"iteration": number}, ensure_ascii=False)
    return "\n".join(was)


def _what_to_take_out(_: Seen, old: str, _new: str) -> str:
    return old.replace(
        "take RALPH_STOP out of feature_PROGRESS.md to go on", "take RALPH_STOP out of feature_PROGRESS.md"
    )


def _refs_of_the_shadow(_: Seen, old: str, new: str) -> str:
    """What an iteration began with is no ref of the project any more; one that the older one left stays."""
    progress = re.compile(r"^diff --git a/\S+_PROGRESS\.md .*?(?=^diff --git |^lock |\Z)", re.MULTILINE | re.DOTALL)
    (first, *refs), (_begins, *now) = (re.split(r"^(?=refs/)", text, flags=re.MULTILINE) for text in (old, new))
    before = "refs/worktree/ralph/before"
    refs = [ref for ref in refs if not ref.startswith(before)] + [ref for ref in now if ref.startswith(before)]
    return first + "".join(sorted(progress.sub("", ref) if ref.startswith("refs/ralph/kept/") else ref for ref in refs))


def _without_empty_folder(_: Seen, old: str, _new: str) -> str:
    return old.replace("== .ralph/\n", "")


def _moved_lines(_: Seen, old: str, new: str) -> str:
    """Where nothing but the lines of commits differ: a file that was moved counts as one gone and one new."""
    lines = re.compile(r"\+\d+ \u2212\d+|\"added\": \d+, \"removed\": \d+")
    return new if lines.sub("", old) == lines.sub("", new) else old


REWRITINGS = (
    Rewriting(
        sentence="that there is no task is said in the words of the tasks' line",
        fact="notices",
        rewrite=_none_of_tasks,
    ),
    Rewriting(
        sentence="a start that ends at once says what to do in the words of a run's end",
        fact="closing",
        rewrite=_what_to_take_out,
    ),
    Rewriting(
        sentence="a folder that is empty once what was wrong in it is put back goes, too",
        fact="files",
        rewrite=_without_empty_folder,
    ),
    Rewriting(
        sentence="what is needed to put back is in ralph's own repository",
        fact="git",
        rewrite=_refs_of_the_shadow,
    ),
    Rewriting(
        sentence="what was undone in the tasks is said as the lines that changed",
        fact="journal",
        rewrite=_undone_as_lines,
    ),
    *(
        Rewriting(
            sentence="what was undone in the tasks is said as the lines that changed, also in RALPH_BLOCKED",
            fact=fact,
            rewrite=_blocked_by_lines,
        )
        for fact in ("progress file", "notices")
    ),
    Rewriting(
        sentence="claude is asked for no partial messages",
        fact="agent",
        rewrite=_without_partial_messages,
    ),
    Rewriting(
        sentence="#N is the iteration of the plan in notices",
        fact="notices",
        rewrite=_numbered_by_plan,
    ),
    Rewriting(
        sentence="#N is the iteration of the plan in the journal",
        fact="journal",
        rewrite=_journal_numbered_by_plan,
    ),
    Rewriting(
        sentence="#N is the iteration of the plan in `ralph status`",
        fact="closing",
        rewrite=_last_line_numbered,
    ),
    Rewriting(
        sentence="a new file that is put away is kept once",
        fact="kept",
        rewrite=_kept_once,
    ),
    *(
        Rewriting(
            sentence="a second signal waits for nothing: what git and the last notice still tell is luck",
            fact=fact,
            rewrite=_hurried,
        )
        for fact in ("notices", "journal")
    ),
    Rewriting(
        sentence="what an agent writes among ralph's own in the progress file is quoted under the Notes",
        fact="progress file",
        rewrite=_quoted_in_notes,
    ),
    Rewriting(
        sentence="ITERATION of a template is that of the plan, MAX_ITERATIONS empty where it would mislead",
        fact="agent",
        rewrite=_prompt_numbered_by_plan,
    ),
    Rewriting(
        sentence="verify's line of the journal may stand after that of its iteration",
        fact="journal",
        rewrite=_verified_after,
    ),
    Rewriting(
        sentence="a notice of an iteration does not know yet that verify refuses its claim",
        fact="notices",
        rewrite=_refused_after,
    ),
    Rewriting(
        sentence="a setting that is no more is said, and no error",
        fact="stderr",
        rewrite=_said_of_dropped_settings,
    ),
    Rewriting(
        sentence="what verify, a criterion or a hook leaves running is ended, and that is said",
        fact="stderr",
        rewrite=_left_by_checks,
    ),
    Rewriting(
        sentence="that RALPH_X changed in the plan is not said any more",
        fact="stderr",
        rewrite=_plan_changed,
    ),
    *(
        Rewriting(
            sentence="under --strict the lines of a moved file count as gone and new",
            fact=fact,
            rewrite=_moved_lines,
        )
        for fact in ("notices", "journal")
    ),
    Rewriting(
        sentence="a run that ends while it waits names the iteration that it waits for",
        fact="journal",
        rewrite=_where_it_waited,
    ),
)


def _word_too_many(seen: Seen, new: Facts) -> bool:
    mode = [word for word in seen.words if not word.startswith("-")][1:3]
    return len(mode) == 2 and mode[0].isdigit() and _refused(new)


def _half_an_hour(seen: Seen, new: Facts) -> bool:
    return "1h30" in seen.words and _refused(new)


def _refused(new: Facts) -> bool:
    return new["exit code"] == "2" and not new["agent"] and not new["notices"] and not new["journal"]


def _claim_counts(seen: Seen, new: Facts) -> bool:
    strict = "--strict" in seen.words or seen.says("RALPH_STRICT")
    return strict and (new["exit code"], new["closing"]) == ("4", "done refused")


def _without_git(seen: Seen, _: Facts) -> bool:
    return "needs a git repository" in seen.screens[seen.number]


def _settings_of_git(seen: Seen, _: Facts) -> bool:
    return bool(re.search(r"^ralph: \.git/\S* was changed: put back", seen.screens[seen.number], re.MULTILINE))


def _killed_by_the_older(seen: Seen, _: Facts) -> bool:
    return bool(
        seen.story.takeover and seen.story.contained and seen.number == 1 and seen.old[0]["exit code"].startswith("-")
    )


ENDINGS = (
    Ending(
        sentence="what an older ralph noted under --strict when a signal ended it is not taken over",
        holds=_killed_by_the_older,
    ),
    Ending(sentence="--only and --on-failure restore work in a folder without git", holds=_without_git),
    Ending(sentence="what changes in git's own settings is said or ends the run, and stays", holds=_settings_of_git),
    Ending(sentence="under --strict a RALPH_DONE with open tasks counts as a refusal", holds=_claim_counts),
    Ending(sentence="a word too many, as in `ralph feature.md 20 plan`, is exit 2", holds=_word_too_many),
    Ending(sentence="`1h30` is refused: nobody means thirty seconds by it", holds=_half_an_hour),
)
