"""The promise: every privileged act leaves exactly one row that says who did what to what, in the transaction of the
act: none when it is cut off, none when it is repeated. Rows are never changed, and a changed one is found out."""

import json
from dataclasses import replace
from typing import cast

import pytest

from holdfast.api.auth.access_token import AccessToken, Scope
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
from holdfast.audit.actor import acting_as
from holdfast.inbox.address import Address
from holdfast.inbox.identity import ChatMove
from holdfast.kernel.errors import HoldfastError, IdentityConflict, StoreUnavailable
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    ForgetId,
    LoginId,
    OperationId,
    Principal,
    TokenId,
)
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.notes import MemoryBatch, MemoryUndo, MemoryVerb, NoteChange, Target
from holdfast.outbox.post import ReplyState
from holdfast.sessions.command_rights import Rank
from holdfast.sessions.finalisation import FinishEvent
from holdfast.store.database import Database
from holdfast.store.script import run
from holdfast.store.sql_store import SqlStore
from holdfast.turns.approval import Decision
from tests.contract import test_access, test_finish, test_lanes, test_replies
from tests.contract.driver import LIMITS, address_of, retain
from tests.contract.test_approvals import waiting
from tests.contract.test_atomic import Cutting
from tests.contract.test_identity import linking

FERN = AgentName("fern")
GROUP = {"channel": "telegram", "type": "group"}
OPERATOR = By(kind=ActorKind.TOKEN, id="tok_1", label="website", origin="http 127.0.0.1")
HOUR_MS = 3_600_000
STATEMENTS_MAX = 300


# --- every act: the state before it, and the call ---------------------------------------------------


async def token_created(driver):
    token = AccessToken(id=TokenId("tok_9"), label="new", scopes=frozenset({Scope.SEND}))
    return "tok_9", lambda store: store.add_token(token, b"hash")


async def token_revoked(driver):
    await (await token_created(driver))[1](driver.store)
    return "tok_9", lambda store: store.revoke_token(TokenId("tok_9"))


async def logged_in(driver):
    now = driver.clock.now()
    login = Login(id=LoginId("log_1"), token=TokenId("tok_9"), proof=b"", made_at=now, seen_at=now, ends_at=now)
    return "tok_9", lambda store: store.add_login(login, b"hash")


async def logged_out(driver):
    await (await logged_in(driver))[1](driver.store)
    return "tok_9", lambda store: store.end_login(b"hash", LoginEnd.LOGOUT)


async def logins_ended(driver):
    await (await logged_in(driver))[1](driver.store)
    return "all", lambda store: store.end_logins(LoginEnd.OPERATOR)


async def admitted(driver, *, admit=True):
    await driver.store.ask_pairing(test_access.ask(driver))
    decision = test_access.verdict(driver, admit=admit)
    return test_access.BOB, lambda store: store.decide_pairing(decision)


async def denied(driver):
    return await admitted(driver, admit=False)


async def withdrawn(driver):
    await (await admitted(driver))[1](driver.store)
    who, operation = test_access.BOB, OperationId(driver.id("op"))
    return who, lambda store: store.unpair(who, by="test", operation=operation)


async def linked(driver):
    request = linking(driver, "telegram:1", "ada")
    return "telegram:1", lambda store: store.link(request)


async def unlinked(driver):
    await driver.store.link(linking(driver, "telegram:1", "ada"))
    operation = OperationId(driver.id("op"))
    return "telegram:1", lambda store: store.unlink(Principal("telegram:1"), by="test", operation=operation)


async def address_moved(driver):
    await driver.chat("one")
    old = Address(agent=FERN, channel="http", type="chat", chat="home")
    new, operation = replace(old, chat="new"), OperationId(driver.id("op"))
    return str(new), lambda store: store.move_address(old, new, by="test", operation=operation)


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
    return "new", lambda store: store.move_chat(move)


