"""Replies leave in order within each chat, at the pace that the platform asks for, and survive every crash: posted
once, or resent at most once and shown as uncertain (D26). Clocks jump here.

Rules: D26, R36.
"""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import Channels
from holdfast.inbox.message import Arrival, accepted_message
from holdfast.kernel.ids import AgentName, Principal
from holdfast.outbox.post import Declined, Doubtful, NotSent, OnDoubt, Sent
from holdfast.outbox.reply_sender import ReplySender
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import DATABASE
from holdfast.runtime.assembly import assemble
from holdfast.testing import SeededEntropy, SimClock, SimLoop, SimNode, SimTasks
from holdfast.testing.inline_database import InlineDatabase
from tests.support.fakes import Gate, ScriptedModel, agents, policy, says, stands_at
from tests.support.ports import make_ports

MAIN = AgentName("main")
FOREVER_S = 3_600.0


class ScriptedChannel:
    """Implements `Channel`: answers each post with its next move, and then always `Sent`."""

    def __init__(self, loop, *moves, **able):
        self.capabilities = ChannelCapabilities(**{"text_chars_max": 4_000, **able})
        self.moves = list(moves)
        self.posts = []
        self.typed = []
        self._loop = loop

    async def run(self, intake):
        intake.connected()

    async def send(self, post):
        self.posts.append((round(self._loop.time(), 3), post))
        move = self.moves.pop(0) if self.moves else Sent(f"r{len(self.posts)}")
        if callable(move):
            return await move(post)
        return move

    async def typing(self, address):
        self.typed.append((round(self._loop.time(), 3), address.chat))

    async def close(self):
        pass

    @property
    def texts(self):
        return [(post.address.chat, post.text) for _, post in self.posts]


class Street:
    """Processes on one file, a platform, and time that jumps."""

    def __init__(self, folder):
        self.loop = SimLoop(7)
        self.clock = SimClock(self.loop)
        self.folder = folder
        self.nodes = []

    async def open(self, channel, *, model=None, on_doubt=OnDoubt.RESEND, name=None, offered=None, **channels):
        node = SimNode(self.loop, name or f"n{len(self.nodes)}")
        database = InlineDatabase(self.folder / DATABASE, self.clock, synchronous="off")
        node.on_death(database.crash)
        self.nodes.append(node)
        known = Channels({(MAIN, name): channel for name, channel in {"telegram": channel, **channels}.items()})
        if offered is not None:
            known.offer("slack", lambda _agent: offered)
        runtime = assemble(
            make_ports(database, clock=self.clock, entropy=SeededEntropy(node.name), tasks=SimTasks(self.loop, node)),
            agents(model or ScriptedModel(), replace(policy(), on_doubt=on_doubt)),
            channels=known,
        )
        return await runtime.start()

    async def say(self, runtime, text, *, chat="7", channel="telegram"):
        address = Address(agent=MAIN, channel=channel, type="dm", chat=chat)
        message = runtime.gateway.new_message()
        arrival = Arrival(
            address=address, event_id=message, principal=Principal("telegram:7"), text=text, message=message
        )
        return accepted_message(await runtime.gateway.accept(arrival))

    async def rest(self, seconds=30.0):
        passed = asyncio.Event()
        self.loop.call_later(seconds, passed.set)
        await passed.wait()

    async def ledger(self, runtime):
        """Oldest first."""
        return list(reversed(await runtime.db.read(list_replies())))

    async def states(self, runtime):
        return [row.state for row in await self.ledger(runtime)]

    def channel(self, *moves, **able):
        return ScriptedChannel(self.loop, *moves, **able)


@pytest.fixture
def street(tmp_path):
    made = Street(tmp_path)
    with made.loop:
        yield made


def lives(scenario):
    """Run a test on the street's own loop."""

    def test(street):
        street.loop.run_until_complete(scenario(street))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


@lives
async def test_a_reply_is_posted_and_its_receipt_is_kept(street):
    channel = street.channel(Sent("telegram 77"))
    runtime = await street.open(channel)
    message = await street.say(runtime, "hello")
    await street.rest(2)
    (_, post), *others = channel.posts
    assert (post.text, post.in_reply_to, post.message, others) == ("re: hello", message, message, [])
    reply = (await runtime.trace(message)).reply
    assert (reply.state, reply.attempt, reply.receipt) == ("delivered", 1, "telegram 77")


