"""A draft is on record before it is sent and is written to by one claim at a time. The reply of its turn replaces it
only when no claim writes to it any more, and that edit leaves no uncertain state.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.identity import ChatMove
from holdfast.inbox.identity_sql import move_chat
from holdfast.inbox.mailbox_sql import claim_mailbox, release_claim
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import AgentName, DraftId, ForgetId, OperationId, ReplyId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.outbox.draft import HOLD_MS, Draft, DraftFate, DraftIntent, DraftState
from holdfast.outbox.draft_sql import drop_draft, intend_draft, note_draft, release_draft, take_stray_drafts
from holdfast.outbox.post import OnDoubt, ReplyState
from holdfast.outbox.reply import Kept, ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, list_replies, read_reply, resend_reply, settle_reply
from holdfast.store.node_sql import register_node, retire_node
from holdfast.turns.turn import OutgoingMessage, Step, TurnEvent
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn
from tests.support.driver import returned, tool_step

FERN = AgentName("fern")
HOME = Address(agent=FERN, channel="telegram", type="chat", chat="home")
MOVE = ChatMove(
    agent=FERN,
    channel="telegram",
    old_chat="home",
    new_type="chat",
    new_chat="-1001",
    by="telegram itself",
    operation=OperationId("op_1"),
)


class Studio:
    """One open turn of one chat, and what is shown of it."""

    def __init__(self, driver):
        self.driver = driver
        self.db = driver.db
        self.claims = 0

    async def open(self):
        await self.driver.accept(self.driver.arrival("hello", channel="telegram"))
        self.claim = await self.db.write(claim_mailbox(self.driver.node))
        self.turn = await self.driver.open(self.claim)
        return self

    async def again(self):
        """The turn is taken up under a younger claim."""
        await self.db.write(release_claim(self.claim))
        self.claim = await self.db.write(claim_mailbox(self.driver.node))
        self.turn = await self.db.write(resume_turn(self.claim, self.turn))

    def intent(self, id="dra_1", **changes):
        made = DraftIntent(
            id=DraftId(id),
            session=self.turn.session,
            turn=self.turn.n,
            mailbox=self.claim.mailbox,
            fence=self.claim.fence,
            address=HOME,
        )
        return replace(made, **changes)

    async def intend(self, id="dra_1"):
        return await self.db.write(intend_draft(self.intent(id)))

    async def show(self, receipt="77"):
        """A draft that stands in the chat."""
        draft = await self.intend()
        await self.db.write(note_draft(draft, DraftState.STANDING, receipt=receipt))
        return replace(draft, state=DraftState.STANDING, receipt=receipt)

    async def answer(self, text="there you are"):
        commit = self.driver.commit(text)
        await self.db.write(commit_turn(self.claim, self.turn, commit))
        return commit.replies[0].id

    async def replies(self, **how):
        self.claims += 1
        name = f"claim {self.claims}"
        return await self.db.write(claim_replies(self.driver.node, FERN, "telegram", name=name, limit=10, **how))

    async def ledger(self, reply):
        return await self.db.read(read_reply(reply))

    async def drafts(self):
        return await self.driver.rows("select id, state, receipt, fence from draft")


@pytest.fixture
async def studio(driver):
    return await Studio(driver).open()


# --- on record -------------------------------------------------------------------------------------


async def test_a_draft_is_on_record_before_it_leaves_and_its_id_after(studio):
    draft = await studio.intend()
    assert draft == Draft(id=DraftId("dra_1"), fence=studio.claim.fence, state=DraftState.INTENDED, address=HOME)
    assert await studio.drafts() == [("dra_1", "intended", None, studio.claim.fence)]
    await studio.db.write(note_draft(draft, DraftState.STANDING, receipt="77"))
    assert await studio.drafts() == [("dra_1", "standing", "77", studio.claim.fence)]


async def test_every_verb_may_be_repeated(studio):
    first = await studio.intend()
    assert await studio.intend() == first
    for _ in range(2):
        await studio.db.write(note_draft(first, DraftState.STANDING, receipt="77"))
        await studio.db.write(release_draft(first))
    await studio.db.write(note_draft(first, None))
    assert await studio.drafts() == [("dra_1", "standing", "77", studio.claim.fence)], "news comes once"


async def test_a_draft_that_was_not_posted_leaves_nothing(studio):
    draft = await studio.intend()
    await studio.db.write(note_draft(draft, None))
    assert await studio.drafts() == []
    reply = await studio.answer()
    (claim,) = await studio.replies()
    assert (claim.id, claim.edits) == (reply, False)
    assert (await studio.ledger(reply)).draft is None


async def test_a_claim_that_is_void_drafts_nothing(studio):
    await studio.db.write(release_claim(studio.claim))
    old = studio.intent()
    await studio.db.write(claim_mailbox(studio.driver.node))
    with pytest.raises(ClaimLost):
        await studio.db.write(intend_draft(old))
    assert await studio.drafts() == []


async def test_a_turn_that_has_ended_is_not_drafted(studio):
    await studio.answer()
    with pytest.raises(ClaimLost):
        await studio.intend()


async def test_an_older_turn_of_the_same_claim_is_not_drafted_any_more(studio):
    """The next turn of the conversation is open by the time the drafter comes to it."""
    late = studio.intent()
    await studio.answer()
    await studio.driver.accept(studio.driver.arrival("and", channel="telegram"))
    await studio.driver.open(studio.claim)
    with pytest.raises(ClaimLost):
        await studio.db.write(intend_draft(late))
    assert await studio.drafts() == []


async def test_a_claim_drafts_the_session_that_its_mailbox_is_in_and_no_other(studio):
    await studio.driver.write("update mailbox set session_id = null where id = :box", box=studio.claim.mailbox)
    with pytest.raises(ClaimLost):
        await studio.intend()


async def test_a_draft_that_stands_is_not_taken_up_while_a_reply_is_on_its_way(driver):
    """It may be the question that the turn asked, which is to take the draft's place before the turn goes on."""
    studio = await Studio(driver).open()
    await studio.answer("the first")
    (first,) = await studio.replies()
    done = ReplySettlement(state=ReplyState.DELIVERED, part=1, doubts=0, receipt="76")
    await studio.db.write(settle_reply(first, done))
    await studio.db.write(release_claim(studio.claim))
    await studio.open()
    await studio.show()
    await studio.again()
    driver.clock.advance(HOLD_MS)
    await driver.write("update reply set state = 'pending' where n = :n", n=first.n)
    assert await studio.intend("dra_2") is None
    await driver.write("update reply set state = 'delivered' where n = :n", n=first.n)
    assert (await studio.intend("dra_2")).receipt == "77"


