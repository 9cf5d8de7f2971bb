"""A reply that is shown while it grows stands in the chat once in the end, with its final words, through every crash. A
draft that may be left standing is shown in the ledger. Clocks jump here.
"""

import asyncio
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import DraftId, ForgetId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.outbox.draft import EVERY_MS_MIN, FIRST_AFTER_MS, HOLD_MS, MARK, WRITE_WAIT_MS, Draft, DraftState
from holdfast.outbox.drafter import NOT_HELD, DraftPlace, DraftWriter, LiveDraft
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from holdfast.runtime.app import DATABASE
from holdfast.runtime.assembly import assemble
from holdfast.testing import ManualClock, SeededEntropy, SimNode, SimTasks
from holdfast.testing.crash import CrashingDatabase, points_of
from holdfast.testing.inline_database import InlineDatabase
from holdfast.turns.model import ModelAnswer, TextDelta
from tests.outbox.test_reply_sender import MAIN, Street, lives
from tests.support.fakes import ScriptedModel, agents, calls, policy, raises, says
from tests.support.ports import VerbMethods, make_ports

WORDS = [f"word{n:02d} " for n in range(40)]
WHOLE = "".join(WORDS)
QUICK_S = 0.25  # between two words of the model: ten seconds for all


class Wall:
    """The platform: the texts that a chat shows, of any author."""

    def __init__(self):
        self.messages = {}
        self.log = []  # (when, what, text)


class WallChannel:
    """Implements `Channel` and `Editing` over a wall. `fate` may answer in the wall's place, or act and then answer."""

    def __init__(self, street, wall, *, drafts=True, fate=None, **able):
        self.capabilities = ChannelCapabilities(**{"text_chars_max": 4_000, "drafts": drafts, **able})
        self._street = street
        self._wall = wall
        self._fate = fate or (lambda _what, _text, do: do())

    async def run(self, intake):
        intake.connected()

    async def send(self, post):
        def do():
            receipt = f"m{len(self._wall.log)}"
            self._put("send", receipt, post.text)
            return Sent(receipt)

        return await self._happen("send", post.text, do)

    async def edit(self, _address, receipt, text):
        def do():
            if receipt not in self._wall.messages:
                return Declined("message to edit not found")
            self._put("edit", receipt, text)
            return Sent(receipt)

        return await self._happen("edit", text, do)

    async def retract(self, _address, receipt):
        def do():
            self._wall.messages.pop(receipt, None)
            return Sent(receipt)

        return await self._happen("retract", "", do)

    async def _happen(self, what, text, do):
        outcome = self._fate(what, text, do)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    def _put(self, what, receipt, text):
        self._wall.messages[receipt] = text
        self._wall.log.append((round(self._street.loop.time() * 1000), what, text))

    async def typing(self, address):
        pass

    async def close(self):
        pass


class Draughty(Street):
    """A street with a wall, and models that speak slowly."""

    def __init__(self, folder):
        super().__init__(folder)
        self.wall = Wall()

    def speaks(self, text=WHOLE, *, every_s=QUICK_S):
        async def move(_request):
            for word in text.split(" "):
                await self.rest(every_s)
                yield TextDelta(f"{word} ")
            yield ModelAnswer(text=text)

        return move

    async def enter(self, *moves, reach=None, drafts=True, fate=None, tools=(), **able):
        """A process, whose model makes the moves, or else speaks slowly."""
        node = SimNode(self.loop, f"n{len(self.nodes)}")
        database = InlineDatabase(self.folder / DATABASE, self.clock, synchronous="off")
        node.on_death(database.crash)
        self.nodes.append(node)
        db = database
        channel = WallChannel(self, self.wall, drafts=drafts, fate=fate, **able)
        runtime = assemble(
            make_ports(
                db if reach is None else CrashingDatabase(db, reach),
                clock=self.clock,
                entropy=SeededEntropy(node.name),
                tasks=SimTasks(self.loop, node),
            ),
            agents(ScriptedModel(*moves, otherwise=self.speaks()), policy(), tools=tools),
            channels=Channels({(MAIN, "telegram"): channel}),
        )
        return await runtime.start()

    async def death(self):
        while self.nodes[0].alive:
            await self.rest(0.25)

    async def settled(self, runtime):
        """The ledger's newest row, once it is over and nothing is under way any more."""
        while not (rows := await self.ledger(runtime)) or rows[-1].state in {"pending", "attempting"}:
            await self.rest(1)
        await self.rest(6)
        return (await self.ledger(runtime))[-1]

    @property
    def texts(self):
        return list(self.wall.messages.values())

    @property
    def done(self):
        return [what for _, what, _ in self.wall.log]


