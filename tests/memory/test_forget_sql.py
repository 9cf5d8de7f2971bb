"""Forgetting blanks the words of a person or a session everywhere in the store at once and leaves all other words. It
is done only when every provider that was sent any of them has given its receipt.
"""

import asyncio

import pytest

from holdfast.inbox.mailbox_sql import read_mail, release_claim
from holdfast.inbox.message import Duplicate
from holdfast.kernel.errors import (
    ClaimLost,
    ForgetNotFound,
    IdempotencyConflict,
    InvalidInput,
    SessionNotFound,
    SummaryStale,
)
from holdfast.kernel.ids import AgentName, ForgetId, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import DeliveryState, Op
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting, find_newest_forgetting, read_forgetting, sweep_forgotten
from holdfast.memory.forgetter import scrub_forgotten
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory, read_memory
from holdfast.memory.provenance_sql import RECORDED
from holdfast.memory.replay_sql import replay_delivery
from holdfast.sessions.command_rights import Rank
from holdfast.sessions.compression_audit import Audit
from holdfast.sessions.extraction_sql import read_excerpt
from holdfast.sessions.finalisation import Ending, FinishEvent
from holdfast.sessions.finalisation_sql import begin_finalisation, claim_finalisation, record_finalisation
from holdfast.sessions.history_sql import list_session_facts, trace_message
from holdfast.sessions.summary_sql import commit_summary
from holdfast.store.upkeep_sql import prune_messages
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.context_sql import read_context
from holdfast.turns.journal import AssistantSaid, Recalled, UserSaid
from holdfast.turns.open_turn_sql import observe_messages, open_turn
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn import Step, Turn, TurnEvent, TurnRecord
from holdfast.turns.turn_sql import append_step, resume_turn
from tests.support.driver import SECRET, address_of, record, retain
from tests.support.ports import verb_on

CANARY = "marmalade"
FERN = AgentName("fern")
KEY = LaneKey(FERN, Provider("mem"))
EACH = (retain(),)
# Every column that may hold somebody's words.
WORDS = {
    "entry": "body",
    "inbound": "body",
    "reply": "body",
    "summary": "body",
    "session": "title",
    "turn": "title",
    "memory_op": "text",
    "memory_op as old": "old_text",
    "finalisation": "answer",
    "finalisation as done": "result",
}


def person(who="ada", *, agent="fern", id="forget_1"):
    return ForgetRequest(id=ForgetId(id), person=Principal(who), agent=AgentName(agent) if agent else None)


def whole(session, *, id="forget_1", agent=None):
    return ForgetRequest(id=ForgetId(id), session=SessionId(session), agent=agent)


async def found_in(driver, canary=CANARY):
    """Where the word still stands."""
    held = []
    for table, column in WORDS.items():
        for (value,) in await driver.rows(f"select {column} from {table}"):
            text = value if isinstance(value, str) else bytes(value or b"").decode()
            held += [table] if canary in text else []
    return held


async def carry(driver, state=DeliveryState.DELIVERED, *, units=1, **more):
    """Take every due lane once and settle it; what was carried."""
    claims = await driver.db.write(claim_lanes(driver.node, KEY, lanes=50, units=units, renderer="r1"))
    for claim in claims:
        done = [Settlement(n=package.n, state=state, **more) for package in claim.packages]
        await driver.db.write(settle_lanes([(claim, done)]))
    return [package.parcel for claim in claims for package in claim.packages]


async def carry_all(driver):
    carried = []
    while step := await carry(driver, units=10):
        carried += step
    return carried


async def observe(driver, text, who="ada", *, chat="home"):
    await driver.say(text, chat=chat, who=who, addressed=False)
    claim = await driver.claim(chat)
    mail = await driver.db.read(read_mail(claim, limit=1))
    session = mail.session or SessionId(driver.id("ses"))
    await driver.db.write(observe_messages(claim, session, [mail.waiting[0].message]))
    await driver.db.write(release_claim(claim))
    return session


