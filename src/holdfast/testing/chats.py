"""The sending side of the chat platform, in some of the histories: one post in four fails until the world heals.

Each agent's bot account behaves differently: `fern`'s platform keeps no nonces, `moss`'s refuses a repeated nonce for a
while and requires a pause between two posts, and `reed`'s uncertain replies are held. A post that was sent arrives even
if its node dies, at any time within the timeout of the reply sender.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from enum import Enum

from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, Intake
from holdfast.kernel.retry import RetryPolicy
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.outbox.reply import SendPolicy

CHATS_EVERY = 4  # replies are posted in one history of so many; in the others they stay pending
FOREVER_S = 10_000.0
LAG_S_MAX = 0.08  # one way
FAULTS = 0.25
RETRY_MS_MAX = 1_500
PIECE_CHARS_MAX = 60
NONCE_LASTS_MS = 20_000
SEND_POLICY = SendPolicy(
    retry=RetryPolicy(delay_ms_base=200, delay_ms_max=1_000),
    attempts_max=8,
    give_up_ms=30_000,
    send_wait_ms=1_200,
    send_within_ms=1_000,
    sends_max=2,
)
ABLE: Mapping[str, ChannelCapabilities] = {
    "fern": ChannelCapabilities(text_chars_max=PIECE_CHARS_MAX),
    "moss": ChannelCapabilities(text_chars_max=PIECE_CHARS_MAX, chat_interval_ms=150, nonce_lasts_ms=NONCE_LASTS_MS),
    "reed": ChannelCapabilities(text_chars_max=PIECE_CHARS_MAX),
}


class ChatFailure(Enum):
    BEFORE_EFFECT = "before effect"
    LIMITED = "limited"
    ACCOUNT_LIMITED = "account limited"
    AFTER_EFFECT = "after effect"
    LOST = "lost"
    STALLS = "stalls"
    RAISES = "raises"
    DECLINED = "declined"


CERTAIN = frozenset({ChatFailure.BEFORE_EFFECT, ChatFailure.LIMITED, ChatFailure.ACCOUNT_LIMITED, ChatFailure.DECLINED})


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One call of a channel."""

    post: Post
    may_land: bool


@dataclass(slots=True)
class ChatServer:
    """The messages that the chats show, and the requests that the platform received."""

    calls: list[ChatCall] = field(default_factory=list)
    landed: list[Post] = field(default_factory=list)
    known: dict[str, float] = field(default_factory=dict)  # nonces, and when they were first seen
    texts: dict[str, str] = field(default_factory=dict)  # the current texts by receipt, where messages can be edited

    def take(self, post: Post, nonce_lasts_ms: int) -> None:
        now = asyncio.get_running_loop().time()
        seen = self.known.get(post.nonce)
        if seen is not None and (now - seen) * 1000 <= nonce_lasts_ms:
            return
        self.known[post.nonce] = now
        self.landed.append(post)
        self.texts[receipt_of(post)] = post.text


def receipt_of(post: Post) -> str:
    return f"posted-{post.nonce}"


class Chats:
    """All bot accounts of one history."""

    def __init__(self, seed: int | str, healed: Callable[[], bool], *, every: int = CHATS_EVERY) -> None:
        self.server = ChatServer()
        self.enabled = every > 0 and isinstance(seed, int) and has_chats(seed, every)
        self._seed = seed
        self._healed = healed

    def clients(self) -> dict[str, "FakeChat"]:
        """One node's clients of the platform, by agent; empty if the history posts no replies."""
        if not self.enabled:
            return {}
        return {agent: FakeChat(self._seed, self.server, able, self._healed) for agent, able in ABLE.items()}


def has_chats(seed: int, every: int = CHATS_EVERY) -> bool:
    return seed % every == 1


class FakeChat:
    """Implements `Channel`, for sending only."""

    def __init__(
        self, seed: int | str, server: ChatServer, capabilities: ChannelCapabilities, healed: Callable[[], bool]
    ) -> None:
        self.capabilities = capabilities
        self._seed = seed
        self._server = server
        self._healed = healed
        self._outside = Context()

    async def run(self, intake: Intake) -> None:
        intake.connected()
        await asyncio.sleep(FOREVER_S)

    async def typing(self, address: Address) -> None:
        """Ignored: no check looks at typing indicators."""

    async def close(self) -> None:
        """The fake holds no resources."""

    async def send(self, post: Post) -> SendOutcome:
        rng = random.Random(f"{self._seed}/{post.nonce}/{post.attempt}")
        failure = rng.choice(list(ChatFailure)) if rng.random() < FAULTS and not self._healed() else None
        self._server.calls.append(ChatCall(post, may_land=failure not in CERTAIN))
        if failure is None or failure in {ChatFailure.AFTER_EFFECT, ChatFailure.RAISES}:
            self._leave(post, rng.random() * LAG_S_MAX)
        elif failure is ChatFailure.STALLS and rng.random() < 0.7:
            self._leave(post, rng.random() * SEND_POLICY.send_wait_ms / 1000)
        await asyncio.sleep(LAG_S_MAX + rng.random() * LAG_S_MAX)
        if failure is ChatFailure.STALLS:
            await asyncio.sleep(FOREVER_S)
        if failure is ChatFailure.RAISES:
            raise RuntimeError("a fault in the channel's code")
        return _outcome(post, failure, rng)

    def _leave(self, post: Post, delay_s: float) -> None:
        """Schedule the arrival of a request that was sent and cannot be cancelled."""
        asyncio.get_running_loop().call_later(
            delay_s, self._server.take, post, self.capabilities.nonce_lasts_ms, context=self._outside
        )


def _outcome(post: Post, failure: ChatFailure | None, rng: random.Random) -> SendOutcome:
    match failure:
        case None:
            return Sent(receipt_of(post))
        case ChatFailure.BEFORE_EFFECT:
            return NotSent("connection refused")
        case ChatFailure.LIMITED:
            return NotSent("too many requests", retry_after_ms=int(rng.random() * RETRY_MS_MAX))
        case ChatFailure.ACCOUNT_LIMITED:
            return NotSent("too many requests", int(rng.random() * RETRY_MS_MAX), whole_account=True)
        case ChatFailure.DECLINED:
            return Declined("the bot was blocked")
        case _:
            return Doubtful("the connection was lost")
