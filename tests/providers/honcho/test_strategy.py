"""`honcho.strategy` from end to end, with the real SDK: a directory or a repository names the session (R17, D18)."""

import asyncio
import os
import subprocess
import sys

import pytest

from holdfast.inbox.gateway import locate
from holdfast.inbox.message import accepted_message
from holdfast.kernel.ids import AgentName, Provider
from holdfast.memory.delivery import NOWHERE
from holdfast.memory.lane import LaneKey
from holdfast.memory.recall import RecallPolicy
from holdfast.memory.replay_sql import list_delivered_parcels
from holdfast.providers.honcho.naming import HonchoNames, Strategy
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy, Arrivals, TurnPolicy
from tests.support.fakes import SOON_S, Gate, ScriptedModel, says, soon, stands_at
from tests.support.honcho_kit import naming
from tests.support.honcho_server import HonchoServer
from tests.support.memory_runtimes import settled

CHAT = "chat-main-http-dm-home--"


@pytest.fixture
def server():
    with HonchoServer() as running:
        yield running


def folders(tmp_path):
    """Two directories named `app`, one of them in a repository with a second directory beside it."""
    repo = tmp_path / "one"
    for path in (repo / ".git", repo / "app", repo / "docs", tmp_path / "two" / "app"):
        path.mkdir(parents=True)
    return repo / "app", repo / "docs", tmp_path / "two" / "app"


async def opened(server, folder, strategy, model=None, *, arrivals=Arrivals.QUEUE, recall=False, **more):
    policy = AgentPolicy(
        memory={"honcho": {"url": server.url, "strategy": strategy, **more}},
        recall=RecallPolicy(enabled=recall),
        turn=TurnPolicy(arrivals=arrivals),
    )
    return await open_runtime(folder, agents=make_agents(model=model or ScriptedModel(), policy=policy))


def words(server, session):
    return [message["content"] for message in server.messages(session)]


def name(kind, path):
    return HonchoNames()._name(kind, "main", str(path))


async def test_two_directories_of_one_name_are_two_sessions_of_one_chat(server, tmp_path):
    first, _, second = folders(tmp_path)
    async with await opened(server, tmp_path / "data", "per-directory") as runtime:
        await soon(runtime.ask("home", "in one", directory=first))
        await soon(runtime.ask("home", "in two", directory=str(second)))
        await soon(runtime.ask("home", "in one again", directory=first / ".." / "app"))
        await soon(runtime.ask("home", "from nowhere"))
        await settled(runtime)
        assert len(await runtime.sessions(chat="home")) == 1, "it is one conversation"
        parcels = await runtime.db.read(list_delivered_parcels(LaneKey(AgentName("main"), Provider("honcho"))))
        found = [(parcel.naming.directory, parcel.naming.repo) for _, parcel in parcels]
        one = (str(first), str(tmp_path / "one"))
        assert found == [one, (str(second), ""), one, ("", "")], "the provider is told what the turn was named after"
    assert sorted(server.sessions()) == sorted([CHAT, name("directory", first), name("directory", second)])
    assert [text for text in words(server, name("directory", first)) if text.startswith("in")] == [
        "in one",
        "in one again",
    ]
    assert "from nowhere" in words(server, CHAT), "without a directory the chat's key is in force"


async def test_a_repository_is_one_session_and_what_is_in_none_has_its_directory_s(server, tmp_path):
    app, docs, other = folders(tmp_path)
    async with await opened(server, tmp_path / "data", "per-repo") as runtime:
        for directory in (app, docs, other):
            await soon(runtime.ask("home", f"in {directory.name}", directory=directory))
        await settled(runtime)
    assert sorted(server.sessions()) == sorted([name("repo", tmp_path / "one"), name("directory", other)])


@pytest.mark.parametrize(("strategy", "expected"), [("global", "global-main"), ("per-session", CHAT)])
async def test_the_other_strategies_do_not_look_at_the_directory(server, tmp_path, strategy, expected):
    app, _, other = folders(tmp_path)
    async with await opened(server, tmp_path / "data", strategy) as runtime:
        await soon(runtime.ask("home", "one", directory=app))
        await soon(runtime.ask("home", "two", directory=other))
        await settled(runtime)
    assert server.sessions() == [expected]


async def test_a_mapped_title_goes_before_the_directory(server, tmp_path):
    app, *_ = folders(tmp_path)
    async with await opened(server, tmp_path / "data", "per-directory", titles={"Trip": "trip"}) as runtime:
        await soon(runtime.ask("home", "/title Trip"))
        await soon(runtime.ask("home", "hello", directory=app))
        await soon(runtime.ask("home", "/title Trip"))
        await soon(runtime.ask("home", "packed", directory=app))
        await settled(runtime)
    assert "packed" in words(server, "title-main-trip")


async def test_the_directory_is_durable_with_the_message_and_with_the_turn(server, tmp_path):
    """One process takes it in, another answers it, and the provider that gets it is configured later still."""
    app, *_ = folders(tmp_path)
    data = tmp_path / "data"
    async with await open_runtime(data, agents=make_agents(), serve=False) as visitor:
        outcome = await visitor.accept("home", "remember this", directory=app)
    plain = AgentPolicy(memory={}, recall=RecallPolicy(enabled=False))
    async with await open_runtime(data, agents=make_agents(model=ScriptedModel(), policy=plain)) as runtime:
        await soon(runtime.reply_to(accepted_message(outcome)))
    async with await opened(server, data, "per-directory") as runtime:
        assert await runtime.backfill("honcho") == 1
        await settled(runtime)
    assert server.sessions() == [name("directory", app)]