async def recall_in(driver, text, who="bob", *, chat="home"):
    """A turn that is shown something remembered."""
    await driver.say("what was it?", chat=chat, who=who)
    claim = await driver.claim(chat)
    turn = await driver.open(claim)
    turn = await driver.db.write(
        append_step(claim, turn, Step(event=TurnEvent.RECALLED, entries=(Recalled(text=text),)))
    )
    await driver.answer(claim, turn, "it is gone")
    await driver.db.write(release_claim(claim))
    return turn


async def note(driver, text, *, subject="", who="ada", verb=MemoryVerb.ADD, old=""):
    change = NoteChange(verb=verb, target=Target.MEMORY, text=text, old=old)
    batch = MemoryBatch(
        agent=FERN,
        subject=subject,
        origin=driver.id("origin"),
        changes=(change,),
        principal=Principal(who),
        policies=(retain_notes(),),
    )
    assert isinstance(await driver.db.write(apply_memory(batch)), Applied)


def retain_notes():
    policy = retain()
    return type(policy)(provider=policy.provider, naming=policy.naming, memory=True)


# --- a person --------------------------------------------------------------------------------------


async def test_a_persons_words_go_and_others_keep_every_byte(driver):
    await driver.talk(f"{CANARY} is my cat", f"hello {CANARY}")
    await driver.talk("my dog is called Rex", "hello Rex", who="bob")
    await observe(driver, f"{CANARY} again")
    session = await observe(driver, "nobody asked me", "bob")
    theirs = "select seq, body from entry where session = :s and seq in (3, 4, 6) order by seq"
    before = await driver.rows(theirs, s=session)
    done = await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert await driver.rows(theirs, s=session) == before
    texts = await driver.texts(session)
    assert [text for text in texts if text] == ["my dog is called Rex", "hello Rex", "nobody asked me"]
    assert (done.blanked["entries"], done.blanked["messages"], done.blanked["replies"]) == (3, 2, 1)
    kept = await driver.rows("select principal, turn from inbound order by seq")
    assert kept == [("ada", 1), ("bob", 2), ("ada", None), ("bob", None)]


async def test_what_was_forgotten_is_known_when_it_comes_again(driver):
    arrival = driver.arrival(f"My cat is called {CANARY}.")
    await driver.accept(arrival)
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    await driver.db.write(begin_forgetting(person()))
    again = await driver.accept(arrival)
    assert isinstance(again, Duplicate)
    assert again.message == arrival.message


async def test_the_conversation_goes_on_in_the_same_session(driver):
    session = await driver.chat(f"{CANARY} one", f"{CANARY} two")
    await driver.db.write(begin_forgetting(person()))
    turn = await driver.talk("and now?")
    assert (turn.session, turn.n) == (session, 3)
    assert [text for text in await driver.texts(session) if text] == ["and now?", "re: and now?"]


async def test_summaries_over_forgotten_words_are_void_and_earlier_ones_hold(driver):
    await driver.talk("first", who="bob")
    session = (await driver.talk("second", who="bob")).session
    await driver.summarise(session, through=2, text="bob said first")
    await driver.talk(f"{CANARY}")
    await driver.summarise(session, through=6, text=f"bob said first, ada said {CANARY}")
    done = await driver.db.write(begin_forgetting(person()))
    context = await driver.db.read(read_context(session))
    assert context.summary.text == "bob said first"
    assert [entry.text for entry in context.entries if entry.text] == ["second", "re: second"]
    assert done.blanked["summaries"] == 1
    assert await found_in(driver) == []
    again = await driver.summarise(session, text="bob said first and second")
    assert (again.n, again.base_n, again.covers_from) == (3, 1, 3)


async def test_a_summary_that_ends_with_a_forgotten_line_is_void(driver):
    await driver.talk("hello", who="bob")
    session = await observe(driver, f"{CANARY}")
    await driver.summarise(session, through=3, text=f"bob said hello, ada said {CANARY}")
    done = await driver.db.write(begin_forgetting(person()))
    assert (await driver.db.read(read_context(session))).summary is None
    assert done.blanked["summaries"] == 1
    assert await found_in(driver) == []


