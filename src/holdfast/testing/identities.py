"""Links between principals and moves of addresses, made by an operator at any time of a history."""

import asyncio
import random
from dataclasses import dataclass, field

from holdfast.audit.actor import acting
from holdfast.inbox.identity import Link, LinkRequest, Moved
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import OperationId, Principal
from holdfast.testing.platform import Platform
from holdfast.testing.retrying_client import RetryingClient
from holdfast.testing.workload import CHATS, HORIZON_MS, SENDERS, Chat, Say, mark_of

ROW_S = 0.001  # the precision of times in the store
LINKS_MAX = 8  # pairs of a link and its end
TALKER, OTHERS = "ada", ("bob", "cy")  # the person who talks most, to whom others are mostly linked
TO_THE_TALKER = 0.8
APART_S, TOGETHER_S = 0.8, 3.0  # at most
FIRST_MOVED = 300  # the numbers of messages at an address that is moved
SAID_THERE = 3
MOVED_SUFFIX = "-moved"


@dataclass(frozen=True, slots=True)
class LinkChange:
    """One link or unlink, with the time of its request and the time of its confirmation."""

    principal: str
    person: str
    linked: bool
    begun_at: float
    ended_at: float


@dataclass(slots=True)
class IdentityLog:
    changes: list[LinkChange] = field(default_factory=list)
    refused: int = 0
    move: tuple[str, str] | None = None  # the old and the new address
    moved: Moved | HoldfastError | None = None

    def may_be_one(self, one: str, other: str, since_s: float, until_s: float) -> bool:
        """Whether the two may have been linked at some time of the span. Chains have one step.

        The span comes from rows, whose times are whole milliseconds.
        """
        since_s, until_s = since_s - ROW_S, until_s + ROW_S
        begun: float | None = None  # since when they may be linked
        for change in self.changes:
            if {change.principal, change.person} != {one, other}:
                continue
            if change.linked:
                begun = change.begun_at
            elif begun is not None:
                if begun <= until_s and change.ended_at >= since_s:
                    return True
                begun = None
        return begun is not None and begun <= until_s


class Linker:
    """Links and unlinks two people a few times; at most one link exists at a time."""

    def __init__(self, seed: int | str, client: RetryingClient, log: IdentityLog) -> None:
        self._chance = random.Random(f"{seed}/area/links/when")
        self._client = client
        self._log = log

    async def act(self) -> None:
        for n in range(1 + self._chance.randrange(LINKS_MAX)):
            ends = [self._chance.choice(OTHERS), TALKER]
            principal, person = ends if self._chance.random() < TO_THE_TALKER else ends[::-1]
            await asyncio.sleep(self._chance.random() * APART_S)
            await self._link(n, principal, person)
            await asyncio.sleep(self._chance.random() * TOGETHER_S)
            await self._unlink(n, principal, person)

    async def _link(self, n: int, principal: str, person: str) -> None:
        request = LinkRequest(
            principal=Principal(principal),
            person=Principal(person),
            by="operator",
            operation=OperationId(f"op_link{n}"),
        )
        heard = await self._client.until_heard(
            f"link {n}", lambda runtime: runtime.db.write(link_principals(request, by=acting()))
        )
        if isinstance(heard.answer, Link):
            self._log.changes.append(LinkChange(principal, person, True, heard.begun_at, heard.ended_at))
        else:
            self._log.refused += 1

    async def _unlink(self, n: int, principal: str, person: str) -> None:
        operation = OperationId(f"op_unlink{n}")
        heard = await self._client.until_heard(
            f"unlink {n}",
            lambda runtime: runtime.db.write(
                unlink_principal(Principal(principal), named="operator", operation=operation, by=acting())
            ),
        )
        if not isinstance(heard.answer, HoldfastError):
            self._log.changes.append(LinkChange(principal, person, False, heard.begun_at, heard.ended_at))


class Mover:
    """Moves one chat to a new address, at which a person may have spoken before."""

    def __init__(self, seed: int | str, client: RetryingClient, platform: Platform, log: IdentityLog) -> None:
        self._chance = random.Random(f"{seed}/area/moves/where")
        self._client = client
        self._platform = platform
        self._log = log
        old = self._chance.choice([chat for chat in CHATS if chat.type == "dm"])
        self.old, self.new = old, Chat(old.agent, old.type, f"{old.name}{MOVED_SUFFIX}")

    def says(self) -> list[Say]:
        sender = SENDERS[self.old.name][0]
        return [
            Say(
                n=n,
                at_ms=self._chance.randrange(HORIZON_MS),
                chat=self.new,
                sender=sender,
                text=mark_of(n),
                addressed=True,
                human=True,
                conflicts=False,
            )
            for n in range(FIRST_MOVED, FIRST_MOVED + SAID_THERE)
        ]

    async def act(self) -> None:
        await asyncio.sleep(self._chance.random() * HORIZON_MS / 1000)
        old, new = str(self.old.address), str(self.new.address)
        self._log.move = (old, new)
        heard = await self._client.until_heard("move", lambda runtime: runtime.access.move(old, new))
        self._log.moved = heard.answer
