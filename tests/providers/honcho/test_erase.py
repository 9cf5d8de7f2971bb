"""An erasure is done when the data is really gone at Honcho, and says so when it cannot be done (D25)."""

from dataclasses import replace

import pytest

from holdfast.memory.delivery import Delivered, Landing, Refused, Unreachable
from tests.support.honcho_kit import chat, erasure, naming, note, one, parcel, provider_on


async def test_a_session_is_erased_when_its_messages_cannot_be_read_any_more(server, provider):
    kept, gone = parcel(provider, 1, inputs=naming("ses_1")), parcel(provider, 1, inputs=naming("ses_2"))
    await one(provider, kept)
    await one(provider, gone)
    server.run_deriver()
    wish = erasure(provider, gone.place, session="ses_2")
    for attempt in (1, 2):  # asking again while it is under way gets 404 from Honcho
        outcome = await one(provider, replace(wish, attempt=attempt))
        assert outcome == Unreachable("deletion is under way at Honcho", retry_after_ms=10_000)
        assert await provider.landed(wish) is Landing.ABSENT
    server.run_deriver()
    assert isinstance(await one(provider, replace(wish, attempt=3)), Delivered)
    assert await provider.landed(wish) is Landing.LANDED
    assert server.sessions() == [kept.place]
    assert {row["session_id"] for row in server.conclusions()} == {kept.place}


async def test_words_for_a_session_that_is_being_deleted_wait_for_it(server, provider):
    given = parcel(provider, 1)
    await one(provider, given)
    await one(provider, erasure(provider, given.place, session="ses_1"))
    later = parcel(provider, 2)
    for step in (lambda: None, server.run_deriver):
        step()
        outcome = await one(provider, later)
        assert isinstance(outcome, Unreachable)
        assert "being deleted" in outcome.reason
    server.expire_cache()
    assert isinstance(await one(provider, replace(later, attempt=2)), Delivered)
    assert [row["metadata"]["turn"] for row in server.messages()] == [2, 2]


async def test_a_session_that_others_share_is_not_deleted_and_the_reason_is_given(server, provider):
    first, second = (parcel(provider, n, inputs=naming(f"ses_{n}", address=chat())) for n in (1, 2))
    await one(provider, first)
    await one(provider, second)
    outcome = await one(provider, erasure(provider, first.place, session="ses_1"))
    assert isinstance(outcome, Refused)
    assert first.place in outcome.reason
    assert "whole sessions only" in outcome.reason
    assert len(server.messages()) == 4


async def test_a_person_is_erased_with_what_was_concluded_about_them(server, provider):
    ada = [parcel(provider, n, inputs=naming(f"ses_{n}", "ada", address=chat("ada"))) for n in (1, 2)]
    bob = parcel(provider, 1, inputs=naming("ses_3", "bob", address=chat("bob")))
    for given in (*ada, bob, note(provider, 1, "likes tea"), note(provider, 2, "likes rum", subject="bob")):
        await one(provider, given)
    server.run_deriver()
    server.workspaces["holdfast"].cards["user-main-ada"] = ["likes tea"]
    wish = erasure(provider, ada[0].place, provider.names.memory_place("main", "ada"), principal="ada")
    assert isinstance(await one(provider, wish), Unreachable)
    server.run_deriver()
    assert isinstance(await one(provider, replace(wish, attempt=2)), Delivered)
    assert await provider.landed(wish) is Landing.LANDED
    assert {row["metadata"]["user"] for row in server.messages()} == {"bob"}
    assert not any("ada" in row["observed_id"] or "ada" in row["observer_id"] for row in server.conclusions())
    assert "likes rum" in [row["content"] for row in server.conclusions()]
    assert server.workspaces["holdfast"].cards["user-main-ada"] == []


@pytest.mark.parametrize("scope", ["chat:agent:main:telegram:group:club", ""])
async def test_what_an_erased_person_noted_for_others_goes_and_the_rest_stays(server, provider, scope):
    """A conclusion is known by its words only, and when it is erased the journal has them no more."""
    kept = note(provider, 2, "meets on Fridays", subject=scope)
    for given in (
        note(provider, 1, "ada likes tea", subject=scope),
        kept,
        note(provider, 3, "ada likes tea", subject="bob"),
    ):
        await one(provider, given)
    wish = erasure(provider, provider.names.memory_place("main", scope), principal="ada")
    assert wish.erasure is not None
    assert kept.note is not None
    wish = replace(wish, erasure=replace(wish.erasure, scopes=(scope,), holds=(kept.note,)))
    assert await provider.landed(wish) is Landing.ABSENT
    assert isinstance(await one(provider, wish), Delivered)
    assert await provider.landed(wish) is Landing.LANDED
    left = sorted((row["observed_id"], row["content"]) for row in server.conclusions())
    peer = provider.names.scope_peer("main", scope)
    assert left == sorted([(peer, "meets on Fridays"), ("user-main-bob", "ada likes tea")])


async def test_a_person_in_a_group_cannot_be_taken_out_of_it(server, provider):
    for n, who in enumerate(("ada", "bob")):
        await one(provider, parcel(provider, n, inputs=naming("ses_1", who, address=chat("g", type="group"))))
    place = server.sessions()[0]
    assert isinstance(await one(provider, erasure(provider, place, principal="ada")), Refused)
    assert len(server.messages()) == 4


async def test_what_was_never_there_is_erased(server, provider):
    assert isinstance(await one(provider, erasure(provider, "session-main-none", session="none")), Delivered)
    assert server.sessions() == []


async def test_erasing_is_never_done_while_honcho_cannot_be_asked(server, provider):
    given = parcel(provider, 1)
    await one(provider, given)
    server.database_down = True
    wish = erasure(provider, given.place, session="ses_1")
    assert isinstance(await one(provider, wish), Unreachable)
    assert await provider.landed(wish) is Landing.POSSIBLE


async def test_erasing_again_spares_what_was_said_since(server, provider):
    server.prompt = True
    inputs = naming(address=chat())
    first, since = parcel(provider, 1, inputs=inputs), parcel(provider, 2, inputs=inputs)
    wish = erasure(provider, first.place, principal="ada", deliveries=(first.id,))
    await one(provider, first)
    assert isinstance(await one(provider, wish), Delivered)
    await one(provider, since)
    assert isinstance(await one(provider, wish), Delivered)
    assert {row["metadata"]["delivery"] for row in server.messages()} == {since.id}


async def test_memory_files_that_were_migrated_go_with_the_person(server, tmp_path):
    server.prompt = True
    async with provider_on(server, folder=tmp_path, strategy="global") as provider:
        await provider.migrate({"USER.md": "Ada"}, subject="ada")
        assert isinstance(await one(provider, erasure(provider, principal="ada")), Delivered)
    assert server.messages() == []