async def test_a_draft_of_the_same_claim_under_another_id_may_have_been_posted(studio):
    await studio.intend("dra_1")
    again = await studio.intend("dra_2")
    assert (again.id, again.state) == ("dra_1", DraftState.UNKNOWN)


async def test_a_draft_does_not_overtake_a_reply_that_is_on_its_way(driver):
    studio = await Studio(driver).open()
    await studio.answer("the first")
    await studio.db.write(release_claim(studio.claim))
    await studio.open()
    assert await studio.intend() is None
    (first,) = await studio.replies()
    assert await studio.intend() is None
    done = ReplySettlement(state=ReplyState.DELIVERED, part=1, doubts=0, receipt="76")
    await studio.db.write(settle_reply(first, done))
    assert (await studio.intend()).state is DraftState.INTENDED


# --- one writer ------------------------------------------------------------------------------------


async def test_a_younger_claim_waits_for_the_older_hold_and_goes_on_with_the_same_draft(studio):
    await studio.show()
    await studio.again()
    assert await studio.intend("dra_2") is None
    studio.driver.clock.advance(HOLD_MS)
    draft = await studio.intend("dra_2")
    assert (draft.id, draft.receipt, draft.state, draft.fence) == (
        "dra_1",
        "77",
        DraftState.STANDING,
        studio.claim.fence,
    )


