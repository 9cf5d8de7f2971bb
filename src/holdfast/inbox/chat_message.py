"""A platform's message in the terms that all platforms share, and the address, sender and text that are stored of it.

Each channel translates its own events into `ChatMessage`.

Rule 1: an address is written like Hermes' session key wherever that is unambiguous, so that people can migrate. Parts
        are escaped, and a user without a thread keeps the thread's empty part, so that no two places share a key.
Rule 2: a private chat is one address for all its members. A thread follows the sharing rule for threads, a group
        without a thread the rule for groups.
Rule 3: edits and deletions become sentences about a message, never commands. The text names each attachment with its
        size and hash, because a model sees nothing else of it.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.access import DM
from holdfast.inbox.address import Address, agent_name, check_part
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, Principal
from holdfast.turns.policy import GroupPolicy, Sharing

ATTACHMENT_BYTES_MAX = 20 * 1024 * 1024
ATTACHMENTS_MAX = 10
NAME_CHARS_MAX = 120
HASH_CHARS_SHOWN = 16
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\[\]]+")


class MessageChange(Enum):
    """The kind of event. An edit or a deletion is an event of its own and is journaled without a turn."""

    NEW = "new"
    EDITED = "edited"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message. A file that was too large or could not be fetched has no body."""

    name: str
    media_type: str
    size: int  # in bytes
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One event of a platform. Ids are the platform's own and never change."""

    account: str  # the bot's identity on the platform, e.g. telegram:12345
    event_id: str  # unique in the conversation; an edit's id differs from that of the edited message
    chat: str
    chat_type: str = "dm"  # dm, group, channel: Hermes' words where it has them
    thread: str | None = None
    sender: str  # the sender's immutable id on the platform
    sender_name: str = ""  # as displayed; never used for access decisions
    text: str = ""  # or the caption of an attachment
    addressed: bool = True  # meant for this bot: a private chat, a mention, or a reply to the bot
    human: bool = True
    change: MessageChange = MessageChange.NEW
    of: str = ""  # the event id of the edited or deleted message
    attachments: tuple[Attachment, ...] = ()
    position: int | None = None  # increases within the conversation; set where messages can be missed

    @property
    def conversation(self) -> str:
        return conversation_of(self.chat, self.thread)


def conversation_of(chat: str, thread: str | None = None) -> str:
    """The scope in which event ids are unique and read positions are kept: <chat> or <chat>/<thread>."""
    return chat if thread is None else f"{chat}/{thread}"


def place_of(agent: AgentName, channel: str, message: ChatMessage, policy: GroupPolicy) -> Address:
    """The address whose mailbox takes the message. Raises `InvalidName` for malformed ids."""
    user = None
    if message.chat_type != DM:
        sharing = policy.threads if message.thread is not None else policy.groups
        user = message.sender if sharing is Sharing.PER_USER else None
    return Address(
        agent=agent, channel=channel, type=message.chat_type, chat=message.chat, thread=message.thread, user=user
    )


def principal_of(channel: str, sender: str) -> Principal:
    """The sender's principal. A channel's name has no colon, so no two senders share a principal."""
    return Principal(f"{agent_name(channel, what='channel')}:{check_part('sender', sender)}")


def is_answered(message: ChatMessage, policy: GroupPolicy, *, addressed: bool) -> bool:
    """Whether a message gets a turn. One that does not is observed if the policy says so, else ignored (D12)."""
    return addressed or message.chat_type == DM or not policy.mention_only


def text_of(
    change: str, text: str, *, of: str = "", attachments: Iterable[Attachment] = (), notes: Iterable[str] = ()
) -> str:
    """The text to journal for a new, edited or deleted message. Empty when there is nothing to read."""
    named = [*(_named(one) for one in attachments), *(f"[{note}]" for note in notes)]
    match change:
        case "edited":
            return "\n".join([f"[message {plain_name(of)} was edited and now reads:]", text, *named])
        case "deleted":
            return f"[message {plain_name(of)} was deleted]"
        case _:
            return "\n".join([*([text] if text.strip() else []), *named])


def hash_of(body: bytes) -> str:
    """The key of a stored attachment: SHA-256 in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def attachment_hash(text: str) -> str:
    """Check a hash that a person typed. Raises `InvalidInput`."""
    if not _HASH.fullmatch(text):
        raise InvalidInput("an attachment's hash is its whole SHA-256: 64 hexadecimal digits in lower case")
    return text


def _named(one: Attachment) -> str:
    what = (
        f"{plain_name(one.name) or 'without a name'}, {plain_name(one.media_type) or 'unknown type'}, {one.size} bytes"
    )
    if one.body is None:
        return f"[attached, not kept: {what}]"
    return f"[attached: {what}, sha256 {hash_of(one.body)[:HASH_CHARS_SHOWN]}]"


def plain_name(text: str) -> str:
    """An untrusted name on one line, without brackets, so that it cannot close the brackets around it."""
    return _UNSAFE.sub(" ", text).strip()[:NAME_CHARS_MAX]
