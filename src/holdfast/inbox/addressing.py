"""Arrivals: what a platform's event becomes before it is accepted. Where it belongs, who said it, in which words.

Rule 1: a place is written like Hermes' session key wherever that is sound, so that people can move; parts are escaped,
        and a user without a thread keeps the thread's empty part, so that no two places share a key.
Rule 2: in private the chat is the place, whoever writes. A thread follows the rule for threads, a group without a
        thread that for groups.
Rule 3: edits and deletions are sentences about a message, never commands. What is attached is named in the text with
        its size and hash, because names and sizes are all that a model may rely on.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Protocol

from holdfast.inbox.access import DM
from holdfast.inbox.address import Address, agent_name, check_part
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, Principal
from holdfast.turns.policy import GroupPolicy, Sharing

NAME_CHARS_MAX = 120
HASH_CHARS_SHOWN = 16
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\[\]]+")


class Spoken(Protocol):
    """The facts of an event that say where it belongs; `inbox.channel.ChatMessage` has them."""

    @property
    def chat(self) -> str: ...

    @property
    def chat_type(self) -> str: ...

    @property
    def thread(self) -> str | None: ...

    @property
    def sender(self) -> str: ...


class Enclosed(Protocol):
    """Something attached; `inbox.channel.Attachment` is one."""

    @property
    def name(self) -> str: ...

    @property
    def media_type(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def body(self) -> bytes | None: ...


def place_of(agent: AgentName, channel: str, spoken: Spoken, policy: GroupPolicy) -> Address:
    """The address whose mailbox takes the event. Raises `InvalidName` for ids that no platform gives."""
    user = None
    if spoken.chat_type != DM:
        sharing = policy.threads if spoken.thread is not None else policy.groups
        user = spoken.sender if sharing is Sharing.PER_USER else None
    return Address(
        agent=agent, channel=channel, type=spoken.chat_type, chat=spoken.chat, thread=spoken.thread, user=user
    )


def principal_of(channel: str, sender: str) -> Principal:
    """Who spoke. A channel's name has no colon, so no two senders share a principal."""
    return Principal(f"{agent_name(channel, what='channel')}:{check_part('sender', sender)}")


def is_answered(spoken: Spoken, policy: GroupPolicy, *, addressed: bool) -> bool:
    """Whether an event gets a turn. What does not is observed, where the policy keeps it, or ignored (D12)."""
    return addressed or spoken.chat_type == DM or not policy.mention_only


def text_of(
    change: str, text: str, *, of: str = "", attachments: Iterable[Enclosed] = (), notes: Iterable[str] = ()
) -> str:
    """The words that are journaled for something new, edited or deleted. Empty when there is nothing to read."""
    named = [*(_named(one) for one in attachments), *(f"[{note}]" for note in notes)]
    match change:
        case "edited":
            return "\n".join([f"[message {plain_name(of)} was edited and now reads:]", text, *named])
        case "deleted":
            return f"[message {plain_name(of)} was deleted]"
        case _:
            return "\n".join([*([text] if text.strip() else []), *named])


def hash_of(body: bytes) -> str:
    """How an attachment is kept: SHA-256 in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def attachment_hash(text: str) -> str:
    """A hash as people write it. Raises `InvalidInput`."""
    if not _HASH.fullmatch(text):
        raise InvalidInput("an attachment's hash is its SHA-256, whole: 64 digits and letters from a to f")
    return text


def _named(one: Enclosed) -> str:
    what = (
        f"{plain_name(one.name) or 'without a name'}, {plain_name(one.media_type) or 'unknown type'}, {one.size} bytes"
    )
    if one.body is None:
        return f"[attached, not kept: {what}]"
    return f"[attached: {what}, sha256 {hash_of(one.body)[:HASH_CHARS_SHOWN]}]"


def plain_name(text: str) -> str:
    """A name from outside, on one line and unable to end the brackets that it stands in."""
    return _UNSAFE.sub(" ", text).strip()[:NAME_CHARS_MAX]
