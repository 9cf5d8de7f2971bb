"""The plugin is right in every order in which Hermes really calls it, and never waits for a network."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.hermes.plugin import HoldfastMemory, client, register
from holdfast.hermes.plugin import provider as provider_module
from holdfast.hermes.plugin.spool import SpoolError
from holdfast.hermes.spool_reader import SpoolReader


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "environment"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def agent(home, session="A", **about):
    made = HoldfastMemory()
    made.initialize(session, hermes_home=str(home), platform="cli", agent_context="primary", **about)
    return made


def filed(home):
    records = SpoolReader(home / "holdfast" / "spool").waiting()
    return [(one.content["session"], one.content["user"]) for one in records if one.content["kind"] == "turn"]


def test_the_last_turn_may_come_after_the_end_of_its_session(home):
    memory = agent(home)
    memory.sync_turn("one", "1", session_id="A")
    memory.on_session_end([{"role": "user", "content": "one"}])
    memory.sync_turn("two", "2", session_id="A")
    memory.shutdown()
    memory.sync_turn("three", "3", session_id="A")
    assert filed(home) == [("A", "one"), ("A", "two"), ("A", "three")]


def test_a_queued_turn_stays_in_its_session_when_a_switch_overtakes_it(home):
    memory = agent(home)
    memory.on_session_switch("B", parent_session_id="A", reset=True)
    memory.sync_turn("queued", "1", session_id="A")
    memory.sync_turn("new", "2", session_id="B")
    assert filed(home) == [("A", "queued"), ("B", "new")]


def test_end_and_switch_of_a_compaction_send_nothing_twice(home):
    memory = agent(home)
    memory.sync_turn("one", "1", session_id="A")
    for _ in range(3):
        assert memory.on_pre_compress([]) == ""
        memory.on_session_end([])
        memory.on_session_switch("A", parent_session_id="A", reason="compression")
    assert filed(home) == [("A", "one")]


def test_a_rotation_has_a_parent_and_a_new_conversation_has_none(home):
    memory = agent(home)
    memory.on_session_switch("B", parent_session_id="A", reason="compression")
    memory.sync_turn("rotated", "1", session_id="B")
    memory.on_session_switch("C", parent_session_id="B", reset=True)
    memory.sync_turn("fresh", "2", session_id="C")
    parents = [one.content["parent"] for one in SpoolReader(home / "holdfast" / "spool").waiting()]
    assert parents == ["A", ""]


def test_a_turn_without_a_session_id_belongs_to_the_current_one(home):
    memory = agent(home)
    memory.on_session_switch("B")
    memory.sync_turn("one", "1")
    assert filed(home) == [("B", "one")]


def test_an_agent_whose_initialisation_failed_still_keeps_its_turns(home, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(home))
    HoldfastMemory().sync_turn("one", "1", session_id="A")
    assert filed(home) == [("A", "one")]


def test_an_agent_keeps_its_home_if_starting_the_process_beside_hermes_fails(home, monkeypatch):
    """Hermes logs a failed `initialize` and goes on to call the provider."""

    def fails(home):
        raise RuntimeError("no more processes")

    monkeypatch.setattr(provider_module, "start", fails)
    memory = HoldfastMemory()
    with pytest.raises(RuntimeError):
        memory.initialize("A", hermes_home=str(home), platform="cli", agent_context="primary")
    memory.sync_turn("one", "1")
    assert filed(home) == [("A", "one")]


def test_recall_without_a_session_id_is_for_the_current_session(home, monkeypatch):
    """Hermes passes an empty session id to `prefetch`."""
    asked = []

    def answer(_home, question, _budget):
        asked.append((question["op"], question["session"], question["query"]))
        return {"ok": True, "text": "a memory"}

    monkeypatch.setattr(provider_module, "ask", answer)
    memory = agent(home)
    assert memory.prefetch("first", session_id="") == "a memory"
    memory.on_session_switch("B", parent_session_id="A")
    memory.queue_prefetch("never asked", session_id="B")
    assert memory.prefetch("second", session_id="") == "a memory"
    assert asked == [("recall", "A", "first"), ("recall", "B", "second")]


def test_a_home_that_cannot_be_written_is_an_error_and_not_available(home, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(home))
    (home / "holdfast").write_text("a file in the place of the folder")
    assert not HoldfastMemory().is_available()
    memory = agent(home)
    with pytest.raises(SpoolError, match="the turn is not durable: File exists"):
        memory.sync_turn("one", "1", session_id="A")
    assert "not stored" in json.loads(memory.handle_tool_call("holdfast_remember", {"content": "tea"}))["error"]
    assert (home / "holdfast").read_text() == "a file in the place of the folder"


def test_a_read_only_disk_is_named_in_the_error(home, monkeypatch):
    def read_only(path, *arguments):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    memory = agent(home)
    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(SpoolError, match="the turn is not durable: Read-only file system"):
        memory.sync_turn("one", "1", session_id="A")
    monkeypatch.undo()
    memory.sync_turn("two", "2", session_id="A")
    assert filed(home) == [("A", "two")], "the next turn is written once the disk is back"


def test_segments_of_a_newer_spool_are_left_alone(home):
    (home / "holdfast" / "spool").mkdir(parents=True)
    newer = home / "holdfast" / "spool" / "newer.spool"
    newer.write_bytes(b"holdfast-spool 2\nwhatever")
    agent(home).sync_turn("one", "1", session_id="A")
    assert newer.read_bytes() == b"holdfast-spool 2\nwhatever"
    newer.unlink()
    assert filed(home) == [("A", "one")]


def test_the_live_list_of_messages_is_not_kept(home):
    messages = [{"role": "user", "content": "one"}]
    agent(home).sync_turn("one", "1", session_id="A", messages=messages)
    messages.clear()
    assert filed(home) == [("A", "one")]


def test_only_conversations_are_kept(home):
    for context in ("cron", "subagent", "flush"):
        memory = HoldfastMemory()
        memory.initialize("A", hermes_home=str(home), agent_context=context)
        memory.sync_turn("one", "1", session_id="A")
        memory.on_memory_write("add", "user", "x")
        assert memory.prefetch("x") == ""
    assert filed(home) == []


def test_many_agents_and_homes_in_one_process(home, tmp_path):
    (tmp_path / "other").mkdir()
    agents = [agent(home, f"S{n}") for n in range(4)] + [agent(tmp_path / "other", "X")]

    def talk(memory, session):
        for n in range(20):
            memory.sync_turn(str(n), "a", session_id=session)

    threads = [
        threading.Thread(target=talk, args=(memory, name))
        for memory, name in zip(agents, ["S0", "S1", "S2", "S3", "X"], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = filed(home)
    for n in range(4):
        assert [text for session, text in kept if session == f"S{n}"] == [str(n) for n in range(20)]
    assert len(filed(tmp_path / "other")) == 20


def test_recall_is_absent_without_the_process_beside_hermes(home):
    memory = agent(home)
    assert memory.prefetch("anything", session_id="") == ""
    assert "error" in json.loads(memory.handle_tool_call("holdfast_recall", {"query": "x"}))
    assert "stopped" in memory.get_status_config({})["delivery"]


def test_remember_is_durable_when_the_tool_returns(home):
    assert json.loads(agent(home).handle_tool_call("holdfast_remember", {"content": "tea"})) == {"stored": True}
    (record,) = SpoolReader(home / "holdfast" / "spool").waiting()
    assert (record.content["kind"], record.content["action"], record.content["text"]) == ("note", "add", "tea")
    assert "error" in json.loads(agent(home).handle_tool_call("holdfast_remember", {"content": " "}))
    assert "error" in json.loads(agent(home).handle_tool_call("nonsense", {}))


def test_a_message_of_several_parts_is_kept_whole(home):
    agent(home).sync_turn([{"type": "text", "text": "look"}], None, session_id="A")
    ((_, kept),) = filed(home)
    assert json.loads(kept) == [{"type": "text", "text": "look"}]


def test_backup_paths_name_a_data_folder_outside_the_home(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(home))
    (home / "holdfast").mkdir()
    assert HoldfastMemory().backup_paths() == []
    (home / "holdfast" / client.LAUNCH).write_text(json.dumps({"data": str(tmp_path / "data")}))
    assert HoldfastMemory().backup_paths() == [str(tmp_path / "data")]


def test_it_is_available_if_a_turn_could_be_stored(home, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(home))
    assert HoldfastMemory().is_available()
    monkeypatch.setenv("HERMES_HOME", str(home / "missing" / "deep"))
    assert not HoldfastMemory().is_available()


def test_the_process_beside_hermes_is_started_once_a_minute_at_most(home, monkeypatch):
    started = []

    def launch(*given):
        started.append(given)
        return True

    monkeypatch.setattr(client, "_launch", launch)
    (home / "holdfast").mkdir()
    (home / "holdfast" / client.LAUNCH).write_text(json.dumps({"command": ["serve"]}))
    for _ in range(3):
        agent(home)
    assert len(started) == 1


def test_hermes_gets_a_provider_for_each_agent():
    class Context:
        def __init__(self):
            self.providers = []

        def register_memory_provider(self, provider):
            self.providers.append(provider)

    context = Context()
    register(context)
    register(context)
    assert [one.name for one in context.providers] == ["holdfast", "holdfast"]
    assert context.providers[0] is not context.providers[1]


def test_the_folder_works_without_the_rest_of_holdfast(tmp_path):
    """Hermes has no holdfast: the copied folder imports the standard library alone."""
    folder = Path(provider_module.__file__).parent
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("plug", {str(folder / "__init__.py")!r},
                                              submodule_search_locations=[{str(folder)!r}])
module = importlib.util.module_from_spec(spec)
sys.modules["plug"] = module
spec.loader.exec_module(module)
memory = module.HoldfastMemory()
memory.initialize("A", hermes_home={str(tmp_path)!r})
memory.sync_turn("one", "1", session_id="A")
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"holdfast", "msgspec", "apsw", "asyncio", "sqlite3"}}))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert filed(tmp_path) == [("A", "one")]
