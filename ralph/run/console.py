"""What ralph itself tells the user during a run, and what it does now."""

from ralph.process.pace import Pace
from ralph.screen.screen import Screen


class Console:
    """Lines of ralph's own for people, and the current activity."""

    def __init__(self, screen: Screen, pace: Pace) -> None:
        self.screen = screen
        self._pace = pace
        self._complaints = set[str]()
        self.activity: tuple[str, float, float | None] | None = None
        """What ralph itself does, since when, and how long where that is known; None while the agent works."""
        self.set_activity("starting")

    def complain(self, line: str, *, once: str = "") -> None:
        """Prints a line on what deserves one; of those with the same name in `once` only the first."""
        if once not in self._complaints:
            self._complaints |= {once} - {""}
            self.screen.complain(f"ralph: {line}")

    def set_activity(self, doing: str, seconds: float | None = None) -> None:
        """Shows what ralph itself does from now on, and how long it takes where that is known."""
        self.activity = doing, self._pace.uptime_s(), seconds

    def show_agent_at_work(self) -> None:
        """Shows that the agent works."""
        self.activity = None

    def announce_end(self, what: str) -> None:
        """Prints that ralph is ending this, which may take some seconds."""
        self.set_activity(f"ending {what}")
        self.screen.say(f"ralph: stopping {what} and what it started; ask again to kill it immediately")
