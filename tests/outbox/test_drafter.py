"""Each draft is shown when it is due and not before, one claim writes to it, a rate limit that one draft meets holds
for everything it covers, and a draft is released as soon as its turn has ended. Only the drafter is real here; clocks
jump.
"""

import asyncio
import gc
import warnings

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import Channels
from holdfast.kernel.errors import ClaimLost, StoreUnavailable
from holdfast.kernel.ids import AgentName
from holdfast.kernel.notifier import Event, Notifier, Topic
from holdfast.outbox import drafter
from holdfast.outbox.draft import (
    EVERY_MS_MIN,
    FIRST_AFTER_CHARS,
    FIRST_AFTER_MS,
    HOLD_MS,
    MARK,
    QUIET_MS,
    WRITE_WAIT_MS,
    Draft,
    DraftState,
    StrayDraft,
)
from holdfast.outbox.drafter import KEEP_ATTEMPTS_MAX, STALE_MS, SWEEP_MS, TROUBLE_MS, Drafter
from holdfast.outbox.post import Declined, Doubtful, NotSent, SendOutcome, Sent
from holdfast.outbox.reply_sql import Destination
from holdfast.outbox.typing_indicator import END
from holdfast.testing import SeededEntropy, SimClock, SimLoop, SimNode, SimTasks
from tests.support.ports import VerbMethods, make_ports

MAIN, OTHER = AgentName("main"), AgentName("other")
LONG = "x" * FIRST_AFTER_CHARS


class DraftList:
    """The part of the store that drafts need: what was asked of it, and whether it is away."""

    def __init__(self, now):
        self._now = now
        self.calls = []  # (when, verb, id, more)
        self.found = {}  # by session and fence: what `intend_draft` finds; an exception is raised
        self.standing = {}  # by draft: the platform's id of it
        self.fails = []  # verbs, each of which fails once
        self.strays = []

    def verbs(self, *names):
        return [(verb, id_, more) for _, verb, id_, more in self.calls if verb in names]

    def _called(self, verb, id_, more=None):
        self.calls.append((self._now(), verb, id_, more))
        if verb in self.fails:
            self.fails.remove(verb)
            raise StoreUnavailable("away")

    async def intend_draft(self, intent):
        self._called("intend", intent.id, intent.fence)
        receipt = self.standing.get(intent.id, "")
        state = DraftState.STANDING if receipt else DraftState.INTENDED
        made = Draft(id=intent.id, fence=intent.fence, state=state, address=intent.address, receipt=receipt)
        found = self.found.get((intent.session, intent.fence), made)
        if isinstance(found, Exception):
            raise found
        return found

    async def note_draft(self, draft, state, *, receipt=""):
        self._called("note", draft.id, (state, receipt))
        self.standing[draft.id] = receipt

    async def release_draft(self, draft, *, quiet_ms=0):
        self._called("release", draft.id, quiet_ms)

    async def take_stray_drafts(self, *, limit):
        self._called("strays", "", limit)
        return tuple(self.strays)

    async def drop_draft(self, stray):
        self.calls.append((self._now(), "drop", stray.id, None))
        self.strays = [one for one in self.strays if one.id != stray.id]


class PlatformChannel:
    """Implements `Channel` and `Editing`. `moves` answer in its place; one that is a coroutine is awaited."""

    def __init__(self, now, **able):
        self.capabilities = ChannelCapabilities(**{"text_chars_max": 4_000, "drafts": True, **able})
        self._now = now
        self.asked = []  # (when, what, chat, text)
        self.posts = []
        self.moves = []
        self.answer = None  # or by chat

    async def run(self, intake):
        intake.connected()

    async def send(self, post):
        self.posts.append(post)
        return await self._asked("send", post.address, post.text, f"r{len(self.posts)}")

    async def edit(self, address, receipt, text):
        return await self._asked("edit", address, text, receipt)

    async def retract(self, address, receipt):
        return await self._asked("retract", address, "", receipt)

    async def _asked(self, what, address, text, receipt):
        self.asked.append((self._now(), what, address.chat, text))
        if self.answer is not None:
            return self.answer(address.chat)
        move = self.moves.pop(0) if self.moves else Sent(receipt)
        return await move if asyncio.iscoroutine(move) else move

    @property
    def done(self):
        return [what for _, what, _, _ in self.asked]

    @property
    def times(self):
        return [at for at, *_ in self.asked]

    async def typing(self, address):
        pass

    async def close(self):
        pass


