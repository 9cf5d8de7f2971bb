"""People who are asked whether a dangerous tool may run: each question gets a yes, a no or no answer, after a while."""

import asyncio
import random
from collections.abc import Callable

import apsw

from holdfast.core.call_view import short_digest
from holdfast.testing.platform import Platform
from holdfast.testing.workload import CHATS, Say

FIRST = 500  # what they say is numbered from here, behind everything that a plan can name
LOOK_S = 0.7
OPEN = """
select approval.id, mailbox.address, approval.principal, approval.digest
  from approval join mailbox on mailbox.id = approval.mailbox
 where approval.decided_at is null order by approval.asked_at, approval.id"""
ANSWERS = ("/approve {}", "/deny {} not today", "")
WEIGHTS = (4, 4, 1)
DIGESTS = (5, 3, 2)  # none, the right one, another one


class People:
    def __init__(self, seed: int | str, platform: Platform, observe: Callable[[], apsw.Connection]) -> None:
        self._seed = seed
        self._platform = platform
        self._observe = observe
        self._seen: dict[str, asyncio.Task[None]] = {}

    async def answer(self) -> None:
        """Until cancelled: read what is asked, and answer in the chat that it was asked in."""
        while True:
            await asyncio.sleep(LOOK_S)
            for row in self._observe().execute(OPEN).fetchall():
                approval, address, principal, digest = map(str, row)
                if approval not in self._seen:
                    text = self._answer(len(self._seen), approval, digest)
                    self._seen[approval] = self._say(len(self._seen), text, address, principal)

    def unfinished(self) -> str | None:
        """An answer that is still to be given, which may come when an operator has decided already."""
        return next((f"{name} is being answered" for name, task in self._seen.items() if not task.done()), None)

    def _answer(self, number: int, approval: str, digest: str) -> str:
        """A yes may name the digest of the call; a few name another one, which decides nothing."""
        text = random.Random(f"{self._seed}/people/{number}").choices(ANSWERS, WEIGHTS)[0].format(approval)
        other = short_digest(digest[::-1])
        named = random.Random(f"{self._seed}/people/digest/{number}").choices(
            ("", short_digest(digest), other), DIGESTS
        )[0]
        return f"{text} {named}" if named and text.startswith("/approve") else text

    def _say(self, number: int, text: str, address: str, principal: str) -> asyncio.Task[None]:
        rng = random.Random(f"{self._seed}/people/{number}")
        rng.choices(ANSWERS, WEIGHTS)  # drawn for the text
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
        work = self._platform.deliver(said) if text else asyncio.sleep(0)
        return asyncio.get_running_loop().create_task(work, name=f"decide {number}")
