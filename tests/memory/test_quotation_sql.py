"""An answer to another person that repeats a forgotten person's words is blanked wherever the agent could know those
words. An answer that repeats none stays, and so does every word that a person typed.
"""

import pytest

from holdfast.inbox.mailbox_sql import claim_mailbox, release_claim
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NotApplied, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.provenance_sql import Trail
from holdfast.memory.quotation_sql import Search
from holdfast.memory.recall import CLOSING, HISTORY_TAG, OPENING
from holdfast.sessions.command_rights import Rank
from holdfast.turns.journal import AssistantSaid, Recalled, ToolCall, ToolReturned
from holdfast.turns.turn import Step, TurnEvent
from holdfast.turns.turn_sql import append_step
from tests.memory.test_forget_passed_on_sql import MOSS, Post
from tests.memory.test_forget_sql import CANARY, EACH, FERN, carry_all, found_in, observe, person, recall_in
from tests.support.driver import address_of


async def made(driver, text, *, who="bob", chat="home", result="", reply="well"):
    """A turn with a tool call."""
    await driver.say("look it up", who=who, chat=chat)
    claim = await driver.claim(chat)
    turn = await driver.open(claim)
    call = AssistantSaid(text="", calls=(ToolCall(id="c1", name="look", arguments=f'{{"q": "{text}"}}'),))
    turn = await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.CALLED, entries=(call,))))
    back = ToolReturned(call="c1", name="look", text=result)
    turn = await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.RETURNED, entries=(back,))))
    await driver.answer(claim, turn, reply)
    await driver.db.write(release_claim(claim))
    return turn


async def test_an_answer_to_somebody_else_that_repeats_the_words_goes_and_another_stays(driver):
    await driver.talk(f"my cat is called {CANARY}", "noted")
    await driver.talk("who is here?", f"ada, with {CANARY.upper()}", who="bob")
    turn = await driver.talk("my dog is Rex", "good Rex", who="bob")
    done = await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == await found_in(driver, CANARY.upper()) == []
    kept = [text for text in await driver.texts(turn.session) if text]
    assert kept == ["who is here?", "my dog is Rex", "good Rex"]
    assert (done.blanked["quotations"], done.kept) == (1, {"answers": 1, "others_words": 0})


async def test_a_whole_answer_goes_with_its_calls_and_their_results(driver):
    """A result without its call would be sent to no model, so a turn's steps go together."""
    await driver.talk(f"{CANARY}", "ok")
    turn = await made(driver, "weather", result=f"{CANARY} was seen", reply="it rains")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert [text for text in await driver.texts(turn.session) if text] == ["look it up"]


async def test_words_in_escaped_arguments_are_found(driver):
    await driver.talk("Zoë ate", "ok")
    await made(driver, r"zo\u00eb")
    done = await driver.db.write(begin_forgetting(person()))
    assert done.blanked["quotations"] == 1


async def test_what_somebody_else_typed_stays_and_is_no_quotation_when_it_is_answered(driver):
    await driver.talk("the picnic is in Oslo", "ok")
    turn = await driver.talk("is the picnic in Oslo?", "yes, Oslo", who="bob")
    done = await driver.db.write(begin_forgetting(person()))
    kept = [text for text in await driver.texts(turn.session) if text]
    assert kept == ["is the picnic in Oslo?", "yes, Oslo"]
    assert done.kept == {"answers": 1, "others_words": 1}


async def test_what_was_answered_before_they_spoke_stays(driver):
    turn = await driver.talk("where to?", f"to {CANARY} bay", who="bob")
    await driver.talk(f"{CANARY}", "ok")
    await driver.db.write(begin_forgetting(person()))
    assert [text for text in await driver.texts(turn.session) if text] == ["where to?", f"to {CANARY} bay"]


async def test_what_a_tool_returned_to_them_counts_as_theirs(driver):
    await made(driver, "me", who="ada", result="diagnosis: lupus", reply="see above")
    await driver.talk("how is ada?", "she has lupus", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver, "lupus") == []