async def test_what_an_older_claim_says_later_changes_nothing(studio):
    old = await studio.intend()
    studio.driver.clock.advance(HOLD_MS)
    await studio.again()
    young = await studio.intend("dra_2")
    assert young.state is DraftState.UNKNOWN, "it may have been posted, and its id is unknown"
    await studio.db.write(note_draft(old, DraftState.STANDING, receipt="77"))
    await studio.db.write(note_draft(old, None))
    await studio.db.write(release_draft(old))
    assert await studio.drafts() == [("dra_1", "unknown", None, studio.claim.fence)]


@pytest.mark.parametrize("later", [DraftState.UNKNOWN, DraftState.STANDING, None])
async def test_what_came_of_a_draft_is_said_once(studio, later):
    """An answer that was repeated late takes nothing back: the id that is known is that of the message that stands."""
    draft = await studio.show("77")
    await studio.db.write(note_draft(draft, later, receipt="78" if later is DraftState.STANDING else ""))
    assert await studio.drafts() == [("dra_1", "standing", "77", studio.claim.fence)]


async def test_a_hold_that_is_let_go_is_not_prolonged_by_that(studio):
    draft = await studio.show()
    studio.driver.clock.advance(HOLD_MS - 1)
    await studio.answer()
    await studio.db.write(release_draft(draft, quiet_ms=HOLD_MS))
    studio.driver.clock.advance(1)
    assert len(await studio.replies()) == 1


async def test_a_hold_that_is_asked_for_again_is_prolonged(studio):
    draft = await studio.show()
    studio.driver.clock.advance(HOLD_MS - 1)
    assert (await studio.intend()).receipt == "77"
    await studio.answer()
    studio.driver.clock.advance(HOLD_MS - 1)
    assert await studio.replies() == ()
    await studio.db.write(release_draft(draft))
    assert len(await studio.replies()) == 1


# --- taking its place ------------------------------------------------------------------------------


async def test_a_reply_waits_until_its_draft_is_released_and_then_replaces_it(studio):
    draft = await studio.show()
    reply = await studio.answer()
    assert await studio.replies() == ()
    await studio.db.write(release_draft(draft, quiet_ms=3_000))
    assert await studio.replies() == ()
    studio.driver.clock.advance(3_000)
    (claim,) = await studio.replies()
    assert (claim.id, claim.draft, claim.edits) == (reply, "77", True)
    assert (await studio.ledger(reply)).draft == "standing"
    assert await studio.drafts() == []
    done = ReplySettlement(state=ReplyState.DELIVERED, part=1, doubts=0, receipt="77", draft=DraftFate.REPLACED)
    assert await studio.db.write(settle_reply(claim, done)) is Kept.DONE
    assert (await studio.ledger(reply)).draft == "replaced"


async def test_a_draft_holds_up_nothing_but_its_own_reply(studio):
    driver = studio.driver
    await studio.show()
    await driver.accept(driver.arrival("hi", chat="b", channel="telegram"))
    other = await driver.db.write(claim_mailbox(driver.node))
    commit = driver.commit("hi b")
    await driver.db.write(commit_turn(other, await driver.open(other), commit))
    await studio.answer()
    assert [claim.id for claim in await studio.replies()] == [commit.replies[0].id]


async def test_a_message_to_another_agent_does_not_take_the_draft(studio):
    await studio.show()
    db, claim = studio.db, studio.claim
    address = str(replace(HOME, channel="agent"))
    sent = OutgoingMessage(address=address, text="hi moss", id=ReplyId("rep_out"))
    studio.turn = await db.write(append_step(claim, studio.turn, tool_step()))
    done = Step(event=TurnEvent.RETURNED, entries=returned().entries, outgoing=(sent,))
    studio.turn = await db.write(append_step(claim, studio.turn, done))
    (taken,) = await db.write(claim_replies(studio.driver.node, FERN, "agent", name="out", limit=10))
    assert (taken.id, taken.edits) == ("rep_out", False)
    assert len(await studio.drafts()) == 1


async def test_a_draft_with_an_unknown_id_is_shown_in_the_ledger(studio):
    await studio.intend()
    reply = await studio.answer()
    studio.driver.clock.advance(HOLD_MS)
    (claim,) = await studio.replies()
    assert not claim.edits
    assert (await studio.ledger(reply)).draft == "unknown"
    (shown,) = await studio.db.read(list_replies())
    assert shown.draft == "unknown"


