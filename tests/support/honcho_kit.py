"""What the tests of the Honcho provider share: a provider on the fake server, and parcels to carry."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.inbox.address import Address
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import (
    Delivered,
    Erasure,
    Landing,
    MemoryNote,
    NamingInputs,
    Op,
    Outcome,
    Parcel,
    SaidTurn,
    SpokenLine,
)
from holdfast.memory.provider import ProviderSetup
from holdfast.memory.recall import RecallKey, RecallQuery
from holdfast.providers.honcho import make_honcho
from holdfast.providers.honcho.provider import HonchoProvider
from holdfast.testing.clock import ManualClock
from holdfast.testing.entropy import SeededEntropy
from tests.support.honcho_server import HonchoServer

T = TypeVar("T")
AGENT = AgentName("main")
NAME = Provider("honcho")
SAID_AT = Instant(1_700_000_000_000)


class NoTasks:
    """Sleeping takes no time, and is remembered."""

    def __init__(self) -> None:
        self.slept_ms: list[float] = []

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> Any:
        raise AssertionError("the provider starts no tasks")

    async def sleep(self, delay_ms: float) -> None:
        self.slept_ms.append(delay_ms)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return call()


def setup_of(
    settings: Mapping[str, object],
    *,
    folder: Path = Path("nowhere"),
    environment: Mapping[str, str] | None = None,
    tasks: NoTasks | None = None,
) -> ProviderSetup:
    return ProviderSetup(
        name=NAME,
        agent=AGENT,
        settings=settings,
        folder=folder,
        environment=environment or {},
        clock=ManualClock(),
        entropy=SeededEntropy(0),
        tasks=tasks or NoTasks(),
    )


@asynccontextmanager
async def provider_on(
    server: HonchoServer, *, folder: Path = Path("nowhere"), tasks: NoTasks | None = None, **settings: object
) -> AsyncIterator[HonchoProvider]:
    environment = {"HONCHO_KEY": "sesame"}
    table = {"url": server.url, **settings}
    made = make_honcho(setup_of(table, folder=folder, environment=environment, tasks=tasks)).provider
    assert isinstance(made, HonchoProvider)
    try:
        yield made
    finally:
        await made.close()


def chat(name: str = "42", *, type: str = "dm", agent: AgentName = AGENT) -> str:
    return str(Address(agent=agent, channel="telegram", type=type, chat=name))


def naming(session: str = "ses_1", principal: str = "ada", *, agent: AgentName = AGENT, **more: Any) -> NamingInputs:
    return NamingInputs(agent=agent, session=SessionId(session), principal=Principal(principal), **more)


def parcel(provider: HonchoProvider, n: int, *texts: str, inputs: NamingInputs | None = None) -> Parcel:
    """Turn `n` of a session: what the person said, and what the agent answered."""
    given = inputs or naming()
    lines = tuple(
        SpokenLine(
            role="assistant" if index % 2 else "user",
            speaker=given.agent if index % 2 else given.principal,
            text=text,
            at=Instant(SAID_AT + n * 1_000 + index),
            seq=n * 10 + index,
            message=f"m{n}",
        )
        for index, text in enumerate(texts or (f"question {n}", f"answer {n}"))
    )
    return Parcel(
        id=DeliveryId(f"dlv_{given.session}_{n}"),
        op=Op.RETAIN,
        provider=NAME,
        place=provider.names.place(given),
        naming=given,
        turns=(SaidTurn(n=n, lines=lines),),
    )


def note(
    provider: HonchoProvider,
    seq: int,
    text: str,
    *,
    op: str = "add",
    old: str = "",
    target: str = "user",
    subject: str = "ada",
) -> Parcel:
    return Parcel(
        id=DeliveryId(f"mem_{seq}"),
        op=Op.REMEMBER,
        provider=NAME,
        place=provider.names.memory_place(AGENT, subject),
        naming=naming(),
        note=MemoryNote(seq=seq, target=target, op=op, text=text, old_text=old, subject=subject, at=SAID_AT),
    )


def erasure(
    provider: HonchoProvider,
    *places: str,
    session: str | None = None,
    principal: str | None = None,
    deliveries: tuple[DeliveryId, ...] = (),
) -> Parcel:
    what = Erasure(
        agent=AGENT,
        session=SessionId(session) if session else None,
        principal=Principal(principal) if principal else None,
        places=places,
        deliveries=deliveries,
    )
    return Parcel(id=DeliveryId("era_1"), op=Op.ERASE, provider=NAME, place="erase", naming=naming(), erasure=what)


def query(text: str, inputs: NamingInputs, **more: Any) -> RecallQuery:
    key = RecallKey(session=inputs.session, epoch=1, head_seq=1, principal=inputs.principal)
    return RecallQuery(key=key, naming=inputs, text=text, **more)


async def one(provider: HonchoProvider, given: Parcel) -> Outcome:
    [outcome] = await provider.deliver([given])
    return outcome


async def carry(provider: HonchoProvider, given: Parcel, *, attempts: int = 60) -> Outcome:
    """As the dispatcher does: ask about an unknown outcome, resend only what is absent."""
    outcome = await one(provider, given)
    for attempt in range(2, attempts):
        if isinstance(outcome, Delivered):
            return outcome
        landing = await provider.landed(given)
        if landing is Landing.LANDED:
            return Delivered("found")
        if landing is Landing.ABSENT:
            outcome = await one(provider, replace(given, attempt=attempt))
    return outcome
