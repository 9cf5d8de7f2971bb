"""The measurement: conversations are delivered to the local provider, and its `recall` gets the questions.

The score of a question is the share of its evidence among the first 5 (10) recalled turns; a report has the means over
all questions, by category and by conversation. Questions without evidence are not asked.

Each conversation has an index of its own, which is small. With a haystack all conversations and its lines share one
index and one chat, because only a large index shows how well the candidates of a question are chosen.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from msgspec import Struct

from holdfast.eval.local_provider import LOCAL, local_provider
from holdfast.eval.recall.haystack import haystack
from holdfast.eval.recall.transcripts import Transcript, TranscriptQuestion, TranscriptSession
from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.memory.delivery import Delivered, NamingInputs, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.provider import Provider
from holdfast.memory.recall import RecallKey, RecallQuery

AGENT = AgentName("eval")
ASKER = Principal("eval")
TURN_MS = 60_000
BATCH = 64
DEPTHS = (5, 10)
TurnIds: TypeAlias = dict[tuple[str, int], tuple[int, str]]  # conversation and id in the file, by session and number


class RecallScore(Struct, frozen=True, kw_only=True):
    """The mean shares of recalled evidence."""

    questions: int
    at_5: float
    at_10: float


class RecallReport(Struct, frozen=True, kw_only=True):
    provider: str
    conversations: int
    turns: int
    haystack: int  # lines without evidence
    questions: int
    at_5: float
    at_10: float
    categories: dict[str, RecallScore]
    by_conversation: dict[str, RecallScore]


async def measure(
    conversations: Sequence[Transcript], progressed: Callable[[], None] = lambda: None, *, hay_lines: int = 0
) -> RecallReport:
    """Raises `ProviderFailed`."""
    found: dict[tuple[str, int], list[tuple[float, ...]]] = defaultdict(list)
    numbered = list(enumerate(conversations))
    for together in [numbered] if hay_lines else [[one] for one in numbered]:
        async with _temporary_provider() as provider:
            own = [(n, session) for n, conversation in together for session in conversation.sessions]
            hay = [(-1, session) for session in haystack(conversations, hay_lines)]
            ids = await _deliver(provider, sorted([*own, *hay], key=lambda one: one[1].at) if hay else own)
            for n, conversation in together:
                for asked in conversation.questions:
                    if asked.counts:
                        shares = await _ask(provider, n, asked, ids)
                        found[f"{n + 1}: {conversation.id}", asked.category].append(shares)
                    progressed()
    return _report(conversations, found, hay_lines)


@asynccontextmanager
async def _temporary_provider() -> AsyncIterator[Provider]:
    with TemporaryDirectory(prefix="holdfast-eval-") as folder:
        provider = local_provider(Path(folder) / "local", AGENT).provider
        try:
            yield provider
        finally:
            await provider.close()


async def _deliver(provider: Provider, sessions: Sequence[tuple[int, TranscriptSession]]) -> TurnIds:
    """Deliver the sessions of some conversations; what each turn is in the file."""
    parcels: list[Parcel] = []
    ids: TurnIds = {}
    for s, (conversation, session) in enumerate(sessions, 1):
        for parcel, turn_id in _parcels(s, session):
            parcels.append(parcel)
            ids[parcel.session, parcel.turns[0].n] = conversation, turn_id
    for start in range(0, len(parcels), BATCH):
        for outcome in await provider.deliver(parcels[start : start + BATCH]):
            if not isinstance(outcome, Delivered):
                raise ProviderFailed(f"a turn was not stored: {outcome}")
    return ids


def _parcels(s: int, session: TranscriptSession) -> Iterator[tuple[Parcel, str]]:
    """One delivery per turn, as the dispatcher makes it, with the turn's id in the file."""
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


async def _ask(provider: Provider, conversation: int, asked: TranscriptQuestion, ids: TurnIds) -> tuple[float, ...]:
    session = SessionId("ses_asking")
    query = RecallQuery(
        key=RecallKey(session=session, epoch=0, head_seq=0, principal=ASKER),
        naming=_inputs(session, ASKER),
        text=asked.question,
        group=True,
        limit=max(DEPTHS),
    )
    back = [ids[memory.session or "", memory.turn or 0] for memory in await provider.recall(query)]
    wanted = {(conversation, turn) for turn in asked.turns}
    return tuple(len(wanted & set(back[:depth])) / len(wanted) for depth in DEPTHS)


# --- the report ------------------------------------------------------------------------------------


def _report(
    conversations: Sequence[Transcript], found: dict[tuple[str, int], list[tuple[float, ...]]], hay_lines: int
) -> RecallReport:
    everything = _score([share for shares in found.values() for share in shares])
    categories = sorted({category for _, category in found})
    names = list(dict.fromkeys(name for name, _ in found))
    return RecallReport(
        provider=LOCAL,
        conversations=len(conversations),
        turns=sum(len(session.turns) for one in conversations for session in one.sessions),
        haystack=hay_lines,
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