async def test_a_void_summary_is_not_shown_where_something_was_undone_either(driver):
    await driver.talk("hello", who="bob")
    session = (await driver.talk("again", who="bob")).session
    await driver.command("/undo", who="bob")
    await driver.summarise(session, through=2, text="bob said hello")
    await driver.talk(f"{CANARY}")
    await driver.summarise(session, text=f"bob said hello, ada said {CANARY}")
    await driver.db.write(begin_forgetting(person()))
    assert (await driver.db.read(read_context(session))).summary.text == "bob said hello"


async def test_a_summary_that_is_being_made_of_forgotten_words_is_refused(driver):
    session = await driver.chat(f"{CANARY} one", "two")
    operation = await driver.begin(session)
    draft = await driver.draft(session, text=f"ada said {CANARY}")
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(SummaryStale):
        await driver.db.write(commit_summary(operation, draft))
    assert await found_in(driver) == []


async def test_branches_lose_what_they_inherited_and_keep_their_own(driver):
    await driver.talk("hello", who="bob")
    await driver.talk(f"{CANARY}")
    child = (await driver.command("/branch", who="bob")).session
    await driver.talk("only here", who="bob")
    await driver.summarise(child, text=f"bob said hello, ada said {CANARY}")
    await driver.db.write(begin_forgetting(person()))
    assert [text for text in await driver.texts(child) if text] == ["hello", "re: hello", "only here", "re: only here"]
    assert await found_in(driver) == []


@pytest.mark.parametrize("generations", [1, 2])
async def test_a_branch_forked_at_an_overheard_line_loses_its_summary_over_it(driver, generations):
    """The forgotten line is the very last that the branch inherited, and belongs to no turn."""
    await driver.talk("hello", who="bob")
    parent = await observe(driver, f"{CANARY} is here")
    for _ in range(generations):
        child = (await driver.command("/branch", who="bob")).session
    await driver.talk("only here", who="bob")
    await driver.summarise(child, text=f"bob said hello, ada said {CANARY}")
    assert (await driver.db.read(read_context(child))).summary is not None, "and it is in the cache of contexts"
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    for session in (parent, child):
        assert (await driver.db.read(read_context(session))).summary is None
    said = [text for text in await driver.texts(child) if text]
    assert said == ["hello", "re: hello", "only here", "re: only here"]


async def test_a_branch_that_never_saw_the_forgotten_words_keeps_its_summary(driver):
    parent = (await driver.talk("hello", who="bob")).session
    child = (await driver.command("/branch", who="bob")).session
    await driver.talk("only here", who="bob")
    await driver.summarise(child, text="bob said hello")
    await driver.command(f"/resume {parent}", who="bob")
    await observe(driver, f"{CANARY} is here")
    await driver.db.write(begin_forgetting(person()))
    assert (await driver.db.read(read_context(child))).summary.text == "bob said hello"


@pytest.mark.parametrize("command", ["/title x", "/branch"])
async def test_a_turn_that_somebody_else_tried_again_is_forgotten_with_its_answer(driver, command):
    await driver.talk(f"{CANARY}?")
    await driver.command(command, who="bob", rank=Rank.OPERATOR)
    retry = await driver.say("/retry", who="bob", rank=Rank.OPERATOR)
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    said = UserSaid(text=f"{CANARY}?", principal="ada", message=retry)
    turn = await driver.db.write(open_turn(claim, type(opening)(**{**_fields(opening), "entries": (said,)})))
    assert isinstance(turn, Turn)
    await driver.answer(claim, turn, f"it is {CANARY}")
    await driver.db.write(release_claim(claim))
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []


def _fields(value):
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


async def test_of_a_recorded_turn_with_several_voices_only_theirs_goes(driver):
    said = (
        UserSaid(text=f"{CANARY}", principal="ada"),
        UserSaid(text="rex", principal="bob"),
        AssistantSaid(text="ok"),
    )
    for key, who in (("k1", "bob"), ("k2", "ada")):
        turn = TurnRecord(
            session=SessionId(f"hermes-{key}"),
            agent="fern",
            key=key,
            entries=said,
            principal=Principal(who),
            place="desk",
            policies=EACH,
        )
        await driver.db.write(record_turn(turn))
    await carry_all(driver)
    done = await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert [text for text in await driver.texts(SessionId("hermes-k1")) if text] == ["rex", "ok"]
    assert [text for text in await driver.texts(SessionId("hermes-k2")) if text] == ["rex"]
    (part,) = done.parts
    (erasure,) = await carry_all(driver)
    assert (part.place, erasure.erasure.deliveries) == ("desk", ("mem:hermes-k2:1",))
    assert erasure.erasure.shared == ("mem:hermes-k1:1",), "the provider erases their words from a unit of others"


