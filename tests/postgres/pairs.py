"""Situations in which verbs meet on common rows. Each makes a state and names the verbs that may be under way in it.

A verb is a `Party`: its script is made anew each time it is run. All ids are made beforehand, as callers make them.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

from holdfast.inbox import accept_sql, access_sql, attachment_sql, identity_sql, mailbox_sql
from holdfast.inbox.access import PairingAsk, PairingDecision, PairingPolicy
from holdfast.inbox.address import Address, parse
from holdfast.inbox.chat_message import hash_of
from holdfast.inbox.identity import ChatMove, LinkRequest
from holdfast.inbox.mailbox_sql import claim_mailbox, release_claim
from holdfast.inbox.message import Enclosure
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    DraftId,
    ForgetId,
    Instant,
    MailboxId,
    MessageId,
    NodeId,
    OperationId,
    Principal,
    Provider,
    ReplyId,
    SessionId,
)
from holdfast.memory import cursor_sql, forget_sql, lane_sql, notes_sql, replay_sql
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, PerAddress
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import settle_lanes
from holdfast.memory.notes import Capacity, MemoryBatch, MemoryUndo, MemoryVerb, NoteChange, Target
from holdfast.outbox import draft_sql, reply_sql
from holdfast.outbox.draft import DraftIntent, DraftState
from holdfast.outbox.post import OnDoubt, ReplyState
from holdfast.outbox.reply import ReplySettlement
from holdfast.sessions import command_sql, extraction_sql, finalisation_sql, summary_sql
from holdfast.sessions.compression import COMPRESS
from holdfast.sessions.extraction import Proposal
from holdfast.sessions.finalisation import Ending, FinishEvent, NotEnded
from holdfast.sessions.finalisation_sql import begin_finalisation, claim_finalisation
from holdfast.sessions.summary_sql import end_operation
from holdfast.store import node_sql, upkeep_sql
from holdfast.store.node_sql import register_node, retire_node
from holdfast.store.script import Call
from holdfast.turns import approval_sql, record_sql, turn_sql, work_sql
from holdfast.turns.approval import ApprovalAsk, Decision
from holdfast.turns.journal import AssistantSaid, ToolCall
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn import Step, TurnEvent
from holdfast.turns.turn_sql import append_step, commit_turn
from tests.postgres.interleaving import Party
from tests.support.driver import LIMITS, Driver, retain, tool_step
from tests.support.driver import record as turn_record
from tests.support.planner import PlainPlanner, unknown

Verbs: TypeAlias = dict[str, Party]
Situation: TypeAlias = Callable[[Driver], Awaitable[Verbs]]

FERN = AgentName("fern")
MEM = Provider("mem")
KEY = LaneKey(FERN, MEM)
OTHER = NodeId("node_b")
SECRET = b"a secret of the tests"
LEASE_MS = 30_000
PAY = ToolCall(id="c1", name="pay", arguments="{}")


PASSED = {
    mailbox_sql.claim_mailbox: "None",
    mailbox_sql.claim_mailboxes: "()",
    work_sql.claim_work: "()",
    finalisation_sql.claim_finalisation: "None",
    lane_sql.claim_lanes: "()",
    lane_sql.hurry_lanes: "0",
    reply_sql.claim_replies: "()",
    draft_sql.take_stray_drafts: "()",
    forget_sql.sweep_forgotten: "0",
}


def party(verb: Callable[..., Any], *arguments: Any, name: str = "", **options: Any) -> Party:
    """A verb with its arguments, which must fit it: a `TypeError` would be taken for an outcome."""
    taken = inspect.signature(verb)
    if name and "name" in taken.parameters:
        options["name"] = name
    taken.bind(*arguments, **options)
    return Party(lambda: iter(verb(*arguments, **options)), name, PASSED.get(verb, ""))


async def command(driver: Driver, text: str, *, chat: str = "home", who: str = "ada") -> Any:
    """A command that waits in its mailbox, to be run under a claim."""
    message = await driver.say(text, chat=chat, who=who)
    return driver.command_run(message, text, who=who)


async def _claim_of(driver: Driver, node: NodeId | None = None) -> Any:
    taken = await driver.db.write(claim_mailbox(node or driver.node))
    assert taken is not None
    return taken


def person(id_: str, who: str = "ada") -> Party:
    return party(forget_sql.begin_forgetting, ForgetRequest(id=ForgetId(id_), person=Principal(who), agent=FERN))


def whole(id_: str, session: SessionId) -> Party:
    return party(forget_sql.begin_forgetting, ForgetRequest(id=ForgetId(id_), session=session))


def backfilled(*arguments: Any, **options: Any) -> Any:
    """How many units were made; whether a session was looked at in vain does not matter."""
    return (yield from replay_sql.backfill_sessions(*arguments, **options))[1]


def _ended(wish: Ending) -> Any:
    """Why a session is not ended may be told differently: what matters is that it is not."""
    done = yield from finalisation_sql.begin_finalisation(wish)
    return "not ended" if isinstance(done, NotEnded) else done


def scheduled() -> Any:
    """How many cursors were looked at does not matter."""
    yield from cursor_sql.schedule_overdue(limit=10)


def settled(claim: Any, state: DeliveryState = DeliveryState.DELIVERED) -> Party:
    return party(lane_sql.settle_lanes, [(claim, [Settlement(n=one.n, state=state) for one in claim.packages])])


def claim_lanes(node: NodeId, name: str) -> Party:
    return Party(lambda: iter(lane_sql.claim_lanes(node, KEY, name=name, lanes=1, units=2, renderer="r1")), name, "()")


# --- mailboxes -------------------------------------------------------------------------------------


async def mail(driver: Driver) -> Verbs:
    """A chat with a message, and messages on their way to it and to a new one."""
    await driver.db.write(register_node(OTHER, "b", sole=False))
    await driver.say("hello")
    picture = Enclosure(hash=hash_of(b"p"), name="a.png", media_type="image/png", body=b"p")
    first, second, again = driver.arrival("one"), driver.arrival("two"), driver.arrival("one")
    again = replace(again, event_id=first.event_id)
    new, newer = driver.arrival("new", chat="new"), driver.arrival("newer", chat="new")
    limits = replace(LIMITS, mailbox_depth_max=2)
    return {
        "accept one": party(accept_sql.accept_message, first, LIMITS, SECRET),
        "accept two": party(accept_sql.accept_message, second, LIMITS, SECRET),
        "accept one again": party(accept_sql.accept_message, again, LIMITS, SECRET),
        "accept with little room": party(accept_sql.accept_message, second, limits, SECRET),
        "accept one with little room": party(accept_sql.accept_message, first, limits, SECRET),
        "accept at a new place": party(accept_sql.accept_message, new, LIMITS, SECRET),
        "accept there too": party(accept_sql.accept_message, newer, LIMITS, SECRET),
        "accept a picture": party(accept_sql.accept_message, replace(first, enclosures=(picture,)), LIMITS, SECRET),
        "claim": party(mailbox_sql.claim_mailbox, driver.node),
        "claim elsewhere": party(mailbox_sql.claim_mailbox, OTHER),
        "claim by name": party(mailbox_sql.claim_mailbox, driver.node, name="n"),
        "claim by name again": party(mailbox_sql.claim_mailbox, driver.node, name="n"),
    }


async def claims(driver: Driver) -> Verbs:
    """Two mailboxes are ready."""
    await driver.db.write(register_node(OTHER, "b", sole=False))
    await driver.say("hello")
    await driver.say("hello", chat="there")
    return {
        "claim": party(mailbox_sql.claim_mailbox, driver.node),
        "claim elsewhere": party(mailbox_sql.claim_mailbox, OTHER),
        "claim by name": party(mailbox_sql.claim_mailbox, driver.node, name="n"),
        "claim by name again": party(mailbox_sql.claim_mailbox, driver.node, name="n"),
        "claim several": party(mailbox_sql.claim_mailboxes, driver.node, limit=1, name="m"),
        "claim several again": party(mailbox_sql.claim_mailboxes, driver.node, limit=1, name="m"),
        "claim work": party(work_sql.claim_work, driver.node, PlainPlanner(), unknown, limit=1, name="w"),
        "claim work again": party(work_sql.claim_work, driver.node, PlainPlanner(), unknown, limit=1, name="w"),
        "retire": party(node_sql.retire_node, driver.node),
    }


async def nodes_at_their_end(driver: Driver) -> Verbs:
    """A node whose lease is over holds a mailbox."""
    session = await driver.chat("before")
    operation = await driver.begin(session)
    await driver.db.write(end_operation(operation, "failed", {}))
    await driver.say("hello")
    claim = await driver.claim()
    driver.clock.advance(LEASE_MS + 1)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    return {
        "reap": party(node_sql.reap_nodes, lease_ms=LEASE_MS),
        "renew": party(node_sql.renew_node, driver.node),
        "release": party(mailbox_sql.release_claim, claim, retry_in_ms=0),
        "retire": party(node_sql.retire_node, driver.node),
        "register alone": party(node_sql.register_node, OTHER, "b", sole=True),
    }


async def a_lost_claim(driver: Driver) -> Verbs:
    """A worker does not know yet that its mailbox is somebody else's."""
    await driver.say("hello")
    lost = await driver.claim()
    await driver.db.write(retire_node(driver.node))
    await driver.db.write(register_node(OTHER, "b", sole=False))
    held = await driver.claim(node=OTHER)
    return {
        "release the lost": party(mailbox_sql.release_claim, lost, retry_in_ms=5),
        "release": party(mailbox_sql.release_claim, held, retry_in_ms=0),
        "accept": party(accept_sql.accept_message, driver.arrival("more"), LIMITS, SECRET),
    }


