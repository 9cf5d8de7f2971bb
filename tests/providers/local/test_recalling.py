"""The cost of a query depends on what the asker may be shown, not on what all others said with the same words, and it
has a limit. The scopes that ensure this change no answer: the same lines come back in the same order as from a full
search.
"""

import asyncio
import random
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import apsw
import pytest

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import MemoryNote, NamingInputs, Op, Parcel, SaidTurn, SpokenLine
from holdfast.memory.recall import RecallKey, RecallQuery, plain_words
from holdfast.memory.visibility import is_group
from holdfast.providers.local import index_writer, postings, ranking, search
from holdfast.providers.local.search import IndexSearch
from holdfast.testing.provider_guest import START, Guest, GuestPlace
from tests.support.local_provider import open_local

LOCAL = ProviderName("local")
NOW = Instant(START + 86_400_000)
CALLS = 8


# --- the work --------------------------------------------------------------------------------------


def of(person, chat=None):
    return GuestPlace(
        session=f"ses_{person}{chat or ''}", principal=Principal(person), chat=chat or f"check:dm:{person}"
    )


def asked_by(place, text, **more):
    key = RecallKey(session=place.inputs.session, epoch=0, head_seq=0, principal=place.principal)
    return RecallQuery(key=key, naming=place.inputs, text=text, limit=50, **more)


async def crowd(folder, strangers):
    """One person among many who all use the same words, each in a chat or a group of their own."""
    guest = Guest(open_local(folder))
    places = [of(f"person{n}", f"check:group:{n}" if n % 2 else None) for n in range(strangers)]
    places[strangers // 2 : strangers // 2] = [of("ada"), of("ada", "check:group:ada")]
    parcels = [guest.said("my order is late", place=place) for place in places]
    for first in range(CALLS):  # as many as the index has parts, which cost a look each
        await guest.keep(*parcels[first::CALLS])
    return guest.provider


def work_of(provider, query):
    """The steps of SQLite's machine and the pages it looks at, for one question."""
    db, steps = provider._reader, count()
    db.set_progress_handler(lambda: bool(next(steps) < 0), 1)
    looks = [apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS]
    before = sum(db.status(one)[0] for one in looks)
    with db:
        IndexSearch(db, query, NOW).best(LOCAL, 50)
    pages = sum(db.status(one)[0] for one in looks) - before
    db.set_progress_handler(None)
    return next(steps), pages


async def test_a_question_costs_the_same_among_few_and_among_many(tmp_path):
    alone = asked_by(of("ada"), "why is my order late?")
    in_group = asked_by(of("ada", "check:group:ada"), "why is my order late?", group=True)
    work = {}
    for strangers in (200, 2_000):
        provider = await crowd(tmp_path / str(strangers), strangers)
        for query, lines in ((alone, 4), (in_group, 2)):
            assert len(await provider.recall(query)) == lines
            work[strangers, query.group] = work_of(provider, query)
        await provider.close()
    for group in (False, True):
        (few_steps, few_pages), (many_steps, many_pages) = work[200, group], work[2_000, group]
        assert many_steps < 2 * few_steps  # a search of everything takes ten times as many
        assert many_pages < 2 * few_pages


async def talk(folder, turns, text="the kayak is at the harbour near boat {n}"):
    """One person who says the same words again and again."""
    guest = Guest(open_local(folder))
    for start in range(1, turns + 1, 50):
        await guest.keep(*(guest.said(text.format(n=n), turn=n) for n in range(start, min(start + 50, turns + 1))))
    await guest.recall("kayak")
    return guest


class Counted:
    """A connection that counts its statements and rows."""

    def __init__(self, db):
        self.db, self.statements, self.rows, self.postings = db, 0, 0, 0

    def execute(self, sql, values=()):
        self.statements += 1
        for row in self.db.execute(sql, values):
            self.rows += 1
            if "posting" in sql:
                self.postings += len(row[-1]) // postings.ID_BYTES
            yield row

    def __getattr__(self, name):
        return getattr(self.db, name)


def counted(guest, text):
    db: Any = Counted(guest.provider._reader)
    assert IndexSearch(db, asked_by(guest.at("ses_asking"), text), NOW).ranked()
    return db


async def test_a_question_reads_a_limited_number_of_postings_and_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "READ_MAX", 1_000)
    question = "is the kayak at the harbour, near the boat or in the harbour's other boat?"
    work = {}
    for turns in (600, 2_400):
        guest = await talk(tmp_path / str(turns), turns)
        work[turns] = counted(guest, question)
        await guest.provider.close()
    few, many = work[600], work[2_400]
    terms = 4 * postings.BLOCK_IDS  # the last block of a term tells how many lines it has
    assert few.postings <= 1_000 + postings.BLOCK_IDS + terms
    assert many.postings <= 1_000 + postings.BLOCK_IDS + terms
    assert many.statements <= few.statements
    assert many.rows <= few.rows + index_writer.FRESH_MAX
    assert many.rows <= ranking.LIKELY_MAX + search.JUDGED_MAX + index_writer.FRESH_MAX + 60


