"""Chats are taken side by side and each in its order. An update is confirmed when it and all before it are durable: one
that fails or hangs is sent again with everything behind it, and holds up no other chat."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, field, replace

import apsw
import pytest

from holdfast.channels.telegram import make_telegram, receiving
from holdfast.inbox.channels import Channels
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock
from holdfast.runtime.app import DATABASE
from holdfast.turns.policy import AccessPolicy, Door
from tests.channels.telegram.kit import Ear, setup
from tests.platforms.telegram import Hold
from tests.support.fakes import Process, ScriptedModel, agents, policy
from tests.support.servers import Dice


@dataclass
class Listener(Ear):
    """Takes its time over some words, stumbles once over others, and counts how many it hears at once."""

    stands: dict[str, asyncio.Event] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    dawdles: Dice | None = None
    told: list[str] = field(default_factory=list)
    now: int = 0
    most: int = 0

    async def receive(self, message):
        self.now += 1
        self.most = max(self.now, self.most)
        self._changed.set()
        try:
            if message.text in self.stands:
                await self.stands[message.text].wait()
            for _ in range(self.dawdles.bits(4) if self.dawdles else 1):
                await asyncio.sleep(0)
            if message.text in self.fails:
                self.fails.remove(message.text)
                raise StoreUnavailable("the disk is away")
            self.told.append(message.text)
            return await super().receive(message)
        finally:
            self.now -= 1
            self._changed.set()

    async def moved(self, old_chat, new_chat, *, new_type):
        self.told.append("moved")
        await super().moved(old_chat, new_chat, new_type=new_type)


@pytest.fixture(autouse=True)
def briskly(monkeypatch):
    monkeypatch.setattr(receiving, "AGAIN_MS", 5)


@pytest.fixture
def ada(ada):
    ada.ear = Listener()
    return ada


@pytest.fixture
def crowd(server, bot):
    """So many people, each with a chat of their own, and a way to let the nth speak."""
    people = [server.user(f"P{number}") for number in range(40)]
    return lambda number, text: server.say(server.private(bot, people[number]), people[number], text)


def waiting(bot):
    """The words that Telegram still keeps for the bot."""
    return [update["message"].get("text") or update["message"].get("caption") for update in bot.pending]


async def test_every_chat_keeps_its_order(ada, crowd):
    ada.ear.dawdles = Dice(7)
    for turn in range(12):
        for number in range(8):
            crowd(number, f"{number}:{turn}")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    of_each = [[text for text in ada.ear.texts if text.startswith(f"{number}:")] for number in range(8)]
    assert of_each == [[f"{number}:{turn}" for turn in range(12)] for number in range(8)]
    assert ada.ear.most == 8


async def test_no_more_than_so_many_are_taken_at_once(ada, crowd):
    gate = asyncio.Event()
    ada.ear.stands = {str(number): gate for number in range(40)}
    for number in range(40):
        crowd(number, str(number))
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.now == receiving.TEXTS_MAX)
        gate.set()
        await ada.server.until(lambda: not ada.bot.pending)
    assert ada.ear.most == receiving.TEXTS_MAX
    assert sorted(ada.ear.texts) == sorted(str(number) for number in range(40))


async def test_a_file_that_hangs_holds_up_its_own_chat_only(ada, server, bot, crowd):
    """Neither what came with it nor what comes later: it all becomes durable, and nothing of it is confirmed."""
    gate, cara = asyncio.Event(), server.user("Cara")
    bot.fail("file", Hold(gate))
    crowd(0, "before")
    server.hand_over(server.private(bot, cara), cara, "document", b"the bytes", caption="my film")
    server.say(server.private(bot, cara), cara, "did you see it?")
    crowd(1, "beside")
    async with ada.running():
        await ada.ear.until(lambda: len(ada.ear.taken) == 2)
        crowd(1, "later")
        await ada.ear.until(lambda: len(ada.ear.taken) == 3)
        await server.until(lambda: len(bot.pending) == 4)
        assert waiting(bot) == ["my film", "did you see it?", "beside", "later"]
        gate.set()
        await server.until(lambda: not bot.pending)
    assert sorted(ada.ear.texts[:2]) == ["before", "beside"]
    assert ada.ear.texts[2:] == ["later", "my film", "did you see it?"]
    assert ada.ear.taken[3].attachments[0].body == b"the bytes"


async def test_files_that_hang_in_many_chats_hold_up_no_words(ada, server, bot, crowd):
    gate, people = asyncio.Event(), [server.user(f"Q{number}") for number in range(20)]
    bot.fail("file", *[Hold(gate) for _ in people])
    for one in people:
        server.hand_over(server.private(bot, one), one, "document", b"the bytes", caption="film")
    crowd(0, "beside")
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.texts == ["beside"])
        await server.until(lambda: len(bot.called("file")) == receiving.FILES_MAX)
        gate.set()
        await server.until(lambda: not bot.pending)
    assert ada.ear.texts == ["beside", *["film"] * 20]


async def test_behind_one_that_fails_nothing_is_confirmed_and_all_of_it_comes_again(ada, bot, crowd):
    ada.ear.fails = {"fails"}
    for number, text in [(0, "first"), (1, "fails"), (2, "beside"), (1, "behind it")]:
        crowd(number, text)
    with pytest.raises(StoreUnavailable):
        await ada.channel.run(ada.ear)
    assert sorted(ada.ear.texts) == ["beside", "first"]  # durable, although what is before it is not
    assert waiting(bot)[-3:] == ["fails", "beside", "behind it"]
    async with ada.running():
        await ada.server.until(lambda: not bot.pending)
    assert [text for text in ada.ear.texts if text in ("fails", "behind it")] == ["fails", "behind it"]


async def test_a_failure_is_told_only_when_the_others_have_been_heard(ada, bot, crowd, monkeypatch):
    """Else a chat in trouble could keep another's slow message from ever becoming durable."""
    monkeypatch.setattr(receiving, "AGAIN_MS", 0)
    gate = asyncio.Event()
    ada.ear.fails, ada.ear.stands = {"fails"}, {"slow": gate}
    crowd(0, "fails")
    crowd(1, "slow")
    async with ada.running() as task:
        await ada.ear.until(lambda: ada.ear.now == 1 and not ada.ear.fails)
        for _ in range(20):  # the channel would act by itself now
            await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        with pytest.raises(StoreUnavailable):
            await task
    assert ada.ear.texts == ["slow"]


