"""Conformance checks for engines that run the store's scripts: `await check_store(open_store)`.

Each check is a sentence, runs against a fresh database and raises `AssertionError` with that sentence. The checks use
only the port `Database` and the store's own clock. The project's contract suite tests far more: an engine that fails a
check is wrong, an engine that passes all of them is right in outline.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.address import Address
from holdfast.inbox.mailbox import Claim
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Accepted, Arrival, Conflict, Duplicate, Limits, MailboxFull, kind_of
from holdfast.kernel.errors import ClaimLost, HoldfastError, NodeLost, SessionLive, SessionMoved, SummaryStale
from holdfast.kernel.ids import AgentName, MailboxId, MessageId, NodeId, OperationId, Principal, ReplyId, SessionId
from holdfast.sessions.command import parse_command
from holdfast.sessions.command_rights import delete_word
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.compression import COMPRESS, Busy, Operation, SummaryDraft
from holdfast.sessions.history_sql import list_entries, list_summaries, read_session, trace_message
from holdfast.sessions.session import CommandDone, CommandRun
from holdfast.sessions.summary_sql import begin_operation, commit_summary
from holdfast.store.node_sql import register_node, renew_node, retire_node
from holdfast.store.ports import Database
from holdfast.turns.context_sql import read_context
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.open_turn_sql import open_turn
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn import NewReply, Turn, TurnCommit, TurnEvent, TurnOpening, TurnRecord
from holdfast.turns.turn_sql import commit_turn, resume_turn

NODE = NodeId("node_check")
SECRET = b"the secret of the checks"
WORDS = "hello \0 \u200d \U0001f9ff ß"


OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Database]]


class StoreGuest:
    """A user of the store under test."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._made = 0

    def id(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}_{self._made:06d}"

    def arrival(self, text: str, *, chat: str = "home", event: str = "") -> Arrival:
        return Arrival(
            message=MessageId(self.id("msg")),
            address=Address(agent=AgentName("fern"), channel="check", type="chat", chat=chat),
            account="fern",
            conversation=chat,
            event_id=event or self.id("event"),
            principal=Principal("ada"),
            text=text,
            kind=kind_of(text),
            reply=ReplyId(self.id("rep")),
            new_mailbox=MailboxId(self.id("box")),
        )

    async def say(self, text: str, *, chat: str = "home") -> MessageId:
        outcome = await self.db.write(accept_message(self.arrival(text, chat=chat), Limits(), SECRET))
        assert isinstance(outcome, Accepted), f"a message is accepted, not {outcome}"
        return outcome.message

    async def claim(self) -> Claim:
        claim = await self.db.write(claim_mailbox(NODE))
        assert claim is not None, "a mailbox with mail can be claimed"
        return claim

    async def open(self, claim: Claim) -> Turn:
        mail = await self.db.read(read_mail(claim, limit=1))
        (head,) = mail.waiting
        opening = TurnOpening(
            session=mail.session or SessionId(self.id("ses")),
            messages=(head.message,),
            entries=(head.said(),),
            principal=head.principal,
        )
        turn = await self.db.write(open_turn(claim, opening))
        assert isinstance(turn, Turn), f"a turn is opened, not {turn}"
        return turn

    def commit(self, text: str = "ok") -> TurnCommit:
        reply = NewReply(id=ReplyId(self.id("rep")), text=text)
        return TurnCommit(event=TurnEvent.ANSWERED, entries=(AssistantSaid(text=text),), replies=(reply,))

    async def talk(self, text: str, *, chat: str = "home") -> Turn:
        await self.say(text, chat=chat)
        claim = await self.claim()
        turn = await self.open(claim)
        await self.db.write(commit_turn(claim, turn, self.commit(f"re: {text}")))
        await self.db.write(release_claim(claim))
        return turn

    async def command(self, text: str) -> CommandDone:
        message = await self.say(text)
        claim = await self.claim()
        done = await self.db.write(run_command(claim, self.run(message, text)))
        await self.db.write(release_claim(claim))
        return done

    def run(self, message: MessageId, text: str) -> CommandRun:
        command = parse_command(text)
        assert command is not None
        return CommandRun(
            message=message,
            command=command,
            principal=Principal("ada"),
            new_session=SessionId(self.id("ses")),
            operation=OperationId(self.id("op")),
            reply=ReplyId(self.id("rep")),
        )

    async def texts(self, session: SessionId) -> list[str]:
        return [entry.text for entry in (await self.db.read(read_context(session))).entries]

    async def begin(self, session: SessionId) -> Operation:
        begun = await self.db.write(begin_operation(OperationId(self.id("op")), COMPRESS, session, NODE))
        assert isinstance(begun, Operation), "an operation begins when none is running"
        return begun

    async def draft(self, session: SessionId, through: int) -> SummaryDraft:
        context = await self.db.read(read_context(session))
        return SummaryDraft(
            base_n=context.summary.n if context.summary else 0,
            undo_count=context.undo_count,
            covers_from=context.covers_through + 1,
            covers_through=through,
            head_seq=context.last_seq,
            text="so far",
            model="check",
        )