async def an_open_turn(driver: Driver) -> Verbs:
    """A turn is open; its worker may be taken for dead, and its words may be forgotten."""
    driver.policies = (retain(),)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    await driver.talk("before")
    await driver.say("hello")
    claim = await driver.claim()
    turn = await driver.open(claim)
    message = driver.arrival("more")
    stop = driver.arrival("/stop")
    intent = DraftIntent(
        id=DraftId("dra_1"),
        session=turn.session,
        turn=turn.n,
        mailbox=claim.mailbox,
        fence=claim.fence,
        address=parse(claim.address),
    )
    later = replace(retain("late"), naming=PerAddress())
    return {
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "step": party(turn_sql.append_step, claim, turn, tool_step()),
        "resume": party(turn_sql.resume_turn, claim, turn),
        "accept": party(accept_sql.accept_message, message, LIMITS, SECRET),
        "stop": party(accept_sql.accept_message, stop, LIMITS, SECRET),
        "release": party(mailbox_sql.release_claim, claim, retry_in_ms=0),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the person": person("forget_1"),
        "forget the session": whole("forget_2", turn.session),
        "backfill": party(backfilled, FERN, later, after="", limit=10),
        "intend a draft": party(draft_sql.intend_draft, intent),
    }


async def two_claims(driver: Driver) -> Verbs:
    """The mailbox was claimed anew while an earlier worker still works on its turn."""
    await driver.say("hello")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return {
        "step": party(turn_sql.append_step, claim, turn, tool_step()),
        "step otherwise": party(turn_sql.append_step, claim, turn, tool_step("c2")),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "commit otherwise": party(turn_sql.commit_turn, claim, turn, driver.commit("no")),
        "resume": party(turn_sql.resume_turn, claim, turn),
        "resume again": party(turn_sql.resume_turn, claim, turn),
    }


