"""Translates an event of Slack into a `ChatMessage`, and text into Slack's markup and back. Pure: the reader looks up
names and files afterwards.

Rule 1: a message's id is its `ts`, which is unique in its channel. The `app_mention` and `message` events of one `ts`
        are one message with the same text.
Rule 2: a message that starts a thread belongs to its channel; only the replies belong to the thread. A message
        therefore reads the same before and after its first reply.
Rule 3: a sender is identified by our own team and their user id, never by a name. The bot's own messages are skipped.
Rule 4: link previews and reply counts arrive as changes, too; only a change by the author is an edit.
Rule 5: Slack escapes `&`, `<` and `>` in user input, so a bare `<...>` is always Slack's own markup. Outgoing text is
        escaped completely, so a model's text can never mention, link or call @channel by accident.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.inbox.chat_message import ChatMessage, MessageChange

Json: TypeAlias = Mapping[str, Any]  # untrusted: every value is checked before it is used

TEXT_SUBTYPES = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})
MICROS = 1_000_000
_MARK = re.compile(r"<([^<>]*)>")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>")
MENTIONS_MAX = 20  # users whose names are looked up; further ones are shown as ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackIdentity:
    """The bot's own identity, from `auth.test`."""

    team: str
    user: str
    bot: str
    name: str

    @property
    def account(self) -> str:
        return f"slack:{self.team}.{self.user}"


def read_event(event: Json, me: SlackIdentity) -> ChatMessage | None:
    """The event, with its text in Slack's markup and without names and files. None if an agent cannot read it: a join,
    a topic, a preview, or the bot's own message."""
    if event.get("type") not in ("message", "app_mention"):
        return None
    chat, subtype = string(event, "channel"), string(event, "subtype")
    if subtype == "message_changed":
        return _changed(event, chat, me)
    if subtype == "message_deleted":
        return _deleted(mapping(event, "previous_message"), string(event, "deleted_ts"), chat, me)
    return read_message(event, chat, me)


def read_message(message: Json, chat: str, me: SlackIdentity) -> ChatMessage | None:
    """A new message from an event or from `conversations.history`, which does not name the channel."""
    ts = string(message, "ts")
    if string(message, "subtype") not in TEXT_SUBTYPES or position_of(ts) is None:
        return None
    return _translated(message, chat, me, event_id=ts, position=position_of(ts))


def _changed(event: Json, chat: str, me: SlackIdentity) -> ChatMessage | None:
    message, before = mapping(event, "message"), mapping(event, "previous_message")
    ts, edited = string(message, "ts"), string(mapping(message, "edited"), "ts")
    if string(message, "subtype") == "tombstone":  # the first message of a thread was deleted, and its replies remain
        return _deleted(before, ts, chat, me)
    if (
        not edited
        or edited == string(mapping(before, "edited"), "ts")
        or string(message, "subtype") not in TEXT_SUBTYPES
    ):
        return None
    return _translated(message, chat, me, event_id=f"{ts}.edit.{edited}", change=MessageChange.EDITED, of=ts)


def _deleted(before: Json, ts: str, chat: str, me: SlackIdentity) -> ChatMessage | None:
    gone = {key: value for key, value in before.items() if key != "text"}
    return _translated(gone, chat, me, event_id=f"{ts}.delete", change=MessageChange.DELETED, of=ts) if ts else None


def _translated(
    message: Json,
    chat: str,
    me: SlackIdentity,
    *,
    event_id: str,
    change: MessageChange = MessageChange.NEW,
    of: str = "",
    position: int | None = None,
) -> ChatMessage | None:
    user, bot = string(message, "user"), string(message, "bot_id")
    is_ours = user == me.user or (bot != "" and bot == me.bot)
    if not chat or not (user or bot) or is_ours:
        return None
    ts, thread, text = string(message, "ts"), string(message, "thread_ts"), string(message, "text")
    is_private = chat.startswith("D")
    return ChatMessage(
        account=me.account,
        event_id=event_id,
        chat=chat,
        chat_type="dm" if is_private else "group",
        thread=thread if thread and thread != ts else None,
        sender=f"{me.team}.{user or bot}",
        sender_name=string(message, "username") or string(mapping(message, "bot_profile"), "name"),
        text=text,
        addressed=is_private or me.user in mentioned(text),
        human=not bot and string(message, "subtype") != "bot_message",
        change=change,
        of=of,
        position=position,
    )


def user_of(message: ChatMessage) -> str:
    """The sender's id without the team."""
    return message.sender.partition(".")[2]


def string(value: Json, key: str) -> str:
    """A string of a JSON object; empty if it is missing or of another type."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def mapping(value: Json, key: str) -> Json:
    """An object inside a JSON object; empty if it is missing or of another type."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def mappings(value: Json, key: str) -> tuple[Json, ...]:
    """The objects of a list inside a JSON object."""
    found = value.get(key)
    return tuple(item for item in found if isinstance(item, Mapping)) if isinstance(found, list) else ()


def position_of(ts: str) -> int | None:
    """A timestamp of Slack in microseconds; None if it is malformed."""
    seconds, _, micros = ts.partition(".")
    if not (seconds.isascii() and seconds.isdigit()) or not (micros or "0").isascii() or len(micros) > 6:
        return None
    return int(seconds) * MICROS + int(micros.ljust(6, "0")) if (micros or "0").isdigit() else None


def ts_of(position: int) -> str:
    return f"{position // MICROS}.{position % MICROS:06d}"


# --- Slack's markup -------------------------------------------------------------------------------


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escaped_length(text: str) -> int:
    """The length as Slack counts it: an ampersand counts five."""
    return len(escape(text))


def mentioned(raw: str) -> tuple[str, ...]:
    """The ids of the users that the text mentions, each once, in order."""
    return tuple(dict.fromkeys(_MENTION.findall(raw)))


def without_mention(raw: str, bot: str) -> str:
    """The text without a mention of the bot at its beginning."""
    found = _MENTION.match(raw.lstrip())
    if found is None or found[1] != bot:
        return raw
    return raw.lstrip()[found.end() :].lstrip(" \t,:")


def readable(raw: str, names: Mapping[str, str]) -> str:
    """The text as Slack displays it. `names` maps the mentioned users' ids to their names, where known."""
    shown = []
    end = 0
    for mark in _MARK.finditer(raw):
        shown += [unescape(raw[end : mark.start()]), _shown(mark[1], names)]
        end = mark.end()
    return "".join([*shown, unescape(raw[end:])])


def _shown(mark: str, names: Mapping[str, str]) -> str:
    target, _, label = (unescape(part) for part in mark.partition("|"))
    match target[:1]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return _special(target[1:], label)
        case _:
            return _link(target, label)


def _special(target: str, label: str) -> str:
    """<!here>, <!subteam^S1|@group>, <!date^1700000000^{date}|14 Nov 2023>."""
    word, _, rest = target.partition("^")
    if label:
        return label
    return f"@{rest or word}" if word == "subteam" else f"@{word}"


def _link(target: str, label: str) -> str:
    address = target.removeprefix("mailto:")
    return address if not label or address.endswith(label) else f"{label} ({address})"
