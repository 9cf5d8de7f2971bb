"""Access tokens: the scopes of an API client, and the agents that it may reach.

Rule 1: a token is 256 random bits and is shown once. The store keeps its SHA-256, so a reader of the store cannot use
        the token.
Rule 2: a scope grants a set of rights. `GRANTS` is the only table of them.
Rule 3: a message sent with a robot's token comes from a program, regardless of its sender; the loop guard counts it
        (D12).
Rule 4: a token that names agents sees and reaches only those; data of any other agent does not exist for it.
Rule 5: a token that sends is bound to a sender or to chats, or is a relay (token_binding.py).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.api.auth.token_binding import UNSAID, Binding
from holdfast.inbox.address import agent_name, parse
from holdfast.kernel.errors import AgentNotFound, InvalidInput, ScopeRequired, TokenBound
from holdfast.kernel.ids import Instant, TokenId

TOKEN_BITS = 256
LABEL_CHARS_MAX = 64
AGENTS_MAX = 64
LASTS_MS_MAX = 3_650 * 86_400_000
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LASTS = re.compile(r"(\d{1,7})([mhd])\Z", re.ASCII)
_SHAPE = re.compile(r"hf_[0-9a-f]{64}\Z", re.ASCII)


class Scope(Enum):
    SEND = "send"  # send messages and receive their replies
    READ = "read"  # read conversations, sessions and deliveries
    OPERATE = "operate"  # compress, replay, approve, forget
    ADMIN = "admin"  # tokens, pairing, identities, and everything else


GRANTS: Mapping[Scope, frozenset[Scope]] = {
    Scope.SEND: frozenset({Scope.SEND}),
    Scope.READ: frozenset({Scope.READ}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.READ}),
    Scope.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token without its secret."""

    id: TokenId
    label: str = ""
    scopes: frozenset[Scope]
    agents: frozenset[str] = frozenset()  # empty: all agents
    made_at: Instant = Instant(0)
    revoked_at: Instant | None = None
    expires_at: Instant | None = None  # the token is refused from then on
    robot: bool = False  # a program holds the token: another agent, a job, a bridge
    binding: Binding = UNSAID

    def __post_init__(self) -> None:
        if not self.scopes:
            raise InvalidInput("a token needs at least one scope")
        if len(self.label) > LABEL_CHARS_MAX or not self.label.isprintable():
            raise InvalidInput(f"a token's label is at most {LABEL_CHARS_MAX} visible characters")
        if len(self.agents) > AGENTS_MAX:
            raise InvalidInput(f"a token names at most {AGENTS_MAX} agents; without any it is for all of them")
        for agent in self.agents:
            agent_name(agent)
        if self.binding.is_bound and self.may(Scope.ADMIN):
            raise InvalidInput("a token with the scope admin may do everything; it is bound to no sender and no chat")

    def may(self, scope: Scope) -> bool:
        return any(scope in GRANTS[held] for held in self.scopes)

    def has_expired(self, now: Instant) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def sees(self, agent: str) -> bool:
        return not self.agents or agent in self.agents

    def sees_chat(self, agent: str, address: str | None) -> bool:
        """Whether what an agent has at an address exists for the token; without an address it belongs to no chat."""
        return self.sees(agent) and self.binding.holds(address)

    @property
    def is_limited(self) -> bool:
        """Whether the token is for some agents or chats only."""
        return bool(self.agents) or self.binding.is_bound

    def check_agent(self, agent: str) -> None:
        """Raises `AgentNotFound`."""
        if not self.sees(agent):
            known = ", ".join(sorted(self.agents))
            raise AgentNotFound(f"this token knows no agent {agent[:80]!r}; it is for {known}")

    def check_address(self, address: str) -> None:
        """Raises `TokenBound` and `AgentNotFound`."""
        place = parse(address)
        self.binding.check_chat(place.chat)
        self.check_agent(place.agent)

    def beyond(self, what: str) -> TokenBound:
        """The error of a bound token that asks for something outside its chats."""
        return TokenBound(f"this concerns more than the token is for ({what}); it is for {self.binding.told}")

    def check_all_chats(self, what: str) -> None:
        """Raises `TokenBound` if the token is for some chats only."""
        if self.binding.is_bound:
            raise self.beyond(what)

    def check_everything(self, what: str) -> None:
        """Raises `TokenBound` and `ScopeRequired` if the token is for some chats or agents only."""
        self.check_all_chats(what)
        if self.agents:
            raise ScopeRequired(f"this needs a token for all agents, not for some of them ({what})")

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the token was made before bindings existed: it speaks for any sender, unconfirmed by its owner."""
        return self.may(Scope.SEND) and not self.may(Scope.ADMIN) and self.binding == UNSAID

    @property
    def finds_all(self) -> bool:
        """Whether the token finds messages by id that other tokens sent: a token that operates or only reads does.

        A bound token finds every message of its chats, from any sender.
        """
        return self.binding.is_bound or self.may(Scope.OPERATE) or not self.may(Scope.SEND)

    def finds(self, sent_with: str) -> bool:
        """Whether the token finds a message that the token `sent_with` sent; "" if it was sent without a token."""
        return self.finds_all or sent_with in {"", self.id}


def expiry_of(lasts: str, now: Instant) -> Instant | None:
    """The expiry of a token with a lifetime such as `90d`, `12h` or `30m`; None for `never`. Raises `InvalidInput`."""
    if lasts == "never":
        return None
    found = _LASTS.match(lasts)
    if found is None or not 0 < int(found[1]) * _UNITS_MS[found[2]] <= LASTS_MS_MAX:
        raise InvalidInput(f"a token cannot last {lasts[:80]!r}; write 90d, 12h or 30m, up to 3650d, or never")
    return Instant(now + int(found[1]) * _UNITS_MS[found[2]])


def spell_token(chance: int) -> str:
    """The token made of 256 random bits."""
    return f"hf_{chance:064x}"


def is_token(text: str) -> bool:
    """Whether the text has the form of a Holdfast token; other text is not looked up."""
    return _SHAPE.match(text) is not None


def hash_token(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def parse_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Raises `InvalidInput` for an unknown scope; the message lists the known ones."""
    known = {scope.value: scope for scope in Scope}
    wanted = list(words)
    unknown = next((word for word in wanted if word not in known), None)
    if unknown is not None:
        raise InvalidInput(f"{unknown[:80]!r} is not a scope; there are: {', '.join(known)}")
    return frozenset(known[word] for word in wanted)
