"""The doctor names the turns that Hindsight and Honcho do not have, asking them over their real clients."""

import asyncio
import hashlib
import json

import pytest
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.kept_by_providers import with_retention
from holdfast.hermes.doctor.retention import check_retention, offered_turns
from holdfast.hermes.home import find_home
from holdfast.hermes.kept_messages import KeptMessages, messages_of_document
from holdfast.hermes.plugin import client
from holdfast.hermes.service import data_of, serving
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.factory import HonchoSettings
from tests.hermes.test_doctor import CHAT, NOW
from tests.support.hermes_home import HermesChat, HermesHome
from tests.support.hermes_service import agent_of, make_home, memory_servers
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer

SETTLED = {"op": "settled", "budget_ms": 8_000}


def home_with_turns(folder, **columns):
    home = HermesHome(folder)
    home.session("s1", CHAT, **columns)
    home.say("s1", 'the "first" question', "one")
    home.say("s1", "the second question", "two")
    home.message("s1", "user", "never answered")
    home.message("s1", "user", "/status")
    home.message("s1", "assistant", "fine")
    home.route(CHAT, "s1")
    home.close()
    return examine(folder, NOW)


def wrong(examined):
    return [(one.kind.code, one.sessions, one.what) for one in examined.findings if one.severity.value != "info"]


def kinds(examined, *texts):
    assert examined.records is not None
    said = [messages_of_document(text) for text in texts]
    unread = [text for text, found in zip(texts, said, strict=True) if not found]
    kept = KeptMessages("Hindsight", {"s1": [one for found in said for one in found]}, unread={"s1": unread})
    return [one.kind.code for one in check_retention(examined.records, kept, {"s1": []})]


def test_turns_are_recognised_inside_json(tmp_path):
    examined = home_with_turns(tmp_path)
    turns = [{"role": "user", "content": 'the "first" question'}, {"role": "user", "content": "the second question"}]
    assert kinds(examined, json.dumps(turns)) == []
    assert kinds(examined, json.dumps(turns[:1])) == ["turns_not_retained"]
    assert kinds(examined) == ["turns_not_retained"]


def test_words_inside_another_message_prove_nothing(tmp_path):
    examined = home_with_turns(tmp_path)
    asked = [
        {"role": "user", "content": f"{said}, asked again"} for said in ('the "first" question', "the second question")
    ]
    assert kinds(examined, json.dumps(asked)) == ["turns_not_retained"]


def test_a_document_of_an_unknown_form_is_searched_for_longer_words(tmp_path):
    examined = home_with_turns(tmp_path)
    assert [one.text for one in offered_turns(examined.records, examined.records.sessions["s1"])] == [
        'the "first" question',
        "the second question",
    ]
    retained = check_retention(
        examined.records,
        KeptMessages("Hindsight", unread={"s1": ['Ada: the "first" question', "Ada: the second question"]}),
        {"s1": []},
    )
    assert [one.what for one in retained] == ["Hindsight lacks 1 of 2 turns of s1"]  # the other one has 19 characters


def test_a_finalised_session_without_any_turn(tmp_path):
    assert kinds(home_with_turns(tmp_path, expiry_finalized=1)) == ["finalised_without_turns"]


@pytest.mark.parametrize("kept", [1, 2])
async def test_hindsight_is_asked_for_the_documents_of_a_session(kept, tmp_path):
    examined = home_with_turns(tmp_path)
    async with FakeHindsight() as server:
        (tmp_path / "hindsight").mkdir()
        config = {"mode": "local_external", "api_url": server.url, "bank_id": "hermes"}
        (tmp_path / "hindsight" / "config.json").write_text(json.dumps(config))
        words = ['User: the "first" question', "User: the second question"][:kept]
        content = json.dumps([[{"role": "user", "content": one}] for one in words])
        server.keep({"document_id": "s1", "content": content, "tags": ["session:s1"], "metadata": {}}, "hermes")
        found = await with_retention(find_home(tmp_path, {}), examined, {})
    missing = [("turns_not_retained", ("s1",), "Hindsight lacks 1 of 2 turns of s1")]
    assert wrong(found) == (missing if kept == 1 else [])


