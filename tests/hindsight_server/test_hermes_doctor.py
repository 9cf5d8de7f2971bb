"""`holdfast hermes doctor --providers` against the real Hindsight: exactly the turns that the server lacks are named.

Run by `make test-hindsight`. One conversation was delivered in the form of Hermes' own plugin, one by Holdfast.
"""

import asyncio
import json

import pytest
from hindsight_client import Hindsight

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.kept_by_providers import with_retention
from holdfast.hermes.plugin import client
from holdfast.hermes.service import data_of, serving
from tests.hindsight_server.server import RealHindsight
from tests.support.hermes_home import BEGAN_AT, HermesChat, HermesHome
from tests.support.hermes_service import agent_of, make_home

pytestmark = [pytest.mark.hindsight, pytest.mark.timeout(300)]
KEY = "sesame-0123"
SETTLED = {"op": "settled", "budget_ms": 8_000}


@pytest.fixture(scope="module")
def server():
    running = RealHindsight(KEY)
    yield running
    running.stop()


async def retain_as_hermes(server, bank, session, *texts):
    """Deliver turns as the plugin of Hermes 0.19.0 does: a document for the session, to which each turn is appended."""
    hindsight = Hindsight(server.url, api_key=KEY)
    for n, text in enumerate(texts):
        turn = [{"role": "user", "content": f"User: {text}"}, {"role": "assistant", "content": f"Assistant: re {text}"}]
        item = {"content": json.dumps([turn]), "document_id": session, "tags": [f"session:{session}"]}
        item |= {"update_mode": "append", "metadata": {"session_id": session, "turn_index": str(n)}}
        await hindsight.aretain_batch(bank, [item], retain_async=False)
    await hindsight.aclose()


@pytest.mark.parametrize("template", ["", "hermes-{platform}-{user}"], ids=["one bank", "a bank for each person"])
async def test_the_turns_that_the_server_lacks_are_named_and_no_other(server, tmp_path, template, request):
    bank = f"hermes{len(request.node.name)}"
    made = make_home(tmp_path / "home")
    (made.path / "hindsight").mkdir()
    config = {"mode": "local_external", "api_url": server.url, "api_key": KEY, "bank_id": bank}
    (made.path / "hindsight" / "config.json").write_text(json.dumps(config | {"bank_id_template": template}))
    home, chat = HermesHome(made.path), HermesChat(user="77")
    home.configure(memory={"provider": "holdfast"})
    for session in ("s1", "s2"):
        home.session(session, chat)
        for n in range(3):
            home.say(session, f"message {n} in {session}", "ok")
    home.close()
    await retain_as_hermes(
        server, "hermes-telegram-77" if template else bank, "s1", "message 0 in s1", "message 2 in s1"
    )
    about = {"platform": "telegram", "chat_id": chat.chat, "user_id": chat.user, "gateway_session_key": chat.key}
    agent = agent_of(made, "s2", **about)
    for n in (0, 1):
        agent.sync_turn(f"message {n} in s2", "ok", session_id="s2")
    async with serving(made, data_of(made)):
        while not (await asyncio.to_thread(client.ask, made.path, SETTLED, 60.0) or {}).get("settled"):
            pass
    found = await with_retention(made, examine(made.path, BEGAN_AT + 10_000), {})
    assert found.files.unreadable == ()
    lacking = [one for one in found.findings if one.kind.code == "turns_not_retained"]
    assert [one.what for one in lacking] == [f"Hindsight lacks 1 of 3 turns of {one}" for one in ("s1", "s2")]
    assert [one.evidence.rows[0].partition("'")[2] for one in lacking] == ["message 1 in s1'", "message 2 in s2'"]


async def test_a_server_that_refuses_the_key_is_told_and_proves_nothing(server, tmp_path):
    made = make_home(tmp_path / "home")
    (made.path / "hindsight").mkdir()
    config = {"mode": "local_external", "api_url": server.url, "api_key": "wrong", "bank_id": "hermes"}
    (made.path / "hindsight" / "config.json").write_text(json.dumps(config))
    home = HermesHome(made.path)
    home.session("s1")
    home.say("s1", "hello", "hi")
    home.close()
    found = await with_retention(made, examine(made.path, BEGAN_AT + 10_000), {})
    assert found.is_silent
    assert [one.partition(":")[0] for one in found.files.unreadable] == ["hindsight"]