# --- sessions --------------------------------------------------------------------------------------


async def a_long_session(driver: Driver) -> Verbs:
    """A session with a few turns that is compressed while commands are run."""
    driver.policies = (retain(),)
    session = await driver.chat("one", "two", "three")
    operation = await driver.begin(session)
    draft = await driver.draft(session)
    short = await driver.draft(session, through=2)
    undo = await command(driver, "/undo 2")
    claim = await driver.claim()
    runs = {verb: replace(undo, command=driver.command_run(undo.message, text).command) for verb, text in (
        ("new", "/new"), ("branch", "/branch b"), ("delete", await driver.delete_text(session)), ("title", "/title t"),
    )}  # fmt: skip
    other = OperationId("op_other")
    return {
        "undo": party(command_sql.run_command, claim, undo),
        **{verb: party(command_sql.run_command, claim, run) for verb, run in runs.items()},
        "summarise": party(summary_sql.commit_summary, operation, draft),
        "summarise less": party(summary_sql.commit_summary, operation, short),
        "begin again": party(summary_sql.begin_operation, other, COMPRESS, session, driver.node),
        "end": party(summary_sql.end_operation, operation, "failed", {}),
        "forget the person": person("forget_1"),
        "forget the session": whole("forget_2", session),
        "claim lanes": claim_lanes(driver.node, "l"),
        "retire": party(node_sql.retire_node, driver.node),
    }


async def left(driver: Driver) -> Verbs:
    """A session was left and is resumed, in the moment in which it is forgotten."""
    session = await driver.chat("one")
    await driver.command("/new")
    resume = await command(driver, f"/resume {session}")
    claim = await driver.claim()
    return {
        "resume": party(command_sql.run_command, claim, resume),
        "forget the session": whole("forget_2", session),
        "record": party(record_sql.record_turn, turn_record("b", session=session)),
        "claim": party(finalisation_sql.claim_finalisation, driver.node),
    }


async def two_operations(driver: Driver) -> Verbs:
    """Two compressions begin at the same time."""
    session = await driver.chat("one")
    return {
        "begin": party(summary_sql.begin_operation, OperationId("op_x"), COMPRESS, session, driver.node),
        "begin too": party(summary_sql.begin_operation, OperationId("op_y"), COMPRESS, session, driver.node),
    }


async def recorded(driver: Driver) -> Verbs:
    """A session that writers without a mailbox write to."""
    policies = (retain(),)
    await driver.db.write(record_turn(turn_record("a", policies=policies)))
    session = SessionId("hermes-1")
    operation = await driver.begin(session)
    draft = await driver.draft(session)
    ending = Ending(session=session, epoch=1, cause="idle", active_before=Instant(2**60), policies=policies)
    later = retain("late")
    return {
        "record": party(record_sql.record_turn, turn_record("b", policies=policies)),
        "record too": party(record_sql.record_turn, turn_record("c", text="other", policies=policies)),
        "record again": party(record_sql.record_turn, turn_record("b", policies=policies)),
        "record as expected": party(record_sql.record_turn, turn_record("d", expected_seq=2, policies=policies)),
        "record a late provider": party(record_sql.record_turn, turn_record("e", policies=(*policies, later))),
        "summarise": party(summary_sql.commit_summary, operation, draft),
        "end": party(_ended, ending),
        "backfill": party(backfilled, FERN, later, after="", limit=10),
        "backfill too": party(backfilled, FERN, later, after="", limit=10),
        "forget the person": person("forget_1"),
        "forget the session": whole("forget_2", session),
        "claim lanes": claim_lanes(driver.node, "l"),
    }


async def overdue(driver: Driver) -> Verbs:
    """A turn has waited for company longer than its provider may wait."""
    policy = replace(retain(every_turns=5), max_wait_ms=10)
    driver.policies = (policy,)
    session = await driver.chat("one")
    driver.clock.advance(11)
    undo = await command(driver, "/undo")
    claim = await driver.claim()
    other = replace(undo, command=driver.command_run(undo.message, "/new").command)
    return {
        "schedule": party(scheduled),
        "schedule too": party(scheduled),
        "undo": party(command_sql.run_command, claim, undo),
        "new": party(command_sql.run_command, claim, other),
        "forget the session": whole("forget_2", session),
        "forget the person": person("forget_1"),
    }