async def test_a_large_group_costs_no_more_than_a_small_one(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "VOICES_MAX", 20)
    work = {}
    for people in (50, 300):
        provider = open_local(tmp_path / str(people))
        guest = Guest(provider)
        for n in range(people):
            await guest.keep(guest.said(f"kayak {n}", place=of(f"person{n:03}", "check:group:1"), turn=n + 1))
        zoe = of("zoe", "check:group:1")
        await guest.keep(guest.said("my kayak is green", place=zoe, turn=people + 1))
        found = await provider.recall(asked_by(zoe, "which colour is my kayak?", group=True))
        assert found[0].text == "my kayak is green", "`my` means zoe, although not all are heard"
        db: Any = Counted(provider._reader)
        IndexSearch(db, asked_by(zoe, "which colour is my kayak?", group=True), NOW).question()
        work[people] = db.rows
        await guest.provider.close()
    assert work[300] == work[50]


async def test_the_newest_lines_are_read_where_a_word_has_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "READ_MAX", 100)
    guest = await talk(tmp_path, 600, "kayak {n}")
    found = await guest.recall("kayak", limit=50)
    assert len(found) == 50
    assert min(one.turn for one in found) > 600 - 100 - index_writer.FRESH_MAX
    await guest.provider.close()


async def test_of_words_in_most_lines_only_a_few_lines_are_read(tmp_path):
    work = {}
    for turns in (600, 2_400):
        guest = await talk(tmp_path / str(turns), turns, "kayak heron {n}")
        work[turns] = counted(guest, "when did the heron meet kayak 17?").postings
        found = await guest.recall("when did the heron meet kayak 17?")
        assert found[0].text == "kayak heron 17"
        await guest.provider.close()
    last_blocks = 3 * postings.BLOCK_IDS
    assert max(work.values()) <= search.COMMON_MAX + postings.BLOCK_IDS + last_blocks


async def test_a_rare_word_is_read_before_a_frequent_one(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "READ_MAX", 100)
    guest = Guest(open_local(tmp_path))
    await guest.keep(guest.said("a heron on the kayak", turn=1))
    for start in range(2, 600, 50):
        await guest.keep(*(guest.said(f"kayak {n}", turn=n) for n in range(start, start + 50)))
    found = await guest.recall("did the kayak meet a heron?")
    assert found[0].text == "a heron on the kayak"
    await guest.provider.close()


async def test_a_question_is_answered_from_thousands_of_lines_that_share_its_words(tmp_path):
    guest = Guest(open_local(tmp_path))
    lines = ["the yellow kayak", *(f"the yellow bus {n} and a kayak" for n in range(2_100))]
    for start in range(0, len(lines), 50):
        said = [guest.said(text, turn=n) for n, text in enumerate(lines[start : start + 50], start + 1)]
        await guest.keep(*said)
    found = await guest.recall("where is the yellow kayak?", limit=20)
    assert len(found) == 20
    assert all("kayak" in one.text or one.text == "I see." for one in found)
    await guest.provider.close()