@pytest.fixture
def street(tmp_path):
    made = Draughty(tmp_path)
    with made.loop:
        yield made


@lives
async def test_a_reply_grows_in_one_message_which_is_the_reply_in_the_end(street):
    runtime = await street.enter()
    message = await street.say(runtime, "hello")
    await street.rest(5)
    (half,) = street.texts
    assert half.endswith(MARK)
    assert WHOLE.startswith(half.removesuffix(MARK))
    await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert street.done[0] == "send"
    assert set(street.done[1:]) == {"edit"}
    (row,) = await street.ledger(runtime)
    assert (row.state, row.receipt, row.draft, row.possible_duplicate) == ("delivered", "m0", "replaced", False)
    assert (await runtime.trace(message)).reply.draft == "replaced"


@lives
async def test_nothing_is_drafted_unless_the_operator_wants_it(street):
    runtime = await street.enter(drafts=False)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert (street.done, street.texts) == (["send"], [WHOLE])
    (row,) = await street.ledger(runtime)
    assert (row.state, row.draft) == ("delivered", None)


@lives
async def test_an_answer_that_is_made_at_once_has_no_draft(street):
    runtime = await street.enter(says("there you are"))
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert (street.done, street.texts) == (["send"], ["there you are"])


@lives
async def test_drafts_come_at_a_pace_that_the_platform_takes(street):
    began = round(street.loop.time() * 1000)
    runtime = await street.enter(group_edit_interval_ms=4_000)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    times = [at for at, _, _ in street.wall.log]
    assert times[0] >= began + min(FIRST_AFTER_MS, QUICK_S * 1000)
    drafts = times[:-1]
    assert len(drafts) > 3
    assert all(later - earlier >= EVERY_MS_MIN for earlier, later in pairwise(drafts))


@lives
async def test_no_draft_overtakes_a_reply_before_it(street):
    fate = at_first(street, "send", NotSent("slow down", retry_after_ms=15_000))
    runtime = await street.enter(says("the first"), fate=fate)
    await street.say(runtime, "one")
    await street.rest(2)
    await street.say(runtime, "two")
    await street.settled(runtime)
    assert street.texts == ["the first", WHOLE]
    assert [row.state for row in await street.ledger(runtime)] == ["delivered", "delivered"]


@lives
async def test_an_account_has_one_pace_for_all_its_chats(street):
    runtime = await street.enter(account_edit_interval_ms=2_500)
    for chat in "abc":
        await street.say(runtime, "hello", chat=chat)
    await street.rest(9.5)
    times = [at for at, _, _ in street.wall.log]
    assert len(times) >= 3
    assert all(later - earlier >= 2_500 for earlier, later in pairwise(times))
    await street.settled(runtime)
    assert street.texts == [WHOLE] * 3


@lives
async def test_only_the_first_piece_of_a_long_reply_is_drafted(street):
    runtime = await street.enter(text_chars_max=100)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert len(street.texts) == 3
    assert " ".join(street.texts).split() == WHOLE.split()
    assert not any(text.endswith(MARK) for text in street.texts)
    drafted = [text for _, what, text in street.wall.log if text.endswith(MARK)]
    assert all(len(text) <= 100 for text in drafted)
    (row,) = await street.ledger(runtime)
    assert (row.state, row.parts_sent, row.draft, len(row.receipt.split())) == ("delivered", 3, "replaced", 3)