async def test_recorded_turns_of_the_person_are_not_searched_for_their_voice(driver):
    """Their own turns are found by principal; only the bodies of other people's turns are read."""
    for key, who in (("k1", "ada"), ("k2", "bob")):
        await driver.db.write(record_turn(record(key, session=f"of {who}", who=who)))
    found = await driver.rows(RECORDED, agent=FERN, person="ada")
    assert [row[6] for row in found] == ["of bob"]


async def test_copies_that_recall_made_go_wherever_they_are(driver):
    await driver.talk(f"{CANARY}")
    await recall_in(driver, f"[ada once said {CANARY}]", chat="porch")
    done = await driver.db.write(begin_forgetting(person()))
    assert done.blanked["recalls"] == 1
    assert await found_in(driver) == []


async def test_titles_of_their_sessions_go_and_of_others_stay(driver):
    await driver.talk("hi")
    await driver.command(f"/title {CANARY}")
    await driver.talk("and")
    await driver.talk("hi", chat="porch", who="bob")
    await driver.command("/title Rex", chat="porch", who="bob")
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert await driver.rows("select title from session where title is not null") == [("Rex",)]


async def test_answers_to_commands_whose_messages_were_pruned_go_too(driver):
    await driver.talk("hi")
    await driver.command(f"/title {CANARY}")
    driver.clock.advance(1_000)
    assert await driver.db.write(prune_messages(older_than_ms=10, limit=100, secret=SECRET)) == 2
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []


async def test_notes_by_and_about_them_go_with_every_copy(driver):
    await note(driver, f"ada has a cat, {CANARY}", subject="ada", who="bob")
    await note(driver, f"{CANARY} likes fish")
    await note(driver, "cats like fish", who="bob", verb=MemoryVerb.REPLACE, old=f"{CANARY} likes fish")
    await note(driver, f"{CANARY} sleeps")
    await note(driver, "rex barks", who="bob")
    await note(driver, "fish is expensive", who="")
    done = await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    assert [entry.text for entry in (await driver.db.read(read_memory(FERN))).entries] == [
        "cats like fish",
        "rex barks",
        "fish is expensive",
    ]
    assert (await driver.db.read(read_memory(FERN, "ada"))).entries == ()
    assert done.blanked["notes"] == 3
    await note(driver, "ada is back", subject="ada")
    assert [entry.text for entry in (await driver.db.read(read_memory(FERN, "ada"))).entries] == ["ada is back"]


async def test_a_note_that_was_blanked_before_is_not_counted_again(driver):
    await note(driver, f"{CANARY}", subject="ada")
    first = await driver.db.write(begin_forgetting(person()))
    again = await driver.db.write(begin_forgetting(person(id="forget_2")))
    assert (first.blanked["notes"], again.blanked.get("notes", 0)) == (1, 0)


async def test_one_agent_forgets_and_another_does_not_unless_all_are_asked(driver):
    await driver.talk(f"{CANARY}")
    await driver.say(f"{CANARY} too", agent="moss", chat="den")
    claim = await driver.claim("den")
    await driver.answer(claim, await driver.open(claim), "yes")
    await driver.db.write(release_claim(claim))
    await driver.db.write(begin_forgetting(person()))
    assert set(await found_in(driver)) == {"entry", "inbound"}
    await driver.db.write(begin_forgetting(person(agent=None, id="forget_2")))
    assert await found_in(driver) == []


async def test_nothing_is_found_of_somebody_who_never_spoke(driver):
    session = await driver.chat("hi")
    await driver.summarise(session)
    done = await driver.db.write(begin_forgetting(person("eve")))
    assert not any(done.blanked.values())
    assert (await driver.db.read(read_context(session))).summary is not None


# --- what is under way ------------------------------------------------------------------------------


