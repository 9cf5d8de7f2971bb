"""The promise: what is down is a need with its reason; a refused key needs a person, an outage may mend itself.

Rules: R8.
"""

import pytest

from holdfast.inbox.channel_status import (
    ChannelStatus,
    ComponentKind,
    ComponentStatus,
    ConnectionState,
    ToolServerStatus,
)
from holdfast.kernel.ids import AgentName, Instant
from holdfast.monitor.component_needs import PATIENCE, component_needs
from holdfast.monitor.status import NeedKind, Urgency

FERN = AgentName("fern")


def component(kind=ComponentKind.MODEL, state=ConnectionState.DOWN, **more):
    return ComponentStatus(kind=kind, agent=FERN, name="sonnet", state=state, since=Instant(5), **more)


def test_what_is_not_down_needs_nothing():
    states = [state for state in ConnectionState if state is not ConnectionState.DOWN]
    assert component_needs([component(state=state) for state in states]) == []


def test_an_outage_is_stuck_after_some_attempts():
    (first,) = component_needs([component(attempts=PATIENCE - 1, reason="overloaded")])
    (later,) = component_needs([component(attempts=PATIENCE)])
    assert (first.urgency, first.evidence, first.since) == (Urgency.MENDS, "overloaded", 5)
    assert first.what == "The model sonnet of fern does not answer"
    assert later.urgency is Urgency.STUCK


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_needs_a_person(status):
    (need,) = component_needs([component(status=status, attempts=1)])
    assert (need.urgency, need.what) == (Urgency.HOLDS_UP, "The vendor of sonnet refuses the key of fern")


def test_each_kind_of_component_has_its_need():
    found = component_needs([component(kind, status=401) for kind in ComponentKind])
    assert [need.kind for need in found] == [NeedKind.CHANNEL, NeedKind.TOOLS, NeedKind.MODEL, NeedKind.MEMORY]
    assert all(need.command and need.what for need in found)


def test_the_outage_of_a_memory_provider_is_told_by_what_waits_for_it():
    assert component_needs([component(ComponentKind.MEMORY, status=503, attempts=99)]) == []


def test_channels_and_tool_servers_are_components_too():
    bot = ChannelStatus(
        agent=FERN, channel="telegram", state=ConnectionState.DOWN, since=Instant(1), reason="revoked", status=401
    )
    server = ToolServerStatus(
        agent=FERN,
        server="files",
        state=ConnectionState.DOWN,
        since=Instant(2),
        reason="it ended the connection",
        attempts=1,
        restarts=0,
        tools=(),
    )
    first, second = component_needs([bot.component, server.component])
    assert (first.what, first.urgency) == ("telegram refuses the token of fern", Urgency.HOLDS_UP)
    assert (second.what, second.evidence) == ("The tool server files of fern is down", "it ended the connection")
    assert bot.component.needs_key