async def test_honcho_is_asked_for_the_messages_of_a_chat(tmp_path):
    examined = home_with_turns(tmp_path)
    async with HonchoServer() as server:
        (tmp_path / "honcho.json").write_text(json.dumps({"baseUrl": server.url, "workspace": "hermes"}))
        honcho = HonchoClient(HonchoSettings(url=server.url, workspace="hermes"), None)
        await honcho.add(
            "agent-main-telegram-dm-4242", [MessageCreateParams(content="the second question", peer_id="a")]
        )
        await honcho.close()
        found = await with_retention(find_home(tmp_path, {}), examined, {})
    assert wrong(found) == [("turns_not_retained", ("s1",), "Honcho lacks 1 of 2 turns of s1")]


@pytest.mark.parametrize(
    ("chat", "place"), [("-100123", "group--100123"), ("a::b@c.d:", "group-a-b-c-d"), ("x" * 90, None)]
)
async def test_the_place_of_a_group_has_the_name_that_hermes_gives_it(chat, place, tmp_path):
    """Hermes replaces a run of other characters by one dash, and shortens a long name by a hash of the key."""
    group = HermesChat(type="group", chat=chat)
    digest = hashlib.sha256(group.key.encode()).hexdigest()[:8]
    place = place or f"group-{'x' * (100 - 9 - len('agent-main-telegram-group-'))}-{digest}"
    home = HermesHome(tmp_path)
    home.session("s1", group)
    home.say("s1", "the second question", "two")
    home.route(group, "s1")
    home.close()
    async with HonchoServer() as server:
        (tmp_path / "honcho.json").write_text(json.dumps({"baseUrl": server.url, "workspace": "hermes"}))
        honcho = HonchoClient(HonchoSettings(url=server.url, workspace="hermes"), None)
        said = MessageCreateParams(content="the second question", peer_id="a")
        await honcho.add(f"agent-main-telegram-{place}", [said])
        await honcho.close()
        assert wrong(await with_retention(find_home(tmp_path, {}), examine(tmp_path, NOW), {})) == []


@pytest.mark.parametrize(
    ("template", "bank"), [("hermes-{user}", "hermes-a-b"), ("{platform}{workspace}", "telegramhermes")]
)
async def test_the_bank_of_a_person_has_the_name_that_hermes_gives_it(template, bank, tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1", HermesChat(user="@a::b-"))
    home.say("s1", "the second question", "two")
    home.close()
    async with FakeHindsight() as server:
        (tmp_path / "hindsight").mkdir()
        config = {"mode": "local_external", "api_url": server.url, "bank_id_template": template}
        (tmp_path / "hindsight" / "config.json").write_text(json.dumps(config))
        content = json.dumps([[{"role": "user", "content": "User: the second question"}]])
        server.keep({"document_id": "s1", "content": content, "tags": ["session:s1"], "metadata": {}}, bank)
        assert wrong(await with_retention(find_home(tmp_path, {}), examine(tmp_path, NOW), {})) == []


async def test_what_holdfast_delivered_for_hermes_is_found_at_both(tmp_path):
    """A conversation of the terminal, which has no chat key, and one of a group."""
    async with memory_servers() as servers:
        made = make_home(tmp_path / "home", servers)
        group = HermesChat(type="group", chat="-100123")
        home = HermesHome(made.path)
        for session, chat in (("s1", None), ("s2", group)):
            home.session(session, chat)
            home.say(session, f"first in {session}", "one")
            home.say(session, f"second in {session}", "two")
        home.configure(memory={"provider": "holdfast"})
        home.close()
        for session, about in (("s1", {}), ("s2", {"platform": "telegram", "chat_id": group.chat, "user_id": "4242"})):
            agent = agent_of(made, session, gateway_session_key=group.key if about else "", chat_type="group", **about)
            agent.sync_turn(f"first in {session}", "one", session_id=session)
        async with serving(made, data_of(made)):
            while not (await asyncio.to_thread(client.ask, made.path, SETTLED, 60.0) or {}).get("settled"):
                pass
        found = await with_retention(made, examine(made.path, NOW), {})
    assert sorted(what for _, _, what in wrong(found)) == [
        f"{provider} lacks 1 of 2 turns of {session}"
        for provider in ("Hindsight", "Honcho")
        for session in ("s1", "s2")
    ]


async def test_a_provider_that_does_not_answer_is_told_and_proves_nothing(tmp_path):
    examined = home_with_turns(tmp_path)
    (tmp_path / "honcho.json").write_text(json.dumps({"baseUrl": "http://127.0.0.1:9", "workspace": "hermes"}))
    found = await with_retention(find_home(tmp_path, {}), examined, {})
    assert wrong(found) == []
    assert any(reason.startswith("honcho: ") for reason in found.files.unreadable)