async def test_a_delivery_writes_the_postings_of_many_lines_at_once(tmp_path):
    guest = await talk(tmp_path, 600)
    await guest.keep(guest.said("one more", turn=601))
    waiting = guest.provider._reader.execute("select count(*) from fresh").fetchall()[0][0]
    assert 0 < waiting < index_writer.FRESH_MAX
    assert guest.provider._reader.execute("select count(*) from posting").fetchall()[0][0] > 0
    await guest.provider.close()


def elsewhere(query, found):
    return [one for one in found if one.session != query.key.session]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("waiting", [1, 25, 1_000])
async def test_a_query_whose_context_shows_its_session_misses_nothing_from_elsewhere(
    tmp_path, monkeypatch, seed, waiting
):
    monkeypatch.setattr(index_writer, "FRESH_MAX", waiting)
    async for db, query, found in searches(tmp_path, seed):
        shown = IndexSearch(db, replace(query, shown_from=0), NOW).best(LOCAL, 50)
        assert words_of(shown) >= words_of(elsewhere(query, found)) - {plain_words(query.text)}


def words_of(found):
    return {plain_words(one.text) for one in found}


@pytest.mark.parametrize("waiting", [1, 1_000])
async def test_a_person_who_said_nothing_elsewhere_costs_no_search(tmp_path, monkeypatch, waiting):
    monkeypatch.setattr(index_writer, "FRESH_MAX", waiting)
    guest = Guest(open_local(tmp_path))
    await guest.keep(guest.said("my kayak is yellow", place=of("ada")), guest.said("so is mine", place=of("bob")))
    query = asked_by(of("ada"), "which colour is my kayak?", shown_from=0)
    assert await guest.provider.recall(replace(query, shown_from=None))
    with monkeypatch.context() as patch:
        patch.delattr(IndexSearch, "question")
        assert await guest.provider.recall(query) == []
    await guest.keep(guest.said("the green kayak leaks", place=of("ada", "check:dm:elsewhere")))
    assert "the green kayak leaks" in [one.text for one in await guest.provider.recall(query)]
    await guest.provider.close()


DAILY = "what stands on my list for today?"


@pytest.mark.parametrize("days", [20, 300])
async def test_a_question_that_is_asked_every_day_finds_its_answers_and_not_itself(tmp_path, days):
    guest = Guest(open_local(tmp_path))
    asked = [guest.said(DAILY, place=of("ada", f"check:dm:day{day}"), turn=1) for day in range(days)]
    for start in range(0, days, 50):
        await guest.keep(*asked[start : start + 50])
    await guest.keep(guest.said("put the harbour survey on my list", place=of("ada", "check:dm:once")))
    query = replace(asked_by(of("ada", "check:dm:now"), DAILY, shown_from=0), limit=8)
    texts = [one.text for one in await guest.provider.recall(query)]
    assert sorted(texts) == ["I see.", "put the harbour survey on my list"]
    await guest.provider.close()


async def test_outside_a_turn_all_copies_are_found_and_the_words_of_the_question_too(tmp_path):
    guest = Guest(open_local(tmp_path))
    for day in range(3):
        await guest.keep(guest.said(DAILY, place=of("ada", f"check:dm:day{day}")))
    texts = [one.text for one in await guest.provider.recall(asked_by(of("ada"), DAILY))]
    assert sorted(texts) == ["I see."] * 3 + [DAILY] * 3
    await guest.provider.close()


