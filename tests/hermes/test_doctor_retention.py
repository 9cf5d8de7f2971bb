"""The doctor names the turns that Hindsight and Honcho do not have, asking them over their real clients."""

import json

import pytest
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.provider_texts import with_retention
from holdfast.hermes.doctor.retention import RetainedTexts, check_retention
from holdfast.hermes.home import find_home
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.factory import HonchoSettings
from tests.hermes.test_doctor import CHAT, NOW
from tests.support.hermes_home import HermesHome
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer


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
    retained = RetainedTexts("Hindsight", {"s1": texts})
    return [one.kind.code for one in check_retention(examined.records, retained)]


def test_turns_are_recognised_inside_json(tmp_path):
    examined = home_with_turns(tmp_path)
    turns = [{"role": "user", "content": 'the "first" question'}, {"role": "user", "content": "the second question"}]
    assert kinds(examined, json.dumps(turns)) == []
    assert kinds(examined, json.dumps(turns[:1])) == ["turns_not_retained"]
    assert kinds(examined) == ["turns_not_retained"]


def test_a_finalised_session_without_any_turn(tmp_path):
    assert kinds(home_with_turns(tmp_path, expiry_finalized=1)) == ["finalised_without_turns"]


@pytest.mark.parametrize("kept", [1, 2])
async def test_hindsight_is_asked_for_the_documents_of_a_session(kept, tmp_path):
    examined = home_with_turns(tmp_path)
    async with FakeHindsight() as server:
        (tmp_path / "hindsight").mkdir()
        config = {"mode": "local_external", "api_url": server.url, "bank_id": "hermes"}
        (tmp_path / "hindsight" / "config.json").write_text(json.dumps(config))
        words = ['the "first" question', "the second question"][:kept]
        tags = ["session:s1"]
        server.keep({"document_id": "s1", "content": json.dumps(words), "tags": tags, "metadata": {}}, "hermes")
        found = await with_retention(find_home(tmp_path, {}), examined, {})
    missing = [("turns_not_retained", ("s1",), "Hindsight lacks 1 of 2 turns of s1")]
    assert wrong(found) == (missing if kept == 1 else [])


async def test_honcho_is_asked_for_the_messages_of_a_chat(tmp_path):
    examined = home_with_turns(tmp_path)
    async with HonchoServer() as server:
        (tmp_path / "honcho.json").write_text(json.dumps({"baseUrl": server.url, "workspace": "hermes"}))
        client = HonchoClient(HonchoSettings(url=server.url, workspace="hermes"), None)
        await client.add(
            "agent-main-telegram-dm-4242", [MessageCreateParams(content="the second question", peer_id="a")]
        )
        await client.close()
        found = await with_retention(find_home(tmp_path, {}), examined, {})
    assert wrong(found) == [("turns_not_retained", ("s1",), "Honcho lacks 1 of 2 turns of s1")]


async def test_a_provider_that_does_not_answer_is_told_and_proves_nothing(tmp_path):
    examined = home_with_turns(tmp_path)
    (tmp_path / "honcho.json").write_text(json.dumps({"baseUrl": "http://127.0.0.1:9", "workspace": "hermes"}))
    found = await with_retention(find_home(tmp_path, {}), examined, {})
    assert wrong(found) == []
    assert any(reason.startswith("honcho: ") for reason in found.files.unreadable)
