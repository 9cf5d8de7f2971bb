"""Turns as messages that Honcho accepts: one message per line, each with an id of ours in its metadata.

Rule 1: every attempt renders a parcel the same way, so an id always names the same text. A change here needs a new
        `RENDERER` (D19).
Rule 2: Honcho has no idempotency key. The metadata field `turn_id` is the only way to find out what has landed.
Rule 3: a text that Honcho refuses is escaped before it is sent, so one bad turn never fails its batch. Special tokens
        of the tokeniser get one backslash more, `<\\|endoftext|>`, and `decode_text` removes it again. Lone surrogates
        and NUL cannot be stored; they become U+FFFD and U+2400.
Rule 4: no text is truncated. A long line becomes several messages, in order, each within the limit.
"""

import re
from datetime import UTC, datetime

from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]

from holdfast.inbox.address import Address
from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import Parcel, SpokenLine
from holdfast.providers.honcho.naming import HonchoNames, chat_of

RENDERER = "honcho/1"
MESSAGE_CHARS_MAX = 25_000  # Honcho's MAX_MESSAGE_SIZE; it answers 25,001 with 422
CONCLUSION_CHARS_MAX = 65_535
QUERY_CHARS_MAX = 2_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"<(\\*)\|(\w+)\|>", re.ASCII)
_ESCAPED = re.compile(r"<(\\*)\\\|(\w+)\|>", re.ASCII)


def encode_text(text: str) -> str:
    visible = _SURROGATE.sub("\ufffd", text).replace("\0", "\u2400")
    return _SPECIAL.sub(r"<\1\\|\2|>", visible)


def decode_text(text: str) -> str:
    return _ESCAPED.sub(r"<\1|\2|>", text)


def split_text(text: str) -> list[str]:
    """Parts within the limit of a message; a short text is its own only part."""
    return [text[start : start + MESSAGE_CHARS_MAX] for start in range(0, len(text), MESSAGE_CHARS_MAX)] or [""]


def make_message(turn_id: str, peer: str, text: str, at: Instant, **metadata: str | int) -> MessageCreateParams:
    encoded = {key: encode_text(value) if isinstance(value, str) else value for key, value in metadata.items()}
    return MessageCreateParams(
        content=text,
        peer_id=peer,
        metadata={**encoded, "turn_id": turn_id},
        created_at=datetime.fromtimestamp(at / 1000, UTC),
    )


def turn_id_of(message: MessageCreateParams) -> str:
    return str(message.metadata["turn_id"])


def render(parcel: Parcel, names: HonchoNames) -> list[MessageCreateParams]:
    """The messages of a parcel's turns. A line without text makes no message."""
    shared = _provenance(parcel)
    messages: list[MessageCreateParams] = []
    for turn in parcel.turns:
        for line in turn.lines:
            parts = split_text(encode_text(line.text)) if line.text else []
            for number, part in enumerate(parts, start=1):
                metadata = {**shared, "turn": turn.n, "seq": line.seq, "role": line.role, "speaker": line.speaker}
                metadata |= {"message": line.message}
                metadata |= {"part": number, "parts": len(parts)} if len(parts) > 1 else {}
                turn_id = f"{parcel.id}.{len(messages)}"
                messages.append(make_message(turn_id, _peer(parcel, line, names), part, line.at, **metadata))
    return messages


def _peer(parcel: Parcel, line: SpokenLine, names: HonchoNames) -> str:
    agent = parcel.naming.agent
    return names.agent_peer(agent) if line.role == "assistant" else names.person_peer(agent, line.speaker)


def _provenance(parcel: Parcel) -> dict[str, str | int]:
    naming = parcel.naming
    chat = chat_of(naming)
    return {
        "delivery": parcel.id,
        "agent": naming.agent,
        "session": naming.session,
        "parent": naming.parent or "",
        "user": naming.principal,
        "chat": naming.address,
        "platform": chat.channel if isinstance(chat, Address) else "",
    }
