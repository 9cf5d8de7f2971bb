"""A sender sends no more at once than its account allows, never late, and pauses where the platform told it to."""

from typing import Any, cast

import pytest

from holdfast.inbox.address import parse
from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import ChannelKey
from holdfast.kernel.ids import AgentName, Instant, MessageId, NodeId, ReplyId
from holdfast.kernel.machine import SystemEntropy
from holdfast.outbox.post import Doubtful, NotSent, OnDoubt, ReplyState, Sent
from holdfast.outbox.reply import Kept, ReplyClaim, SendPolicy
from holdfast.outbox.reply_sender import AccountSender
from holdfast.testing import ManualClock
from holdfast.turns.policy import DAY_MS
from tests.support.ports import VerbMethods, make_ports

KEY = ChannelKey(AgentName("fern"), "telegram")
CHAT = "agent:fern:telegram:dm:7"


class Platform:
    """Answers as it was told; each request takes a while."""

    def __init__(self, clock, *outcomes, takes_ms=0, **able):
        self.capabilities = ChannelCapabilities(text_chars_max=40, **able)
        self.posts = []
        self._clock, self._outcomes, self._takes_ms = clock, list(outcomes), takes_ms

    async def send(self, post):
        self._clock.advance(self._takes_ms)
        self.posts.append(post)
        return self._outcomes.pop(0) if self._outcomes else Sent("r")


class Ledger:
    def __init__(self):
        self.settled = []

    async def settle_reply(self, claim, settlement):
        self.settled.append(settlement)
        return Kept.GOES_ON if settlement.state is ReplyState.ATTEMPTING else Kept.DONE


class Office:
    """A poster with a clock, a platform and a ledger of its own."""

    def __init__(self, *outcomes, on_doubt=OnDoubt.RESEND, takes_ms=0, **able):
        self.clock, self.ledger = ManualClock(), Ledger()
        self.platform = Platform(self.clock, *outcomes, takes_ms=takes_ms, **able)
        ports = make_ports(VerbMethods(self.ledger), clock=self.clock, entropy=SystemEntropy())
        policy = SendPolicy(sends_max=3)
        self.poster = AccountSender(KEY, cast("Any", self.platform), ports, policy, on_doubt=on_doubt)

    async def send(self, text="hi", *, asked_ms_ago=0):
        claim = ReplyClaim(
            n=1,
            id=ReplyId("rep_1"),
            node=NodeId("node_a"),
            attempt=1,
            part=0,
            doubts=0,
            address=parse(CHAT),
            text=text,
            message=MessageId("msg_1"),
        )
        await self.poster.send(claim, Instant(self.clock.now() - asked_ms_ago))
        return self.ledger.settled


async def test_what_is_being_sent_takes_up_room():
    office = Office()
    assert [office.poster.room(sending) for sending in (0, 2, 9)] == [3, 1, 0]


@pytest.mark.parametrize(("lasts_ms", "expected"), [(DAY_MS, ReplyState.PENDING), (DAY_MS - 1, ReplyState.UNCERTAIN)])
async def test_a_platform_that_never_doubles_is_asked_again_whatever_the_policy_says(lasts_ms, expected):
    office = Office(Doubtful("cut off"), on_doubt=OnDoubt.HOLD, nonce_lasts_ms=lasts_ms)
    (settled,) = await office.send()
    assert settled.state is expected


@pytest.mark.parametrize(("late_ms", "posts"), [(5_000, 1), (5_001, 0)])
async def test_a_claim_that_is_too_old_is_given_back_untried(late_ms, posts):
    office = Office()
    (settled,) = await office.send(asked_ms_ago=late_ms)
    assert len(office.platform.posts) == posts
    assert settled.state is (ReplyState.DELIVERED if posts else ReplyState.PENDING)


async def test_the_pieces_of_a_long_reply_each_have_their_own_time():
    office = Office(takes_ms=4_000)
    settled = await office.send("a" * 100)
    assert [one.state for one in settled] == [ReplyState.ATTEMPTING, ReplyState.ATTEMPTING, ReplyState.DELIVERED]
    assert "".join(post.text for post in office.platform.posts) == "a" * 100


async def test_a_chat_rests_after_each_message_as_long_as_its_platform_wants():
    office = Office(chat_interval_ms=1_000)
    await office.send()
    assert office.poster.resting() == {CHAT}
    office.clock.advance(1_000)
    assert office.poster.resting() == frozenset()


async def test_a_chat_rests_from_the_end_of_a_slow_request():
    office = Office(takes_ms=900, chat_interval_ms=1_000)
    await office.send()
    office.clock.advance(999)
    assert office.poster.resting() == {CHAT}


async def test_a_chat_that_is_being_written_to_rests_already():
    office = Office(chat_interval_ms=1_000)
    await office.send(asked_ms_ago=9_000)
    assert office.poster.resting() == {CHAT}, "nothing was sent, but the next one of this chat keeps its distance"


async def test_a_chat_waits_as_long_as_the_platform_asked():
    office = Office(NotSent("slow down", 7_000), chat_interval_ms=1_000)
    await office.send()
    assert office.poster.rested_at() == office.clock.now() + 7_000
    assert office.poster.room(0) == 3, "the others go on"


async def test_a_reply_of_nothing_but_blanks_fails_and_says_why():
    office = Office()
    (settled,) = await office.send(" \n ")
    assert (settled.state, settled.reason) == (ReplyState.FAILED, "there is nothing in it to send")
    assert office.platform.posts == []