class DrafterWorld:
    """A drafter that runs, and what it hears."""

    def __init__(self):
        self.loop = SimLoop(7)
        self.clock = SimClock(self.loop)
        self.bell = Notifier()
        self.db = DraftList(self.clock.now)
        self.channels = Channels()
        self.places = {}
        self.tasks = SimTasks(self.loop, SimNode(self.loop, "n"))

    def add_channel(self, name="telegram", agent=MAIN, **able):
        made = PlatformChannel(self.clock.now, **able)
        self.channels.add(agent, name, made)
        return made

    def open(self):
        self.drafter = Drafter(
            make_ports(
                VerbMethods(self),
                clock=self.clock,
                entropy=SeededEntropy("x"),
                tasks=self.tasks,
                notifier=self.bell,
            ),
            channels=self.channels,
        )
        self.tasks.start(self.drafter.run(), name="drafter")

    def __getattr__(self, verb):
        """The other verbs are those of the list of drafts."""
        return getattr(self.db, verb)

    async def find_destination(self, id_):
        """Messages are named by the place that they were said in."""
        agent, channel, type_, chat, *thread = id_.split("/")
        if chat == "gone":
            return None  # pruned
        address = Address(
            agent=AgentName(agent), channel=channel, type=type_, chat=chat, thread=next(iter(thread), None)
        )
        return Destination(address, f"event of {id_}")

    def hear(self, text="", *, name="turn.delta", turn=1, fence=1, at="main/telegram/dm/7", session=None):
        messages = at if isinstance(at, tuple) else (at,)
        event = Event(
            name=name,
            session=session or f"ses {messages[-1]}",
            mailbox="box",
            turn=turn,
            fence=fence,
            messages=messages,
            text=text,
        )
        self.bell.publish(event)

    async def rest(self, ms):
        passed = asyncio.Event()
        self.loop.call_later(ms / 1000, passed.set)
        await passed.wait()

    def later(self, ms, outcome):
        """A request whose answer takes a while."""

        async def answer():
            await self.rest(ms)
            return outcome

        return answer()


@pytest.fixture
def world():
    made = DrafterWorld()
    with made.loop:
        yield made


def lives(scenario):
    """Run a test on the drafter's own loop."""

    def test(world):
        world.loop.run_until_complete(scenario(world))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


def runs(world, scenario):
    world.loop.run_until_complete(scenario())


# --- when ------------------------------------------------------------------------------------------


@lives
async def test_a_short_text_is_shown_after_a_while_though_nothing_more_is_heard(world):
    platform = world.add_channel()
    world.open()
    began = world.clock.now()
    world.hear("short")
    await world.rest(FIRST_AFTER_MS - 1)
    assert platform.asked == []
    await world.rest(10)
    assert platform.asked == [(began + FIRST_AFTER_MS, "send", "7", f"short{MARK}")]


@lives
async def test_a_text_that_grows_long_soon_is_shown_at_once(world):
    platform = world.add_channel()
    world.open()
    world.hear("short ")
    await world.rest(100)
    world.hear("and ")
    await world.rest(100)
    grown = world.clock.now()
    world.hear(LONG)
    await world.rest(50)
    assert platform.asked == [(grown, "send", "7", f"short and {LONG}{MARK}")]


@lives
async def test_nothing_is_done_while_nothing_is_heard(world):
    platform = world.add_channel()
    world.open()
    world.hear(LONG)
    await world.rest(100)
    assert platform.done == ["send"]
    before = world.drafter._running._started
    await world.rest(SWEEP_MS - 1_000)
    assert (platform.done, world.drafter._running._started) == (["send"], before)


@lives
async def test_the_same_text_is_not_written_twice(world):
    """The first piece is full: further text does not change it."""
    platform = world.add_channel(text_chars_max=100)
    world.open()
    for _ in range(10):
        world.hear("word " * 30)
        await world.rest(EVERY_MS_MIN)
    assert platform.done == ["send"]