async def overdue_record(driver: Driver) -> Verbs:
    """The same in a session that a writer without a mailbox writes to."""
    policy = replace(retain(every_turns=5), max_wait_ms=10)
    await driver.db.write(record_turn(turn_record("a", policies=(policy,))))
    driver.clock.advance(11)
    return {
        "schedule": party(scheduled),
        "schedule too": party(scheduled),
        "record": party(record_sql.record_turn, turn_record("b", policies=(policy,))),
        "record alone": party(record_sql.record_turn, turn_record("b", policies=(retain(),))),
        "forget the session": whole("forget_2", SessionId("hermes-1")),
    }


async def ended(driver: Driver) -> Verbs:
    """An epoch has ended and is worked on, while mail and commands may come."""
    driver.policies = (retain(every_turns=5),)
    session = await driver.chat("one")
    ending = Ending(session=session, epoch=1, cause="idle", active_before=Instant(2**60), policies=driver.policies)
    await driver.db.write(begin_finalisation(ending))
    other = await driver.chat("one", chat="other")
    await driver.db.write(begin_finalisation(replace(ending, session=other)))
    await driver.db.write(register_node(OTHER, "b", sole=False))
    resume = await command(driver, f"/resume {session}", chat="there")
    there = await driver.claim("there")
    return {
        "claim": party(finalisation_sql.claim_finalisation, driver.node),
        "claim elsewhere": party(finalisation_sql.claim_finalisation, OTHER),
        "claim by name": party(finalisation_sql.claim_finalisation, driver.node, name="f"),
        "claim by name again": party(finalisation_sql.claim_finalisation, driver.node, name="f"),
        "accept": party(accept_sql.accept_message, driver.arrival("more"), LIMITS, SECRET),
        "resume elsewhere": party(command_sql.run_command, there, resume),
        "forget the person": person("forget_1"),
        "retry": party(finalisation_sql.retry_finalisation, session, 1),
    }


async def ending(driver: Driver) -> Verbs:
    """An unused session is ended at the moment at which it is used again."""
    driver.policies = (retain(every_turns=5),)
    session = await driver.chat("one")
    wish = Ending(session=session, epoch=1, cause="idle", active_before=Instant(2**60), policies=driver.policies)
    resume = await command(driver, f"/resume {session}", chat="there")
    there = await driver.claim("there")
    return {
        "end": party(_ended, wish),
        "end too": party(_ended, wish),
        "accept": party(accept_sql.accept_message, driver.arrival("more"), LIMITS, SECRET),
        "resume elsewhere": party(command_sql.run_command, there, resume),
        "forget the session": whole("forget_2", session),
        "forget the person": person("forget_1"),
    }


async def _finishing(driver: Driver) -> Any:
    driver.policies = ()
    session = await driver.chat("one")
    ending = Ending(session=session, epoch=1, cause="idle", active_before=Instant(2**60), policies=())
    await driver.db.write(begin_finalisation(ending))
    held = await driver.db.write(claim_finalisation(driver.node))
    assert held is not None
    return held


async def finishing(driver: Driver) -> Verbs:
    """The extraction of an epoch is under way."""
    held = await _finishing(driver)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    record = finalisation_sql.record_finalisation
    return {
        "record": party(record, held, FinishEvent.ANSWERED, answer=b'{"changes":[]}', model="m"),
        "put off": party(record, held, FinishEvent.POSTPONED, reason="later"),
        "retire": party(node_sql.retire_node, driver.node),
        "accept": party(accept_sql.accept_message, driver.arrival("more"), LIMITS, SECRET),
        "forget the person": person("forget_1"),
        "forget the session": whole("forget_2", held.session),
    }


async def closing(driver: Driver) -> Verbs:
    """Everything was extracted, and the session is to be closed."""
    held = await _finishing(driver)
    for event in (FinishEvent.ANSWERED, FinishEvent.APPLIED):
        held = await driver.db.write(Call("step", party(finalisation_sql.record_finalisation, held, event).script))
    resume = await command(driver, f"/resume {held.session}", chat="there")
    there = await driver.claim("there")
    return {
        "close": party(finalisation_sql.record_finalisation, held, FinishEvent.CLOSED),
        "accept": party(accept_sql.accept_message, driver.arrival("more"), LIMITS, SECRET),
        "resume elsewhere": party(command_sql.run_command, there, resume),
        "record": party(record_sql.record_turn, turn_record("b", session=held.session)),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the session": whole("forget_2", held.session),
    }


async def applying(driver: Driver) -> Verbs:
    """What a model made of an epoch is written to memory, beside notes that are made meanwhile."""
    held = await _finishing(driver)
    held = await driver.db.write(
        finalisation_sql.record_finalisation(held, FinishEvent.ANSWERED, answer=b'{"changes":[]}', model="m")
    )
    wish = Proposal(verb="add", text="a cat")
    await driver.db.write(Call("note", note("n0", "a cat", subject="ada").script))
    driver.clock.advance(1)
    return {
        "apply": party(extraction_sql.apply_finalisation, held, [wish], Capacity()),
        "remove": note("n2", "", subject="ada", verb=MemoryVerb.REMOVE, old="a cat"),
        "note": note("n1", "a dog"),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the person": person("forget_1"),
    }


# --- memory ----------------------------------------------------------------------------------------


def note(
    origin: str, text: str, *, subject: str = "", verb: MemoryVerb = MemoryVerb.ADD, who: str = "ada", **more: Any
) -> Party:
    change = NoteChange(verb=verb, target=Target.MEMORY, text=text, **more)
    batch = MemoryBatch(
        agent=FERN,
        subject=subject,
        origin=origin,
        changes=(change,),
        principal=Principal(who),
        policies=(DeliveryPolicy(provider=MEM, naming=PerAddress(), memory=True),),
    )
    return party(notes_sql.apply_memory, batch)


