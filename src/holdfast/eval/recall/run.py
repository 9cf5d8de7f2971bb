"""The measurement: conversations are delivered to the local provider, and its `recall` gets the questions.

The score of a question is the share of its evidence among the first 5 (10) recalled turns; a report has the means over
all questions, by category and by conversation. Questions without evidence are not asked.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from holdfast.eval.local_provider import LOCAL, local_provider
from holdfast.eval.recall.transcripts import Transcript, TranscriptQuestion
from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.memory.delivery import Delivered, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.naming import NamingInputs
from holdfast.memory.provider import Provider
from holdfast.memory.recall import RecallKey, RecallQuery

AGENT = AgentName("eval")
ASKER = Principal("eval")
TURN_MS = 60_000
BATCH = 64
DEPTHS = (5, 10)


class RecallScore(Struct, frozen=True, kw_only=True):
    """The mean shares of recalled evidence."""

    questions: int
    at_5: float
    at_10: float


class RecallReport(Struct, frozen=True, kw_only=True):
    provider: str
    conversations: int
    turns: int
    questions: int
    at_5: float
    at_10: float
    categories: dict[str, RecallScore]
    by_conversation: dict[str, RecallScore]


async def measure(conversations: Sequence[Transcript], progressed: Callable[[], None] = lambda: None) -> RecallReport:
    """Each conversation has its own index. Raises `ProviderFailed`."""
    found: dict[tuple[str, int], list[tuple[float, ...]]] = defaultdict(list)
    for n, conversation in enumerate(conversations):
        async with _temporary_provider() as provider:
            ids = await _deliver(provider, conversation)
            for asked in conversation.questions:
                if asked.counts:
                    found[f"{n + 1}: {conversation.id}", asked.category].append(await _ask(provider, asked, ids))
                progressed()
    return _report(conversations, found)


@asynccontextmanager
async def _temporary_provider() -> AsyncIterator[Provider]:
    with TemporaryDirectory(prefix="holdfast-eval-") as folder:
        provider = local_provider(Path(folder) / "local", AGENT).provider
        try:
            yield provider
        finally:
            await provider.close()


async def _deliver(provider: Provider, conversation: Transcript) -> dict[tuple[str, int], str]:
    """Deliver a conversation; the id of each turn by its session and number."""
    parcels: list[Parcel] = []
    ids: dict[tuple[str, int], str] = {}
    for parcel, turn_id in _parcels(conversation):
        parcels.append(parcel)
        ids[parcel.session, parcel.turns[0].n] = turn_id
    for start in range(0, len(parcels), BATCH):
        for outcome in await provider.deliver(parcels[start : start + BATCH]):
            if not isinstance(outcome, Delivered):
                raise ProviderFailed(f"a turn was not stored: {outcome}")
    return ids


def _parcels(conversation: Transcript) -> Iterator[tuple[Parcel, str]]:
    """One delivery per turn, as the dispatcher makes it, with the turn's id in the file."""
    for s, session in enumerate(conversation.sessions, 1):
        for n, said in enumerate(session.turns, 1):
            line = SpokenLine(
                role="user", speaker=said.speaker, text=said.words, at=Instant(session.at + n * TURN_MS), seq=n
            )
            inputs = _inputs(SessionId(f"ses_{s}"), Principal(said.speaker))
            parcel = Parcel(
                id=DeliveryId(f"dlv_{s}_{n}"),
                op=Op.RETAIN,
                provider=LOCAL,
                place=inputs.session,
                naming=inputs,
                turns=(SaidTurn(n=n, lines=(line,)),),
            )
            yield parcel, said.id


def _inputs(session: SessionId, principal: Principal) -> NamingInputs:
    return NamingInputs(agent=AGENT, session=session, principal=principal, address=f"agent:{AGENT}:eval:group:all")


async def _ask(provider: Provider, asked: TranscriptQuestion, ids: dict[tuple[str, int], str]) -> tuple[float, ...]:
    session = SessionId("ses_asking")
    query = RecallQuery(
        key=RecallKey(session=session, epoch=0, head_seq=0, principal=ASKER),
        naming=_inputs(session, ASKER),
        text=asked.question,
        group=True,
        limit=max(DEPTHS),
    )
    back = [ids[memory.session or "", memory.turn or 0] for memory in await provider.recall(query)]
    return tuple(len(asked.turns & set(back[:depth])) / len(asked.turns) for depth in DEPTHS)


# --- the report ------------------------------------------------------------------------------------


def _report(conversations: Sequence[Transcript], found: dict[tuple[str, int], list[tuple[float, ...]]]) -> RecallReport:
    everything = _score([share for shares in found.values() for share in shares])
    categories = sorted({category for _, category in found})
    names = list(dict.fromkeys(name for name, _ in found))
    return RecallReport(
        provider=LOCAL,
        conversations=len(conversations),
        turns=sum(len(session.turns) for one in conversations for session in one.sessions),
        questions=everything.questions,
        at_5=everything.at_5,
        at_10=everything.at_10,
        categories={
            str(c): _score([s for (_, of), shares in found.items() if of == c for s in shares]) for c in categories
        },
        by_conversation={n: _score([s for (of, _), shares in found.items() if of == n for s in shares]) for n in names},
    )


def _score(shares: Sequence[tuple[float, ...]]) -> RecallScore:
    at_5, at_10 = (round(sum(column) / len(shares), 4) for column in zip(*shares, strict=True))
    return RecallScore(questions=len(shares), at_5=at_5, at_10=at_10)
