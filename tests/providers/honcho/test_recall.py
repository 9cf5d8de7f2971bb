"""Recall from Honcho never crosses a boundary: not to another person, agent or chat, not from private into a group."""

import pytest

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, Instant, Principal
from tests.support.honcho_kit import NAME, SAID_AT, chat, naming, note, one, parcel, provider_on, query

DM = naming("ses_1", "ada", address=chat("ada"))
GROUP = naming("ses_2", "ada", address=chat("g", type="group"))
BOB = naming("ses_3", "bob", address=chat("bob"))
GROUP_OF_BOB = naming("ses_4", "bob", address=chat("h", type="group"))


async def said(provider, server, inputs, text, n=1):
    await one(provider, parcel(provider, n, text, "noted", inputs=inputs))
    server.run_deriver()


async def found(provider, inputs, text="cat", **more):
    return [memory.text for memory in await provider.recall(query(text, inputs, **more))]


async def test_what_was_said_comes_back_with_its_origin(server, provider):
    await one(provider, parcel(provider, 4, "my cat is Byron <|endoftext|>", "noted", inputs=DM))
    [memory] = await provider.recall(query("cat", DM))
    assert memory.text == "my cat is Byron <|endoftext|>"
    assert (memory.provider, memory.session, memory.turn, memory.speaker) == (NAME, "ses_1", 4, "ada")
    assert memory.at == Instant(SAID_AT + 4_000)
    assert memory.ref.startswith("msg")


async def test_a_person_hears_what_was_concluded_about_them(server, provider):
    await one(provider, note(provider, 1, "ada has a cat"))
    assert await found(provider, DM) == ["ada has a cat"]
    assert await found(provider, BOB) == []


async def test_another_persons_private_words_are_never_shown(server, provider):
    await said(provider, server, DM, "my cat is Byron")
    assert len(await found(provider, DM)) == 2  # the words, and what was derived from them
    assert await found(provider, BOB) == []


async def test_a_linked_account_hears_what_was_concluded_about_the_person_but_not_in_a_group(server, provider):
    await said(provider, server, DM, "my cat is Byron")
    await one(provider, note(provider, 1, "ada has a cat"))
    linked = {"kin": (Principal("ada"),)}
    assert "ada has a cat" in await found(provider, BOB, **linked)
    assert await found(provider, GROUP_OF_BOB, group=True, **linked) == []
    assert await found(provider, BOB) == []


@pytest.mark.parametrize("settings", [{"strategy": "global"}, {"strategy": "per-directory"}])
async def test_a_linked_account_shares_a_honcho_session_only_with_its_person(server, settings):
    async with provider_on(server, **settings) as provider:
        ada, bob, cy = (naming(f"ses_{who}", who, directory="/a") for who in ("ada", "bob", "cy"))
        await said(provider, server, ada, "my cat is Byron")
        await said(provider, server, bob, "my cat is Keats")
        assert "my cat is Byron" in (heard := await found(provider, cy, kin=(Principal("ada"),)))
        assert not any("Keats" in text for text in heard)


@pytest.mark.parametrize("settings", [{"strategy": "global"}, {"strategy": "per-directory"}])
async def test_people_who_share_a_honcho_session_stay_apart(server, settings):
    async with provider_on(server, **settings) as provider:
        ada, bob = (naming(f"ses_{who}", who, directory="/a") for who in ("ada", "bob"))
        assert provider.names.place(ada) == provider.names.place(bob)
        await said(provider, server, ada, "my cat is Byron")
        assert await found(provider, bob) == []
        assert "my cat is Byron" in await found(provider, ada)


async def test_private_words_are_not_shown_in_a_group_unless_allowed(server, provider):
    await said(provider, server, DM, "my cat is Byron")
    await one(provider, note(provider, 1, "ada has a cat"))
    assert await found(provider, GROUP, group=True) == []
    assert await found(provider, GROUP, group=True, private_in_groups=True) != []


async def test_private_words_stay_out_of_a_group_that_is_mapped_to_the_same_session(server):
    async with provider_on(server, titles={"Home": "home"}) as provider:
        private, group = (naming(x.session, "ada", address=x.address, title="Home") for x in (DM, GROUP))
        assert provider.names.place(private) == provider.names.place(group)
        await said(provider, server, private, "my cat is Byron")
        await said(provider, server, group, "cat pictures please")
        assert await found(provider, group, group=True) == ["cat pictures please"]


async def test_a_group_recalls_what_everybody_said_in_it(server, provider):
    for n, who in enumerate(("ada", "bob")):
        await said(provider, server, naming("ses_2", who, address=GROUP.address), f"{who} has a cat", n)
    assert sorted(await found(provider, GROUP, group=True)) == ["ada has a cat", "bob has a cat"]


async def test_an_agent_never_sees_the_memory_of_another(server, provider):
    await said(provider, server, DM, "my cat is Byron")
    other = AgentName("other")
    for inputs in (
        naming("ses_9", "ada", agent=other, address=chat("ada", agent=other)),
        naming("ses_1", "ada", agent=other),
    ):
        assert await found(provider, inputs) == []


async def test_the_server_is_not_trusted_to_filter(server, provider, monkeypatch):
    await said(provider, server, DM, "my cat is Byron")
    for row in server.messages():
        row["session_id"] = provider.names.place(BOB)
    monkeypatch.setattr("tests.support.honcho_world._filtered", lambda rows, body, columns: list(rows))
    texts = [text for text in await found(provider, BOB) if not text.startswith("said:")]
    assert texts == []


async def test_history_that_hermes_wrote_is_recalled_in_compat_mode(server):
    async with provider_on(server, compat=True, workspace="hermes", strategy="per-directory") as provider:
        inputs = naming("s", "7", address=chat("7"))
        place = provider.names.place(inputs)
        assert place == "agent-main-telegram-dm-7"
        await one(provider, parcel(provider, 1, "my cat is Byron", "ok", inputs=inputs))
        for row in server.messages(workspace="hermes"):
            row["metadata"] = {}
        assert await found(provider, inputs) == ["my cat is Byron"]


async def test_nothing_is_asked_for_no_words_and_nothing_found_is_no_failure(server, provider):
    assert await found(provider, DM, text=" ") == []
    assert server.requests == []
    assert await found(provider, DM, text="anything") == []
    assert server.sessions() == []


@pytest.mark.parametrize("kind", ["drop_after", "html", "status", "redirect", "lie_empty"])
async def test_a_failure_is_an_error_that_holds_no_words(server, provider, kind):
    await provider.healthy()
    server.fail_next(kind, times=9, body={"detail": [{"input": "secret cat"}]}, status=422)
    with pytest.raises(ProviderFailed) as raised:
        await provider.recall(query("secret cat", DM))
    assert "secret" not in f"{raised.value}{raised.value.context}"
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
