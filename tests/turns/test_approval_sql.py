"""The promise: no dangerous call starts without a human's yes, and waiting for it holds no claim and loses nothing.

Rules: D9.
"""

import hashlib

import pytest

from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.kernel.errors import ApprovalNotFound, InvariantBroken
from holdfast.kernel.ids import ApprovalId, NodeId, OperationId, Principal, ReplyId
from holdfast.sessions.history_sql import find_mailbox, read_conversation, trace_message
from holdfast.store.node_sql import register_node
from holdfast.turns.approval import ApprovalAsk, Decision
from holdfast.turns.approval_sql import decide_approval, is_waiting_at
from holdfast.turns.approval_view_sql import list_approvals
from holdfast.turns.journal import AssistantSaid, ToolCall, ToolReturned, ToolStarted
from holdfast.turns.open_turn_sql import observe_messages
from holdfast.turns.turn import OutgoingMessage, Phase, Step, TurnEvent
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn
from tests.support.driver import address_of, returned, started, tool_step

PAY = ToolCall(id="c1", name="pay", arguments='{"amount": 3}')
DAY_MS = 24 * 60 * 60 * 1000


def wish(*calls: ToolCall) -> Step:
    return Step(event=TurnEvent.CALLED, entries=(AssistantSaid(text="", calls=calls or (PAY,)),))


def begins(call: ToolCall | None = PAY) -> Step:
    return Step(event=TurnEvent.DECIDED, entries=(ToolStarted(call="c1", name="pay"),), starts=call)


def refusal(event: TurnEvent = TurnEvent.RETURNED) -> Step:
    said = ToolReturned(call="c1", name="pay", text="no", outcome="not_run")
    return Step(event=event, entries=(said,))


def ask(driver, *ids: str, wait_ms: int = DAY_MS, approvers=(), yields: bool = False) -> Step:
    asked = ApprovalAsk(
        ids=tuple(ApprovalId(one) for one in ids or ("K7M2QX",)),
        call=PAY,
        reply=ReplyId(driver.id("ask")),
        wait_ms=wait_ms,
        approvers=frozenset(approvers),
        yields=yields,
        salt=b"salt",
    )
    return Step(event=TurnEvent.ASKED, entries=(), ask=asked)


async def waiting(
    driver, *ids: str, who: str = "ada", channel: str = "http", type: str = "chat", human: bool = True, **how
):
    """A turn that waits for a human, with its claim given back."""
    await driver.say("pay him", who=who, channel=channel, type=type, human=human)
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    turn = await driver.db.write(append_step(claim, turn, ask(driver, *ids, **how)))
    await driver.db.write(release_claim(claim))
    return turn


async def resumed(driver):
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=10))
    assert mail.turn is not None
    return claim, await driver.db.write(resume_turn(claim, mail.turn))


async def told(driver, text, **how):
    """What a signal is answered."""
    trace = await driver.db.read(trace_message(await driver.say(text, **how)))
    assert trace.state.value == "command"
    return trace.reply.text


async def ready_at(driver):
    return (await driver.db.read(find_mailbox(address_of("home")))).ready_at


# --- waiting


async def test_a_turn_that_waits_holds_no_claim_and_its_mailbox_sleeps_until_the_time_is_up(driver, clock):
    turn = await waiting(driver, wait_ms=5_000)
    assert (turn.phase, turn.waits) == (Phase.AWAITING, True)
    box = await driver.db.read(find_mailbox(address_of("home")))
    assert (box.owner, box.ready_at) == (None, clock.now() + 5_000)
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    assert (await driver.db.read(trace_message(turn.messages[0]))).phase == "awaiting"


async def test_a_message_that_arrives_meanwhile_waits_behind_it_and_wakes_no_worker(driver):
    await waiting(driver)
    before = await ready_at(driver)
    later = await driver.say("are you there?")
    assert await ready_at(driver) == before
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    await told(driver, "/deny K7M2QX")
    claim, turn = await resumed(driver)
    await driver.answer(claim, await driver.db.write(append_step(claim, turn, refusal())))
    assert [item.message for item in (await driver.db.read(read_mail(claim, limit=9))).waiting] == [later]


async def test_the_question_is_told_in_the_chat_that_asked(driver):
    turn = await waiting(driver, channel="telegram")
    (row,) = await driver.rows("select channel, state, body, message from reply where id like 'ask%'")
    assert (row[0], row[1], row[3]) == ("telegram", "pending", turn.messages[0])
    assert bytes(row[2]).decode() == QUESTION