@pytest.mark.parametrize("arrivals", [Arrivals.COLLECT, Arrivals.STEER])
async def test_messages_of_two_directories_never_share_a_turn(server, tmp_path, arrivals):
    app, _, other = folders(tmp_path)
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await opened(server, tmp_path / "data", "per-directory", model, arrivals=arrivals) as runtime:
        sent = [await runtime.send("home", "start", directory=app)]
        await gate.arrival()
        sent += [await runtime.send("home", text, directory=where) for text, where in (("a", other), ("b", app))]
        gate.open()
        for message in sent:
            await soon(runtime.reply_to(message))
        await settled(runtime)
    assert "a" in words(server, name("directory", other))
    assert [text for text in words(server, name("directory", app)) if text in {"start", "a", "b"}] == ["start", "b"]


async def test_units_of_several_turns_never_span_two_directories(server, tmp_path):
    app, _, other = folders(tmp_path)
    async with await opened(server, tmp_path / "data", "per-directory", every_turns=4) as runtime:
        for text, where in (("a", app), ("b", app), ("c", other), ("d", app)):
            await soon(runtime.ask("home", text, directory=where))
        await settled(runtime)
    assert [text for text in words(server, name("directory", app)) if len(text) == 1] == ["a", "b", "d"]
    assert "c" in words(server, name("directory", other))


async def test_recall_looks_where_the_directory_s_words_are(server, tmp_path):
    app, _, other = folders(tmp_path)
    model = ScriptedModel()
    async with await opened(server, tmp_path / "data", "per-directory", model, recall=True) as runtime:
        await soon(runtime.ask("home", "The deploy key is in the blue safe.", directory=app))
        await settled(runtime)
        here = await runtime.recall("deploy key", chat="home", directory=app)
        there = await runtime.recall("deploy key", chat="home", directory=other)
        await soon(runtime.ask("home", "/new"))
        for directory in (other, app):
            await soon(runtime.ask("home", "where is the deploy key?", directory=directory))
    assert any("blue safe" in memory.text for memory in here.memories)
    assert not any("blue safe" in memory.text for memory in there.memories)
    told = ["blue safe" in str([message.content for message in request]) for request in model.requests]
    assert told == [True, False, True], "the first is the sentence itself"


def chatted(data, directory, text):
    """`holdfast chat` started in the directory, with one line piped in."""
    environment = {**os.environ, "HOLDFAST_DATA": str(data), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "chat", "--json"],
        input=text,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_the_command_line_s_chat_is_named_after_the_directory_it_is_started_in(server, tmp_path):
    first, _, second = folders(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    table = f'[agents.main]\nmodel = "practice"\n[agents.main.memory.honcho]\nurl = "{server.url}"\n'
    (data / "holdfast.toml").write_text(table + 'strategy = "per-directory"\n')
    await asyncio.to_thread(chatted, data, first, "in one\n")
    await asyncio.to_thread(chatted, data, second, "in two\n")
    async with await opened(server, data, "per-directory") as runtime:
        await settled(runtime, 3 * SOON_S)  # a write that the end of its process cut off waits for the quiet period
    assert sorted(server.sessions()) == sorted([name("directory", first), name("directory", second)])
    assert words(server, name("directory", first))[0] == "in one"


# --- where a caller is ------------------------------------------------------------------------------


def test_a_directory_is_one_whatever_path_leads_to_it(tmp_path, monkeypatch):
    app, docs, _ = folders(tmp_path)
    (tmp_path / "link").symlink_to(app)
    monkeypatch.chdir(docs)
    found = locate(app)
    assert (found.directory, found.repo) == (str(app), str(tmp_path / "one"))
    assert locate(tmp_path / "link") == locate("../app") == locate(f"{app}/") == found
    assert locate(None) == locate("") == NOWHERE


def test_a_worktree_s_file_marks_a_repository_too(tmp_path):
    (tmp_path / "tree" / "src").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere\n")
    assert locate(tmp_path / "tree" / "src").repo == str(tmp_path / "tree")


def test_names_that_are_no_text_stay_apart_and_can_be_kept(tmp_path):
    raw = os.fsencode(tmp_path)
    paths = [os.fsdecode(raw + b"/\xff"), os.fsdecode(raw + b"/\xfe"), str(tmp_path / "\\xff"), str(tmp_path / "_ff")]
    names = {HonchoNames(strategy=Strategy.PER_DIRECTORY).place(_inputs(locate(path))) for path in paths}
    assert len(names) == 4
    assert all(found.isascii() for found in names)


def _inputs(where):
    return naming(directory=where.directory, repo=where.repo)


@pytest.mark.parametrize("wrong", ["a\0b", "x" * 5_000, "~nobody-has-this-home/app"])
def test_what_no_path_can_be_is_refused_in_a_sentence(wrong):
    from holdfast.kernel.errors import InvalidInput

    with pytest.raises(InvalidInput, match="directory"):
        locate(wrong)
