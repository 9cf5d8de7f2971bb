"""A reply is sent in order and once. If its outcome is unknown, it is resent at most once and shown as uncertain. A
sender that lost its claim changes nothing (D26).
"""

from dataclasses import replace

import pytest

from holdfast.inbox.accept_sql import accept_message, was_accepted
from holdfast.inbox.attachment_sql import read_positions
from holdfast.inbox.identity import ChatMove
from holdfast.inbox.identity_sql import move_chat
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Duplicate, Limits, MailboxFull, MessageState, TooMany, Unfit
from holdfast.kernel.errors import InvalidInput, ReplyNotFound
from holdfast.kernel.ids import AgentName, NodeId, OperationId, ReplyId
from holdfast.outbox.post import OnDoubt, ReplyState
from holdfast.outbox.reply import NOBODY_KNOWS, POSSIBLE_DUPLICATE, Kept, ReplySettlement, chat_of, untried
from holdfast.outbox.reply_sql import claim_replies, list_replies, next_reply_due, resend_reply, settle_reply
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import find_mailbox, list_sessions, trace_message
from holdfast.store.node_sql import reap_nodes, register_node, retire_node
from holdfast.store.upkeep_sql import prune_messages
from holdfast.turns.turn_sql import commit_turn
from tests.support.driver import SECRET

OTHER = NodeId("node_b")
LEASE_MS = 15_000
FERN = AgentName("fern")


class Ledger:
    """Replies of one agent on one platform, as the reply sender sees them."""

    def __init__(self, driver):
        self.driver = driver
        self.db = driver.db
        self.claims = 0

    async def answer(self, text="hi", *, chat="home", channel="telegram", agent="fern"):
        """Somebody writes, and the turn that answers them is committed."""
        driver = self.driver
        await driver.accept(driver.arrival("hello", chat=chat, channel=channel, agent=agent))
        claim = await self.db.write(claim_mailbox(driver.node))
        commit = driver.commit(text)
        await self.db.write(commit_turn(claim, await driver.open(claim), commit))
        await self.db.write(release_claim(claim))
        return commit.replies[0].id

    async def claim(self, *, node=None, name=None, limit=10, **how):
        self.claims += 1
        return await self.db.write(
            claim_replies(
                node or self.driver.node, FERN, "telegram", name=name or f"claim {self.claims}", limit=limit, **how
            )
        )

    async def one(self, **how):
        (claim,) = await self.claim(**how)
        return claim

    async def settle(self, claim, state, *, part=None, doubts=None, delay_ms=0, receipt=None, reason=None):
        settlement = ReplySettlement(
            state=state,
            part=claim.part if part is None else part,
            doubts=claim.doubts if doubts is None else doubts,
            delay_ms=delay_ms,
            receipt=receipt,
            reason=reason,
        )
        return await self.db.write(settle_reply(claim, settlement))

    async def sent(self, claim, receipt="r1"):
        return await self.settle(claim, ReplyState.DELIVERED, part=claim.part + 1, receipt=receipt)

    async def state(self, reply):
        (row,) = await self.driver.rows(
            "select state, attempt, part, doubts, owner, receipt, reason from reply where id = :id", id=reply
        )
        return row


@pytest.fixture
def ledger(driver):
    return Ledger(driver)


# --- claiming --------------------------------------------------------------------------------------


async def test_a_reply_is_attempting_before_anything_can_be_sent(ledger):
    reply = await ledger.answer("hi there")
    claim = await ledger.one()
    assert (claim.id, claim.text, claim.attempt, claim.part, claim.doubts) == (reply, "hi there", 1, 0, 0)
    assert claim.in_reply_to.startswith("event of msg")
    assert (await ledger.state(reply))[:5] == ("attempting", 1, 0, 0, ledger.driver.node)


async def test_replies_of_a_chat_are_claimed_one_after_the_other_in_order(ledger):
    replies = [await ledger.answer(str(n)) for n in range(3)]
    for reply in replies:
        claim = await ledger.one()
        assert claim.id == reply
        assert await ledger.claim() == ()
        await ledger.sent(claim)
    assert await ledger.claim() == ()


