"""A gateway in which everything that the console shows has happened: six agents, three memory providers of which one
refuses a turn and one is away, replies that nobody can vouch for, calls that wait for a person, and a day of samples.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from math import sin

from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival
from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.kernel.vendor_error import VendorError
from holdfast.memory.delivery import Delivered, DeliveryView, Landing, Outcome, Parcel, PerSession, Refused, Unreachable
from holdfast.memory.provider import Capabilities, Configured
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan
from holdfast.monitor.sample_sql import record_sample
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, settle_reply
from holdfast.runtime import plugins
from holdfast.runtime.app import make_agents
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.spend_sql import Spend, record_spend
from holdfast.turns.turn import Usage
from tests.support.fakes import soon
from tests.support.live import Live, serve

HOSTILE = "<script>window.hit=1</script> \"'& <img src=x onerror=window.hit=2>"
MEMORY: dict[str, dict[str, object]] = {"local": {}, "hindsight": {}, "honcho": {}}
AGENTS = {
    name: AgentPolicy(memory=MEMORY, daily_spend_micros=cap)
    for name, cap in (
        *(("billing", 10_000_000), ("concierge", 15_000_000), ("librarian", None)),
        *(("oncall", 5_000_000), ("research", None), ("support", 20_000_000)),
    )
}
REFUND = '{"order": "B-1077", "amount": "64.00", "currency": "EUR", "note": "Lamp, brass, small: broken on arrival"}'
SAID = (
    ("concierge", "room 214", "Late checkout, and the bedside lamp flickers.", "It is arranged until 14:00."),
    ("librarian", "reading", "“The Lamplighter”, second edition: who translated it?", "Marta Okonjo, in 1931."),
    ("research", "tariffs", "Compare the tariffs of 2024 and 2025.", "They rose by 4.2 percent; three exceptions."),
    ("support", "8841", "Do you still have the lamp in green?", "Yes, eleven are in stock."),
    ("support", "207", HOSTILE, "That is not a question I can answer."),
    ("librarian", "reading", "And who drew the cover?", "The same house drew it: Hollar & Sons."),
)


def shop_refund(order: str, amount: str, currency: str, note: str) -> str:
    """Pay an order back."""
    return f"refund rf_9931 of {amount} {currency} for {order}: {note}"


def lookup_order(order: str) -> str:
    """Look an order up."""
    return f"{order}: brass lamp, small, delivered on 14 Nov"


shop_refund.dangerous = True  # type: ignore[attr-defined]
lookup_order.idempotent = True  # type: ignore[attr-defined]
lookup_order.dangerous = True  # type: ignore[attr-defined]


class DemoModel:
    """Answers from a list, and uses tools for refunds and orders."""

    name = "claude-sonnet-5"

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        newest = [message for message in request.messages if not message.data][-1]
        text, calls = "", list[ToolCall]()
        if newest.role == "tool":
            text = f"Done: {newest.content}."
        elif "refund" in newest.content.lower():
            calls = [ToolCall(id=f"call_{len(request.messages)}", name="shop_refund", arguments=REFUND)]
        elif found := re.search(r"where is (B-\d+)", newest.content):
            arguments = f'{{"order": "{found[1]}"}}'
            calls = [ToolCall(id=f"call_{len(request.messages)}", name="lookup_order", arguments=arguments)]
        else:
            text = next((answer for *_, said, answer in SAID if said in newest.content), "Noted.")
        if text:
            yield TextDelta(text)
        size = sum(len(message.content) for message in request.messages)
        yield ModelAnswer(text=text, calls=tuple(calls), usage=Usage(tokens_in=1_200 + size, tokens_out=40 + len(text)))


class DemoProvider:
    """A provider that takes deliveries, refuses some words, or is away."""

    capabilities = Capabilities(renderer="demo/1", recalls=False, memory=False)

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuses: str = "lamp flickers" if name == "hindsight" else ""
        self.is_away = name == "honcho"

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        return [self._outcome(parcel) for parcel in parcels]

    def _outcome(self, parcel: Parcel) -> Outcome:
        if self.is_away:
            why = VendorError(status=502, request_id="hn-7720", extract="Bad Gateway")
            return Unreachable("the server failed", vendor=why)
        if self.refuses and self.refuses in repr(parcel):
            return Refused("413 document larger than this bank takes (1.2 MB of 1 MB)")
        return Delivered(f"{self.name}:{parcel.id.rpartition(':')[2]}")

    async def landed(self, parcel: Parcel) -> Landing:
        return Landing.ABSENT

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        return ()

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def console_world(folder, monkeypatch, *, port: int = 0) -> AsyncIterator[Live]:
    """`live.side` has the providers by name."""
    made: dict[str, DemoProvider] = {}
    known = plugins.find_factory

    def find(what, name, *more):
        if what != "provider" or name == "local":
            return known(what, name, *more)
        provider = made.setdefault(name, DemoProvider(name))
        return lambda _setup: Configured(provider, PerSession())

    monkeypatch.setattr(plugins, "find_factory", find)
    agents = make_agents(model=DemoModel(), tools=(shop_refund, lookup_order), listed=AGENTS)
    async with serve(folder, agents=agents) as live:
        live.side = made
        yield live


async def tell(live: Live) -> None:
    """Let everything happen."""
    for agent, chat, said, _ in SAID:
        await soon(live.runtime.ask(chat, said, agent=agent, sender=chat.title()))
    await asks(live, "billing", "Please refund B-1077 in full, the lamp arrived broken.", chat="refunds")
    await asks(live, "oncall", "where is B-1042?", chat="incidents")
    await reply(live, ReplyState.UNCERTAIN, "the request was sent, no answer in 10 s", doubts=1)
    await reply(live, ReplyState.FAILED, "403 bot was blocked by the user (tg-4411)")
    await samples(live)
    for number, (name, policy) in enumerate(AGENTS.items()):
        cost = (policy.daily_spend_micros or 4_000_000) * (number + 1) // 7
        spend = Spend(
            id=f"spend_{name}",
            agent=AgentName(name),
            task="answer",
            model=DemoModel.name,
            tokens_in=cost // 9,
            tokens_out=cost // 90,
            cost_micros=cost,
        )
        await live.runtime.db.write(record_spend(spend))


async def asks(live: Live, agent: str, said: str, *, chat: str) -> str:
    """A message whose turn waits for a person; the id of the approval."""
    message = await live.runtime.send(chat, said, agent=agent, sender=chat.title())
    trace = await soon(live.runtime.outcome(message))
    assert trace.awaiting is not None
    return str(trace.awaiting.id)


async def reply(live: Live, state: ReplyState, reason: str, *, doubts: int = 0) -> str:
    """A reply over Telegram, as a sender settles it."""
    message = live.runtime.gateway.new_message()
    address = Address(agent=AgentName("support"), channel="telegram", type="dm", chat="8841")
    arrival = Arrival(
        address=address, event_id=f"tg-{message}", principal=Principal("telegram:8841"), text="hello", message=message
    )
    await live.runtime.gateway.accept(arrival)
    await soon(live.runtime.reply_to(message))
    node = live.runtime._member.node
    claims = await live.runtime.db.write(claim_replies(node, AgentName("support"), "telegram", name=message, limit=5))
    claim = next(one for one in claims if one.message == message)
    settled = ReplySettlement(state=state, part=0, doubts=doubts, reason=reason)
    await live.runtime.db.write(settle_reply(claim, settled))
    return str(claim.id)


async def samples(live: Live) -> None:
    """A day of minutes with a hole, in which honcho falls behind at the end."""
    now = live.runtime.clock.now()
    minute = now - now % MINUTE_MS
    for ago in range(24 * 60, 0, -1):
        if 25 <= ago < 31 or (ago > 70 and ago % 10):
            continue
        late = max(0, 6 - ago) * 41_000
        levels = {
            "lag_ms/support/local": 60,
            "lag_ms/support/hindsight": round(2_400 + 2_000 * sin(ago / 5)) + (48_000 if ago == 44 else 0),
            "lag_ms/support/honcho": round(600 + 400 * sin(ago / 3)) + late,
        }
        counts = {
            "deliveries/delivered/support/local": round(20 + 8 * sin(ago / 9)),
            "deliveries/delivered/support/hindsight": round(19 + 8 * sin(ago / 9)),
            "deliveries/delivered/support/honcho": 0 if late else round(19 + 7 * sin(ago / 9)),
            **{f"answered/{name}": round(2 + 2 * sin(ago / 7 + n)) for n, name in enumerate(AGENTS)},
        }
        sample = Sample(span=SampleSpan.MINUTE, at=Instant(minute - ago * MINUTE_MS), counts=counts, levels=levels)
        await live.runtime.db.write(record_sample(live.runtime._member.node, sample))
    assert HOUR_MS % MINUTE_MS == 0


async def settled(live: Live, state: str) -> Sequence[str]:
    """Wait until a delivery is in the state; the ids of those that are."""
    with closing(live.runtime.events()) as feed:
        while not (found := [one.id for one in await live.runtime.deliveries(state=state)]):
            await feed.next_within(1_000)
    return found


async def tried(live: Live) -> None:
    """Wait until honcho has failed on the delivery of every agent's session, and local has taken it."""
    with closing(live.runtime.events()) as feed:
        while not _is_tried(await live.runtime.deliveries()):
            await feed.next_within(1_000)


def _is_tried(found: Sequence[DeliveryView]) -> bool:
    local = [one for one in found if one.provider == "local"]
    heads = {one.place: one for one in found if one.provider == "honcho"}  # newest first, so the last one is the head
    return all(one.state == "delivered" for one in local) and all(one.reason for one in heads.values())