async def approved(driver):
    await waiting(driver)
    return "K7M2QX", lambda store: store.decide_approval(ApprovalId("K7M2QX"), Decision.APPROVED, by="operator")


async def approved_here(driver):
    await waiting(driver)
    arrival = driver.arrival("/approve K7M2QX")
    return "K7M2QX", lambda store: store.accept(arrival, LIMITS)


async def commanded(driver, text=None):
    session = await driver.chat("one", "two")
    text = text or await driver.delete_text(session)
    message = await driver.say(text)
    claim, wish = await driver.claim(), driver.command_run(message, text)
    return session, lambda store: store.run_command(claim, wish)


async def session_deleted(driver):
    return await commanded(driver)


async def session_switched(driver):
    await driver.talk("one", who="bob", **GROUP)
    message = await driver.say("/new", rank=Rank.ADMIN, **GROUP)
    claim, wish = await driver.claim(), driver.command_run(message, "/new")
    return wish.new_session, lambda store: store.run_command(claim, wish)


async def turn_stopped(driver):
    await driver.say("one", who="bob", **GROUP)
    turn = await driver.open(await driver.claim())
    arrival = driver.arrival("/stop", rank=Rank.ADMIN, **GROUP)
    return f"{turn.session}/{turn.n}", lambda store: store.accept(arrival, LIMITS)


async def session_undone(driver):
    return await commanded(driver, "/undo")


async def session_forgotten(driver):
    session = await driver.chat("one")
    request = ForgetRequest(id=ForgetId("forget_1"), session=session)
    return session, lambda store: store.forget(request)


async def person_forgotten(driver):
    await driver.chat("one")
    request = ForgetRequest(id=ForgetId("forget_1"), person=Principal("ada"))
    return "ada", lambda store: store.forget(request)


def note(subject, origin="op 1", by="user"):
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="The office is in Rome.")
    return MemoryBatch(agent=FERN, subject=subject, origin=origin, changes=(change,), by=by)


async def memory_shared(driver):
    return "memory:fern:", lambda store: store.apply_memory(note(""))


async def memory_changed(driver):
    return "memory:fern:ada", lambda store: store.apply_memory(note("ada"))


async def memory_undone(driver):
    await driver.store.apply_memory(note("ada", by="model"))
    return "memory:fern:ada", lambda store: store.undo_memory(MemoryUndo(agent=FERN, subject="ada", seq=1))


async def delivery_replayed(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await test_lanes.take(driver)
    await test_lanes.settle(driver, claim, DeliveryState.PARKED, reason="too long")
    delivery = DeliveryId(f"mem:{session}:1")
    return delivery, lambda store: store.replay_delivery(delivery)


async def reply_resent(driver):
    ledger = test_replies.Ledger(driver)
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.FAILED, reason="gone")
    return reply, lambda store: store.resend_reply(reply)


async def finalisation_retried(driver):
    session = await driver.chat("one")
    await test_finish.end(driver, session)
    held = await test_finish.take(driver)
    await driver.store.record_finalisation(held, FinishEvent.GAVE_UP, reason="no answer")
    return held.origin, lambda store: store.retry_finalisation(session, 1)


async def provider_backfilled(driver):
    await driver.chat("one")
    return "mem", lambda store: store.backfill(FERN, retain(), limit=9)


async def settings_changed(driver):
    await driver.store.note_settings("first")
    return "second", lambda store: store.note_settings("second")


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
    provider_backfilled: Act.PROVIDER_BACKFILLED,
    settings_changed: Act.CONFIG_CHANGED,
}
# Nothing in the store changes with these: their row is the whole transaction (`record_action`).
ALONE = {Act.PROVIDER_REBUILT, Act.PROVIDER_MIGRATED}
# The row comes with the file of the store that takes the place of the former one (tests/integration/encryption).
WITH_ITS_FILE = {Act.DATA_ENCRYPTED, Act.DATA_REKEYED, Act.DATA_DECRYPTED}
# In a chat the sender acts, and a platform moves its chats by itself.
SENDER = {approved_here, session_deleted, session_undone, session_switched, turn_stopped}
PLATFORM = {chat_moved}