@lives
async def test_replies_of_a_chat_keep_their_order_while_others_pass(street):
    slow = street.channel(NotSent("slow down", retry_after_ms=20_000))
    runtime = await street.open(slow)
    for text in ("one", "two", "three"):
        await street.say(runtime, text, chat="a")
    await street.rest(1)
    await street.say(runtime, "hi", chat="b")
    await street.rest(1)
    assert slow.texts == [("a", "re: one"), ("b", "re: hi")]
    await street.rest()
    assert [text for chat, text in slow.texts if chat == "a"] == ["re: one", "re: one", "re: two", "re: three"]
    assert slow.posts[2][0] >= 20
    assert set(await street.states(runtime)) == {"delivered"}


@lives
async def test_a_chat_is_not_written_to_faster_than_its_platform_takes(street):
    channel = street.channel(text_chars_max=32, chat_interval_ms=1_000)
    runtime = await street.open(channel, model=ScriptedModel(says("word " * 20)))
    await street.say(runtime, "hello", chat="a")
    await street.say(runtime, "again", chat="a")
    await street.rest()
    times = [at for at, _ in channel.posts]
    assert len(times) == 5
    assert all(later - earlier >= 1 for earlier, later in pairwise(times))
    assert channel.texts[-1] == ("a", "re: again"), "no request is interrupted"
    assert [(row.state, row.parts_sent) for row in await street.ledger(runtime)] == [("delivered", 4), ("delivered", 1)]


@lives
async def test_a_limit_of_the_whole_account_makes_every_chat_wait(street):
    channel = street.channel(NotSent("slow down", retry_after_ms=10_000, whole_account=True))
    runtime = await street.open(channel)
    await street.say(runtime, "hello", chat="a")
    await street.rest(1)
    await street.say(runtime, "hello", chat="b")
    await street.rest(5)
    assert len(channel.posts) == 1
    await street.rest()
    assert set(await street.states(runtime)) == {"delivered"}
    assert channel.posts[1][0] >= 10


@pytest.mark.parametrize("later", [NotSent("slow down", retry_after_ms=1_000, whole_account=True), NotSent("away")])
def test_a_shorter_wait_that_is_heard_later_takes_nothing_from_a_longer_one(street, later):
    """Several requests are in progress when an account is limited; an account that sends too early is locked out."""

    async def scenario():
        limited = NotSent("slow down", retry_after_ms=60_000, whole_account=True)

        def after(seconds, outcome):
            async def move(_post):
                await street.rest(seconds)
                return outcome

            return move

        channel = street.channel(after(1, limited), *(after(2, later) for _ in range(4)))
        runtime = await street.open(channel)
        for chat in "abcde":
            await street.say(runtime, "hello", chat=chat)
        await street.rest(10)
        assert len(channel.posts) == 5
        await street.say(runtime, "hello", chat="f")
        await street.rest(45)
        assert len(channel.posts) == 5
        await street.rest(60)
        assert await street.states(runtime) == ["delivered"] * 6

    street.loop.run_until_complete(scenario())


@lives
async def test_a_reply_with_an_unknown_outcome_is_resent_once_and_shown(street):
    channel = street.channel(Doubtful("the connection was lost"))
    runtime = await street.open(channel)
    message = await street.say(runtime, "hello")
    await street.rest()
    assert [post.doubtful for _, post in channel.posts] == [False, True]
    assert len({post.nonce for _, post in channel.posts}) == 1
    reply = (await runtime.trace(message)).reply
    assert (reply.state, reply.possible_duplicate, reply.receipt) == ("uncertain", True, "r2")
    assert "possible duplicate" in reply.reason
    await runtime.resend(reply.id)
    await street.rest()
    assert len(channel.posts) == 3, "an operator's word counts"
    (row,) = await street.ledger(runtime)
    assert (row.state, row.parts_sent, row.receipt) == ("uncertain", 1, "r2 r3")


@lives
async def test_a_second_doubt_is_the_last(street):
    channel = street.channel(Doubtful("lost"), Doubtful("lost again"))
    runtime = await street.open(channel)
    await street.say(runtime, "one")
    await street.say(runtime, "two")
    await street.rest(60)
    assert [post.text for _, post in channel.posts] == ["re: one", "re: one", "re: two"]
    assert await street.states(runtime) == ["uncertain", "delivered"]