@lives
async def test_a_model_that_starts_over_replaces_what_it_said(street):
    async def breaks_off(_request):
        async for event in street.speaks("a wrong beginning that is long enough to be shown at once, surely")(_request):
            if isinstance(event, TextDelta):
                yield event
        raise RuntimeError("the vendor went away")

    runtime = await street.enter(breaks_off)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert any("wrong" in text for _, _, text in street.wall.log)
    assert not any("wrong" in text and "word" in text for _, _, text in street.wall.log)
    assert street.texts == [WHOLE]


@lives
async def test_what_is_said_before_a_tool_call_does_not_stay(street):
    async def looks_first(request):
        async for event in street.speaks("let me look that up for you, it takes a moment only, I promise")(request):
            if isinstance(event, TextDelta):
                yield event
        async for event in calls("absent")(request):
            yield event

    runtime = await street.enter(looks_first)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert any("look that up" in text for _, _, text in street.wall.log)
    assert not any("look" in text and "word" in text for _, _, text in street.wall.log)
    assert street.texts == [WHOLE]


@lives
async def test_a_question_takes_the_drafts_place_and_the_answer_after_it_grows_anew(street):
    async def pay():
        """Pay somebody."""
        return "paid"

    async def asks(request):
        async for event in street.speaks("I will pay him for you, which takes a moment only, I promise")(request):
            if isinstance(event, TextDelta):
                yield event
        async for event in calls("pay")(request):
            yield event

    pay.dangerous = True  # type: ignore[attr-defined]
    runtime = await street.enter(asks, tools=[pay])
    await street.say(runtime, "pay him")
    question = await street.settled(runtime)
    (text,) = street.texts
    found = re.search(r"/approve (\w+)", text)
    assert found is not None
    approval = found[1]
    assert (question.state, question.draft) == ("delivered", "replaced")
    await street.say(runtime, f"/approve {approval}")
    await street.rest(6)
    assert street.texts[-1].endswith(MARK)
    await street.rest(30)
    assert (street.texts[0], street.texts[-1], len(street.texts)) == (text, WHOLE, 3)
    assert [row.draft for row in await street.ledger(runtime)] == ["replaced", None, "replaced"]


# --- trouble ---------------------------------------------------------------------------------------


def at_first(street, what, outcome, *, times=1, lands=False):
    """The first such requests end like this; whether they take effect is another matter."""
    left = [times]

    def fate(asked, _text, do):
        if asked == what and left[0]:
            left[0] -= 1
            if lands:
                do()
            return outcome
        return do()

    return fate


@lives
async def test_a_limit_pauses_the_draft_and_nothing_else(street):
    fate = at_first(street, "edit", NotSent("slow down", retry_after_ms=6_000))
    runtime = await street.enter(fate=fate)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    times = [at for at, _, _ in street.wall.log]
    assert max(later - earlier for earlier, later in pairwise(times)) >= 6_000
    assert street.texts == [WHOLE]


@lives
async def test_a_draft_that_could_not_be_sent_is_tried_again_and_leaves_no_doubt(street):
    runtime = await street.enter(fate=at_first(street, "send", NotSent("away"), times=1))
    await street.say(runtime, "hello")
    row = await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert (row.state, row.draft) == ("delivered", "replaced")


@lives
async def test_a_chat_that_takes_no_draft_gets_its_reply_all_the_same(street):
    runtime = await street.enter(fate=at_first(street, "send", Declined("not now")))
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert (street.done, street.texts) == (["send"], [WHOLE])
    (row,) = await street.ledger(runtime)
    assert (row.state, row.draft) == ("delivered", None)


