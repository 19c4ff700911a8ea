"""The agents of a run, and which of them are at their usage limit."""

from collections.abc import Sequence

from ralph.agent.command import Agent
from ralph.process.pace import Pace


class AgentPool:
    """The agents of the mode in force; the first one that is not at its usage limit works next."""

    def __init__(self, agents: Sequence[Agent], pace: Pace) -> None:
        self.agents, self._pace = agents, pace
        self.current = agents[0]
        """The agent of the current or last iteration."""
        self._limited_until = dict[str, float]()
        """When the limit of each agent ends, by its name, in seconds since 1970."""

    def use_agents(self, agents: Sequence[Agent]) -> None:
        """Replaces the agents, when another mode begins."""
        self.agents, self.current = agents, agents[0]

    def free_agents(self) -> list[Agent]:
        """Returns the agents that are not at their limit."""
        return [one for one in self.agents if self._limited_until.get(one.name, 0.0) <= self._pace.now()]

    def take_next(self) -> Agent:
        """Chooses the agent of the next iteration: the first free one, or the same as before if all are at a limit."""
        self.current = next(iter(self.free_agents()), self.current)
        return self.current

    def note_limit(self, until: float, agents: Sequence[Agent]) -> float:
        """Records the limit of these agents. Returns when the first of all limits ends, in seconds since 1970."""
        self._limited_until |= {one.name: until for one in agents}
        return min(self._limited_until.get(one.name, until) for one in self.agents)
