"""Makes the jobs of attempts and checks: a job carries all that governs its work, wherever that is done."""

import os
import re
import shlex
import shutil
from dataclasses import replace

from ralph import files
from ralph.errors import RalphError
from ralph.git.changes import IN_NO_OTHER
from ralph.git.repository import Repository
from ralph.parallel.attempt import TaskJob, bundle_as_base64
from ralph.parallel.task_attempt import TaskAttempt
from ralph.plan import prompt
from ralph.plan.tasks import Task
from ralph.run.context import Run
from ralph.run.notices import HANDOVER, handover_if_cut
from ralph.settings.table import AGENT_OF, BY_VARIABLE, Source
from ralph.words import join_names

# Attempts at the same time on one machine.
_MOST = 20
# Matches git's settings that say where a repository lies, what it is connected to, or who may log in.
_PLACE_KEYS = re.compile(
    r"(?:remote|branch|submodule|extensions|include|includeif|clone|protocol|credential|maintenance|gc)\."
    r"|core\.(?:bare|worktree|hookspath|repositoryformatversion|fsmonitor|sharedrepository)\n|safe\."
)
# The settings that an attempt gets as its coordinator has them.
_PASSED_ON = BY_VARIABLE.keys() - {"RALPH_HISTORY", "RALPH_HEARTBEAT_URL"}
# The program that replaces the agent then; so named that no setting of claude's is refused.
_AGENT = "claude"
# Replaces the agent: its result passes the same gates as any work, and the project's hooks run at the commit.
_APPLIES = r"""#!/bin/sh
signal=$(grep -o '<task-done [^<>]*>[^<>]*</task-done>' | tail -n 1)
git -c core.hooksPath=/dev/null cherry-pick --no-commit COMMIT >&2 || { git reset --hard --quiet; exit 1; }
words=$(git show -s --format=%B COMMIT | grep -Ev '^Ralph-(Task|Role): ')
printf '%s\n\n%s\n' "${words#*TASK: }" "$signal"
"""