async def refuses(call: Awaitable[object], kind: type[HoldfastError]) -> bool:
    try:
        await call
    except kind:
        return True
    return False


# --- accepting -------------------------------------------------------------------------------------


async def an_event_is_accepted_once(guest: StoreGuest) -> None:
    arrival = guest.arrival("hi", event="e1")
    await guest.db.write(accept_message(arrival, Limits(), SECRET))
    again = await guest.db.write(accept_message(guest.arrival("hi", event="e1"), Limits(), SECRET))
    assert isinstance(again, Duplicate)
    assert again.message == arrival.message


async def the_same_event_with_another_body_is_a_conflict(guest: StoreGuest) -> None:
    await guest.db.write(accept_message(guest.arrival("hi", event="e1"), Limits(), SECRET))
    assert isinstance(
        await guest.db.write(accept_message(guest.arrival("ho", event="e1"), Limits(), SECRET)),
        Conflict,
    )


async def a_full_mailbox_refuses(guest: StoreGuest) -> None:
    await guest.say("one")
    assert isinstance(
        await guest.db.write(accept_message(guest.arrival("two"), Limits(mailbox_depth_max=1), SECRET)),
        MailboxFull,
    )


async def a_signal_is_answered_at_once(guest: StoreGuest) -> None:
    trace = await guest.db.read(trace_message(await guest.say("/status")))
    assert trace.reply is not None


async def every_character_is_kept(guest: StoreGuest) -> None:
    turn = await guest.talk(WORDS)
    assert (await guest.texts(turn.session))[0] == WORDS


# --- claims ----------------------------------------------------------------------------------------


async def a_claimed_mailbox_is_not_claimed_twice(guest: StoreGuest) -> None:
    await guest.say("one")
    await guest.claim()
    assert await guest.db.write(claim_mailbox(NODE)) is None


async def a_claim_asked_for_again_by_its_name_is_the_same(guest: StoreGuest) -> None:
    await guest.say("one")
    first = await guest.db.write(claim_mailbox(NODE, name="mine"))
    assert first is not None
    assert await guest.db.write(claim_mailbox(NODE, name="mine")) == first


async def a_stale_claim_changes_nothing(guest: StoreGuest) -> None:
    await guest.say("one")
    old = await guest.claim()
    turn = await guest.open(old)
    await guest.db.write(release_claim(old))
    assert (await guest.claim()).fence > old.fence
    assert await refuses(guest.db.write(commit_turn(old, turn, guest.commit())), ClaimLost)
    assert (await guest.db.read(read_context(turn.session))).committed_seq == 0


async def a_node_that_left_cannot_renew(guest: StoreGuest) -> None:
    await guest.db.write(retire_node(NODE))
    assert await refuses(guest.db.write(renew_node(NODE)), NodeLost)


# --- turns -----------------------------------------------------------------------------------------


async def a_turn_is_answered(guest: StoreGuest) -> None:
    turn = await guest.talk("one")
    trace = await guest.db.read(trace_message(turn.messages[0]))
    assert trace.reply is not None
    assert (trace.state.value, trace.reply.text) == ("answered", "re: one")
    assert await guest.db.write(claim_mailbox(NODE)) is None


async def an_open_turn_is_not_committed(guest: StoreGuest) -> None:
    await guest.say("one")
    turn = await guest.open(await guest.claim())
    context = await guest.db.read(read_context(turn.session))
    assert (context.committed_seq, context.last_seq) == (0, 1)


async def a_commit_repeated_changes_nothing(guest: StoreGuest) -> None:
    await guest.say("one")
    claim = await guest.claim()
    turn, commit = await guest.open(claim), guest.commit()
    first = await guest.db.write(commit_turn(claim, turn, commit))
    assert await guest.db.write(commit_turn(claim, turn, commit)) == first
    assert len(await guest.db.read(list_entries(turn.session))) == 2


async def a_resumed_turn_is_another_attempt(guest: StoreGuest) -> None:
    await guest.say("one")
    turn = await guest.open(claim := await guest.claim())
    await guest.db.write(release_claim(claim))
    assert (await guest.db.write(resume_turn(await guest.claim(), turn))).attempt == 2


# --- sessions --------------------------------------------------------------------------------------


async def new_starts_another_session_and_resume_returns(guest: StoreGuest) -> None:
    old = (await guest.talk("one")).session
    assert (await guest.command("/new")).session != old
    assert (await guest.command(f"/resume {old}")).session == old
    assert (await guest.db.read(read_session(old))).epoch == 2


async def a_command_repeated_returns_its_first_result(guest: StoreGuest) -> None:
    await guest.talk("one")
    message = await guest.say("/new")
    claim, run = await guest.claim(), guest.run(message, "/new")
    assert await guest.db.write(run_command(claim, run)) == await guest.db.write(run_command(claim, run))