async def test_chats_do_not_wait_for_each_other(ledger):
    blocked = await ledger.answer(chat="a")
    await ledger.settle(await ledger.one(), ReplyState.PENDING, delay_ms=60_000, reason="slow down")
    behind, other = await ledger.answer(chat="a"), await ledger.answer(chat="b")
    assert [claim.id for claim in await ledger.claim()] == [other]
    ledger.driver.clock.advance(60_000)
    assert [claim.id for claim in await ledger.claim()] == [blocked]
    assert (await ledger.state(behind))[0] == "pending"


async def test_no_more_are_claimed_than_asked_for(ledger):
    for chat in "abc":
        await ledger.answer(chat=chat)
    assert len(await ledger.claim(limit=2)) == 2
    assert len(await ledger.claim(limit=2)) == 1


async def test_a_chat_that_rests_is_passed_over_and_others_take_its_place(ledger):
    await ledger.answer(chat="a")
    other = await ledger.answer(chat="b")
    resting = {chat_of("agent:fern:telegram:chat:a")}
    assert [claim.id for claim in await ledger.claim(limit=1, resting=resting)] == [other]


async def test_a_chat_with_many_threads_holds_up_no_other(ledger):
    driver = ledger.driver
    for n in range(5):
        arrival = driver.arrival("hello", chat="group", channel="telegram")
        await driver.accept(replace(arrival, address=replace(arrival.address, thread=str(n))))
        claim = await ledger.db.write(claim_mailbox(driver.node))
        await ledger.db.write(commit_turn(claim, await driver.open(claim), driver.commit("hi")))
        await ledger.db.write(release_claim(claim))
    other = await ledger.answer(chat="b")
    resting = {chat_of("agent:fern:telegram:chat:group")}
    assert [claim.id for claim in await ledger.claim(limit=1, resting=resting)] == [other]


async def test_an_account_gets_its_own_replies_only(ledger):
    await ledger.answer(channel="discord")
    await ledger.answer(agent="moss", chat="b")
    assert await ledger.claim() == ()
    _, due = await ledger.db.read(next_reply_due())
    assert set(due) == {("fern", "discord"), ("moss", "telegram")}


async def test_a_claim_asked_for_again_by_its_name_is_the_same_claim(ledger):
    """After an answer that was lost: nothing was sent, so no outcome is unknown."""
    await ledger.answer(chat="a")
    await ledger.answer(chat="b")
    first = await ledger.claim(name="first", limit=1)
    assert await ledger.claim(name="first", limit=1) == first
    (second,) = await ledger.claim(name="second")
    assert second.id != first[0].id


async def test_an_unknown_node_claims_nothing(ledger):
    await ledger.answer()
    assert await ledger.claim(node=NodeId("node_x")) == ()


async def test_what_is_pulled_is_never_claimed(ledger):
    await ledger.answer(channel="http")
    assert (await ledger.db.read(next_reply_due()))[1] == {}


async def test_a_reply_says_when_it_is_due(ledger):
    await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.PENDING, delay_ms=700)
    behind = ledger.driver.clock.now() + 700
    await ledger.answer()
    assert (await ledger.db.read(next_reply_due()))[1] == {("fern", "telegram"): behind}


async def test_each_channel_of_an_agent_has_its_own_due_time(ledger):
    await ledger.answer(chat="a")
    await ledger.settle(await ledger.one(), ReplyState.PENDING, delay_ms=700)
    await ledger.answer(chat="b", channel="discord")
    now = ledger.driver.clock.now()
    due = {("fern", "discord"): now, ("fern", "telegram"): now + 700}
    assert await ledger.db.read(next_reply_due()) == (now, due)


# --- settling --------------------------------------------------------------------------------------


async def test_a_delivered_reply_keeps_its_receipt(ledger):
    reply = await ledger.answer()
    claim = await ledger.one()
    assert await ledger.sent(claim, "telegram 77") is Kept.DONE
    assert await ledger.state(reply) == ("delivered", 1, 1, 0, None, "telegram 77", None)
    assert await ledger.sent(claim, "telegram 77") is Kept.DONE
    assert (await ledger.state(reply))[5] == "telegram 77"


