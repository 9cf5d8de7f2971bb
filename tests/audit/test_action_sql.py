"""Every privileged action adds exactly one row with the actor, the action and its target, in the transaction of the
action. An action that is cut off adds none, and a repeated one adds no second. Rows never change, and verification
finds a changed row.
"""

import json
from dataclasses import replace
from typing import cast

import pytest

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.access_token_sql import add_login, add_token, end_login, end_logins, revoke_token
from holdfast.api.auth.login import Login, LoginEnd
from holdfast.audit.action import (
    NO_DIGEST,
    PROGRAM,
    REFUSALS_MAX,
    Act,
    ActionFilter,
    ActionOutcome,
    ActorKind,
    By,
    broken_link,
)
from holdfast.audit.action_sql import list_actions, note_settings, read_last_action, record_action, refuse_action
from holdfast.audit.actor import acting, acting_as
from holdfast.hermes.importing.import_sql import ImportRun, finish_import
from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.access_sql import ask_pairing, decide_pairing, unpair
from holdfast.inbox.address import Address
from holdfast.inbox.identity import ChatMove
from holdfast.inbox.identity_sql import link_principals, move_address, move_chat, unlink_principal
from holdfast.kernel.errors import HoldfastError, IdentityConflict, StoreUnavailable
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    ForgetId,
    LoginId,
    OperationId,
    Principal,
    ReplyId,
    TokenId,
)
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.notes import MemoryBatch, MemoryUndo, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory, undo_memory
from holdfast.memory.replay_sql import backfill_sessions, replay_delivery
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply_sql import resend_reply
from holdfast.repair.plan import RepairSubject, RepairVerb
from holdfast.repair.repair_sql import repair_batch
from holdfast.repair.store_repair_sql import repair_rows
from holdfast.sessions.command_rights import Rank
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.finalisation import FinishEvent
from holdfast.sessions.finalisation_sql import record_finalisation, retry_finalisation
from holdfast.store.membership import LEASE_MS
from holdfast.store.ports import Database
from holdfast.store.script import Call, run
from holdfast.transfer.import_sql import import_rows
from holdfast.transfer.lines import ImportedRow
from holdfast.turns.agent_pause_sql import pause_agent, resume_agent
from holdfast.turns.approval import Decision
from holdfast.turns.approval_sql import decide_approval
from tests.inbox import test_access_sql as test_access
from tests.inbox.test_identity_sql import linking
from tests.memory import test_lane_sql as test_lanes
from tests.outbox import test_reply_sql as test_replies
from tests.sessions import test_finalisation_sql as test_finish
from tests.store.test_atomic import Cutting
from tests.support.driver import LIMITS, SECRET, address_of, retain
from tests.turns.test_approval_sql import waiting

FERN = AgentName("fern")
GROUP = {"channel": "telegram", "type": "group"}
OPERATOR = By(kind=ActorKind.TOKEN, id="tok_1", label="website", origin="http 127.0.0.1")
HOUR_MS = 3_600_000
STATEMENTS_MAX = 300


# --- every act: the state before it, and the call ---------------------------------------------------


async def token_created(driver):
    token = AccessToken(id=TokenId("tok_9"), label="new", scopes=frozenset({Scope.SEND}))
    return "tok_9", lambda db: db.write(add_token(token, b"hash", by=acting()))


async def token_revoked(driver):
    await (await token_created(driver))[1](driver.db)
    return "tok_9", lambda db: db.write(revoke_token(TokenId("tok_9"), by=acting()))


async def logged_in(driver):
    now = driver.clock.now()
    login = Login(id=LoginId("log_1"), token=TokenId("tok_9"), proof=b"", made_at=now, seen_at=now, ends_at=now)
    return "tok_9", lambda db: db.write(add_login(login, b"hash", by=acting()))


async def logged_out(driver):
    await (await logged_in(driver))[1](driver.db)
    return "tok_9", lambda db: db.write(end_login(b"hash", LoginEnd.LOGOUT, by=acting()))


async def logins_ended(driver):
    await (await logged_in(driver))[1](driver.db)
    return "all", lambda db: db.write(end_logins(LoginEnd.OPERATOR, by=acting()))


