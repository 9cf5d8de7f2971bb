"""A decision is about one call, to the byte. No other call starts, and a call that was shown in part starts only with
proof that a person saw all of it.
"""

import hashlib

import msgspec
import pytest

from holdfast.audit.action import ActionOutcome
from holdfast.audit.action_sql import list_actions
from holdfast.inbox.mailbox_sql import release_claim
from holdfast.kernel.errors import ApprovalChanged, ApprovalDigestNeeded, InvariantBroken
from holdfast.kernel.ids import ApprovalId, ForgetId, Principal, ReplyId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.sessions.history_sql import trace_message
from holdfast.turns.approval import ApprovalAsk, Decision
from holdfast.turns.approval_sql import decide_approval
from holdfast.turns.approval_view_sql import find_approval
from holdfast.turns.call_view import short_digest
from holdfast.turns.journal import ToolCall, encode_body
from holdfast.turns.turn import Step, TurnEvent
from holdfast.turns.turn_sql import append_step
from tests.support.ports import verb_on
from tests.turns.test_approval_sql import begins, refusal, resumed, told, wish

ID = ApprovalId("K7M2QX")
SHORT = ToolCall(id="c1", name="pay", arguments='{"amount": 3}')
LONG = ToolCall(id="c1", name="pay", arguments='{"note": "' + "harmless " * 200 + '", "amount": 9999}')
OTHER = "0123-4567-89ab"


def digest_of(call: ToolCall) -> str:
    return hashlib.sha256(b"salt" + f"{call.name}\n{call.arguments}".encode()).hexdigest()


async def waiting(driver, call: ToolCall = SHORT):
    """A turn that waits for a yes to this call, with its claim given back."""
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish(call)))
    ask = ApprovalAsk(ids=(ID,), call=call, reply=ReplyId(driver.id("ask")), wait_ms=60_000, salt=b"salt")
    turn = await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.ASKED, entries=(), ask=ask)))
    await driver.db.write(release_claim(claim))
    return turn


async def decision(driver):
    ((found,),) = await driver.rows("select decision from approval")
    return found


async def decisions(driver):
    """What the audit trail says of decisions."""
    return [row for row in await driver.db.read(list_actions()) if row.verb == "approval.decided"]


# --- deciding


@pytest.mark.parametrize("typed", ["{}", "`{}`", " {} "])
async def test_a_long_call_is_approved_only_with_the_digest_of_the_full_view(typed, driver):
    await waiting(driver, LONG)
    assert (await told(driver, "/approve K7M2QX")).startswith("Not approved: the question left out a part of what")
    assert (await told(driver, f"/approve K7M2QX {OTHER}")).startswith("Not approved: this is not the digest")
    assert await decision(driver) is None
    view = await driver.db.read(find_approval(ID))
    assert (view.cut, view.arguments, view.digest) == (True, LONG.arguments, digest_of(LONG))
    typing = typed.format(short_digest(view.digest).upper())
    assert await told(driver, f"/approve K7M2QX {typing}") == "Approved: pay (K7M2QX) runs once."


async def test_a_short_call_stays_one_word_and_a_digest_that_is_named_is_compared_all_the_same(driver):
    await waiting(driver)
    assert not (await driver.db.read(find_approval(ID))).cut
    assert (await told(driver, f"/approve K7M2QX {OTHER}")).startswith("Not approved: this is not the digest")
    assert (await told(driver, "/approve K7M2QX please")).startswith("Not approved: this is not the digest")
    assert await decision(driver) is None
    assert (await told(driver, "/approve K7M2QX")).startswith("Approved")


async def test_a_long_call_is_denied_without_a_digest(driver):
    await waiting(driver, LONG)
    assert (await told(driver, "/deny K7M2QX much too long")).startswith("Denied")