async def test_asking_twice_is_asking_once(driver):
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    step = ask(driver)
    first = await driver.db.write(append_step(claim, turn, step))
    assert await driver.db.write(append_step(claim, turn, step)) == first
    assert len(await driver.rows("select id from reply where id like 'ask%'")) == 1


async def test_an_id_that_is_taken_is_not_used_again(driver):
    await waiting(driver, "K7M2QX")
    await told(driver, "/deny K7M2QX")
    claim, turn = await resumed(driver)
    turn = await driver.db.write(append_step(claim, turn, refusal()))
    turn = await driver.db.write(append_step(claim, turn, wish()))
    turn = await driver.db.write(append_step(claim, turn, ask(driver, "K7M2QX", "Z2Z2Z2")))
    assert turn.approval.id == "Z2Z2Z2"


# --- deciding


@pytest.mark.parametrize("typed", ["/approve K7M2QX", "/approve k7m2qx", "/Approve `k7m2qx`"])
async def test_an_approval_makes_the_turn_ready_at_once_and_its_call_may_start(typed, driver, clock):
    await waiting(driver)
    assert await told(driver, typed) == "Approved: pay (K7M2QX) runs once."
    assert await ready_at(driver) == clock.now()
    claim, turn = await resumed(driver)
    assert (turn.waits, turn.approval.decision, turn.approval.decided_by) == (False, Decision.APPROVED, "ada")
    turn = await driver.db.write(append_step(claim, turn, begins()))
    assert (turn.phase, turn.approval) == (Phase.ACTING, None)
    turn = await driver.db.write(append_step(claim, turn, returned()))
    await driver.answer(claim, turn)
    await driver.db.write(release_claim(claim))
    assert await ready_at(driver) is None


async def test_going_on_after_a_decision_is_no_further_attempt(driver):
    await waiting(driver)
    await told(driver, "/approve K7M2QX")
    _, turn = await resumed(driver)
    assert turn.attempt == 1


async def test_a_denial_carries_its_reason_until_the_turn_ends(driver):
    await waiting(driver)
    assert await told(driver, "/deny K7M2QX far too much") == "Denied: pay (K7M2QX) is not run."
    claim, turn = await resumed(driver)
    assert (turn.approval.decision, turn.approval.reason) == (Decision.DENIED, "far too much")
    await driver.answer(claim, await driver.db.write(append_step(claim, turn, refusal())))
    assert await driver.rows("select decision, reason from approval") == [("denied", None)]


async def test_a_denied_call_with_others_to_come_leaves_the_turn_acting(driver):
    await waiting(driver)
    await told(driver, "/deny K7M2QX")
    claim, turn = await resumed(driver)
    assert (await driver.db.write(append_step(claim, turn, refusal(TurnEvent.DECIDED)))).phase is Phase.ACTING


@pytest.mark.parametrize("decision", [None, "/deny K7M2QX"])
async def test_the_store_starts_no_call_without_a_yes(decision, driver, clock):
    await waiting(driver, wait_ms=1_000)
    if decision:
        await told(driver, decision)
    else:
        clock.advance(1_000)
    claim, turn = await resumed(driver)
    with pytest.raises(InvariantBroken, match="without approval K7M2QX"):
        await driver.db.write(append_step(claim, turn, begins()))


async def test_nothing_is_refused_while_somebody_may_still_say_yes(driver):
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    turn = await driver.db.write(append_step(claim, turn, ask(driver)))
    with pytest.raises(InvariantBroken, match="K7M2QX is open"):
        await driver.db.write(append_step(claim, turn, refusal()))


async def test_a_decision_that_comes_while_the_claim_is_still_held_is_not_slept_over(driver, clock):
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    await driver.db.write(append_step(claim, turn, ask(driver)))
    await told(driver, "/approve K7M2QX")
    await driver.db.write(release_claim(claim))
    assert await ready_at(driver) == clock.now()


async def test_when_time_is_up_the_turn_goes_on_and_a_late_yes_is_told_so(driver, clock):
    await waiting(driver, wait_ms=5_000)
    clock.advance(5_000)
    late = await told(driver, "/approve K7M2QX")
    assert late == "K7M2QX (pay) ran out of time; it was not run."
    claim, turn = await resumed(driver)
    assert turn.approval.is_due
    turn = await driver.db.write(append_step(claim, turn, refusal()))
    assert turn.phase is Phase.THINKING
    assert await driver.rows("select decision, decided_by from approval") == [("expired", "")]