@lives
async def test_a_text_without_end_is_not_kept_for_ever(world):
    world.add_channel()
    world.open()
    for _ in range(5):
        world.hear("x" * drafter.TEXT_CHARS_MAX)
        await world.rest(10)
    (one,) = world.drafter._drafts.values()
    assert len(one.text) <= 2 * drafter.TEXT_CHARS_MAX


def test_turns_beyond_the_limit_are_answered_without_a_draft(world, monkeypatch):
    async def scenario():
        monkeypatch.setattr(drafter, "DRAFTS_MAX", 1)
        platform = world.add_channel()
        world.open()
        for chat in "ab":
            world.hear(LONG, at=f"main/telegram/dm/{chat}")
        await world.rest(100)
        assert [chat for _, _, chat, _ in platform.asked] == ["a"]
        world.hear(name="turn.answered", at="main/telegram/dm/a")
        world.hear(LONG, at="main/telegram/dm/b")
        await world.rest(100)
        assert [chat for _, _, chat, _ in platform.asked] == ["a", "b"]

    runs(world, scenario)


# --- where -----------------------------------------------------------------------------------------


@lives
async def test_a_draft_answers_the_message_that_its_reply_will(world):
    platform = world.add_channel()
    world.open()
    world.hear(LONG, at=("main/telegram/group/7/5", "main/telegram/group/7/9"))
    await world.rest(100)
    (post,) = platform.posts
    assert (post.address.thread, post.in_reply_to) == ("9", "event of main/telegram/group/7/9")


@lives
async def test_drafts_are_shown_where_they_are_wanted_and_nowhere_else(world):
    wanted, other, pulled = world.add_channel(), world.add_channel("slack", drafts=False), world.add_channel("http")
    world.open()
    for channel in ("telegram", "slack", "http", "absent"):
        world.hear(LONG, at=f"main/{channel}/dm/7")
    world.hear(LONG, at="main/telegram/dm/gone")
    await world.rest(100)
    assert (wanted.done, other.done, pulled.done) == (["send"], [], [])


# --- pace ------------------------------------------------------------------------------------------

HERE, THERE = "main/telegram/group/7/1", "main/telegram/group/7/2"  # two threads of one chat
ELSEWHERE, OTHERS = "main/telegram/dm/8", "other/telegram/dm/7"  # another chat, another account


@lives
async def test_threads_of_a_chat_have_one_pace_and_other_chats_and_accounts_their_own(world):
    platform, theirs = world.add_channel(group_edit_interval_ms=9_000), world.add_channel(agent=OTHER)
    world.open()
    began = world.clock.now()
    for at in (HERE, THERE, ELSEWHERE, OTHERS):
        world.hear(LONG, at=at)
    await world.rest(20_000)
    assert [(at - began, chat) for at, _, chat, _ in platform.asked] == [(0, "7"), (0, "8"), (9_000, "7")]
    assert [at - began for at in theirs.times] == [0]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("wait_ms", [0, 40_000])
def test_a_limit_holds_for_what_it_covers_and_for_as_long_as_it_says(world, whole, wait_ms):
    async def scenario():
        platform, theirs = world.add_channel(group_edit_interval_ms=2_000), world.add_channel(agent=OTHER)
        platform.moves = [NotSent("slow down", wait_ms, whole_account=whole)]
        world.open()
        began = world.clock.now()
        world.hear(LONG, at=HERE)
        await world.rest(10)
        for at in (THERE, ELSEWHERE, OTHERS):
            world.hear(LONG, at=at)
        await world.rest(60_000)
        until = wait_ms or TROUBLE_MS
        times = {chat: [at - began for at, _, where, _ in platform.asked if where == chat] for chat in "78"}
        assert times["7"] == [0, until, until + 2_000], "tried again though nothing more was heard"
        assert times["8"] == [until if whole else 10]
        assert [at - began for at in theirs.times] == [10]

    runs(world, scenario)


@lives
async def test_a_shorter_limit_that_is_heard_later_takes_nothing_from_a_longer_one(world):
    """Two requests were under way when the account was limited; the platform told the second one less."""
    platform = world.add_channel()
    platform.moves = [
        world.later(100, NotSent("slow down", 60_000, whole_account=True)),
        world.later(200, NotSent("slow down", 1_000, whole_account=True)),
    ]
    world.open()
    began = world.clock.now()
    for chat in "ab":
        world.hear(LONG, at=f"main/telegram/dm/{chat}")
    await world.rest(5_000)
    world.hear(LONG, at="main/telegram/dm/c")
    await world.rest(54_000)
    assert platform.done == ["send", "send"]
    await world.rest(5_000)
    assert [at - began for at in platform.times[2:]] == [60_100] * 3