async def admitted(driver, *, admit=True):
    await driver.db.write(ask_pairing(test_access.ask(driver)))
    decision = test_access.verdict(driver, admit=admit)
    return test_access.BOB, lambda db: db.write(decide_pairing(decision, by=acting()))


async def denied(driver):
    return await admitted(driver, admit=False)


async def withdrawn(driver):
    await (await admitted(driver))[1](driver.db)
    who, operation = test_access.BOB, OperationId(driver.id("op"))
    return who, lambda db: db.write(unpair(who, named="test", operation=operation, by=acting()))


async def linked(driver):
    request = linking(driver, "telegram:1", "ada")
    return "telegram:1", lambda db: db.write(link_principals(request, by=acting()))


async def unlinked(driver):
    await driver.db.write(link_principals(linking(driver, "telegram:1", "ada"), by=acting()))
    operation = OperationId(driver.id("op"))
    return "telegram:1", lambda db: db.write(
        unlink_principal(Principal("telegram:1"), named="test", operation=operation, by=acting())
    )


async def address_moved(driver):
    await driver.chat("one")
    old = Address(agent=FERN, channel="http", type="chat", chat="home")
    new, operation = replace(old, chat="new"), OperationId(driver.id("op"))
    return str(new), lambda db: db.write(move_address(old, new, named="test", operation=operation, by=acting()))


async def chat_moved(driver):
    await driver.chat("one")
    move = ChatMove(
        agent=FERN,
        channel="http",
        old_chat="home",
        new_type="chat",
        new_chat="new",
        by="http itself",
        operation=OperationId(driver.id("op")),
    )
    return "new", lambda db: db.write(move_chat(move))


async def approved(driver):
    await waiting(driver)
    return "K7M2QX", lambda db: db.write(
        decide_approval(ApprovalId("K7M2QX"), Decision.APPROVED, named="operator", by=acting())
    )


async def approved_here(driver):
    await waiting(driver)
    arrival = driver.arrival("/approve K7M2QX")
    return "K7M2QX", lambda db: db.write(accept_message(arrival, LIMITS, SECRET, acting()))


async def commanded(driver, text=None):
    session = await driver.chat("one", "two")
    text = text or await driver.delete_text(session)
    message = await driver.say(text)
    claim, wish = await driver.claim(), driver.command_run(message, text)
    return session, lambda db: db.write(run_command(claim, wish))


async def session_deleted(driver):
    return await commanded(driver)


async def session_switched(driver):
    await driver.talk("one", who="bob", **GROUP)
    message = await driver.say("/new", rank=Rank.ADMIN, **GROUP)
    claim, wish = await driver.claim(), driver.command_run(message, "/new")
    return wish.new_session, lambda db: db.write(run_command(claim, wish))


async def turn_stopped(driver):
    await driver.say("one", who="bob", **GROUP)
    turn = await driver.open(await driver.claim())
    arrival = driver.arrival("/stop", rank=Rank.ADMIN, **GROUP)
    return f"{turn.session}/{turn.n}", lambda db: db.write(accept_message(arrival, LIMITS, SECRET, acting()))


async def session_undone(driver):
    return await commanded(driver, "/undo")


async def session_forgotten(driver):
    session = await driver.chat("one")
    request = ForgetRequest(id=ForgetId("forget_1"), session=session)
    return session, lambda db: db.write(begin_forgetting(request, by=acting()))


async def person_forgotten(driver):
    await driver.chat("one")
    request = ForgetRequest(id=ForgetId("forget_1"), person=Principal("ada"))
    return "ada", lambda db: db.write(begin_forgetting(request, by=acting()))


def note(subject, origin="op 1", by="user"):
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="The office is in Rome.")
    return MemoryBatch(agent=FERN, subject=subject, origin=origin, changes=(change,), by=by)


async def memory_shared(driver):
    return "memory:fern:", lambda db: db.write(apply_memory(note(""), by=acting()))


async def memory_changed(driver):
    return "memory:fern:ada", lambda db: db.write(apply_memory(note("ada"), by=acting()))


