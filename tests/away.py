"""A person who is away: what a run tells them, by a script of their own."""

import shlex

from ralph_driver import Project


class Mailbox:
    """Gets the notices of all runs in this project from now on."""

    def __init__(self, project: Project) -> None:
        self._box = project.home / "box"
        self._box.touch()
        script = project.home / "send"
        script.write_text(f'#!/bin/sh\nprintf "%s\\0" "$1" >> {shlex.quote(str(self._box))}\n')
        script.chmod(0o700)
        project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(script)

    @property
    def notices(self) -> list[str]:
        return self._box.read_text().split("\0")[:-1]

    @property
    def titles(self) -> list[str]:
        return [notice.partition("\n")[0] for notice in self.notices]