async def test_pieces_are_counted_and_each_has_its_own_attempts(ledger):
    reply = await ledger.answer()
    claim = await ledger.one()
    going_on = ReplySettlement(state=ReplyState.ATTEMPTING, part=1, doubts=0, receipt="r1")
    assert await ledger.db.write(settle_reply(claim, going_on)) is Kept.GOES_ON
    assert await ledger.db.write(settle_reply(claim, going_on)) is Kept.GOES_ON  # its answer was lost
    assert await ledger.sent(claim.after(going_on), "r2") is Kept.DONE
    assert await ledger.state(reply) == ("delivered", 1, 2, 0, None, "r1 r2", None)


async def test_a_reply_that_rests_between_two_pieces_stays_first_of_its_chat(ledger):
    reply = await ledger.answer("one")
    await ledger.answer("two")
    await ledger.settle(await ledger.one(), ReplyState.PENDING, part=1, delay_ms=1_000, receipt="r1")
    assert await ledger.claim() == ()
    ledger.driver.clock.advance(1_000)
    claim = await ledger.one()
    assert (claim.id, claim.part, claim.attempt) == (reply, 1, 1)


@pytest.mark.parametrize("state", [ReplyState.UNCERTAIN, ReplyState.FAILED])
async def test_what_is_over_never_blocks_the_replies_behind_it(ledger, state):
    await ledger.answer("one")
    behind = await ledger.answer("two")
    await ledger.settle(await ledger.one(), state, reason="blocked")
    assert (await ledger.one()).id == behind


async def test_what_was_not_tried_is_given_back_as_it_was(ledger):
    reply = await ledger.answer()
    claim = await ledger.one()
    await ledger.db.write(settle_reply(claim, untried(claim)))
    assert (await ledger.state(reply))[:5] == ("pending", 1, 0, 0, None)


async def test_a_settlement_of_an_older_attempt_changes_nothing(ledger):
    reply = await ledger.answer()
    old = await ledger.one()
    await ledger.settle(old, ReplyState.PENDING, reason="away")
    young = await ledger.one()
    assert await ledger.sent(old) is Kept.VOID
    assert (await ledger.state(reply))[:2] == ("attempting", 2)
    assert await ledger.sent(young) is Kept.DONE


async def test_a_settlement_of_another_owner_changes_nothing(ledger):
    await ledger.db.write(register_node(OTHER, "there", sole=False))
    reply = await ledger.answer()
    old = await ledger.one()
    await ledger.db.write(retire_node(ledger.driver.node))
    young = await ledger.one(node=OTHER)
    assert await ledger.sent(old) is Kept.VOID
    row = await ledger.state(reply)
    assert (row[0], row[4]) == ("attempting", OTHER)
    assert (young.attempt, young.doubts) == (2, 1)


# --- owners that are gone --------------------------------------------------------------------------


async def retired(ledger):
    await ledger.db.write(retire_node(ledger.driver.node))
    await ledger.db.write(register_node(ledger.driver.node, "here", sole=False))


async def reaped(ledger):
    ledger.driver.clock.advance(LEASE_MS)
    await ledger.db.write(reap_nodes(lease_ms=LEASE_MS))
    await ledger.db.write(register_node(ledger.driver.node, "here", sole=False))


async def replaced(ledger):
    await ledger.db.write(register_node(OTHER, "there", sole=True))
    await ledger.db.write(register_node(ledger.driver.node, "here", sole=False))


async def orphaned(ledger):
    """A claim committed in the instant in which its node was reaped: the next reaping finds it."""
    await ledger.driver.write("delete from node where id = :node", node=ledger.driver.node)
    await ledger.db.write(reap_nodes(lease_ms=LEASE_MS))
    await ledger.db.write(register_node(ledger.driver.node, "here", sole=False))