async def notes(driver: Driver) -> Verbs:
    """A memory that several write to."""
    await driver.db.write(Call("note", note("n0", "a bird").script))
    return {
        "note": note("n1", "a dog"),
        "note too": note("n2", "a cat"),
        "note again": note("n1", "a dog"),
        "replace": note("n4", "a hawk", verb=MemoryVerb.REPLACE, old="bird", who="bob"),
        "undo": party(notes_sql.undo_memory, MemoryUndo(agent=FERN, subject="", seq=1, by="op")),
        "about somebody": note("n3", "a cat", subject="ada"),
        "forget the person": person("forget_1"),
        "claim lanes": claim_lanes(driver.node, "l"),
    }


# --- lanes -----------------------------------------------------------------------------------------


async def work(driver: Driver) -> Verbs:
    """A lane has work and is not claimed."""
    driver.policies = (retain(),)
    await driver.db.write(register_node(OTHER, "b", sole=False))
    session = await driver.chat("one", "two")
    undo = await command(driver, "/undo")
    claim = await driver.claim()
    delete = replace(undo, command=driver.command_run(undo.message, await driver.delete_text(session)).command)
    return {
        "claim": claim_lanes(driver.node, ""),
        "claim elsewhere": claim_lanes(OTHER, ""),
        "undo": party(command_sql.run_command, claim, undo),
        "delete": party(command_sql.run_command, claim, delete),
        "forget the session": whole("forget_2", session),
        "forget the person": person("forget_1"),
    }


async def two_lanes(driver: Driver) -> Verbs:
    """Two lanes have work and are not claimed."""
    driver.policies = (retain(),)
    await driver.chat("one")
    await driver.chat("one", chat="there")
    return {
        "claim by name": claim_lanes(driver.node, "l"),
        "claim by name again": claim_lanes(driver.node, "l"),
    }


async def carried(driver: Driver) -> Verbs:
    """A lane is being carried, while its session goes on."""
    driver.policies = (retain(),)
    session = await driver.chat("one")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=2, renderer="r1"))
    await driver.say("two")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return {
        "settle": settled(lane),
        "settle as parked": settled(lane, DeliveryState.PARKED),
        "settle for later": settled(lane, DeliveryState.SCHEDULED),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the session": whole("forget_2", session),
        "forget the person": person("forget_1"),
    }


async def carried_and_undone(driver: Driver) -> Verbs:
    """A lane is being carried, while what is on it is undone."""
    driver.policies = (retain(),)
    session = await driver.chat("one", "two")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    undo = await command(driver, "/undo 2")
    claim = await driver.claim()
    return {
        "settle": settled(lane),
        "undo": party(command_sql.run_command, claim, undo),
        "delete": party(command_sql.run_command, claim, replace(undo, command=driver.command_run(
            undo.message, await driver.delete_text(session)).command)),
        "forget the session": whole("forget_2", session),
        "retire": party(node_sql.retire_node, driver.node),
    }  # fmt: skip


async def carried_and_overdue(driver: Driver) -> Verbs:
    """A lane is being carried, while the next turn of its session has waited for too long."""
    policy = replace(retain(every_turns=5), max_wait_ms=10)
    await driver.db.write(record_turn(turn_record("a", policies=(retain(),))))
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(record_turn(turn_record("b", policies=(policy,))))
    driver.clock.advance(11)
    return {"settle": settled(lane), "schedule": party(scheduled)}


async def put_off(driver: Driver) -> Verbs:
    """A lane has delivered something and waits for its provider, which is back."""
    driver.policies = (retain(),)
    await driver.chat("one")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(Call("settle", settled(lane).script))
    driver.clock.advance(5)
    await driver.chat("two")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    later = [Settlement(n=one.n, state=DeliveryState.SCHEDULED, delay_ms=60_000) for one in lane.packages]
    await driver.db.write(settle_lanes([(lane, later)]))
    return {
        "hurry": party(lane_sql.hurry_lanes, KEY, limit=5),
        "hurry too": party(lane_sql.hurry_lanes, KEY, limit=5),
        "claim": claim_lanes(driver.node, ""),
    }


async def parked(driver: Driver) -> Verbs:
    """A delivery was parked, and is replayed."""
    driver.policies = (retain(),)
    await driver.chat("one", "two")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(Call("park", settled(lane, DeliveryState.PARKED).script))
    delivery = DeliveryId((await driver.rows("select id from delivery where state = 'parked'"))[0][0])
    undo = await command(driver, "/undo 2")
    claim = await driver.claim()
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="m", lanes=1, units=1, renderer="r1"))
    driver.clock.advance(5)
    return {
        "replay": party(replay_sql.replay_delivery, delivery),
        "replay too": party(replay_sql.replay_delivery, delivery),
        "undo": party(command_sql.run_command, claim, undo),
        "settle": settled(lane),
    }


# --- people ----------------------------------------------------------------------------------------


def link(principal: str, person: str, request_id: str = "") -> Party:
    operation = OperationId(f"link {principal} {person} {request_id}")
    request = LinkRequest(principal=Principal(principal), person=Principal(person), by="test", operation=operation)
    return party(identity_sql.link_principals, request)


