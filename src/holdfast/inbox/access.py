"""Access: who may talk to an agent over a chat platform, and how a stranger requests access (security control 6).

Rule 1: deny by default. The agent's `Door` setting decides about a sender who is neither allowed nor admitted.
Rule 2: a sender is identified by the platform's immutable id. The operator sees the display name; it decides nothing.
Rule 3: a stranger's messages are not stored. The stranger gets a notice, rarely, and only after addressing the agent.
Rule 4: a code grants nothing by itself: an operator confirms it, on the machine or with an operator's token.
"""

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.address import check_part
from holdfast.kernel.errors import AllowlistNotImmutable, InvalidInput, PairingNotFound
from holdfast.kernel.ids import AgentName, Instant, MailboxId, OperationId, Principal, ReplyId
from holdfast.memory.visibility import AGENTS
from holdfast.turns.policy import DAY_MS, AccessPolicy, Door

CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # without the ambiguous 0 1 I L O U
CODE_CHARS = 8
HOUR_MS = 60 * 60_000
NAME_CHARS_MAX = 80
DM = "dm"
_CODE = re.compile(f"[{CODE_ALPHABET}]{{{CODE_CHARS}}}")
_NUMBER = re.compile(r"-?[1-9][0-9]{0,20}")
_IMMUTABLE = {  # the sender ids of known platforms, as pattern and example
    "telegram": (_NUMBER, "a number, as in telegram:123456789"),
    "discord": (_NUMBER, "a number, as in discord:80351110224678912"),
    "slack": (re.compile(r"[TE][A-Z0-9]+\.[A-Z][A-Z0-9]+"), "team and member, as in slack:T024BE7LD.U012AB3CD"),
}
PLATFORMS = frozenset(_IMMUTABLE)
_ANYWHERE = re.compile(r"[^\s@*#]+")
_UNKNOWN = (_ANYWHERE, "the platform's own id, without @, # and blanks")  # for unknown channels


# --- access decision ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Knock:
    """A sender, and the chat in which they wrote."""

    principal: Principal
    channel: str
    chat: str
    chat_type: str = DM
    addressed: bool = True
    human: bool = True


class SenderAccess(Enum):
    """What becomes of a sender's message."""

    ADMIT = "admit"  # the sender has access
    PAIR = "pair"  # no access; the sender gets a notice with a pairing code
    REFUSE = "refuse"  # no access and no answer


def decide(knock: Knock, policy: AccessPolicy, *, admitted: bool) -> SenderAccess:
    """Decide about a sender; `admitted` means that an operator granted access."""
    is_group = knock.chat_type != DM
    if admitted or knock.principal in policy.allow:
        return SenderAccess.ADMIT
    if is_group and f"{knock.channel}:{knock.chat}" in policy.allow_chats:
        return SenderAccess.ADMIT
    match policy.group_door if is_group else policy.door:
        case Door.OPEN:
            return SenderAccess.ADMIT
        case Door.PAIR if knock.human and knock.addressed:  # two bots would answer each other's notices without end
            return SenderAccess.PAIR
        case _:
            return SenderAccess.REFUSE


def check_allowed(entry: str) -> str:
    """Return an allowlist entry unchanged. Raises `AllowlistNotImmutable` for an id that its owner could change."""
    return _checked(entry, *_IMMUTABLE.get(entry.partition(":")[0], _UNKNOWN))


def check_operator(entry: str) -> str:
    """Check a named operator in the same way. An operator is a person of a platform, never an agent."""
    if entry.startswith(AGENTS):
        raise AllowlistNotImmutable(
            f"{entry[:80]!r} is an agent, and only a person can be an operator", entry=entry[:80]
        )
    return check_allowed(entry)