@pytest.mark.parametrize("lands", [False, True])
def test_a_draft_whose_fate_is_unknown_is_shown_in_the_ledger(street, lands):
    async def scenario():
        runtime = await street.enter(fate=at_first(street, "send", Doubtful("lost"), lands=lands))
        await street.say(runtime, "hello")
        row = await street.settled(runtime)
        assert street.texts[-1] == WHOLE
        assert [text.endswith(MARK) for text in street.texts] == ([True, False] if lands else [False])
        assert (row.state, row.draft, row.possible_duplicate) == ("delivered", "unknown", False)

    street.loop.run_until_complete(scenario())


@lives
async def test_a_draft_that_somebody_deleted_makes_the_reply_a_new_message(street):
    runtime = await street.enter()
    await street.say(runtime, "hello")
    await street.rest(5)
    street.wall.messages.clear()
    row = await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert (row.state, row.draft, row.possible_duplicate) == ("delivered", "gone", False)


@pytest.mark.parametrize("lands", [False, True])
def test_an_uncertain_final_edit_is_repeated_and_leaves_one_message(street, lands):
    async def scenario():
        asked = []

        def fate(what, text, do):
            if what == "edit" and not text.endswith(MARK):
                asked.append(what)
                if len(asked) < 3:
                    if lands:
                        do()
                    return Doubtful("lost")
            return do()

        runtime = await street.enter(fate=fate)
        await street.say(runtime, "hello")
        await street.settled(runtime)
        assert len(asked) == 3
        assert street.texts == [WHOLE]
        (row,) = await street.ledger(runtime)
        assert (row.state, row.draft, row.possible_duplicate) == ("delivered", "replaced", False)

    street.loop.run_until_complete(scenario())


def lands_late(street, late_s):
    """Edits of a draft are answered late, and take effect just before the answer, even if the caller is gone."""

    def fate(what, text, do):
        if what != "edit" or not text.endswith(MARK):
            return do()

        async def later():
            street.loop.call_later(late_s, do)
            await street.rest(late_s)
            return Sent("m0")

        return later()

    return fate


@lives
async def test_no_older_edit_lands_behind_the_final_words(street):
    runtime = await street.enter(fate=lands_late(street, 5))
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert street.texts == [WHOLE]


@lives
async def test_an_edit_whose_answer_was_lost_is_given_time_to_land_before_the_final_words(street):
    asked = []

    def fate(what, text, do):
        if what == "edit" and text.endswith(MARK):
            asked.append(text)
            street.loop.call_later(2, do)
            return Doubtful("lost")
        return do()

    async def ends_then(_request):
        for word in WORDS * 10:
            await street.rest(QUICK_S)
            yield TextDelta(word)
            if asked:
                break
        yield ModelAnswer(text=WHOLE)

    runtime = await street.enter(ends_then, fate=fate)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert len(asked) == 1
    assert street.texts == [WHOLE]


@lives
async def test_a_channel_that_raises_ends_the_draft_and_not_the_turn(street):
    def fate(_what, _text, do):
        if not street.wall.log:
            street.wall.log.append((0, "broken", ""))
            raise RuntimeError("a fault in the channel's code")
        return do()

    runtime = await street.enter(fate=fate)
    await street.say(runtime, "hello")
    row = await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert (row.state, row.draft) == ("delivered", "unknown")


@lives
async def test_a_turn_that_fails_says_so_in_the_drafts_place(street):
    broken = [raises(RuntimeError("away"), after="something that is long enough to be shown in the chat at once, yes")]
    runtime = await street.enter(*broken * 9)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    (text,) = street.texts
    assert MARK not in text
    assert (await street.ledger(runtime))[0].state == "delivered"


@lives
async def test_an_edit_that_may_have_landed_and_cannot_be_repeated_is_a_possible_duplicate(street):
    asked = []

    def fate(what, text, do):
        if what != "edit" or text.endswith(MARK):
            return do()
        asked.append(text)
        if len(asked) == 1:
            do()
            return Doubtful("lost")
        return Declined("the time for editing is over")

    runtime = await street.enter(fate=fate)
    await street.say(runtime, "hello")
    row = await street.settled(runtime)
    assert street.texts == [WHOLE, WHOLE]
    assert (row.state, row.draft, row.possible_duplicate) == ("uncertain", "gone", True)