@pytest.mark.parametrize("first_shown", [1, 32, 33, 50, 64, 100, 101])
async def test_of_a_compressed_session_the_turns_before_the_context_are_found_and_no_later_ones(tmp_path, first_shown):
    guest = Guest(open_local(tmp_path))
    here = of("ada")
    for start in range(1, 101, 50):
        await guest.keep(*(guest.said(f"kayak {n}", place=here, turn=n) for n in range(start, start + 50)))
    query = replace(asked_by(here, "kayak", shown_from=first_shown), limit=100)
    found = {one.turn for one in await guest.provider.recall(query)}
    assert found <= set(range(1, first_shown))
    assert bool(found) == (first_shown > 1)
    await guest.provider.close()


@pytest.mark.parametrize("waiting", [1, 1_000])
async def test_what_the_context_shows_takes_no_place_of_what_it_does_not_show(tmp_path, monkeypatch, waiting):
    monkeypatch.setattr(index_writer, "FRESH_MAX", waiting)
    guest = Guest(open_local(tmp_path))
    here, there = of("ada"), of("ada", "check:dm:elsewhere")
    await guest.keep(guest.said("the kayak is in the shed", place=there))
    for start in range(1, 151, 50):
        await guest.keep(*(guest.said(f"kayak {n}", place=here, turn=n) for n in range(start, start + 50)))

    async def found(shown_from):
        query = replace(asked_by(here, "kayak", shown_from=shown_from), limit=8)
        return {(one.session, one.turn) for one in await guest.provider.recall(query)}

    elsewhere = (there.session, 1)
    assert elsewhere not in await found(None), "the session has more lines about it, and shorter ones"
    assert await found(0) == {elsewhere}
    assert elsewhere in await found(4)
    assert {turn for session, turn in await found(4) if session == here.session} <= {1, 2, 3}
    await guest.provider.close()


async def test_between_two_questions_the_event_loop_serves_others(tmp_path, monkeypatch):
    guest = Guest(open_local(tmp_path))
    await guest.keep(guest.said("my kayak is yellow", place=of("ada")))
    query, order = asked_by(of("ada"), "which colour is my kayak?"), list[str]()
    assert await guest.provider.recall(query)
    best = IndexSearch.best

    def noted(*given):
        order.append("search")
        return best(*given)

    monkeypatch.setattr(IndexSearch, "best", noted)
    asked = asyncio.gather(*(guest.provider.recall(query) for _ in range(4)))
    while not asked.done():
        order.append("others")
        await asyncio.sleep(0)
    assert order.count("search") == 4
    assert ("search", "search") not in pairwise(order)
    assert all(await asked)
    await guest.provider.close()


async def test_a_question_needs_no_thread_once_the_index_is_open(tmp_path, monkeypatch):
    guest = await talk(tmp_path, 10)
    threads = count()

    async def in_thread(work):
        next(threads)
        return work()

    monkeypatch.setattr(guest.provider._setup.tasks, "in_thread", in_thread, raising=False)
    assert await guest.recall("kayak")
    assert next(threads) == 0
    with guest.provider._read_lock:
        guest.provider._recall = lambda query: ["from a thread"]
        assert await guest.recall("kayak") == ["from a thread"], "the loop never waits for the lock"
    await guest.provider.close()


# --- the answers -----------------------------------------------------------------------------------

WORDS = ["boat", "cat", "tea", "late", "order", "garden", "kayak", "ada", "ben"]
PEOPLE = [Principal(name) for name in ("ada", "ben", "cy", "")]
CHATS = ["", "agent:fern:check:dm:ada", "agent:fern:check:chat:1", "agent:fern:check:group:a", "agent:fern:x:group:b:t"]


class Everything(IndexSearch):
    """The same question without scopes: every line is looked at, every voice of the agent heard."""

    def _postings(self, terms, scopes):
        sql = f"select line.id, line.stems from line where id not in (select id from fresh) and {search._VISIBLE}"
        lines: dict[str, set[int]] = {term: set() for term in terms}
        for line, stems in self.db.execute(sql, self._scope):
            for term in lines.keys() & stems.split():
                lines[term].add(line)
        return {term: len(some) for term, some in lines.items()}, lines

    def voices(self):
        heard = set(self.db.execute("select address, speaker from voice where agent = ?", (self.query.agent,)))
        own = {address for address, speaker in heard if speaker in self.query.askers} | {self.query.naming.address}
        return [*{speaker for address, speaker in heard if address in own}]