async def memory_undone(driver):
    await driver.db.write(apply_memory(note("ada", by="model"), by=acting()))
    return "memory:fern:ada", lambda db: db.write(
        undo_memory(MemoryUndo(agent=FERN, subject="ada", seq=1), by=acting())
    )


async def delivery_replayed(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await test_lanes.take(driver)
    await test_lanes.settle(driver, claim, DeliveryState.PARKED, reason="too long")
    delivery = DeliveryId(f"mem:{session}:1")
    return delivery, lambda db: db.write(replay_delivery(delivery, by=acting()))


async def reply_resent(driver):
    ledger = test_replies.Ledger(driver)
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.FAILED, reason="gone")
    return reply, lambda db: db.write(resend_reply(reply, by=acting()))


async def finalisation_retried(driver):
    session = await driver.chat("one")
    await test_finish.end(driver, session)
    held = await test_finish.take(driver)
    await driver.db.write(record_finalisation(held, FinishEvent.GAVE_UP, reason="no answer"))
    return held.origin, lambda db: db.write(retry_finalisation(session, 1, by=acting()))


async def delivery_dropped(driver):
    delivery, _ = await delivery_replayed(driver)
    return delivery, lambda db: repair(db, RepairVerb.DROP, RepairSubject.DELIVERY, delivery)


async def delivery_settled(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await test_lanes.take(driver)
    await test_lanes.settle(driver, claim, DeliveryState.UNCERTAIN, reason="no answer", delay_ms=60_000)
    delivery = f"mem:{session}:1"
    return delivery, lambda db: repair(db, RepairVerb.SETTLE, RepairSubject.DELIVERY, delivery)


async def reply_dropped(driver):
    reply, _ = await reply_resent(driver)
    return reply, lambda db: repair(db, RepairVerb.DROP, RepairSubject.REPLY, reply)


async def reply_settled(driver):
    ledger = test_replies.Ledger(driver)
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.UNCERTAIN, reason="no answer", doubts=2)
    return reply, lambda db: repair(db, RepairVerb.SETTLE, RepairSubject.REPLY, reply)


async def message_dropped(driver):
    message, reply = await driver.say("one"), driver.id("rep")
    return message, lambda db: repair(db, RepairVerb.DROP, RepairSubject.MESSAGE, message, reply)


def repair(db, verb, subject, ident, reply="rep_x"):
    return db.write(repair_batch(verb, subject, [ident], [ReplyId(reply)], by=acting()))


async def agent_paused(driver):
    await driver.say("one")
    return "fern", lambda db: db.write(pause_agent(FERN, by=acting()))


async def agent_resumed(driver):
    await (await agent_paused(driver))[1](driver.db)
    return "fern", lambda db: db.write(resume_agent(FERN, by=acting()))


async def provider_backfilled(driver):
    await driver.chat("one")
    return "mem", lambda db: db.write(backfill_sessions(FERN, retain(), limit=9, by=acting()))


async def store_repaired(driver):
    await driver.chat("one")
    await driver.write("insert into attachment (hash, size, at, body) values ('lone', 0, 1, :body)", body=b"")
    return "store", lambda db: db.write(repair_rows(lease_ms=LEASE_MS, by=acting()))


async def sessions_imported(driver):
    await driver.chat("one")
    row = ImportedRow("identity", {"principal": "ada", "person": "ada", "at": 1})
    return "a digest", lambda db: db.write(import_rows("a digest", lambda: [row], by=acting()))


async def history_imported(driver):
    imported = ImportRun(agent=FERN, fingerprint="f0", sessions=2, messages=9, new=2)
    return "hermes", lambda db: db.write(finish_import(imported, by=acting()))


async def settings_changed(driver):
    await driver.db.write(note_settings("first", by=acting()))
    return "second", lambda db: db.write(note_settings("second", by=acting()))


