"""The messages of people in a history, drawn from a seed: sender, text, chat and time.

Every message has a number and a random stream of its own, so leaving one out of a plan changes no other.
Plain texts begin with a mark (`m07`) that is unique in the history: wherever a text appears, in a journal, a
request to the model or a summary, its mark identifies the message.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from holdfast.inbox.address import Address
from holdfast.inbox.message import Limits, MessageKind, kind_of
from holdfast.kernel.ids import AgentName, Provider
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy, PerAddress, PerSession
from holdfast.memory.recall import RecallPolicy
from holdfast.outbox.post import OnDoubt
from holdfast.sessions.command import parse_command
from holdfast.sessions.command_rights import Rank
from holdfast.sessions.compression import Thresholds
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy, Arrivals, TurnPolicy

MARK = re.compile(r"\bm\d{2,}\b")
FILLER = "so it goes on and on for a while about nothing in particular until it stops "
HORIZON_MS = 6_000  # all messages are sent within this time
MESSAGES = 15
RECORDED_TURNS = 3
FEARED_SHARE = 0.4  # of the requests to pay
NAMINGS = (PerSession(), PerAddress())


@dataclass(frozen=True, slots=True)
class Chat:
    agent: str
    type: str
    name: str
    durably: bool = False  # its platform does not redeliver, so a refusal is a durable row (D2)

    @property
    def address(self) -> Address:
        return Address(agent=AgentName(self.agent), channel="sim", type=self.type, chat=self.name)


CHATS = (
    Chat("fern", "dm", "home"),
    Chat("fern", "group", "club", durably=True),
    Chat("moss", "dm", "desk"),
    Chat("reed", "dm", "yard"),
)
CLUB = CHATS[1]
FIRST_MEDDLING = 800  # the first number of commands without permission
MEDDLED_TIMES = 4
MEDDLING_EVERY = 2
MEDDLED = ("/delete", "/delete", "/new", "/branch", "/undo", "/retry", "/stop")
CHAT_WEIGHTS = ((8, 2, 1, 1), (2, 8, 1, 1), (1, 1, 8, 2), (1, 1, 2, 8), (3, 3, 3, 3))  # usually one chat is busy
SENDERS = {"home": ("ada",), "club": ("ada", "bob"), "desk": ("ada", "cy"), "yard": ("bob",)}
ADMINS = frozenset({"ada"})  # of every group
TITLES = ("alpha", "Beta")
COMMANDS = (
    ("/new", 5),
    ("/undo", 3),
    ("/undo 2", 1),
    ("/branch", 3),
    ("/branch alpha", 1),
    ("/title alpha", 2),
    ("/title Beta", 2),
    ("/resume alpha", 3),
    ("/resume beta", 2),
    ("/retry", 4),
    ("/compress", 4),
    ("/delete", 2),
    ("/help", 1),
    ("/status", 2),
    ("/stop", 3),
)


@dataclass(frozen=True, slots=True)
class Say:
    """The n-th message of the workload."""

    n: int
    at_ms: int
    chat: Chat
    sender: str
    text: str
    addressed: bool
    human: bool
    conflicts: bool  # the same event id comes again with another text

    @property
    def event_id(self) -> str:
        return f"e{self.n}"

    @property
    def mark(self) -> str:
        return mark_of(self.n)

    @property
    def rank(self) -> Rank:
        """The sender's rank, as the platform reports it."""
        return Rank.ADMIN if self.chat.type == "group" and self.sender in ADMINS else Rank.MEMBER

    @property
    def kind(self) -> MessageKind:
        return kind_of(self.text, addressed=self.addressed)


def mark_of(n: int) -> str:
    return f"m{n:02d}"


def marks_in(text: str) -> list[str]:
    return MARK.findall(text)


def say(seed: int | str, n: int) -> Say:
    rng = random.Random(f"{seed}/say/{n}")
    chat = rng.choices(CHATS, _weights(seed))[0]
    text = _feared(seed, n, _text(rng, n))
    # Bursts: all messages of the same second are sent at the same instant.
    at_ms = rng.randrange(HORIZON_MS)
    if rng.random() < 0.35:
        at_ms -= at_ms % 2_000
    return Say(
        n=n,
        at_ms=at_ms,
        chat=chat,
        sender=rng.choice(SENDERS[chat.name]),
        text=text,
        addressed=chat.type == "dm" or rng.random() < 0.7,
        human=rng.random() < 0.85,
        conflicts=rng.random() < 0.08,
    )


