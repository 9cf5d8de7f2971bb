"""Operators: people at a command line who handle what needs a human, through any live node.

One operator resends uncertain and failed replies. Another decides approvals while people decide them in the chat, so
that two decisions about one approval may meet.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import apsw

from holdfast.kernel.ids import ApprovalId, ReplyId
from holdfast.outbox.reply import PostedReply
from holdfast.runtime.runtime import Runtime
from holdfast.testing.chats import ChatServer
from holdfast.testing.retrying_client import AnswerHeard, RetryingClient
from holdfast.turns.approval import ApprovalView, Decision

LOOK_S = 1.1
RESENDS_MAX = 2  # of one reply
RESEND_SHARE = 0.6
DECIDE_SHARE = 0.7
TO_RESEND = "select id from reply where state in ('uncertain', 'failed') and channel = 'sim' order by n"
TO_DECIDE = "select id from approval where decided_at is null order by asked_at, id"


@dataclass(slots=True)
class OperatorLog:
    """The requests of operators, and the answers they got."""

    resends: Counter[str] = field(default_factory=Counter)  # by reply: how many requests may have had an effect
    sent_before: dict[str, int] = field(default_factory=dict)  # by reply: calls of the platform before the resend
    decided: list[ApprovalView] = field(default_factory=list)  # as in the answers


class Resender:
    def __init__(
        self,
        seed: int | str,
        client: RetryingClient,
        observe: Callable[[], apsw.Connection],
        server: ChatServer,
        log: OperatorLog,
    ) -> None:
        self._chance = random.Random(f"{seed}/area/resend/which")
        self._client = client
        self._server = server
        self._observe = observe
        self._log = log
        self._looked_at: Counter[str] = Counter()

    async def act(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for (found,) in self._observe().execute(TO_RESEND).fetchall():
                reply = str(found)
                self._looked_at[reply] += 1
                if self._looked_at[reply] <= RESENDS_MAX and self._chance.random() < RESEND_SHARE:
                    await self._resend(ReplyId(reply))

    async def _resend(self, reply: ReplyId) -> None:
        before = sum(call.post.reply == reply for call in self._server.calls)
        # Another resend may have begun to send it since it was listed; then this one has no effect.
        is_open = (reply,) in self._observe().execute(TO_RESEND).fetchall()

        async def ask(runtime: Runtime) -> PostedReply:
            self._log.resends[reply] += 1  # counted first: the history may end before the answer
            return await runtime.resend(reply)

        heard: AnswerHeard[PostedReply] = await self._client.until_heard(f"resend {reply}", ask)
        if is_open and isinstance(heard.answer, PostedReply):
            self._log.sent_before[reply] = before


class Decider:
    def __init__(
        self, seed: int | str, client: RetryingClient, observe: Callable[[], apsw.Connection], log: OperatorLog
    ) -> None:
        self._chance = random.Random(f"{seed}/area/decide/what")
        self._client = client
        self._observe = observe
        self._log = log
        self._seen: set[str] = set()

    async def act(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for (found,) in self._observe().execute(TO_DECIDE).fetchall():
                approval = str(found)
                if approval not in self._seen:
                    self._seen.add(approval)
                    await self._decide(ApprovalId(approval))

    async def _decide(self, approval: ApprovalId) -> None:
        if self._chance.random() >= DECIDE_SHARE:
            return
        decision = self._chance.choice((Decision.APPROVED, Decision.DENIED))
        await asyncio.sleep(self._chance.random() * 2)
        heard: AnswerHeard[ApprovalView] = await self._client.until_heard(
            f"decide {approval}", lambda runtime: runtime.approvals.decide(approval, decision)
        )
        if isinstance(heard.answer, ApprovalView):
            self._log.decided.append(heard.answer)
