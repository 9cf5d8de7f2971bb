"""Command rights: who may give which command (D46). The store asks `judge` in the transaction of the command.

Rule 1: a program gives no command that changes, loses or decides anything, in no chat, whatever it is named as.
Rule 2: in a private chat its own person may give every command. A chat over HTTP is private while one sender alone has
        spoken in it; a platform vouches for its own private chats.
Rule 3: in a group, what changes the session for everybody needs an admin of the group, as the platform tells it, or a
        named operator. Turns may also be undone, answered again and stopped by the person whose turns they all are, and
        a tool call decided by the person who asked for it. A chat over HTTP with several senders has no admins.
Rule 4: where approvers are named, they and the operators decide, and nobody else.
Rule 5: a rank is what was known when the message came. It is stored with the message, so a decision after a crash is
        the decision before it. A rank that the platform could not be asked for counts as none.
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
    """What is known of a sender beside who they are."""

    MEMBER = "member"  # nothing
    ADMIN = "admin"  # of the group, as the platform tells it
    OPERATOR = "operator"  # the message came with the operator's token, or one with the scope admin
    UNKNOWN = "unknown"  # the platform was asked and gave no answer


class CommandPlace(Enum):
    PRIVATE = "private"  # one person's
    GROUP = "group"
    SHARED = "shared"  # a chat over HTTP in which several senders spoke


class Needs(Enum):
    """What a command asks of the person who gives it."""

    NOTHING = "nothing"
    PERSON = "a person"
    CHAT = "the chat"
    TURNS = "the turns"
    CALL = "the call"


NEEDS: Mapping[CommandVerb, Needs] = {
    CommandVerb.HELP: Needs.NOTHING,
    CommandVerb.STATUS: Needs.NOTHING,
    CommandVerb.TITLE: Needs.PERSON,  # nothing is lost by it
    CommandVerb.COMPRESS: Needs.PERSON,  # nothing is lost by it
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
    """Who gives a command, and where."""

    human: bool
    place: CommandPlace
    rank: Rank = Rank.MEMBER
    is_named: bool = False  # as an operator, in `access.operators`; linked accounts count

    @property
    def is_operator(self) -> bool:
        return self.is_named or self.rank is Rank.OPERATOR

    @property
    def is_admin(self) -> bool:
        return self.place is CommandPlace.GROUP and self.rank is Rank.ADMIN


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """A command that its sender may not give: a code for the audit trail, and what the chat is told."""

    code: str
    text: str


def judge(
    verb: CommandVerb, speaker: Speaker, *, owns: bool = False, is_approver: bool | None = None
) -> NotAllowed | None:
    """None when the command may be given.

    `owns` says that every turn, or the call, is the speaker's own. `is_approver` is None where no approvers are named.
    """
    needs = NEEDS[verb]
    if needs is Needs.NOTHING:
        return None
    if not speaker.human:
        return NotAllowed("robot", f"/{verb.value} is for people: a program may not give it. Nothing was changed.")
    if needs is Needs.PERSON or speaker.is_operator:
        return None
    if needs is Needs.CALL and is_approver is not None:
        return None if is_approver else NotAllowed("not_yours", _approvers_text(verb))
    if speaker.place is CommandPlace.PRIVATE or speaker.is_admin or (owns and needs in OWN):
        return None
    return NotAllowed("not_yours", _text(verb, speaker))


def asks_rank(text: str, address: str, *, human: bool) -> bool:
    """Whether the platform has to be asked for the rank of a sender: only for a command that may depend on it."""
    command = parse_command(text) if human else None
    is_guarded = command is not None and NEEDS[command.verb] not in {Needs.NOTHING, Needs.PERSON}
    return is_guarded and place_of(address, several=False) is CommandPlace.GROUP


def place_of(address: str, *, several: bool) -> CommandPlace:
    """What a chat is; `several` says that somebody beside the speaker spoke in it.

    A person who has a session of their own in a group is alone in it.
    """
    parts = address.split(":")
    if is_group(address):
        return CommandPlace.PRIVATE if len(parts) >= _PARTS_WITH_USER else CommandPlace.GROUP
    return CommandPlace.SHARED if several and is_over_http(address) else CommandPlace.PRIVATE


def is_over_http(address: str) -> bool:
    """Whether senders are named by whoever holds a token, not by a platform."""
    return address.split(":")[2:3] != [] and address.split(":")[2] in PULLED


def _text(verb: CommandVerb, speaker: Speaker) -> str:
    own = OWN.get(NEEDS[verb])
    if speaker.place is CommandPlace.SHARED:
        who = f"{own} or an operator" if own else "an operator"
        return f"Only {who} may give /{verb.value} here, where several people talk. Nothing was changed."
    who = f"{own}, an admin of this group or an operator" if own else "an admin of this group or an operator"
    is_unasked = speaker.rank is Rank.UNKNOWN
    return f"Only {who} may give /{verb.value} here. Nothing was changed.{UNASKED if is_unasked else ''}"


def _approvers_text(verb: CommandVerb) -> str:
    return f"Only a named approver or an operator may give /{verb.value} here. Nothing was changed."


# --- /delete asks once more ------------------------------------------------------------------------------------------


def delete_word(session: str, seq: int, person: str) -> str:
    """What somebody sends to confirm `/delete`. It is void for everybody else, in another session, and once more was
    said; nothing of it is stored."""
    chance = int.from_bytes(hashlib.sha256("\n".join((session, str(seq), person)).encode()).digest(), "big")
    digits = []
    for _ in range(WORD_CHARS):
        chance, digit = divmod(chance, len(WORD_ALPHABET))
        digits.append(WORD_ALPHABET[digit])
    return "".join(digits)


def typed_word(argument: str) -> str:
    """The word that a person meant: in any case, perhaps with quotation marks."""
    return argument.strip().strip("`'\"<>").upper()