def test_every_act_is_tried():
    assert set(ACTS.values()) | ALONE | WITH_ITS_FILE == set(Act)


async def newest(driver, skipped):
    """The actions after so many, oldest first."""
    return (await driver.store.actions(oldest_first=True))[skipped:]


@pytest.mark.parametrize("situation", ACTS, ids=lambda one: one.__name__)
async def test_an_act_has_one_row_in_its_own_transaction(driver, situation):
    """Cut off before any of its statements it has none, done it has one, and repeated it gets no second one."""
    subject, act = await situation(driver)
    before = len(await driver.store.actions())
    cutting = Cutting(driver.database)
    store = SqlStore(cast("Database", cutting), b"a secret of the tests")
    with acting_as(OPERATOR):
        for at in range(STATEMENTS_MAX):
            cutting.at = at
            try:
                await act(store)
            except StoreUnavailable:
                assert await newest(driver, before) == [], f"a row without its act, cut off before statement {at}"
                continue
            break
        (row,) = await newest(driver, before)
        assert (row.verb, row.subject, row.outcome) == (ACTS[situation].stored, subject, ActionOutcome.DONE)
        await act(driver.store)
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
        await driver.store.record_action(act, "tok_1", agent="fern")
    (row,) = await driver.store.actions()
    assert (row.verb, row.by, row.subject, row.detail) == (act.stored, OPERATOR, "tok_1", {"agent": "fern"})


async def test_a_sender_who_came_with_a_token_is_named_with_it(driver):
    _, act = await approved_here(driver)
    with acting_as(OPERATOR):
        await act(driver.store)
    (row,) = await driver.store.actions()
    assert (row.by.id, row.by.label) == ("ada", "tok_1")
    assert row.by.origin == f"{address_of('home')}, http 127.0.0.1"


async def test_a_caller_that_says_nothing_is_a_program(driver):
    _, act = await token_created(driver)
    await act(driver.store)
    assert [row.by for row in await driver.store.actions()] == [PROGRAM]


# --- what is no act ---------------------------------------------------------------------------------


async def test_what_changes_nothing_leaves_no_row(driver):
    await driver.store.revoke_token((await add(driver)).id)
    before = len(await driver.store.actions())
    await driver.store.revoke_token(TokenId("tok_9"))
    await driver.store.unlink(Principal("nobody"), by="test", operation=OperationId("op 1"))
    await driver.store.end_login(b"unknown", LoginEnd.LOGOUT)
    await driver.store.unpair(Principal("nobody"), by="test", operation=OperationId("op 2"))
    await driver.store.apply_memory(note("ada", by="model"))
    await driver.command("/undo")
    assert len(await driver.store.actions()) == before


async def add(driver):
    return await (await token_created(driver))[1](driver.store)


async def test_what_is_refused_by_the_store_is_no_act(driver):
    await driver.store.link(linking(driver, "telegram:1", "ada"))
    with pytest.raises(IdentityConflict):
        await driver.store.link(linking(driver, "telegram:1", "bob"))
    assert [row.outcome for row in await driver.store.actions()] == [ActionOutcome.DONE]


# --- refused attempts -------------------------------------------------------------------------------


async def test_a_decision_by_the_wrong_person_is_on_record_as_refused(driver):
    await waiting(driver)
    await driver.say("/approve K7M2QX", who="mallory")
    (row,) = await driver.store.actions()
    assert (row.verb, row.outcome, row.code) == ("approval.decided", ActionOutcome.REFUSED, "not_yours")
    assert (row.by.kind, row.by.id, row.subject) == (ActorKind.PRINCIPAL, "mallory", "K7M2QX")


