"""git runs no program that an agent named: its settings are compared first, whatever has run that an agent may have
written, in each mode. The table is of git's documentation: `git help config`.
"""

from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, runs, step
from test_strict import KILL

from ralph.git.settings import GitConfigChangeFinder, git_config_entries, is_harmless
from ralph.store.state import State

SERIOUS = """
alias.status browser.x.cmd core.alternateRefsCommand core.askPass core.attributesFile core.bare core.editor
core.excludesFile core.fsmonitor core.gitProxy core.pager core.sshCommand core.worktree branch.main.mergeOptions
commit.gpgSign commit.template credential.helper credential.https://x.y.helper diff.external diff.x.command
diff.x.textconv difftool.x.cmd extensions.partialClone extensions.worktreeConfig fetch.bundleURI filter.x.clean
filter.x.process filter.x.smudge gc.recentObjectsHook gpg.program gpg.ssh.defaultKeyCommand gpg.x509.program
guitool.x.cmd imap.tunnel include.path includeIf.gitdir:/.path init.templateDir instaweb.browser
interactive.diffFilter lfs.customtransfer.x.path maintenance.auto man.x.cmd merge.x.driver mergetool.x.cmd
pager.status protocol.allow protocol.ext.allow receive.procReceiveRefs remote.x.partialclonefilter
remote.x.promisor remote.x.receivepack remote.x.uploadpack remote.x.vcs safe.bareRepository sendemail.sendmailCmd
sequence.editor status.submoduleSummary submodule.recurse submodule.x.ignore submodule.x.update tag.gpgSign
trailer.x.command uploadpack.packObjectsHook url.ext::x.insteadOf web.browser
"""
"""What can run a program, show a program's work to git, or have it look elsewhere."""
HARMLESS = """
advice.detachedHead author.name branch.a.b.merge branch.autoSetupRebase branch.main.remote committer.email
core.autocrlf core.hooksPath core.quotePath fetch.prune gc.auto init.defaultBranch
lfs.https://x.y/info/lfs.access merge.conflictStyle pull.rebase push.autoSetupRemote rebase.autoStash
remote.origin.fetch remote.origin.gh-resolved remote.origin.pushurl remote.origin.url remote.pushDefault
safe.directory submodule.x.active submodule.x.url user.email user.signingKey
"""


def written(key: str) -> str:
    """A key as it stands in a file of settings."""
    section, _, rest = key.partition(".")
    within, _, name = rest.rpartition(".")
    return f'[{section} "{within}"]\n{name} = sh -c evil\n' if within else f"[{section}]\n{name} = sh -c evil\n"


def test_each_setting_that_can_run_a_program_is_serious_and_each_harmless_one_is_not(project: Project) -> None:
    for keys, harmless in ((SERIOUS.split(), False), (HARMLESS.split(), True)):
        settings = git_config_entries("".join(map(written, keys)))
        assert len(settings) == len(keys)
        assert [one for one in settings if is_harmless(one) != harmless] == []
    made = git_config_entries((project.root / ".git" / "config").read_text())
    assert [one for one in made if not is_harmless(one)] == [], "an agent may make the repository"


