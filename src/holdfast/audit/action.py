"""Privileged acts: the actor, the act, its time, subject, origin and outcome.

Rule 1: an action is a row of the audit trail, written in the transaction of the act itself, so neither exists without
        the other. A repeated call that changes nothing adds no row.
Rule 2: an action contains ids, counts and codes, never a secret or message text. So a forget request leaves the trail
        unchanged: the trail keeps the person's id, as the record of the request does.
Rule 3: every action has a digest over itself and the digest of the action before it, which reveals rows that were
        changed, removed or inserted by hand (`broken_link`).

A new kind of act is one line of `Act`; CONTRIBUTING.md describes how its row is written.

Limit of the digests: a user who can write the database can recompute all of them. To exclude that, an operator keeps
the newest digest (`holdfast audit actions --verify`) on another machine.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import Instant

TEXT_CHARS_MAX = 300  # of a subject, a label or an origin
REFUSALS_MAX = 20  # refused attempts of one actor that get a row each, per hour
HOUR_MS = 3_600_000
NO_DIGEST = b"\0" * 32  # before the first action
# The columns of an action, in the order that its digest covers.
COLUMNS = ("n", "at", "verb", "actor_kind", "actor", "label", "origin", "subject", "outcome", "code", "count", "detail")


class ActorKind(Enum):
    OPERATOR = "operator"  # the operator's token, from HOLDFAST_TOKEN or the data folder
    TOKEN = "token"  # noqa: S105 - an access token
    PRINCIPAL = "principal"  # a sender in a chat
    USER = "user"  # a user of this machine, on the command line
    PROGRAM = "program"  # a Python program that holds the runtime
    SYSTEM = "system"  # Holdfast itself, or a platform
    ANONYMOUS = "anonymous"  # an HTTP client without a valid token


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """The actor. `origin` is an HTTP client, a command-line process or a chat."""

    kind: ActorKind
    id: str
    label: str = ""
    origin: str = ""


PROGRAM = By(kind=ActorKind.PROGRAM, id="program")
ANONYMOUS = By(kind=ActorKind.ANONYMOUS, id="anonymous")


class Act(Enum):
    """Every privileged act: its stored name and its meaning. A stored name never changes."""

    def __init__(self, stored: str, what: str) -> None:
        self.stored = stored
        self.what = what

    TOKEN_CREATED = ("token.created", "an access token was made")
    TOKEN_REVOKED = ("token.revoked", "an access token was revoked")
    LOGIN = ("login", "a browser was given a login")
    LOGOUT = ("logout", "a browser's login was ended")
    LOGINS_ENDED = ("logins.ended", "an operator ended logins of browsers")
    ACCESS_ADMITTED = ("access.admitted", "a sender was let in")
    ACCESS_DENIED = ("access.denied", "a sender was refused")
    ACCESS_WITHDRAWN = ("access.withdrawn", "a decision about a sender was taken back")
    IDENTITY_LINKED = ("identity.linked", "an account was linked to a person")
    IDENTITY_UNLINKED = ("identity.unlinked", "a link was taken back")
    ADDRESS_MOVED = ("address.moved", "a new address was made to lead to a conversation")
    APPROVAL_DECIDED = ("approval.decided", "a tool call was approved or denied")
    SESSION_DELETED = ("session.deleted", "the words of a session were deleted")
    SESSION_UNDONE = ("session.undone", "turns of a session were undone")
    SESSION_SWITCHED = ("session.switched", "the session of a group, or of a chat with several senders, was changed")
    TURN_STOPPED = ("turn.stopped", "somebody stopped a turn that is not their own")
    SESSION_FORGOTTEN = ("session.forgotten", "a session was forgotten, here and at every memory provider")
    PERSON_FORGOTTEN = ("person.forgotten", "a person was forgotten, here and at every memory provider")
    AGENT_PAUSED = ("agent.paused", "an agent was paused: it begins no turn")
    AGENT_RESUMED = ("agent.resumed", "a paused agent was resumed")
    MEMORY_CHANGED = ("memory.changed", "an operator changed the notes of a person or a chat")
    MEMORY_SHARED = ("memory.shared", "an operator changed the notes that everybody is shown")
    DELIVERY_REPLAYED = ("delivery.replayed", "a parked delivery was put back on its lane")
    REPLY_RESENT = ("reply.resent", "a reply was sent once more")
    DELIVERY_DROPPED = ("delivery.dropped", "a delivery was given up")
    DELIVERY_SETTLED = ("delivery.settled", "a person said that a delivery in doubt did arrive")
    REPLY_DROPPED = ("reply.dropped", "a reply was given up")
    REPLY_SETTLED = ("reply.settled", "a person said that an uncertain reply did arrive")
    MESSAGE_DROPPED = ("message.dropped", "a waiting message was given up before its turn")
    FINALISATION_RETRIED = ("finalisation.retried", "a failed extraction was taken up again")
    PROVIDER_BACKFILLED = ("provider.backfilled", "a provider was sent what was said before it was configured")
    PROVIDER_REBUILT = ("provider.rebuilt", "a provider's index was filled again from the journal")
    PROVIDER_MIGRATED = ("provider.migrated", "memory files were handed to a provider")
    HISTORY_IMPORTED = ("history.imported", "the history of another program was imported")
    DATA_ENCRYPTED = ("data.encrypted", "the data folder was encrypted")
    DATA_REKEYED = ("data.rekeyed", "the data folder was encrypted with another key")
    DATA_DECRYPTED = ("data.decrypted", "the data folder was written without encryption")
    DATA_RESTORED = ("data.restored", "a backup was restored into an empty data folder")
    SESSIONS_IMPORTED = ("sessions.imported", "sessions and notes of an export were imported")
    STORE_REPAIRED = ("store.repaired", "`holdfast doctor` repaired contradictions in the store")
    CONFIG_CHANGED = ("config.changed", "other settings came into force, at the start of a process or by a reload")


BY_NAME: Mapping[str, Act] = {act.stored: act for act in Act}
# Acts that a program may perform too, because they decide and delete nothing.
FOR_PROGRAMS = frozenset(
    {
        *(Act.LOGIN, Act.LOGOUT, Act.DELIVERY_REPLAYED, Act.REPLY_RESENT, Act.FINALISATION_RETRIED),
        *(Act.AGENT_PAUSED, Act.AGENT_RESUMED),
    }
)


class ActionOutcome(Enum):
    DONE = "done"
    REFUSED = "refused"


def act_named(text: str | None) -> Act | None:
    """The act of that name. Raises `InvalidInput` for an unknown one."""
    if text is None:
        return None
    if text not in BY_NAME:
        raise InvalidInput(f"verb = {text[:60]!r}: it is one of {', '.join(BY_NAME)}", verb=text[:60])
    return BY_NAME[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A row of the audit trail. For a refused act, `count` is the attempt's number within the hour."""

    n: int
    at: Instant
    verb: str  # of `Act`, or of a later release
    by: By
    subject: str
    outcome: ActionOutcome
    code: str = ""
    count: int = 1
    detail: Mapping[str, object] = field(default_factory=dict)
    digest: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """A filter for actions; unset fields match every action."""

    actor: str = ""
    act: Act | None = None
    subject: str = ""
    since: Instant = Instant(0)