ACTS = {
    token_created: Act.TOKEN_CREATED,
    token_revoked: Act.TOKEN_REVOKED,
    logged_in: Act.LOGIN,
    logged_out: Act.LOGOUT,
    logins_ended: Act.LOGINS_ENDED,
    admitted: Act.ACCESS_ADMITTED,
    denied: Act.ACCESS_DENIED,
    withdrawn: Act.ACCESS_WITHDRAWN,
    linked: Act.IDENTITY_LINKED,
    unlinked: Act.IDENTITY_UNLINKED,
    address_moved: Act.ADDRESS_MOVED,
    chat_moved: Act.ADDRESS_MOVED,
    approved: Act.APPROVAL_DECIDED,
    approved_here: Act.APPROVAL_DECIDED,
    session_deleted: Act.SESSION_DELETED,
    session_undone: Act.SESSION_UNDONE,
    session_switched: Act.SESSION_SWITCHED,
    turn_stopped: Act.TURN_STOPPED,
    session_forgotten: Act.SESSION_FORGOTTEN,
    person_forgotten: Act.PERSON_FORGOTTEN,
    memory_shared: Act.MEMORY_SHARED,
    memory_changed: Act.MEMORY_CHANGED,
    memory_undone: Act.MEMORY_CHANGED,
    delivery_replayed: Act.DELIVERY_REPLAYED,
    reply_resent: Act.REPLY_RESENT,
    finalisation_retried: Act.FINALISATION_RETRIED,
    delivery_dropped: Act.DELIVERY_DROPPED,
    delivery_settled: Act.DELIVERY_SETTLED,
    reply_dropped: Act.REPLY_DROPPED,
    reply_settled: Act.REPLY_SETTLED,
    message_dropped: Act.MESSAGE_DROPPED,
    agent_paused: Act.AGENT_PAUSED,
    agent_resumed: Act.AGENT_RESUMED,
    provider_backfilled: Act.PROVIDER_BACKFILLED,
    history_imported: Act.HISTORY_IMPORTED,
    store_repaired: Act.STORE_REPAIRED,
    sessions_imported: Act.SESSIONS_IMPORTED,
    settings_changed: Act.CONFIG_CHANGED,
}
# Nothing in the store changes with these: their row is the whole transaction (`record_action`).
ALONE = {Act.PROVIDER_REBUILT, Act.PROVIDER_MIGRATED}
# The row comes with the file of the store that takes the place of the former one (tests/store/test_encryption.py,
# tests/store/test_backup.py).
WITH_ITS_FILE = {Act.DATA_ENCRYPTED, Act.DATA_REKEYED, Act.DATA_DECRYPTED, Act.DATA_RESTORED}
# In a chat the sender acts, and a platform moves its chats by itself.
SENDER = {approved_here, session_deleted, session_undone, session_switched, turn_stopped}
PLATFORM = {chat_moved}


def test_every_act_is_tried():
    assert set(ACTS.values()) | ALONE | WITH_ITS_FILE == set(Act)


async def newest(driver, skipped):
    """The actions after so many, oldest first."""
    return (await driver.db.read(list_actions(oldest_first=True)))[skipped:]


@pytest.mark.parametrize("situation", ACTS, ids=lambda one: one.__name__)
async def test_an_act_has_one_row_in_its_own_transaction(driver, situation):
    """Cut off before any of its statements it has none, done it has one, and repeated it gets no second one."""
    subject, act = await situation(driver)
    before = len(await driver.db.read(list_actions()))
    cutting = Cutting(driver.db)
    db = cast("Database", cutting)
    with acting_as(OPERATOR):
        for at in range(STATEMENTS_MAX):
            cutting.at = at
            try:
                await act(db)
            except StoreUnavailable:
                assert await newest(driver, before) == [], f"a row without its act, cut off before statement {at}"
                continue
            break
        (row,) = await newest(driver, before)
        assert (row.verb, row.subject, row.outcome) == (ACTS[situation].stored, subject, ActionOutcome.DONE)
        await act(driver.db)
    assert len(await newest(driver, before)) == 1, "a row for a repeated call"
    if situation in PLATFORM:
        assert (row.by.kind, row.by.id) == (ActorKind.SYSTEM, "http")
    elif situation in SENDER:
        assert (row.by.kind, row.by.id) == (ActorKind.PRINCIPAL, "ada")
        assert row.by.origin.partition(",")[0].endswith(":home")
    else:
        assert row.by == OPERATOR
    assert await whole(driver) is None


