"""Parcels, questions and a provider for the tests of Hindsight; time passes only when the provider waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import Erasure, MemoryNote, NamingInputs, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.provider import ProviderSetup
from holdfast.memory.recall import RecallKey, RecallQuery
from holdfast.providers.hindsight import make_hindsight
from holdfast.providers.hindsight.naming import BankTemplate
from holdfast.providers.hindsight.provider import HindsightProvider
from holdfast.testing.clock import ManualClock
from holdfast.testing.entropy import SeededEntropy

AGENT = AgentName("main")
START = Instant(1_767_225_600_000)  # 2026-01-01
DM = "agent:main:telegram:dm:7"
GROUP = "agent:main:telegram:group:club"


class JumpingTasks:
    """Sleeping lets others run and moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.slept_ms = 0.0

    def start(self, work: Any, *, name: str) -> Any:
        raise AssertionError("the provider starts no tasks")

    async def sleep(self, delay_ms: float) -> None:
        self.slept_ms += delay_ms
        self._clock.advance(round(delay_ms))
        await asyncio.sleep(0)

    async def in_thread(self, call: Any) -> Any:
        raise AssertionError("the provider uses no threads")


def setup(url: str, environment: dict[str, str] | None = None, **settings: object) -> ProviderSetup:
    clock = ManualClock()
    return ProviderSetup(
        name=Provider("hindsight"),
        agent=AGENT,
        settings={"url": url, **settings},
        folder=Path("unused"),
        environment=environment or {},
        clock=clock,
        entropy=SeededEntropy(1),
        tasks=JumpingTasks(clock),
    )


@asynccontextmanager
async def provider(
    url: str, environment: dict[str, str] | None = None, **settings: object
) -> AsyncIterator[HindsightProvider]:
    made = make_hindsight(setup(url, environment, **settings)).provider
    try:
        yield cast("HindsightProvider", made)
    finally:
        await made.close()


def inputs(who: str = "ada", session: str = "s_1", address: str = DM, parent: str | None = None) -> NamingInputs:
    return NamingInputs(
        agent=AGENT,
        session=SessionId(session),
        principal=Principal(who),
        address=address,
        parent=SessionId(parent) if parent else None,
    )


def turn(n: int, text: str, who: str = "ada", reply: str = "Noted.") -> SaidTurn:
    said = SpokenLine(role="user", speaker=who, text=text, at=Instant(START + n * 1000), seq=n * 2 - 1, message=f"m{n}")
    answer = SpokenLine(role="assistant", speaker="main", text=reply, at=Instant(START + n * 1000 + 500), seq=n * 2)
    return SaidTurn(n=n, lines=(said, answer))


def retain(
    *texts: str, id: str = "d_1", first: int = 1, naming: NamingInputs | None = None, template: str = "{agent}"
) -> Parcel:
    naming = naming or inputs()
    return Parcel(
        id=DeliveryId(id),
        op=Op.RETAIN,
        provider=Provider("hindsight"),
        place=BankTemplate(template).place(naming),
        naming=naming,
        turns=tuple(turn(n, text, naming.principal) for n, text in enumerate(texts, first)),
    )


def retract(of: str, *remaining: str, id: str = "d_9") -> Parcel:
    naming = inputs()
    return Parcel(
        id=DeliveryId(id),
        op=Op.RETRACT,
        provider=Provider("hindsight"),
        place=BankTemplate().place(naming),
        naming=naming,
        turns=tuple(turn(n, text) for n, text in enumerate(remaining, 1)),
        of=DeliveryId(of),
        gone=(2,),
    )


def note(op: str, text: str, old: str = "", *, id: str, subject: str = "") -> Parcel:
    kept = MemoryNote(seq=1, target="memory", op=op, text=text, old_text=old, subject=subject, at=START)
    return Parcel(
        id=DeliveryId(id),
        op=Op.REMEMBER,
        provider=Provider("hindsight"),
        place=BankTemplate().memory_place(AGENT, subject),
        naming=inputs(),
        note=kept,
    )


def erase(
    *deliveries: str, session: str | None = None, person: str | None = None, id: str = "d_e", bank: str = "main"
) -> Parcel:
    erasure = Erasure(
        agent=AGENT,
        session=SessionId(session) if session else None,
        principal=Principal(person) if person else None,
        places=(f"{bank}/s_1", f"{bank}/memory"),
        deliveries=tuple(DeliveryId(delivery) for delivery in deliveries),
    )
    return Parcel(
        id=DeliveryId(id),
        op=Op.ERASE,
        provider=Provider("hindsight"),
        place=f"{bank}/s_1",
        naming=inputs(),
        erasure=erasure,
    )


def question(text: str, who: str = "ada", *, group: bool = False, private_in_groups: bool = False) -> RecallQuery:
    key = RecallKey(session=SessionId("s_q"), epoch=1, head_seq=0, principal=Principal(who))
    naming = inputs(who, "s_q", GROUP if group else DM)
    return RecallQuery(key=key, naming=naming, text=text, group=group, private_in_groups=private_in_groups)
