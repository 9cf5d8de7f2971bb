"""Situations in which one verb looks for all rows of something and the other adds one.

A lock on the rows that are there does not stop a new one (a phantom): both verbs need a lock that exists before it.
"""

from dataclasses import replace
from typing import Any

from holdfast.inbox import accept_sql, access_sql
from holdfast.inbox.access import PairingAsk, PairingPolicy
from holdfast.inbox.address import Address
from holdfast.inbox.chat_message import hash_of
from holdfast.inbox.mailbox_sql import release_claim
from holdfast.inbox.message import Arrival, Enclosure
from holdfast.kernel.ids import ForgetId, MailboxId, Principal, ReplyId, SessionId
from holdfast.memory import forget_sql, notes_sql
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.notes import MemoryUndo
from holdfast.sessions import command_sql, summary_sql
from holdfast.store import upkeep_sql
from holdfast.turns import record_sql
from holdfast.turns.record_sql import record_turn
from tests.postgres.pairs import (
    FERN,
    SECRET,
    Situation,
    Verbs,
    backfilled,
    command,
    link,
    move,
    note,
    party,
    person,
    scheduled,
    whole,
)
from tests.support.driver import LIMITS, Driver, retain
from tests.support.driver import record as turn_record


async def newcomers(driver: Driver) -> Verbs:
    """A person turns up at places that the agent does not know yet, and is forgotten."""
    await driver.say("before", channel="telegram")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    picture = Enclosure(hash=hash_of(b"p"), name="a.png", media_type="image/png", body=b"p")
    new = driver.arrival("new", chat="new")
    ask = PairingAsk(
        agent=FERN,
        channel="telegram",
        principal=Principal("ada"),
        address=str(Address(agent=FERN, channel="telegram", type="chat", chat="door")),
        code="CQDE4444",
        reply=ReplyId("rep_d"),
        new_mailbox=MailboxId("box_d"),
        name="Ada",
    )
    knock = driver.arrival("knock", chat="door", channel="telegram")
    everywhere = ForgetRequest(id=ForgetId("forget_3"), person=Principal("ada"))
    return {
        "accept": party(accept_sql.accept_message, new, LIMITS, SECRET),
        "accept a picture": party(accept_sql.accept_message, replace(new, enclosures=(picture,)), LIMITS, SECRET),
        "accept a stop": party(accept_sql.accept_message, driver.arrival("/stop", chat="new"), LIMITS, SECRET),
        "ask to be let in": party(access_sql.ask_pairing, ask, policy=PairingPolicy()),
        "ask and speak": party(_ask_and_speak, ask, knock),
        "record": party(record_sql.record_turn, turn_record("b", policies=(retain(),))),
        "note": note("n1", "a dog", subject="ada"),
        "note in a group": note("n2", "a dog", subject="chat:x"),
        "undo a note": party(notes_sql.undo_memory, MemoryUndo(agent=FERN, subject="ada", seq=1, by="op")),
        "link": link("tg:ada", "ada"),
        "move": move("home", "new"),
        "forget the person": person("forget_1"),
        "forget the person everywhere": party(forget_sql.begin_forgetting, everywhere),
        "prune": party(upkeep_sql.prune_messages, older_than_ms=-1, limit=10, secret=SECRET),
    }


def _ask_and_speak(ask: PairingAsk, knock: Arrival) -> Any:
    """Two that follow each other at once: the first makes the mailbox, the second finds it there."""
    yield from access_sql.ask_pairing(ask, policy=PairingPolicy())
    return (yield from accept_sql.accept_message(knock, LIMITS, SECRET))


async def guests(driver: Driver) -> Verbs:
    """In a session that others write to, a person speaks for the first time."""
    policies = (retain(),)
    await driver.db.write(record_turn(turn_record("a", who="bob", policies=policies)))
    await driver.db.write(record_turn(turn_record("a", session="other", policies=policies)))
    quoted = replace(turn_record("c", who="bob", policies=policies), entries=turn_record("x", text="hi").entries)
    return {
        "record": party(record_sql.record_turn, turn_record("b", policies=policies)),
        "record a quotation": party(record_sql.record_turn, quoted),
        "record elsewhere": party(record_sql.record_turn, turn_record("b", session="new", policies=policies)),
        "record for another agent": party(record_sql.record_turn, turn_record("b", session="new", agent="moss")),
        "backfill": party(backfilled, FERN, retain("late"), after="", limit=10),
        "forget the person": person("forget_1"),
        "forget the person everywhere": party(
            forget_sql.begin_forgetting, ForgetRequest(id=ForgetId("forget_3"), person=Principal("ada"))
        ),
        "forget the session": whole("forget_2", SessionId("hermes-1")),
    }


async def branched(driver: Driver) -> Verbs:
    """A session and its branch are live in two chats; the branch is compressed."""
    driver.policies = (retain(),)
    parent = await driver.chat("one", "two")
    child = (await driver.command("/branch b")).session
    assert child is not None
    await driver.command(f"/resume {parent}", chat="there")
    operation = await driver.begin(child)
    summary = await driver.draft(child, through=2)
    again = await command(driver, "/branch c")
    home = await driver.claim()
    resume = replace(again, command=driver.command_run(again.message, f"/resume {parent}").command)
    gone = await command(driver, await driver.delete_text(parent), chat="there")
    there = await driver.claim("there")
    stay = replace(gone, command=driver.command_run(gone.message, f"/resume {child}").command)
    return {
        "summarise the branch": party(summary_sql.commit_summary, operation, summary),
        "branch again": party(command_sql.run_command, home, again),
        "resume the parent": party(command_sql.run_command, home, resume),
        "resume the branch": party(command_sql.run_command, there, stay),
        "delete": party(command_sql.run_command, there, gone),
        "backfill": party(backfilled, FERN, retain("late"), after="", limit=10),
        "forget the session": whole("forget_2", parent),
        "forget the branch": whole("forget_4", child),
        "forget the person": person("forget_1"),
    }


async def branches_at_rest(driver: Driver) -> Verbs:
    """A session that is not live and its branch, which is compressed and resumed."""
    driver.policies = (retain(),)
    parent = await driver.chat("one", "two")
    child = (await driver.command("/branch b")).session
    assert child is not None
    await driver.summarise(child, through=2)
    operation = await driver.begin(child)
    summary = await driver.draft(child)
    resume = await command(driver, f"/resume {parent}")
    home = await driver.claim()
    return {
        "summarise the branch": party(summary_sql.commit_summary, operation, summary),
        "resume the parent": party(command_sql.run_command, home, resume),
        "forget the session": whole("forget_2", parent),
        "forget the person": person("forget_1"),
    }


async def overdue_branches(driver: Driver) -> Verbs:
    """A session and its branch have both waited for company for too long."""
    driver.policies = (replace(retain(every_turns=5), max_wait_ms=10),)
    parent = await driver.chat("one")
    await driver.command("/branch b")
    await driver.chat("two")
    await driver.command(f"/resume {parent}", chat="there")
    await driver.write("update cursor set due_at = 1 + length(stream)")
    gone = await command(driver, await driver.delete_text(parent), chat="there")
    there = await driver.claim("there")
    return {
        "schedule": party(scheduled),
        "delete": party(command_sql.run_command, there, gone),
        "forget the session": whole("forget_2", parent),
        "forget the person": person("forget_1"),
    }


SITUATIONS: dict[str, Situation] = {
    situation.__name__: situation for situation in (newcomers, guests, branched, branches_at_rest, overdue_branches)
}