async def test_an_edit_that_is_cut_off_is_repeated_as_often_as_it_takes(studio):
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    for attempt in range(1, 5):
        (claim,) = await studio.replies(on_doubt=OnDoubt.HOLD)
        assert (claim.attempt, claim.draft, claim.doubts) == (attempt, "77", min(attempt - 1, 1))
        await studio.db.write(retire_node(studio.driver.node))
        await studio.db.write(register_node(studio.driver.node, "here", sole=False))
        assert (await studio.ledger(reply)).state == "pending"


async def test_a_reply_sent_because_its_draft_is_gone_can_be_uncertain(studio):
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    (claim,) = await studio.replies()
    gone = ReplySettlement(state=ReplyState.ATTEMPTING, part=0, doubts=0, draft=DraftFate.GONE)
    for _ in range(2):
        assert await studio.db.write(settle_reply(claim, gone)) is Kept.GOES_ON
    assert not claim.after(gone).edits
    await studio.db.write(retire_node(studio.driver.node))
    await studio.db.write(register_node(studio.driver.node, "here", sole=False))
    (claim,) = await studio.replies()
    assert (claim.edits, claim.doubts) == (False, 1)
    assert (await studio.ledger(reply)).draft == "gone"


@pytest.mark.parametrize(("part", "doubts"), [(0, 1), (0, 2), (1, 0)])
async def test_what_was_posted_in_part_or_may_have_been_takes_no_drafts_place(studio, part, doubts):
    """An edit would prove nothing about that."""
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    await studio.driver.write("update reply set part = :part, doubts = :doubts", part=part, doubts=doubts)
    (claim,) = await studio.replies()
    assert (claim.id, claim.edits, claim.part, claim.doubts) == (reply, False, part, doubts)
    assert len(await studio.drafts()) == 1, "no turn took it over, so it is retracted afterwards"


# --- what no reply takes the place of ----------------------------------------------------------------


async def strays(studio):
    return await studio.db.write(take_stray_drafts(limit=10))


async def test_a_draft_of_an_open_turn_or_of_a_reply_on_its_way_is_no_stray(studio):
    draft = await studio.show()
    await studio.db.write(release_draft(draft))
    assert await strays(studio) == ()
    await studio.answer()
    assert await strays(studio) == ()


async def test_a_reply_of_the_turn_to_somebody_else_replaces_no_draft(studio):
    draft = await studio.show()
    await studio.answer()
    await studio.db.write(release_draft(draft))
    await studio.driver.write("update reply set address = :address", address=str(replace(HOME, chat="elsewhere")))
    assert [stray.receipt for stray in await strays(studio)] == ["77"]


async def test_the_draft_of_a_forgotten_session_is_a_stray_until_it_is_retracted(studio):
    await studio.show()
    await studio.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), session=studio.turn.session)))
    assert await strays(studio) == (), "somebody may still write to it"
    studio.driver.clock.advance(HOLD_MS)
    (stray,) = await strays(studio)
    assert (stray.address, stray.receipt) == (HOME, "77")
    for _ in range(2):
        await studio.db.write(drop_draft(stray))
    assert await strays(studio) == ()


@pytest.mark.parametrize("claimed", [False, True])
async def test_stray_drafts_that_cannot_be_retracted_hide_no_others(studio, claimed):
    driver, found = studio.driver, set()
    for n in range(3):
        await driver.accept(driver.arrival("hello", channel="telegram", chat=str(n)))
        one = Studio(driver)
        one.claim = await one.db.write(claim_mailbox(driver.node))
        one.turn = await driver.open(one.claim)
        draft = await one.db.write(intend_draft(one.intent(f"dra_{n}", address=replace(HOME, chat=str(n)))))
        await one.db.write(note_draft(draft, DraftState.STANDING, receipt=str(n)))
        if claimed:
            await one.answer()
            await one.db.write(release_draft(draft))
            assert len(await studio.replies()) == 1
        await one.db.write(begin_forgetting(ForgetRequest(id=ForgetId(f"f{n}"), session=one.turn.session)))
    driver.clock.advance(HOLD_MS)
    for _ in range(3):
        driver.clock.advance(1)
        found |= {stray.receipt for stray in await driver.db.write(take_stray_drafts(limit=1))}
    assert found == {"0", "1", "2"}


