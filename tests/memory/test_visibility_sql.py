"""The store returns a note only to its audience, and counts the changes that make instructions in RAM stale.

A process keeps instructions in RAM; whether it may use them again says a number in the store.

Rules: D44.
"""

import pytest

from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.kernel.ids import AgentName, ForgetId, Instant, OperationId, Principal, Provider
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.notes import Applied, Capacity, MemoryBatch, MemoryUndo
from holdfast.memory.notes_sql import (
    apply_memory,
    list_memory_operations,
    memory_notes,
    read_memory,
    read_shown_notes,
    undo_memory,
)
from holdfast.memory.visibility import Audience, is_group
from holdfast.sessions.extraction import Proposal
from holdfast.sessions.extraction_sql import apply_finalisation, read_excerpt
from holdfast.sessions.finalisation import Ending, FinishEvent
from holdfast.sessions.finalisation_sql import begin_finalisation, claim_finalisation, record_finalisation
from holdfast.store.script import Call
from holdfast.turns.context_sql import read_context
from tests.memory.test_notes_plan import add, remove, swap

FERN = AgentName("fern")
DM, GROUP = "agent:fern:telegram:dm:1", "agent:fern:telegram:group:-100"
CLUB = f"chat:{GROUP}"
MIRRORED = (DeliveryPolicy(provider=Provider("shelf"), memory=True),)


def reader(who="ada", address=DM, **more):
    return Audience(agent=FERN, principal=Principal(who), address=address, is_group=is_group(address), **more)


async def note(driver, *changes, subject="", **options):
    wish = MemoryBatch(agent=FERN, subject=subject, origin=driver.id("o"), changes=changes, **options)
    outcome = await driver.db.write(apply_memory(wish))
    assert isinstance(outcome, Applied), outcome
    return outcome.seqs


async def shown(driver, audience):
    found = await driver.db.read(read_shown_notes(audience))
    return [entry.text for entry in found.own.entries], [one.entry.text for one in found.others]


async def forget(driver, person="ada"):
    wish = ForgetRequest(id=ForgetId(driver.id("f")), agent=FERN, person=Principal(person))
    return await driver.db.write(begin_forgetting(wish))


def linking(driver, principal, person):
    return LinkRequest(
        principal=Principal(principal), person=Principal(person), by="t", operation=OperationId(driver.id("op"))
    )


async def test_each_reader_is_shown_the_shared_notes_and_their_own(driver):
    await note(driver, add("for all"), by="user")
    await note(driver, add("hers"), subject="ada")
    await note(driver, add("his"), subject="bob")
    await note(driver, add("the club's"), subject=CLUB)
    assert await shown(driver, reader()) == (["hers"], ["for all"])
    assert await shown(driver, reader("bob")) == (["his"], ["for all"])
    assert await shown(driver, reader(address=GROUP)) == (["the club's"], ["for all"])
    assert await shown(driver, reader(address=f"{GROUP}1")) == ([], ["for all"])
    assert await shown(driver, reader(address=GROUP, private_in_groups=True)) == (["the club's"], ["for all", "hers"])


async def test_notes_of_linked_accounts_are_one_persons_until_they_are_unlinked(driver):
    await note(driver, add("from home"), subject="ada")
    await note(driver, add("from the phone"), subject="phone")
    await driver.db.write(link_principals(linking(driver, "phone", "ada")))
    assert await shown(driver, reader()) == (["from home"], ["from the phone"])
    assert await shown(driver, reader("phone")) == (["from the phone"], ["from home"])
    assert await shown(driver, reader("phone", GROUP)) == ([], [])
    await driver.db.write(unlink_principal(Principal("phone"), named="t", operation=OperationId(driver.id("op"))))
    assert await shown(driver, reader()) == (["from home"], [])
    assert await shown(driver, reader("phone")) == (["from the phone"], [])


async def test_a_note_of_an_earlier_release_is_shown_to_its_speaker_in_private_until_it_is_widened(driver):
    await note(driver, add("has a cat"), add("for all"), principal=Principal("ada"))
    assert await shown(driver, reader()) == ([], ["has a cat", "for all"])
    assert await shown(driver, reader("bob")) == ([], [])
    assert await shown(driver, reader(address=GROUP)) == ([], [])
    (seq,) = await note(driver, add("for all"), by="user")
    assert await shown(driver, reader("bob")) == ([], ["for all"])
    (widened,) = [one for one in await driver.db.read(list_memory_operations(FERN)) if one.seq == seq]
    assert (widened.old_text, widened.text, widened.live) == ("for all", "for all", True)


@pytest.mark.parametrize("change", [remove("cat"), swap("cat", "has a dog")])
async def test_undoing_gives_the_words_back_to_whom_they_belonged(driver, change):
    await note(driver, add("has a cat"), principal=Principal("ada"))
    (seq,) = await note(driver, change, by="user")
    assert isinstance(await driver.db.write(undo_memory(MemoryUndo(agent=FERN, subject="", seq=seq))), Applied)
    assert await shown(driver, reader()) == ([], ["has a cat"])
    assert await shown(driver, reader("bob")) == ([], [])


async def test_providers_are_told_whom_an_old_note_belongs_to_and_where_to_find_what_it_replaces(driver):
    await note(driver, add("has a cat"), principal=Principal("ada"))
    await note(driver, swap("cat", "has a dog"), by="user")
    await note(driver, add("likes tea"), subject="bob")
    await note(driver, swap("tea", "likes rum"), subject="bob")
    notes = await driver.db.read(Call("notes", lambda: memory_notes("memory:fern:", 1, 9)))
    assert [(one.subject, one.scope, one.old_scope) for one in notes] == [("", "ada", ""), ("", "", "ada")]
    notes = await driver.db.read(Call("notes", lambda: memory_notes("memory:fern:bob", 1, 9)))
    assert [(one.scope, one.old_scope) for one in notes] == [("bob", "bob"), ("bob", "bob")]


