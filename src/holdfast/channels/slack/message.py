"""What Slack says happened, as one of our events. Pure: names and files are looked up by whoever has a connection.

Rule 1: a message is known by its `ts`, which is unique in its channel. `app_mention` and `message` events for one `ts`
        are one message, and both give the same words.
Rule 2: a message that starts a thread stays in its channel; only replies to it are in the thread. So the same message
        reads the same before and after somebody has replied to it.
Rule 3: senders are named by our own team and their user id, never by a name. Our own messages are not events.
Rule 4: link previews and counts of replies come as changes, too; only what its author edited is an edit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.channels.slack.text import mentioned
from holdfast.inbox.chat_message import MessageChange

Json: TypeAlias = Mapping[str, Any]  # from outside: every value is looked at before it is used

SAID = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})
MICROS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackIdentity:
    """The bot's own identity, as `auth.test` tells it."""

    team: str
    user: str
    bot: str
    name: str

    @property
    def account(self) -> str:
        return f"slack:{self.team}.{self.user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One event that concerns us, before names and files are looked up."""

    event_id: str
    chat: str
    chat_type: str
    thread: str | None
    user: str
    name: str  # as the event gives it, which few do
    raw: str
    addressed: bool
    human: bool
    change: MessageChange = MessageChange.NEW
    of: str = ""
    files: tuple[Json, ...] = ()
    position: int | None = None


def heard(event: Json, me: SlackIdentity) -> Heard | None:
    """None for what no agent could read: joins, topics, previews, our own words."""
    if event.get("type") not in ("message", "app_mention"):
        return None
    chat, subtype = word(event, "channel"), word(event, "subtype")
    if subtype == "message_changed":
        return _changed(event, chat, me)
    if subtype == "message_deleted":
        return _deleted(part(event, "previous_message"), word(event, "deleted_ts"), chat, me)
    return said(event, chat, me)


def said(message: Json, chat: str, me: SlackIdentity) -> Heard | None:
    """A message as an event brings it, or as `conversations.history` does, which names no channel."""
    ts = word(message, "ts")
    if word(message, "subtype") not in SAID or position_of(ts) is None:
        return None
    return _heard(message, chat, me, event_id=ts, position=position_of(ts), files=parts(message, "files"))


def _changed(event: Json, chat: str, me: SlackIdentity) -> Heard | None:
    message, before = part(event, "message"), part(event, "previous_message")
    ts, edited = word(message, "ts"), word(part(message, "edited"), "ts")
    if word(message, "subtype") == "tombstone":  # the first message of a thread, deleted while replies remain
        return _deleted(before, ts, chat, me)
    if not edited or edited == word(part(before, "edited"), "ts") or word(message, "subtype") not in SAID:
        return None
    return _heard(message, chat, me, event_id=f"{ts}.edit.{edited}", change=MessageChange.EDITED, of=ts)


def _deleted(before: Json, ts: str, chat: str, me: SlackIdentity) -> Heard | None:
    gone = {key: value for key, value in before.items() if key != "text"}
    return _heard(gone, chat, me, event_id=f"{ts}.delete", change=MessageChange.DELETED, of=ts) if ts else None


def _heard(
    message: Json,
    chat: str,
    me: SlackIdentity,
    *,
    event_id: str,
    change: MessageChange = MessageChange.NEW,
    of: str = "",
    position: int | None = None,
    files: tuple[Json, ...] = (),
) -> Heard | None:
    user, bot = word(message, "user"), word(message, "bot_id")
    is_ours = user == me.user or (bot != "" and bot == me.bot)
    if not chat or not (user or bot) or is_ours:
        return None
    ts, thread, raw = word(message, "ts"), word(message, "thread_ts"), word(message, "text")
    chat_type = "dm" if chat.startswith("D") else "group"
    return Heard(
        event_id=event_id,
        chat=chat,
        chat_type=chat_type,
        thread=thread if thread and thread != ts else None,
        user=user or bot,
        name=word(message, "username") or word(part(message, "bot_profile"), "name"),
        raw=raw,
        addressed=chat_type == "dm" or me.user in mentioned(raw),
        human=not bot and word(message, "subtype") != "bot_message",
        change=change,
        of=of,
        files=files,
        position=position,
    )


def word(value: Json, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def part(value: Json, key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def parts(value: Json, key: str) -> tuple[Json, ...]:
    found = value.get(key)
    return tuple(item for item in found if isinstance(item, Mapping)) if isinstance(found, list) else ()


def position_of(ts: str) -> int | None:
    """A time stamp of Slack in microseconds; None for what is none."""
    seconds, _, micros = ts.partition(".")
    if not (seconds.isascii() and seconds.isdigit()) or not (micros or "0").isascii() or len(micros) > 6:
        return None
    return int(seconds) * MICROS + int(micros.ljust(6, "0")) if (micros or "0").isdigit() else None


def ts_of(position: int) -> str:
    return f"{position // MICROS}.{position % MICROS:06d}"
