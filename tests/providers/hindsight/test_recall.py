"""Recall never crosses a boundary: not between agents, not between people, not from private into a group."""

from dataclasses import replace

from holdfast.kernel.ids import AgentName, Principal
from tests.support.hindsight_fake import FakeHindsight
from tests.support.hindsight_parcels import GROUP, inputs, note, provider, question, retain


async def texts(hindsight, query):
    return sorted(memory.ref for memory in await hindsight.recall(query))


async def fill(hindsight):
    """One shared bank: ada's and bob's private words, a group's, another agent's, and notes."""
    other = replace(inputs("ada", "s_4"), agent=AgentName("other"), address="agent:other:telegram:dm:7")
    parcels = [
        retain("ada's", id="ada"),
        retain("bob's", id="bob", naming=inputs("bob", "s_2")),
        retain("the group's", id="group", naming=inputs("bob", "s_3", GROUP)),
        replace(retain("other", id="other", naming=other), place="main/s_4"),
    ]
    await hindsight.deliver(parcels)


async def test_a_person_recalls_only_their_own_words_in_private_and_in_groups():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await fill(hindsight)
        assert await texts(hindsight, question("what?", "ada")) == ["unit-ada"]
        assert await texts(hindsight, question("what?", "bob")) == ["unit-bob", "unit-group"]


async def test_a_linked_account_sees_what_the_person_said_and_a_group_sees_no_more_of_it():
    kin = (Principal("ada"),)
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await fill(hindsight)
        assert await texts(hindsight, question("what?", "cy")) == []
        assert await texts(hindsight, replace(question("what?", "cy"), kin=kin)) == ["unit-ada"]
        assert await texts(hindsight, replace(question("what?", "cy", group=True), kin=kin)) == ["unit-group"]


async def test_private_words_are_not_recalled_into_a_group_unless_that_is_allowed():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await fill(hindsight)
        assert await texts(hindsight, question("what?", "ada", group=True)) == ["unit-group"]
        allowed = question("what?", "ada", group=True, private_in_groups=True)
        assert await texts(hindsight, allowed) == ["unit-ada", "unit-group"]


async def test_a_server_that_ignores_the_filter_shows_nothing_it_may_not():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await fill(hindsight)
        fake.bank("main").documents["stray"] = {**fake.bank("main").documents["unit-ada"], "id": "stray", "tags": []}
        fake.ignores_tags = True
        assert await texts(hindsight, question("what?", "ada", group=True)) == ["unit-group"]


async def test_a_note_about_a_person_is_theirs_and_a_note_about_no_person_is_shared():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await hindsight.deliver(
            [note("add", "ada is shy", id="d_1", subject="ada"), note("add", "work hard", id="d_2")]
        )
        assert len(await hindsight.recall(question("shy", "ada"))) == 2
        assert [memory.text for memory in await hindsight.recall(question("shy", "bob"))] == ["work hard"]


async def test_a_note_of_an_earlier_release_whose_owner_is_unknown_is_never_recalled():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await hindsight.deliver([note("add", "ada is shy", id="d_1")])
        (document,) = fake.bank("main").documents.values()
        document["tags"] = ["agent:main", "memory:memory", "scope:shared:main"]
        for who in ("ada", "bob"):
            assert await hindsight.recall(question("shy", who)) == ()


async def test_a_recollection_says_where_it_is_from():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await hindsight.deliver([retain("my cat is Byron", first=5)])
        (memory,) = await hindsight.recall(question("cat"))
    assert (memory.provider, memory.session, memory.turn, memory.speaker) == ("hindsight", "s_1", 5, "ada")
    assert memory.at == 1_767_225_600_000
    assert memory.ref == "unit-d_1"


async def test_a_bank_that_is_not_there_yet_and_a_question_without_words_find_nothing():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        assert await hindsight.recall(question("anything")) == ()
        assert await hindsight.recall(question("  ")) == ()