async def people(driver: Driver) -> Verbs:
    """Some are linked, and links come and go."""
    await driver.db.write(Call("link", link("tg:ada", "ada", "before").script))
    return {
        "link": link("tg:bob", "bob"),
        "link as asked": link("tg:bob", "bob"),
        "link as before": link("tg:ada", "ada", "before"),
        "link the other way": link("bob", "tg:bob"),
        "link to another": link("tg:bob", "carol"),
        "link a chain": link("bob", "carol"),
        "link again": link("tg:ada", "ada"),
        "link the person": link("ada", "eve"),
        "link to the linked": link("tg:bob", "tg:ada"),
        "link a second": link("dc:ada", "ada"),
        "unlink": party(
            identity_sql.unlink_principal, Principal("tg:ada"), named="test", operation=OperationId("unlink 1")
        ),
        "unlink too": party(
            identity_sql.unlink_principal, Principal("tg:ada"), named="test", operation=OperationId("unlink 2")
        ),
    }


def move(old: str, new: str) -> Party:
    operation = OperationId(f"move {old} {new}")
    move = ChatMove(
        agent=FERN, channel="telegram", old_chat=old, new_type="group", new_chat=new, by="t", operation=operation
    )
    return party(identity_sql.move_chat, move, name=identity_sql.moving(FERN))


async def moves(driver: Driver) -> Verbs:
    """Chats move to other addresses, also to each other's and to an unused one."""
    await driver.say("before", chat="a", channel="telegram")
    claim = await driver.claim("a")
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    await driver.say("hello", chat="a", channel="telegram")
    await driver.say("hello", chat="b", channel="telegram")
    address = {chat: Address(agent=FERN, channel="telegram", type="chat", chat=chat) for chat in "abc"}
    empty = PairingAsk(
        agent=FERN,
        channel="telegram",
        principal=Principal("tg:eve"),
        address=str(replace(address["c"], type="group")),
        code="EMPTY234",
        reply=ReplyId("rep_e"),
        new_mailbox=MailboxId("box_e"),
    )
    await driver.db.write(access_sql.ask_pairing(empty, policy=PairingPolicy()))
    late = replace(driver.arrival("late", channel="telegram"), address=address["a"])
    there = replace(driver.arrival("there", channel="telegram"), address=replace(address["c"], type="group"))
    here = replace(driver.arrival("here", channel="telegram"), address=replace(address["a"], chat="d", type="group"))
    return {
        "a to c": move("a", "c"),
        "b to c": move("b", "c"),
        "a to b": move("a", "b"),
        "b to a": move("b", "a"),
        "a to d": move("a", "d"),
        "b to d": move("b", "d"),
        "accept at a": party(accept_sql.accept_message, late, LIMITS, SECRET),
        "accept at c": party(accept_sql.accept_message, there, LIMITS, SECRET),
        "accept at d": party(accept_sql.accept_message, here, LIMITS, SECRET),
        "move a to c": party(
            identity_sql.move_address,
            address["a"],
            replace(address["c"], type="group"),
            named="t",
            operation=OperationId("o"),
        ),
    }


async def strangers(driver: Driver) -> Verbs:
    """A stranger waits to be let in."""
    policy = PairingPolicy()

    def ask(reply: str, code: str = "CQDE2222", who: str = "tg:eve") -> PairingAsk:
        where = str(Address(agent=FERN, channel="telegram", type="chat", chat=who))
        return PairingAsk(
            agent=FERN,
            channel="telegram",
            principal=Principal(who),
            address=where,
            code=code,
            reply=ReplyId(reply),
            new_mailbox=MailboxId(f"box {reply}"),
        )

    await driver.db.write(access_sql.ask_pairing(ask("rep_0"), policy=policy))
    driver.clock.advance(policy.told_every_ms + 1)

    def decide(reply: str, *, admit: bool) -> Party:
        decision = PairingDecision(
            code="CQDE2222", admit=admit, by="t", operation=OperationId(reply), reply=ReplyId(reply)
        )
        return party(access_sql.decide_pairing, decision, policy=policy)

    return {
        "ask": party(access_sql.ask_pairing, ask("rep_1"), policy=policy),
        "ask too": party(access_sql.ask_pairing, ask("rep_2"), policy=policy),
        "admit": decide("rep_3", admit=True),
        "admit too": decide("rep_4", admit=True),
        "deny": decide("rep_5", admit=False),
        "unpair": party(access_sql.unpair, Principal("tg:eve"), agent=FERN, named="t", operation=OperationId("un")),
        "another asks": party(access_sql.ask_pairing, ask("rep_6", "CQDE3333", "tg:bob"), policy=policy),
    }


async def decided(driver: Driver) -> Verbs:
    """A stranger was let in long ago, and another asks."""
    verbs = await strangers(driver)
    await driver.db.write(Call("admit", verbs["admit"].script))
    driver.clock.advance(PairingPolicy().lasts_ms + 1)
    return verbs


# --- approvals, drafts, replies ----------------------------------------------------------------------


