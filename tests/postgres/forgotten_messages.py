"""Situations in which a person is forgotten while an agent passes their words on to another agent, or repeats them."""

from dataclasses import replace

from holdfast.inbox import accept_sql
from holdfast.inbox.address import Address, parse
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Arrival
from holdfast.kernel.ids import AgentName, Principal, ReplyId
from holdfast.memory import notes_sql
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.turns import open_turn_sql, turn_sql
from holdfast.turns.turn import OutgoingMessage, Step, TurnEvent
from holdfast.turns.turn_sql import append_step
from tests.postgres.pairs import FERN, SECRET, Situation, Verbs, party, person
from tests.support.driver import LIMITS, Driver, returned, tool_step

MOSS = AgentName("moss")


async def _written(driver: Driver, letter: str, text: str = "what of it?") -> tuple[str, str]:
    """Somebody speaks to fern, which writes to moss; the addresses of both."""
    await driver.say("ask moss")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), tool_step()))
    address = str(Address(agent=MOSS, channel="agent", type="dm", chat=claim.address))
    message = OutgoingMessage(id=ReplyId(letter), address=address, text=text)
    step = replace(returned(), outgoing=(message,))
    await driver.answer(claim, await driver.db.write(append_step(claim, turn, step)))
    await driver.db.write(release_claim(claim))
    return address, claim.address


def _arrival(driver: Driver, letter: str, address: str) -> Arrival:
    """As the channel between agents delivers it."""
    made = driver.arrival("what of it?", who="agent:fern", human=False)
    return replace(
        made, address=parse(address), account="agent:fern", conversation=address[-512:], event_id=f"{letter}.0"
    )


async def a_letter(driver: Driver) -> Verbs:
    """Fern wrote to moss for the first time, and the message is being handed over."""
    address, _ = await _written(driver, "letter_1")
    return {
        "hand over": party(accept_sql.accept_message, _arrival(driver, "letter_1", address), LIMITS, SECRET),
        "forget the person": person("forget_1"),
    }


async def a_letter_that_waits(driver: Driver) -> Verbs:
    """One message of fern waits at moss, a second one is being handed over."""
    address, _ = await _written(driver, "letter_1")
    await driver.accept(_arrival(driver, "letter_1", address))
    await _written(driver, "letter_2", "and what of that?")
    taken = await driver.db.write(claim_mailbox(driver.node))
    assert taken is not None
    mail = await driver.db.read(read_mail(taken, limit=1))
    return {
        "open": party(open_turn_sql.open_turn, taken, driver.opening(mail.session, mail.waiting)),
        "hand over": party(accept_sql.accept_message, _arrival(driver, "letter_2", address), LIMITS, SECRET),
        "forget the person": person("forget_1"),
    }


async def a_repeated_word(driver: Driver) -> Verbs:
    """A turn of somebody else runs in a session that has the words; its model was asked with them."""
    await driver.talk("marmalade")
    await driver.say("who?", who="bob")
    claim = await driver.claim()
    turn = await driver.open(claim)
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="it is marmalade")
    batch = MemoryBatch(
        agent=FERN,
        subject="bob",
        origin=f"tool:{turn.session}:{turn.n}:c1",
        changes=(change,),
        principal=Principal("bob"),
        session=turn.session,
        fence=claim.fence,
    )
    await driver.db.write(apply_memory(replace(batch, origin="o1", changes=(replace(change, text="x"),), fence=0)))
    quoting = Step(event=TurnEvent.CALLED, entries=tool_step().entries)
    return {
        "answer": party(turn_sql.commit_turn, claim, turn, driver.commit("it is marmalade")),
        "step": party(turn_sql.append_step, claim, turn, quoting),
        "note": party(notes_sql.apply_memory, batch),
        "forget the person": person("forget_1"),
    }


SITUATIONS: dict[str, Situation] = {
    situation.__name__: situation for situation in (a_letter, a_letter_that_waits, a_repeated_word)
}
