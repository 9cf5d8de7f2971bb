"""The promise: the state of a model or a memory provider is what its latest use showed, with the reason and the
vendor's answer; a failure that the content of a request caused says nothing about it.

Rules: R8, R41.
"""

from typing import Any

import pytest

from holdfast.inbox.channel_status import ComponentKind, ConnectionState
from holdfast.inbox.component_states import KEPT_MAX, NOTE_EVERY_MS, ComponentStates
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.ids import AgentName, Provider
from holdfast.kernel.machine import SystemEntropy
from holdfast.kernel.vendor_error import VendorError
from holdfast.memory.delivery import Delivered, Refused, Uncertain, Unreachable
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.lane import DispatchPolicy, LaneKey
from holdfast.runtime.app import make_agents
from holdfast.testing import ManualClock
from holdfast.turns.model_call import is_of_model
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import Process, ScriptedModel, agents, raises, says, settled
from tests.support.ports import make_ports

FERN = AgentName("fern")
VENDOR = VendorError(status=529, request_id="req_9", code="overloaded_error", extract="Overloaded")


def overloaded():
    return ModelFailed("the vendor is overloaded", vendor=VENDOR)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.states = ComponentStates(self.clock, ComponentKind.MODEL)
        self.told = 0
        self.states.hear = self.hear

    def hear(self) -> None:
        self.told += 1

    def fails(self, name="sonnet", **how: Any) -> None:
        self.states.failed(FERN, name, "the vendor is overloaded", VENDOR, **how)

    @property
    def status(self):
        (status,) = self.states.statuses()
        return status


def test_a_component_that_was_not_used_yet_is_in_no_state():
    world = World()
    world.states.expect([(FERN, "sonnet")])
    found = world.status
    assert (found.name, found.state, found.succeeded_at) == ("sonnet", ConnectionState.UNKNOWN, None)


def test_a_failure_keeps_its_reason_and_the_vendors_answer_until_the_next_success():
    world = World()
    world.states.succeeded(FERN, "sonnet")
    world.clock.advance(1_000)
    began = world.clock.now()
    world.fails()
    world.clock.advance(1_000)
    world.fails(retry_at=began + 9_000)
    down = world.status
    assert (down.state, down.since, down.attempts, down.failed_at) == (ConnectionState.DOWN, began, 2, began + 1_000)
    assert (down.status, down.request_id, down.code) == (529, "req_9", "overloaded_error")
    assert down.retry_at == began + 9_000
    assert down.reason == (
        "the vendor is overloaded (status 529; request id req_9; overloaded_error; it said: Overloaded)"
    )
    world.clock.advance(1_000)
    world.states.succeeded(FERN, "sonnet")
    up = world.status
    assert (up.state, up.since, up.reason, up.attempts) == (ConnectionState.UP, world.clock.now(), "", 0)
    assert (up.failed_at, up.status, up.retry_at) == (began + 1_000, 529, None)


def test_a_failure_of_the_content_is_kept_and_changes_no_state():
    world = World()
    world.states.succeeded(FERN, "sonnet")
    world.fails(is_own=False)
    assert (world.status.state, world.status.attempts) == (ConnectionState.UP, 0)
    assert world.status.failed_at == world.clock.now()


@pytest.mark.parametrize(
    ("error", "is_own"),
    [
        (overloaded(), True),
        (ModelFailed("no connection"), True),
        (ModelFailed("rejected", vendor=VendorError(status=400)), False),
        (ModelFailed("refused to answer this", final=True, elsewhere=False), False),
        (ModelFailed("the limit is used up", final=True, elsewhere=False, daily_limit=True), True),
    ],
)
def test_which_failures_say_something_about_the_model(error, is_own):
    assert is_of_model(error) is is_own


def test_what_the_configuration_no_longer_has_is_gone():
    world = World()
    world.fails("old")
    world.fails()
    world.states.expect([(FERN, "sonnet"), (AgentName("moss"), "sonnet")])
    found = {(one.agent, one.name): one.state.value for one in world.states.statuses()}
    assert found == {("fern", "sonnet"): "down", ("moss", "sonnet"): "unknown"}


def test_a_success_need_not_be_reported_again_until_a_failure_or_some_seconds_later():
    world = World()
    key = (FERN, "sonnet")
    world.states.succeeded(*key)
    assert world.states.well_until[key] == world.clock.now() + NOTE_EVERY_MS
    world.fails(is_own=False)
    assert key in world.states.well_until
    world.fails()
    assert key not in world.states.well_until
    assert world.told == 3


def test_the_number_of_components_is_bounded():
    world = World()
    for n in range(KEPT_MAX + 5):
        world.states.succeeded(AgentName(f"agent{n}"), "sonnet")
    assert len(world.states.statuses()) == len(world.states.well_until) == KEPT_MAX


OUTCOMES = [
    (Delivered("row 7"), "up"),
    (Refused("too large"), "up"),
    (Unreachable("no connection", vendor=VENDOR), "down"),
    (Uncertain("cut off", away=True), "down"),
    (Unreachable("status 500", suspect=True), "unknown"),
]


@pytest.mark.parametrize(("outcome", "state"), OUTCOMES, ids=lambda one: str(one)[:30])
def test_each_outcome_of_a_delivery_shows_the_state_of_its_provider(outcome, state):
    clock: Any = ManualClock()
    states = ComponentStates(clock, ComponentKind.MEMORY)
    key = LaneKey(FERN, Provider("honcho"))
    nothing: Any = None
    ports = make_ports(nothing, clock=clock, entropy=SystemEntropy())
    carrier = ProviderDelivery(ports, key, nothing, policy=DispatchPolicy(), states=states)
    carrier._learn(outcome, "home")
    (status,) = states.statuses()
    assert (status.kind, status.agent, status.name, status.state.value) == (
        ComponentKind.MEMORY,
        "fern",
        "honcho",
        state,
    )
    assert status.retry_at is None
    if state == "down":
        for _ in range(5):
            carrier._learn(outcome, "den")
        (status,) = states.statuses()
        assert (status.attempts, status.retry_at) == (
            6,
            carrier.circuit.reopens_at if carrier.circuit.is_open else None,
        )


async def test_every_request_of_a_runtime_is_seen(tmp_path):
    model = ScriptedModel(raises(overloaded()), says("hello"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        seen = []
        runtime.watch_components(lambda: seen.append(next(iter(runtime.models()))))
        await settled(runtime, await runtime.send("c", "hello", id="1"))
    assert [(one.agent, one.name, one.state.value) for one in seen] == [
        ("main", model.name, "down"),
        ("main", model.name, "up"),
    ]


async def test_a_daily_limit_that_is_used_up_is_a_state_with_its_reason(tmp_path):
    who = make_agents(model=ScriptedModel(), policy=AgentPolicy(daily_spend_micros=0, memory={}))
    async with await Process.start(tmp_path, who) as runtime:
        await settled(runtime, await runtime.send("c", "hello", id="1"))
        (status,) = runtime.models()
    assert status.state is ConnectionState.DOWN
    assert "daily limit" in status.reason


async def test_a_model_without_a_usable_answer_is_down(tmp_path):
    async with await Process.start(
        tmp_path, agents(ScriptedModel(raises(RuntimeError("a bug in the model"))))
    ) as runtime:
        seen = []
        runtime.watch_components(lambda: seen.append(next(iter(runtime.models()))))
        await settled(runtime, await runtime.send("c", "hello", id="1"))
    assert (seen[0].state, seen[0].reason) == (ConnectionState.DOWN, "the model raised RuntimeError")