# --- who may decide, and where


async def test_a_wrong_id_is_told_with_those_that_are_open(driver):
    assert await told(driver, "/approve NOPE22") == (
        "There is no approval 'NOPE22' in this chat. Nothing waits for an approval here."
    )
    await waiting(driver)
    assert await told(driver, "/approve NOPE22") == "There is no approval 'NOPE22' in this chat. Open here: K7M2QX."
    assert await told(driver, "/approve") == "Say which: /approve ID or /deny ID. Open here: K7M2QX."


@pytest.mark.parametrize(
    ("how", "answer"),
    [
        ({"who": "eve"}, "Only the person who asked for the call or an operator"),
        ({"chat": "elsewhere"}, "There is no approval"),
        ({"human": False}, "/approve is for people"),
    ],
    ids=["another person", "another chat", "a program"],
)
async def test_a_sender_who_may_not_decide_changes_nothing(how, answer, driver):
    await waiting(driver)
    assert (await told(driver, "/approve K7M2QX", **how)).startswith(answer)
    assert await driver.rows("select decision from approval") == [(None,)]
    assert await driver.db.write(claim_mailbox(driver.node)) is None


async def test_named_approvers_decide_and_the_requester_does_not(driver):
    await waiting(driver, approvers=("boss", "second"))
    assert (await told(driver, "/approve K7M2QX")).startswith("Only a named approver or an operator")
    assert (await told(driver, "/approve K7M2QX", who="boss")).startswith("Approved")


async def test_a_program_that_asked_leaves_the_decision_to_the_person_who_talks_there(driver):
    await driver.talk("hello", who="ada")
    await waiting(driver, who="agent:moss", human=False)
    assert (await told(driver, "/approve K7M2QX", who="agent:moss", human=False)).startswith("/approve is for")
    assert (await told(driver, "/approve K7M2QX", who="ada")).startswith("Approved")


async def test_a_bystander_does_not_decide_what_a_program_asked(driver):
    session = (await driver.talk("hello", who="ada")).session
    overheard = await driver.say("anybody for lunch?", who="eve", addressed=False)
    claim = await driver.claim()
    await driver.db.write(observe_messages(claim, session, [overheard]))
    await driver.db.write(release_claim(claim))
    await waiting(driver, who="agent:moss", human=False)
    assert (await told(driver, "/approve K7M2QX", who="eve")).startswith("Only")
    assert (await told(driver, "/approve K7M2QX", who="ada")).startswith("Approved")


async def test_another_agent_is_not_asked(driver):
    await waiting(driver, channel="agent", human=False)
    assert await driver.rows("select id from reply where id like 'ask%'") == []


async def test_deciding_twice_says_what_was_decided(driver):
    await waiting(driver)
    await told(driver, "/deny K7M2QX")
    assert await told(driver, "/approve K7M2QX") == "K7M2QX (pay) was denied already."


# --- operators


async def test_an_operator_sees_what_waits_and_decides(driver, clock):
    turn = await waiting(driver)
    (view,) = await driver.db.read(list_approvals())
    assert (view.id, view.agent, view.tool, view.arguments) == ("K7M2QX", "fern", "pay", '{"amount": 3}')
    assert (view.session, view.turn, view.address) == (turn.session, 1, address_of("home"))
    made = await driver.db.write(decide_approval(view.id, Decision.APPROVED, named="operator"))
    assert (made.decision, made.decided_by, made.decided_at) == (Decision.APPROVED, "operator", clock.now())
    assert await driver.db.read(list_approvals()) == []
    assert len(await driver.db.read(list_approvals(decided=True))) == 1
    again = await driver.db.write(decide_approval(view.id, Decision.DENIED, named="another"))
    assert (again.decision, again.decided_by) == (Decision.APPROVED, "operator")
    assert await ready_at(driver) == clock.now()


async def test_a_message_waits_for_the_approval_that_is_open(driver):
    """Its turn has asked before, and was answered."""
    await waiting(driver, "K7M2QX")
    await told(driver, "/deny K7M2QX")
    claim, turn = await resumed(driver)
    assert (await driver.db.read(trace_message(turn.messages[0]))).awaiting is None
    turn = await driver.db.write(append_step(claim, turn, refusal()))
    turn = await driver.db.write(append_step(claim, turn, wish()))
    turn = await driver.db.write(append_step(claim, turn, ask(driver, "A2A2A2")))
    trace = await driver.db.read(trace_message(turn.messages[0]))
    assert trace.awaiting is not None
    assert trace.awaiting.id == "A2A2A2"