@lives
async def test_a_doubtful_reply_is_held_where_the_policy_says_so(street):
    channel = street.channel(Doubtful("lost"))
    runtime = await street.open(channel, on_doubt=OnDoubt.HOLD)
    await street.say(runtime, "one")
    await street.say(runtime, "two")
    await street.rest()
    assert [post.text for _, post in channel.posts] == ["re: one", "re: two"]
    (held, _) = await street.ledger(runtime)
    assert (held.state, held.possible_duplicate) == ("uncertain", False)
    await runtime.resend(held.id)
    await street.rest(2)
    assert [post.text for _, post in channel.posts] == ["re: one", "re: two", "re: one"]
    assert (await street.ledger(runtime))[0].possible_duplicate


@lives
async def test_a_platform_that_knows_the_nonce_proves_that_nothing_was_doubled(street):
    channel = street.channel(Doubtful("lost"), nonce_lasts_ms=60_000)
    runtime = await street.open(channel)
    await street.say(runtime, "hello")
    await street.rest()
    assert len(channel.posts) == 2
    assert await street.states(runtime) == ["delivered"]


@lives
async def test_a_declined_reply_fails_and_delays_no_other(street):
    channel = street.channel(Declined("the bot was blocked"))
    runtime = await street.open(channel)
    await street.say(runtime, "one")
    await street.say(runtime, "two")
    await street.rest()
    failed, after = await street.ledger(runtime)
    assert (failed.state, failed.reason, after.state) == ("failed", "the bot was blocked", "delivered")


@lives
async def test_a_channel_that_raises_or_never_answers_leaves_a_doubt(street):
    async def breaks(_post):
        raise RuntimeError("a fault in the channel's code")

    async def hangs(_post):
        await street.rest(FOREVER_S)

    channel = street.channel(breaks, hangs)
    runtime = await street.open(channel)
    await street.say(runtime, "hello")
    await street.rest(100)
    assert len(channel.posts) == 2
    assert await street.states(runtime) == ["uncertain"]


@pytest.mark.parametrize("sent", [0, 1])
def test_a_channel_that_does_not_say_what_became_of_a_piece_leaves_a_doubt(street, sent):
    async def scenario():
        channel = street.channel(*[Sent("r1")] * sent, None, None, text_chars_max=40)
        runtime = await street.open(channel, model=ScriptedModel(says("word " * 15), says("fine")))
        await street.say(runtime, "one")
        await street.rest()
        await street.say(runtime, "two")
        await street.rest()
        assert await street.states(runtime) == ["uncertain", "delivered"]

    street.loop.run_until_complete(scenario())


@lives
async def test_a_dead_channel_costs_occasional_probes_and_blocks_no_other(street):
    async def away(_post):
        return NotSent("not connected")

    dead, well = street.channel(*[away] * 10_000), street.channel()
    runtime = await street.open(dead, discord=well)
    for n in range(12):
        await street.say(runtime, "hello", chat=str(n))
        await street.say(runtime, "hello", chat=str(n), channel="discord")
    await street.rest(20)
    assert len(well.posts) == 12
    await street.rest(100)
    assert len(dead.posts) < 15
    dead.moves.clear()
    await street.rest(90)
    assert set(await street.states(runtime)) == {"delivered"}


@lives
async def test_replies_of_an_account_that_is_not_configured_wait(street):
    channel = street.channel()
    runtime = await street.open(channel)
    await street.say(runtime, "hello", channel="slack")
    await street.say(runtime, "hello")
    await street.rest()
    states = {row.channel: row.state for row in await street.ledger(runtime)}
    assert states == {"slack": "pending", "telegram": "delivered"}


@lives
async def test_a_channel_that_is_made_when_it_is_first_asked_for_is_asked_for(street):
    """As the channel between agents: the agents that will use it are not known beforehand."""
    made = street.channel()
    runtime = await street.open(street.channel(), offered=made)
    await street.say(runtime, "hello", channel="slack")
    await street.rest(2)
    assert made.texts == [("7", "re: hello")]


# --- processes come and go -------------------------------------------------------------------------


