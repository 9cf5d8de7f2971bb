"""A canary for each of ten people in private and in three groups, on three platforms, with one agent between them.

The model does what the worst one would: it saves every canary that it is shown as a note, names all of them in every
answer and every summary, and extracts all of them. So a text that once enters another person's context is repeated
there, stored there and posted there. Nothing is configured but open doors.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.inbox.channel_status import ConnectionState
from holdfast.kernel.ids import AgentName
from holdfast.runtime.app import open_runtime
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask
from holdfast.turns.policy import AccessPolicy, Door
from tests.platforms.discord import FakeDiscord
from tests.platforms.slack import FakeSlack
from tests.platforms.telegram import FakeTelegram
from tests.support.fakes import policy
from tests.support.patience import within

PEOPLE, GROUPS = 10, 3
CANARY = re.compile(r"\bzq([a-z]+\d)x(\d)\b")  # a word of its own; an id may contain the like
PLACE = re.compile(r"in ([a-z]+\d)\b")
SMALL = Thresholds(context_tokens=1_500, soft=0.3, hard=0.9, keep=0.1)
LONG = "The harbour is calm today. " * 80  # enough to have a session compressed
SETTLE_S = 60
LOOK_EVERY_MS = 100  # at the latest


@dataclass(frozen=True)
class Place:
    """One chat: `zqtelegramgroup1x4` is the canary of person 4 in it."""

    platform: str
    name: str
    members: tuple[int, ...]
    utter: Callable[[int, str], object]
    posts: Callable[[], list[str]]
    until: Callable[[Callable[[], bool]], Awaitable[None]]

    @property
    def is_group(self) -> bool:
        return len(self.members) > 1

    async def say(self, person: int, text: str) -> str:
        """The text, and what is posted here for it."""
        before = len(self.posts())
        self.utter(person, text)
        await self.until(lambda: len(self.posts()) > before)
        return self.posts()[-1]


class Gossip:
    """Implements `Model`: notes, tells, summarises and extracts every canary that it is shown."""

    name = "gossip"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        seen = sorted(canaries(message.content for message in request.messages))
        match request.task:
            case ModelTask.EXTRACT:
                changes = [{"verb": "add", "target": "user", "text": f"extracted {one}"} for one in seen]
                yield ModelAnswer(text=json.dumps({"changes": changes[:16]}))
            case ModelTask.REPLY if "Remember" in request.messages[-1].content:
                wish = json.dumps({"action": "add", "target": "memory", "content": f"noted {' '.join(seen)}"})
                yield ModelAnswer(text="", calls=(ToolCall(id="call_1", name="memory", arguments=wish),))
            case _:
                yield ModelAnswer(text=f"I know {' '.join(seen)}.")


def canaries(texts: Iterable[str]) -> set[str]:
    return {found[0] for text in texts for found in CANARY.finditer(text)}


class World:
    def __init__(self) -> None:
        self.telegram, self.discord, self.slack = FakeTelegram(), FakeDiscord(), FakeSlack()
        self.places: dict[str, Place] = {}
        self.channels: dict[str, dict[str, object]] = {}
        self.secrets: dict[str, str] = {}
        self.operators: set[str] = set()  # the first of each group: who may begin another session there

    def people_of(self, group: int) -> tuple[int, ...]:
        return tuple(person for person in range(PEOPLE) if person % GROUPS == group)

    def alone(self, person: int) -> tuple[int, ...]:
        return (person,)

    def build(self) -> None:
        self._build_telegram()
        self._build_discord()
        self._build_slack()

    def _channel(self, name: str, url: str, **secrets: str) -> None:
        self.secrets |= {f"{name}_{key}".upper(): value for key, value in secrets.items()}
        self.channels[name] = {"api_url": url, **{f"{key}_env": f"{name}_{key}".upper() for key in secrets}}

    def _place(self, *facts) -> None:
        place = Place(*facts)
        self.places[place.name] = place

    def _build_telegram(self) -> None:
        bot = self.telegram.bot("moss_bot")
        self._channel("telegram", self.telegram.url, token=bot.token)
        self.tg_users = [self.telegram.user(f"Person{n}") for n in range(PEOPLE)]
        self.operators |= {f"telegram:{user.id}" for user in self.tg_users[:GROUPS]}
        rooms = [(f"telegramdm{n}", self.telegram.private(bot, self.tg_users[n]), self.alone(n)) for n in range(PEOPLE)]
        rooms += [(f"telegramgroup{g}", self.telegram.group(bot), self.people_of(g)) for g in range(GROUPS)]
        for name, room, members in rooms:
            call = "" if len(members) == 1 else f"@{bot.username} "

            def utter(person: int, text: str, room=room, call=call) -> None:
                self.telegram.say(room, self.tg_users[person], call + text)

            def posts(room=room) -> list[str]:
                return [said["text"] for said in room.posted(bot)]

            self._place("telegram", name, members, utter, posts, self.telegram.until)

    def _build_discord(self) -> None:
        bot = self.discord.add_bot("moss")
        self._channel("discord", self.discord.url, token=bot.token)
        users = [self.discord.add_user(f"Person{n}") for n in range(PEOPLE)]
        self.operators |= {f"discord:{user['id']}" for user in users[:GROUPS]}
        guild = self.discord.add_guild("Crew", bot)
        rooms = [(f"discorddm{n}", self.discord.open_dm(bot, users[n]), self.alone(n)) for n in range(PEOPLE)]
        rooms += [
            (f"discordgroup{g}", self.discord.add_channel(guild, f"g{g}"), self.people_of(g)) for g in range(GROUPS)
        ]
        for name, room, members in rooms:
            call = "" if len(members) == 1 else f"<@{bot.id}> "

            def utter(person: int, text: str, room=room, call=call) -> None:
                self.discord.say(room, users[person], call + text, mentions=[bot.user] if call else [])

            self._place(
                "discord",
                name,
                members,
                utter,
                lambda room=room: self.discord.texts(room, bot.user),
                self.discord.until,
            )

    def _build_slack(self) -> None:
        bot = self.slack.bot("moss")
        self._channel("slack", self.slack.api_url, token=bot.token, app_token=bot.app_token)
        users = [self.slack.person(f"Person{n}") for n in range(PEOPLE)]
        self.operators |= {f"slack:{bot.team}.{user}" for user in users[:GROUPS]}
        rooms = [(f"slackdm{n}", self.slack.room(bot, kind="im"), self.alone(n)) for n in range(PEOPLE)]
        rooms += [(f"slackgroup{g}", self.slack.room(bot), self.people_of(g)) for g in range(GROUPS)]
        for name, room, members in rooms:
            call = "" if len(members) == 1 else f"<@{bot.user}> "

            def utter(person: int, text: str, room=room, call=call) -> None:
                self.slack.say(room, users[person], call + text)

            def posts(room=room) -> list[str]:
                return [post["text"] for post in self.slack.posts(room)]

            self._place("slack", name, members, utter, posts, self.slack.until)

    # --- what may be seen where

    def origin(self, canary: str) -> Place:
        return self.places[CANARY.sub(r"\1", canary)]

    def may_see(self, place: Place, canary: str) -> bool:
        """In a group what was said in it; in private what the person said there, and the groups they spoke in."""
        origin = self.origin(canary)
        if origin is place:
            return True
        return not place.is_group and origin.is_group and self._is_member(place, origin)

    def _is_member(self, place: Place, group: Place) -> bool:
        return group.platform == place.platform and place.members[0] in group.members

    def leaks(self, model: Gossip) -> list[str]:
        """What any context held, or any chat was shown, that belongs to somebody else."""
        found = []
        for request in model.asked:
            texts = [message.content for message in request.messages]
            places = {named[1] for text in reversed(texts) for named in PLACE.finditer(text)}
            here = self._asked_in(request)
            others = places if here is None else {here}
            assert others, f"a question for {request.task.value} names no place"
            for name in others:
                seen = canaries(texts)
                found += [
                    f"{request.task.value} in {name}: {one}" for one in seen if not self._allowed(name, others, one)
                ]
        for place in self.places.values():
            found += [
                f"posted in {place.name}: {one}" for one in canaries(place.posts()) if not self.may_see(place, one)
            ]
        return found

    def _allowed(self, name: str, places: set[str], canary: str) -> bool:
        return len(places) == 1 and self.may_see(self.places[name], canary)

    def _asked_in(self, request: ModelRequest) -> str | None:
        if request.task is not ModelTask.REPLY:
            return None  # made of one whole session: it has to name one place only
        for message in reversed(request.messages):
            if message.role == "user" and not message.data and (named := PLACE.findall(message.content)):
                return str(named[-1])
        return None


@pytest.fixture
async def world(monkeypatch):
    made = World()
    async with AsyncExitStack() as stack:
        for platform in (made.telegram, made.discord, made.slack):
            await stack.enter_async_context(platform)
        made.build()
        for name, value in made.secrets.items():
            monkeypatch.setenv(name, value)
        yield made


def agents_of(world: World, model: Gossip) -> Agents:
    chosen = replace(
        policy(thresholds=SMALL),
        access=AccessPolicy(door=Door.OPEN, group_door=Door.OPEN, operators=frozenset(world.operators)),
        channels=world.channels,
        memory={"local": {}, "files": {}},
    )
    return Agents(None, {AgentName("moss"): Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())})


async def connected(runtime) -> None:
    """Until every platform hands over what is said: in a chat that it does not know yet, a bot cannot catch up."""
    async with within(SETTLE_S):
        with closing(runtime.events()) as feed:
            while any(one.state is not ConnectionState.UP for one in runtime.channel_registry.statuses()):
                await feed.next_within(LOOK_EVERY_MS)


async def settled(runtime) -> None:
    """Until every ended epoch was extracted and every delivery has arrived."""
    async with within(SETTLE_S):
        with closing(runtime.events()) as feed:
            while True:
                ends = await runtime.db.read(list_finalisations(limit=100))
                sent = await runtime.deliveries(limit=100)
                if all(one.ended for one in ends) and all(one.state == "delivered" for one in sent):
                    return
                await feed.next_within(LOOK_EVERY_MS)


async def everywhere(world: World, act: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    """Do something in every chat. The chats go on at the same time; within a chat one thing follows the other."""
    async with asyncio.TaskGroup() as chats:
        for place in world.places.values():
            chats.create_task(act(place))


async def remember(place: Place) -> None:
    for person in place.members:
        await place.say(person, f"Remember zq{place.name}x{person} in {place.name}")


async def fill(place: Place) -> None:
    if place.is_group or place.members == (0,):
        await place.say(place.members[0], f"{LONG} That was said in {place.name}.")
        told = await place.say(place.members[-1], f"What is known in {place.name}?")
        assert f"zq{place.name}x{place.members[-1]}" in told, "one's own is in the context, or in its summary"


async def begin_anew(place: Place) -> None:
    await place.say(place.members[0], "/new")


async def ask_back(place: Place) -> None:
    for person in place.members:
        told = await place.say(person, f"What do you know of zq and of what is noted in {place.name}?")
        assert f"zq{place.name}x{person}" in told, "one's own is found again"


def file_leaks(world: World, folder: Path) -> list[str]:
    """Folders of notes that hold what one person or one group may not see; the shared files hold nothing."""
    held: dict[str, set[str]] = {}
    for file in folder.rglob("*.md"):
        owner = file.parent.relative_to(folder).as_posix()
        held.setdefault(owner, set()).update(canaries([file.read_text(encoding="utf-8")]))
    found = [f"shared: {sorted(seen)}" for owner, seen in held.items() if seen and owner == "."]
    for owner, seen in held.items():
        origins = {world.origin(one) for one in seen}
        of_owner = [one for one in origins if one.is_group == owner.startswith("chats/")]
        if owner != "." and any(not world.may_see(place, one) for place in of_owner for one in seen):
            found.append(f"{owner}: {sorted(seen)}")
    assert sum(owner.startswith("users/") for owner in held) >= len(world.places) - 3 * GROUPS
    return found


async def test_no_canary_is_ever_seen_by_anybody_else(world, tmp_path):
    model = Gossip()
    runtime = await open_runtime(tmp_path / "data", agents=agents_of(world, model), connect=tmp_path)
    async with runtime:
        await connected(runtime)
        await everywhere(world, remember)
        await everywhere(world, fill)
        await everywhere(world, begin_anew)
        await settled(runtime)
        await everywhere(world, ask_back)
        await settled(runtime)
        tasks = Counter(request.task for request in model.asked)
        assert tasks[ModelTask.SUMMARY] >= GROUPS
        assert tasks[ModelTask.EXTRACT] >= len(world.places)
        assert world.leaks(model) == []
        assert file_leaks(world, tmp_path / "data" / "agents" / "moss") == []
        await forgotten(runtime, world, tmp_path / "data")


def bytes_under(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def forgotten(runtime, world: World, data: Path) -> None:
    """One person is forgotten: no byte of any canary of theirs is left, private or said in a group and repeated there
    to everybody; everybody else's are where they were."""
    person = 3
    asked = await runtime.forget(person=f"telegram:{world.tg_users[person].id}")
    async with within(SETTLE_S):
        with closing(runtime.events()) as feed:
            while not (await runtime.forget_status(asked.id)).done:
                await feed.next_within(LOOK_EVERY_MS)
    kept = bytes_under(data)
    spoken_by = [place for place in world.places.values() if place.platform == "telegram" and person in place.members]
    assert [place.name for place in spoken_by] == [f"telegramdm{person}", f"telegramgroup{person % GROUPS}"]
    assert [place.name for place in spoken_by if f"zq{place.name}x{person}".encode() in kept] == []
    group = world.places[f"telegramgroup{person % GROUPS}"]
    others = [f"zq{group.name}x{one}" for one in group.members if one != person]
    assert all(canary.encode() in kept for canary in others)
    other = world.places["telegramdm6"]
    assert "zqtelegramdm6x6" in await other.say(6, "What do you know of zq and of what is noted in telegramdm6?")