ENDS = [retired, reaped, replaced, orphaned]


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__)
async def test_a_reply_whose_owner_is_gone_is_uncertain_and_resent_once(ledger, ends):
    reply = await ledger.answer()
    await ledger.one()
    ledger.driver.clock.advance(400)
    await ends(ledger)
    assert (await ledger.state(reply))[:5] == ("pending", 1, 0, 1, None)
    claim = await ledger.one()
    assert (claim.attempt, claim.doubts, claim.post(("hi",)).doubtful) == (2, 1, True)
    assert claim.doubtful_for_ms >= 400


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__)
async def test_a_reply_that_was_uncertain_twice_is_not_sent_a_third_time(ledger, ends):
    reply = await ledger.answer("one")
    behind = await ledger.answer("two")
    for _ in range(2):
        await ledger.one()
        await ends(ledger)
    state, attempt, _, doubts, owner, _, reason = await ledger.state(reply)
    assert (state, attempt, doubts, owner) == ("uncertain", 2, 2, None)
    assert reason
    assert (await ledger.one()).id == behind


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__)
async def test_a_doubtful_reply_is_held_where_the_policy_says_so(ledger, ends):
    reply = await ledger.answer("one")
    behind = await ledger.answer("two")
    await ledger.one()
    await ends(ledger)
    claim = await ledger.one(on_doubt=OnDoubt.HOLD)
    assert claim.id == behind
    assert (await ledger.state(reply))[:4] == ("uncertain", 1, 0, 1)


async def test_the_doubt_is_counted_from_the_first_attempt_that_may_have_arrived(ledger):
    await ledger.answer()
    await ledger.one()
    ledger.driver.clock.advance(1_000)
    await retired(ledger)
    again = await ledger.one()
    await ledger.settle(again, ReplyState.PENDING, reason="away")
    ledger.driver.clock.advance(500)
    assert (await ledger.one()).doubtful_for_ms == 1_500


# --- deletion --------------------------------------------------------------------------------------


async def test_a_reply_that_is_being_sent_when_its_session_is_deleted_is_over(ledger):
    reply = await ledger.answer("canary")
    claim = await ledger.one()
    (session,) = await ledger.db.read(list_sessions())
    text = await ledger.driver.delete_text(session.id)
    await ledger.driver.accept(ledger.driver.arrival(text, channel="telegram"))
    box = await ledger.db.write(claim_mailbox(ledger.driver.node))
    mail = await ledger.db.read(read_mail(box, limit=1))
    await ledger.db.write(run_command(box, ledger.driver.command_run(mail.waiting[0].message, text)))
    assert (await ledger.state(reply))[:5] == ("uncertain", 1, 0, 0, None)
    going_on = ReplySettlement(state=ReplyState.ATTEMPTING, part=1, doubts=0, receipt="r1")
    assert await ledger.db.write(settle_reply(claim, going_on)) is Kept.VOID
    with pytest.raises(InvalidInput, match="were deleted"):
        await ledger.db.write(resend_reply(reply))


async def test_replies_keep_their_order_when_their_chat_moves_while_the_first_is_being_sent(ledger):
    """It is the first one's own refusal that tells of the move."""
    first, second = await ledger.answer("one"), await ledger.answer("two")
    claim = await ledger.one()
    move = ChatMove(
        agent=FERN,
        channel="telegram",
        old_chat="home",
        new_type="chat",
        new_chat="-1001",
        by="telegram itself",
        operation=OperationId("op_1"),
    )
    await ledger.db.write(move_chat(move))
    assert await ledger.claim() == ()
    await ledger.settle(claim, ReplyState.PENDING, delay_ms=1_000, reason="moved")
    assert await ledger.claim() == ()
    ledger.driver.clock.advance(1_000)
    for reply in (first, second):
        claim = await ledger.one()
        assert (claim.id, claim.address.chat) == (reply, "-1001")
        await ledger.sent(claim)


# --- operators -------------------------------------------------------------------------------------


async def test_an_operator_sends_an_uncertain_reply_again(ledger):
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.UNCERTAIN, doubts=1, reason="nobody knows")
    assert await ledger.db.write(resend_reply(reply)) == "pending"
    assert await ledger.db.write(resend_reply(reply)) == "pending"
    claim = await ledger.one(on_doubt=OnDoubt.HOLD)
    assert (claim.id, claim.doubts) == (reply, 2)


