"""No query makes recall cross a boundary (R13): of agents, of people, of private chat and group."""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import DeliveryId, Principal, SessionId
from holdfast.memory.delivery import Delivered, Erasure, NamingInputs, Op, Refused
from holdfast.memory.recall import RecallKey, RecallQuery
from holdfast.memory.visibility import chat_scope
from holdfast.providers.local import index_writer
from holdfast.testing.provider_guest import ADA, BEN, BENS, GROUP, HOME, Guest, GuestPlace
from tests.support.local_provider import open_local

CLUB = GROUP
OTHER_CLUB = "check:group:other"
ADAS_PHONE = "other:dm:ada"

# what was said where, by whom; each has a word of its own
SAID = {
    "marzipan": GuestPlace(session="s1", principal=ADA, chat=HOME),
    "nougat": GuestPlace(session="s2", principal=ADA, chat=ADAS_PHONE),
    "quince": GuestPlace(session="s3", principal=BEN, chat=BENS),
    "medlar": GuestPlace(session="s4", principal=ADA, chat=CLUB),
    "tamarind": GuestPlace(session="s4", principal=BEN, chat=CLUB),
    "persimmon": GuestPlace(session="s5", principal=BEN, chat=OTHER_CLUB),
    "pomelo": GuestPlace(session="s6", principal=ADA, chat=HOME, agent="moss"),
}
CY = Principal("cy")
ASKED = [
    # who asks where, and what may come back
    ("ada at home", GuestPlace(session="q", principal=ADA, chat=HOME), {}, "marzipan nougat medlar"),
    ("ada in the club", GuestPlace(session="q", principal=ADA, chat=CLUB), {"group": True}, "medlar tamarind"),
    (
        "ada in the club, allowed",
        GuestPlace(session="q", principal=ADA, chat=CLUB),
        {"group": True, "private_in_groups": True},
        "marzipan nougat medlar tamarind",
    ),
    ("ada in another club", GuestPlace(session="q", principal=ADA, chat=OTHER_CLUB), {"group": True}, "persimmon"),
    ("ben at home", GuestPlace(session="q", principal=BEN, chat=BENS), {}, "quince tamarind persimmon"),
    ("ben in the club", GuestPlace(session="q", principal=BEN, chat=CLUB), {"group": True}, "medlar tamarind"),
    ("a stranger", GuestPlace(session="q", principal=CY, chat="check:dm:cy"), {}, ""),
    ("a stranger in the club", GuestPlace(session="q", principal=CY, chat=CLUB), {"group": True}, "medlar tamarind"),
    ("another agent", GuestPlace(session="q", principal=ADA, chat=HOME, agent="moss"), {}, "pomelo"),
    (
        "ada on another account",
        GuestPlace(session="q", principal=CY, chat="check:dm:cy"),
        {"kin": (ADA,)},
        "marzipan nougat medlar",
    ),
    (
        "ada on another account in the club",  # linking shows a group nothing of what was said in private
        GuestPlace(session="q", principal=CY, chat=CLUB),
        {"group": True, "kin": (ADA,)},
        "medlar tamarind",
    ),
    (
        "ada on another account in the club, allowed",
        GuestPlace(session="q", principal=CY, chat=CLUB),
        {"group": True, "private_in_groups": True, "kin": (ADA,)},
        "marzipan nougat medlar tamarind",
    ),
]


@pytest.fixture(params=[1, 128], ids=["with postings", "without postings"], autouse=True)
def _postings(request, monkeypatch):
    """A line without postings is found in another way (index_writer.py)."""
    monkeypatch.setattr(index_writer, "FRESH_MAX", request.param)


@pytest.fixture
async def guest(tmp_path):
    guest = Guest(open_local(tmp_path))
    for n, (word, place) in enumerate(SAID.items(), 1):
        await guest.keep(guest.said(f"the secret thing is {word}", place=place, turn=n))
    yield guest
    await guest.provider.close()


def query(place, text, **more):
    key = RecallKey(session=place.inputs.session, epoch=0, head_seq=0, principal=place.principal)
    return RecallQuery(key=key, naming=place.inputs, text=text, limit=50, **more)


