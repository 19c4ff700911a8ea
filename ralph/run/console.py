"""What ralph itself prints during a run, and what it is doing now."""

from ralph.process.pace import Pace
from ralph.screen.screen import Screen


class Console:
    """Prints ralph's own lines, and knows ralph's current activity."""

    def __init__(self, screen: Screen, pace: Pace) -> None:
        self.screen = screen
        self._pace = pace
        self._complaints = set[str]()
        self.activity: tuple[str, float, float | None] | None = None
        """What ralph is doing, since when, and for how long if known; None while the agent works."""
        self.set_activity("starting")

    def complain(self, line: str, *, once: str = "") -> None:
        """Prints a warning; of several with the same `once`, only the first."""
        if once not in self._complaints:
            self._complaints |= {once} - {""}
            self.screen.complain(f"ralph: {line}")

    def set_activity(self, doing: str, seconds: float | None = None) -> None:
        """Sets the activity that the status line shows, and how long it takes if known."""
        self.activity = doing, self._pace.uptime_s(), seconds

    def show_agent_at_work(self) -> None:
        """Lets the status line show the agent again."""
        self.activity = None

    def announce_end(self, what: str) -> None:
        """Prints that ralph is stopping something, which may take some seconds."""
        self.set_activity(f"ending {what}")
        self.screen.say(f"ralph: stopping {what} and what it started; ask again to kill it immediately")
