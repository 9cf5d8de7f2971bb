"""`memory.sharing = "agent"`: all that an agent remembers is shown in its private conversations, and in no group.
The default shows each person their own."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.config import load_config
from holdfast.inbox.address import Address
from holdfast.inbox.message import Accepted, Arrival
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName, Principal
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AccessPolicy, Door
from tests.support.fakes import soon
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer
from tests.support.memory_runtimes import settled

MAIN = AgentName("main")
OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)
NOTE = 'use memory {"action": "add", "content": "The word is quince."}'


class Heard(PracticeModel):
    def __init__(self):
        self.shown = ""

    async def ask(self, request):
        self.shown = "\n".join(one.content for one in request.messages)
        async for event in super().ask(request):
            yield event


def configured(tmp_path, lines):
    file = tmp_path / "holdfast.toml"
    file.write_text(f'[agents.main]\nmodel = "practice"\n{lines}')
    return (load_config(file).agents or {})["main"]


async def say(runtime, who, text, *, type="dm"):
    address = Address(agent=MAIN, channel="telegram", type=type, chat=who.partition(":")[2])
    arrival = Arrival(
        address=address, event_id=runtime.ports.new_id("e"), principal=Principal(who), text=text, account="bot"
    )
    outcome = await runtime.gateway.accept(arrival)
    assert isinstance(outcome, Accepted), outcome
    return await soon(runtime.reply_to(outcome.message))


async def told_to(tmp_path, policy, who, **where):
    """What a reader is shown after somebody else noted one thing and said another, and what recall finds for them."""
    model = Heard()
    async with (
        FakeHindsight() as hindsight,
        HonchoServer() as honcho,
    ):
        providers = {"local": {}, "files": {}, "hindsight": {"url": hindsight.url}, "honcho": {"url": honcho.url}}
        policy = replace(
            policy, access=OPEN, memory=providers, recall=replace(policy.recall, budget_ms=30_000, limit=50)
        )
        async with await open_runtime(tmp_path / "data", agents=make_agents(model=model, policy=policy)) as runtime:
            await say(runtime, "telegram:1", NOTE)
            await say(runtime, "telegram:1", "my boat is called Marzipan")
            await settled(runtime)
            await say(runtime, who, "what is the word and the boat called?", **where)
            return model.shown


@pytest.mark.parametrize(
    ("lines", "type", "seen"),
    [
        ("", "dm", False),
        ('[agents.main.memory]\nsharing = "person"\n', "dm", False),
        ('[agents.main.memory]\nsharing = "agent"\n', "dm", True),
        ('[agents.main.memory]\nsharing = "agent"\n', "group", False),
    ],
)
async def test_who_is_shown_what_somebody_else_noted_and_said(tmp_path, lines, type, seen):
    shown = await told_to(tmp_path, configured(tmp_path, lines), "telegram:2", type=type)
    notes, _, recalled = shown.partition("<recalled-memory>")
    assert [word in notes for word in ("quince",)] == [seen]
    assert ("Marzipan" in recalled) is seen
    for provider in ("local", "hindsight"):  # Honcho is asked for the chat's own session
        assert (f"; {provider}; " in recalled or f" {provider}]" in recalled) is seen, provider


def test_sharing_alone_leaves_the_embedded_providers(tmp_path):
    assert configured(tmp_path, '[agents.main.memory]\nsharing = "agent"\n').memory is None
    assert configured(tmp_path, "").recall.shares_all is False
    both = configured(tmp_path, '[agents.main.memory]\nsharing = "agent"\n[agents.main.memory.local]\n')
    assert (both.memory, both.recall.shares_all) == ({"local": {}}, True)


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('[agents.main.memory]\nsharing = "everybody"\n', "agents.main.memory.sharing"),
        ("[agents.main.memory.sharing]\nx = 1\n", "agents.main.memory.sharing"),
        ('[agents.main.memory]\nlocal = "yes"\n', "agents.main.memory.local"),
    ],
)
def test_a_wrong_value_is_named(tmp_path, lines, key):
    with pytest.raises(ConfigInvalid) as raised:
        configured(tmp_path, lines)
    assert raised.value.context["key"] == key


@pytest.mark.parametrize(("people", "sharing"), [("one", "agent"), ("several", "person"), (None, "person")])
def test_init_writes_who_will_talk_and_config_check_says_what_it_means(tmp_path, monkeypatch, people, sharing):
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")  # nobody

    def asked(*arguments):
        return json.loads(CliRunner().invoke(app, [*arguments, "--data", str(tmp_path), "--json"]).stdout)

    told = asked("init", *(["--people", people] if people else []))
    assert told["sharing"] == sharing
    assert f'\nsharing = "{sharing}"\n' in (tmp_path / "holdfast.toml").read_text()
    notes = asked("config", "check")["notes"]
    assert any('memory.sharing = "agent"' in note and "single owner" in note for note in notes) is (sharing == "agent")
