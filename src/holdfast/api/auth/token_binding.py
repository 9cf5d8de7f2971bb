"""Token bindings: the sender and the chats that an access token may use over HTTP (D46).

Rule 1: a token that sends names one sender, or a set of chats, or is a relay. A relay is a backend that speaks for its
        users: it may name any sender and any chat.
Rule 2: a bound sender has the chat of its own name, every chat below it (`ada`, `ada/...`), and those that the token
        names. The name of a chat alone decides, so a refusal does not reveal whether the chat exists.
Rule 3: for a token without a sender, the sender of a message is its chat. Two senders share a chat only through a
        relay, or if both their tokens name it.
Rule 4: a token made before bindings existed is an unconfirmed relay: it works, and a warning asks the operator to
        replace it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.inbox.address import check_part, parse, sender_of_chat
from holdfast.kernel.errors import BindingRequired, InvalidInput, TokenBound

CHATS_MAX = 64
SENDER_CHARS_MAX = 256
TOLD_MAX = 5  # chats that an error lists
BELOW = "/"
CHANNELS = frozenset({"http", "openai"})  # the channels of tokens; a chat of any other channel never belongs to a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
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
