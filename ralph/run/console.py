"""What ralph itself prints and does during a run."""

from collections.abc import Callable

from ralph.screen.screen import Screen


class Console:
    """Prints ralph's own lines, and knows ralph's current activity."""

    def __init__(self, screen: Screen, activity_clock_s: Callable[[], float]):
        self.screen, self._activity_clock_s = screen, activity_clock_s
        self._complaints = set[str]()
        self.activity: tuple[str, float] | None = None
        """What ralph is doing, and since when; None while the agent works."""
        self.set_activity("starting")

    def complain(self, line: str, *, once: str = "") -> None:
        """Prints a warning; of several with the same `once`, only the first."""
        if once not in self._complaints:
            self._complaints |= {once} - {""}
            self.screen.complain(f"ralph: {line}")

    def set_activity(self, doing: str) -> None:
        """Sets the activity that the status line shows."""
        self.activity = doing, self._activity_clock_s()

    def announce_stopping(self, what: str) -> None:
        """Prints that ralph is stopping something, which may take some seconds."""
        self.set_activity(f"ending {what}")
        self.screen.say(f"ralph: stopping {what} and what it started; ask again to kill it immediately")