@pytest.mark.parametrize(("reason", "part"), [(NOBODY_KNOWS, 2), (POSSIBLE_DUPLICATE, 0)])
async def test_what_an_operator_sends_again_goes_on_where_it_stopped_or_begins_anew_if_all_was_posted(
    ledger, reason, part
):
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.UNCERTAIN, part=2, doubts=2, reason=reason)
    await ledger.db.write(resend_reply(reply))
    claim = await ledger.one()
    assert (claim.id, claim.part, claim.doubts) == (reply, part, 2)


async def test_an_operator_sends_a_failed_reply_again(ledger):
    reply = await ledger.answer()
    await ledger.settle(await ledger.one(), ReplyState.FAILED, reason="blocked")
    await ledger.db.write(resend_reply(reply))
    claim = await ledger.one()
    assert await ledger.sent(claim) is Kept.DONE
    assert (await ledger.state(reply))[0] == "delivered"


async def test_a_reply_that_is_being_sent_is_not_sent_again_beside_that(ledger):
    reply = await ledger.answer()
    claim = await ledger.one()
    assert await ledger.db.write(resend_reply(reply)) == "attempting"
    assert await ledger.claim() == ()
    assert await ledger.sent(claim) is Kept.DONE
    assert (await ledger.state(reply))[0] == "delivered"


async def test_a_delivered_reply_is_not_sent_again(ledger):
    reply = await ledger.answer()
    await ledger.sent(await ledger.one())
    with pytest.raises(InvalidInput, match="is delivered"):
        await ledger.db.write(resend_reply(reply))
    with pytest.raises(ReplyNotFound):
        await ledger.db.write(resend_reply(ReplyId("rep_unknown")))


async def test_the_ledger_is_read_newest_first_page_by_page(ledger):
    replies = [await ledger.answer(str(n), chat=str(n)) for n in range(3)]
    await ledger.settle(
        await ledger.one(limit=1), ReplyState.UNCERTAIN, part=1, doubts=2, receipt="r", reason="possible duplicate"
    )
    page = await ledger.db.read(list_replies(limit=2))
    assert [row.id for row in page] == [replies[2], replies[1]]
    (last,) = await ledger.db.read(list_replies(after=page[-1].n))
    assert (last.id, last.state, last.possible_duplicate, last.receipt) == (replies[0], "uncertain", True, "r")
    assert [row.id for row in await ledger.db.read(list_replies(state="uncertain"))] == [replies[0]]
    assert await ledger.db.read(list_replies(agent="moss")) == []
    assert len(await ledger.db.read(list_replies(agent="fern", channel="telegram"))) == 3


async def test_a_message_shows_what_became_of_its_reply(ledger):
    await ledger.answer()
    claim = await ledger.one()
    await ledger.settle(claim, ReplyState.UNCERTAIN, part=1, doubts=2, receipt="r9", reason="possible duplicate")
    reply = (await ledger.db.read(trace_message(claim.message))).reply
    assert (reply.state, reply.attempt, reply.receipt, reply.possible_duplicate) == ("uncertain", 1, "r9", True)


# --- refusals --------------------------------------------------------------------------------------

FULL = Limits(mailbox_depth_max=1)
FAST = Limits(window_messages_max=1, window_ms=60_000)


def knock(driver, **how):
    return driver.arrival("hello", **{"channel": "telegram", "refuse_durably": True, **how})


async def notices(driver):
    return [bytes(body).decode() for (body,) in await driver.rows("select body from reply order by n")]


@pytest.mark.parametrize(
    ("limits", "outcome", "words"), [(FULL, MailboxFull, "1 messages are already waiting"), (FAST, TooMany, "60 s")]
)
async def test_who_is_refused_for_good_is_told_why(ledger, limits, outcome, words):
    driver = ledger.driver
    await driver.db.write(accept_message(knock(driver), limits, SECRET))
    refused = knock(driver)
    assert isinstance(await driver.db.write(accept_message(refused, limits, SECRET)), outcome)
    (text,) = await notices(driver)
    assert words in text
    claim = await ledger.one()
    assert (claim.message, claim.in_reply_to) == (refused.message, refused.event_id)


