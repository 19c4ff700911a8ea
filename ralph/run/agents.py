"""The agents of a run, and which of them are at their usage limit."""

from collections.abc import Sequence

from ralph.agent.command import Agent
from ralph.process.pace import Pace


class AgentPool:
    """The agents of the mode that is in force; of those that are not at their limit the first works next."""

    def __init__(self, agents: Sequence[Agent], pace: Pace) -> None:
        self.agents, self._pace = agents, pace
        self.current = agents[0]
        """The one whose turn it is."""
        self._limited_until = dict[str, float]()
        """In seconds since 1970, by name."""

    def use_agents(self, agents: Sequence[Agent]) -> None:
        """Those of a mode work from now on."""
        self.agents, self.current = agents, agents[0]

    def free_agents(self) -> list[Agent]:
        """Those that are not at their limit."""
        return [one for one in self.agents if self._limited_until.get(one.name, 0.0) <= self._pace.now()]

    def take_next(self) -> Agent:
        """The one that works now: where all are at their limit the same as before."""
        self.current = next(iter(self.free_agents()), self.current)
        return self.current

    def note_limit(self, until: float, agents: Sequence[Agent]) -> float:
        """Notes the limit of these agents; when the first limit of all is over, in seconds since 1970."""
        self._limited_until |= {one.name: until for one in agents}
        return min(self._limited_until.get(one.name, until) for one in self.agents)
