"""A fact that one person told in private is not shown to another, with default settings and over every way in.

The gateway is a real process with the practice model; nothing is configured.
"""

from pathlib import Path

import httpx

import holdfast
from holdfast.sessions.finalisation_sql import list_finalisations
from tests.support.patience import within
from tests.support.processes import Up


async def said(client: httpx.AsyncClient, chat: str, text: str, **more: str) -> str:
    """Say a text over HTTP and wait for the reply."""
    body = {"chat": chat, "id": f"{chat} {text}"[:100], "text": text, **more}
    accepted = await client.post("/v1/messages", json=body)
    assert accepted.status_code == 202, accepted.text
    message = accepted.json()["message"]
    await client.get(f"/v1/messages/{message}/stream")
    reply = (await client.get(f"/v1/messages/{message}")).json()["reply"]
    return str(reply["text"])


async def extracted(client: httpx.AsyncClient) -> None:
    """Until every ended epoch was extracted, and everything noted has reached its providers."""
    async with within(60):
        while True:
            ends = (await client.get("/v1/finalisations")).json()["finalisations"]
            open_ends = [one for one in ends if one["ended_at"] is None]
            sent = (await client.get("/v1/deliveries")).json()["deliveries"]
            if ends and not open_ends and all(one["state"] == "delivered" for one in sent):
                return


async def contexts(client: httpx.AsyncClient, chat: str) -> str:
    sessions = (await client.get("/v1/sessions", params={"chat": chat})).json()["sessions"]
    found = [await client.get(f"/v1/sessions/{one['id']}/context") for one in sessions if one["live"]]
    assert found
    return "".join(one.text for one in found)


async def test_what_ada_told_in_private_is_neither_answered_nor_shown_to_bob(tmp_path: Path):
    up = await Up.start(tmp_path)
    try:
        async with up.client() as client:
            await said(client, "ada-dm", "My cat is called Byron.", sender="ada")
            await said(client, "ada-dm", "/new", sender="ada")
            await extracted(client)
            assert "Byron" not in await said(client, "bob-dm", "What is the cat called?", sender="bob")
            assert "Byron" not in await contexts(client, "bob-dm")
            for who in ({"sender": "bob"}, {"chat": "bob-dm"}, {}):
                found = await client.get("/v1/recall", params={"q": "the cat is called", **who})
                assert found.status_code == 200
                assert "Byron" not in found.text
            # She herself is answered, in another chat of hers.
            assert "Byron" in await said(client, "ada-phone", "What is the cat called?", sender="ada")
            assert "Byron" in await contexts(client, "ada-phone")
    finally:
        await up.stop()


async def test_messages_without_a_sender_are_of_as_many_people_as_there_are_chats(tmp_path: Path):
    up = await Up.start(tmp_path)
    try:
        async with up.client() as client:
            await said(client, "ada-dm", "My cat is called Byron.")
            await said(client, "ada-dm", "/new")
            await extracted(client)
            assert "Byron" not in await said(client, "bob-dm", "What is the cat called?")
            assert "Byron" not in await contexts(client, "bob-dm")
            assert "Byron" in await said(client, "ada-dm", "What is the cat called?")
    finally:
        await up.stop()


async def test_the_same_through_the_library(tmp_path: Path):
    async with holdfast.open(tmp_path) as runtime:
        await runtime.ask("ada-dm", "My cat is called Byron.", sender="ada")
        await runtime.ask("ada-dm", "/new", sender="ada")
        async with within(60):
            while not all(one.ended for one in await runtime.db.read(list_finalisations(limit=9))):
                pass  # each look reads the store, while the others go on
        assert "Byron" not in await runtime.ask("bob-dm", "What is the cat called?", sender="bob")
        (session,) = await runtime.sessions(chat="bob-dm")
        prompt = await runtime.prompt(session.id)
        assert "Byron" not in "".join(message.content for message in prompt.messages)
        assert "Byron" in await runtime.ask("ada-phone", "What is the cat called?", sender="ada")