def short(text: str, limit: int = TEXT_CHARS_MAX) -> str:
    """Text for the trail: one line of printable characters, truncated to the limit."""
    seen = "".join(char if char.isprintable() else "?" for char in text[: limit + 1])
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def has_row(count: int) -> bool:
    """Whether the nth refused attempt within an hour gets a row: the first ones do, then every doubling."""
    return count <= REFUSALS_MAX or count & (count - 1) == 0


def columns_of(action: Action) -> dict[str, str | int]:
    """The row of an action without its digest. The detail is encoded deterministically, for the digest."""
    by, detail = action.by, msgspec.json.encode(action.detail, order="sorted").decode()
    told: list[str | int] = [action.n, action.at, action.verb, by.kind.value, by.id, by.label, by.origin]
    told += [action.subject, action.outcome.value, action.code, action.count, detail]
    return dict(zip(COLUMNS, told, strict=True))


def digest_of(action: Action, before: bytes) -> bytes:
    return hashlib.sha256(before + msgspec.json.encode(list(columns_of(action).values()))).digest()


def broken_link(actions: Iterable[Action], *, n: int = 0, digest: bytes = NO_DIGEST) -> str | None:
    """The first fault in consecutive actions, oldest first, that follow the given number and digest; None if valid."""
    for action in actions:
        if action.n != n + 1:
            return f"action {n + 1} is missing"
        if action.digest != digest_of(action, digest):
            return f"action {action.n} was changed, or one before it"
        n, digest = action.n, action.digest
    return None


EVERY_ACTION = ActionFilter()