async def asked(driver: Driver) -> Verbs:
    """A turn waits for a human."""
    await driver.say("pay him")
    claim = await driver.claim()
    turn = await driver.open(claim)
    said = Step(event=TurnEvent.CALLED, entries=(AssistantSaid(text="", calls=(PAY,)),))
    turn = await driver.db.write(append_step(claim, turn, said))
    ask = ApprovalAsk(ids=(ApprovalId("K7M2QX"),), call=PAY, reply=ReplyId("rep_ask"), wait_ms=60_000)
    turn = await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.ASKED, entries=(), ask=ask)))
    id_ = ApprovalId("K7M2QX")
    return {
        "approve": party(approval_sql.decide_approval, id_, Decision.APPROVED, named="op", reason=""),
        "deny": party(approval_sql.decide_approval, id_, Decision.DENIED, named="op2", reason=""),
        "approve here": party(accept_sql.accept_message, driver.arrival("/approve K7M2QX"), LIMITS, SECRET),
        "stop": party(accept_sql.accept_message, driver.arrival("/stop"), LIMITS, SECRET),
        "release": party(mailbox_sql.release_claim, claim, retry_in_ms=0),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("no", event=TurnEvent.INTERRUPTED)),
        "forget the person": person("forget_1"),
    }


async def posted(driver: Driver) -> Verbs:
    """Replies wait for their platform."""
    await driver.db.write(register_node(OTHER, "b", sole=False))
    for text, chat in (("one", "home"), ("two", "home"), ("three", "there")):
        await driver.say(text, channel="telegram", chat=chat)
        claim = await driver.claim(chat)
        turn = await driver.open(claim)
        await driver.answer(claim, turn)
        await driver.db.write(release_claim(claim))
    return {
        "claim": claim_replies(driver.node, "r", limit=1),
        "claim again": claim_replies(driver.node, "r", limit=1),
        "claim elsewhere": claim_replies(OTHER, "r2"),
        "forget the person": person("forget_1"),
        "move": move("home", "new"),
    }


def claim_replies(node: NodeId, name: str, *, limit: int = 5, on_doubt: OnDoubt = OnDoubt.RESEND) -> Party:
    claim = reply_sql.claim_replies(node, FERN, "telegram", name=name, limit=limit, on_doubt=on_doubt)
    return Party(lambda: iter(claim), name, "()")


async def sent(driver: Driver) -> Verbs:
    """A reply is being sent, and another failed."""
    for text in ("one", "two"):
        await driver.say(text, channel="telegram", chat=text)
        claim = await _claim_of(driver)
        turn = await driver.open(claim)
        await driver.answer(claim, turn)
        await driver.db.write(release_claim(claim))
    made = await driver.db.write(Call("claim", claim_replies(driver.node, "r").script))
    first, second = made
    failed = ReplySettlement(state=ReplyState.FAILED, part=0, doubts=0, reason="no")
    await driver.db.write(reply_sql.settle_reply(second, failed))
    delivered = ReplySettlement(state=ReplyState.DELIVERED, part=1, doubts=0, receipt="r1")
    unknown = ReplySettlement(state=ReplyState.UNCERTAIN, part=0, doubts=2, reason="who knows")
    return {
        "settle": party(reply_sql.settle_reply, first, delivered),
        "settle otherwise": party(reply_sql.settle_reply, first, unknown),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the person": person("forget_1"),
        "resend": party(reply_sql.resend_reply, second.id),
        "resend too": party(reply_sql.resend_reply, second.id),
        "resend the first": party(reply_sql.resend_reply, first.id),
        "claim elsewhere": claim_replies(driver.node, "r2"),
        "move": move("two", "new"),
    }


async def drafted(driver: Driver) -> Verbs:
    """A draft stands in the chat of an open turn."""
    await driver.say("hello", channel="telegram")
    claim = await driver.claim()
    turn = await driver.open(claim)
    intent = DraftIntent(
        id=DraftId("dra_1"),
        session=turn.session,
        turn=turn.n,
        mailbox=claim.mailbox,
        fence=claim.fence,
        address=parse(claim.address),
    )
    draft = await driver.db.write(draft_sql.intend_draft(intent))
    assert draft is not None
    late = replace(draft, fence=draft.fence - 1)  # of a claim that is over
    return {
        "intend again": party(draft_sql.intend_draft, intent),
        "note": party(draft_sql.note_draft, draft, DraftState.STANDING, receipt="55"),
        "withdraw": party(draft_sql.note_draft, draft, None, receipt=""),
        "release": party(draft_sql.release_draft, draft, quiet_ms=0),
        "release late": party(draft_sql.release_draft, late, quiet_ms=0),
        "note late": party(draft_sql.note_draft, late, DraftState.UNKNOWN, receipt="66"),
        "withdraw late": party(draft_sql.note_draft, late, None, receipt=""),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "retire": party(node_sql.retire_node, driver.node),
        "forget the person": person("forget_1"),
    }


async def about_to_draft(driver: Driver) -> Verbs:
    """A turn is about to get a draft, in the moment in which its reply is there."""
    await driver.say("hello", channel="telegram")
    claim = await driver.claim()
    turn = await driver.open(claim)
    intent = DraftIntent(
        id=DraftId("dra_1"),
        session=turn.session,
        turn=turn.n,
        mailbox=claim.mailbox,
        fence=claim.fence,
        address=parse(claim.address),
        hold_ms=0,
    )
    commit = driver.commit("ok")

    def answered() -> Any:
        """The reply is committed, claimed and posted before anything else happens."""
        yield from turn_sql.commit_turn(claim, turn, commit)
        done = ReplySettlement(state=ReplyState.DELIVERED, part=1, doubts=0, receipt="r1")
        for made in (yield from claim_replies(driver.node, "r").script()):
            yield from reply_sql.settle_reply(made, done)

    return {"intend": party(draft_sql.intend_draft, intent), "answer": party(answered)}


