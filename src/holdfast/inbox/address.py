"""Addresses: the place of a conversation, as one string that is unique to it.

`agent:<agent>:<channel>:<type>:<chat>[:<thread>][:<user>]`, each part percent-escaped, so that the chat
`a:b` is never the chat `a` with a thread `b`. A missing thread before a user is written as an empty part.
There is one spelling per address: `parse` refuses every other one, and `parse(str(a)) == a`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote

from holdfast.kernel.errors import InvalidAddress, InvalidName
from holdfast.kernel.ids import AgentName

PART_CHARS_MAX = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)", re.IGNORECASE)  # reserved on Windows
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_PARTS_MIN, _PARTS_MAX = 5, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    agent: AgentName
    channel: str
    type: str
    chat: str
    thread: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        agent_name(self.agent)
        agent_name(self.channel, what="channel")
        agent_name(self.type, what="chat type")
        for what, part in (("chat", self.chat), ("thread", self.thread), ("user", self.user)):
            if part is not None:
                check_part(what, part)

    def __str__(self) -> str:
        parts = ["agent", self.agent, self.channel, self.type, quote(self.chat, safe="")]
        if self.thread is not None or self.user is not None:
            parts.append(quote(self.thread or "", safe=""))
        if self.user is not None:
            parts.append(quote(self.user, safe=""))
        return ":".join(parts)


def parse(text: str) -> Address:
    """Parse an address. Raises `InvalidAddress` for every spelling but the canonical one."""
    parts = text.split(":")
    if parts[0] != "agent" or not _PARTS_MIN <= len(parts) <= _PARTS_MAX:
        raise InvalidAddress(f"{text!r} is not an address", address=text)
    try:
        agent, channel, kind, chat, *rest = (unquote(part, errors="strict") for part in parts[1:])
        address = Address(
            agent=AgentName(agent),
            channel=channel,
            type=kind,
            chat=chat,
            thread=(rest[0] or None) if rest else None,
            user=rest[1] if len(rest) > 1 else None,
        )
    except (UnicodeDecodeError, InvalidName) as error:
        raise InvalidAddress(f"{text!r} is not an address: {error}", address=text) from error
    if str(address) != text:
        raise InvalidAddress(f"{text!r} is not the canonical spelling; write {address}", address=text)
    return address


def agent_name(text: str, *, what: str = "agent") -> AgentName:
    """Check a name. Raises `InvalidName`. A name may become a folder, so it must be valid on every system."""
    if not is_name(text):
        why = ": Windows reads it as another" if _NAME.match(text) else ""
        raise InvalidName(f"{text[:80]!r} is not a valid {what} name{why}", value=text[:80])
    return AgentName(text)


@lru_cache(maxsize=4_096)  # each message looks up the same few names several times
def is_name(text: str) -> bool:
    return bool(_NAME.match(text)) and not text.endswith(".") and not _DEVICES.match(text)


def check_part(what: str, text: str) -> str:
    """Check a free-form identifier from outside: unchanged, but never empty, oversized or unprintable."""
    if not text or len(text) > PART_CHARS_MAX:
        raise InvalidName(f"the {what} must have 1 to {PART_CHARS_MAX} characters, not {len(text)}", what=what)
    if _UNPRINTABLE.search(text):
        raise InvalidName(f"the {what} {text[:80]!r} has a control character or a lone surrogate", what=what)
    return text


def sender_of_chat(chat: str) -> str:
    """The sender of a chat whose messages name none: one person per chat.

    A `:` is escaped, so that no chat has the name of a platform account (`telegram:42`).
    """
    name = chat.replace("%", "%25").replace(":", "%3A")
    if len(name) <= PART_CHARS_MAX:
        return name
    return f"{name[: PART_CHARS_MAX // 2]}%{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