# --- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(END))
def test_a_draft_is_let_go_as_soon_as_its_turn_has_ended(world, name):
    """The reply waits until the draft is released."""

    async def scenario():
        world.add_channel()
        world.open()
        world.hear(LONG)
        await world.rest(5_000)
        assert world.db.verbs("release") == []
        await world.bell.wait(Topic.REPLY, timeout_ms=1)
        ended = world.clock.now()
        world.hear(name=name)
        assert await world.bell.wait(Topic.REPLY, timeout_ms=50), "the reply may leave now"
        ((at, verb, _, quiet_ms),) = [call for call in world.db.calls if call[1] == "release"]
        assert (at, verb, quiet_ms) == (ended, "release", 0)

    runs(world, scenario)


def test_every_end_of_a_turn_is_known():
    """A turn that ends, or stops to ask, has a reply that waits for the draft."""
    assert {"turn.answered", "turn.failed", "turn.interrupted", "turn.asked"} == END


@lives
async def test_a_turn_that_ends_during_a_request_lets_go_when_the_request_has_ended(world):
    platform = world.add_channel()
    world.open()
    world.hear(LONG)
    await world.rest(EVERY_MS_MIN)
    platform.moves = [world.later(4_000, Sent("r1"))]
    began = world.clock.now()
    world.hear("more")
    await world.rest(100)
    world.hear(name="turn.answered")
    await world.rest(3_000)
    assert world.db.verbs("release") == []
    await world.rest(3_000)
    assert [at - began for at, verb, *_ in world.db.calls if verb == "release"] == [4_000]


@lives
async def test_a_turn_that_ends_while_its_draft_is_put_on_record_posts_nothing(world):
    platform = world.add_channel()
    intend = world.db.intend_draft

    async def slowly(intent):
        await world.rest(2_000)
        return await intend(intent)

    world.db.intend_draft = slowly
    world.open()
    world.hear(LONG)
    await world.rest(100)
    world.hear(name="turn.answered")
    await world.rest(10_000)
    assert platform.asked == []
    assert [more for _, _, more in world.db.verbs("note")] == [(None, "")], "nothing was posted"
    assert world.db.verbs("release") == []


@lives
async def test_a_turn_whose_end_was_missed_is_let_go_after_a_while(world):
    world.add_channel()
    world.open()
    began = world.clock.now()
    world.hear(LONG)
    await world.rest(STALE_MS - 1_000)
    assert world.db.verbs("release") == []
    await world.rest(SWEEP_MS + 2_000)
    ((at, *_),) = [call for call in world.db.calls if call[1] == "release"]
    assert STALE_MS < at - began <= STALE_MS + SWEEP_MS
    assert world.drafter._drafts == {}


# --- claims ----------------------------------------------------------------------------------------


@lives
async def test_a_younger_claim_of_the_same_turn_begins_anew_and_the_older_draft_is_let_go(world):
    platform = world.add_channel()
    world.open()
    world.hear(f"old {LONG}")
    await world.rest(EVERY_MS_MIN)
    world.hear(f"new {LONG}", fence=2)
    await world.rest(100)
    assert [text for *_, text in platform.asked] == [f"old {LONG}{MARK}", f"new {LONG}{MARK}"]
    (old, young) = world.db.verbs("intend")
    assert (old[2], young[2]) == (1, 2)
    assert [id_ for _, id_, _ in world.db.verbs("release")] == [old[1]]


@lives
async def test_a_younger_claim_is_not_forgotten_when_the_older_ones_request_ends(world):
    platform = world.add_channel()
    world.open()
    platform.moves = [world.later(6_000, Sent("r1"))]
    world.hear(f"old {LONG}")
    await world.rest(100)
    world.hear(f"new {LONG}", fence=2)
    await world.rest(10_000)
    world.hear(" more", fence=2)
    await world.rest(5_000)
    assert [text for *_, text in platform.asked][-1] == f"new {LONG} more{MARK}"


