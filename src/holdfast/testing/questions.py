"""Queries of an operator to a node at any time of a history, including queries about ids that do not exist.

The subjects are read from the database just before the query, so most queries are about rows that exist and are being
changed. A named error is an answer; any other exception ends the history.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import apsw

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.access_token_sql import (
    add_login,
    add_token,
    end_login,
    end_logins,
    find_login,
    find_token,
    get_token,
    list_logins,
    list_tokens,
    revoke_token,
    see_login,
)
from holdfast.api.auth.login import LASTS_MS, Login, LoginEnd, hash_cookie, spell_cookie
from holdfast.audit.actor import acting
from holdfast.inbox.attachment_sql import find_attachment, list_attachments, read_attachment
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    Instant,
    LoginId,
    MessageId,
    ReplyId,
    SessionId,
    TokenId,
)
from holdfast.memory.notes import stream_of
from holdfast.memory.notes_sql import list_memory_operations, list_memory_subjects
from holdfast.monitor.find_session_sql import find_sessions
from holdfast.monitor.finish_sql import list_resting_sessions
from holdfast.monitor.message_list import MessageFilter
from holdfast.monitor.message_list_sql import list_messages, read_listed
from holdfast.monitor.message_outcome_sql import read_outcomes
from holdfast.monitor.node_run_sql import list_node_runs
from holdfast.monitor.notes_list_sql import list_newest_changes, list_notes
from holdfast.monitor.proved_write_sql import read_proved_writes
from holdfast.monitor.queues_sql import read_queues
from holdfast.monitor.sample import SampleSpan
from holdfast.monitor.sample_sql import count_sample_holes, list_samples
from holdfast.monitor.session_facts_sql import read_session_facts
from holdfast.monitor.session_list import SessionFilter
from holdfast.monitor.session_list_sql import search_sessions
from holdfast.monitor.session_steps import session_steps
from holdfast.monitor.status import headline
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.tail_sql import read_tail, start_tail
from holdfast.monitor.time_spent import time_spent
from holdfast.monitor.timeline import timeline
from holdfast.monitor.trace_sql import find_messages, near_messages, read_trace
from holdfast.monitor.turn_words import payloads
from holdfast.monitor.turn_words_sql import read_words
from holdfast.monitor.undecided_sql import list_lanes, list_parked, list_undecided_replies, plan_replay
from holdfast.outbox.reply_sql import list_replies, read_reply
from holdfast.repair.findings_sql import read_findings
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.transfer import ExportCounts, export, find_scope
from holdfast.sessions.compression_audit import Audit
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.sessions.history_sql import (
    find_mailbox,
    list_operations,
    list_session_facts,
    list_summaries,
    read_conversation,
    read_snapshot,
)
from holdfast.testing.scope import LEASE_MS
from holdfast.testing.workload import CHATS
from holdfast.transfer.lines import check_whole, rows_in
from holdfast.turns.approval_sql import is_waiting_at
from holdfast.turns.spend_sql import sum_spend_by_day, sum_spend_by_model

FERN = AgentName("fern")
TOKEN = AccessToken(id=TokenId("tok_sim"), label="sim", scopes=frozenset({Scope.READ}))
TOKEN_HASH = b"0" * 32
AFTER_A_CRASH = {"node_dead", "claim_orphaned", "reply_attempting", "lane_blocked"}

Question: TypeAlias = Callable[[Runtime, apsw.Connection, float], Awaitable[object]]


def _pick(db: apsw.Connection, table: str, column: str, chance: float) -> str:
    """One of the values, or one that does not exist."""
    found = [str(value) for (value,) in db.execute(f"select {column} from {table} order by {column}").fetchall()]  # noqa: S608
    return found[int(chance * len(found))] if found else "none"


def _of_session(ask: Callable[[Runtime, SessionId], Awaitable[Any]]) -> Question:
    return lambda node, db, chance: ask(node, SessionId(_pick(db, "session", "id", chance)))


def _of_message(ask: Callable[[Runtime, MessageId], Awaitable[Any]]) -> Question:
    return lambda node, db, chance: ask(node, MessageId(_pick(db, "inbound", "message", chance)))


def _plain(ask: Callable[[Runtime], Awaitable[Any]]) -> Question:
    return lambda node, _db, _chance: ask(node)


async def audit(node: Runtime, _db: apsw.Connection, _chance: float) -> str | None:
    """The findings of `holdfast audit` beside a running process."""
    judged = Audit()
    for facts in await node.db.read(list_session_facts(limit=1_000)):
        judged.add(facts)
    first = judged.report().first
    return f"the audit says of {first.session}: {first.what}" if first else None


async def _doctor(node: Runtime, _db: apsw.Connection, _chance: float) -> str | None:
    """The findings of `holdfast doctor` that no crash explains, beside running processes."""
    found = await node.db.read(read_findings(lease_ms=LEASE_MS))
    wrong = {code: evidence for code, evidence in found.items() if code not in AFTER_A_CRASH}
    return f"the doctor says {wrong}" if wrong else None


async def _export(node: Runtime, _db: apsw.Connection, _chance: float) -> int:
    """An export of everything is whole at any time, and every row of it can be imported."""
    scope = await find_scope(node.db, agent="", chat="", session="")
    lines = [line async for line in export(node, scope, ExportCounts(), lambda *_: None)]
    assert check_whole(lines).rows == len(list(rows_in(lines)))
    return len(lines)


async def _snapshot(node: Runtime, db: apsw.Connection, chance: float) -> object:
    """Of the newest summary, or of one that does not exist."""
    session = SessionId(_pick(db, "summary", "session", chance))
    made = await node.db.read(list_summaries(session))
    return await node.db.read(read_snapshot(session, made[-1].n if made else 1))


async def _attachment(node: Runtime, db: apsw.Connection, chance: float) -> object:
    await node.db.read(list_attachments(MessageId(_pick(db, "enclosure", "message", chance))))
    hash_ = _pick(db, "enclosure", "hash", chance)
    return await node.db.read(find_attachment(hash_)), await node.db.read(read_attachment(hash_))


async def _reply(node: Runtime, db: apsw.Connection, chance: float) -> object:
    return await node.db.read(read_reply(ReplyId(_pick(db, "reply", "id", chance))))


async def _decision(node: Runtime, db: apsw.Connection, chance: float) -> object:
    approval = ApprovalId(_pick(db, "approval", "id", chance))
    return await node.db.read(is_waiting_at(str(CHATS[0].address), approval)), await node.approvals.find(approval)


async def _token(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    await node.db.write(add_token(TOKEN, TOKEN_HASH, by=acting()))
    assert await node.db.read(find_token(TOKEN_HASH)) is not None
    await node.db.read(get_token(TOKEN.id))
    await node.db.read(list_tokens())
    return await node.db.write(revoke_token(TOKEN.id, by=acting()))


async def _login(node: Runtime, _db: apsw.Connection, chance: float) -> object:
    """A browser logs in and out; its cookie is one of a few."""
    cookie, now = spell_cookie(int(chance * 4)), node.clock.now()
    hashed, id_ = hash_cookie(cookie), LoginId(f"log_{cookie}")
    ends_at = Instant(now + LASTS_MS)
    login = Login(id=id_, token=TOKEN.id, proof=b"", made_at=now, seen_at=now, ends_at=ends_at)
    await node.db.write(add_login(login, hashed, by=acting()))
    await node.db.write(see_login(hashed, now))
    found = await node.db.read(find_login(hashed))
    await node.db.write(end_login(hashed, LoginEnd.LOGOUT, by=acting()))
    await node.db.write(end_logins(LoginEnd.OPERATOR, token=TOKEN.id, by=acting()))
    return found, await node.db.read(list_logins())


async def _timeline(node: Runtime, db: apsw.Connection, chance: float) -> object:
    """Whatever happened to a message, it can be told, with its words."""
    message = MessageId(_pick(db, "inbound", "message", chance))
    words = await node.db.read(read_words(message))
    facts = await node.db.read(read_trace(message))
    told = timeline(facts)
    ended_at = facts.turn.closed_at if facts.turn is not None else None
    spent = time_spent(told, accepted_at=facts.message.accepted_at, ended_at=ended_at, now=facts.at)
    return payloads(told.steps, words), spent


async def _session_page(node: Runtime, db: apsw.Connection, chance: float) -> object:
    """The newest part of a session as a timeline, and a page of the list."""
    await node.db.read(search_sessions(SessionFilter(text="a"), limit=5))
    return session_steps(await node.db.read(read_session_facts(SessionId(_pick(db, "session", "id", chance)))))


async def _upkeep_pages(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    """What the console's pages about notes, ends and costs read."""
    await node.db.read(list_notes(text="a", limit=5))
    await node.db.read(list_newest_changes(stream_of(FERN, ""), limit=5))
    await node.db.read(list_resting_sessions(FERN, limit=5))
    return await node.db.read(sum_spend_by_day(days=2))


