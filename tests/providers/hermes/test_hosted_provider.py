"""A memory provider of Hermes gains durable delivery unchanged: turns reach it in order, and none is passed on twice.

The hosted provider is a small plugin in a package that looks like Hermes, run by a real interpreter.
"""

import json
import sys

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, Provider, SessionId
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.memory.delivery import (
    Delivered,
    Landing,
    MemoryNote,
    NamingInputs,
    Op,
    Parcel,
    Refused,
    SaidTurn,
    SpokenLine,
    Uncertain,
    Unreachable,
)
from holdfast.memory.provider import ProviderSetup
from holdfast.memory.recall import RecallKey, RecallQuery
from holdfast.providers.hermes import make_hermes

PLUGIN = """
import json, logging, os
LOG = logging.getLogger("plugins.memory.diary")
class Diary:
    def is_available(self): return not os.path.exists(self.file("away"))
    def file(self, name): return os.path.join(os.environ["HERMES_HOME"], name)
    def initialize(self, session_id, **about): self.buffer, self.about = [], about
    def sync_turn(self, user, assistant, *, session_id=""):
        if user == "die": os._exit(9)
        if user == "raise": raise ValueError("no")
        if user == "warn": LOG.warning("the service refused it")
        self.buffer.append([session_id, user, assistant, self.about["user_id"]])
    def on_memory_write(self, action, target, content, metadata=None):
        self.buffer.append([action, target, content, metadata["old_text"]])
    def prefetch(self, query): return "found " + query
    def shutdown(self):
        with open(self.file("diary"), "a") as file:
            file.writelines(json.dumps(line) + "\\n" for line in self.buffer)
def load_memory_provider(name): return Diary() if name == "diary" else None
"""


@pytest.fixture
def hermes(tmp_path):
    """A home, and an interpreter that has a package like Hermes."""
    package = tmp_path / "hermes" / "plugins" / "memory"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PLUGIN)
    (tmp_path / "home").mkdir()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "hermes"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {"python": str(python), "provider": "diary", "home": str(tmp_path / "home")}


def configured(tmp_path, settings):
    setup = ProviderSetup(
        name=Provider("hermes"),
        agent=AgentName("main"),
        settings=settings,
        folder=tmp_path / "provider",
        environment={},
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
    )
    return make_hermes(setup)


@pytest.fixture
async def hosted(tmp_path, hermes):
    made = configured(tmp_path, hermes).provider
    yield made
    await made.close()


def parcel(text, n=1, *, session="S", op=Op.RETAIN, note=None):
    lines = (
        SpokenLine(role="user", speaker="telegram:42", text=text, at=Instant(0), seq=2 * n - 1),
        SpokenLine(role="assistant", speaker="main", text=f"re: {text}", at=Instant(0), seq=2 * n),
    )
    return Parcel(
        id=DeliveryId(f"hermes:{session}:{n}"),
        op=op,
        provider=Provider("hermes"),
        place=session,
        naming=NamingInputs(
            agent=AgentName("main"),
            session=SessionId(session),
            principal=Principal("telegram:42"),
            address="agent:main:telegram:dm:42",
        ),
        turns=(SaidTurn(n=n, lines=lines),) if note is None else (),
        note=note,
    )


def diary(tmp_path):
    file = tmp_path / "home" / "diary"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_turns_reach_the_provider_in_order_and_once(tmp_path, hosted):
    first, second = parcel("one"), parcel("two", 2)
    assert await hosted.landed(first) is Landing.ABSENT
    assert [type(one) for one in await hosted.deliver([first, second])] == [Delivered, Delivered]
    assert [type(one) for one in await hosted.deliver([first])] == [Delivered]
    assert diary(tmp_path) == [["S", "one", "re: one", "telegram:42"], ["S", "two", "re: two", "telegram:42"]]
    assert await hosted.landed(first) is Landing.LANDED


async def test_a_new_process_knows_what_was_taken(tmp_path, hermes, hosted):
    await hosted.deliver([parcel("one")])
    again = configured(tmp_path, hermes).provider
    try:
        await again.deliver([parcel("one")])
    finally:
        await again.close()
    assert len(diary(tmp_path)) == 1


@pytest.mark.parametrize("text", ["die", "raise", "warn"])
async def test_a_provider_that_fails_leaves_the_turn_uncertain_and_the_next_one_waiting(hosted, text):
    bad, good = parcel(text), parcel("fine", 2)
    one, other = await hosted.deliver([bad, good])
    assert isinstance(one, Uncertain)
    assert isinstance(other, Unreachable)
    assert await hosted.landed(bad) is Landing.POSSIBLE
    assert [type(each) for each in await hosted.deliver([parcel("other", session="T")])] == [Delivered]


async def test_a_provider_that_is_not_available_is_asked_again_later(tmp_path, hosted):
    away = tmp_path / "home" / "away"
    away.touch()
    assert isinstance((await hosted.deliver([parcel("one")]))[0], Unreachable)
    assert await hosted.landed(parcel("one")) is Landing.ABSENT
    away.unlink()
    assert isinstance((await hosted.deliver([parcel("one")]))[0], Delivered)
    assert len(diary(tmp_path)) == 1


async def test_a_provider_that_does_not_return_is_killed(tmp_path, hermes):
    hosted = configured(tmp_path, {**hermes, "timeout_s": 0.001}).provider
    assert isinstance((await hosted.deliver([parcel("one")]))[0], Uncertain)
    await hosted.close()


async def test_notes_are_mirrored_and_erasures_refused(tmp_path, hosted):
    note = MemoryNote(seq=1, target="user", op="replace", text="tea", old_text="coffee")
    assert isinstance((await hosted.deliver([parcel("", op=Op.REMEMBER, note=note)]))[0], Delivered)
    assert diary(tmp_path) == [["replace", "user", "tea", "coffee"]]
    assert isinstance((await hosted.deliver([parcel("x", 3, op=Op.ERASE)]))[0], Refused)


async def test_recall_is_off_unless_the_operator_turns_it_on(tmp_path, hermes, hosted):
    assert not hosted.capabilities.recalls
    asking = configured(tmp_path, {**hermes, "recall": True}).provider
    assert asking.capabilities.recalls
    key = RecallKey(session=SessionId("S"), epoch=0, head_seq=0, principal=Principal("telegram:42"))
    (found,) = await asking.recall(RecallQuery(key=key, naming=parcel("x").naming, text="cats"))
    assert found.text == "found cats"
    await asking.close()


@pytest.mark.parametrize(
    ("key", "value"), [("python", "nowhere/python"), ("home", "nowhere"), ("provider", "holdfast"), ("provider", "")]
)
def test_wrong_settings_name_the_key(tmp_path, hermes, key, value):
    with pytest.raises(ConfigInvalid, match=f"hermes.{key}"):
        configured(tmp_path, {**hermes, key: value})
