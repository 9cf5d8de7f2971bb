"""The seam to memory: a provider that gets every turn of the conversation, and is asked for each fact.

Everything goes through the provider port, so that any provider can be measured. The questions name who they are
about, which makes them easy to find: this measures what recall adds to a summary, not how good recall is.
"""

from collections.abc import Sequence

from holdfast.eval.compression.conversation import Exchange
from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import Delivered, Line, Op, Parcel, SaidTurn
from holdfast.memory.naming import NamingInputs
from holdfast.memory.provider import Configured
from holdfast.memory.recall import RecallKey, RecallPolicy, RecallQuery, choose
from holdfast.runtime.app import make_agents
from holdfast.runtime.environment import Environment
from holdfast.runtime.memory_factory import make_providers
from holdfast.turns.policy import AgentPolicy

LOCAL = ProviderName("local")
AGENT = AgentName("main")
SESSION = SessionId("ses_eval")
PRINCIPAL = Principal("user")
TURN_MS = 60_000


class Memory:
    """One provider for one conversation."""

    def __init__(self, configured: Configured) -> None:
        self.name = configured.provider.capabilities.renderer
        self._provider = configured.provider
        self._inputs = NamingInputs(agent=AGENT, session=SESSION, principal=PRINCIPAL)
        self._place = configured.naming.place(self._inputs)

    async def keep(self, turn: int, exchange: Exchange) -> None:
        """Deliver one turn. Raises `ProviderFailed` when it does not land: a score without it would mislead."""
        at = Instant(turn * TURN_MS)
        said = (
            Line(role="user", speaker=PRINCIPAL, text=exchange.user, at=at, seq=2 * turn - 1),
            Line(role="assistant", speaker=AGENT, text=exchange.assistant, at=at, seq=2 * turn),
        )
        parcel = Parcel(
            id=DeliveryId(f"eval-{turn}"),
            op=Op.RETAIN,
            provider=LOCAL,
            place=self._place,
            naming=self._inputs,
            turns=(SaidTurn(n=turn, lines=said),),
        )
        (outcome,) = await self._provider.deliver([parcel])
        if not isinstance(outcome, Delivered):
            raise ProviderFailed(f"{self.name} did not take turn {turn}: {outcome}", provider=self.name)

    async def recall(self, question: str, head_seq: int) -> Sequence[str]:
        """What a turn with this question would be shown of memory, in the order it was said."""
        key = RecallKey(session=SESSION, epoch=0, head_seq=head_seq, principal=PRINCIPAL)
        policy = RecallPolicy()
        query = RecallQuery(key=key, naming=self._inputs, text=question, limit=policy.limit)
        found = choose(await self._provider.recall(query), policy)
        return [
            one.text[: policy.item_chars_max] for one in sorted(found, key=lambda one: (one.turn or 0, one.at or 0))
        ]

    async def close(self) -> None:
        await self._provider.close()


def local_provider(environment: Environment) -> Configured:
    """The embedded provider with its defaults."""
    agents = make_agents(policy=AgentPolicy(memory={LOCAL: {}}))
    return make_providers(agents, environment).of(AGENT)[LOCAL]
