"""Conversation commands take their place among the messages around them, and each is answered exactly once.

Rules: D16, R23.
"""

import pytest

from holdfast.sessions.command_rights import Rank
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import find_mailbox
from tests.support.driver import confirmed
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    happened,
    kinds,
    policy,
    post,
    raises,
    said,
    says,
    settled,
    small,
    soon,
    stands_at,
    states,
    the_session,
)
from tests.support.ports import replace_verb, verb_on


async def replies_in(folder) -> list[tuple[str, int]]:
    """(message, replies) of every message that has one, read past the runtime."""
    import apsw

    db = apsw.Connection(str(folder / "holdfast.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute("select message, count(*) from reply group by message"))
    finally:
        db.close()


async def ask_all(runtime, *texts: str, chat: str = "c", sender: str = "user") -> list[str]:
    return [await soon(runtime.ask(chat, text, sender=sender)) for text in texts]


async def test_messages_around_a_switch_land_in_the_right_sessions(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("busy")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await runtime.send("c", "first")
        await gate.arrival()
        rest = [await runtime.send("c", text) for text in ("hello", "/new", "hi", "/reset", "hey")]
        gate.open()
        traces = await settled(runtime, first, *rest)
        assert [trace.state.value for trace in traces] == [
            *("answered", "answered", "command", "answered", "command", "answered"),
        ]
        old, middle, new = traces[0].session, traces[3].session, traces[5].session
        assert len({old, middle, new}) == 3
        assert await said(runtime, old) == ["first", "hello"]
        assert await said(runtime, middle) == ["hi"]
        assert await said(runtime, new) == ["hey"]
        assert [[m.content for m in request if m.role == "user"] for request in model.requests] == [
            *(["first"], ["first", "hello"], ["hi"], ["hey"]),
        ]
        assert await the_session(runtime) == new
        closed = {session.id: session.state.value for session in await runtime.sessions(chat="c")}
        assert closed == {old: "closed", middle: "closed", new: "open"}


async def test_words_that_somebody_else_has_answered_again_stay_their_speakers(tmp_path):
    """Forgetting ada finds the second answer too, and memory files it under her."""
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        await ask_all(runtime, "it is ada's", chat="room", sender="ada")
        await ask_all(runtime, "/retry", chat="room", sender="bob")
    import apsw

    db = apsw.Connection(str(tmp_path / "holdfast.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert list(db.execute("select distinct principal from turn")) == [("ada",)]
    db.close()


async def test_every_command_is_answered_exactly_once_also_after_a_kill(tmp_path, monkeypatch):
    model = ScriptedModel(stands_at(gate := Gate(), says("busy")))
    before = await Process.start(tmp_path, agents(model))
    texts = ["a", "/title Cats", "/branch", "/undo", "/help", "/compress", "/retry", "/new", "/resume Cats"]
    messages = [await before.runtime.send("c", text) for text in texts]
    await gate.arrival()
    real, done = verb_on(before.runtime.db, run_command), Gate()

    async def running(claim, run):
        await real(claim, run)
        await done.stand()  # committed, but the answer is lost

    replace_verb(monkeypatch, before.runtime.db, run_command, running)
    gate.open()
    await done.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        traces = await settled(runtime, *messages)
        assert all(trace.reply and trace.reply.text for trace in traces)
        counts = dict(await replies_in(tmp_path))
        assert counts == dict.fromkeys(messages, 1)


async def test_help_lists_every_command(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        (text,) = await ask_all(runtime, "/help")
        for word in (
            "new",
            "reset",
            "resume",
            "branch",
            "undo",
            "retry",
            "title",
            "compress",
            "delete",
            "stop",
            "status",
        ):
            assert f"/{word}" in text


@pytest.mark.parametrize("text", ["/unknown", "/", "/ new", "//new", "no /new", "/newer"])
async def test_what_is_no_command_is_said_to_the_model(text, tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        assert await states(runtime, await runtime.send("c", text)) == ["answered"]


@pytest.mark.parametrize("text", ["/undo", "/undo 3", "/retry", "/title x", "/branch x", "/compress", "/delete"])
async def test_a_command_before_anything_was_said_explains_itself(text, tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        (answer,) = await ask_all(runtime, text)
        assert "no session here yet" in answer or "no turn to retry" in answer
        assert await ask_all(runtime, "hello") == ["re: hello"]


@pytest.mark.parametrize("argument", ["0", "-1", "101", "x", "1.5", "٣", "1 2", "99999999999999999999"])
async def test_undo_of_nonsense_changes_nothing(argument, tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        _, answer, _ = await ask_all(runtime, "a", f"/undo {argument}", "b")
        assert "with n from 1 to 100" in answer
        assert "undo" not in await kinds(runtime, await the_session(runtime))


async def test_undo_hides_turns_from_the_model_and_keeps_them_in_the_journal(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        *_, answer, _ = await ask_all(runtime, "a", "b", "c", "/undo 2", "d")
        assert answer.startswith("Took back 2 turns.")
        assert "not reversed" in answer
        assert [m.content for m in model.requests[-1]] == ["a", "re: a", "d"]
        views = await runtime.history(await the_session(runtime))
        assert [view.entry.text for view in views if view.undone] == ["b", "re: b", "c", "re: c"]
        assert (await ask_all(runtime, "/undo 9"))[0].startswith("Took back 2 turns (only 2 of the 9")
        assert await ask_all(runtime, "/undo") == ["There is no turn to take back."]


async def test_retry_takes_the_last_turn_back_and_answers_it_again(tmp_path):
    model = ScriptedModel(says("first try"), says("second try"), says("third try"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await runtime.send("c", "question")
        again = await runtime.send("c", "/retry")
        once_more = await runtime.send("c", "/retry")
        traces = await settled(runtime, first, again, once_more)
        assert [trace.reply and trace.reply.text for trace in traces] == ["first try", "second try", "third try"]
        assert [trace.turn for trace in traces] == [1, 2, 3], "each message is in one turn of its own"
        assert [trace.state.value for trace in traces] == ["answered"] * 3
        assert model.requests[0] == model.requests[1] == model.requests[2]


async def test_retry_in_a_group_keeps_who_had_said_it(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await post(runtime, "c", "question", type="group", sender="tg:1", sender_name="Ada")
        again = await post(runtime, "c", "/retry", type="group", sender="tg:2", sender_name="Bob", rank=Rank.ADMIN)
        await settled(runtime, first, again)
        assert model.requests[0] == model.requests[1]


async def test_retry_of_a_failed_turn_can_succeed(tmp_path):
    boom = raises(ValueError())
    async with await Process.start(tmp_path, agents(ScriptedModel(boom, boom, boom))) as runtime:
        failed, answer = await ask_all(runtime, "question", "/retry")
        assert "could not answer" in failed
        assert answer == "re: question"


async def test_retry_after_everything_was_taken_back_has_nothing_to_try(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        assert (await ask_all(runtime, "a", "/undo", "/retry"))[-1] == "There is no turn to retry."


async def test_a_killed_retry_is_resumed_as_the_same_turn(tmp_path):
    before = await Process.start(tmp_path, agents(ScriptedModel(says("first"), stands_at(gate := Gate(), says("x")))))
    await soon(before.runtime.ask("c", "question"))
    again = await before.runtime.send("c", "/retry")
    await gate.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        (trace,) = await settled(runtime, again)
        assert trace.reply is not None
        assert (trace.turn, trace.attempt, trace.reply.text) == (2, 2, "re: question")
        assert (await kinds(runtime, trace.session)).count("undo") == 1


async def test_title_resume_and_branch_move_between_sessions(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await ask_all(runtime, "meow", "/title  Cats ")
        cats = await the_session(runtime)
        assert await ask_all(runtime, "/title") == ["The title is “Cats”."]
        await ask_all(runtime, "/new", "woof")
        dogs = await the_session(runtime)
        answer, _ = await ask_all(runtime, "/resume cats", "purr")
        assert answer.startswith(f"Resumed “Cats” ({cats}). It was closed")
        assert await the_session(runtime) == cats
        await ask_all(runtime, "/branch Kittens", "mew")
        kittens = await the_session(runtime)
        assert kittens not in {cats, dogs}
        assert [m.content for m in model.requests[-1] if m.role == "user"] == ["meow", "purr", "mew"]
        assert await said(runtime, cats) == ["meow", "purr"]
        await ask_all(runtime, f"/resume {dogs}", "bark")
        assert await said(runtime, dogs) == ["woof", "bark"]
        assert (await ask_all(runtime, "/resume nobody"))[0].startswith("No session 'nobody'")
        assert "No session" in (await ask_all(runtime, "/resume"))[0]
        assert await the_session(runtime) == dogs, "a refused command changes nothing"


async def test_a_session_that_is_live_and_busy_elsewhere_cannot_be_resumed(tmp_path):
    model = ScriptedModel(says("x"), stands_at(gate := Gate(), says("y")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await ask_all(runtime, "meow", chat="home")
        session = await the_session(runtime, "home")
        busy = await runtime.send("home", "think", sender="user")
        await gate.arrival()
        (refused,) = await ask_all(runtime, f"/resume {session}", chat="away")
        assert "in use in another chat" in refused
        gate.open()
        await soon(runtime.reply_to(busy))
        await happened_idle(runtime, "home")
        (resumed,) = await ask_all(runtime, f"/resume {session}", chat="away")
        assert resumed.startswith("Resumed")
        await ask_all(runtime, "back?", chat="home")
        assert await said(runtime, session) == ["meow", "think"]


async def happened_idle(runtime, chat: str) -> None:
    """Until the chat's mailbox is not claimed."""
    from holdfast.inbox.address import Address
    from holdfast.kernel.ids import AgentName

    address = str(Address(agent=AgentName("main"), channel="http", type="dm", chat=chat))

    async def look() -> None:
        while (view := await runtime.db.read(find_mailbox(address))) is None or view.owner is not None:
            pass

    await soon(look())


async def test_a_session_of_another_persons_chat_cannot_be_resumed(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        await ask_all(runtime, "secret", "/title Diary", chat="hers", sender="ada")
        session = await the_session(runtime, "hers")
        for wanted in (session, "Diary"):
            (answer,) = await ask_all(runtime, f"/resume {wanted}", chat="his", sender="bob")
            assert answer.startswith("No session")


async def test_delete_blanks_everything_and_the_next_message_starts_afresh(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await ask_all(runtime, "secret")
        session = await the_session(runtime)
        (asked,) = await ask_all(runtime, "/delete")
        assert await the_session(runtime) == session
        assert "is erased" in (await ask_all(runtime, confirmed(asked)))[0]
        await ask_all(runtime, "hello")
        assert await the_session(runtime) != session
        assert [m.content for m in model.requests[-1]] == ["hello"]
        listed = {one.id: one.state.value for one in await runtime.sessions(chat="c")}
        assert listed[session] == "deleted"


async def test_compress_keeps_the_session_and_tells_the_summariser_what_matters(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        await ask_all(runtime, "alpha", "beta", "gamma")
        session = await the_session(runtime)
        (answer,) = await ask_all(runtime, "/compress the cat's name")
        assert answer == f"Compressed entries 1 to 4 into {session}.snapshot.1. The session stays the same."
        (focus,) = [message for message in model.summaries_asked[0] if "the cat's name" in message.content]
        assert (focus.role, focus.data) == ("user", "focus")
        await ask_all(runtime, "delta")
        assert await the_session(runtime) == session
        assert [m.content for m in model.requests[-1] if m.role == "user" and not m.data] == ["gamma", "delta"]
        assert "gist: alpha beta" in model.requests[-1][0].content


async def test_compress_with_nothing_to_cover_says_so(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        answer = (await ask_all(runtime, "alpha", "/compress"))[-1]
        assert answer.startswith("Nothing was compressed (nothing)")
        assert model.summaries_asked == []


async def test_compress_while_one_runs_says_so_and_the_first_goes_on(tmp_path):
    model = ScriptedModel(summaries=[stands_at(gate := Gate(), says("short"))])
    async with await Process.start(tmp_path, agents(model, policy(thresholds=small(soft=0.05)))) as runtime:
        await ask_all(runtime, "alpha " * 20, "beta " * 20)
        await gate.arrival()
        feed = runtime.events()
        assert (await ask_all(runtime, "/compress"))[0].startswith("Nothing was compressed (busy)")
        gate.open()
        await happened(feed, "compress.done", outcome="done")
        assert await states(runtime, await runtime.send("c", "gamma")) == ["answered"]