@pytest.mark.parametrize("act", [act for act in Act if act in ALONE], ids=str)
async def test_an_act_outside_the_store_is_on_record_too(driver, act):
    with acting_as(OPERATOR):
        await driver.db.write(record_action(act, "tok_1", agent="fern", by=acting()))
    (row,) = await driver.db.read(list_actions())
    assert (row.verb, row.by, row.subject, row.detail) == (act.stored, OPERATOR, "tok_1", {"agent": "fern"})


async def test_a_sender_who_came_with_a_token_is_named_with_it(driver):
    _, act = await approved_here(driver)
    with acting_as(OPERATOR):
        await act(driver.db)
    (row,) = await driver.db.read(list_actions())
    assert (row.by.id, row.by.label) == ("ada", "tok_1")
    assert row.by.origin == f"{address_of('home')}, http 127.0.0.1"


async def test_a_caller_that_says_nothing_is_a_program(driver):
    _, act = await token_created(driver)
    await act(driver.db)
    assert [row.by for row in await driver.db.read(list_actions())] == [PROGRAM]


# --- what is no act ---------------------------------------------------------------------------------


async def test_what_changes_nothing_leaves_no_row(driver):
    await driver.db.write(revoke_token((await add(driver)).id, by=acting()))
    before = len(await driver.db.read(list_actions()))
    await driver.db.write(revoke_token(TokenId("tok_9"), by=acting()))
    await driver.db.write(
        unlink_principal(Principal("nobody"), named="test", operation=OperationId("op 1"), by=acting())
    )
    await driver.db.write(end_login(b"unknown", LoginEnd.LOGOUT, by=acting()))
    await driver.db.write(unpair(Principal("nobody"), named="test", operation=OperationId("op 2"), by=acting()))
    await driver.db.write(apply_memory(note("ada", by="model"), by=acting()))
    await driver.command("/undo")
    assert len(await driver.db.read(list_actions())) == before


async def add(driver):
    return await (await token_created(driver))[1](driver.db)


async def test_what_is_refused_by_the_store_is_no_act(driver):
    await driver.db.write(link_principals(linking(driver, "telegram:1", "ada"), by=acting()))
    with pytest.raises(IdentityConflict):
        await driver.db.write(link_principals(linking(driver, "telegram:1", "bob"), by=acting()))
    assert [row.outcome for row in await driver.db.read(list_actions())] == [ActionOutcome.DONE]


# --- refused attempts -------------------------------------------------------------------------------


async def test_a_decision_by_the_wrong_person_is_on_record_as_refused(driver):
    await waiting(driver)
    await driver.say("/approve K7M2QX", who="mallory")
    (row,) = await driver.db.read(list_actions())
    assert (row.verb, row.outcome, row.code) == ("approval.decided", ActionOutcome.REFUSED, "not_yours")
    assert (row.by.kind, row.by.id, row.subject) == (ActorKind.PRINCIPAL, "mallory", "K7M2QX")


