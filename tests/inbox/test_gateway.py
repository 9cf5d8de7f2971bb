"""What a mailbox does not take is refused before it is acknowledged; what must not be answered is kept and shown."""

import pytest

from holdfast.inbox.message import Accepted, Conflict, Duplicate, Limits, MailboxFull, TooMany
from holdfast.kernel.errors import (
    EmptyMessage,
    InvalidName,
    InvalidUnicode,
    MailboxIsFull,
    MessageTooLarge,
    RateLimited,
)
from holdfast.testing import ManualClock
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    kinds,
    policy,
    post,
    said,
    says,
    settled,
    soon,
    stands_at,
    states,
    the_session,
)


def limited(**limits):
    return policy(limits=Limits(**limits))


async def test_a_message_over_the_size_is_refused_and_leaves_no_trace(tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel(), limited(message_bytes_max=10))) as runtime:
        assert await states(runtime, await runtime.send("c", "0123456789")) == ["answered"]
        for text in ("0123456789a", "ééééé0"):  # bytes count, not characters
            with pytest.raises(MessageTooLarge, match="limit is 10"):
                await runtime.send("c", text, id="big")
        assert isinstance(await runtime.accept("c", "short", id="big"), Accepted), "the id is still free"


@pytest.mark.parametrize(
    ("text", "error"),
    [("", EmptyMessage), (" \n\t", EmptyMessage), ("\0", EmptyMessage), ("\ud83d", InvalidUnicode)],
)
async def test_what_can_never_be_kept_is_refused(text, error, tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel()), serve=False) as runtime:
        with pytest.raises(error):
            await runtime.send("c", text)
        assert list(await runtime.sessions()) == []


@pytest.mark.parametrize("bad", [{"chat": ""}, {"id": ""}, {"sender": ""}, {"agent": "not an agent"}, {"id": "a\nb"}])
async def test_malformed_names_are_refused(bad, tmp_path):
    async with await Process.start(tmp_path, agents(ScriptedModel()), serve=False) as runtime:
        with pytest.raises(InvalidName):
            await runtime.send(**{"chat": "c", "text": "hello", **bad})


async def test_nul_and_every_other_character_are_kept_as_they_are(tmp_path):
    text = "a\0b \u202e \U0001f600 \ufeff'\"\\"
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        assert await soon(runtime.ask("c", text)) == f"re: {text}"
        assert await said(runtime, await the_session(runtime)) == [text]


async def test_a_sender_learns_how_many_wait_before_it(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await runtime.accept("c", "a")
        assert isinstance(first, Accepted)
        await gate.arrival()
        rest = [await runtime.accept("c", text) for text in ("b", "c", "d")]
        queued = [outcome.queued_behind for outcome in rest if isinstance(outcome, Accepted)]
        assert [first.queued_behind, *queued] == [0, 1, 2, 3]
        last = rest[-1]
        assert isinstance(last, Accepted)
        assert (await runtime.trace(last.message)).queued_behind == 3
        gate.open()
        await soon(runtime.reply_to(last.message))
        assert (await runtime.trace(last.message)).queued_behind == 0


async def test_a_full_mailbox_refuses_and_takes_again_when_there_is_room(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model, limited(mailbox_depth_max=3))) as runtime:
        kept = [await runtime.send("c", "a")]
        await gate.arrival()
        kept += [await runtime.send("c", text) for text in ("b", "c")]
        assert await runtime.accept("c", "d", id="d") == MailboxFull(3)
        with pytest.raises(MailboxIsFull):
            await runtime.send("c", "d", id="d")
        assert isinstance(await runtime.accept("other", "x"), Accepted), "another chat is not full"
        assert await soon(runtime.ask("c", "/status")) != "", "signals pass: now is when they are needed"
        again = await runtime.accept("c", "b", id="again")
        assert again == MailboxFull(3)
        gate.open()
        assert await states(runtime, *kept) == ["answered"] * 3
        late = await runtime.send("c", "d", id="d")
        assert await states(runtime, late) == ["answered"]
        assert await said(runtime, await the_session(runtime)) == ["a", "b", "c", "d"]