def meddling(seed: int) -> list[Say]:
    """Commands in the group by senders without permission: a member who is not an admin, and programs.

    Only every second history has some.
    """
    if int(seed) % MEDDLING_EVERY == 0:
        return []
    rng = random.Random(f"{seed}/meddling")
    return [
        Say(
            n=FIRST_MEDDLING + n,
            at_ms=rng.randrange(1_000, HORIZON_MS + 2_000),
            chat=CLUB,
            sender=rng.choice((SENDERS[CLUB.name][-1], *SENDERS[CLUB.name])),
            text=rng.choice(MEDDLED),
            addressed=True,
            human=rng.random() < 0.7,
            conflicts=False,
        )
        for n in range(MEDDLED_TIMES)
    ]


@lru_cache(maxsize=16)
def _weights(seed: int | str) -> tuple[int, ...]:
    return random.Random(f"{seed}/chats").choice(CHAT_WEIGHTS)


def _text(rng: random.Random, n: int) -> str:
    if rng.random() < 0.28:
        words, weights = zip(*COMMANDS, strict=True)
        return str(rng.choices(words, weights)[0])
    length = rng.choice((0, 10, 60, 160)) if rng.random() < 0.9 else 700
    wish = rng.choices(("", " use look", " use pay", " use pay look"), (7, 1, 1, 1))[0]
    return f"{mark_of(n)}{wish} {(FILLER * 10)[:length]}".strip()


def _feared(seed: int | str, n: int, text: str) -> str:
    """Some texts request a tool that needs approval; drawn separately, so that nothing else of a history changes."""
    wishes = " use pay" in text and random.Random(f"{seed}/feared/{n}").random() < FEARED_SHARE
    return text.replace(" use pay", " use fire", 1) if wishes else text


def policies(seed: int | str) -> dict[AgentName, AgentPolicy]:
    """One agent queues messages; the others get random policies for arrivals, windows and providers."""
    rng = random.Random(f"{seed}/policies")
    arrivals = {"fern": Arrivals.QUEUE, "moss": rng.choice(list(Arrivals)), "reed": rng.choice(list(Arrivals))}
    made = {AgentName(name): _policy(rng, chosen) for name, chosen in arrivals.items()}
    made[AgentName("reed")] = replace(made[AgentName("reed")], on_doubt=OnDoubt.HOLD)
    return made


def _policy(rng: random.Random, arrivals: Arrivals) -> AgentPolicy:
    return AgentPolicy(
        instructions=rng.choice(("", "Be brief.")),
        turn=TurnPolicy(
            arrivals=arrivals,
            turn_attempts_max=3,
            model_attempts_max=2,
            model_wait_ms=4_000,
            tool_wait_ms=3_500,
            steps_max=5,
            unattended_max=2,
            retry=RetryPolicy(delay_ms_base=200, delay_ms_max=1_000),
        ),
        thresholds=Thresholds(
            context_tokens=rng.choice((160, 240, 320)),
            soft=0.5,
            hard=0.8,
            keep=0.2,
            summary=0.3,
            summariser_wait_ms=2_000,
            failed_pause_ms=1_500,
        ),
        limits=Limits(mailbox_depth_max=rng.choice((3, 6, 50)), window_ms=5_000, window_messages_max=12),
        recall=RecallPolicy(budget_ms=300),
        approval=ApprovalPolicy(wait_ms=6_000),
        deliveries=tuple(_deliveries(rng)),
    )


def _deliveries(rng: random.Random) -> Iterator[DeliveryPolicy]:
    if rng.random() < 0.9:
        yield DeliveryPolicy(provider=Provider("swift"), every_turns=1, naming=rng.choice(NAMINGS))
    if rng.random() < 0.9:
        wait_ms = rng.choice((None, None, 2_500))
        naming = rng.choice(NAMINGS)
        yield DeliveryPolicy(provider=Provider("slow"), every_turns=3, max_wait_ms=wait_ms, naming=naming)


def verb_of(text: str) -> str:
    """The command of a text, or an empty string."""
    command = parse_command(text)
    return command.verb.value if command else ""
