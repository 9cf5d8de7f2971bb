"""Compression keeps the session, loses no message, and delays a message no longer than the summariser takes (R21-R26).

Rules: R21, R26.
"""

import asyncio
from itertools import pairwise

import pytest

from holdfast.kernel.errors import OperationBusy, StoreFull, StoreUnavailable
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import find_mailbox, list_operations, list_summaries
from holdfast.sessions.summary_sql import commit_summary, end_operation, find_open_operation
from holdfast.testing import ManualClock
from holdfast.turns.context import ModelMessage
from holdfast.turns.model import ModelAnswer, TextDelta
from holdfast.turns.policy import AgentPolicy
from tests.support.driver import confirmed
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    calls,
    emits,
    happened,
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

LONG = "x" * 360  # about 94 tokens of the 400


def brief(**script) -> ScriptedModel:
    """A model whose answers weigh almost nothing."""
    return ScriptedModel(otherwise=says("ok"), **script)


def compressing(**changes) -> AgentPolicy:
    return policy(thresholds=small(**changes))


def shown(messages: tuple[ModelMessage, ...]) -> list[str]:
    return [message.content.split()[0] for message in messages if message.role == "user" and not message.data]


def assert_whole(messages: tuple[ModelMessage, ...]) -> None:
    """Each result follows its call, and each call has its result."""
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.call in open_calls, "a result without its call"
            open_calls.remove(message.call)
            continue
        assert open_calls == [], "a call without its result"
        open_calls = [call.id for call in message.calls]
    assert open_calls == []


# --- soft: prepared while turns go on --------------------------------------------------------------