async def test_refusals_are_told_once_in_a_window_and_again_after_it(ledger):
    driver = ledger.driver
    await driver.db.write(accept_message(knock(driver), FULL, SECRET))
    for _ in range(5):
        await driver.db.write(accept_message(knock(driver), FULL, SECRET))
    assert len(await notices(driver)) == 1
    driver.clock.advance(FULL.window_ms)
    await driver.db.write(accept_message(knock(driver), FULL, SECRET))
    assert len(await notices(driver)) == 2


@pytest.mark.parametrize(
    "how", [{"human": False}, {"addressed": False}, {"channel": "http"}, {"refuse_durably": False}]
)
async def test_programs_bystanders_and_those_who_hear_it_anyway_are_not_told(ledger, how):
    driver = ledger.driver
    await driver.db.write(accept_message(knock(driver, channel=how.get("channel", "telegram")), FULL, SECRET))
    assert isinstance(await driver.db.write(accept_message(knock(driver, **how), FULL, SECRET)), MailboxFull)
    assert await notices(driver) == []


def unfit(driver, **how):
    return replace(knock(driver, **how), text="", unfit="message_too_large")


async def test_what_can_never_be_taken_is_on_record_without_its_words_and_told_once(ledger):
    driver = ledger.driver
    refused = replace(unfit(driver, event="e1"), position=7)
    assert await driver.db.write(accept_message(refused, Limits(), SECRET)) == Unfit("message_too_large")
    again = replace(refused, message=driver.id("msg"), reply=driver.id("rep"))
    assert await driver.db.write(accept_message(again, Limits(), SECRET)) == Duplicate(
        refused.message, MessageState.REFUSED
    )
    (text,) = await notices(driver)
    assert "too long" in text
    trace = await driver.db.read(trace_message(refused.message))
    assert (trace.state, trace.reason) == (MessageState.REFUSED, "message_too_large")
    assert await driver.rows("select body from inbound") == [(b"",)]
    assert (await driver.db.read(find_mailbox(trace.address))).depth == 0
    assert await driver.db.read(read_positions(refused.account)) == {refused.conversation: (7, "e1")}


async def test_refusals_for_what_a_message_is_do_not_hide_refusals_for_how_many_there_are(ledger):
    driver = ledger.driver
    limits = Limits(window_messages_max=2)
    for _ in range(4):
        await driver.db.write(accept_message(unfit(driver), limits, SECRET))
    assert ["too long" in text for text in await notices(driver)] == [True, True, False], "the flood is told once"
    assert {tuple(row) for row in await driver.rows("select state from inbound")} == {("refused",)}


async def test_what_was_taken_in_is_known_also_after_pruning_and_what_was_refused_never_was(ledger):
    driver = ledger.driver
    kept, refused = driver.arrival("hello", event="e1"), unfit(driver, event="e2")
    for arrival in (kept, refused):
        await driver.db.write(accept_message(arrival, Limits(), SECRET))
    assert await driver.db.read(was_accepted(kept.account, kept.conversation, "e1", SECRET))
    assert not await driver.db.read(was_accepted(refused.account, refused.conversation, "e2", SECRET))
    assert not await driver.db.read(was_accepted(kept.account, kept.conversation, "e3", SECRET))
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    driver.clock.advance(10)
    assert await driver.db.write(prune_messages(older_than_ms=5, limit=10, secret=SECRET)) == 2
    assert await driver.db.read(was_accepted(kept.account, kept.conversation, "e1", SECRET))
    assert not await driver.db.read(was_accepted(refused.account, refused.conversation, "e2", SECRET))


async def test_a_refusal_that_comes_again_is_not_told_again(ledger):
    driver = ledger.driver
    await driver.db.write(accept_message(knock(driver), FULL, SECRET))
    refused = knock(driver)
    await driver.db.write(accept_message(refused, FULL, SECRET))
    driver.clock.advance(FULL.window_ms)
    await driver.db.write(accept_message(refused, FULL, SECRET))
    assert len(await notices(driver)) == 1
