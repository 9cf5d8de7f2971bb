"""The fleet: thirteen agents on three fake platforms, eight chats each, and a canary for every chat.

The same people write to all bots of a platform, so chats of different bots share ids wherever the platform has it so;
the chats of one bot have one person each. A chat says numbered messages with its canary, and what the bot posted there
is read back as numbers.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from tests.platforms.discord import FakeDiscord
from tests.platforms.discord_shapes import Bot as DiscordBot
from tests.platforms.slack import Bot as SlackBot
from tests.platforms.slack import FakeSlack
from tests.platforms.telegram import Bot as TelegramBot
from tests.platforms.telegram import FakeTelegram

TELEGRAM, DISCORD, SLACK = 5, 4, 4
CHATS = 8
PRIVATE = 4  # of the chats of a bot; then two groups, and two topics or threads of a third
TOPICS = (7, 8)
SLACK_RETRY_S = 1.0
# Attempts are not limited: here it is never the turn that ends its process.
MARK = re.compile(r"(?P<canary>zx[a-z]+\d\d) number (?P<number>\d+)")
TABLE = """\
[agents.{name}]
model = "practice"
context_tokens = {tokens}
[agents.{name}.turns]
turn_attempts_max = 100
[agents.{name}.access]
door = "open"
group_door = "open"
[agents.{name}.channels.{channel}]
token_env = "{variable}"
api_url = "{url}"
"""


@dataclass(eq=False)
class Chat:
    agent: str
    canary: str
    utter: Callable[[str], object]
    posts: Callable[[], list[str]]
    said: int = 0

    def say(self) -> None:
        self.said += 1
        self.utter(f"{self.canary} number {self.said}")

    def answers(self) -> list[int]:
        """The numbers of the messages whose replies the platform shows here, in its order."""
        found = [MARK.search(text) for text in self.posts()]
        assert all(one and one["canary"] == self.canary for one in found), f"{self.canary}: not its own words"
        return [int(one["number"]) for one in found if one]


@dataclass
class Fleet:
    telegram: FakeTelegram = field(default_factory=FakeTelegram)
    discord: FakeDiscord = field(default_factory=FakeDiscord)
    slack: FakeSlack = field(default_factory=lambda: FakeSlack(retry_s=SLACK_RETRY_S))
    slack_bots: list[SlackBot] = field(default_factory=list)
    chats: list[Chat] = field(default_factory=list)
    config: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> "Fleet":
        for platform in (self.telegram, self.discord, self.slack):
            await self._stack.enter_async_context(platform)
        self._man_telegram()
        self._man_discord()
        self._man_slack()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def is_connected(self) -> bool:
        """Whether every bot hears what is said."""
        on_discord = all(self.discord.is_connected(bot) for bot in self.discord.bots.values())
        on_telegram = all(bot.waiting for bot in self.telegram.bots.values())
        return on_discord and on_telegram and all(bot.pipes for bot in self.slack_bots)

    def polls(self) -> list[int]:
        """How often each bot of Telegram, whose library is the slowest to load, has asked for updates."""
        return [bot.polls for bot in self.telegram.bots.values()]

    @property
    def said(self) -> int:
        return sum(chat.said for chat in self.chats)

    @property
    def answered(self) -> int:
        return sum(len(set(chat.answers())) for chat in self.chats)

    def _agent(self, n: int, channel: str, url: str, secrets: Mapping[str, str]) -> str:
        """A table of the configuration. Every third agent has such a small context window that it must compress."""
        name = f"{channel}{n}"
        self.environment |= {f"{name}_{key}".upper(): value for key, value in secrets.items()}
        tokens = 800 if n % 3 == 1 else 128_000
        self.config += TABLE.format(
            name=name, channel=channel, url=url, variable=f"{name}_token".upper(), tokens=tokens
        )
        if "app" in secrets:
            self.config += f'app_token_env = "{f"{name}_app".upper()}"\n'
        return name

    def _chat(self, agent: str, n: int, utter: Callable[[str], object], posts: Callable[[], list[str]]) -> None:
        word = agent.translate(str.maketrans("0123456789", "abcdefghij"))
        self.chats.append(Chat(agent, f"zx{word}{n:02}", utter, posts))

    # --- Telegram: chats in private, groups, and the topics of a forum

    def _man_telegram(self) -> None:
        people = [self.telegram.user(f"Person{n}") for n in range(CHATS)]
        for n in range(TELEGRAM):
            bot = self.telegram.bot(f"crew{n}_bot")
            agent = self._agent(n, "telegram", self.telegram.url, {"token": bot.token})
            forum = self.telegram.group(bot, title="Forum", topics=TOPICS)
            for m, person in enumerate(people):
                is_private, topic = m < PRIVATE, TOPICS[m - 6] if m >= 6 else None
                room = self.telegram.private(bot, person) if is_private else self.telegram.group(bot)
                room = room if topic is None else forum
                self._telegram_chat(agent, m, bot, room, person, topic=topic)

    def _telegram_chat(self, agent, n, bot: TelegramBot, room, person, *, topic: int | None) -> None:
        call = "" if n < PRIVATE else f"@{bot.username} "

        def posts() -> list[str]:
            return [said["text"] for said in room.posted(bot) if said.get("message_thread_id") == topic]

        self._chat(agent, n, lambda text: self.telegram.say(room, person, call + text, thread=topic), posts)

    # --- Discord: direct messages, channels of a guild, and threads

    def _man_discord(self) -> None:
        people = [self.discord.add_user(f"Person{n}") for n in range(CHATS)]
        for n in range(DISCORD):
            bot = self.discord.add_bot(f"crew{n}")
            agent = self._agent(n, "discord", self.discord.url, {"token": bot.token})
            guild = self.discord.add_guild(f"Guild{n}", bot)
            rooms = [self.discord.open_dm(bot, person) for person in people[:PRIVATE]]
            rooms += [self.discord.add_channel(guild, f"room{m}") for m in range(2)]
            rooms += [self.discord.add_thread(rooms[-1], f"thread{m}") for m in range(2)]
            for m, (room, person) in enumerate(zip(rooms, people, strict=True)):
                self._discord_chat(agent, m, bot, room, person)

    def _discord_chat(self, agent, n, bot: DiscordBot, room, person) -> None:
        def utter(text: str) -> None:
            if n < PRIVATE:
                self.discord.say(room, person, text)
            else:
                self.discord.say(room, person, f"<@{bot.id}> {text}", mentions=[bot.user])

        self._chat(agent, n, utter, lambda: self.discord.texts(room, bot.user))

    # --- Slack: direct messages, channels, and threads

    def _man_slack(self) -> None:
        people = [self.slack.person(f"Person{n}") for n in range(CHATS)]
        for n in range(SLACK):
            bot = self.slack.bot(f"crew{n}")
            self.slack_bots.append(bot)
            agent = self._agent(n, "slack", self.slack.api_url, {"token": bot.token, "app": bot.app_token})
            for m, person in enumerate(people[:6]):
                room = self.slack.room(bot, kind="im" if m < PRIVATE else "channel")
                self._slack_chat(agent, m, bot, room, person, thread=None)
            lobby = self.slack.room(bot)
            for m, person in enumerate(people[6:], start=6):
                thread = self.slack.say(lobby, person, "a new thread", deliver=False)
                self._slack_chat(agent, m, bot, lobby, person, thread=thread)

    def _slack_chat(self, agent, n, bot: SlackBot, room: str, person: str, *, thread: str | None) -> None:
        call = "" if n < PRIVATE else f"<@{bot.user}> "

        def posts() -> list[str]:
            return [post["text"] for post in self.slack.posts(room) if post.get("thread_ts") == thread]

        self._chat(agent, n, lambda text: self.slack.say(room, person, call + text, thread=thread), posts)
