"""A memory provider in the measurement: it gets every turn of the conversation, and is queried for each fact.

All calls go through the provider port, so that any provider can be measured. The questions contain the subject's name,
which makes them easy to find: this measures what recall adds to a summary, not the quality of recall.
"""

from collections.abc import Sequence

from holdfast.eval.compression.conversation import DialogueTurn
from holdfast.eval.local_provider import LOCAL
from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.memory.delivery import Delivered, NamingInputs, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.provider import Configured
from holdfast.memory.recall import RecallKey, RecallPolicy, RecallQuery, choose

AGENT = AgentName("main")
SESSION = SessionId("ses_eval")
PRINCIPAL = Principal("user")
TURN_MS = 60_000


class MeasuredMemory:
    """One provider for one conversation."""

    def __init__(self, configured: Configured) -> None:
        self.name = configured.provider.capabilities.renderer
        self._provider = configured.provider
        self._inputs = NamingInputs(agent=AGENT, session=SESSION, principal=PRINCIPAL)
        self._place = configured.naming.place(self._inputs)

    async def keep(self, turn: int, exchange: DialogueTurn) -> None:
        """Deliver one turn. Raises `ProviderFailed` if it does not land: a score without it would mislead."""
        at = Instant(turn * TURN_MS)
        said = (
            SpokenLine(role="user", speaker=PRINCIPAL, text=exchange.user, at=at, seq=2 * turn - 1),
            SpokenLine(role="assistant", speaker=AGENT, text=exchange.assistant, at=at, seq=2 * turn),
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
            raise ProviderFailed(f"{self.name} did not store turn {turn}: {outcome}", provider=self.name)

    async def recall(self, question: str, head_seq: int) -> Sequence[str]:
        """The memories that a turn with this question would show, in their original order."""
        key = RecallKey(session=SESSION, epoch=0, head_seq=head_seq, principal=PRINCIPAL)
        policy = RecallPolicy()
        query = RecallQuery(key=key, naming=self._inputs, text=question, limit=policy.limit)
        found = choose(await self._provider.recall(query), policy)
        return [
            one.text[: policy.item_chars_max] for one in sorted(found, key=lambda one: (one.turn or 0, one.at or 0))
        ]

    async def close(self) -> None:
        await self._provider.close()