def test_each_file_is_compared_that_git_reads_whether_it_is_active_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, home = tmp_path / "top", tmp_path / "home"
    for name, place in {"XDG_STATE_HOME": home / "state", "XDG_CONFIG_HOME": home / "xdg", "HOME": home}.items():
        monkeypatch.setenv(name, str(place))
    files = [top / ".git/config", top / ".git/config.worktree", home / ".gitconfig", home / "xdg/git/config"]
    files += [home / "far", home / "work"]
    texts = [
        '[includeIf "gitdir:/nowhere/"]\n\tpath = ../../home/far ; not active\n',
        "[Include]path=~/work\n",
        *[""] * 4,
    ]
    for path, text in zip(files, texts, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings = GitConfigChangeFinder(top, State("feature", top / "feature_PROGRESS.md"))
    for path in files:
        for key in ("user.name", "diff.external", "[nonsense"):
            before = path.read_text()
            settings.record_begin_state()
            path.write_text(before + written(key))
            settings.collect_new_changes()
            path.write_text(before)
            found = key in "".join(settings.harmless), bool(settings.serious)
            assert found == (key == "user.name", key != "user.name")
            settings.serious.clear()


def plants(setting: str, of: str = "") -> str:
    """What an agent does so that git runs a program of its own."""
    program = r"printf '#!/bin/sh\ntouch ~/escaped; cat\n' > evil; chmod +x evil"
    return f"{program}; echo x > README.md; echo '* filter=evil' > .gitattributes; git config {of} {setting}"


FSMONITOR, FILTER = "core.fsmonitor $PWD/evil", "filter.evil.clean $PWD/evil"
PROMISOR = "remote.x.url 'ext::sh -c touch% ~/escaped'; git config remote.x.promisor true"
LOST = "git config protocol.ext.allow always; rm -f .git/objects/$(git rev-parse HEAD^{tree} | sed 's,^..,&/,')"
BLOCKED = {
    "plain": ((), plants(FILTER)),
    "interrupted": ((), f"{plants(FILTER)}; {KILL.replace('9', 'INT')}"),
    "only": (("--only", "*"), plants(FSMONITOR, "--global")),
    "strict": (("--strict",), f"{plants(PROMISOR)}; {LOST}"),
    "plan": (("plan",), plants(FSMONITOR)),
    "verify": (("--verify", "sh check.sh; false"), f"cat > check.sh << 'X'\n{plants(FILTER)}\nX"),
    "validate": (("validate", "--verify", "sh ~/check"), f"cat > ~/check << 'X'\n{plants(FILTER)}\nX"),
    "killed": ((), f"{plants(FSMONITOR)}; {KILL}"),
}


@pytest.mark.parametrize("way", BLOCKED)
def test_such_a_setting_ends_the_run_before_git_runs_and_the_user_decides(
    project: Project, agent: Agent, way: str
) -> None:
    """Also one that a check has made, or an iteration in which ralph died; git would have run its program each time."""
    words, does = BLOCKED[way]
    project.has_tasks("one")
    agent.story(step(runs(does), ticks="all", writes_done=True))
    run = project.ralph("feature.md", "--delay", "0", *words)
    if way == "killed":
        assert run.code == -9
        project.git("config", "core.editor", "vi")
        run = project.build()
    assert run.code == 4, run.text
    why = project.progress_text.split("RALPH_BLOCKED: ralph: ")[1].split("\n")[0]
    assert " was changed: " in why
    assert "core.editor" not in why, "it is the user's"
    assert project.build().code == 4
    assert (len(agent.calls), (project.home / "escaped").exists()) == (1, False)
    project.does("sed -i /BLOCKED/d feature_PROGRESS.md")
    agent.story(step(file="one.txt", ticks="all", writes_done=True), repeat=True)
    assert project.build().code == 0


BARE = "git init -q --bare x; mv x/* .; git config -f config core.bare false; git config -f config core.worktree $PWD"
TRACKED = "git add .; git commit -qm x; rm -f ~/escaped; echo y > README.md"
WITHIN = {
    "a submodule": f"cd sub; {plants(FILTER)}; {TRACKED}",
    "a new repository": f"git init -q new; cd new; {plants(FILTER)}; {TRACKED}; git -C .. add new; rm -f ~/escaped",
    "what looks like one": f"{BARE}; {plants(FILTER, '-f config')}; echo junk > .git/HEAD; {TRACKED}",
}


@pytest.mark.parametrize("case", WITHIN)
def test_a_repository_within_is_not_looked_at_by_its_own_settings(project: Project, agent: Agent, case: str) -> None:
    project.does("git init -q ../sub; git -C ../sub commit -q --allow-empty -m s")
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "sub")
    project.has_tasks("one")
    agent.story(step(runs(WITHIN[case])), step(ticks="all", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    assert not (project.home / "escaped").exists(), run.text