async def test_the_approvals_of_one_agent_may_be_asked_for(driver):
    await waiting(driver)
    assert [view.agent for view in await driver.db.read(list_approvals(agent="fern"))] == ["fern"]
    assert await driver.db.read(list_approvals(agent="moss")) == []
    assert len(await driver.db.read(list_approvals(agent="fern", decided=True))) == 1
    assert await driver.db.read(list_approvals(agent="moss", decided=True)) == []


async def test_a_list_with_decided_approvals_begins_with_the_newest(driver, clock):
    await waiting(driver, "K7M2QX")
    await told(driver, "/deny K7M2QX")
    claim, turn = await resumed(driver)
    turn = await driver.db.write(append_step(claim, turn, refusal()))
    turn = await driver.db.write(append_step(claim, turn, wish()))
    clock.advance(5)
    await driver.db.write(append_step(claim, turn, ask(driver, "A2A2A2")))
    assert [view.id for view in await driver.db.read(list_approvals(decided=True))] == ["A2A2A2", "K7M2QX"]


async def test_a_conversation_names_the_approval_beside_the_question_only(driver, clock):
    await waiting(driver)
    clock.advance(5)
    await told(driver, "/status")
    lines = await driver.db.read(read_conversation(address_of("home"), before=10**9, limit=10))
    assert [line.approval for line in lines] == [None, "K7M2QX", None, None]
    assert lines[1].text.startswith("fern wants to use `pay`")


async def test_an_operator_cannot_decide_what_does_not_exist_or_is_overdue(driver, clock):
    with pytest.raises(ApprovalNotFound):
        await driver.db.write(decide_approval(ApprovalId("NOPE22"), Decision.APPROVED, named="operator"))
    await waiting(driver, wait_ms=10)
    clock.advance(10)
    late = await driver.db.write(decide_approval(ApprovalId("K7M2QX"), Decision.APPROVED, named="operator"))
    assert (late.decision, late.decided_by) == (Decision.EXPIRED, "")
    assert await driver.db.read(list_approvals()) == [], "it no longer waits for anybody"
    assert await driver.rows("select waits_until, yields from mailbox") == [(None, 0)]


# --- other ends


async def test_stop_ends_the_wait_even_while_the_claim_is_held(driver, clock):
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    await driver.db.write(append_step(claim, turn, ask(driver)))
    await told(driver, "/stop")
    await driver.db.write(release_claim(claim))
    assert await ready_at(driver) == clock.now()
    claim, turn = await resumed(driver)
    assert (turn.stopping, turn.waits) == (True, False)
    await driver.db.write(commit_turn(claim, turn, driver.commit(event=TurnEvent.INTERRUPTED)))
    assert await told(driver, "/approve K7M2QX") == "K7M2QX (pay) is over: its turn has ended."
    await driver.say("next")
    await driver.db.write(release_claim(claim))
    assert await ready_at(driver) == clock.now(), "the mailbox is awake again"


async def test_where_arrivals_interrupt_mail_ends_the_wait_and_observed_talk_does_not(driver, clock):
    await waiting(driver, yields=True)
    asleep = await ready_at(driver)
    await driver.say("just chatting", addressed=False)
    assert await ready_at(driver) == asleep
    await driver.say("never mind")
    assert await ready_at(driver) == clock.now()
    _, turn = await resumed(driver)
    assert (turn.approval.is_superseded, turn.waits) == (True, False)


async def test_a_worker_that_dies_after_asking_leaves_a_turn_that_waits(driver, clock):
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), wish()))
    await driver.db.write(append_step(claim, turn, ask(driver, wait_ms=5_000)))
    await driver.db.write(register_node(NodeId("node_b"), "here", sole=True))
    again = await driver.db.write(claim_mailbox(NodeId("node_b")))
    mail = await driver.db.read(read_mail(again, limit=9))
    assert mail.turn.waits
    await driver.db.write(release_claim(again))
    assert await ready_at(driver) == clock.now() + 5_000


# --- who is told

