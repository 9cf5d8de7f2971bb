"""A reply on Discord grows in one message, and an edit says what is certain about it."""

import json

import pytest

from holdfast.channels.discord import make_discord
from holdfast.kernel.errors import ConfigInvalid
from holdfast.outbox.draft import MARK
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.discord.kit import post_to, running, setup_of
from tests.platforms.discord import Fault
from tests.support.drafts import HALF, WHOLE, delivered, streaming
from tests.support.fakes import Gate, kinds

PATCH = "PATCH /channels/"


@pytest.fixture
async def channel(world):
    async with running(world.fake, world.bot, world.mailbox) as channel:
        yield channel


async def test_a_reply_grows_in_one_message_and_the_bot_does_not_hear_itself(world, tmp_path, monkeypatch):
    monkeypatch.setenv("ADA_TOKEN", world.bot.token)
    fake, gate = world.fake, Gate()
    table = {"token_env": "ADA_TOKEN", "api_url": fake.url}
    async with await streaming(tmp_path, "discord", gate, **table) as runtime:
        await fake.until(lambda: fake.is_connected(world.bot))
        asked = fake.say(world.dm, world.ann, "hello")
        await fake.until(lambda: bool(fake.texts(world.dm, world.bot.user)))
        [posted] = [one for one in world.dm.messages.values() if one["author"]["id"] == world.bot.id]
        assert (posted["content"], posted["referenced_message"]["id"]) == (f"{HALF}{MARK}", asked["id"])
        fake.faults.append(Fault(PATCH, cut=True, effect=True))  # the answer to the final edit is lost
        gate.open()
        row = await delivered(runtime)
        fake.say(world.dm, world.ann, "and?")
        await fake.until(lambda: fake.texts(world.dm, world.bot.user) == [WHOLE, "re: and?"])
        heard = await kinds(runtime, (await runtime.trace(row.message)).session)
    assert heard == ["user", "assistant"] * 2
    assert (row.state, row.draft, row.receipt) == ("delivered", "replaced", posted["id"])
    assert all(body["allowed_mentions"] == {"parse": [], "replied_user": False} for body in fake.patches)


FATES = [
    (Fault(PATCH, status=404, body='{"message": "Unknown Message", "code": 10008}'), Declined),
    (Fault(PATCH, status=403, body='{"message": "Missing Access", "code": 50001}'), Declined),
    (Fault(PATCH, status=401), NotSent),
    (Fault(PATCH, cut=True), Doubtful),
    (Fault(PATCH, cut=True, effect=True), Doubtful),
]


@pytest.mark.parametrize(("fault", "kind"), FATES, ids=lambda case: str(getattr(case, "status", "")))
async def test_each_failure_of_an_edit_says_what_it_proves(world, channel, fault, kind):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    world.fake.faults.append(fault)
    assert isinstance(await channel.edit(post.address, sent.receipt, "second"), kind)


async def test_an_edit_that_is_limited_says_for_how_long(world, channel):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    world.fake.limit(PATCH, 7.0)
    assert await channel.edit(post.address, sent.receipt, "second") == NotSent("Discord limits the rate", 7_000)


async def test_an_edit_may_be_repeated_and_a_message_that_is_gone_cannot_be_edited(world, channel):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    for _ in range(2):
        assert await channel.edit(post.address, sent.receipt, "second") == sent
    assert world.fake.texts(world.room, world.bot.user) == ["second"]
    for _ in range(2):
        assert await channel.retract(post.address, sent.receipt) == Sent(sent.receipt)
    assert world.fake.texts(world.room, world.bot.user) == []
    assert isinstance(await channel.edit(post.address, sent.receipt, "third"), Declined)
    assert isinstance(await channel.edit(post.address, "no snowflake", "third"), Declined)


def test_the_setting_is_off_by_default_and_takes_yes_or_no_only(world):
    assert not make_discord(setup_of(world.fake, world.bot)).capabilities.drafts
    assert make_discord(setup_of(world.fake, world.bot, stream=True)).capabilities.drafts
    with pytest.raises(ConfigInvalid, match=r"discord.stream is 1: it must be true or false"):
        make_discord(setup_of(world.fake, world.bot, stream=1))


async def test_edits_keep_to_the_pace_that_discord_asks_for(channel):
    """Five messages in five seconds in a channel, of which half is left for replies, and fifty requests a second."""
    able = channel.capabilities
    assert able.group_edit_interval_ms * 5 >= 10_000
    assert able.account_edit_interval_ms * 50 >= 1_000


async def test_the_reason_of_a_refused_edit_repeats_no_word_of_the_draft(world, channel):
    sent = await channel.send(post_to(world.room, "hello"))
    words = "my cat is called Byron and he bites"
    body = json.dumps({"message": f"Cannot say {words} here", "code": 50007})
    world.fake.faults.append(Fault(PATCH, status=403, body=body))
    outcome = await channel.edit(post_to(world.room, words).address, sent.receipt, words)
    assert isinstance(outcome, Declined)
    assert outcome.vendor.status == 403
    assert "Byron" not in outcome.vendor.extract
