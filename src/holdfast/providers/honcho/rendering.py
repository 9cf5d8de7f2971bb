"""How a parcel of turns is written for Honcho: one message per line said, each with an id of ours in its metadata.

Rule 1: the same parcel is rendered the same for every attempt, so its ids name the same words for ever. A change here
        is a new `RENDERER` (D19).
Rule 2: Honcho has no idempotency key, so `turn_id` is the only way to find out what has landed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.inbox.address import Address
from holdfast.kernel.ids import AgentName, Instant
from holdfast.memory.delivery import Line, Parcel, SaidTurn
from holdfast.providers.honcho.naming import HonchoNames, chat_of
from holdfast.providers.honcho.words import parts, said

RENDERER = "honcho/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message to send."""

    turn_id: str
    peer: str
    text: str
    at: Instant
    metadata: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Load:
    """A parcel and its messages."""

    parcel: Parcel
    messages: tuple[Said, ...]

    @property
    def turn_ids(self) -> tuple[str, ...]:
        return tuple(message.turn_id for message in self.messages)


@dataclass(frozen=True, slots=True)
class Piece:
    """A line said, or a part of one that is too long for a message."""

    turn: SaidTurn
    line: Line
    text: str
    number: int
    count: int


def render(parcel: Parcel, names: HonchoNames) -> Load:
    """A line without any text has nothing to keep, so it makes no message."""
    lines = [(turn, line) for turn in parcel.turns for line in turn.lines if line.text]
    pieces = [piece for turn, line in lines for piece in _pieces(turn, line)]
    return Load(parcel, tuple(_message(parcel, names, index, piece) for index, piece in enumerate(pieces)))


def _pieces(turn: SaidTurn, line: Line) -> list[Piece]:
    texts = parts(said(line.text))
    return [Piece(turn, line, text, number, len(texts)) for number, text in enumerate(texts, start=1)]


def _message(parcel: Parcel, names: HonchoNames, index: int, piece: Piece) -> Said:
    line, turn_id = piece.line, f"{parcel.id}.{index}"
    metadata = {
        **_provenance(parcel),
        "turn_id": turn_id,
        "turn": piece.turn.n,
        "seq": line.seq,
        "role": line.role,
        "speaker": line.speaker,
        "message": line.message,
        **({"part": piece.number, "parts": piece.count} if piece.count > 1 else {}),
    }
    return Said(
        turn_id=turn_id,
        peer=_peer(parcel.naming.agent, line, names),
        text=piece.text,
        at=line.at,
        metadata={key: said(value) if isinstance(value, str) else value for key, value in metadata.items()},
    )


def _peer(agent: AgentName, line: Line, names: HonchoNames) -> str:
    """Whoever answers in an agent's session is that agent."""
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