# --- what instructions were made of was taken back ---------------------------------------------------


async def withdrawals(driver, session):
    return (await driver.db.read(read_context(session))).withdrawals


async def test_every_forgetting_and_every_change_of_links_is_counted_in_the_context(driver):
    turn = await driver.talk("hello", who="bob")
    before = await driver.db.read(read_context(turn.session))
    await forget(driver)
    first = await driver.db.read(read_context(turn.session))
    assert first.withdrawals > before.withdrawals, "bob's own session too: the notes may be in its instructions"
    await driver.db.write(link_principals(linking(driver, "phone", "ada")))
    second = await withdrawals(driver, turn.session)
    await driver.db.write(unlink_principal(Principal("phone"), named="t", operation=OperationId(driver.id("op"))))
    third = await withdrawals(driver, turn.session)
    wish = ForgetRequest(id=ForgetId("f"), session=turn.session)
    assert first.withdrawals < second < third
    other = await driver.talk("hello", who="bob", chat="other")
    await driver.db.write(begin_forgetting(wish))
    assert await withdrawals(driver, other.session) > third
    await driver.db.write(begin_forgetting(wish))
    assert await withdrawals(driver, other.session) == third + 1, "a repeated request changes nothing"


async def test_a_forgetting_of_one_agent_is_not_counted_for_another(driver):
    turn = await driver.talk("hello")
    before = await withdrawals(driver, turn.session)
    await driver.db.write(
        begin_forgetting(ForgetRequest(id=ForgetId("f"), agent=AgentName("moss"), person=Principal("ada")))
    )
    assert await withdrawals(driver, turn.session) == before
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("g"), person=Principal("ada"))))
    assert await withdrawals(driver, turn.session) == before + 1


# --- equal notes of two people -----------------------------------------------------------------------


async def test_two_people_note_the_same_and_forgetting_one_leaves_the_others(driver):
    for who in ("ada", "bob"):
        await note(driver, add("likes tea"), subject=who, principal=Principal(who), policies=MIRRORED)
    await forget(driver)
    assert await shown(driver, reader()) == ([], [])
    assert await shown(driver, reader("bob")) == (["likes tea"], [])
    states = await driver.rows("select stream, state from delivery where op = 'remember' order by stream")
    assert states == [("memory:fern:ada", "dropped"), ("memory:fern:bob", "scheduled")]


@pytest.mark.parametrize("stream", ["", CLUB])
async def test_what_another_person_noted_again_in_the_same_place_is_theirs(driver, stream):
    await note(driver, add("tea at five"), subject=stream, principal=Principal("ada"))
    await note(driver, remove("tea"), subject=stream, principal=Principal("ada"))
    await note(driver, add("tea at five"), subject=stream, principal=Principal("bob"))
    await forget(driver)
    assert [entry.text for entry in (await driver.db.read(read_memory(FERN, stream))).entries] == ["tea at five"]
    await forget(driver, "bob")
    assert (await driver.db.read(read_memory(FERN, stream))).entries == ()
    assert await driver.rows("select 1 from memory_op where length(text) > 0 or length(old_text) > 0") == []


async def test_a_principal_who_is_named_like_a_chat_neither_reads_nor_forgets_its_notes(driver):
    await note(driver, add("the club's"), subject=CLUB, principal=Principal("bob"))
    assert await shown(driver, reader(CLUB)) == ([], [])
    await forget(driver, CLUB)
    assert await shown(driver, reader("bob", GROUP)) == (["the club's"], [])


# --- extraction --------------------------------------------------------------------------------------


async def extracted(driver, session):
    ending = Ending(session=session, epoch=1, cause="idle", active_before=Instant(2**62))
    await driver.db.write(begin_finalisation(ending))
    held = await driver.db.write(claim_finalisation(driver.node))
    excerpt = await driver.db.read(read_excerpt(held))
    held = await driver.db.write(record_finalisation(held, FinishEvent.ANSWERED, answer=b"{}", model="m"))
    proposal = Proposal(verb="add", target="user", text="They like tea.")
    await driver.db.write(apply_finalisation(held, [proposal], Capacity(), MIRRORED))
    return excerpt.scope


async def talked(driver, *speakers, chat="home"):
    for who in speakers:
        turn = await driver.talk(f"{who} speaks", who=who, chat=chat)
    return turn.session


async def test_what_two_people_said_in_one_chat_belongs_to_the_chat_and_goes_with_either(driver):
    session = await talked(driver, "ada", "bob")
    scope = await extracted(driver, session)
    assert scope == "chat:agent:fern:http:chat:home"
    home = "agent:fern:http:chat:home"
    for who in ("ada", "bob"):
        assert await shown(driver, reader(who)) == ([], [])
        assert await shown(driver, reader(who, home)) == ([], ["They like tea."])
    await forget(driver, "bob")
    assert (await driver.db.read(read_memory(FERN, scope))).entries == ()


async def test_what_one_person_said_belongs_to_them_and_outlives_the_others(driver):
    session = await talked(driver, "ada", "ada")
    assert await extracted(driver, session) == "ada"
    await forget(driver, "bob")
    assert await shown(driver, reader()) == (["They like tea."], [])