class CloneJobMaker:
    """Makes jobs for clones of this repository."""

    def __init__(self, run: Run, repository: Repository):
        self._run, self._repository = run, repository
        self._is_elsewhere = bool(run.settings.runner or run.settings.executor)
        tree, hooks = repository.root, repository.hooks
        # Where a clone has the hooks, from its top.
        self._hooks_place = os.path.relpath(hooks, tree) if hooks.is_relative_to(tree) else ".git/hooks"

    def check_clones_can_work(self) -> None:
        """Raises RalphError if work in clones is not possible; warns about what the clones would lack."""
        start, settings, repository = self._run.prepared_mode, self._run.settings, self._repository
        tree, complain = repository.root, self._run.console.complain
        if settings.jobs > _MOST and not self._is_elsewhere:
            raise RalphError(f"{settings.given['jobs'].where}: at most {_MOST} on one machine", fix="see --executor")
        if not all(repository.read_branch_and_commit()):
            what = f"--jobs needs a branch that has a commit, and HEAD of {tree} is on none"
            raise RalphError(what, fix="git switch, or git commit")
        if settings.runner and not shutil.which(settings.runner[0]):
            raise RalphError(f"{settings.given['runner'].where}: there is no {settings.runner[0]}", fix="see --runner")
        if (tree / ".gitmodules").exists():
            raise RalphError("--jobs works in clones, which lack the submodules", fix="leave --jobs out")
        if not settings.auto_commit:
            what = f"--jobs brings work together by commits, and {settings.given['auto_commit'].where} forbids them"
            raise RalphError(what, fix="leave one out")
        own = [os.path.relpath(path.resolve(), tree) for path in (*start.files_ralph_writes, start.plan)]
        entries = repository.list_names("status", "--porcelain", "--no-renames", IN_NO_OTHER)
        mine = {entry[3:]: entry[:2] for entry in entries if entry[3:] not in own}
        changed = [name for name, status in mine.items() if status != "??"]
        if changed and not settings.allow_dirty:
            what = f"your changes to {join_names(changed)} may be in the way of finished tasks"
            raise RalphError(what, fix="commit or stash them, or continue with --allow-dirty")
        if mine:
            complain(f"the clones lack what you have not committed: {join_names([*mine])}")
        earlier = f"ralph/{start.name}"
        if repository.output_or_empty("branch", "--list", "--no-merged", "HEAD", earlier):
            complain(f"{earlier} has work of an earlier run: git merge {earlier}")

    def make_job(self, attempt: TaskAttempt) -> TaskJob:
        """Returns the job to try the attempt's task, beginning from its base."""
        run, settings, tree = self._run, self._run.settings, self._repository.root
        own_files = {"PROGRESS.md": (0o600, attempt.given.decode(errors="surrogateescape"))}
        for name, text in prompt.custom_template_texts(settings.prompts).items():
            own_files[f"prompts/{name}"] = 0o600, text
        return TaskJob(
            folder=f"{run.state.folder.name}/{attempt.task.id}",
            commit=attempt.base,
            source=str(tree),
            # everything that its work can be based on
            source_bundle=bundle_as_base64(
                self._repository, attempt.base, "HEAD", "--branches", "--glob=refs/ralph/queue"
            )
            if self._is_elsewhere
            else "",
            here=os.path.relpath(run.top, tree),
            files=own_files | self._file_texts_for_clone(),
            config=self._copied_git_settings(),
            env=self._environment(attempt.task),
            words=self._arguments(attempt),
            setup=[*(settings.wrap or ()), "sh", "-c", settings.setup] if settings.setup else [],
            keep=settings.keep_clones,
        )

    def make_check_before_merge(self, attempt: TaskAttempt) -> TaskJob:
        """Returns the job to check the attempt's commit on top of its base, applied in place of an agent's work."""
        job, script = self.make_job(attempt), _APPLIES.replace("COMMIT", attempt.commit)
        files = {**job.files, _AGENT: (0o700, script.replace("TASK", attempt.task.id))}
        env = {**job.env, "RALPH_EVIDENCE": "off", "RALPH_AGENT_BUILD": f"{os.path.relpath('.', job.here)}/../{_AGENT}"}
        if self._run.settings.roles:
            env["RALPH_ROLES"] = "build"  # the other roles have already run
        # the id of no task can end like this
        return replace(job, folder=f"{job.folder}+before-landing", files=files, env=env)

    def _file_texts_for_clone(self) -> dict[str, tuple[int, str]]:
        """Mode and text of the files that a clone needs and no commit contains, by path."""
        run, repository, tree = self._run, self._repository, self._repository.root
        places = {f".git/{name}": repository.common / name for name in ("info/exclude", "info/attributes", "shallow")}
        places |= {
            f"{self._hooks_place}/{path.relative_to(repository.hooks)}": path for path in repository.hooks.rglob("*")
        }
        own = (run.prepared_mode.plan, run.top / ".ralph.env")
        places |= {os.path.relpath(path, tree): path for path in own if path.is_relative_to(tree)}
        places = {name: path for name, path in places.items() if path.is_file()}
        places |= {name: tree / name for name in run.settings.setup_copy}
        found = {}
        for name, path in places.items():
            with files.os_errors_as_ralph_errors(path, "brought to a clone"):
                text = path.read_bytes().decode(errors="surrogateescape")
                found[f"brought/{name}"] = path.stat().st_mode & 0o777, text
        return found

    def _copied_git_settings(self) -> list[str]:
        """The git settings for a clone: on this machine the repository's, elsewhere the user's as well."""
        scope = [] if self._is_elsewhere else ["--local"]
        found = self._repository.list_names("config", "--list", *scope)
        return [
            *(entry.replace("\n", "=", 1) for entry in found if not _PLACE_KEYS.match(entry)),
            "remote.origin.fetch=+refs/ralph/queue/*:refs/ralph/queue/*",  # the commits that checks are about
            f"core.hookspath={self._hooks_place}",
        ]

    def _environment(self, task: Task) -> dict[str, str]:
        """The settings given here, as an attempt's environment; its plan, `.ralph.env` and templates hold the rest."""
        run = self._run
        env = {HANDOVER: handover_if_cut(run.state, task.id), "RALPH_ATTEMPT": task.id}  # which sends no notices
        for one in run.prepared_mode.given:  # the strongest first
            name, text = one.variable, one.text.strip()
            is_passed_on = name in _PASSED_ON or name.startswith(AGENT_OF)
            if text and is_passed_on and one.source not in (Source.PLAN, Source.PROJECT_FILE, Source.TEMPLATE):
                if name.startswith("RALPH_AGENT") and not self._is_elsewhere and re.match(r"[^/\s,]+/", text):
                    text = f"{shlex.quote(str(run.top))}/{text}"  # a program that a clone may lack
                env.setdefault(name, text)
        if run.settings.history and not self._is_elsewhere:
            env["RALPH_HISTORY"] = str(run.settings.history.resolve())
        return env

    def _arguments(self, attempt: TaskAttempt) -> list[str]:
        """The arguments for the ralph of an attempt: one attempt at this task, within what is left of the limits."""
        run, task = self._run, attempt.task
        plan, most_s = run.prepared_mode.plan, run.settings.max_time
        one_try = (
            f"build --strict --jobs 1 --task {task.id} --max-tries {task.failed_tries + 1} --max-failures 1 --delay 0"
        )
        # so that any name works
        name = f"./{os.path.relpath(plan, run.top)}" if plan.is_relative_to(self._repository.root) else str(plan)
        words = [name, *one_try.split(), "--no-wait"]
        if attempt.share_usd is not None:
            words += ["--max-cost", f"{attempt.share_usd:.4f}"]
        if most_s is not None:
            words += ["--max-time", f"{max(1.0, most_s - run.elapsed_s()):.3f}s"]
        return [*words, "--", *run.prepared_mode.asked.agent_arguments]