@lives
async def test_a_claim_that_was_lost_asks_for_nothing_more(world):
    platform = world.add_channel()
    world.db.found["ses main/telegram/dm/7", 1] = ClaimLost("somebody younger")
    world.open()
    for _ in range(4):
        world.hear(LONG)
        await world.rest(6_000)
    assert (platform.asked, len(world.db.verbs("intend"))) == ([], 1)


@lives
async def test_a_hold_is_asked_for_again_before_it_is_too_short_for_a_request(world):
    platform = world.add_channel()
    world.open()
    for _ in range(12):
        world.hear(LONG)
        await world.rest(2_000)
    held = [at for at, verb, *_ in world.db.calls if verb == "intend"]
    assert len(platform.asked) == 12
    assert len(held) > 1
    for at in platform.times:
        since = max(one for one in held if one <= at)
        assert at + WRITE_WAIT_MS + QUIET_MS <= since + HOLD_MS
    assert len({id_ for _, id_, _ in world.db.verbs("intend")}) == 1, "one draft"


# --- outcomes --------------------------------------------------------------------------------------


@lives
async def test_a_draft_that_somebody_deleted_is_not_edited_again(world):
    platform = world.add_channel()
    platform.moves = [Sent("r1"), Declined("message to edit not found")]
    world.open()
    for _ in range(4):
        world.hear(LONG)
        await world.rest(3_000)
    assert platform.done == ["send", "edit"]


@lives
async def test_a_chat_that_takes_no_draft_is_asked_once(world):
    platform = world.add_channel()
    platform.moves = [Declined("the bot was blocked")]
    world.open()
    for _ in range(4):
        world.hear(LONG)
        await world.rest(6_000)
    assert platform.done == ["send"]
    assert [more for _, _, more in world.db.verbs("note")] == [(None, "")]


@pytest.mark.parametrize("outcome", [Doubtful("lost"), Sent("")], ids=["no answer", "no id"])
def test_a_draft_that_may_stand_there_is_kept_as_unknown_and_not_posted_again(world, outcome):
    async def scenario():
        platform = world.add_channel()
        platform.moves = [outcome]
        world.open()
        for _ in range(4):
            world.hear(LONG)
            await world.rest(6_000)
        assert platform.done == ["send"]
        assert [more for _, _, more in world.db.verbs("note")] == [(DraftState.UNKNOWN, "")]

    runs(world, scenario)


@lives
async def test_a_draft_that_was_not_posted_is_withdrawn_and_intended_anew(world):
    """Otherwise a crash before the next attempt would leave one on record that may stand in the chat."""
    platform = world.add_channel()
    platform.moves = [NotSent("away")]
    world.open()
    world.hear(LONG)
    await world.rest(TROUBLE_MS + 1_000)
    assert platform.done == ["send", "send"]
    assert [verb for verb, *_ in world.db.verbs("intend", "note")] == ["intend", "note", "intend", "note"]
    withdrawn, standing = [more for _, _, more in world.db.verbs("note")]
    assert (withdrawn, standing) == ((None, ""), (DraftState.STANDING, "r2"))


@lives
async def test_an_id_that_could_not_be_kept_is_not_edited(world):
    """The store has it as intended: the next process treats it as unknown, so nothing may rely on the id."""
    platform = world.add_channel()
    world.db.fails = ["note"] * KEEP_ATTEMPTS_MAX
    world.open()
    for _ in range(4):
        world.hear(LONG)
        await world.rest(10_000)
    assert platform.done == ["send"]
    assert len(world.db.verbs("note")) == KEEP_ATTEMPTS_MAX


@lives
async def test_an_id_is_kept_though_the_store_is_away_for_a_moment(world):
    platform = world.add_channel()
    world.db.fails = ["note"] * (KEEP_ATTEMPTS_MAX - 1)
    world.open()
    for _ in range(2):
        world.hear(LONG)
        await world.rest(10_000)
    assert platform.done == ["send", "edit"]