async def test_a_branch_that_repeats_inherited_words_loses_its_answer(driver):
    await driver.talk(f"{CANARY}", "ok")
    await driver.command("/branch", who="bob")
    turn = await driver.talk("who?", f"{CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert "who?" in await driver.texts(turn.session)


async def test_a_branch_from_before_is_not_looked_at(driver):
    await driver.talk("hello", "hi", who="bob")
    await driver.command("/branch", who="bob")
    turn = await driver.talk("where to?", f"to {CANARY} bay", who="bob")
    await driver.talk(f"{CANARY}", "ok", chat="den")
    await driver.db.write(begin_forgetting(person()))
    assert f"to {CANARY} bay" in await driver.texts(turn.session)


async def test_a_turn_that_was_shown_a_recall_of_the_words_is_looked_at(driver):
    await driver.talk(f"{CANARY}", "ok", chat="den")
    await recall_in(driver, f"ada said {CANARY}")
    turn = await driver.talk("and?", f"it was {CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert "and?" in await driver.texts(turn.session)


async def test_a_conversation_that_was_shown_nothing_of_it_is_not_looked_at(driver):
    await driver.talk(f"{CANARY}", "ok", chat="den")
    turn = await driver.talk("breakfast?", f"toast and {CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert f"toast and {CANARY}" in await driver.texts(turn.session)


async def deleted(driver, text=CANARY, *, who="ada", chat="den"):
    """A session in which a person spoke, and that an operator deleted: no row has their words."""
    turn = await driver.talk(text, "ok", who=who, chat=chat)
    await driver.command(await driver.delete_text(turn.session, "root"), who="root", chat=chat, rank=Rank.OPERATOR)


async def test_an_answer_that_repeats_a_recollection_goes_where_their_own_words_were_deleted(driver):
    """Providers keep the words of a deleted session, so a recollection may have them although the journal does not."""
    await deleted(driver)
    turn = await recall_in(driver, f"ada said {CANARY}")
    await driver.talk("and?", f"it was {CANARY}", who="bob")
    await driver.talk("my dog is Rex", "good Rex", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    kept = [text for text in await driver.texts(turn.session) if text]
    assert kept == ["what was it?", "it is gone", "and?", "my dog is Rex", "good Rex"]


async def test_a_turn_that_is_shown_their_deleted_words_now_is_asked_anew(driver):
    await deleted(driver)
    await driver.talk("something else", "ok", chat="den")  # the search has terms, but not these
    await driver.say("what was it?", who="bob")
    late = await driver.claim()
    turn = await driver.open(late)
    shown = Step(event=TurnEvent.RECALLED, entries=(Recalled(text=f"ada said {CANARY}"),))
    turn = await driver.db.write(append_step(late, turn, shown))
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.answer(late, turn, f"it was {CANARY}")
    assert await found_in(driver) == []


async def test_deleted_words_that_were_recalled_and_passed_on_go_at_the_other_agent(driver):
    post = Post(driver)
    await deleted(driver)
    turn = await recall_in(driver, f"ada said {CANARY}")
    letter, _ = await post.ask("bob", "tell moss", MOSS, f"it was {CANARY}")
    await post.hand_over(letter, "fern")
    _, answer = await post.answer(MOSS, f"so {CANARY} it is")
    await post.hand_over(answer, MOSS)
    await post.answer("fern", f"moss says {CANARY}")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert "tell moss" in await driver.texts(turn.session)


async def test_what_a_branch_and_a_note_repeat_of_deleted_words_that_were_recalled_goes(driver):
    await deleted(driver)
    await recall_in(driver, f"ada said {CANARY}")
    turn = await driver.talk("and?", f"it was {CANARY}", who="bob")
    await noted(driver, f"the word is {CANARY}", turn.session, subject="bob")
    await driver.command("/branch", who="bob")
    await driver.talk("once more?", f"{CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []


def test_a_session_is_scanned_again_when_more_words_count_there():
    session = SessionId("ses_1")
    search = Search(Trail(frozenset({"ada"}), frozenset({FERN})))
    search.trail.tainted[session] = 5
    search.suspect(session, 9)
    assert search.todo == {}, "it is known from an earlier entry on"
    search.suspect(session, 9, recalled={CANARY})
    assert search.todo == {session: 5}
    search.todo.clear()
    search.trail.tainted[session] = 5
    search.suspect(session, 7, recalled={CANARY})
    assert search.todo == {}, "nothing is new"


async def test_a_recollection_of_a_session_that_can_be_read_is_judged_by_its_words(driver):
    """Only what may be of the deleted session counts as theirs; the tool `history` shows what can be read."""
    await deleted(driver)
    bobs = await driver.talk("my dog is Rex", "good Rex", who="bob", chat="yard")
    item = f"- [bob; local; {bobs.session} turn {bobs.n}] my dog is Rex"
    turn = await recall_in(driver, "\n".join([OPENING, item, CLOSING]))
    await driver.talk("my dog?", "Rex", who="bob")
    history = f"- [{bobs.session} turn {bobs.n}; 2026-05-04 10:00; bob] my dog is Rex"
    await recall_in(driver, "\n".join([HISTORY_TAG, "Said before.", history]))
    await driver.talk("and?", "Rex it is", who="bob")
    await driver.db.write(begin_forgetting(person()))
    kept = await driver.texts(turn.session)
    assert "Rex" in kept
    assert "Rex it is" in kept


async def test_a_recollection_from_before_their_deleted_session_is_not_looked_at(driver):
    turn = await recall_in(driver, f"the jam is {CANARY}")
    await driver.talk("which jam?", f"{CANARY}", who="bob")
    driver.clock.advance(1_000)
    await deleted(driver, "hello there")
    await driver.db.write(begin_forgetting(person()))
    assert f"{CANARY}" in await driver.texts(turn.session)


async def test_a_conversation_is_not_looked_at_where_somebody_elses_session_was_deleted(driver):
    await driver.talk("my cat is Byron", "ok", chat="nook")
    await deleted(driver, who="cy")
    turn = await recall_in(driver, f"cy said {CANARY}")
    await driver.talk("and?", f"it was {CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert f"it was {CANARY}" in await driver.texts(turn.session)


async def noted(driver, text, session, *, subject, who="bob", by="model"):
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=text)
    origin = f"tool:{session}:1:{driver.id('call')}" if by == "model" else f"finish:{session}:1"
    batch = MemoryBatch(agent=FERN, subject=subject, origin=origin, changes=(change,), principal=Principal(who), by=by)
    assert isinstance(await driver.db.write(apply_memory(batch)), Applied)


@pytest.mark.parametrize("by", ["model", "extraction"])
async def test_a_note_that_was_made_for_somebody_else_of_the_words_goes_and_what_it_was_shown_to(driver, by):
    first = await driver.talk(f"{CANARY}", "ok")
    await driver.talk("note that", "done", who="bob")
    scope = f"chat:{address_of('home')}"
    await noted(driver, f"ada has {CANARY}", first.session, subject=scope, by=by)
    await noted(driver, "bob has Rex", first.session, subject=scope if by == "model" else "bob", by=by)
    await driver.command("/new", who="bob", rank=Rank.OPERATOR)
    later = await driver.talk("what is noted?", f"that {CANARY} is ada's", who="bob")
    assert later.session != first.session
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert await found_in(driver, "bob has Rex") == ["memory_op"]


async def test_a_note_that_somebody_typed_stays(driver):
    first = await driver.talk(f"{CANARY}", "ok")
    await driver.talk(f"I like {CANARY}", "noted", who="bob")
    await noted(driver, f"bob likes {CANARY}", first.session, subject="bob")
    await driver.db.write(begin_forgetting(person()))
    assert set(await found_in(driver)) == {"entry", "inbound", "memory_op"}


async def test_what_others_passed_on_of_the_words_goes_at_the_other_agent(driver):
    post = Post(driver)
    await driver.talk(f"{CANARY}", "ok")
    letter, _ = await post.ask("bob", "tell moss", MOSS, f"ada said {CANARY}")
    await post.hand_over(letter, "fern")
    _, answer = await post.answer(MOSS, f"so {CANARY} it is")
    await post.hand_over(answer, MOSS)
    turn, _ = await post.answer("fern", "moss knows")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert "tell moss" in await driver.texts(turn.session)


async def test_a_message_that_quotes_and_waits_is_not_answered(driver):
    post = Post(driver)
    await driver.talk(f"{CANARY}", "ok")
    letter, _ = await post.ask("bob", "tell moss", MOSS, f"ada said {CANARY}")
    await post.hand_over(letter, "fern")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert await driver.db.write(claim_mailbox(driver.node)) is None


async def test_a_providers_copy_of_an_answer_that_repeats_them_is_erased(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}", "ok")
    quoting = await driver.talk("who?", f"{CANARY}", who="bob")
    await driver.talk("my dog is Rex", "good Rex", who="bob")
    sent = {parcel.turns[0].n: parcel.id for parcel in await carry_all(driver)}
    await driver.db.write(begin_forgetting(person()))
    (erasing,) = await carry_all(driver)
    assert sorted(erasing.erasure.deliveries) == sorted([sent[1], sent[quoting.n]])


async def test_providers_erase_every_turn_of_a_deleted_session_since_the_person_spoke(driver):
    """The journal is blank, so it is unknown which answers repeat the words."""
    driver.policies = EACH
    before = await driver.talk("good morning", "good morning", who="bob")
    await driver.talk(f"{CANARY}", "ok")
    await driver.talk("who?", f"{CANARY}", who="bob")
    await driver.talk("my dog is Rex", "good Rex", who="bob")
    sent = {parcel.turns[0].n: parcel.id for parcel in await carry_all(driver)}
    await driver.command(await driver.delete_text(before.session), rank=Rank.OPERATOR)
    await driver.db.write(begin_forgetting(person()))
    (erasing,) = await carry_all(driver)
    assert sorted(erasing.erasure.deliveries) == sorted(sent[n] for n in (2, 3, 4))


async def test_providers_erase_a_deleted_branch_that_could_know_the_words(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}", "ok")
    await driver.command("/branch")
    quoting = await driver.talk("who?", f"{CANARY}", who="bob")
    sent = [parcel.id for parcel in await carry_all(driver)]
    await driver.command(await driver.delete_text(quoting.session), rank=Rank.OPERATOR)
    await driver.db.write(begin_forgetting(person()))
    (erasing,) = await carry_all(driver)
    assert sorted(erasing.erasure.deliveries) == sorted(sent)


async def test_providers_erase_what_a_deleted_session_had_since_they_were_overheard(driver):
    driver.policies = EACH
    await driver.talk("good morning", "good morning", who="bob")
    driver.clock.advance(1_000)
    await driver.talk("my cat", "ok", chat="den")
    await observe(driver, f"{CANARY}")
    quoting = await driver.talk("who?", f"{CANARY}", who="bob")
    sent = [parcel for parcel in await carry_all(driver) if parcel.session == quoting.session]
    await driver.command(await driver.delete_text(quoting.session), rank=Rank.OPERATOR)
    await driver.db.write(begin_forgetting(person()))
    erased = {one for parcel in await carry_all(driver) for one in parcel.erasure.deliveries}
    assert [parcel.id in erased for parcel in sent] == [False, True]


async def test_providers_erase_a_deleted_session_from_the_first_recollection_on(driver):
    """The person did not speak there, but what memory showed may have held their words."""
    driver.policies = EACH
    await driver.talk(f"{CANARY}", "ok", chat="den")
    before = await driver.talk("good morning", "good morning", who="bob")
    quoting = await recall_in(driver, f"ada said {CANARY}")
    await driver.talk("and?", f"it was {CANARY}", who="bob")
    await recall_in(driver, f"ada said {CANARY}")
    sent = {parcel.turns[0].n: parcel.id for parcel in await carry_all(driver) if parcel.session == quoting.session}
    assert before.session == quoting.session
    await driver.command(await driver.delete_text(quoting.session, "bob"), who="bob")
    await driver.db.write(begin_forgetting(person()))
    erased = {one for parcel in await carry_all(driver) for one in parcel.erasure.deliveries}
    assert {n for n, delivery in sent.items() if delivery in erased} == {*sent} - {before.n}


async def test_a_deleted_session_in_which_they_did_not_speak_stays_at_the_providers(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}", "ok", chat="den")
    turn = await driver.talk("my dog is Rex", "good Rex", who="bob")
    (told,) = [parcel.id for parcel in await carry_all(driver) if parcel.principal == "ada"]
    await driver.command(await driver.delete_text(turn.session, "bob"), who="bob")
    await driver.db.write(begin_forgetting(person()))
    (erasing,) = await carry_all(driver)
    assert erasing.erasure.deliveries == (told,)


async def test_a_summary_over_an_answer_that_repeats_them_goes(driver):
    await driver.talk(f"{CANARY}", "ok", chat="den")
    turn = await recall_in(driver, f"ada said {CANARY}")
    await driver.talk("and?", f"it was {CANARY}", who="bob")
    await driver.summarise(turn.session, text=f"they spoke of {CANARY}")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []


async def test_long_journals_are_read_in_pages(driver, monkeypatch):
    for module in ("provenance_sql", "quotation_sql"):
        monkeypatch.setattr(f"holdfast.memory.{module}.PAGE_ENTRIES", 2)
    for n in range(4):
        await driver.talk(f"{CANARY} {n}", "ok")
        await driver.talk("who?", f"{CANARY}", who="bob")
        turn = await driver.talk("my dog is Rex", "good Rex", who="bob")
    await recall_in(driver, f"ada said {CANARY}", chat="den")
    await driver.talk("and?", f"it was {CANARY}", who="bob", chat="den")
    done = await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert done.blanked["quotations"] == 5
    assert [text for text in await driver.texts(turn.session) if text.startswith("good")] == ["good Rex"] * 4


async def test_no_term_is_stored(driver):
    await driver.talk(f"{CANARY}", "ok")
    await driver.talk("who?", f"{CANARY}", who="bob")
    await driver.db.write(begin_forgetting(person()))
    tables = await driver.rows("select id, agent, kind, subject, blanked, kept from forget")
    assert CANARY not in repr(tables)


async def test_a_note_that_a_turn_makes_which_knew_the_words_is_refused_once_they_are_forgotten(driver):
    await driver.talk(f"{CANARY}", "ok")
    await driver.say("note that", who="bob")
    claim = await driver.claim()
    turn = await driver.open(claim)
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=f"ada has {CANARY}")
    batch = MemoryBatch(
        agent=FERN,
        subject="bob",
        origin=f"tool:{turn.session}:{turn.n}:c1",
        changes=(change,),
        principal=Principal("bob"),
        session=turn.session,
        fence=claim.fence,
    )
    await driver.db.write(begin_forgetting(person()))
    late = await driver.db.write(apply_memory(batch))
    assert isinstance(late, NotApplied)
    assert late.code == "stale"
    assert await found_in(driver) == []


async def test_a_note_of_a_turn_whose_claim_stands_is_taken(driver):
    await driver.say("note that", who="bob")
    claim = await driver.claim()
    turn = await driver.open(claim)
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="bob has Rex")
    origin = f"tool:{turn.session}:{turn.n}:c1"
    batch = MemoryBatch(
        agent=FERN, subject="bob", origin=origin, changes=(change,), session=turn.session, fence=claim.fence
    )
    assert isinstance(await driver.db.write(apply_memory(batch)), Applied)


@pytest.mark.parametrize(("provider", "shown"), [("mem", ""), ("other", f"ada said {CANARY}x")])
async def test_recollections_of_a_provider_with_a_pending_erasure_are_not_shown(driver, provider, shown):
    driver.policies = EACH
    await driver.talk(CANARY, "ok", chat="den")
    await carry_all(driver)
    await driver.db.write(begin_forgetting(person()))
    await driver.say("what was it?", who="bob")
    claim = await driver.claim()
    turn = await driver.open(claim)
    recalled = Recalled(text=f"ada said {CANARY}x", sources=(f"{provider}:1",))
    await driver.db.write(append_step(claim, turn, Step(event=TurnEvent.RECALLED, entries=(recalled,))))
    assert (await driver.texts(turn.session))[-1] == shown