async def test_a_flood_of_refused_attempts_fills_nothing_and_is_counted(driver):
    with acting_as(OPERATOR):
        for _ in range(300):
            await driver.store.refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required")
    counts = [row.count for row in await driver.store.actions(oldest_first=True)]
    assert counts == [*range(1, REFUSALS_MAX + 1), 32, 64, 128, 256]
    with acting_as(replace(OPERATOR, id="tok_2")):
        await driver.store.refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required")
    assert (await driver.store.actions(limit=1))[0].count == 1, "another actor has a count of its own"
    driver.clock.advance(2 * HOUR_MS)
    with acting_as(OPERATOR):
        await driver.store.refuse_action(Act.PERSON_FORGOTTEN, "ada", "scope_required")
    assert (await driver.store.actions(limit=1))[0].count == 1, "every hour begins anew"
    assert len(await driver.rows("select * from refusal")) == 1, "what is over is not kept"


# --- reading ----------------------------------------------------------------------------------------


async def test_actions_are_found_by_who_what_and_when_a_page_at_a_time(driver):
    for n, who in enumerate(("tok_1", "tok_2", "tok_1", "tok_1")):
        with acting_as(replace(OPERATOR, id=who)):
            await driver.store.record_action(Act.LOGIN if n else Act.LOGOUT, f"s{n}")
        driver.clock.advance(1_000)

    async def found(**wanted):
        return [row.subject for row in await driver.store.actions(ActionFilter(**wanted))]

    assert await found() == ["s3", "s2", "s1", "s0"]
    assert await found(actor="tok_2") == ["s1"]
    assert await found(act=Act.LOGOUT) == ["s0"]
    assert await found(subject="s2") == ["s2"]
    assert await found(since=driver.clock.now() - 2_000) == ["s3", "s2"]
    page = await driver.store.actions(limit=3)
    assert [row.subject for row in await driver.store.actions(after=page[-1].n)] == ["s0"]
    assert [row.subject for row in await driver.store.actions(after=3, oldest_first=True)] == ["s3"]


async def test_a_text_of_any_kind_is_kept_as_one_short_line(driver):
    with acting_as(By(kind=ActorKind.TOKEN, id="tok_1", label="a\nb\0c", origin="x" * 5_000)):
        await driver.store.record_action(Act.LOGIN, "\x1b[31m")
    (row,) = await driver.store.actions()
    assert (row.by.label, row.subject, len(row.by.origin)) == ("a?b?c", "?[31m", 300)


# --- append-only ------------------------------------------------------------------------------------


async def whole(driver):
    actions = await driver.store.actions(oldest_first=True, limit=1_000)
    n, digest = await driver.store.last_action()
    wrong = broken_link(actions)
    return wrong or (None if (n, digest) == ((actions[-1].n, actions[-1].digest) if actions else (0, NO_DIGEST)) else n)


@pytest.mark.parametrize("change", ["update action set subject = 'x' where n = 2", "delete from action where n = 2"])
async def test_a_row_of_the_trail_is_neither_changed_nor_removed(driver, change):
    for n in range(3):
        await driver.store.record_action(Act.LOGIN, f"s{n}")
    with pytest.raises(HoldfastError, match="append-only"):
        await driver.database.write("tamper", lambda: run(change))
    assert [row.subject for row in await driver.store.actions()] == ["s2", "s1", "s0"]
    assert await whole(driver) is None


async def test_a_trail_that_was_tampered_with_is_found_out(driver):
    for n in range(4):
        await driver.store.record_action(Act.LOGIN, f"s{n}")
    rows = await driver.store.actions(oldest_first=True)
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
    await driver.store.apply_memory(replace(note(""), changes=(replace(note("").changes[0], text=secret),)))
    await driver.command("/undo")
    await driver.store.forget(ForgetRequest(id=ForgetId("forget_1"), person=Principal("ada")))
    kept = json.dumps([[str(cell) for cell in row] for row in await driver.rows("select * from action")])
    assert "Byron" not in kept
    assert "person.forgotten" in kept
