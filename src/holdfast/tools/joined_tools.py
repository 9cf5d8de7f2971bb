"""Two tool sets as one. If both have a tool of the same name, the first set's is used."""

from collections.abc import Hashable

from holdfast.kernel.ids import AgentName
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome, Tools, no_such_tool, origin_of, outages_of


class JoinedTools:
    """Implements `Tools`, `Unreliable` and `Traceable`."""

    def __init__(self, first: Tools, second: Tools) -> None:
        self._first = first
        self._second = second

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        first = self._first.specs(agent)
        names = {spec.name for spec in first}
        return (*first, *(spec for spec in self._second.specs(agent) if spec.name not in names))

    def is_idempotent(self, name: str) -> bool:
        return self._owner(name, AgentName("")).is_idempotent(name)

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        return self._owner(name, agent).needs_approval(agent, name)

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        """Each set knows only its own tools, so the outcome for an unknown tool is made here."""
        outcome = await self._owner(name, context.agent).call(name, arguments, context)
        return no_such_tool(name, self.specs(context.agent), self.outages()) if outcome.missing else outcome

    def outages(self) -> tuple[str, ...]:
        return (*outages_of(self._first), *outages_of(self._second))

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        return origin_of(self._owner(name, agent), agent, name)

    def _owner(self, name: str, agent: AgentName) -> Tools:
        is_seconds = name not in {spec.name for spec in self._first.specs(agent)} and name in {
            spec.name for spec in self._second.specs(agent)
        }
        return self._second if is_seconds else self._first