class Gossip:
    """A random history, and random questions about it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.made = 0

    def naming(self):
        one_of = self.dice.choice
        return NamingInputs(
            agent=AgentName(one_of(["fern", "fern", "moss"])),
            session=SessionId(one_of(["s1", "s2", "s3", "s4"])),
            principal=one_of(PEOPLE),
            address=one_of(CHATS),
        )

    def text(self):
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(1, 4)))

    def parcel(self):
        self.made += 1
        naming, at = self.naming(), Instant(START + self.made * self.dice.choice([60_000, 9_000_000]))
        made = DeliveryId(f"dlv_{self.made:04d}")
        parcel = Parcel(id=made, op=Op.RETAIN, provider=LOCAL, place=naming.session, naming=naming)
        if self.dice.random() < 0.2:
            subject = self.dice.choice(PEOPLE)
            note = MemoryNote(seq=1, target="memory", op="add", text=self.text(), subject=subject, at=at)
            return replace(parcel, op=Op.REMEMBER, note=note)
        speakers = self.dice.choices([naming.principal, *PEOPLE, naming.agent], k=2)
        lines = [SpokenLine(role="user", speaker=who, text=self.text(), at=at, seq=n) for n, who in enumerate(speakers)]
        return replace(parcel, turns=(SaidTurn(n=self.made, lines=tuple(lines)),))

    def query(self):
        naming = self.naming()
        return RecallQuery(
            key=RecallKey(session=naming.session, epoch=0, head_seq=0, principal=naming.principal),
            naming=naming,
            text=f"{self.text()} {self.dice.choice(['', 'my', 'your', 'when'])}",
            group=is_group(naming.address),
            private_in_groups=self.dice.random() < 0.3,
            shares_all=self.dice.random() < 0.1,
            kin=tuple(self.dice.sample(PEOPLE, self.dice.choice([0, 0, 1, 2]))),
            limit=50,
        )


async def searches(folder, seed, questions=15):
    """Questions of several people, and what is found for each."""
    provider, gossip = open_local(folder), Gossip(seed)
    parcels = [gossip.parcel() for _ in range(60)]
    for first in range(0, 60, 20):  # several segments of the index
        await provider.deliver(parcels[first : first + 20])
    await provider.recall(gossip.query())  # opens the reader
    db = provider._reader
    assert db is not None
    for _ in range(questions):
        query = gossip.query()
        yield db, query, IndexSearch(db, query, NOW).best(LOCAL, 50)
    await provider.close()


async def answers(folder, seed):
    """What comes of each question, and what a search of everything brings."""
    async for db, query, found in searches(folder, seed):
        yield query, found, Everything(db, query, NOW).best(LOCAL, 50)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("waiting", [1, 25, 1_000])
async def test_the_scopes_change_no_answer(tmp_path, monkeypatch, seed, waiting):
    monkeypatch.setattr(index_writer, "FRESH_MAX", waiting)
    found = 0
    async for query, scoped, everything in answers(tmp_path, seed):
        assert scoped == everything, query
        found += len(scoped)
    assert found > 100


async def test_words_with_the_same_hash_bring_nothing_that_was_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(index_writer, "FRESH_MAX", 1)
    monkeypatch.setattr(postings, "stem_hash", lambda stem: len(stem) % 2)
    guest = Guest(open_local(tmp_path))
    await guest.keep(guest.said("a kayak", turn=1), guest.said("a teapot", place=guest.at("ses_2"), turn=2))
    found = await guest.recall("where is the kayak?")
    assert next(one.text for one in found if one.score > 0) == "a kayak"
    await guest.provider.close()
