"""The weather: what platforms and networks do to a gateway, by seed.

Connections are cut before and after the deed, rates are limited, gateways and sockets are closed, sessions become
invalid, events come twice and, between chats, in another order. Within a chat every platform keeps the order.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.chaos.fleet import Fleet
from tests.platforms import discord, slack, telegram

T = TypeVar("T")
SENDS_FAIL, POLLS_FAIL = 0.10, 0.05
ROOMS_HIT, FAULTS_MAX = 4, 8  # channels of Discord, and how many faults may be pending in them


class Weather:
    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self._fleet = fleet
        self._chance = chance
        self._gusts = (
            self._discord_connection,
            self._discord_request,
            self._discord_reordering,
            self._slack_connection,
            self._slack_request,
            self._slack_reordering,
            self._slack_doubling,
        )

    def rise(self) -> None:
        self._fleet.telegram.fault_for = self._telegram_fault
        for bot in self._fleet.telegram.bots.values():
            bot.arrange = self._shuffled

    def blow(self) -> None:
        """One thing more goes wrong."""
        self._chance.choice(self._gusts)()

    def calm(self) -> None:
        """Everything works again, and what was held up is on its way."""
        fleet = self._fleet
        fleet.telegram.fault_for = lambda _bot, _method: None
        fleet.discord.faults.clear()
        fleet.slack.faults.clear()
        fleet.discord.release()
        for bot in fleet.slack_bots:
            bot.doubled = False
            fleet.slack.release(bot)

    # --- Telegram

    def _telegram_fault(self, _bot: telegram.Bot, method: str) -> telegram.Fault | None:
        limit = telegram.Refuse(429, "Too Many Requests: retry after 1", retry_after=1)
        cuts = (telegram.Drop(after=False), telegram.Drop(after=True), telegram.Page(), telegram.Page(after=True))
        if method == "sendmessage" and self._chance.random() < SENDS_FAIL:
            return self._chance.choice((limit, *cuts))
        if method == "getupdates" and self._chance.random() < POLLS_FAIL:
            return self._chance.choice((limit, *cuts))
        return None

    # --- Discord

    def _discord_connection(self) -> None:
        server = self._fleet.discord
        bot = self._chance.choice(list(server.bots.values()))
        self._chance.choice(
            (
                lambda: server.drop(bot),
                lambda: server.drop(bot, 4000),
                lambda: server.ask_reconnect(bot),
                lambda: server.forget_sessions(bot),
            )
        )()

    def _discord_request(self) -> None:
        """Faults at the next post or read in some channels."""
        server = self._fleet.discord
        kinds: Sequence[dict[str, Any]] = (
            {"cut": True},
            {"cut": True, "effect": True},
            {"status": 502},
            {"status": 502, "effect": True},
        )
        if len(server.faults) > FAULTS_MAX:
            return
        for room in self._chance.sample(list(server.rooms), ROOMS_HIT):
            verb = self._chance.choice(("POST", "POST", "GET"))
            server.faults.append(discord.Fault(f"{verb} /channels/{room}/messages", **self._chance.choice(kinds)))
        limited = self._chance.choice(list(server.rooms))
        server.limit(f"POST /channels/{limited}/messages", 0.5, everywhere=self._chance.random() < 0.3)

    def _discord_reordering(self) -> None:
        """Hold everything back; the next time, let it go, chat by chat in another order."""
        if self._fleet.discord._held is None:
            self._fleet.discord.hold()
        else:
            self._fleet.discord.release(lambda held: self._by_chat(held, lambda event: str(_room_of(event))))

    # --- Slack

    def _slack_connection(self) -> None:
        bot = self._chance.choice(self._fleet.slack_bots)
        self._chance.choice((self._fleet.slack.drop, self._fleet.slack.ask_reconnect))(bot)

    def _slack_request(self) -> None:
        kinds: Sequence[dict[str, Any]] = (
            {"status": 429, "headers": {"Retry-After": "1"}, "error": "ratelimited"},
            {"cut": True},
            {"cut": True, "effect": True},
            {"status": 503, "body": "<html>Service Unavailable</html>", "content_type": "text/html"},
        )
        on = self._chance.choice(("chat.postMessage", "chat.postMessage", "conversations.history", "users.info"))
        self._fleet.slack.faults.append(slack.Fault(on, **self._chance.choice(kinds)))

    def _slack_reordering(self) -> None:
        bot = self._chance.choice(self._fleet.slack_bots)
        if bot.held is None:
            self._fleet.slack.hold(bot)
        else:
            self._fleet.slack.release(bot, lambda held: self._by_chat(held, _place_of))

    def _slack_doubling(self) -> None:
        bot = self._chance.choice(self._fleet.slack_bots)
        bot.doubled = not bot.doubled

    # --- order

    def _shuffled(self, items: list[T]) -> list[T]:
        return self._chance.sample(items, len(items))

    def _by_chat(self, items: list[T], chat_of: Callable[[T], str]) -> list[T]:
        """In another order, but in order within each chat, as platforms do it."""
        turns = self._shuffled([chat_of(item) for item in items])
        waiting: dict[str, list[T]] = {}
        for item in items:
            waiting.setdefault(chat_of(item), []).append(item)
        return [waiting[chat].pop(0) for chat in turns]


def _room_of(event: dict[str, Any]) -> object:
    return event["d"].get("channel_id", event["d"].get("id"))


def _place_of(envelope: slack.Envelope) -> str:
    return str(envelope.payload["event"]["channel"])