async def test_a_group_that_moves_keeps_the_order_of_both_its_chats(ada, server, bot, crowd):
    gate, eve = asyncio.Event(), server.user("Eve")
    ada.ear.stands = {"in the old one": gate}
    old = server.group(bot, type="group")
    server.say(old, eve, "in the old one")
    server.say(server.migrate(old), eve, "in the new one")
    crowd(0, "beside")
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.taken)
        gate.set()
        await server.until(lambda: not bot.pending)
    assert ada.ear.told == ["beside", "in the old one", "moved", "moved", "in the new one"]


async def test_stopping_leaves_nothing_running(ada, crowd):
    ada.ear.stands = {str(number): asyncio.Event() for number in range(40)}
    for number in range(40):
        crowd(number, str(number))
    async with ada.running():
        await ada.ear.until(lambda: ada.ear.now == receiving.TEXTS_MAX)
    assert (ada.ear.now, ada.ear.texts, len(ada.bot.pending)) == (0, [], 40)


# --- through the whole runtime ---------------------------------------------------------------------


class Stumbling:
    """A channel whose intake fails at some messages, the first time they come."""

    def __init__(self, channel, texts):
        self._channel, self._texts = channel, texts

    def __getattr__(self, name):
        return getattr(self._channel, name)

    async def run(self, intake):
        await self._channel.run(Cracked(intake, self._texts))


class Cracked:
    def __init__(self, intake, texts):
        self._intake, self._texts = intake, texts

    def __getattr__(self, name):
        return getattr(self._intake, name)

    async def receive(self, message):
        if message.text in self._texts:
            self._texts.remove(message.text)
            raise StoreUnavailable("the disk is away")
        return await self._intake.receive(message)


async def test_what_is_sent_again_is_neither_lost_nor_doubled(tmp_path, server, bot, crowd):
    said = [(number, f"{number}:{turn}") for turn in range(4) for number in range(5)]
    for number, text in said:
        crowd(number, text)
    made = replace(
        setup({"token_env": "TOKEN", "api_url": server.url}, {"TOKEN": bot.token}, tmp_path),
        agent=AgentName("main"),
        clock=SystemClock(),
        tasks=AsyncTasks(),
    )
    channel = Stumbling(make_telegram(made), {"1:1", "4:0"})
    door = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)
    who = agents(ScriptedModel(), replace(policy(), access=door))
    process = await Process.start(tmp_path, who, channels=Channels({(AgentName("main"), "telegram"): channel}))
    async with process:
        await server.until(lambda: not bot.pending)
    await channel.close()
    with closing(apsw.Connection(str(tmp_path / DATABASE))) as database:
        kept = [bytes(body).decode() for (body,) in database.execute("select body from inbound order by mailbox, seq")]
    assert sorted(kept) == sorted(text for _, text in said)
    of_each = [[text for text in kept if text.startswith(f"{number}:")] for number in range(5)]
    assert of_each == [[f"{number}:{turn}" for turn in range(4)] for number in range(5)]