async def test_a_draft_without_an_id_is_let_go_when_its_turn_is_forgotten(studio):
    await studio.intend()
    await studio.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), session=studio.turn.session)))
    studio.driver.clock.advance(HOLD_MS)
    assert await strays(studio) == ()
    assert await studio.drafts() == []


async def test_a_draft_without_an_id_is_told_of_at_the_reply_that_can_no_longer_replace_it(studio):
    """Its process died after it had posted the draft, and the answer was deleted before it could be sent."""
    await studio.intend()
    await studio.answer()
    await studio.driver.write("update reply set state = 'failed', body = :blank", blank=b"")
    assert await strays(studio) == ()
    studio.driver.clock.advance(HOLD_MS)
    assert await strays(studio) == ()
    assert await studio.driver.rows("select count(*) from draft") == [(0,)]
    assert await studio.driver.rows("select draft, draft_id from reply") == [("unknown", None)]


async def test_a_reply_to_somebody_else_says_nothing_about_the_draft(studio):
    await studio.intend()
    await studio.answer()
    await studio.driver.write("update reply set address = :address", address=str(replace(HOME, chat="elsewhere")))
    studio.driver.clock.advance(HOLD_MS)
    assert await strays(studio) == ()
    assert await studio.driver.rows("select draft from reply") == [(None,)]


async def test_the_draft_of_a_reply_whose_words_were_deleted_is_a_stray(studio):
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    await studio.replies()
    await studio.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), session=studio.turn.session)))
    (stray,) = await strays(studio)
    assert (stray.id, stray.address, stray.receipt) == (reply, HOME, "77")
    await studio.db.write(drop_draft(stray))
    assert await strays(studio) == ()
    assert (await studio.ledger(reply)).draft == "retracted"


async def test_a_draft_that_is_being_retracted_cannot_be_claimed(studio):
    """Neither another process nor a reply that an operator sends again meanwhile gets it."""
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    await studio.driver.write("update reply set state = 'failed'")
    (stray,) = await strays(studio)
    assert await strays(studio) == ()
    await studio.db.write(resend_reply(reply))
    assert await studio.replies() == ()
    await studio.db.write(drop_draft(stray))
    (claim,) = await studio.replies()
    assert (claim.id, claim.edits) == (reply, False)


async def test_a_draft_that_could_not_be_retracted_is_given_again(studio):
    await studio.show()
    await studio.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), session=studio.turn.session)))
    for _ in range(2):
        studio.driver.clock.advance(HOLD_MS)
        assert len(await strays(studio)) == 1


@pytest.mark.parametrize("answer", [ReplyState.PENDING, None])
async def test_an_edit_that_is_under_way_when_its_chat_moves_is_not_made_there(studio, answer):
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    (claim,) = await studio.replies()
    await studio.db.write(move_chat(MOVE))
    if answer is None:
        await studio.db.write(retire_node(studio.driver.node))
        await studio.db.write(register_node(studio.driver.node, "here", sole=False))
    else:
        await studio.db.write(settle_reply(claim, ReplySettlement(state=answer, part=0, doubts=0, reason="away")))
    (claim,) = await studio.replies()
    assert (claim.id, claim.address.chat, claim.edits) == (reply, "-1001", False)
    assert claim.doubts == int(answer is None), "what was cut off may have landed before the move"


@pytest.mark.parametrize(("tried", "doubts"), [(False, 0), (True, 1)])
async def test_a_draft_stays_behind_when_its_chat_moves(studio, tried, doubts):
    """Its number may be another message's there. An edit that was tried may have landed before the move."""
    draft = await studio.show()
    reply = await studio.answer()
    await studio.db.write(release_draft(draft))
    if tried:
        (claim,) = await studio.replies()
        away = ReplySettlement(state=ReplyState.PENDING, part=0, doubts=0, reason="away")
        await studio.db.write(settle_reply(claim, away))
    await studio.db.write(move_chat(MOVE))
    (claim,) = await studio.replies()
    assert (claim.id, claim.edits, claim.doubts) == (reply, False, doubts)