class Sleepy:
    """A store whose answer comes when the process has slept for a while."""

    def __init__(self, clock):
        self.clock = clock

    async def intend_draft(self, intent):
        self.clock.advance(HOLD_MS - WRITE_WAIT_MS)
        return Draft(id=intent.id, fence=1, state=DraftState.INTENDED, address=intent.address)


def sketched(clock):
    now = clock.now()
    return LiveDraft(session="s", turn=1, mailbox="b", fence=1, message="m", began_at=now, heard_at=now, text=WHOLE)


CHAT = Address(agent=MAIN, channel="telegram", type="dm", chat="7")


async def test_a_process_that_slept_after_it_took_a_draft_writes_nothing():
    clock, wall, street = ManualClock(), Wall(), None
    pen = DraftWriter(make_ports(VerbMethods(Sleepy(clock)), clock=clock))
    channel = WallChannel(street, wall)
    trouble = await pen.write(sketched(clock), DraftPlace(channel, channel, CHAT, "e"))
    assert trouble is not None
    assert (trouble.reason, wall.log) == (NOT_HELD, [])


class Emptied:
    """A store in which a reply has taken the draft over, so that the turn's next intent makes a row of its own."""

    def __init__(self):
        self.rows = set()

    async def intend_draft(self, intent):
        self.rows.add(intent.id)
        return Draft(id=intent.id, fence=1, state=DraftState.INTENDED, address=intent.address)

    async def note_draft(self, draft, state, *, receipt=""):
        assert (state, receipt) == (None, "")
        self.rows.remove(draft.id)


async def test_a_draft_that_a_reply_took_over_is_not_posted_again_under_its_old_name():
    """A platform that knows the nonce would answer with the message that is the reply now."""
    clock, wall, street, store = ManualClock(), Wall(), None, Emptied()
    pen = DraftWriter(make_ports(VerbMethods(store), clock=clock))
    channel, one = WallChannel(street, wall), sketched(clock)
    one.draft = Draft(id=DraftId("dra_1"), fence=1, state=DraftState.STANDING, address=CHAT, receipt="m0")
    await pen.write(one, DraftPlace(channel, channel, CHAT, "e"))
    assert (wall.log, store.rows, one.over) == ([], set(), True)


@lives
async def test_a_run_that_lost_its_claim_does_not_speak_in_the_draft(street):
    runtime = await street.enter()
    bell = runtime._notifier  # the older run speaks in the same process

    def echo(event):
        if event.name == "turn.delta" and event.text != "stale ":
            bell.publish(replace(event, fence=event.fence - 1, text="stale "))
            bell.publish(replace(event, fence=event.fence - 1, name="turn.restarted", text=""))

    bell.tap(echo, deltas=True)
    await street.say(runtime, "hello")
    await street.settled(runtime)
    assert len(street.wall.log) > 2
    assert all(WHOLE.startswith(text.removesuffix(MARK)) for _, _, text in street.wall.log)


# --- processes come and go -------------------------------------------------------------------------


@lives
async def test_a_resumed_turn_goes_on_with_the_same_message(street):
    runtime = await street.enter()
    await street.say(runtime, "hello")
    await street.rest(5)
    street.nodes[0].kill()
    runtime = await street.enter(street.speaks(every_s=1.0))
    await street.rest(HOLD_MS / 1000 + 5)
    (half,) = street.texts
    assert half.endswith(MARK)
    resumed = len(street.wall.log)
    await street.settled(runtime)
    assert len(street.wall.log) > resumed
    assert street.done.count("send") == 1
    assert street.texts == [WHOLE]
    (row,) = await street.ledger(runtime)
    assert (row.state, row.receipt, row.draft) == ("delivered", "m0", "replaced")


@lives
async def test_an_edit_that_outlives_its_process_does_not_spoil_the_reply(street):
    runtime = await street.enter(fate=lands_late(street, 4))
    await street.say(runtime, "hello")
    await street.rest(5)
    street.nodes[0].kill()
    runtime = await street.enter(says(WHOLE))
    await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert (await street.ledger(runtime))[0].draft == "replaced"