DIGEST = hashlib.sha256(b"salt" + b'pay\n{"amount": 3}').hexdigest()
SHORT = f"{DIGEST[:4]}-{DIGEST[4:8]}-{DIGEST[8:12]}"
QUESTION = (
    'fern wants to use `pay`: `{"amount": 3}`\n'
    f"13 characters, digest {SHORT}.\n"
    "Answer /approve K7M2QX or /deny K7M2QX."
)


async def test_a_message_says_what_it_waits_for_in_its_turn_or_behind_it_until_that_is_decided(driver, clock):
    turn = await waiting(driver)
    behind = await driver.say("yes, please")
    for message in (turn.messages[0], behind):
        asked = (await driver.db.read(trace_message(message))).awaiting
        assert (asked.id, asked.tool, asked.text, asked.due_at) == ("K7M2QX", "pay", QUESTION, clock.now() + DAY_MS)
    decision = await driver.say("/approve K7M2QX")
    for message in (turn.messages[0], behind, decision):
        assert (await driver.db.read(trace_message(message))).awaiting is None


@pytest.mark.parametrize("end", ["/stop", "never mind"])
async def test_a_turn_that_is_stopped_or_interrupted_is_waited_for_no_longer(driver, end):
    turn = await waiting(driver, yields=True)
    assert (await driver.db.read(trace_message(turn.messages[0]))).awaiting is not None
    await driver.say(end)
    assert (await driver.db.read(trace_message(turn.messages[0]))).awaiting is None


async def test_every_message_of_a_turn_is_told_what_it_waits_for(driver):
    said = [await driver.say("pay him"), await driver.say("and hurry")]
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim, 2), wish()))
    await driver.db.write(append_step(claim, turn, ask(driver)))
    assert [(await driver.db.read(trace_message(one))).awaiting.text for one in said] == [QUESTION, QUESTION]


async def test_only_the_client_that_decided_learns_which_message_continues(driver):
    turn = await waiting(driver)
    others = [await driver.say("/approve K7M2QX", who="eve"), await driver.say("/approve ZZZZZZ")]
    elsewhere = await driver.say("/approve K7M2QX", chat="elsewhere")
    decision = await driver.say("/deny `k7m2qx` no")
    again = await driver.say("/deny K7M2QX")
    late = await driver.say("/deny K7M2QX", who="eve")
    for message in (decision, again):
        assert (await driver.db.read(trace_message(message))).released == turn.messages[-1]
    for message in (*others, elsewhere, late, turn.messages[-1]):
        assert (await driver.db.read(trace_message(message))).released is None


async def test_an_account_that_is_linked_to_the_requester_learns_it_too(driver):
    turn = await waiting(driver)
    asked = LinkRequest(
        principal=Principal("slack:1"), person=Principal("ada"), by="test", operation=OperationId(driver.id("op"))
    )
    await driver.db.write(link_principals(asked))
    decision = await driver.say("/approve K7M2QX", who="slack:1")
    assert (await driver.db.read(trace_message(decision))).released == turn.messages[-1]


async def test_an_approval_waits_in_its_own_mailbox_only_and_until_it_is_decided(driver):
    await waiting(driver)
    await driver.say("hello", chat="elsewhere")

    async def waits(chat="home", id="K7M2QX"):
        return await driver.db.read(is_waiting_at(address_of(chat), ApprovalId(id)))

    assert (await waits(), await waits("elsewhere"), await waits("nowhere"), await waits(id="ZZZZZZ")) == (
        True,
        False,
        False,
        False,
    )
    await driver.say("/deny K7M2QX")
    assert not await waits()


# --- messages to other agents


async def test_a_message_to_another_agent_leaves_with_the_result_that_names_it_and_once(driver):
    message = await driver.say("tell moss")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), tool_step()))
    turn = await driver.db.write(append_step(claim, turn, started()))
    sent = OutgoingMessage(address=address_of("x", agent="moss"), text="hi moss", id=ReplyId("rep_out"))
    done = Step(event=TurnEvent.RETURNED, entries=returned().entries, outgoing=(sent,))
    once = await driver.db.write(append_step(claim, turn, done))
    assert await driver.db.write(append_step(claim, turn, done)) == once
    found = await driver.rows("select id, agent, channel, address, hop, state from reply")
    assert found == [("rep_out", "fern", "agent", address_of("x", agent="moss"), 1, "pending")]
    assert (await driver.db.read(trace_message(message))).reply is None, "it is not the reply to the person who asked"
    await driver.answer(claim, once, "told them")
    assert (await driver.db.read(trace_message(message))).reply.text == "told them"
