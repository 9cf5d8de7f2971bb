"""Command rights: the senders who may give each command (D46). The store calls `judge` in the command's transaction.

Rule 1: a program gives no command that changes, loses or decides anything, in any chat and under any name.
Rule 2: in a private chat its own person may give every command. A chat over HTTP is private while only one sender has
        spoken in it; a platform vouches for its own private chats.
Rule 3: in a group, a command that changes the session for all members needs an admin of the group, as reported by the
        platform, or a named operator. A person may also undo, retry and stop turns that are all their own, and decide a
        tool call that they requested. A chat over HTTP with several senders has no admins.
Rule 4: if approvers are named, only they and the operators decide.
Rule 5: a rank is determined when the message arrives. It is stored with the message, so a crash does not change the
        decision. A rank that the platform could not report counts as none.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.memory.visibility import is_group
from holdfast.outbox.post import PULLED
from holdfast.sessions.command import CommandVerb, parse_command

WORD_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # no 0 and O, no 1, I and L
WORD_CHARS = 4
UNASKED = " The platform could not be asked whether you are an admin; if you are, try again in a moment."
_PARTS_WITH_USER = 7


class Rank(Enum):
    """The platform's or token's statement about a sender's role."""

    MEMBER = "member"  # no special role
    ADMIN = "admin"  # an admin of the group, according to the platform
    OPERATOR = "operator"  # the message carried the operator's token, or one with the scope admin
    UNKNOWN = "unknown"  # the platform did not answer the request


class CommandPlace(Enum):
    PRIVATE = "private"  # a chat of one person
    GROUP = "group"
    SHARED = "shared"  # a chat over HTTP with several senders


class Needs(Enum):
    """The requirement of a command on its sender."""

    NOTHING = "nothing"
    PERSON = "a person"
    CHAT = "the chat"
    TURNS = "the turns"
    CALL = "the call"


NEEDS: Mapping[CommandVerb, Needs] = {
    CommandVerb.HELP: Needs.NOTHING,
    CommandVerb.STATUS: Needs.NOTHING,
    CommandVerb.TITLE: Needs.PERSON,  # it loses nothing
    CommandVerb.COMPRESS: Needs.PERSON,  # it loses nothing
    CommandVerb.NEW: Needs.CHAT,
    CommandVerb.RESUME: Needs.CHAT,
    CommandVerb.BRANCH: Needs.CHAT,
    CommandVerb.DELETE: Needs.CHAT,
    CommandVerb.UNDO: Needs.TURNS,
    CommandVerb.RETRY: Needs.TURNS,
    CommandVerb.STOP: Needs.TURNS,
    CommandVerb.APPROVE: Needs.CALL,
    CommandVerb.DENY: Needs.CALL,
}
OWN: Mapping[Needs, str] = {
    Needs.TURNS: "the person whose turns they all are",
    Needs.CALL: "the person who asked for the call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The sender of a command, and the kind of chat."""

    human: bool
    place: CommandPlace
    rank: Rank = Rank.MEMBER
    is_named: bool = False  # listed in `access.operators`; linked accounts count

    @property
    def is_operator(self) -> bool:
        return self.is_named or self.rank is Rank.OPERATOR

    @property
    def is_admin(self) -> bool:
        return self.place is CommandPlace.GROUP and self.rank is Rank.ADMIN


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """A refused command: a code for the audit trail, and the text for the chat."""

    code: str
    text: str


def judge(
    verb: CommandVerb, speaker: Speaker, *, owns: bool = False, is_approver: bool | None = None
) -> NotAllowed | None:
    """Whether the command is allowed: None if it is, otherwise the refusal.

    `owns` is true if every turn, or the call, is the speaker's own. `is_approver` is None if no approvers are named.
    """
    needs = NEEDS[verb]
    if needs is Needs.NOTHING:
        return None
    if not speaker.human:
        return NotAllowed("robot", f"/{verb.value} is for people: a program may not give it. Nothing was changed.")
    if needs is Needs.PERSON or speaker.is_operator:
        return None
    if needs is Needs.CALL and is_approver is not None:
        text = f"Only a named approver or an operator may give /{verb.value} here. Nothing was changed."
        return None if is_approver else NotAllowed("not_yours", text)
    if speaker.place is CommandPlace.PRIVATE or speaker.is_admin or (owns and needs in OWN):
        return None
    return NotAllowed("not_yours", _text(verb, speaker))


def asks_rank(text: str, address: str, *, human: bool) -> bool:
    """Whether the platform must be asked for the sender's rank: only for a command that may depend on it."""
    command = parse_command(text) if human else None
    is_guarded = command is not None and NEEDS[command.verb] not in {Needs.NOTHING, Needs.PERSON}
    return is_guarded and place_of(address, several=False) is CommandPlace.GROUP


def place_of(address: str, *, several: bool) -> CommandPlace:
    """The kind of a chat; `several` is true if a sender other than the speaker spoke in it.

    A person with their own session in a group is alone in that session.
    """
    parts = address.split(":")
    if is_group(address):
        return CommandPlace.PRIVATE if len(parts) >= _PARTS_WITH_USER else CommandPlace.GROUP
    return CommandPlace.SHARED if several and is_over_http(address) else CommandPlace.PRIVATE


def is_over_http(address: str) -> bool:
    """Whether the holder of a token names the senders, instead of a platform."""
    return address.split(":")[2:3] != [] and address.split(":")[2] in PULLED


def _text(verb: CommandVerb, speaker: Speaker) -> str:
    own = OWN.get(NEEDS[verb])
    if speaker.place is CommandPlace.SHARED:
        who = f"{own} or an operator" if own else "an operator"
        return f"Only {who} may give /{verb.value} here, where several people talk. Nothing was changed."
    who = f"{own}, an admin of this group or an operator" if own else "an admin of this group or an operator"
    is_unasked = speaker.rank is Rank.UNKNOWN
    return f"Only {who} may give /{verb.value} here. Nothing was changed.{UNASKED if is_unasked else ''}"


# --- /delete asks once more ------------------------------------------------------------------------------------------


def delete_word(session: str, seq: int, person: str) -> str:
    """The word that confirms `/delete`. It is not stored.

    It is valid only for this person, in this session, and until the next entry.
    """
    chance = int.from_bytes(hashlib.sha256("\n".join((session, str(seq), person)).encode()).digest(), "big")
    digits = []
    for _ in range(WORD_CHARS):
        chance, digit = divmod(chance, len(WORD_ALPHABET))
        digits.append(WORD_ALPHABET[digit])
    return "".join(digits)


def typed_word(argument: str) -> str:
    """The word in canonical form; the input may differ in case or carry quotation marks."""
    return argument.strip().strip("`'\"<>").upper()