STORED = ("end_turn", "claim_replies", "settle_reply")
POINTS = points_of(["intend_draft", "note_draft", "release_draft"])
MORE = [(verb, side) for verb in STORED for side in ("before", "after")]


@pytest.mark.parametrize(("verb", "side"), [*POINTS, *MORE], ids=str)
def test_the_process_may_die_at_any_verb(street, verb, side):
    """One whole message stands in the end; anything else there is in the ledger."""

    def reach(asked, at):
        has_begun = verb not in STORED or street.wall.log
        if (asked, at) == (verb, side) and len(street.nodes) == 1 and has_begun:
            street.nodes[0].kill()

    async def scenario():
        runtime = await street.enter(reach=reach)
        await street.say(runtime, "hello")
        await street.death()
        runtime = await street.enter()
        row = await street.settled(runtime)
        unfinished = [text for text in street.texts if text.endswith(MARK)]
        assert [text for text in street.texts if text not in unfinished] == [WHOLE]
        assert bool(unfinished) <= (row.draft == "unknown")
        assert row.state == "delivered" or row.possible_duplicate

    street.loop.run_until_complete(scenario())


REQUESTS = [("send", True), ("edit", True), ("edit", False)]  # the draft, an edit of it, the edit that is the reply


@pytest.mark.parametrize(("what", "is_draft"), REQUESTS)
@pytest.mark.parametrize("lands", [False, True])
def test_the_process_may_die_in_any_request_and_the_next_one_too(street, what, is_draft, lands):
    def fate(asked, text, do):
        if (asked, text.endswith(MARK)) != (what, is_draft):
            return do()
        if lands:
            do()
        street.nodes[-1].kill()
        return Sent("never heard")

    async def scenario():
        runtime = await street.enter(fate=fate)
        await street.say(runtime, "hello")
        await street.death()
        await street.enter(fate=fate)
        await street.rest(HOLD_MS / 1000 + 15)
        runtime = await street.enter()
        row = await street.settled(runtime)
        unfinished = [text for text in street.texts if text.endswith(MARK)]
        assert [text for text in street.texts if text not in unfinished] == [WHOLE]
        assert bool(unfinished) <= (row.draft == "unknown")
        assert (row.state, row.possible_duplicate) == ("delivered", False)

    street.loop.run_until_complete(scenario())


@lives
async def test_stopping_while_a_draft_stands_leaves_it_to_the_next_process(street):
    runtime = await street.enter()
    await street.say(runtime, "hello")
    await street.rest(4)
    await runtime.close()
    runtime = await street.enter()
    await street.settled(runtime)
    assert street.texts == [WHOLE]
    assert street.done.count("send") == 1


@lives
async def test_a_forgotten_turn_takes_its_draft_along(street):
    runtime = await street.enter()
    message = await street.say(runtime, "hello")
    await street.rest(5)
    assert len(street.texts) == 1
    session = (await runtime.trace(message)).session
    await runtime.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), session=session)))
    await street.rest(150)
    assert street.texts == []


@lives
async def test_a_draft_that_cannot_be_retracted_holds_up_no_other(street):
    def fate(what, _text, do):
        if what == "retract" and street.texts:
            first = not street.done.count("broken")
            street.wall.log.append((0, "broken" if first else "retract", ""))
            if first:
                raise RuntimeError("a fault in the channel's code")
        return do()

    runtime = await street.enter(fate=fate)
    messages = [await street.say(runtime, "hello", chat=chat) for chat in "ab"]
    await street.rest(5)
    assert len(street.texts) == 2
    for n, message in enumerate(messages):
        session = (await runtime.trace(message)).session
        await runtime.db.write(begin_forgetting(ForgetRequest(id=ForgetId(f"f{n}"), session=session)))
    while "broken" not in street.done:
        await street.rest(1)
    await street.rest(1)
    assert len(street.texts) == 1
