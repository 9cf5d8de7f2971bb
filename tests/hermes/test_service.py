"""A turn that Hermes wrote arrives once at Hindsight and at Honcho, in its own session; recall answers over the socket.

Both services are the fakes of tests/support, reached by the vendors' real clients over HTTP.
"""

import asyncio
import json
import stat

import pytest

from holdfast.hermes.plugin import client
from holdfast.hermes.plugin.spool import spool_of
from holdfast.hermes.service import data_of, serving
from holdfast.kernel.errors import ConfigInvalid, HermesServed, SpoolNewer
from tests.support.hermes_service import agent_of, make_home, memory_servers

BUDGET_S = 60.0


async def ask(home, **question):
    return await asyncio.to_thread(client.ask, home.path, {"budget_ms": 8_000, **question}, BUDGET_S)


async def settle(home):
    while not ((answer := await ask(home, op="settled")) or {}).get("settled"):
        assert answer is not None, "the process beside Hermes does not answer"


async def test_a_turn_arrives_once_at_both_services_and_is_recalled(tmp_path):
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        ada = agent_of(home, "A", platform="telegram", chat_id="42", chat_type="dm", user_id="42")
        ada.sync_turn("my cat is called Byron", "noted", session_id="A")  # nobody serves yet
        async with serving(home, data_of(home)) as service:
            assert {"hindsight", "honcho", "local"} == set(service.providers)
            ada.on_session_switch("B", reset=True)
            ada.sync_turn("late", "1", session_id="A")
            ada.sync_turn("new conversation", "2", session_id="B")
            ada.on_memory_write("add", "user", "Ada likes tea.")
            ada.on_memory_write("add", "user", "Ada likes tea.")  # Hermes also mirrors an entry that exists
            await settle(home)
            stored = servers.at_hindsight()
            assert sum("Byron" in text for text in stored) == 1
            assert sum("new conversation" in text for text in stored) == 1
            said = [text for _, text in servers.at_honcho()]
            assert sorted(said) == sorted(["my cat is called Byron", "noted", "late", "1", "new conversation", "2"])
            concluded = [one["content"] for one in servers.honcho.workspaces["hermes"].conclusions]
            assert concluded.count("Ada likes tea.") == 1
            found = await asyncio.to_thread(ada.prefetch, "what is my cat called?")
            assert "Byron" in found
            told = json.loads(await asyncio.to_thread(ada.handle_tool_call, "holdfast_conclusions", {}))
            assert "Ada likes tea." in told["conclusions"]
            eve = agent_of(home, "E", platform="telegram", chat_id="7", chat_type="dm", user_id="7")
            assert "Byron" not in await asyncio.to_thread(eve.prefetch, "what is my cat called?")
            status = await asyncio.to_thread(ada.get_status_config, {})
            assert (status["delivery"], status["waiting_in_spool"]) == ("running", 0)
        assert "stopped" in ada.get_status_config({})["delivery"]


async def test_a_home_is_served_once_and_its_socket_is_private(tmp_path):
    home = make_home(tmp_path / "home")
    async with serving(home, data_of(home)):
        with pytest.raises(HermesServed, match="serves"):
            async with serving(home, tmp_path / "other"):
                pass
        address = json.loads((home.folder / client.ADDRESS).read_text())
        assert stat.S_IMODE((tmp_path / address["socket"]).stat().st_mode) == 0o600
        assert await ask(home, op="nonsense") == {"ok": False, "error": "there is no operation 'nonsense'"}
    assert await ask(home, op="ping") is None
    async with serving(home, data_of(home)):
        assert await ask(home, op="ping") == {"ok": True}


async def test_a_home_with_a_long_path_is_served_too(tmp_path):
    home = make_home(tmp_path / ("long" * 20) / "home")
    async with serving(home, data_of(home)):
        assert await ask(home, op="ping") == {"ok": True}
        assert "serve.sock" in json.loads((home.folder / client.ADDRESS).read_text())["socket"]


async def test_a_record_is_filed_once_even_if_it_is_read_twice(tmp_path):
    home = make_home(tmp_path / "home")
    spool_of(home.path).append({"kind": "turn", "session": "S", "user": "once", "assistant": "a", "about": {}})
    (segment,) = home.spool.iterdir()
    before = segment.read_bytes()
    for _ in range(2):
        async with serving(home, data_of(home)) as service:
            await settle(home)
            (session,) = await service.runtime.sessions()
            assert (session.id, session.turns) == ("S", 1)
        segment.write_bytes(before)  # the process died after filing and before marking


async def test_a_record_that_cannot_be_filed_is_kept_aside(tmp_path):
    home = make_home(tmp_path / "home")
    spool_of(home.path).append({"kind": "future", "session": "S"})
    spool_of(home.path).append({"kind": "turn", "session": "S", "user": "fine", "assistant": "a", "about": {}})
    async with serving(home, data_of(home)) as service:
        await settle(home)
        assert [one.turns for one in await service.runtime.sessions()] == [1]
    aside = [json.loads(line) for line in (home.folder / "unfiled.jsonl").read_text().splitlines()]
    assert [one["record"]["kind"] for one in aside] == ["future"]


async def test_one_session_id_of_two_profiles_is_two_sessions(tmp_path):
    home = make_home(tmp_path / "home")
    agent_of(home, "S").sync_turn("main", "1", session_id="S")
    agent_of(home, "S", agent_identity="coder").sync_turn("coder", "2", session_id="S")
    async with serving(home, data_of(home)) as service:
        await settle(home)
        assert {one.id for one in await service.runtime.sessions()} == {"S", "S@coder"}


async def test_wrong_settings_and_a_newer_spool_are_reported_at_the_start(tmp_path):
    home = make_home(tmp_path / "home")
    (home.path / "honcho.json").write_text(json.dumps({"baseUrl": "nonsense", "enabled": True}))
    with pytest.raises(ConfigInvalid, match=r"honcho\.url"):
        async with serving(home, data_of(home)):
            pass
    (home.path / "honcho.json").unlink()
    home.spool.mkdir(parents=True, exist_ok=True)
    (home.spool / "x.spool").write_bytes(b"holdfast-spool 2\n")
    with pytest.raises(SpoolNewer):
        async with serving(home, data_of(home)):
            pass
