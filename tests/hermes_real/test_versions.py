"""The plugin in one release of Hermes: it has every hook of that release, and a turn of the manager reaches the spool.

`HOLDFAST_HERMES_PYTHON` names the interpreter of another release than that of `make test-hermes`.
"""

import json
import subprocess

import pytest

from holdfast.hermes.install import Installation, install_plugin
from holdfast.hermes.spool_reader import SpoolReader
from tests.support.hermes_service import make_home

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(600)]

# The calls of one turn, a rotation and one more turn. Releases before 0.17 know no `messages` and no queue.
CALLS = """
import inspect, json, os, sys
os.environ["HERMES_HOME"] = home = sys.argv[1]
from agent.memory_manager import MemoryManager
from agent.memory_provider import MemoryProvider
from plugins.memory import load_memory_provider
provider = load_memory_provider("holdfast")
manager = MemoryManager()
manager.add_provider(provider)
manager.initialize_all(session_id="A", platform="cli", hermes_home=home, agent_context="primary")
more = {"messages": []} if "messages" in inspect.signature(manager.sync_all).parameters else {}
manager.build_system_prompt()
manager.on_turn_start(1, "one")
manager.prefetch_all("one")
manager.sync_all("one", "1", session_id="A", **more)
manager.queue_prefetch_all("one", session_id="A")
manager.on_pre_compress([])
manager.on_session_end([])
manager.on_session_switch("B", parent_session_id="A")
manager.sync_all("two", "2", session_id="B", **more)
stored = json.loads(manager.handle_tool_call("holdfast_remember", {"content": "tea"}))
if hasattr(manager, "flush_pending"):
    assert manager.flush_pending(60)
hooks = [name for name in vars(MemoryProvider) if not name.startswith("_")]
inherited = [name for name in hooks if getattr(type(provider), name) is getattr(MemoryProvider, name)]
print(json.dumps({"is_provider": isinstance(provider, MemoryProvider), "stored": stored, "inherited": inherited}))
sys.stdout.flush()
os._exit(0)
"""


def test_a_turn_of_the_manager_reaches_the_spool(hermes_python, tmp_path):
    home = make_home(tmp_path / "home")
    done = install_plugin(home, Installation(python=hermes_python, starts=False), {}, home.path)
    command = [str(hermes_python), "-I", "-B", "-c", CALLS, str(home.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home.path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told == {"is_provider": True, "stored": {"stored": True}, "inherited": []}, done.version
    found = [one.content for one in SpoolReader(home.spool).waiting()]
    turns = [(one["session"], one["parent"], one["user"]) for one in found if one["kind"] == "turn"]
    assert turns == [("A", "", "one"), ("B", "A", "two")]
    assert [one["text"] for one in found if one["kind"] == "note"] == ["tea"]