@lives
async def test_a_reply_survives_a_restart(street):
    away = street.channel(*[NotSent("away")] * 50)
    runtime = await street.open(away)
    await street.say(runtime, "hello")
    await street.rest(2)
    await runtime.close()
    back = street.channel()
    runtime = await street.open(back)
    await street.rest(60)
    assert [post.text for _, post in back.posts] == ["re: hello"]
    assert await street.states(runtime) == ["delivered"]


@lives
async def test_a_process_that_dies_between_sending_and_settling_leaves_a_possible_duplicate(street):
    async def posts_and_dies(_post):
        street.nodes[0].kill()
        return Sent("never heard")

    first, second = street.channel(posts_and_dies), street.channel()
    runtime = await street.open(first)
    await street.say(runtime, "one")
    await street.rest(2)
    runtime = await street.open(second)
    await street.say(runtime, "two")
    await street.rest()
    assert [(post.text, post.doubtful) for _, post in second.posts] == [("re: one", True), ("re: two", False)]
    one, two = await street.ledger(runtime)
    assert (one.state, one.possible_duplicate, two.state) == ("uncertain", True, "delivered")


@lives
async def test_a_process_that_dies_twice_while_sending_does_not_send_a_third_time(street):
    async def dies(_post):
        street.nodes[-1].kill()
        return Sent("never heard")

    for text in ("one", None):
        runtime = await street.open(street.channel(dies))
        if text:
            await street.say(runtime, text)
        await street.rest(2)
    third = street.channel()
    runtime = await street.open(third)
    await street.rest()
    assert third.posts == []
    assert await street.states(runtime) == ["uncertain"]


@lives
async def test_a_process_that_dies_between_two_pieces_goes_on_with_the_next(street):
    async def dies(_post):
        street.nodes[0].kill()
        return Sent("never heard")

    first = street.channel(Sent("r1"), dies, text_chars_max=32)
    runtime = await street.open(first, model=ScriptedModel(says("word " * 16)))
    await street.say(runtime, "hello")
    await street.rest(2)
    second = street.channel(text_chars_max=32)
    runtime = await street.open(second)
    await street.rest()
    assert [post.part for _, post in first.posts + second.posts] == [0, 1, 1, 2]
    assert await street.states(runtime) == ["uncertain"]


@lives
async def test_stopping_lets_what_is_being_sent_end(street):
    async def takes_a_second(_post):
        await street.rest(1)
        return Sent("in time")

    runtime = await street.open(street.channel(takes_a_second))
    await street.say(runtime, "hello")
    await street.rest(0.5)
    await runtime.close()
    runtime = await street.open(street.channel())
    assert await street.states(runtime) == ["delivered"]


@lives
async def test_stopping_is_bounded_and_an_interrupted_reply_is_uncertain(street):
    async def hangs(_post):
        await street.rest(FOREVER_S)

    runtime = await street.open(street.channel(hangs))
    await street.say(runtime, "hello")
    await street.rest(0.5)
    began = street.loop.time()
    await runtime.close()
    assert street.loop.time() - began <= ReplySender.grace_ms / 1000 + 1
    channel = street.channel()
    runtime = await street.open(channel)
    await street.rest()
    assert [post.doubtful for _, post in channel.posts] == [True]
    assert await street.states(runtime) == ["uncertain"]


# --- presence --------------------------------------------------------------------------------------


@lives
async def test_a_chat_sees_that_an_answer_is_being_made_and_no_longer(street):
    gate = Gate()
    channel = street.channel(typing=True, typing_lasts_ms=5_000)
    runtime = await street.open(channel, model=ScriptedModel(stands_at(gate, says("there"))))
    await street.say(runtime, "hello", chat="a")
    await street.rest(10)
    times = [at for at, chat in channel.typed if chat == "a"]
    assert len(times) == 3
    assert all(later - earlier >= 4 for earlier, later in pairwise(times))
    gate.open()
    await street.rest(20)
    assert len(channel.typed) == 3
    assert channel.texts == [("a", "there")]


@lives
async def test_a_platform_without_an_indicator_is_not_bothered(street):
    channel = street.channel()
    runtime = await street.open(channel)
    await street.say(runtime, "hello")
    await street.say(runtime, "hello", channel="http")
    await street.rest()
    assert channel.typed == []