@pytest.mark.parametrize(
    ("outcome", "quiet_ms"), [(Doubtful("lost"), QUIET_MS), (Sent("r1"), 0)], ids=["lost again", "heard"]
)
def test_after_an_edit_whose_answer_was_lost_the_reply_waits_a_little(world, outcome, quiet_ms):
    async def scenario():
        platform = world.add_channel()
        platform.moves = [Sent("r1"), Doubtful("lost"), outcome]
        world.open()
        for _ in range(2):
            world.hear(LONG)
            await world.rest(TROUBLE_MS + 1_000)
        world.hear(name="turn.answered")
        await world.rest(100)
        assert platform.done == ["send", "edit", "edit"]
        assert [more for _, _, more in world.db.verbs("release")] == [quiet_ms]

    runs(world, scenario)


@lives
async def test_an_edit_that_is_never_answered_leaves_the_reply_a_quiet_time(world):
    """The channel's code failed, so it is unknown whether the draft arrived."""

    async def fails():
        raise RuntimeError("a fault in the channel's code")

    platform = world.add_channel()
    platform.moves = [Sent("r1"), fails()]
    world.open()
    for _ in range(2):
        world.hear(LONG)
        await world.rest(3_000)
    world.hear(name="turn.answered")
    await world.rest(100)
    assert [more for _, _, more in world.db.verbs("release")] == [QUIET_MS]


@lives
async def test_a_draft_that_another_process_intended_and_never_told_of_is_let_go(world):
    platform = world.add_channel()
    address = Address(agent=MAIN, channel="telegram", type="dm", chat="7")
    unknown = Draft(id="dra_old", fence=1, state=DraftState.UNKNOWN, address=address)  # type: ignore[arg-type]
    world.db.found["ses main/telegram/dm/7", 1] = unknown
    world.open()
    for _ in range(3):
        world.hear(LONG)
        await world.rest(6_000)
    world.hear(name="turn.answered")
    await world.rest(100)
    assert platform.asked == []
    assert world.db.verbs("intend", "release", "note")[1:] == [("release", "dra_old", 0)]


# --- strays ----------------------------------------------------------------------------------------


def stray(chat, channel="telegram"):
    return StrayDraft(id=f"dra_{chat}", address=Address(agent=MAIN, channel=channel, type="dm", chat=chat), receipt="r")


@lives
async def test_strays_are_looked_for_every_minute_and_kept_until_they_are_gone(world):
    platform = world.add_channel()
    began = world.clock.now()
    world.db.strays = [stray(chat) for chat in ("gone", "never", "away")] + [stray("x", "absent")]
    answers: dict[str, list[SendOutcome]] = {
        "gone": [Sent("r")],
        "never": [Declined("too old")],
        "away": [NotSent("away"), Doubtful("lost"), Sent("r")],
    }
    platform.answer = lambda chat: answers[chat].pop(0)
    world.open()
    await world.rest(2 * SWEEP_MS + 1_000)
    looked = [at - began for at, verb, *_ in world.db.calls if verb == "strays"]
    assert looked == [0, SWEEP_MS, 2 * SWEEP_MS]
    assert sorted(chat for _, _, chat, _ in platform.asked) == ["away", "away", "away", "gone", "never"]
    assert sorted(id_ for _, id_, _ in world.db.verbs("drop")) == ["dra_away", "dra_gone", "dra_never"]


@lives
async def test_what_is_under_way_is_cut_off_with_the_drafter(world):
    platform = world.add_channel()
    platform.moves = [world.later(60_000, Sent("r1"))]
    world.open()
    world.hear(LONG)
    await world.rest(100)
    world.drafter.stopping = True
    world.drafter.cut_off()
    await world.rest(WRITE_WAIT_MS + 1_000)
    assert world.db.verbs("note", "release") == [], "the next process finds it unknown"
    assert len(world.drafter._running) == 0


@lives
async def test_what_is_cut_off_before_it_began_leaves_nothing_behind(world):
    """A process that stops while a turn ends: Python would warn of a coroutine that was never awaited."""
    world.add_channel()
    world.open()
    world.hear(LONG)
    await world.rest(5_000)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        world.hear(name=min(END))
        world.drafter.stopping = True
        world.drafter.cut_off()
        await world.rest(100)
        world.loop._tasks.clear()  # this loop keeps them until it is closed; others do not
        gc.collect()
    assert len(world.drafter._running) == 0
    assert [str(one.message) for one in warned] == []
    assert world.db.verbs("release") == [], "its hold passes, and the reply takes its place then"