@pytest.mark.parametrize(("place", "more", "visible"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
async def test_everybody_sees_what_is_theirs(guest, place, more, visible):
    found = await guest.provider.recall(query(place, "secret thing", **more))
    words = {word for word in SAID if any(word in memory.text for memory in found)}
    assert words == set(visible.split())


@pytest.mark.parametrize(("place", "more", "visible"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
async def test_neighbours_stay_behind_the_boundary_too(guest, place, more, visible):
    """The replies (`I see.`) stand beside what was said and are found through it."""
    found = await guest.provider.recall(query(place, "secret thing", **more))
    sessions = {str(SAID[word].session) for word in visible.split()}
    assert {memory.session for memory in found} <= sessions


async def test_in_a_chat_that_two_share_each_carries_away_only_their_own(guest):
    """Elsewhere, ben's words beside hers are his private words, though they stand in the same scene."""
    hers, his = GuestPlace(session="s7", principal=ADA, chat=HOME), GuestPlace(session="s7", principal=BEN, chat=HOME)
    await guest.keep(guest.said("who has the yellow kayak?", place=hers), guest.said("lychee", place=his, turn=2))
    found = await guest.provider.recall(query(GuestPlace(session="q", principal=ADA, chat=ADAS_PHONE), "yellow kayak"))
    assert any("kayak" in memory.text for memory in found)
    assert not any("lychee" in memory.text for memory in found)


async def test_writers_without_an_address_share_nothing_by_it(tmp_path):
    guest = Guest(open_local(tmp_path))

    def nowhere(session, principal):
        return NamingInputs(agent=guest.at().inputs.agent, session=SessionId(session), principal=principal)

    parcel = guest.said("my boat is called marzipan")
    await guest.keep(replace(parcel, naming=nowhere("s1", ADA)))
    for asker, session, times in ((ADA, "q", 1), (BEN, "q", 0), (BEN, "s1", 1)):
        key = RecallKey(session=SessionId(session), epoch=0, head_seq=0, principal=asker)
        asked = RecallQuery(key=key, naming=nowhere(session, asker), text="boat")
        found = await guest.provider.recall(asked)
        assert sum("marzipan" in one.text for one in found) == times, (asker, session)
    await guest.provider.close()


async def test_a_note_about_a_person_is_like_their_private_words(tmp_path):
    guest = Guest(open_local(tmp_path))
    about = guest.noted("add", "ada likes marzipan")
    assert about.note is not None
    await guest.keep(replace(about, note=replace(about.note, subject="ada")))
    await guest.keep(guest.noted("add", "the server likes quince"))
    for place, more, expected in (
        (GuestPlace(session="q", principal=ADA, chat=HOME), {}, {"marzipan", "quince"}),
        (GuestPlace(session="q", principal=BEN, chat=BENS), {}, {"quince"}),
        (GuestPlace(session="q", principal=ADA, chat=CLUB), {"group": True}, {"quince"}),
    ):
        found = await guest.provider.recall(query(place, "who likes what", **more))
        assert {memory.text.split()[-1] for memory in found} == expected
    await guest.provider.close()


async def test_a_person_is_erased_from_a_large_index_to_the_last_copy(tmp_path):
    """Thousands of lines of others around them, notes under three scopes, and one of them twice in the same place."""
    guest = Guest(open_local(tmp_path))
    crowd = [
        guest.said(f"line {n} about marzipan and quince", place=guest.at(f"ses_{n % 40}", BEN, BENS), turn=n)
        for n in range(3_000)
    ]
    club = chat_scope(guest.at("any", BEN, CLUB).inputs.address)
    kept = [_noted(guest, "xylophone lessons", scope) for scope in ("ben", club)]
    hers = [_noted(guest, "xylophone lessons", scope) for scope in ("ada", club, "ada")]
    said = [guest.said(f"my xylophone number {n}", place=guest.at(f"hers_{n}"), turn=1) for n in range(500)]
    for start in range(0, len(crowd), 500):
        await guest.provider.deliver(crowd[start : start + 500])
    await guest.provider.deliver([*said, *kept, *hers])
    erasure = Erasure(agent=guest.at().inputs.agent, principal=ADA, deliveries=(hers[1].id,), scopes=("ada", club))
    wish = replace(crowd[0], id=DeliveryId("erasure"), op=Op.ERASE, turns=(), erasure=erasure)
    assert await guest.provider.deliver([wish]) == [Delivered("erasure")]
    for place, more, times in (
        (GuestPlace(session="q", principal=ADA, chat=HOME), {}, 0),
        (GuestPlace(session="q", principal=BEN, chat=BENS), {}, 1),
        (GuestPlace(session="q", principal=BEN, chat=CLUB), {"group": True}, 1),
    ):
        found = await guest.provider.recall(query(place, "xylophone lessons", **more))
        assert sum("xylophone" in one.text for one in found) == times, place
    again = await guest.provider.deliver([hers[0], hers[1], said[7]])
    assert [type(one) for one in again] == [Refused] * 3, "a late copy is not kept again"
    await guest.provider.close()


def _noted(guest, text, scope):
    made = guest.noted("add", text)
    return replace(made, place=f"memory:{scope}", note=replace(made.note, subject=scope))


async def test_a_recollection_says_where_it_is_from(guest):
    place = GuestPlace(session="q", principal=CY, chat=CLUB)
    found = (await guest.provider.recall(query(place, "medlar", group=True)))[0]
    assert (found.provider, found.session, found.turn, found.speaker) == ("local", "s4", 4, "ada")
    assert found.at is not None
    assert found.score > 0
    assert found.ref.endswith("/7")
