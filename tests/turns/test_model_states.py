"""The promise: the state of a model is what its latest request showed, with the reason and the vendor's answer; a
failure that the content of a request caused says nothing about the model.

Rules: R8, R41.
"""

import pytest

from holdfast.inbox.channel_status import ConnectionState
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.ids import AgentName
from holdfast.kernel.vendor_error import VendorError
from holdfast.runtime.app import make_agents
from holdfast.testing import ManualClock
from holdfast.turns.model_states import KEPT_MAX, TELL_EVERY_MS, ModelStates
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import Process, ScriptedModel, agents, raises, says, settled

FERN = AgentName("fern")
VENDOR = VendorError(status=529, request_id="req_9", code="overloaded_error", extract="Overloaded")


def overloaded():
    return ModelFailed("the vendor is overloaded", vendor=VENDOR)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.states = ModelStates(self.clock)
        self.told = 0
        self.states.hear = self.hear

    def hear(self) -> None:
        self.told += 1

    @property
    def status(self):
        (status,) = self.states.statuses()
        return status


def test_a_model_that_was_not_asked_yet_is_in_no_state():
    world = World()
    world.states.expect([(FERN, "sonnet")])
    assert (world.status.name, world.status.state, world.status.succeeded_at) == (
        "sonnet",
        ConnectionState.UNKNOWN,
        None,
    )


def test_a_failure_keeps_its_reason_and_the_vendors_answer_until_the_next_success():
    world = World()
    world.states.succeeded(FERN, "sonnet")
    world.clock.advance(1_000)
    began = world.clock.now()
    world.states.failed(FERN, "sonnet", overloaded())
    world.clock.advance(1_000)
    world.states.failed(FERN, "sonnet", overloaded())
    down = world.status
    assert (down.state, down.since, down.attempts, down.failed_at) == (ConnectionState.DOWN, began, 2, began + 1_000)
    assert (down.status, down.request_id, down.code) == (529, "req_9", "overloaded_error")
    assert down.reason == (
        "the vendor is overloaded (status 529; request id req_9; overloaded_error; it said: Overloaded)"
    )
    world.clock.advance(1_000)
    world.states.succeeded(FERN, "sonnet")
    up = world.status
    assert (up.state, up.since, up.reason, up.attempts) == (ConnectionState.UP, world.clock.now(), "", 0)
    assert (up.failed_at, up.status) == (began + 1_000, 529)


@pytest.mark.parametrize(
    "error",
    [ModelFailed("rejected", vendor=VendorError(status=400)), ModelFailed("refused", final=True, elsewhere=False)],
)
def test_a_failure_of_the_content_is_kept_and_changes_no_state(error):
    world = World()
    world.states.succeeded(FERN, "sonnet")
    world.states.failed(FERN, "sonnet", error)
    assert (world.status.state, world.status.attempts) == (ConnectionState.UP, 0)
    assert world.status.failed_at == world.clock.now()


def test_a_model_that_the_configuration_no_longer_has_is_gone():
    world = World()
    world.states.failed(FERN, "old", overloaded())
    world.states.failed(FERN, "sonnet", overloaded())
    world.states.expect([(FERN, "sonnet"), (AgentName("moss"), "sonnet")])
    found = {(one.agent, one.name): one.state.value for one in world.states.statuses()}
    assert found == {("fern", "sonnet"): "down", ("moss", "sonnet"): "unknown"}


def test_a_change_is_told_at_once_and_further_successes_now_and_then():
    world = World()
    for _ in range(5):
        world.states.succeeded(FERN, "sonnet")
    assert world.told == 1
    world.clock.advance(TELL_EVERY_MS)
    world.states.succeeded(FERN, "sonnet")
    assert world.told == 2
    world.states.failed(FERN, "sonnet", overloaded())
    assert world.told == 3


def test_the_number_of_models_is_bounded():
    world = World()
    for n in range(KEPT_MAX + 5):
        world.states.succeeded(AgentName(f"agent{n}"), "sonnet")
    assert len(world.states.statuses()) == KEPT_MAX


async def test_every_request_of_a_runtime_is_seen(tmp_path):
    model = ScriptedModel(raises(overloaded()), says("hello"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        seen = []
        runtime.watch_models(lambda: seen.append(next(iter(runtime.models()))))
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
        runtime.watch_models(lambda: seen.append(next(iter(runtime.models()))))
        await settled(runtime, await runtime.send("c", "hello", id="1"))
    assert (seen[0].state, seen[0].reason) == (ConnectionState.DOWN, "the model raised RuntimeError")
