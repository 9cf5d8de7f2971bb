"""Every defect of Hermes' own memory plugins that was reproduced, beside the same calls with our plugin.

Each test drives the real Hermes 0.19.0. The first half of a test shows the defect, so that the comparison stays true;
the second half shows that it does not occur; only O5 has no first half. docs/howto/hermes.md lists them side by side.
"""

import asyncio

import pytest

from tests.hermes_real.hermes_process import own_hindsight, own_honcho, with_ours

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(600)]


async def test_h1_the_last_turns_are_lost_at_the_end(hermes_python, tmp_path):
    turns = [f"turn {n}." for n in range(7)]
    async with own_hindsight(hermes_python, tmp_path / "own", retain_every_n_turns=5) as (hermes, server):
        await hermes.do("init", session="A")
        await hermes.turns("A", *turns)
        await hermes.do("idle")  # on a busy machine its first request takes longer than it waits at the end
        await hermes.do("end")
        await hermes.do("shutdown")
        assert [server.count(text) for text in turns] == [1, 1, 1, 1, 1, 0, 0]
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A")
        await ours.process.turns("A", *turns)
        await ours.settle()
        assert [ours.at_hindsight(text) for text in turns] == [1] * 7
        assert [len(ours.at_honcho(text)) for text in turns] == [1] * 7


async def compaction(hermes):
    await hermes.do("init", session="A")
    await hermes.turns("A", "u0.", "u1.", "u2.")
    await hermes.do("end")
    await hermes.do("switch", session="A", parent_session_id="A")


