"""`talks_to` says which agents may message each other. It is read, checked and shown; an operator whose agents messaged
each other without it is told what to write.
"""

import json

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.api.test_access import asked, holdfast
from tests.support.fakes import ScriptedModel, calls, says, soon
from tests.support.processes import Up

__all__ = ["holdfast"]  # a fixture

TWO = "[agents.main]\n{main}\n[agents.helper]\n{helper}\n"
FIX = 'list those whom it may message, as in [agents.main] talks_to = ["helper"]'


def written(folder, main="", helper=""):
    (folder / "holdfast.toml").write_text(TWO.format(main=main, helper=helper), encoding="utf-8")


def test_config_check_says_who_may_message_whom(tmp_path, holdfast):
    written(tmp_path, 'talks_to = ["helper"]')
    found = asked(holdfast("config", "check", "--json"))
    assert {one["agent"]: one["talks_to"] for one in found["agents"]} == {"main": ["helper"], "helper": []}
    assert found["notes"] == []
    assert "talks    main may message helper" in holdfast("config", "check").stdout


@pytest.mark.parametrize(
    ("main", "words"),
    [
        ('talks_to = ["hlper"]', "agents.main.talks_to names 'hlper', which is no agent; the other agents are: helper"),
        ('talks_to = ["main"]', "agents.main.talks_to names 'main', the agent itself; list other agents"),
        ('talks_to = ["helper", "helper"]', "agents.main.talks_to names 'helper' twice; write each agent once"),
        ('talks_to = "helper"', "agents.main.talks_to"),
        ('talks_to = ["helper"]\ntools = ["memory"]', 'add "send_message" to agents.main.tools, or take talks_to out'),
    ],
    ids=["unknown", "itself", "twice", "no list", "without the tool"],
)
def test_a_list_that_cannot_be_meant_is_refused_with_its_place(tmp_path, holdfast, main, words):
    written(tmp_path, main)
    done = holdfast("config", "check")
    assert done.exit_code == 1
    assert "error[config_invalid]" in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("listed", [{"main": AgentPolicy(talks_to=("nobody",))}, None])
async def test_a_program_is_refused_the_same(tmp_path, listed):
    policy = None if listed else AgentPolicy(talks_to=("../x",))
    with pytest.raises(ConfigInvalid, match=r"agents\.main\.talks_to names '.*', which is no agent"):
        await open_runtime(tmp_path, agents=make_agents(listed=listed, policy=policy))


def test_agents_that_messaged_each_other_before_are_named_with_what_to_write(tmp_path, holdfast):
    written(tmp_path)
    (note,) = asked(holdfast("config", "check", "--json"))["notes"]
    assert note.startswith("agents main, helper message no other agent: ")
    assert note.endswith(FIX)
    written(tmp_path, helper='talks_to = ["main"]')
    assert asked(holdfast("config", "check", "--json"))["notes"] == [], "this operator knows of talks_to"
    written(tmp_path, 'tools = ["send_message"]', 'talks_to = ["main"]')
    (note,) = asked(holdfast("config", "check", "--json"))["notes"]
    assert note.startswith("agent main messages no other agent: ")
    (tmp_path / "holdfast.toml").write_text("[agents.main]\n", encoding="utf-8")
    assert asked(holdfast("config", "check", "--json"))["notes"] == [], "there is no other agent"


async def test_up_says_so_too(tmp_path, capfd):
    written(tmp_path)
    up = await Up.start(tmp_path)
    await up.stop()
    said = capfd.readouterr().err
    assert "warning: agents main, helper message no other agent" in said
    assert FIX in said


async def test_without_a_configuration_no_agent_messages_another_unless_it_is_set(tmp_path):
    model = ScriptedModel(says("a"), calls('send_message {"to": "moss", "text": "hi"}'), says("told"), says("hello"))
    async with await open_runtime(tmp_path / "a", agents=make_agents(model=model)) as runtime:
        await soon(runtime.ask("c", "hi"))
        assert "send_message" not in {spec.name for spec in model.asked[-1].tools}
    policy = AgentPolicy(talks_to=("moss",), memory={})
    async with await open_runtime(tmp_path / "b", agents=make_agents(model=model, policy=policy)) as runtime:
        assert await soon(runtime.ask("c", "tell moss")) == "told"
        told = [json.dumps(one.content) for one in model.requests[-1] if one.role == "tool"]
        assert any("Sent to moss" in one for one in told)
