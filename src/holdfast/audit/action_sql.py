"""The audit trail: append-only rows, each with a digest over itself and the previous row (audit/action.py).

`record` comes last in a verb that changes other rows: the head of the trail is the last lock of a transaction, so
unrelated acts wait for each other only during a commit.

A decision of an operator about people is also an operation, recorded under its caller's id, and takes effect once (D6):
a paused process may hold a request while another process repeats it, or while an opposite decision is made. The
operation is written first, so of two requests with one id the second waits for the first and returns the same answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.audit.action import (
    EVERY_ACTION,
    HOUR_MS,
    NO_DIGEST,
    PROGRAM,
    Act,
    Action,
    ActionFilter,
    ActionOutcome,
    By,
    columns_of,
    digest_of,
    has_row,
    short,
)
from holdfast.kernel.ids import Instant, OperationId
from holdfast.store.script import Columns, Row, Script, one, plain, rows, run, verb

NEXT = "update action_head set n = n + 1 where id = 1 returning n, digest, cast(:now as int8)"
NEW_HEAD = "insert into action_head (id, n, digest) values (1, 0, :digest) on conflict (id) do nothing"
CHAIN = "update action_head set digest = :digest where id = 1"
ADD = """
insert into action (n, at, verb, actor_kind, actor, label, origin, subject, outcome, code, count, detail, digest)
values (:n, :at, :verb, :actor_kind, :actor, :label, :origin, :subject, :outcome, :code, :count, :detail, :digest)"""
REFUSED = """
insert into refusal (actor, hour, n) values (:actor, cast(:now as int8) / :hour_ms, 1)
on conflict (actor, hour) do update set n = refusal.n + 1 returning n"""
OLD_REFUSALS = "delete from refusal where hour < cast(:now as int8) / :hour_ms - 1"


ACTOR = Columns(By, kind="actor_kind", id="actor")
ACTION = Columns(Action, without=("by",), detail=("detail", msgspec.json.Decoder(dict[str, object]).decode))
FIELDS = f"{ACTOR}, {ACTION}"
MATCHES = """
(:actor = '' or actor = :actor) and (:verb = '' or verb = :verb) and (:subject = '' or subject = :subject)
   and at >= :since"""
NEWEST = f"select {FIELDS} from action where n < :after and {MATCHES} order by n desc limit :limit"
OLDEST = f"select {FIELDS} from action where n > :after and {MATCHES} order by n limit :limit"
LAST = "select n, digest from action_head where id = 1"
SETTINGS = "select subject from action where verb = :verb and outcome = 'done' order by n desc limit 1"
NO_LIMIT = 2**62
START = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, '', :by, 0, :now, :now, 'nothing', null) on conflict (id) do nothing returning id"""
FINISH = "update operation set outcome = :outcome, detail = :detail where id = :id"
RECORDED = "select detail from operation where id = :id"


def record(act: Act, by: By, subject: str, **detail: object) -> Script[None]:
    """Write the row of a completed act. The detail contains ids, numbers and codes."""
    yield from _append(act, by, subject, ActionOutcome.DONE, detail=detail)


def refuse(act: Act, by: By, subject: str, code: str) -> Script[None]:
    """Count a refused attempt, and write its row unless the actor had many within the hour."""
    row = yield from one(REFUSED, actor=_kept(by.id), hour_ms=HOUR_MS)
    count = int(row[0]) if row else 1
    if count == 1:
        yield from run(OLD_REFUSALS, hour_ms=HOUR_MS)
    if has_row(count):
        yield from _append(act, by, subject, ActionOutcome.REFUSED, code=code, count=count)


@verb
def record_action(act: Act, subject: str = "", *, agent: str = "", by: By = PROGRAM) -> Script[None]:
    """Add a row for an act outside the store."""
    yield from record(act, by, subject, **({"agent": agent} if agent else {}))


@verb
def refuse_action(act: Act, subject: str, code: str, *, by: By = PROGRAM) -> Script[None]:
    """Add a row for an act that was refused before any verb ran."""
    yield from refuse(act, by, subject, code)


@verb
def note_settings(digest: str, by: By = PROGRAM) -> Script[bool]:
    known = yield from one(SETTINGS, verb=Act.CONFIG_CHANGED.stored)
    if known is not None and known[0] == digest:
        return False
    yield from record(Act.CONFIG_CHANGED, by, digest)
    return True


def _append(act: Act, by: By, subject: str, outcome: ActionOutcome, **more: Any) -> Script[None]:  # noqa: ANN401
    """Write the next row of the trail; `more` has the other fields of the action."""
    n, before, now = yield from _next()
    action = Action(n=n, at=Instant(now), verb=act.stored, by=kept(by), subject=_kept(subject), outcome=outcome, **more)
    digest = digest_of(action, before)
    yield from run(ADD, **columns_of(action), digest=digest)
    yield from run(CHAIN, digest=digest)


def _next() -> Script[tuple[int, bytes, int]]:
    """Lock the head of the trail; returns the next number, the previous digest and the time."""
    while (row := (yield from one(NEXT))) is None:
        yield from run(NEW_HEAD, digest=NO_DIGEST)
    return row[0], bytes(row[1]), row[2]


def kept(by: By) -> By:
    """The actor as a row keeps it."""
    return replace(by, id=_kept(by.id), label=_kept(by.label), origin=_kept(by.origin))


def _kept(text: str) -> str:
    return plain(short(text)) or ""


# --- operations ------------------------------------------------------------------------------------


def start_operation(operation: OperationId, kind: str, by: str) -> Script[dict[str, Any] | None]:
    """Start an operation. None if it is new; otherwise its recorded detail, empty if it changed nothing."""
    if (yield from one(START, id=operation, kind=kind, by=by)) is not None:
        return None
    row = yield from one(RECORDED, id=operation)
    recorded: dict[str, Any] = msgspec.json.decode(bytes(row[0])) if row is not None and row[0] is not None else {}
    return recorded


def finish_operation(operation: OperationId, detail: Mapping[str, object], *, changed: bool = True) -> Script[None]:
    """Record the result of an operation, with ids and times only."""
    yield from run(FINISH, id=operation, outcome="done" if changed else "nothing", detail=msgspec.json.encode(detail))


# --- reading ---------------------------------------------------------------------------------------


@verb
def list_actions(
    wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100, oldest_first: bool = False
) -> Script[Sequence[Action]]:
    where = {
        "actor": wanted.actor,
        "verb": wanted.act.stored if wanted.act else "",
        "subject": wanted.subject,
        "since": wanted.since,
    }
    place = after if oldest_first else after or NO_LIMIT
    found = yield from rows(OLDEST if oldest_first else NEWEST, after=place, limit=limit, **where)
    return [action_of(row) for row in found]


@verb
def read_last_action() -> Script[tuple[int, bytes]]:
    row = yield from one(LAST)
    return (0, NO_DIGEST) if row is None else (int(row[0]), bytes(row[1]))


def action_of(row: Row) -> Action:
    cut = len(ACTOR.names)
    return ACTION.value(row[cut:], by=ACTOR.value(row[:cut]))