async def undo_hides_a_turn(guest: StoreGuest) -> None:
    session = (await guest.talk("one")).session
    await guest.command("/undo")
    assert await guest.texts(session) == []
    assert [view.undone for view in (await guest.db.read(list_entries(session)))[:2]] == [True, True]


async def a_branch_sees_its_parent_up_to_the_fork(guest: StoreGuest) -> None:
    parent = (await guest.talk("one")).session
    child = (await guest.command("/branch")).session
    assert child is not None
    await guest.talk("two")
    assert await guest.texts(child) == ["one", "re: one", "two", "re: two"]
    assert await guest.texts(parent) == ["one", "re: one"]


async def delete_blanks_what_was_said(guest: StoreGuest) -> None:
    turn = await guest.talk("secret")
    asked = await guest.command("/delete")
    assert (asked.session, asked.switched) == (turn.session, False), "the first /delete asks and deletes nothing"
    session = await guest.db.read(read_session(turn.session))
    await guest.command(f"/delete {delete_word(session.id, session.committed_seq, session.principal)}")
    assert [view.entry.text for view in await guest.db.read(list_entries(turn.session))] == ["", ""]


async def a_recorded_turn_is_recorded_once(guest: StoreGuest) -> None:
    first = await guest.db.write(record_turn(_record("k1")))
    again = await guest.db.write(record_turn(_record("k1")))
    assert (first.repeated, again.repeated, again.last_seq) == (False, True, first.last_seq)
    assert await refuses(guest.db.write(record_turn(_record("k2", expected_seq=0))), SessionMoved)


async def a_live_session_is_not_recorded_to(guest: StoreGuest) -> None:
    session = (await guest.talk("one")).session
    assert await refuses(guest.db.write(record_turn(_record("k1", session))), SessionLive)


def _record(key: str, session: str = "outside", expected_seq: int | None = None) -> TurnRecord:
    return TurnRecord(
        session=SessionId(session),
        agent="fern",
        key=key,
        entries=(UserSaid(text="hi", principal="ada"),),
        principal=Principal("ada"),
        place="desk",
        expected_seq=expected_seq,
    )


# --- summaries -------------------------------------------------------------------------------------


async def a_summary_stands_for_what_it_covers(guest: StoreGuest) -> None:
    await guest.talk("one")
    session = (await guest.talk("two")).session
    operation, draft = await guest.begin(session), await guest.draft(session, through=2)
    made = await guest.db.write(commit_summary(operation, draft))
    assert await guest.db.write(commit_summary(operation, draft)) == made
    assert await guest.texts(session) == ["two", "re: two"]
    assert len(await guest.db.read(list_entries(session))) == 4


async def one_operation_runs_at_a_time(guest: StoreGuest) -> None:
    session = (await guest.talk("one")).session
    running = await guest.begin(session)
    other = await guest.db.write(begin_operation(OperationId("op_other"), COMPRESS, session, NODE))
    assert other == Busy(running.id)


async def a_summary_of_an_undone_history_is_stale(guest: StoreGuest) -> None:
    session = (await guest.talk("one")).session
    operation, draft = await guest.begin(session), await guest.draft(session, through=2)
    await guest.command("/undo")
    assert await refuses(guest.db.write(commit_summary(operation, draft)), SummaryStale)
    assert await guest.db.read(list_summaries(session)) == []


Check: TypeAlias = Callable[[StoreGuest], Awaitable[None]]
CHECKS: tuple[Check, ...] = (
    an_event_is_accepted_once,
    the_same_event_with_another_body_is_a_conflict,
    a_full_mailbox_refuses,
    a_signal_is_answered_at_once,
    every_character_is_kept,
    a_claimed_mailbox_is_not_claimed_twice,
    a_claim_asked_for_again_by_its_name_is_the_same,
    a_stale_claim_changes_nothing,
    a_node_that_left_cannot_renew,
    a_turn_is_answered,
    an_open_turn_is_not_committed,
    a_commit_repeated_changes_nothing,
    a_resumed_turn_is_another_attempt,
    new_starts_another_session_and_resume_returns,
    a_command_repeated_returns_its_first_result,
    undo_hides_a_turn,
    a_branch_sees_its_parent_up_to_the_fork,
    delete_blanks_what_was_said,
    a_recorded_turn_is_recorded_once,
    a_live_session_is_not_recorded_to,
    a_summary_stands_for_what_it_covers,
    one_operation_runs_at_a_time,
    a_summary_of_an_undone_history_is_stale,
)


def sentence(check: Check) -> str:
    return getattr(check, "__name__", str(check)).replace("_", " ")


async def check_store(open_store: OpenStore) -> int:
    """Run every check against a fresh store and return how many passed. Raises at the first failure."""
    for check in CHECKS:
        async with open_store() as db:
            await db.write(register_node(NODE, "check", sole=False))
            try:
                await check(StoreGuest(db))
            except AssertionError as error:
                raise AssertionError(f"not so: {sentence(check)} ({error})") from error
    return len(CHECKS)
