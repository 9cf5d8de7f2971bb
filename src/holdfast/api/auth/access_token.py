"""Access tokens: the scopes of an API client, and the agents that it may reach.

Rule 1: a token is 256 random bits and is shown once. The store keeps its SHA-256, so a reader of the store cannot use
        the token.
Rule 2: a scope grants a set of rights. `GRANTS` is the only table of them.
Rule 3: a message sent with a robot's token comes from a program, regardless of its sender; the loop guard counts it
        (D12).
Rule 4: a token that names agents sees and reaches only those; data of any other agent does not exist for it.
Rule 5: a token that sends is bound to a sender or to chats, or is a relay (`Binding`).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.inbox.address import agent_name, check_part, parse, sender_of_chat
from holdfast.kernel.errors import AgentNotFound, BindingRequired, InvalidInput, ScopeRequired, TokenBound
from holdfast.kernel.ids import Instant, TokenId

CHATS_MAX = 64
SENDER_CHARS_MAX = 256
TOLD_MAX = 5  # chats that an error lists
BELOW = "/"
CHANNELS = frozenset({"http", "openai"})  # the channels of tokens; a chat of any other channel never belongs to a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The sender and the chats that an access token may use over HTTP (D46).

    Rule 1: a token that sends names one sender, or a set of chats, or is a relay. A relay is a backend that speaks for
            its users: it may name any sender and any chat.
    Rule 2: a bound sender has the chat of its own name, every chat below it (`ada`, `ada/...`), and those that the
            token names. The name of a chat alone decides, so a refusal does not reveal whether the chat exists.
    Rule 3: for a token without a sender, the sender of a message is its chat. Two senders share a chat only through a
            relay, or if both their tokens name it.
    Rule 4: a token made before bindings existed is an unconfirmed relay: it works, and a warning asks the operator to
            replace it.
    """

    sender: str | None = None
    chats: frozenset[str] = frozenset()
    relay: bool = False

    def __post_init__(self) -> None:
        if self.sender is not None:
            _check_sender(self.sender)
        if len(self.chats) > CHATS_MAX:
            raise InvalidInput(f"a token names at most {CHATS_MAX} chats, not {len(self.chats)}")
        for chat in self.chats:
            check_part("chat", chat)
        if self.relay and self.is_bound:
            raise InvalidInput("a relay speaks for any sender in any chat: leave out --relay, or --sender and --chat")

    @property
    def is_bound(self) -> bool:
        return self.sender is not None or bool(self.chats)

    def allows(self, chat: str) -> bool:
        if not self.is_bound or chat in self.chats:
            return True
        return self.sender is not None and (chat == self.sender or chat.startswith(self.sender + BELOW))

    def holds(self, address: str | None) -> bool:
        """Whether the token may read and send in the chat of an address."""
        if not self.is_bound:
            return True
        if address is None:
            return False
        place = parse(address)
        return place.channel in CHANNELS and place.thread is None and place.user is None and self.allows(place.chat)

    def check_chat(self, chat: str) -> str:
        """The chat, unchanged. Raises `TokenBound` if the token may not use it."""
        if not self.allows(chat):
            raise TokenBound(f"this token may not use the chat {chat[:80]!r}; it is for {self.told}", chat=chat[:80])
        return chat

    def speaker(self, sender: str | None, chat: str) -> str:
        """The sender of a message. Raises `TokenBound` if the request names a `sender` other than the token's."""
        if sender is not None:
            check_part("sender", sender)
        if not self.is_bound:
            return sender if sender is not None else sender_of_chat(chat)
        own = self.sender if self.sender is not None else sender_of_chat(chat)
        if sender not in {None, own}:
            named = str(sender)[:80]
            raise TokenBound(f"this token may not speak as {named!r}; it is for {self.told}", sender=named)
        return own

    def usual_chat(self, otherwise: str) -> str:
        """The chat of a request that names none. Raises `TokenBound` if the token names several."""
        if not self.is_bound:
            return otherwise
        if self.sender is not None:
            return self.sender
        if len(self.chats) > 1:
            raise TokenBound(f"the request names no chat; this token is for {self.told}")
        return next(iter(self.chats))

    def new_chat(self, name: str) -> str:
        """The name of a new chat for one request, placed where the token may use it."""
        return name if self.sender is None else f"{self.sender}{BELOW}{name}"

    @property
    def told(self) -> str:
        """The binding in words, for error messages and lists."""
        shown = sorted(self.chats)[:TOLD_MAX]
        chats = ", ".join(repr(chat[:80]) for chat in shown) + (", ..." if len(self.chats) > TOLD_MAX else "")
        if self.sender is not None:
            also = f", and the chats {chats}" if chats else ""
            return (
                f"the sender {self.sender!r} in the chat of that name and in chats below it ({self.sender}/...){also}"
            )
        if chats:
            return f"the chats {chats}"
        return "any sender in any chat (relay)" if self.relay else "any sender in any chat"


UNSAID = Binding()  # the binding of a token that does not send, and of one made before bindings existed


def make_binding(*, sender: str | None, chats: Iterable[str], relay: bool, sends: bool, is_admin: bool) -> Binding:
    """The binding of a new token. Raises `BindingRequired` for a token that sends without sender, chats or relay."""
    made = Binding(sender=sender, chats=frozenset(chats), relay=relay)
    if is_admin and made.is_bound:
        raise InvalidInput("a token with the scope admin may do everything: leave out --sender and --chat")
    if relay and not sends:
        raise InvalidInput("a relay sends messages: add --scope send, or leave out --relay")
    if sends and not is_admin and made == UNSAID:
        raise BindingRequired("a token with the scope send says for whom it speaks, and this one does not")
    return made


def unconfirmed_text(token: str, label: str) -> str:
    """The warning about a token made before bindings existed."""
    named = f"{token} ({label})" if label else token
    return (
        f"token {named} speaks for anybody in any chat, as a relay, because it was made before tokens were bound; "
        f"replace it with one made with --sender, --chat or --relay, then `holdfast token revoke {token}`"
    )


def _check_sender(sender: str) -> None:
    check_part("sender", sender)
    if len(sender) > SENDER_CHARS_MAX:
        raise InvalidInput(f"the sender of a token has at most {SENDER_CHARS_MAX} characters, not {len(sender)}")
    if BELOW in sender:
        raise InvalidInput(f"the sender {sender[:80]!r} has a {BELOW!r}, which parts a sender's chats from its name")


TOKEN_BITS = 256
LABEL_CHARS_MAX = 64
AGENTS_MAX = 64
LASTS_MS_MAX = 3_650 * 86_400_000
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LASTS = re.compile(r"(\d{1,7})([mhd])\Z", re.ASCII)
_SHAPE = re.compile(r"hf_[0-9a-f]{64}\Z", re.ASCII)


class Scope(Enum):
    SEND = "send"  # send messages and receive their replies
    METRICS = "metrics"  # read numbers and states, and nothing that people wrote
    READ = "read"  # read conversations, sessions and deliveries
    OPERATE = "operate"  # compress, replay, approve, forget
    ADMIN = "admin"  # tokens, pairing, identities, and everything else


GRANTS: Mapping[Scope, frozenset[Scope]] = {
    Scope.SEND: frozenset({Scope.SEND}),
    Scope.METRICS: frozenset({Scope.METRICS}),
    Scope.READ: frozenset({Scope.READ, Scope.METRICS}),
    Scope.OPERATE: frozenset({Scope.OPERATE, Scope.READ, Scope.METRICS}),
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
