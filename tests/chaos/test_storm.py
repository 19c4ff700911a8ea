"""Whatever is killed, and whenever: nothing is lost or done twice, and the same command finishes the plan."""

from collections.abc import Sequence
from itertools import groupby

from ralph_driver import LONG, Project
from storm import TO_OTHERS, TO_RALPH, Storm

KILLS = 500 if LONG else 20
TASKS = [f"task-{number:02}" for number in range(1, 101 if LONG else 10)]
AGENT = """\
# Does the first open task, by a tool in a session of its own; some take long, some leave a server, some save in place.
cat > /dev/null
note() { echo "$1 $task $$" >> "$RECORD"; }
nl='
'
task= ticked= finished=
while IFS= read -r line; do
  new=$line
  case $line in
    '- [ ] '*) [ -n "$task" ] || { task=${line#'- [ ] '}; new="- [x] $task"; } ;;
    IN_PROGRESS) line=RALPH_DONE ;;
  esac
  ticked=$ticked$new$nl finished=$finished$line$nl
done < feature_PROGRESS.md
[ -n "$task" ] || { task=the-end ticked=$finished; }
note begin
calm=0.01
case $task in
  *[37]) setsid sleep 60 > /dev/null 2>&1 & ;;
  *5) calm=0.2 ;;
esac
setsid -w sh -c 'sleep $3; echo > "$1"; echo "step $1 $2" >> "$RECORD"; sleep $3' sh "$task" $$ $calm || exit 1
case $task in
  *[24680]) { sleep 0.04; printf %s "$ticked"; } > feature_PROGRESS.md || exit 1 ;;
  *) printf %s "$ticked" > "$RECORD.new" && mv "$RECORD.new" feature_PROGRESS.md || exit 1 ;;
esac
git add -A && git commit -q --allow-empty -m "$task" || exit 1
note end
"""


def test_whatever_is_hit_the_same_command_finishes_the_plan(project: Project) -> None:
    project.has_tasks(*TASKS)
    whole = project.progress_text
    storm = Storm(project, "8", AGENT, TO_RALPH + TO_OTHERS, kills=KILLS)

    def calm() -> None:
        if text := project.progress_text:  # it is empty while an agent saves in place, until the next start
            unmarked = text.partition("\n## Verification")[0].rstrip() + "\n"
            assert unmarked.replace("- [x] ", "- [ ] ").replace("\nRALPH_DONE\n", "\nIN_PROGRESS\n") == whole
        check([line.split() for line in storm.record.read_text().splitlines()], text)

    storm.rages(calm=calm)
    assert storm.killed > KILLS // 4, "a calm storm proves little"
    assert "\nRALPH_DONE\n" in project.progress_text
    assert {*TASKS, "the-end"} <= {*project.git("ls-tree", "--name-only", "HEAD").split()}


def check(lines: Sequence[list[str]], progress: str) -> None:
    """The lines say what, of which task, by whom; those of whoever kills have no pid."""
    done = {task for what, task, _ in lines if what == "step"}
    assert {line[6:] for line in progress.splitlines() if line.startswith("- [x] ")} <= done, "ticked, but not done"
    turns = [pid for pid, _ in groupby(pid for _, _, pid in lines if pid != "0")]
    assert len(turns) == len(set(turns)), "two agents at a time"
    begun = [task for task, _ in groupby(task for what, task, _ in lines if what == "begin")]
    assert begun == [*TASKS, "the-end"][: len(begun)], "a task was left out, or begun again after its tick"
    places = [place for place, (what, _, _) in enumerate(lines) if what == "begin"]
    for before, first, again in zip([0, *places], places, places[1:], strict=False):
        if lines[first][1] == lines[again][1]:
            since = max((n for n in range(before, first) if lines[n][2] == lines[before][2]), default=0)
            assert any(pid == "0" for _, _, pid in lines[since:again]), "done again, and nothing had been killed"