async def test_a_summary_is_prepared_while_turns_go_on(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: one"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        await soon(runtime.ask("c", f"two {LONG}"))
        await gate.arrival()  # the summariser works ...
        feed = runtime.events()
        assert await soon(runtime.ask("c", "three")) == "ok"  # ... and a whole turn passes it
        assert not gate.opened.is_set()
        gate.open()
        await happened(feed, "compress.done", outcome="done")
        await soon(runtime.ask("c", "four"))
        assert shown(model.requests[-1]) == ["two", "three", "four"]
        assert "gist: one" in model.requests[-1][0].content


async def test_a_summary_is_committed_while_the_model_thinks_about_a_turn(tmp_path):
    model = brief(summaries=[stands_at(summarising := Gate(), says("gist: one"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        await soon(runtime.ask("c", f"two {LONG}"))
        await summarising.arrival()
        model.moves.append(stands_at(thinking := Gate(), says("thought")))
        message = await runtime.send("c", "three")
        await thinking.arrival()
        feed = runtime.events()
        summarising.open()
        await happened(feed, "compress.done", outcome="done")
        assert not thinking.opened.is_set()
        thinking.open()
        assert await soon(runtime.reply_to(message)) == "thought"
        session = await the_session(runtime)
        assert await said(runtime, session) == [f"one {LONG}", f"two {LONG}", "three"]
        assert (await runtime.context(session)).summary is not None


@pytest.mark.parametrize("ben", ["http:ben", "http:ada"], ids=["two", "one"])
async def test_a_summary_is_told_who_said_what_in_a_group_and_wherever_two_people_spoke(tmp_path, ben):
    model = brief(summary=says("gist"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        for kind in ("group", "dm"):
            for n, sender in enumerate(("http:ada", ben, "http:ada")):
                await settled(runtime, await post(runtime, kind, f"word {n} of {sender}", type=kind, sender=sender))
            mailbox = await runtime.db.read(find_mailbox(f"agent:main:http:{kind}:{kind}"))
            assert mailbox is not None
            assert mailbox.session is not None
            prompt = await runtime.prompt(mailbox.session)
            await settled(runtime, await post(runtime, kind, "/compress", type=kind, sender="http:ada"))
            shown = [
                [one.content for one in asked if one.role == "user" and not one.data]
                for asked in (prompt.messages, model.summaries_asked[-1])
            ]
            said_by = f"{ben}: " if kind == "group" or ben == "http:ben" else ""
            assert all(f"{said_by}word 1 of {ben}" in texts for texts in shown), kind


async def test_one_slow_summariser_delays_no_other_session(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: slow"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        for text in ("one", "two"):
            await soon(runtime.ask("slow", f"{text} {LONG}"))
        await gate.arrival()
        feed = runtime.events()
        for text in ("one", "two"):
            await soon(runtime.ask("quick", f"{text} {LONG}"))
        done = await happened(feed, "compress.done", outcome="done")
        assert done.session == await the_session(runtime, "quick")
        assert not gate.opened.is_set()


# --- hard: the turn waits, the mailbox accepts -----------------------------------------------------


async def test_at_the_hard_threshold_the_turn_waits_and_what_arrives_meanwhile_follows_in_order(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: one two"))])
    async with await Process.start(tmp_path, agents(model, compressing(soft=0.79))) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        session = await the_session(runtime)
        trigger = f"trigger {LONG}{LONG}" + "x" * 200
        messages = [await runtime.send("c", trigger)]
        await gate.arrival()
        assert len(model.requests) == 1, "the turn waits for the summary"
        messages += [await runtime.send("c", text) for text in ("two", "three", "four")]
        assert {(await runtime.trace(message)).state.value for message in messages} == {"in_turn", "waiting"}
        gate.open()
        traces = await settled(runtime, *messages)
        assert {trace.session for trace in traces} == {session}
        first = model.requests[1]
        assert "gist: one two" in first[0].content
        assert first[-1] == ModelMessage(role="user", content=trigger), "the triggering message, whole"
        assert shown(model.requests[-1]) == ["trigger", "two", "three", "four"], "the arrivals, in order"
        assert [trace.state.value for trace in traces] == ["answered"] * 4


async def test_a_turn_at_the_hard_threshold_waits_for_the_summary_that_is_already_being_made(tmp_path, monkeypatch):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: one"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        await soon(runtime.ask("c", f"two {LONG}"))
        await gate.arrival()
        real, looked = verb_on(runtime.db, find_open_operation, reads=True), asyncio.Event()

        async def open_operation(session, kind):
            looked.set()  # the turn asks whether the other compression still runs
            return await real(session, kind)

        replace_verb(monkeypatch, runtime.db, find_open_operation, open_operation)
        message = await runtime.send("c", f"three {LONG}{LONG}")
        await soon(looked.wait())
        assert len(model.requests) == 2, "the third turn waits"
        gate.open()
        assert await states(runtime, message) == ["answered"]
        assert len(model.summaries_asked) == 1
        assert "gist: one" in model.requests[-1][0].content


async def test_a_turn_that_waited_for_another_summary_makes_its_own_if_that_one_covered_too_little(
    tmp_path, monkeypatch
):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: one")), says("gist: one and two")])
    async with await Process.start(tmp_path, agents(model, compressing(soft=0.79, keep=0.6))) as runtime:
        await soon(runtime.ask("c", "one"))
        await soon(runtime.ask("c", f"two {LONG}"))
        session = await the_session(runtime)
        await runtime.begin_compression(session)  # covers the first turn only
        await gate.arrival()
        real, looked = verb_on(runtime.db, find_open_operation, reads=True), asyncio.Event()

        async def open_operation(session, kind):
            looked.set()
            return await real(session, kind)

        replace_verb(monkeypatch, runtime.db, find_open_operation, open_operation)
        message = await runtime.send("c", f"three {LONG}{LONG}{'x' * 120}")
        await soon(looked.wait())
        gate.open()
        assert await states(runtime, message) == ["answered"]
        assert "gist: one and two" in model.requests[-1][0].content
        assert shown(model.requests[-1]) == ["three"]


async def test_six_compressions_of_a_conversation_copy_nothing(tmp_path):
    model = brief(summary=says("gist"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        session = None
        for n in range(14):
            await soon(runtime.ask("c", f"message {n}"))
            session = session or await the_session(runtime)
            if n in {2, 4, 6, 8, 10, 12}:
                await soon(runtime.ask("c", "/compress"))
        assert await the_session(runtime) == session
        kinds = [view.entry.kind for view in await runtime.history(session)]
        assert kinds == ["user", "assistant"] * 14
        summaries = await runtime.db.read(list_summaries(session))
        assert [summary.n for summary in summaries] == [1, 2, 3, 4, 5, 6]
        assert all(later.covers_from == earlier.covers_through + 1 for earlier, later in pairwise(summaries))
        assert len(await runtime.sessions(chat="c")) == 1


# --- what goes wrong -------------------------------------------------------------------------------

BAD_SUMMARIES = {
    "raises": raises(ZeroDivisionError()),
    "answers nothing": emits(ModelAnswer(text="")),
    "breaks off": emits(TextDelta("half")),
    "answers too much": says("much " * 400),
    "garbage": emits("summary"),
    "half a character": emits(ModelAnswer(text="\ud83d")),
}


@pytest.mark.parametrize("bad", BAD_SUMMARIES)
async def test_a_summariser_that_fails_leaves_the_session_usable_and_its_history_whole(bad, tmp_path):
    model = brief(summary=BAD_SUMMARIES[bad])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        texts = [f"{word} {LONG}" for word in ("one", "two", "three", "four", "five")]
        for text in texts:
            assert await soon(runtime.ask("c", text)) == "ok"
        session = await the_session(runtime)
        assert await said(runtime, session) == texts
        assert [summary.n for summary in await runtime.db.read(list_summaries(session))] == []
        last = model.requests[-1]
        assert "entries are not shown here because summarising them failed" in last[0].content
        assert last[-1].content == texts[-1]
        operations = await runtime.db.read(list_operations(session=session))
        assert operations
        assert {operation.outcome for operation in operations} == {"failed"}
        assert all(operation.detail and operation.detail["reason"] for operation in operations)
        assert await runtime.db.read(find_open_operation(session, "compress")) is None


async def test_a_summariser_that_never_answers_is_given_up_and_the_turn_goes_on(tmp_path):
    model = brief(summary=stands_at(gate := Gate(), says("late")))
    chosen = compressing(soft=0.79, summariser_wait_ms=20)
    async with await Process.start(tmp_path, agents(model, chosen)) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        text = f"two {LONG}{LONG}" + "x" * 200
        assert await soon(runtime.ask("c", text)) == "ok"
        assert gate.reached.is_set()
        assert "not shown here" in model.requests[-1][0].content
        (operation,) = await runtime.db.read(list_operations(session=await the_session(runtime)))
        assert operation.outcome == "failed"
        assert "did not answer within 20 ms" in str(operation.detail)


async def test_a_failed_compression_is_not_tried_again_before_its_pause_is_over(tmp_path):
    clock = ManualClock()
    model = brief(summary=raises(ValueError()))
    chosen = compressing(failed_pause_ms=60_000)
    async with await Process.start(tmp_path, agents(model, chosen), clock=clock) as runtime:
        for word in ("one", "two", "three", "four", "five", "six"):
            await soon(runtime.ask("c", f"{word} {LONG}"))
        assert len(model.summaries_asked) == 1
        clock.advance(59_999)
        await soon(runtime.ask("c", "seven"))
        assert len(model.summaries_asked) == 1
        clock.advance(1)
        model.summary = says("gist")
        await soon(runtime.ask("c", "eight"))
        assert len(model.summaries_asked) == 2
        assert "gist" in model.requests[-1][0].content


async def test_a_store_that_fails_while_a_compression_ends_does_not_block_later_ones(tmp_path, monkeypatch):
    model = brief(summary=says("gist"))
    process = await Process.start(tmp_path, agents(model))
    async with process as runtime:
        for text in ("one", "two", "three"):
            await soon(runtime.ask("c", text))
        db, full, told = runtime.db, [True], asyncio.Event()
        commit, end = verb_on(db, commit_summary), verb_on(db, end_operation)

        async def committing(operation, draft):
            if full:
                raise StoreFull("the disk is full")
            return await commit(operation, draft)

        async def ending(operation, outcome, detail):
            told.set()
            if full:
                raise StoreFull("the disk is full")
            await end(operation, outcome, detail)

        replace_verb(monkeypatch, db, commit_summary, committing)
        replace_verb(monkeypatch, db, end_operation, ending)
        answer = await soon(runtime.ask("c", "/compress"))
        assert "store_full" in answer
        assert told.is_set()
        full.clear()
        session = await the_session(runtime)

        async def ended() -> None:
            while await db.read(find_open_operation(session, "compress")) is not None:
                pass

        await soon(ended())
        assert (await soon(runtime.ask("c", "/compress"))).startswith("Compressed entries 1 to 4")


async def test_a_bug_in_a_compression_leaves_no_operation_open(tmp_path, monkeypatch):
    from holdfast.sessions import compressor

    def summary_request(*_, **__):
        raise LookupError("a bug")

    async with await Process.start(tmp_path, agents(brief(summary=says("gist")))) as runtime:
        for text in ("one", "two", "three"):
            await soon(runtime.ask("c", text))
        session = await the_session(runtime)
        with monkeypatch.context() as broken:
            broken.setattr(compressor, "summary_request", summary_request)
            await runtime.begin_compression(session)

            async def ended() -> None:
                while await runtime.db.read(find_open_operation(session, "compress")) is not None:
                    pass

            await soon(ended())
        assert (await soon(runtime.ask("c", "/compress"))).startswith("Compressed entries 1 to 4")


async def test_an_undo_during_a_compression_makes_it_stale_and_changes_nothing(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist: of what is gone"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        await soon(runtime.ask("c", f"two {LONG}"))
        await gate.arrival()
        feed = runtime.events()
        await soon(runtime.ask("c", "/undo"))
        gate.open()
        await happened(feed, "compress.done", outcome="stale")
        session = await the_session(runtime)
        assert list(await runtime.db.read(list_summaries(session))) == []
        await soon(runtime.ask("c", "three"))
        assert shown(model.requests[-1]) == ["one", "three"]
        assert all("gist" not in message.content for message in model.requests[-1])


async def test_deleting_a_session_during_its_compression_leaves_nothing_open(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist"))])
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        await soon(runtime.ask("c", f"one {LONG}"))
        await soon(runtime.ask("c", f"two {LONG}"))
        session = await the_session(runtime)
        await gate.arrival()
        feed = runtime.events()
        await soon(runtime.ask("c", confirmed(await soon(runtime.ask("c", "/delete")))))
        gate.open()
        await happened(feed, "compress.done")
        assert await runtime.db.read(find_open_operation(session, "compress")) is None
        assert not [summary for summary in await runtime.db.read(list_summaries(session)) if summary.text]


async def test_a_compression_of_a_killed_process_is_over_and_another_may_begin(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("x"))])
    before = await Process.start(tmp_path, agents(model, compressing()))
    await soon(before.runtime.ask("c", f"one {LONG}"))
    await soon(before.runtime.ask("c", f"two {LONG}"))
    await gate.arrival()
    await before.kill()
    model = brief(summary=says("gist"))
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        assert (await soon(runtime.ask("c", "/compress"))).startswith("Compressed")
        operations = await runtime.db.read(list_operations(session=await the_session(runtime)))
        assert [operation.outcome for operation in operations] == ["abandoned", "done"]


@pytest.mark.parametrize("has_run", [True, False], ids=["while it is begun", "before its first step"])
async def test_a_caller_is_told_that_the_process_stops_before_a_compression_began(has_run, tmp_path, monkeypatch):
    """The caller was not cancelled, so a cancellation is no answer to it, and neither is silence."""
    gate = Gate()

    async def held(_session):
        await gate.stand()

    def never_run(*_, **__):
        gate.reached.set()

    async with await Process.start(tmp_path, agents(brief())) as runtime:
        await soon(runtime.ask("c", "one"))
        compressor = runtime._compressor
        replaced = (compressor, "_begin", held) if has_run else (compressor._working, "start", never_run)
        monkeypatch.setattr(*replaced)
        asked = asyncio.ensure_future(runtime.begin_compression(await the_session(runtime)))
        await gate.arrival()
        compressor.cut_off()
        with pytest.raises(StoreUnavailable, match="the process is stopping"):
            await soon(asked)


# --- one at a time, never another's ----------------------------------------------------------------


async def test_a_second_compression_of_a_session_is_refused_while_one_runs(tmp_path):
    model = brief(summaries=[stands_at(gate := Gate(), says("gist"))])
    async with await Process.start(tmp_path, agents(model)) as runtime:
        for text in ("one", "two", "three"):
            await soon(runtime.ask("c", text))
        session = await the_session(runtime)
        begun = await runtime.begin_compression(session)
        await gate.arrival()
        with pytest.raises(OperationBusy, match=begun.id):
            await runtime.begin_compression(session)
        feed = runtime.events()
        gate.open()
        await happened(feed, "compress.done", outcome="done")
        (operation,) = await runtime.db.read(list_operations(session=session))
        assert (operation.id, operation.outcome) == (begun.id, "done")


@pytest.mark.parametrize("count", [5, 13])
async def test_sessions_that_compress_at_once_never_see_each_other(count, tmp_path):
    """Every summariser stands at the gate before the first one is let through."""
    gate, standing, everybody = Gate(), [0], asyncio.Event()

    async def summarise(request):
        standing[0] += 1
        if standing[0] == count:
            everybody.set()
        await gate.stand()
        words = {word for message in request.messages for word in message.content.split() if word.startswith("canary")}
        async for event in says("kept: " + " ".join(sorted(words)))(request):
            yield event

    model = brief(summary=summarise)
    async with await Process.start(tmp_path, agents(model, compressing())) as runtime:
        chats = [f"chat{n}" for n in range(count)]
        for chat in chats:
            await soon(runtime.ask(chat, f"canary-{chat} {LONG}"))
        before = {chat: await the_session(runtime, chat) for chat in chats}
        asked = [await runtime.send(chat, f"second {LONG}") for chat in chats]
        assert await states(runtime, *asked) == ["answered"] * count
        await soon(everybody.wait())
        feed = runtime.events()
        gate.open()
        for _ in chats:
            await happened(feed, "compress.done", outcome="done")
        assert {chat: await the_session(runtime, chat) for chat in chats} == before
        for chat, session in before.items():
            (summary,) = await runtime.db.read(list_summaries(session))
            assert summary.text == f"kept: canary-{chat}"
            assert summary.session == session
            (operation,) = await runtime.db.read(list_operations(session=session))
            assert summary.operation == operation.id


# --- a very long turn ------------------------------------------------------------------------------


async def test_a_turn_too_long_for_the_window_loses_its_oldest_steps_pair_by_pair(tmp_path):
    def read(page: int) -> str:
        return f"page {page}: " + "y" * 200

    steps = [calls(f'read {{"page": {n}}}') for n in range(9)]
    model = ScriptedModel(*steps, says("read it all"))
    async with await Process.start(tmp_path, agents(model, compressing(), tools=[read])) as runtime:
        question = "what is in the book?"
        assert await soon(runtime.ask("c", question)) == "read it all"
        for request in model.requests:
            assert_whole(request)
            assert request[0].content == question, "what people said stays"
        last = model.requests[-1]
        assert "earlier steps of this turn are not shown here" in last[1].content
        assert last[-1].content.startswith("page 8"), "the newest result is always there"
        weight = sum(4 + len(message.content) // 4 for message in last)
        assert weight <= 400 * 0.8 + 40
        pages = [view.entry.text for view in await runtime.history(await the_session(runtime))]
        assert sum(text.startswith("page") for text in pages) == 9, "the journal has every one"


async def test_a_long_turn_after_others_first_gives_up_what_came_before_it(tmp_path):
    def read(page: int) -> str:
        return f"page {page}: " + "y" * 200

    model = ScriptedModel(says("hi"), *[calls(f'read {{"page": {n}}}') for n in range(6)], says("done"))
    model.summary = says("gist: they said hello")
    async with await Process.start(tmp_path, agents(model, compressing(), tools=[read])) as runtime:
        await soon(runtime.ask("c", "hello there"))
        assert await soon(runtime.ask("c", "read the book")) == "done"
        last = model.requests[-1]
        assert "gist: they said hello" in last[0].content, "the earlier turns are summarised, not dropped"
        assert last[1].content == "read the book"
        for request in model.requests:
            assert_whole(request)


def test_the_defaults_leave_room_between_soft_and_hard():
    thresholds = Thresholds()
    assert thresholds.keep < thresholds.soft < thresholds.hard < 1
