"""Mutants of the durable core. Those of delivery and recall are in `mutants_delivery`, of forgetting in
`mutants_forget`, of replies in `mutants_replies`, of approvals in `mutants_approval`, of pauses in `mutants_pauses`,
of repairs in `mutants_repairs`, of the audit trail in `mutants_actions`, of command rights in `mutants_rights`, of
visibility in `mutants_visibility`, of the worker's transactions in `mutants_work`, and of the areas in `mutants_store`
and `mutants_channels`."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.inbox import accept_sql, mailbox_sql
from holdfast.inbox.mailbox import Claim
from holdfast.inbox.message import Accepted, AcceptOutcome, Arrival
from holdfast.kernel.ids import MailboxId, SessionId
from holdfast.memory import cursor_sql
from holdfast.memory.delivery import DeliveryPolicy, NamingInputs, TurnSpan, Unit, due_units
from holdfast.outbox import reply_sql
from holdfast.sessions import summary_sql
from holdfast.sessions.compression import Operation, Summary, SummaryDraft
from holdfast.store import node_sql
from holdfast.store.script import Call, Script, one, run
from holdfast.testing import (
    mutants_actions,
    mutants_approval,
    mutants_channels,
    mutants_delivery,
    mutants_forget,
    mutants_pauses,
    mutants_repairs,
    mutants_replies,
    mutants_rights,
    mutants_store,
    mutants_visibility,
    mutants_work,
)
from holdfast.testing.entropy import SeededEntropy
from holdfast.testing.mutant import MUTANTS, Mutant, Patch, arguments, mutant
from holdfast.testing.watched import NodeDatabase
from holdfast.turns import context_sql, runner, turn_sql, work_sql
from holdfast.turns.context import Context
from holdfast.turns.journal import Entry
from holdfast.turns.turn import NewReply, OpenCall, Turn, TurnCommit, open_calls

__all__ = [
    "MUTANTS",
    "Mutant",
    "mutants_actions",
    "mutants_approval",
    "mutants_channels",
    "mutants_delivery",
    "mutants_forget",
    "mutants_pauses",
    "mutants_repairs",
    "mutants_replies",
    "mutants_rights",
    "mutants_store",
    "mutants_visibility",
    "mutants_work",
]

ACK_TO_COMMIT_S = 0.4


# --- accepting -----------------------------------------------------------------------------------------------------


@mutant("I1", budget=20, short=63)
def ack_before_commit() -> Sequence[Patch]:
    """A message is acknowledged before it is written."""
    honest = NodeDatabase.write

    async def broken(db: NodeDatabase, call: Call[Any]) -> Any:  # noqa: ANN401
        if call.verb != accept_sql.accept_message.name:
            return await honest(db, call)

        async def later() -> None:
            await asyncio.sleep(ACK_TO_COMMIT_S)
            await honest(db, call)

        kept.append(asyncio.get_running_loop().create_task(later(), name="too late"))
        arrival = arguments(call)[0]
        return Accepted(arrival.message, MailboxId("unknown"), 0)

    kept: list[object] = []
    return [(NodeDatabase, "write", broken)]


@mutant("I1", "I2", budget=20, short=3)
def no_dedupe() -> Sequence[Patch]:
    """A redelivered message counts as another one."""
    honest = accept_sql.accept_message.script

    def broken(arrival: Arrival, *more: Any, **named: Any) -> Script[AcceptOutcome]:  # noqa: ANN401
        another = replace(arrival, conversation=f"{arrival.conversation}/{arrival.message}")
        return (yield from honest(another, *more, **named))

    return [(accept_sql, "accept_message", broken)]


@mutant("I15", budget=20, short=62)
def depth_drift() -> Sequence[Patch]:
    """A signal counts as waiting mail."""
    return [(accept_sql, "GROW", accept_sql.GROW.replace("depth + :heavier", "depth + 1"))]


# --- claims --------------------------------------------------------------------------------------------------------


@mutant("I4", budget=30, first=6)
def no_fence() -> Sequence[Patch]:
    """A worker whose lease expired may still write."""

    def broken(_claim: Claim, _fence: int) -> bool:
        return True

    return [(turn_sql, "stands", broken), (mailbox_sql, "stands", broken)]


@mutant("I14", "I15", budget=10, short=3)
def lease_ignored() -> Sequence[Patch]:
    """A claimed mailbox can be claimed as if it were free. Workers take it from each other forever."""
    return [(mailbox_sql, "CLAIM", mailbox_sql.CLAIM.replace("where owner is null and ready_at", "where ready_at"))]


@mutant("I13", budget=10, short=3)
def restart_bumps_fences() -> Sequence[Patch]:
    """A node that joins changes unclaimed mailboxes."""
    honest = node_sql.register_node.script

    def broken(node: Any, host: str, *, sole: bool) -> Script[None]:  # noqa: ANN401
        yield from honest(node, host, sole=sole)
        yield from run("update mailbox set fence = fence + 1 where owner is null")

    return [(node_sql, "register_node", broken)]


@mutant("I3", budget=10, short=3)
def order() -> Sequence[Patch]:
    """Messages are read newest first."""
    return [(mailbox_sql, "WAITING", mailbox_sql.WAITING.replace("order by seq", "order by seq desc"))]


# --- turns ---------------------------------------------------------------------------------------------------------


@mutant("I15", "I11", budget=30, short=60)
def split_commit() -> Sequence[Patch]:
    """The end of a turn is written in two transactions: the reply and the cursor work come second."""

    def second(claim: Claim, turn: Turn, commit: TurnCommit) -> Script[None]:
        for said in commit.replies:
            yield from reply_sql.insert_reply(
                said,
                mailbox=claim.mailbox,
                address=claim.address,
                channel="sim",
                message=turn.messages[-1],
                session=turn.session,
                turn=turn.n,
            )
        names = NamingInputs(agent=claim.agent, session=turn.session, principal=turn.principal, address=claim.address)
        yield from run(
            "update turn set places = :places where session = :session and n = :n",
            places=cursor_sql.places_of(commit.policies, names),
            session=turn.session,
            n=turn.n,
        )
        yield from cursor_sql.schedule(turn.session, claim.agent, commit.policies, start=turn.first_seq - 1)

    honest = NodeDatabase.write

    async def broken(db: NodeDatabase, call: Call[Any]) -> Any:  # noqa: ANN401
        if call.verb != work_sql.end_turn.name:
            return await honest(db, call)
        claim, turn, commit, planner, known = arguments(call)
        silent = replace(commit, replies=(), policies=())
        done = await honest(db, work_sql.end_turn(claim, turn, silent, planner, known))
        await honest(db, Call(call.verb, lambda: second(claim, turn, commit)))
        return done

    return [(NodeDatabase, "write", broken)]


@mutant("I15", budget=5, short=3)
def double_reply() -> Sequence[Patch]:
    """Every reply is written twice."""
    honest = reply_sql.insert_reply

    def broken(said: NewReply, **place: Any) -> Script[None]:  # noqa: ANN401
        yield from honest(said, **place)
        yield from honest(replace(said, id=f"{said.id}-again"), **place)  # type: ignore[arg-type]

    return [(turn_sql, "insert_reply", broken)]


@mutant("I2", budget=240, first=23)
def resume_repeats_tool() -> Sequence[Patch]:
    """A resumed turn runs a tool again although it may have taken effect."""

    def broken(entries: Sequence[Entry]) -> tuple[OpenCall, ...]:
        return tuple(replace(call, started=False) for call in open_calls(entries))

    return [(runner, "open_calls", broken)]


# --- compression ---------------------------------------------------------------------------------------------------


def _after_summary(more: Callable[[Operation, Summary], Script[None]]) -> Sequence[Patch]:
    honest = summary_sql.commit_summary.script

    def broken(operation: Operation, draft: SummaryDraft) -> Script[Summary]:
        made = yield from honest(operation, draft)
        yield from more(operation, made)
        return made

    return [(summary_sql, "commit_summary", broken)]


@mutant("I2", "I9", budget=20, short=5)
def compress_drops_arrivals() -> Sequence[Patch]:
    """Messages that arrive during compression are discarded with the old context."""

    def more(operation: Operation, _made: Summary) -> Script[None]:
        yield from run(
            """update mailbox set depth = depth - (select count(*) from inbound where mailbox = mailbox.id
                and state = 'waiting' and kind = 'text')
                where session_id = :session""",
            session=operation.session,
        )
        yield from run(
            """update inbound set state = 'answered', session = :session, turn = 1
                where state = 'waiting' and kind = 'text'
                  and mailbox = (select id from mailbox where session_id = :session)""",
            session=operation.session,
        )

    return _after_summary(more)


@mutant("I9", budget=10, short=2)
def rotate_on_compress() -> Sequence[Patch]:
    """Compression continues in a new session, as in the incident: the id changes and the history is lost."""

    def more(operation: Operation, made: Summary) -> Script[None]:
        idle = yield from one(
            "select id from session where id = :session and open_turn is null", session=operation.session
        )
        if idle is None:
            return
        child = SessionId(f"{operation.session}-{made.n}")
        yield from run(
            """insert into session (id, agent, mailbox, principal, purpose, state, last_seq, committed_seq, turns,
                                    summaries, opened_at, active_at)
               select :child, agent, mailbox, principal, purpose, 'open', 0, 0, 0, 0, :now, :now
                 from session where id = :session""",
            child=child,
            session=operation.session,
        )
        yield from run(
            "update mailbox set session_id = :child where session_id = :session",
            child=child,
            session=operation.session,
        )

    return _after_summary(more)


@mutant("I9", budget=20, short=3)
def compress_another_session() -> Sequence[Patch]:
    """A summary is filed under another session, as in the incident."""
    honest = summary_sql.commit_summary.script

    def broken(operation: Operation, draft: SummaryDraft) -> Script[Summary]:
        other = yield from one(
            """select id, undo_count from session
                where id <> :session and summaries = 0 and fork_n = 0 and committed_seq >= :through and state = 'open'
                order by id limit 1""",
            session=operation.session,
            through=draft.covers_through,
        )
        if other is None or draft.base_n:
            return (yield from honest(operation, draft))
        elsewhere = replace(operation, session=SessionId(other[0]))
        return (yield from honest(elsewhere, replace(draft, undo_count=other[1])))

    return [(summary_sql, "commit_summary", broken)]


@mutant("I9", budget=120, first=28)
def undo_ignored_by_summary() -> Sequence[Patch]:
    """A summary stays valid although a turn it covers was undone."""

    def broken(_covers_through: int, _head_seq: int, _voiding: Sequence[Entry]) -> bool:
        return False

    return [(summary_sql, "is_voided", broken)]


@mutant("I9", budget=30, short=4)
def stale_context() -> Sequence[Patch]:
    """A cached context is not read again after an undo or a summary."""

    def broken(known: Context, now: Context) -> bool:
        return known.last_seq <= now.last_seq

    return [(context_sql, "_grown_only", broken)]


# --- cursor work ---------------------------------------------------------------------------------------------------


@mutant("I11", budget=10, short=3)
def lose_cursor_work() -> Sequence[Patch]:
    """Sometimes a commit schedules no delivery, and the cursor is moved past the turn later."""
    honest = cursor_sql.schedule

    def broken(*what: Any, start: int, **more: Any) -> Script[None]:  # noqa: ANN401
        if start % 3:
            yield from honest(*what, start=start, **more)

    return [(turn_sql, "schedule", broken)]


@mutant("I11", budget=20, short=62)
def unit_spans_principals() -> Sequence[Patch]:
    """A unit holds turns of several people under the name of the first."""

    def broken(pending: Sequence[TurnSpan], policy: DeliveryPolicy, *, boundary: bool) -> tuple[Unit, ...]:
        merged = [span._replace(principal=pending[0].principal) for span in pending]
        return due_units(merged, policy, boundary=boundary)

    return [(cursor_sql, "due_units", broken)]


# --- the machine ---------------------------------------------------------------------------------------------------


@mutant("I12", budget=10, short=3)
def damaged_index() -> Sequence[Patch]:
    """An index differs from its table."""

    def more(_operation: Operation, _made: Summary) -> Script[None]:
        yield from run("pragma writable_schema=on")
        yield from run(
            "update sqlite_schema set sql = replace(sql, 'started_at)', 'fence)') where name = 'operation_session'"
        )
        yield from run("pragma writable_schema=off")
        yield from run("pragma schema_version=4711")

    return _after_summary(more)


@mutant("I18", budget=3, twice=True, short=3)
def nondeterminism() -> Sequence[Patch]:
    """Randomness comes from the machine."""

    def broken(_entropy: SeededEntropy, count: int) -> int:
        return secrets.randbits(count)

    return [(SeededEntropy, "bits", broken)]
