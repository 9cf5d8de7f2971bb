"""The proof: what the platforms show, what the store holds, and that both tell the same story.

Every message is in the journal once, in the order it was said, with one reply. The platform shows that reply once; or
the ledger says that it is uncertain, and then the platform shows it twice at most. No chat's words are found anywhere
else than in its own session and on its own screen.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import MessageId, SessionId
from holdfast.outbox.reply import PostedReply
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import open_runtime
from holdfast.sessions.history_sql import list_entries, list_sessions, list_summaries, trace_message
from holdfast.store.ports import Database
from holdfast.turns.journal import EntryView, Observed, UserSaid
from tests.chaos.fleet import MARK, Chat, Fleet

PAGE = 200


@dataclass
class Summary:
    messages: int = 0
    uncertain: int = 0
    doubled: int = 0
    unseen: int = 0
    summaries: int = 0
    by_channel: Counter[str] = field(default_factory=Counter)  # uncertain ones

    def __str__(self) -> str:
        shown = f"{self.messages} messages, {self.uncertain} uncertain ({dict(self.by_channel)})"
        return f"{shown}, {self.doubled} shown twice, {self.unseen} not shown, {self.summaries} summaries"


@dataclass
class Story:
    """One canary in the store: the messages of its sessions in the order of the journal."""

    numbers: list[int] = field(default_factory=list)
    messages: list[MessageId] = field(default_factory=list)


async def prove(data: Path, fleet: Fleet) -> Summary:
    """Raises `AssertionError` with the chat and what is wrong with it."""
    summary = Summary()
    async with await open_runtime(data, serve=False) as runtime:
        stories: dict[str, Story] = defaultdict(Story)
        for session in await sessions_of(runtime.db):
            await read(runtime.db, session, stories, summary)
        for chat in fleet.chats:
            await judge(chat, stories[chat.canary], runtime.db, summary)
        committed = [reply.message async for reply in replies_of(runtime.db)]
    assert len(committed) == len(set(committed)) == fleet.said, "one reply for each message, and no others"
    assert not any(bot.pending for bot in fleet.telegram.bots.values()), "updates that were never confirmed"
    return summary


async def sessions_of(db: Database) -> Sequence[SessionId]:
    """Oldest first."""
    found: list[SessionId] = []
    while page := await db.read(list_sessions(after=found[-1] if found else "", limit=100)):
        found += [session.id for session in page]
    return found[::-1]


async def replies_of(db: Database) -> AsyncIterator[PostedReply]:
    after = 0
    while page := await db.read(list_replies(after=after, limit=1_000)):
        for reply in page:
            yield reply
        after = page[-1].n


async def entries_of(db: Database, session: SessionId) -> AsyncIterator[EntryView]:
    after = 0
    while page := await db.read(list_entries(session, after=after, limit=PAGE)):
        for view in page:
            yield view
        after = page[-1].entry.seq


async def read(db: Database, session: SessionId, stories: dict[str, Story], summary: Summary) -> None:
    """Record the messages of a session. Its entries may contain one canary only."""
    canaries: set[str] = set()
    said: list[UserSaid | Observed] = []
    async for view in entries_of(db, session):
        canaries |= canaries_in(msgspec.json.encode(view.entry.body).decode())
        if isinstance(view.entry.body, UserSaid | Observed):
            said.append(view.entry.body)
    for one in await db.read(list_summaries(session)):
        canaries |= canaries_in(one.text)
        summary.summaries += 1
    assert len(canaries) <= 1, f"{session}: words of several chats: {sorted(canaries)}"
    for body in said:
        mark = MARK.search(body.text)
        if mark is not None:
            assert isinstance(body, UserSaid), f"{mark[0]}: overheard, not answered"
            stories[mark["canary"]].numbers.append(int(mark["number"]))
            stories[mark["canary"]].messages.append(MessageId(body.message))


def canaries_in(text: str) -> set[str]:
    return {mark["canary"] for mark in MARK.finditer(text)}


async def judge(chat: Chat, story: Story, db: Database, summary: Summary) -> None:
    wanted = list(range(1, chat.said + 1))
    assert story.numbers == wanted, f"{chat.canary}: lost, doubled or out of order in the journal"
    traces = [await db.read(trace_message(message)) for message in story.messages]
    shown = chat.answers()
    assert shown == sorted(shown), f"{chat.canary}: replies out of order: {shown}"
    for number, trace in zip(wanted, traces, strict=True):
        judge_reply(chat, number, trace, shown.count(number), summary)
    assert set(shown) <= set(wanted), f"{chat.canary}: replies to nothing"


def judge_reply(chat: Chat, number: int, trace: MessageTrace, times: int, summary: Summary) -> None:
    who, reply = f"{chat.canary} number {number}", trace.reply
    assert trace.agent == chat.agent, who
    assert trace.state is MessageState.ANSWERED, f"{who}: {trace.state} {trace.reason}"
    assert reply is not None, f"{who}: no reply"
    assert who in reply.text, f"{who}: answered with other words"
    is_uncertain = reply.state == "uncertain"
    assert is_uncertain or reply.state == "delivered", f"{who}: {reply.state} {reply.reason}"
    assert times <= 2 if is_uncertain else times == 1, f"{who}: {reply.state}, but shown {times} times"
    summary.messages += 1
    summary.uncertain += is_uncertain
    summary.doubled += times > 1
    summary.unseen += times == 0
    if is_uncertain:
        summary.by_channel[trace.agent.rstrip("0123456789")] += 1