async def test_a_turn_that_is_open_with_their_words_ends_and_cannot_write_them_again(driver):
    message = await driver.say(f"{CANARY}")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.answer(claim, turn, f"hello {CANARY}")
    await driver.db.write(release_claim(claim))
    trace = await driver.db.read(trace_message(message))
    assert (trace.state.value, trace.reason, trace.phase) == ("interrupted", "forgotten", "interrupted")
    assert await found_in(driver) == []
    assert (await driver.talk("next")).n == 2


async def test_their_mail_that_waits_is_not_answered_and_others_mail_is(driver):
    mine = await driver.say(f"{CANARY}")
    theirs = await driver.say("hello", who="bob")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.db.write(open_turn(claim, driver.opening(mail.session, mail.waiting)))
    claim = await driver.claim()
    turn = await driver.open(claim)
    assert turn.messages == (theirs,)
    await driver.answer(claim, turn)
    await driver.db.write(release_claim(claim))
    assert await driver.state(mine) == "interrupted"
    assert await found_in(driver) == []


async def test_others_go_on_writing_meanwhile(driver):
    await driver.db.write(record_turn(record("before", text=CANARY, policies=EACH)))
    theirs = [record(f"k{n}", session=f"hermes-{n % 3}", who="bob", text=f"rex {n}", policies=EACH) for n in range(24)]
    forgetting = [driver.db.write(begin_forgetting(person(id=f"forget_{n}"))) for n in range(3)]
    recorded = verb_on(driver.db, record_turn)
    await asyncio.gather(*map(recorded, theirs[:12]), *forgetting, *map(recorded, theirs[12:]))
    assert await found_in(driver) == []
    assert len([parcel for parcel in await carry_all(driver) if parcel.op is Op.RETAIN]) == 24


async def test_somebody_elses_open_turn_goes_on_without_the_words(driver):
    """Its model may have been asked with the words in the context: what it says is refused, and it is asked anew."""
    await driver.talk(f"{CANARY}")
    await driver.say("hello", who="bob")
    late = await driver.claim()
    turn = await driver.open(late)
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.answer(late, turn, f"hello bob, {CANARY} was here")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    turn = await driver.db.write(resume_turn(claim, mail.turn))
    await driver.answer(claim, turn, "hello bob")
    await driver.db.write(release_claim(claim))
    assert [text for text in await driver.texts(turn.session) if text] == ["hello", "hello bob"]


async def test_a_process_that_read_a_recall_of_the_words_does_not_show_it_again(driver):
    """It holds contexts in memory, and a turn that it takes up again is shown what is in the journal now."""
    await driver.talk(f"{CANARY}", chat="den")
    await driver.say("what was it?", who="bob")
    claim = await driver.claim()
    turn = await driver.open(claim)
    recalled = Step(event=TurnEvent.RECALLED, entries=(Recalled(text=f"ada said {CANARY}"),))
    turn = await driver.db.write(append_step(claim, turn, recalled))
    other = ContextCache(driver.db)
    before = await other.read(turn.session)
    assert [entry.text for entry in before.entries] == ["what was it?", f"ada said {CANARY}"]
    await driver.db.write(begin_forgetting(person()))
    after = await other.read(turn.session)
    assert [entry.text for entry in after.entries if entry.text] == ["what was it?"]


async def ended(driver, session):
    """The end of a session's epoch, taken by somebody who asks a model about it."""
    await driver.db.write(
        begin_finalisation(Ending(session=session, epoch=1, cause="idle", active_before=Instant(1 << 60)))
    )
    return await driver.db.write(claim_finalisation(driver.node))


async def test_what_a_model_makes_of_their_words_meanwhile_is_refused_and_asked_for_anew(driver):
    await driver.talk("hello", who="bob")
    session = (await driver.talk(f"{CANARY}")).session
    held = await ended(driver, session)
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.db.write(record_finalisation(held, FinishEvent.ANSWERED, answer=CANARY.encode(), model="m"))
    again = await driver.db.write(claim_finalisation(driver.node))
    assert [entry.text for entry in (await driver.db.read(read_excerpt(again))).said if entry.text] == [
        "hello",
        "re: hello",
    ]
    assert await found_in(driver) == []