async def test_h2_a_compaction_sends_everything_again(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own") as (hermes, server):
        await compaction(hermes)
        await hermes.do("idle")
        assert [server.count(text) for text in ("u0.", "u1.", "u2.")] == [2, 2, 2]
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await compaction(ours.process)
        await ours.settle()
        assert [ours.at_hindsight(text) for text in ("u0.", "u1.", "u2.")] == [1, 1, 1]


async def overtaken(hermes):
    await hermes.do("init", session="A")
    await hermes.do("switch", session="B", parent_session_id="A")
    await hermes.do("sync", session="A", user="said in A.")
    await hermes.do("sync", session="B", user="said in B.")


async def test_h3_a_queued_turn_is_filed_in_the_next_session(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own", retain_every_n_turns=2) as (hermes, server):
        await overtaken(hermes)
        await hermes.do("idle")
        assert {document for _, document in server.places("said in A.")} == {"B"}
    async with with_ours(hermes_python, tmp_path / "ours", honcho={"sessionStrategy": "per-session"}) as ours:
        await overtaken(ours.process)
        await ours.settle()
        assert ours.at_honcho("said in A.") != ours.at_honcho("said in B.")
        assert ours.at_hindsight("said in A.") == 1


async def test_h4_a_turn_is_lost_if_the_service_fails_once(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own") as (hermes, server):
        server.retain_fails = 1
        await hermes.do("init", session="A")
        await hermes.turns("A", "u0.", "u1.")
        await hermes.do("idle")
        assert [server.count("u0."), server.count("u1.")] == [0, 1]
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        ours.servers.hindsight.database_down = True
        ours.servers.honcho.fail_next("status", times=1, status=500)
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "u0.")
        ours.servers.hindsight.database_down = False
        await ours.process.turns("A", "u1.")
        await ours.settle()
        assert [ours.at_hindsight("u0."), ours.at_hindsight("u1.")] == [1, 1]
        assert [len(ours.at_honcho("u0.")), len(ours.at_honcho("u1."))] == [1, 1]


async def test_h5_a_turn_is_stored_twice_if_the_version_was_not_known(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own") as (hermes, server):
        server.version_fails = 1
        await hermes.do("init", session="A")
        await hermes.turns("A", "u0.")
        await hermes.do("ask_version_again")  # as the embedded mode does, whose address is known after the first turn
        await hermes.turns("A", "u1.")
        await hermes.do("idle")
        assert (server.count("u0."), len(server.places("u0."))) == (2, 2)
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "u0.", "u1.")
        await ours.settle()
        assert ours.at_hindsight("u0.") == 1


async def test_h6_the_bank_of_a_session_is_used_for_the_next(hermes_python, tmp_path):
    template = {"bank_id_template": "hermes-{session}"}
    async with own_hindsight(hermes_python, tmp_path / "own", **template) as (hermes, server):
        await hermes.do("init", session="A")
        await hermes.do("switch", session="B")
        await hermes.turns("B", "said in B.")
        await hermes.do("idle")
        assert {bank for bank, _ in server.places("said in B.")} == {"hermes-A"}
    async with with_ours(hermes_python, tmp_path / "ours", hindsight=template) as ours:
        await ours.process.do("init", session="A")
        await ours.process.do("switch", session="B")
        await ours.process.turns("B", "said in B.")
        await ours.settle()
        assert any("said in B." in text for text in ours.servers.hindsight.texts("hermes-B"))
        assert ours.at_hindsight("said in B.") == 1


async def test_h7_an_undo_sends_turns(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own", retain_every_n_turns=5) as (hermes, server):
        await hermes.do("init", session="A")
        await hermes.turns("A", "undone.")
        assert server.count("undone.") == 0
        await hermes.do("switch", session="A", rewound=True)
        await hermes.do("idle")
        assert server.count("undone.") == 1
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A")
        for text in ("kept.", "undone, 1.", "undone, 2."):
            await ours.process.do("say", session="A", user=text)
        await ours.settle()
        assert await ours.process.do("undo", session="A", count=2) == 2, "one turn is left"
        await ours.settle()
        assert [ours.at_hindsight(text) for text in ("kept.", "undone, 1.", "undone, 2.")] == [1, 0, 0]
        assert [len(ours.at_honcho(text)) for text in ("kept.", "undone, 1.")] == [1, 1], "Honcho deletes no message"


async def test_an_undo_in_a_chat_is_noticed_at_the_next_turn(hermes_python, tmp_path):
    """The gateway of Hermes tells a provider of no undo."""
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A", platform="telegram", chat_id="7", user_id="7")
        for text in ("kept.", "undone."):
            await ours.process.do("say", session="A", user=text)
        await ours.settle()
        assert await ours.process.do("undo_in_gateway", session="A") == 1
        await ours.process.do("say", session="A", user="said again.")
        await ours.settle()
        assert [ours.at_hindsight(text) for text in ("kept.", "undone.", "said again.")] == [1, 0, 1]


async def test_h8_recall_of_the_old_session_is_shown_in_the_new_one(hermes_python, tmp_path):
    async with own_hindsight(hermes_python, tmp_path / "own") as (hermes, server):
        server.recalls_wait, server.recalled = True, "a memory of the old session"
        await hermes.do("init", session="A")
        await hermes.do("queue_prefetch", query="old")
        await server.recall_began.wait()
        await hermes.do("switch", session="B", reset=True)  # blocks for three seconds
        server.released.set()
        await hermes.do("idle")
        assert "old session" in await hermes.do("prefetch", query="new")
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "my cat is called Byron")
        await ours.settle()
        await ours.process.do("queue_prefetch", query="old")
        await ours.process.do("switch", session="B", reset=True)
        assert ours.servers.hindsight.sent("/recall") == 0, "nothing is asked ahead"
        await ours.process.do("prefetch", query="what is my cat called?")
        assert ours.servers.hindsight.sent("/recall") == 1, "the turn that begins asks by itself"


async def test_o1_a_turn_is_lost_while_the_session_is_prepared(hermes_python, tmp_path):
    async with own_honcho(hermes_python, tmp_path / "own") as (hermes, server):
        server.fail_next("stall", times=1)
        await hermes.do("init", session="A")
        await hermes.turns("A", "early.")
        server.release()
        await hermes.do("init_done")
        await hermes.turns("A", "later.")
        await hermes.do("idle")
        said = [row["content"] for row in server.messages(workspace="hermes")]
        assert ("early." in said, "later." in said) == (False, True)
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        ours.servers.honcho.fail_next("stall", times=1)
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "early.", "later.")
        ours.servers.honcho.release()
        await ours.settle()
        assert [len(ours.at_honcho(text)) for text in ("early.", "later.")] == [1, 1]


async def test_o2_a_switch_is_not_noticed(hermes_python, tmp_path):
    async def two_sessions(hermes):
        await hermes.do("init", session="A")
        await hermes.do("init_done")
        await hermes.turns("A", "said in A.")
        await hermes.do("switch", session="B", reset=True)
        await hermes.turns("B", "said in B.")

    async with own_honcho(hermes_python, tmp_path / "own", sessionStrategy="per-session") as (hermes, server):
        await two_sessions(hermes)
        await hermes.do("idle")
        found = {row["content"]: row["session_id"] for row in server.messages(workspace="hermes")}
        assert found["said in A."] == found["said in B."]
    async with with_ours(hermes_python, tmp_path / "ours", honcho={"sessionStrategy": "per-session"}) as ours:
        await two_sessions(ours.process)
        await ours.settle()
        (one,), (other,) = ours.at_honcho("said in A."), ours.at_honcho("said in B.")
        assert one != other


async def test_o3_the_end_of_a_session_races_the_sending_of_a_turn(hermes_python, tmp_path):
    async with own_honcho(hermes_python, tmp_path / "own") as (hermes, server):
        await hermes.do("init", session="A")
        await hermes.do("init_done")
        server.fail_next("stall", times=1, path="/messages$", method="POST")
        await hermes.turns("A", "twice.")
        await hermes.do("in_thread", what="end")
        server.release()
        await hermes.do("join")
        await hermes.do("idle")
        said = [row["content"] for row in server.messages(workspace="hermes")]
        assert said.count("twice.") >= 2
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "once.")
        await asyncio.gather(ours.process.do("end"), ours.settle())
        assert len(ours.at_honcho("once.")) == 1