async def test_a_flood_of_refused_attempts_fills_nothing_and_is_counted(driver):
    with acting_as(OPERATOR):
        for _ in range(300):
            await driver.db.write(refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required", by=acting()))
    counts = [row.count for row in await driver.db.read(list_actions(oldest_first=True))]
    assert counts == [*range(1, REFUSALS_MAX + 1), 32, 64, 128, 256]
    with acting_as(replace(OPERATOR, id="tok_2")):
        await driver.db.write(refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required", by=acting()))
    assert (await driver.db.read(list_actions(limit=1)))[0].count == 1, "another actor has a count of its own"
    driver.clock.advance(2 * HOUR_MS)
    with acting_as(OPERATOR):
        await driver.db.write(refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required", by=acting()))
    assert (await driver.db.read(list_actions(limit=1)))[0].count == 1, "every hour begins anew"
    assert len(await driver.rows("select * from refusal")) == 1, "what is over is not kept"


async def test_the_refused_attempts_of_this_hour_and_the_one_before_are_counted(driver):
    """A clock that is set back a little still finds the counts of the hour that it returns to."""
    for n in range(3):
        await driver.db.write(
            refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required", by=replace(PROGRAM, id=f"{n}"))
        )
        driver.clock.advance(HOUR_MS)
    assert await driver.rows("select actor from refusal order by actor") == [("1",), ("2",)]


# --- reading ----------------------------------------------------------------------------------------


async def test_actions_are_found_by_who_what_and_when_a_page_at_a_time(driver):
    for n, who in enumerate(("tok_1", "tok_2", "tok_1", "tok_1")):
        with acting_as(replace(OPERATOR, id=who)):
            await driver.db.write(record_action(Act.LOGIN if n else Act.LOGOUT, f"s{n}", by=acting()))
        driver.clock.advance(1_000)

    async def found(**wanted):
        return [row.subject for row in await driver.db.read(list_actions(ActionFilter(**wanted)))]

    assert await found() == ["s3", "s2", "s1", "s0"]
    assert await found(actor="tok_2") == ["s1"]
    assert await found(act=Act.LOGOUT) == ["s0"]
    assert await found(subject="s2") == ["s2"]
    assert await found(since=driver.clock.now() - 2_000) == ["s3", "s2"]
    page = await driver.db.read(list_actions(limit=3))
    assert [row.subject for row in await driver.db.read(list_actions(after=page[-1].n))] == ["s0"]
    assert [row.subject for row in await driver.db.read(list_actions(after=3, oldest_first=True))] == ["s3"]


async def test_a_text_of_any_kind_is_kept_as_one_short_line(driver):
    with acting_as(By(kind=ActorKind.TOKEN, id="tok_1", label="a\nb\0c", origin="x" * 5_000)):
        await driver.db.write(record_action(Act.LOGIN, "\x1b[31m", by=acting()))
    (row,) = await driver.db.read(list_actions())
    assert (row.by.label, row.subject, len(row.by.origin)) == ("a?b?c", "?[31m", 300)


# --- append-only ------------------------------------------------------------------------------------


async def whole(driver):
    actions = await driver.db.read(list_actions(oldest_first=True, limit=1_000))
    n, digest = await driver.db.read(read_last_action())
    wrong = broken_link(actions)
    return wrong or (None if (n, digest) == ((actions[-1].n, actions[-1].digest) if actions else (0, NO_DIGEST)) else n)


@pytest.mark.parametrize("change", ["update action set subject = 'x' where n = 2", "delete from action where n = 2"])
async def test_a_row_of_the_trail_is_neither_changed_nor_removed(driver, change):
    for n in range(3):
        await driver.db.write(record_action(Act.LOGIN, f"s{n}", by=acting()))
    with pytest.raises(HoldfastError, match="append-only"):
        await driver.db.write(Call("tamper", lambda: run(change)))
    assert [row.subject for row in await driver.db.read(list_actions())] == ["s2", "s1", "s0"]
    assert await whole(driver) is None


async def test_a_trail_that_was_tampered_with_is_found_out(driver):
    for n in range(4):
        await driver.db.write(record_action(Act.LOGIN, f"s{n}", by=acting()))
    rows = await driver.db.read(list_actions(oldest_first=True))
    assert broken_link(rows) is None
    assert broken_link(rows[2:], n=2, digest=rows[1].digest) is None
    assert broken_link([rows[0], *rows[2:]]) == "action 2 is missing"
    assert (
        broken_link([rows[0], replace(rows[1], subject="other"), *rows[2:]]) == "action 2 was changed, or one before it"
    )
    forged = [rows[0], replace(rows[1], by=replace(rows[1].by, id="tok_2"))]
    assert broken_link(forged) == "action 2 was changed, or one before it"


async def test_no_row_holds_what_somebody_said(driver):
    secret = "my cat is called Byron"
    await driver.chat(secret)
    await driver.db.write(
        apply_memory(replace(note(""), changes=(replace(note("").changes[0], text=secret),)), by=acting())
    )
    await driver.command("/undo")
    await driver.db.write(
        begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), person=Principal("ada")), by=acting())
    )
    kept = json.dumps([[str(cell) for cell in row] for row in await driver.rows("select * from action")])
    assert "Byron" not in kept
    assert "person.forgotten" in kept