async def test_a_repeat_is_known_even_when_the_mailbox_is_full(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with await Process.start(tmp_path, agents(model, limited(mailbox_depth_max=1))) as runtime:
        message = await runtime.send("c", "a", id="1")
        await gate.arrival()
        outcome = await runtime.accept("c", "a", id="1")
        assert isinstance(outcome, Duplicate)
        assert outcome.message == message
        assert await runtime.accept("c", "other words", id="1") == Conflict(message)
        gate.open()


async def test_too_many_in_a_window_are_refused_until_it_is_over(tmp_path):
    clock = ManualClock()
    chosen = limited(window_ms=60_000, window_messages_max=2)
    async with await Process.start(tmp_path, agents(ScriptedModel(), chosen), clock=clock) as runtime:
        await soon(runtime.ask("c", "a", trusted=False))
        clock.advance(10_000)
        await soon(runtime.ask("c", "b", trusted=False))
        assert await runtime.accept("c", "c", id="c") == TooMany(50_000)
        with pytest.raises(RateLimited, match="50000 ms"):
            await runtime.send("c", "c", id="c", trusted=False)
        assert await soon(runtime.ask("c", "own")) == "re: own", "the library's own caller is not limited"
        pieces = [delta.text async for delta in runtime.stream("c", "mine")]
        assert "".join(pieces) == "re: mine"
        clock.advance(50_000)
        assert await soon(runtime.ask("c", "c", id="c")) == "re: c"


# --- groups and other agents -----------------------------------------------------------------------


async def test_unaddressed_talk_is_journaled_without_a_turn_and_shown_to_the_next_one(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model)) as runtime:
        heard = [
            await post(runtime, "c", "lunch?", type="group", sender="ada", addressed=False),
            await post(runtime, "c", "at noon", type="group", sender="bob", addressed=False),
        ]
        asked = await post(runtime, "c", "when is lunch?", type="group", sender="ada")
        traces = await settled(runtime, *heard, asked)
        assert [trace.state.value for trace in traces] == ["observed", "observed", "answered"]
        assert [trace.turn for trace in traces] == [None, None, 1]
        assert await kinds(runtime, traces[0].session) == ["observed", "observed", "user", "assistant"]
        assert [message.content for message in model.requests[0]] == [
            "[not addressed to you] ada: lunch?",
            "[not addressed to you] bob: at noon",
            "ada: when is lunch?",
        ]
        assert len(model.requests) == 1


async def test_a_wait_for_the_reply_to_an_observed_message_ends_at_once(tmp_path):
    clock = ManualClock()
    async with await Process.start(tmp_path, agents(ScriptedModel()), clock=clock) as runtime:
        feed = runtime.events()
        message = await post(runtime, "c", "lunch?", type="group", addressed=False)
        while (event := await soon(anext(feed))).name != "message.observed":
            pass
        assert event.messages == (message,)


async def test_the_loop_guard_holds_agents_that_only_talk_to_each_other_until_a_human_speaks(tmp_path):
    model = ScriptedModel()
    async with await Process.start(tmp_path, agents(model, policy(unattended_max=3))) as runtime:
        pings = []
        for n in range(5):
            pings.append(await post(runtime, "c", f"ping {n}", sender="bot", human=False, hop=n))
            await settled(runtime, pings[-1])
        assert await states(runtime, *pings) == ["answered"] * 3 + ["held"] * 2
        assert (await runtime.trace(pings[-1])).reason == "loop_guard"
        assert len(model.requests) == 3
        assert await soon(runtime.ask("c", "are you two done?")) == "re: c: are you two done?"
        assert "[not addressed to you] bot: ping 4" in [message.content for message in model.requests[-1]]
        more = await post(runtime, "c", "ping 5", sender="bot", human=False)
        assert await states(runtime, more) == ["answered"], "a human released it"
