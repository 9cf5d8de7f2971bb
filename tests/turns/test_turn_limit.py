"""While accepting is slow, fewer turns are active at once; turns that wait for a model do not count."""

from asyncio import gather

import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import MessageId
from holdfast.turns.work_sql import Work, claim_work
from holdfast.turns.worker import ACTIVE_MIN, CALM_MS, DECREASE_EVERY_MS, SLOW_MS, TURNS_MAX, TurnLimit
from tests.support.fakes import Gate, Process, ScriptedModel, agents, says, soon, stands_at, states
from tests.support.ports import replace_verb, verb_on

SLOW, QUICK = SLOW_MS + 1, SLOW_MS
START = 1_000_000


# --- the decision ----------------------------------------------------------------------------------


def slowed(limit: TurnLimit, times: int) -> int:
    """Accept slowly several times; the instant of the last."""
    now = START
    for _ in range(times):
        now += DECREASE_EVERY_MS
        limit.accepted(now, SLOW)
    return now


def test_without_messages_every_turn_may_be_active():
    limit = TurnLimit()
    assert limit.active_max(START) == TURNS_MAX
    assert not limit.is_reduced(START)


def test_a_slow_accept_lowers_the_limit_and_quick_ones_raise_it_again():
    limit = TurnLimit()
    now = slowed(limit, 3)
    low = limit.active_max(now)
    assert ACTIVE_MIN < low < TURNS_MAX // 2
    assert limit.is_reduced(now)
    for _ in range(200):
        limit.accepted(now, QUICK)
    assert low < limit.active_max(now) < TURNS_MAX


def test_the_slow_accepts_of_one_commit_count_once():
    once, often = TurnLimit(), TurnLimit()
    once.accepted(START, SLOW)
    for _ in range(100):
        often.accepted(START + DECREASE_EVERY_MS - 1, SLOW)
    assert once.active_max(START) == often.active_max(START + DECREASE_EVERY_MS - 1)


def test_the_limit_never_falls_below_a_few_turns():
    limit = TurnLimit()
    now = slowed(limit, 1_000)
    assert limit.active_max(now) == ACTIVE_MIN


@pytest.mark.parametrize("later", [CALM_MS, -1], ids=["calm", "the clock was set back"])
def test_the_limit_ends_when_no_message_came_for_a_while(later):
    limit = TurnLimit()
    now = slowed(limit, 1_000)
    assert limit.active_max(now + CALM_MS - 1) == ACTIVE_MIN
    assert limit.active_max(now + later) == TURNS_MAX


def test_a_limit_of_fewer_turns_than_the_least_is_kept():
    limit = TurnLimit(2)
    assert limit.active_max(slowed(limit, 1_000)) == 2


# --- the worker ------------------------------------------------------------------------------------


async def test_a_limited_worker_begins_as_many_turns_as_may_be_active_and_none_waits_for_a_model(tmp_path, monkeypatch):
    gate, model, limits = Gate(), ScriptedModel(), []
    model.otherwise = stands_at(gate, says("done"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        claim = verb_on(runtime.db, claim_work)

        async def claiming(*args, name, limit):
            limits.append(limit)
            return await claim(*args, name=name, limit=limit)

        replace_verb(monkeypatch, runtime.db, claim_work, claiming)
        monkeypatch.setattr(TurnLimit, "active_max", lambda *_: 2)
        feed = runtime.events()
        await gather(*(runtime.send(f"chat {n}", "hello") for n in range(16)))
        while len(model.requests) < 16:  # every turn waits for the model, so the next ones may begin
            await soon(feed.next_within(1_000))
        assert set(limits) <= {1, 2}
        feed.close()
        gate.open()


async def test_a_limited_worker_releases_a_mailbox_after_each_turn(tmp_path, monkeypatch):
    model = ScriptedModel()
    taken: list[Work] = []
    async with await Process.start(tmp_path, agents(model)) as runtime:
        claim = verb_on(runtime.db, claim_work)

        async def claiming(*args, **kwargs):
            claimed = await claim(*args, **kwargs)
            taken.extend(claimed)
            return claimed

        replace_verb(monkeypatch, runtime.db, claim_work, claiming)
        monkeypatch.setattr(TurnLimit, "is_reduced", lambda *_: True)
        said = [await runtime.send("a", text) for text in ("one", "two", "three")] + [await runtime.send("b", "four")]
        assert await states(runtime, *said) == ["answered"] * 4
    assert len(taken) == 4
    answered = [request[-1].content for request in model.requests if request[-1].content != "four"]
    assert answered == ["one", "two", "three"]


async def test_claims_whose_answer_was_lost_are_all_given_again_though_turns_are_limited_meanwhile(
    tmp_path, monkeypatch
):
    """A mailbox that is claimed but not served would wait until the process ends."""
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        claim = verb_on(runtime.db, claim_work)
        lost: list[Work] = []
        sent: list[MessageId] = []

        async def claiming(*args, name, limit):
            if lost:
                return await claim(*args, name=name, limit=limit)
            if len(sent) < 3:
                return ()
            lost.extend(await claim(*args, name=name, limit=limit))
            monkeypatch.setattr(TurnLimit, "active_max", lambda *_: 1)
            raise StoreUnavailable("the connection broke before the answer came")

        replace_verb(monkeypatch, runtime.db, claim_work, claiming)
        sent += [await runtime.send(chat, "hello") for chat in ("a", "b", "c")]
        assert await states(runtime, *sent) == ["answered"] * 3
        assert [(await runtime.trace(message)).attempt for message in sent] == [1, 1, 1], (
            "the lost opening is the first"
        )
    assert len(lost) == 3
    assert len(model.requests) == 3
