"""The deliveries and replies of an agent that is no longer configured wait for it and delay no other agent."""

from typing import Any, cast

from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import ChannelKey, Channels
from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import AgentName, Instant, NodeId, Provider
from holdfast.kernel.machine import SystemEntropy
from holdfast.memory.delivery import PerAddress
from holdfast.memory.dispatcher import Dispatcher
from holdfast.memory.lane import LaneKey
from holdfast.memory.provider import Capabilities, Configured, Providers
from holdfast.outbox.reply_sender import ReplySender
from holdfast.turns.policy import AgentPolicy
from tests.support.ports import VerbMethods, make_ports

GONE, HERE, MEM = AgentName("gone"), AgentName("here"), Provider("mem")


class Roll:
    """The agents of a configuration from which one was taken out."""

    def policy(self, name):
        if name == GONE:
            raise AgentNotFound(f"there is no agent {name!r}")
        return AgentPolicy()


class Someone:
    node = NodeId("node_a")


class Silent:
    """A channel and a provider; nothing is ever sent with it."""

    capabilities: Any = ChannelCapabilities(text_chars_max=100)


class Recording:
    """A store in which both agents have something that is due."""

    def __init__(self):
        self.asked = []

    async def next_reply_due(self):
        return Instant(0), {(GONE, "agent"): Instant(0), (HERE, "agent"): Instant(0)}

    async def claim_replies(self, _node, agent, _channel, **_):
        self.asked.append(agent)
        return ()

    async def list_lane_keys(self):
        return (LaneKey(GONE, MEM), LaneKey(HERE, MEM))

    async def next_overdue(self):
        return None

    async def next_due(self):
        return Instant(0), {LaneKey(GONE, MEM): Instant(0), LaneKey(HERE, MEM): Instant(0)}

    async def claim_lanes(self, _node, key, **_):
        self.asked.append(key.agent)
        return ()


def parts(store):
    return {
        "ports": make_ports(VerbMethods(store), entropy=SystemEntropy()),
        "member": cast("Any", Someone()),
    }


async def test_replies_of_an_agent_that_is_gone_hold_up_no_others():
    """Between agents every agent has a channel, whether or not it is configured."""
    store, channels = Recording(), Channels()
    channels.offer("agent", lambda _agent: cast("Any", Silent()))
    sender = ReplySender(channels=channels, agents=cast("Any", Roll()), **parts(store))
    await sender.step()
    assert store.asked == [HERE]
    assert ChannelKey(GONE, "agent") not in sender._senders


async def test_lanes_of_an_agent_that_is_gone_hold_up_no_others():
    def make(agent):
        Roll().policy(agent)
        provider = Silent()
        provider.capabilities = Capabilities(renderer="s/1")
        return {MEM: Configured(provider=cast("Any", provider), naming=PerAddress())}

    store = Recording()
    await Dispatcher(providers=Providers(make), **parts(store)).step()
    assert store.asked == [HERE]
