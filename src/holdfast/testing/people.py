"""People who answer questions of the agent: whether a dangerous tool may run, and whether to delete a session.

Each question gets a yes, a no or no answer, after a delay. Other people and programs also answer questions that are not
theirs.
"""

import asyncio
import random
import re
from collections.abc import Callable, Coroutine
from typing import Any

import apsw

from holdfast.testing.platform import Platform
from holdfast.testing.workload import CHATS, SENDERS, Say
from holdfast.turns.call_view import short_digest

FIRST = 500  # the first number of their messages, above all numbers of a plan
FIRST_MEDDLED = 600
FIRST_CONFIRMED = 700
LOOK_S = 0.7
OPEN = """
select approval.id, mailbox.address, approval.principal, approval.digest
  from approval join mailbox on mailbox.id = approval.mailbox
 where approval.decided_at is null order by approval.asked_at, approval.id"""
ASKED = """
select inbound.event_id, reply.body from inbound join reply on reply.message = inbound.message
 where inbound.kind = 'command' and inbound.state = 'command' and length(reply.body) > 0
 order by inbound.at, inbound.seq"""
WORD = re.compile(rb"send: (/delete \w{4})\Z")
ANSWERS = ("/approve {}", "/deny {} not today", "")
WEIGHTS = (4, 4, 1)
DIGESTS = (5, 3, 2)  # none, the right one, another one
MEDDLES = 0.5  # of all questions are answered by others too
CONFIRMS = 0.8  # of all requested deletions


class People:
    def __init__(self, seed: int | str, platform: Platform, observe: Callable[[], apsw.Connection]) -> None:
        self._seed = seed
        self._platform = platform
        self._observe = observe
        self._seen: dict[str, asyncio.Task[None]] = {}
        self._confirmed: dict[str, asyncio.Task[None]] = {}

    async def answer(self) -> None:
        """Until cancelled: read the open questions, and answer each in its chat."""
        while True:
            await asyncio.sleep(LOOK_S)
            for row in self._observe().execute(OPEN).fetchall():
                approval, address, principal, digest = map(str, row)
                if approval not in self._seen:
                    self._seen[approval] = self._decide(len(self._seen), approval, digest, address, principal)
            for event_id, body in self._observe().execute(ASKED).fetchall():
                found = WORD.search(body) if isinstance(body, bytes) else None
                if found and str(event_id) not in self._confirmed and str(event_id) in self._platform.sent:
                    said = self._platform.sent[str(event_id)].say
                    self._confirmed[str(event_id)] = self._confirm(len(self._confirmed), said, found[1].decode())

    def unfinished(self) -> str | None:
        """An answer that is not sent yet; it may arrive after an operator's decision."""
        tasks = {**self._seen, **self._confirmed}
        return next((f"{name} is being answered" for name, task in tasks.items() if not task.done()), None)

    def _answer(self, number: int, approval: str, digest: str) -> str:
        """A yes may name the digest of the call; a few name another one, which decides nothing."""
        text = random.Random(f"{self._seed}/people/{number}").choices(ANSWERS, WEIGHTS)[0].format(approval)
        other = short_digest(digest[::-1])
        named = random.Random(f"{self._seed}/people/digest/{number}").choices(
            ("", short_digest(digest), other), DIGESTS
        )[0]
        return f"{text} {named}" if named and text.startswith("/approve") else text

    def _decide(self, number: int, approval: str, digest: str, address: str, principal: str) -> asyncio.Task[None]:
        text = self._answer(number, approval, digest)
        rng = random.Random(f"{self._seed}/people/{number}")
        rng.choices(ANSWERS, WEIGHTS)  # one draw, as for the text
        chat = next(chat for chat in CHATS if str(chat.address) == address)
        said = Say(
            n=FIRST + number,
            at_ms=rng.randrange(2_500),
            chat=chat,
            sender=principal,
            text=text,
            addressed=True,
            human=True,
            conflicts=False,
        )
        work = [self._platform.deliver(said)] if text else []
        meddler = random.Random(f"{self._seed}/meddler/{number}")
        if meddler.random() < MEDDLES:
            others = [name for name in SENDERS[chat.name] if name != principal]
            work.append(self._platform.deliver(self._meddled(meddler, number, said, approval, others)))
        return self._start(work, f"decide {number}")

    def _meddled(self, rng: random.Random, number: int, said: Say, approval: str, others: list[str]) -> Say:
        """An approval by another person or by a program."""
        is_human = bool(others) and rng.random() < 0.5
        return Say(
            n=FIRST_MEDDLED + number,
            at_ms=rng.randrange(1_500),
            chat=said.chat,
            sender=rng.choice(others) if is_human else said.sender,
            text=f"/approve {approval}",
            addressed=True,
            human=is_human,
            conflicts=False,
        )

    def _confirm(self, number: int, asked: Say, text: str) -> asyncio.Task[None]:
        rng = random.Random(f"{self._seed}/confirm/{number}")
        said = Say(
            n=FIRST_CONFIRMED + number,
            at_ms=rng.randrange(1_000),
            chat=asked.chat,
            sender=asked.sender,
            text=text,
            addressed=True,
            human=True,
            conflicts=False,
        )
        return self._start([self._platform.deliver(said)] if rng.random() < CONFIRMS else [], f"confirm {number}")

    @staticmethod
    def _start(work: list[Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        async def all_of_it() -> None:
            await asyncio.gather(*work)

        return asyncio.get_running_loop().create_task(all_of_it(), name=name)