async def test_a_stored_answer_over_their_words_goes(driver):
    session = (await driver.talk(f"{CANARY}")).session
    held = await ended(driver, session)
    await driver.db.write(record_finalisation(held, FinishEvent.ANSWERED, answer=CANARY.encode(), model="m"))
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []


# --- a session --------------------------------------------------------------------------------------


async def test_a_session_is_forgotten_as_a_whole_and_its_chat_opens_another(driver):
    session = (await driver.talk(f"{CANARY}")).session
    await driver.talk(f"{CANARY} says bob", who="bob")
    await driver.command(f"/title {CANARY}")
    await driver.talk("with a title")
    await driver.db.write(begin_forgetting(whole(session)))
    assert await found_in(driver) == []
    with pytest.raises(SessionNotFound):
        await driver.db.read(read_context(session))
    assert (await driver.talk("next")).session != session


async def test_a_session_is_forgotten_while_a_turn_of_it_is_open(driver):
    await driver.say(f"{CANARY}")
    later = await driver.say("later")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.db.write(begin_forgetting(whole(turn.session)))
    with pytest.raises(ClaimLost):
        await driver.answer(claim, turn, f"{CANARY}")
    claim = await driver.claim()
    again = await driver.open(claim)
    assert (again.messages, again.session == turn.session) == ((later,), False)
    await driver.answer(claim, again)
    await driver.db.write(release_claim(claim))
    assert await found_in(driver) == []


async def test_a_branch_of_a_forgotten_session_keeps_its_own_words(driver):
    parent = await driver.chat(f"{CANARY}")
    child = (await driver.command("/branch")).session
    await driver.talk("only here")
    await driver.summarise(child, text=f"{CANARY}")
    await driver.db.write(begin_forgetting(whole(parent)))
    assert [text for text in await driver.texts(child) if text] == ["only here", "re: only here"]
    assert await found_in(driver) == []


async def test_what_was_deleted_before_can_still_be_erased_where_it_was_sent(driver):
    driver.policies = EACH
    session = await driver.chat(f"{CANARY}")
    await carry_all(driver)
    await driver.delete()
    done = await driver.db.write(begin_forgetting(whole(session)))
    assert [part.place for part in done.parts] == [address_of("home")]


async def test_an_unknown_session_or_one_of_another_agent_is_not_found(driver):
    session = await driver.chat("hi")
    for request in (whole("ses_nowhere"), whole(session, agent=AgentName("moss"))):
        with pytest.raises(SessionNotFound):
            await driver.db.write(begin_forgetting(request))
    with pytest.raises(ForgetNotFound):
        await driver.db.read(read_forgetting(ForgetId("forget_1")))
    assert await driver.texts(session) == ["hi", "re: hi"]


# --- the providers -----------------------------------------------------------------------------------