def check_account(entry: str, channels: Collection[str]) -> str:
    """Return an account `<channel>:<id>` of a known channel unchanged. Raises `InvalidInput`."""
    channel, colon, id_ = entry.partition(":")
    if not colon:
        raise InvalidInput(f"{entry[:80]!r} is no account; write <channel>:<id>, as in telegram:123456789")
    if channel not in channels:
        near = difflib.get_close_matches(channel, channels, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise InvalidInput(f"there is no channel {channel[:80]!r}; {meant}known are {', '.join(sorted(channels))}")
    shape, example = _IMMUTABLE.get(channel, _UNKNOWN)
    if not shape.fullmatch(id_):
        raise InvalidInput(f"{entry[:80]!r} is no account of {channel}; write {example}")
    return entry


def check_allowed_chat(entry: str) -> str:
    """Check a chat whose members all have access. Raises `AllowlistNotImmutable`."""
    known = entry.startswith(("telegram:", "discord:"))
    return _checked(entry, _NUMBER if known else _ANYWHERE, "the chat's own id, as in telegram:-1001234567890")


def _checked(entry: str, shape: re.Pattern[str], example: str) -> str:
    channel, colon, id_ = entry.partition(":")
    if not colon or not channel or not shape.fullmatch(id_):
        wanted = example if colon else "<channel>:<id>, as in telegram:123456789"
        why = f"{entry[:80]!r} is not an immutable id: names can be given away, ids cannot; write {wanted}"
        raise AllowlistNotImmutable(why, entry=entry[:80])
    return entry


# --- pairing -----------------------------------------------------------------------------------------


class Pairing(Enum):
    """The state of a stranger's request."""

    ASKING = "asking"
    EXPIRED = "expired"
    ADMITTED = "admitted"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingPolicy:
    lasts_ms: int = DAY_MS
    told_every_ms: int = HOUR_MS  # the interval between notices to a stranger who keeps writing
    open_max: int = 20  # open requests per agent; strangers beyond it get no answer


PAIRING = PairingPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingAsk:
    """A stranger's request. The caller makes the ids, so the call is repeatable."""

    agent: AgentName
    channel: str
    principal: Principal
    address: str  # where the notice goes
    code: str
    reply: ReplyId
    new_mailbox: MailboxId  # for the address, if it has none yet
    name: str = ""  # the display name on the platform

    def __post_init__(self) -> None:
        check_part("principal", self.principal)
        if not _CODE.fullmatch(self.code):
            raise PairingNotFound(f"{self.code[:20]!r} is no pairing code", code=self.code[:20])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingAsked:
    """The outcome of a request: the valid code, and whether the stranger gets a notice now."""

    code: str  # empty if too many requests are open, or if the operator refused this one
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingDecision:
    code: str
    admit: bool
    by: str
    operation: OperationId
    reply: ReplyId
    agents: frozenset[str] = frozenset()  # the agents whose requests the operator may see; empty means all

    def is_about(self, agent: str) -> bool:
        return not self.agents or agent in self.agents


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingView:
    code: str
    agent: AgentName
    channel: str
    principal: Principal
    name: str
    state: Pairing
    asked_at: Instant
    decided_at: Instant | None = None


def make_code(chance: int) -> str:
    """Eight characters, about 39 random bits."""
    digits = []
    for _ in range(CODE_CHARS):
        chance, digit = divmod(chance, len(CODE_ALPHABET))
        digits.append(CODE_ALPHABET[digit])
    return "".join(digits)


def read_code(text: str) -> str:
    """Normalise a typed code: any case, with spaces or hyphens. Raises `PairingNotFound`."""
    code = re.sub(r"[\s-]", "", text).upper()
    if not _CODE.fullmatch(code):
        raise PairingNotFound(f"{text[:20]!r} is no pairing code; codes look like {spelt('7K2MPQ9X')}", code=text[:20])
    return code


def spelt(code: str) -> str:
    """The code as displayed, in two groups of four."""
    return f"{code[:4]}-{code[4:]}"


def notice_text(code: str, agent: str) -> str:
    """The notice to a stranger. It quotes neither their message nor their name."""
    return (
        f"{agent} does not know you yet, and nothing you wrote was kept. To be let in, ask its operator to run:\n"
        f"holdfast pair {spelt(code)}"
    )


def admitted_text(agent: str) -> str:
    return f"You may talk to {agent} now. What you wrote before was not kept; please send it again."


LISTED_MAX = 1_000