async def asked_and_drafted(driver: Driver) -> Verbs:
    """A turn has a draft in its chat and asks something there: the question may take the draft over."""
    await driver.say("pay him", channel="telegram")
    claim = await driver.claim()
    turn = await driver.open(claim)
    intent = DraftIntent(
        id=DraftId("dra_1"),
        session=turn.session,
        turn=turn.n,
        mailbox=claim.mailbox,
        fence=claim.fence,
        address=parse(claim.address),
    )
    draft = await driver.db.write(draft_sql.intend_draft(intent))
    assert draft is not None
    await driver.db.write(draft_sql.note_draft(draft, DraftState.STANDING, receipt="55"))
    await driver.db.write(draft_sql.release_draft(draft))
    said = Step(event=TurnEvent.CALLED, entries=(AssistantSaid(text="", calls=(PAY,)),))
    turn = await driver.db.write(append_step(claim, turn, said))
    ask = ApprovalAsk(ids=(ApprovalId("K7M2QX"),), call=PAY, reply=ReplyId("rep_ask"), wait_ms=60_000)
    await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.ASKED, entries=(), ask=ask)))
    return {"claim replies": claim_replies(driver.node, "r"), "intend again": party(draft_sql.intend_draft, intent)}


async def stray(driver: Driver) -> Verbs:
    """A draft stands in a chat, and its turn has ended without a reply; another has a reply."""
    for text in ("one", "two"):
        await driver.say(text, channel="telegram", chat=text)
        claim = await _claim_of(driver)
        turn = await driver.open(claim)
        intent = DraftIntent(
            id=DraftId(f"dra_{text}"),
            session=turn.session,
            turn=turn.n,
            mailbox=claim.mailbox,
            fence=claim.fence,
            address=parse(claim.address),
        )
        draft = await driver.db.write(Call("intend", party(draft_sql.intend_draft, intent).script))
        await driver.db.write(
            Call("note", party(draft_sql.note_draft, draft, DraftState.STANDING, receipt="55").script)
        )
        await driver.db.write(Call("release", party(draft_sql.release_draft, draft).script))
        replies_ = () if text == "one" else driver.commit("ok").replies
        await driver.db.write(commit_turn(claim, turn, replace(driver.commit("ok"), replies=replies_)))
        await driver.db.write(release_claim(claim))
    driver.clock.advance(1)
    return {
        "find strays": party(draft_sql.take_stray_drafts, limit=10),
        "find strays too": party(draft_sql.take_stray_drafts, limit=10),
        "claim replies": claim_replies(driver.node, "r"),
    }


# --- forgetting, attachments -------------------------------------------------------------------------


async def forgotten(driver: Driver) -> Verbs:
    """Something was forgotten, and what follows is done by two at once."""
    session = await driver.chat("one")
    await driver.db.write(Call("forget", person("forget_0", "bob").script))
    await driver.write("update forget set swept_at = null")
    return {
        "sweep": party(forget_sql.sweep_forgotten, quiet_ms=0, limit=10),
        "sweep too": party(forget_sql.sweep_forgotten, quiet_ms=0, limit=10),
        "mark": party(forget_sql.mark_scrubbed, [ForgetId("forget_0")], "r1"),
        "mark too": party(forget_sql.mark_scrubbed, [ForgetId("forget_0")], "r2"),
        "forget": person("forget_1"),
        "forget again": person("forget_1"),
        "forget the session": whole("forget_2", session),
    }


async def attachments(driver: Driver) -> Verbs:
    """Two messages bring the same bytes."""
    picture = Enclosure(hash=hash_of(b"p"), name="a.png", media_type="image/png", body=b"p")
    await driver.db.write(Call("enclose", lambda: attachment_sql.enclose(MessageId("one"), (picture,))))
    await driver.db.write(Call("enclose", lambda: attachment_sql.enclose(MessageId("two"), (picture,))))
    await driver.db.write(Call("drop", lambda: attachment_sql.drop_enclosures(["two"])))
    await driver.db.write(Call("enclose", lambda: attachment_sql.enclose(MessageId("four"), (picture,))))
    return {
        "drop one": party(attachment_sql.drop_enclosures, ["one"]),
        "drop four": party(attachment_sql.drop_enclosures, ["four"]),
        "drop both": party(attachment_sql.drop_enclosures, ["one", "four"]),
        "bring it again": party(attachment_sql.enclose, MessageId("three"), (picture,)),
        "note read": party(attachment_sql.note_position, "acc", "conv", 5, "e5"),
        "note read further": party(attachment_sql.note_position, "acc", "conv", 9, "e9"),
        "prune": party(upkeep_sql.prune_messages, older_than_ms=0, limit=10, secret=SECRET),
    }


SITUATIONS: dict[str, Situation] = {
    situation.__name__: situation
    for situation in (
        mail,
        claims,
        nodes_at_their_end,
        a_lost_claim,
        an_open_turn,
        two_claims,
        a_long_session,
        left,
        two_operations,
        recorded,
        overdue,
        overdue_record,
        ended,
        ending,
        finishing,
        closing,
        applying,
        notes,
        work,
        two_lanes,
        carried,
        carried_and_undone,
        carried_and_overdue,
        put_off,
        parked,
        people,
        moves,
        strangers,
        decided,
        asked,
        posted,
        sent,
        drafted,
        about_to_draft,
        asked_and_drafted,
        stray,
        forgotten,
        attachments,
    )
}