async def test_o4_a_lost_answer_doubles_a_turn(hermes_python, tmp_path):
    async with own_honcho(hermes_python, tmp_path / "own") as (hermes, server):
        await hermes.do("init", session="A")
        await hermes.do("init_done")
        server.fail_next("drop_after", times=1, path="/messages$", method="POST")
        await hermes.turns("A", "twice.")
        await hermes.do("idle")
        await hermes.do("end")
        assert [row["content"] for row in server.messages(workspace="hermes")].count("twice.") == 2
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        ours.servers.honcho.fail_next("drop_after", times=1, path="/messages$", method="POST")
        await ours.process.do("init", session="A")
        await ours.process.turns("A", "once.")
        await ours.settle()
        assert len(ours.at_honcho("once.")) == 1


async def test_o5_memory_files_are_not_uploaded(hermes_python, tmp_path):
    """Our half alone: the fake Honcho takes no uploads, so the defect is not shown here."""

    def files(home):
        (home / "memories").mkdir(parents=True)
        (home / "memories" / "USER.md").write_text("Likes tea.")

    files(tmp_path / "ours")
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        for _ in range(2):
            await ours.process.do("init", session="A")
            await ours.process.do("again")
        await ours.settle()
        assert ours.servers.honcho.count("POST", "/messages/upload") == 0
        assert [text for _, text in ours.servers.at_honcho() if "Likes tea." in text] == []


async def test_o6_two_projects_of_one_name_share_a_session(hermes_python, tmp_path):
    folders = [tmp_path / name / "app" for name in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)

    async def two_projects(hermes):
        for folder in folders:
            await hermes.do("cd", folder=str(folder))
            await hermes.do("init", session=f"S{folder.parent.name}")
            await hermes.do("init_done")
            await hermes.turns(f"S{folder.parent.name}", f"in {folder.parent.name}.")
            await hermes.do("idle")
            await hermes.do("again")

    async with own_honcho(hermes_python, tmp_path / "own") as (hermes, server):
        await two_projects(hermes)
        found = {row["content"]: row["session_id"] for row in server.messages(workspace="hermes")}
        assert found["in a."] == found["in b."]
    async with with_ours(hermes_python, tmp_path / "ours") as ours:
        await two_projects(ours.process)
        await ours.settle()
        assert ours.at_honcho("in a.") != ours.at_honcho("in b.")