async def _status(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    return headline(await node.db.read(read_status())), await node.db.read(read_proved_writes())


async def _tail(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    """What happened since a moment ago, twice: nothing is told a second time."""
    page = await node.db.read(read_tail(await node.db.read(start_tail())))
    return await node.db.read(read_tail(page.cursor))


async def _find(node: Runtime, db: apsw.Connection, chance: float) -> object:
    """The message of a reply, of a delivery, and of a mistyped id; and a page of messages."""
    for wanted in (_pick(db, "reply", "id", chance), _pick(db, "delivery", "id", chance)):
        await node.db.read(find_messages(wanted))
    near = await node.db.read(near_messages(_pick(db, "inbound", "message", chance)[:-1]))
    await node.db.read(read_listed(near))
    await node.db.read(find_sessions(_pick(db, "session", "id", chance)[:-1]))
    page = await node.db.read(list_messages(MessageFilter(agent="fern", text="m1"), limit=5))
    return page, await node.db.read(read_outcomes([one.message for one in page.messages]))


async def _undecided(node: Runtime, db: apsw.Connection, chance: float) -> object:
    """What waits at providers and platforms, and what a replay would do."""
    await node.db.read(list_lanes(limit=5))
    await node.db.read(list_parked(limit=5))
    await node.db.read(list_undecided_replies(limit=5))
    return await node.db.read(plan_replay(DeliveryId(_pick(db, "delivery", "id", chance))))


async def _samples(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    return await node.db.read(count_sample_holes()), await node.db.read(list_samples(SampleSpan.MINUTE, Instant(0)))


async def _recall(node: Runtime, _db: apsw.Connection, _chance: float) -> object:
    return await node.recall("what is it", agent="fern", chat="home", sender="ada", channel="sim")


QUESTIONS: Mapping[str, Question] = {
    "audit": audit,
    "attachment": _attachment,
    "approvals": _plain(lambda node: node.approvals.list()),
    "compress": _of_session(lambda node, session: node.begin_compression(session)),
    "context": _of_session(lambda node, session: node.context(session)),
    "conversation": _plain(
        lambda node: node.db.read(read_conversation(str(CHATS[0].address), before=1 << 31, limit=20))
    ),
    "decision": _decision,
    "deliveries": _plain(lambda node: node.deliveries()),
    "doctor": _doctor,
    "ends": _plain(lambda node: node.db.read(list_finalisations())),
    "export": _export,
    "find": _find,
    "gauges": _plain(lambda node: node.db.read(read_queues())),
    "health": _plain(lambda node: node.health()),
    "history": _of_session(lambda node, session: node.history(session)),
    "login": _login,
    "links": _plain(lambda node: node.access.links()),
    "mailbox": _plain(lambda node: node.db.read(find_mailbox(str(CHATS[0].address)))),
    "memory history": _plain(lambda node: node.db.read(list_memory_operations(FERN, "", after=0, limit=200))),
    "nodes": _plain(lambda node: node.db.read(list_node_runs())),
    "notes": _plain(lambda node: node.db.read(list_memory_subjects(FERN))),
    "operations": _plain(lambda node: node.db.read(list_operations())),
    "pairings": _plain(lambda node: node.access.pairs()),
    "prompt": _of_session(lambda node, session: node.prompt(session)),
    "recall": _recall,
    "replies": _plain(lambda node: node.db.read(list_replies())),
    "reply": _reply,
    "samples": _samples,
    "session page": _session_page,
    "sessions": _plain(lambda node: node.sessions(agent="fern")),
    "snapshot": _snapshot,
    "spend": _plain(lambda node: node.db.read(sum_spend_by_model())),
    "status": _status,
    "tail": _tail,
    "timeline": _timeline,
    "token": _token,
    "trace": _of_message(lambda node, message: node.trace(message)),
    "undecided": _undecided,
    "upkeep pages": _upkeep_pages,
    "unanswered": _plain(lambda node: node.unanswered("home", "", agent="fern", channel="sim")),
}