async def test_an_operators_digest_is_compared_and_a_long_call_needs_one(driver):
    await waiting(driver, LONG)
    decide = verb_on(driver.db, decide_approval)
    with pytest.raises(ApprovalDigestNeeded, match="left out a part"):
        await decide(ID, Decision.APPROVED, named="operator")
    for wrong in (OTHER, "perhaps", digest_of(SHORT)):
        with pytest.raises(ApprovalChanged, match="is not the digest"):
            await decide(ID, Decision.APPROVED, named="operator", digest=wrong)
        with pytest.raises(ApprovalChanged):
            await decide(ID, Decision.DENIED, named="operator", digest=wrong)
    assert (await decision(driver), await decisions(driver)) == (None, [])
    done = await decide(ID, Decision.APPROVED, named="operator", digest=digest_of(LONG))
    assert done.decision is Decision.APPROVED


async def test_the_audit_trail_names_what_was_approved_and_what_was_refused(driver):
    await waiting(driver, LONG)
    digest = short_digest(digest_of(LONG))
    for said in ("", OTHER, digest):
        await told(driver, f"/approve K7M2QX {said}")
    done, changed, missing = await decisions(driver)
    assert (done.outcome, done.detail["digest"]) == (ActionOutcome.DONE, digest)
    assert (changed.outcome, changed.code) == (ActionOutcome.REFUSED, "approval_changed")
    assert (missing.outcome, missing.code) == (ActionOutcome.REFUSED, "approval_digest_needed")


async def test_a_message_says_whether_its_question_is_cut(driver):
    turn = await waiting(driver, LONG)
    asked = (await driver.db.read(trace_message(turn.messages[0]))).awaiting
    assert asked is not None
    assert asked.cut
    assert short_digest(digest_of(LONG)) not in asked.text


# --- starting


@pytest.mark.parametrize(
    "changed",
    [{"arguments": '{"amount": 4}'}, {"arguments": '{"amount":3}'}, {"name": "pay_all"}, {"id": "c2"}, None],
    ids=["other arguments", "another space", "another tool", "another call", "no call"],
)
async def test_no_other_call_starts_than_the_one_that_was_approved(changed, driver):
    await waiting(driver)
    await told(driver, "/approve K7M2QX")
    claim, turn = await resumed(driver)
    call = None if changed is None else msgspec.structs.replace(SHORT, **changed)
    with pytest.raises(InvariantBroken, match="another call was to start than the one that approval K7M2QX is about"):
        await driver.db.write(append_step(claim, turn, begins(call)))
    assert await driver.rows("select kind from entry where kind = 'tool_started'") == []
    again = await driver.db.write(append_step(claim, turn, begins(SHORT)))
    assert again.approval is None


async def test_a_call_that_was_changed_in_the_journal_does_not_start(driver):
    await waiting(driver)
    await told(driver, "/approve K7M2QX")
    claim, turn = await resumed(driver)
    changed = ToolCall(id="c1", name="pay", arguments='{"amount": 9999}')
    body = wish(changed).entries[0]
    await driver.write("update entry set body = :body where kind = 'assistant'", body=encode_body(body))
    view = await driver.db.read(find_approval(ID))
    assert (view.arguments, view.digest) == (changed.arguments, digest_of(SHORT)), "a reader sees that they differ"
    with pytest.raises(InvariantBroken, match="another call"):
        await driver.db.write(append_step(claim, turn, begins(changed)))


# --- forgetting


@pytest.mark.parametrize("how", ["person", "session", "/delete"])
async def test_no_digest_is_left_of_words_that_are_forgotten(how, driver):
    turn = await waiting(driver)
    await told(driver, "/deny K7M2QX")
    claim, resumed_turn = await resumed(driver)
    await driver.answer(claim, await driver.db.write(append_step(claim, resumed_turn, refusal())))
    await driver.db.write(release_claim(claim))
    if how == "/delete":
        await driver.delete()
    else:
        who = {"person": Principal("ada")} if how == "person" else {"session": turn.session}
        await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), **who)))
    assert await driver.rows("select digest, salt from approval") == [(None, None)]
    view = await driver.db.read(find_approval(ID))
    assert (view.arguments, view.digest, view.salt) == ("", "", b"")
