"""One attempt at a reply or a delivery by the real loops: the reason that the store is given, and what the log says."""

import json
from typing import Any, cast

from holdfast.inbox.channel import Channel
from holdfast.inbox.channel_status import ComponentKind
from holdfast.inbox.channels import ChannelKey
from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel.ids import AgentName, Instant, NodeId, Provider
from holdfast.kernel.log import JsonLines
from holdfast.memory.delivery import Parcel
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.lane import DispatchPolicy, LaneClaim, LaneKey, Package, Settlement
from holdfast.memory.lane_sql import _params as settled_columns
from holdfast.memory.provider import Provider as ProviderPort
from holdfast.outbox.post import OnDoubt, Post
from holdfast.outbox.reply import Kept, ReplyClaim, ReplySettlement, SendPolicy
from holdfast.outbox.reply_sender import AccountSender
from holdfast.outbox.reply_sql import settle_reply
from holdfast.store.script import Query
from holdfast.testing import ManualClock, SeededEntropy
from tests.support.ports import VerbMethods, make_ports


class Columns:
    """The reasons that the verbs of the store would write."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def settle_reply(self, claim: ReplyClaim, settlement: ReplySettlement) -> Kept:
        query = cast("Query", next(iter(settle_reply(claim, settlement))))
        self.reasons.append(str(query.params["reason"]))
        return Kept.DONE

    async def settle_lanes(self, settled: list[tuple[LaneClaim, list[Settlement]]]) -> None:
        self.reasons += [str(settled_columns(claim, one)["reason"]) for claim, some in settled for one in some]


async def reply_reason(channel: Channel, post: Post) -> str:
    columns = Columns()
    ports = make_ports(VerbMethods(columns), entropy=SeededEntropy(1))
    claim = ReplyClaim(
        n=1,
        id=post.reply,
        node=NodeId("n"),
        attempt=1,
        part=0,
        doubts=0,
        address=post.address,
        text=post.text,
        message=post.message,
    )
    key = ChannelKey(AgentName("ada"), post.address.channel)
    poster = AccountSender(key, channel, ports, SendPolicy(), on_doubt=OnDoubt.HOLD)
    await poster.send(claim, ports.clock.now())
    (reason,) = columns.reasons
    return reason


async def delivery_reason(provider: ProviderPort, parcel: Parcel) -> str:
    columns, clock = Columns(), ManualClock()
    key = LaneKey(parcel.naming.agent, Provider("mem"))
    ports = make_ports(VerbMethods(columns), clock=clock, entropy=SeededEntropy(1))
    carrier = ProviderDelivery(
        ports, key, provider, policy=DispatchPolicy(), states=ComponentStates(ports.clock, ComponentKind.MEMORY)
    )
    package = Package(n=1, parcel=parcel, ask=False)
    claim = LaneClaim(key=key, place=parcel.place, fence=1, node=NodeId("n"), packages=(package,))
    await carrier.carry([claim], taken_at=Instant(clock.now()))
    (reason,) = columns.reasons
    return reason


def logged(caplog: Any, event: str) -> str:
    """The lines of that event, as they are written."""
    return "".join(JsonLines().format(record) for record in caplog.records if record.getMessage() == event)


def says(reason: str, line: str, *, ids: dict[str, object], extract: str, hidden: tuple[str, ...]) -> None:
    """The reason has the ids and the extract; the line of the log has the ids and no word of the vendor."""
    shown = json.loads(line)
    assert {name: shown.get(name) for name in ids} == ids
    assert all(str(value) in reason for value in ids.values())
    assert extract in reason
    assert extract not in line
    assert [word for word in hidden if word in reason or word in line] == []