async def test_what_never_left_is_cancelled_and_nothing_is_left_to_erase(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await driver.talk("hello", who="bob")
    done = await driver.db.write(begin_forgetting(person()))
    assert done.parts == ()
    assert done.blanked["cancelled"] == 1
    assert await driver.rows("select state, reason from delivery order by n") == [
        ("dropped", "forgotten"),
        ("scheduled", None),
    ]
    assert [parcel.principal for parcel in await carry_all(driver)] == ["bob"]


async def test_every_place_that_was_sent_anything_gets_one_erasure_behind_it(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY} one")
    await driver.talk(f"{CANARY} two", chat="porch")
    await note(driver, f"{CANARY}", subject="ada", who="bob")
    sent = [parcel.id for parcel in await carry_all(driver)]
    await driver.talk("hello", who="bob")
    done = await driver.db.write(begin_forgetting(person()))
    assert not done.done
    assert [(part.provider, part.state.value) for part in done.parts] == [("mem", "scheduled")] * 3
    carried = await carry_all(driver)
    erasures = [parcel for parcel in carried if parcel.op is Op.ERASE]
    assert [parcel.principal for parcel in carried if parcel.op is Op.RETAIN] == ["bob"]
    assert {parcel.place for parcel in erasures} == {address_of("home"), address_of("porch"), "memory:fern:ada"}
    assert {unit for parcel in erasures for unit in parcel.erasure.deliveries} == set(sent)
    assert {parcel.erasure.principal for parcel in erasures} == {"ada"}
    assert all(part.done for part in (await driver.db.read(read_forgetting(done.id))).parts)


async def test_an_erasure_names_units_and_not_their_retractions(driver):
    driver.policies = EACH
    session = await driver.chat("one", "two")
    sent = [parcel.id for parcel in await carry_all(driver)]
    await driver.command("/undo")
    assert [parcel.op for parcel in await carry_all(driver)] == [Op.RETRACT]
    await driver.db.write(begin_forgetting(whole(session)))
    (erasure,) = await carry_all(driver)
    assert sorted(erasure.erasure.deliveries) == sorted(sent)


async def test_the_newest_request_is_the_one_made_last(driver):
    assert await driver.db.read(find_newest_forgetting()) is None
    await driver.db.write(begin_forgetting(person(id="forget_2")))
    driver.clock.advance(5)
    await driver.db.write(begin_forgetting(person(id="forget_1")))
    assert await driver.db.read(find_newest_forgetting()) == "forget_1"


async def test_an_erasure_names_nothing_that_was_said_after_it_was_asked_for(driver):
    driver.policies = EACH
    await driver.talk("before")
    (before,) = await carry_all(driver)
    await driver.db.write(begin_forgetting(person()))
    await driver.talk("after")
    first, after = await carry_all(driver)
    assert (first.erasure.deliveries, after.op) == ((before.id,), Op.RETAIN)
    again = await driver.db.write(begin_forgetting(person(id="forget_2")))
    (second,) = await carry_all(driver)
    assert second.id == again.parts[0].delivery != first.id
    assert after.id in second.erasure.deliveries


async def test_a_unit_that_may_have_landed_is_settled_before_it_is_erased(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry(driver, DeliveryState.UNCERTAIN, reason="no answer")
    assert (await driver.db.write(begin_forgetting(person()))).blanked.get("cancelled", 0) == 0
    (claim,) = await driver.db.write(claim_lanes(driver.node, KEY, lanes=1, units=10, renderer="r1"))
    (package,) = claim.packages
    assert (package.ask, package.parcel.op, package.parcel.turns) == (True, Op.RETAIN, ())
    landed = Settlement(n=package.n, state=DeliveryState.DELIVERED)
    await driver.db.write(settle_lanes([(claim, [landed])]))
    assert [parcel.op for parcel in await carry_all(driver)] == [Op.ERASE]


async def test_a_unit_that_is_being_sent_keeps_its_dispatcher_and_is_erased_after_it(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    (claim,) = await driver.db.write(claim_lanes(driver.node, KEY, lanes=1, units=1, renderer="r1"))
    done = await driver.db.write(begin_forgetting(person()))
    assert await carry(driver) == []
    sent = Settlement(n=claim.packages[0].n, state=DeliveryState.DELIVERED)
    await driver.db.write(settle_lanes([(claim, [sent])]))
    (erasure,) = await carry_all(driver)
    assert erasure.id == done.parts[0].delivery
    assert erasure.erasure.deliveries == (claim.packages[0].parcel.id,)


async def test_it_is_pending_while_one_provider_is_down_and_shows_why(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry_all(driver)
    done = await driver.db.write(begin_forgetting(person()))
    await carry(driver, DeliveryState.SCHEDULED, reason="connection refused", delay_ms=5_000, failing=True)
    await scrub_forgotten(driver.db)
    assert await driver.db.write(sweep_forgotten(quiet_ms=0)) == 0
    found = await driver.db.read(read_forgetting(done.id))
    (part,) = found.parts
    assert (found.done, part.state.value, part.attempt, part.reason) == (False, "scheduled", 1, "connection refused")
    assert part.due_at == driver.clock.now() + 5_000
    driver.clock.advance(5_000)
    await carry(driver, receipt="gone")
    assert not (await driver.db.read(read_forgetting(done.id))).done
    assert await driver.db.write(sweep_forgotten(quiet_ms=0)) == 1
    assert (await driver.db.read(read_forgetting(done.id))).done


async def test_it_is_never_done_with_an_erasure_that_is_parked(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry_all(driver)
    done = await driver.db.write(begin_forgetting(person()))
    await carry(driver, DeliveryState.PARKED, reason="it cannot erase")
    await scrub_forgotten(driver.db)
    await driver.db.write(sweep_forgotten(quiet_ms=0))
    assert not (await driver.db.read(read_forgetting(done.id))).done
    await driver.db.write(replay_delivery(done.parts[0].delivery))
    await carry(driver)
    await driver.db.write(sweep_forgotten(quiet_ms=0))
    assert (await driver.db.read(read_forgetting(done.id))).done


async def test_what_recall_copied_before_the_last_receipt_is_swept_and_scrubbed_again(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry_all(driver)
    done = await driver.db.write(begin_forgetting(person()))
    await scrub_forgotten(driver.db)
    await recall_in(driver, f"[ada once said {CANARY}]")
    assert await found_in(driver) == ["entry"]
    await carry_all(driver)
    assert await driver.db.write(sweep_forgotten(quiet_ms=1_000)) == 0
    driver.clock.advance(1_000)
    assert await driver.db.write(sweep_forgotten(quiet_ms=1_000)) == 1
    assert await found_in(driver) == []
    assert not (await driver.db.read(read_forgetting(done.id))).done
    assert await scrub_forgotten(driver.db) == 1
    assert (await driver.db.read(read_forgetting(done.id))).done


async def test_what_recall_copied_in_a_transaction_that_began_before_is_swept_too(driver):
    """Its time is that of its transaction, which may end after the forgetting."""
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry_all(driver)
    await driver.db.write(begin_forgetting(person()))
    await recall_in(driver, f"[ada once said {CANARY}]")
    await driver.write("update entry set at = at - 1000 where kind = 'recall'")
    await carry_all(driver)
    assert await driver.db.write(sweep_forgotten(quiet_ms=0)) == 1
    assert await found_in(driver) == []


# --- asking again, and the receipts ------------------------------------------------------------------


async def test_asking_again_under_the_same_id_changes_nothing(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}")
    await carry_all(driver)
    first = await driver.db.write(begin_forgetting(person()))
    await driver.talk("said since")
    again = await driver.db.write(begin_forgetting(person()))
    assert again == first
    assert "said since" in await driver.texts((await driver.talk("x")).session)


async def test_an_id_that_was_used_for_something_else_is_a_conflict(driver):
    session = await driver.chat("hi")
    await driver.db.write(begin_forgetting(person("eve")))
    for other in (person("ada"), person("eve", agent="moss"), person("eve", agent=None), whole(session)):
        with pytest.raises(IdempotencyConflict):
            await driver.db.write(begin_forgetting(other))
    assert await driver.texts(session) == ["hi", "re: hi"]


async def test_it_is_done_once_the_files_are_scrubbed_where_nothing_was_sent(driver):
    await driver.talk(f"{CANARY}")
    done = await driver.db.write(begin_forgetting(person()))
    assert (done.done, done.scrubbed_at) == (False, None)
    assert await scrub_forgotten(driver.db) == 1
    assert await scrub_forgotten(driver.db) == 0
    found = await driver.db.read(read_forgetting(done.id))
    assert found.done
    assert found.scrub_receipt


async def test_the_audit_still_passes(driver):
    driver.policies = EACH
    await driver.talk(f"{CANARY}", who="bob")
    session = await driver.chat(f"{CANARY} one", "two")
    await driver.summarise(session, through=4)
    await driver.command("/branch")
    await driver.chat("three")
    await driver.db.write(begin_forgetting(person()))
    await driver.db.write(begin_forgetting(whole(session, id="forget_2")))
    audit = Audit()
    for facts in await driver.db.read(list_session_facts()):
        audit.add(facts)
    assert audit.report().first is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"session": "s", "person": "p"},
        {"person": ""},
        {"session": "a\nb"},
        {"person": "p", "agent": "../x"},
        {"person": "p" * 600},
    ],
    ids=str,
)
def test_a_request_that_cannot_be_right_is_refused_before_anything_is_asked(wrong):
    with pytest.raises(InvalidInput):
        ForgetRequest(id=ForgetId("forget_1"), **wrong)
