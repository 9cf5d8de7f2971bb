"""Stories about one message, told to a store by hand: each ends with the message whose trace is shown."""

from dataclasses import replace
from typing import Any

from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Limits
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    ForgetId,
    Instant,
    MessageId,
    NodeId,
    Principal,
    Provider,
    ReplyId,
)
from holdfast.kernel.vendor_error import VendorError
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, PerAddress
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.lane import LaneKey, Settlement, untried
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import NOBODY_KNOWS, ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, settle_reply
from holdfast.sessions.compression import COMPRESS
from holdfast.sessions.summary_sql import begin_operation, end_operation
from holdfast.store.node_sql import reap_nodes, register_node, retire_node
from holdfast.turns.activity import Activity, ActivityKind
from holdfast.turns.approval import ApprovalAsk, Decision
from holdfast.turns.journal import AssistantSaid, ToolCall, ToolReturned, ToolStarted
from holdfast.turns.turn import OutgoingMessage, Step, TurnEvent, Usage
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn

FERN = AgentName("fern")
FILES = Provider("files")
NOTES = "memory"  # the tool
CALL = ToolCall(id="call_1", name="lookup_order", arguments='{"order": "B-1077"}')


class Story:
    """The same store and clock as the driver's, with activities of the turn."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.db, self.clock = driver.db, driver.clock
        self.node = driver.node

    def passes(self, ms: int) -> Instant:
        self.clock.advance(ms)
        now: Instant = self.clock.now()
        return now

    def did(self, kind: ActivityKind, name: str, took_ms: int, outcome: str, **more: Any) -> Activity:
        began = self.clock.now()
        return Activity(kind=kind, name=name, started_at=began, ended_at=self.passes(took_ms), outcome=outcome, **more)

    def asked_model(self, took_ms: int = 700, outcome: str = "answered", **more: Any) -> Activity:
        detail = {"parts": {"instructions": 20, "conversation": 100}}
        about = {"tokens_in": 812, "tokens_out": 40, "detail": detail} | more
        return self.did(ActivityKind.MODEL, "claude-sonnet-5", took_ms, outcome, **about)

    async def says(self, text: str = "Where is order B-1077?", **options: Any) -> MessageId:
        message: MessageId = await self.driver.say(text, **options)
        return message

    async def begins(self, wait_ms: int = 12, *, node: NodeId | None = None):
        self.passes(wait_ms)
        claim = await self.driver.claim(node=node)
        return claim, await self.driver.open(claim)

    async def answers(self, claim: Any, turn: Any, *done: Activity, event: TurnEvent = TurnEvent.ANSWERED, **how: Any):
        tokens_in, tokens_out = (sum(getattr(one, name) or 0 for one in done) for name in ("tokens_in", "tokens_out"))
        usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out, estimated_in=0)
        commit = self.driver.commit("It left yesterday.", event=event, **how)
        commit = replace(commit, activities=done, usage=usage)
        committed = await self.db.write(commit_turn(claim, turn, commit))
        await self.db.write(release_claim(claim))
        return committed

    async def step(self, claim: Any, turn: Any, event: TurnEvent, *entries: Any, **more: Any):
        return await self.db.write(append_step(claim, turn, Step(event=event, entries=entries, **more)))

    async def calls(self, claim: Any, turn: Any) -> Any:
        """The model asks for a tool."""
        asked = self.asked_model(600, "called tools")
        return await self.step(
            claim, turn, TurnEvent.CALLED, AssistantSaid(text="", calls=(CALL,)), activities=(asked,)
        )

    async def sends(self, state: ReplyState, took_ms: int = 300, **outcome: Any) -> None:
        (claim,) = await self.db.write(
            claim_replies(self.node, FERN, "telegram", name=self.driver.id("claim"), limit=1)
        )
        self.passes(took_ms)
        part = 1 if state is ReplyState.DELIVERED else 0
        settled = ReplySettlement(state=state, part=part, doubts=outcome.pop("doubts", 0), **outcome)
        await self.db.write(settle_reply(claim, settled))

    async def delivers(self, provider: str, state: DeliveryState, took_ms: int = 90, **outcome: Any) -> None:
        """Settle the delivery of the chat `home`."""
        await self._delivers(provider, state, took_ms, at_home=True, **outcome)

    async def delivers_other(self, provider: str, state: DeliveryState, **outcome: Any) -> None:
        """Settle the delivery of another chat."""
        await self._delivers(provider, state, 90, at_home=False, **outcome)

    async def _delivers(
        self, provider: str, state: DeliveryState, took_ms: int, *, at_home: bool, **outcome: Any
    ) -> None:
        key, name = LaneKey(FERN, Provider(provider)), self.driver.id("lane")
        lanes = await self.db.write(claim_lanes(self.node, key, name=name, lanes=2, renderer="r/1"))
        self.passes(took_ms)
        for lane in lanes:
            n, is_home = lane.packages[0].n, lane.place.endswith(":home")
            settled = Settlement(n=n, state=state, **outcome) if is_home == at_home else untried(lane.packages[0])
            await self.db.write(settle_lanes([(lane, [settled])]))


def retain(*providers: str) -> tuple[DeliveryPolicy, ...]:
    return tuple(DeliveryPolicy(provider=Provider(name), naming=PerAddress()) for name in providers)


async def answered_over_http(story: Story) -> MessageId:
    story.driver.policies = retain("local", "honcho")
    message = await story.says(event="42")
    claim, turn = await story.begins()
    recall = story.did(
        ActivityKind.RECALL, "local", 9, "shown", detail={"found": 5, "shown": 3, "took_ms": {"local": 9}}
    )
    await story.answers(claim, turn, recall, story.asked_model())
    await story.delivers("local", DeliveryState.DELIVERED, receipt="row 7")
    await story.delivers("honcho", DeliveryState.DELIVERED, 3_100, receipt="msg_9")
    return message


async def refused(story: Story) -> MessageId:
    limits = Limits(window_messages_max=1)
    await story.driver.accept(story.driver.arrival("one", channel="telegram"), limits)
    arrival = story.driver.arrival("two", channel="telegram", event="43", refuse_durably=True)
    await story.driver.accept(arrival, limits)
    message: MessageId = arrival.message
    return message


async def sent_twice(story: Story) -> MessageId:
    message = await story.says(event="42")
    story.passes(500)
    await story.driver.accept(story.driver.arrival("Where is order B-1077?", event="42"))
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    return message


async def waiting_behind_a_compression(story: Story) -> MessageId:
    await story.driver.talk("hello")
    before = await story.says("Summarise what we know.")
    claim, turn = await story.begins()
    message = await story.says()
    story.passes(40)
    operation = await story.db.write(begin_operation(story.driver.id("op"), COMPRESS, turn.session, story.node))
    story.passes(31_000)
    await story.db.write(end_operation(operation, "done", {}))
    waited = Activity(
        kind=ActivityKind.COMPRESSION,
        name="summary",
        started_at=operation.started_at,
        ended_at=story.clock.now(),
        outcome="fits",
    )
    await story.answers(claim, turn, waited, story.asked_model())
    assert before != message
    claim, turn = await story.begins(3)
    await story.answers(claim, turn, story.asked_model())
    return message


async def waiting_now(story: Story) -> MessageId:
    await story.says("Summarise what we know.")
    await story.begins()
    message = await story.says()
    story.passes(4_000)
    return message


async def in_an_interrupted_turn(story: Story) -> MessageId:
    message = await story.says()
    claim, turn = await story.begins()
    cut = story.asked_model(2_000, "interrupted", tokens_in=None, tokens_out=None)
    await story.answers(claim, turn, cut, event=TurnEvent.INTERRUPTED, reason="stopped by /stop")
    return message


async def resumed_after_a_kill(story: Story) -> MessageId:
    other = NodeId("node_b")
    message = await story.says()
    claim, turn = await story.begins()
    turn = await story.calls(claim, turn)
    turn = await story.step(claim, turn, TurnEvent.STEPPED, ToolStarted(call=CALL.id, name=CALL.name), starts=CALL)
    story.passes(20_000)  # the process dies while the tool runs
    await story.db.write(register_node(other, "there", sole=False))
    await story.db.write(reap_nodes(lease_ms=15_000))
    story.node = story.driver.node = other
    claim = await story.db.write(claim_mailbox(other))
    turn = await story.db.write(resume_turn(claim, turn))
    unknown = ToolReturned(call=CALL.id, name=CALL.name, text="unknown", outcome="unknown")
    turn = await story.step(claim, turn, TurnEvent.RETURNED, unknown)
    await story.answers(claim, turn, story.asked_model())
    return message


async def gateway_dead_now(story: Story) -> MessageId:
    message = await story.says()
    claim, turn = await story.begins()
    await story.calls(claim, turn)
    story.passes(5_000)
    watcher = NodeId("node_of_a_command")  # a command that looks in, and ends
    await story.db.write(register_node(watcher, "here", sole=True))
    await story.db.write(retire_node(watcher))
    story.passes(60_000)
    return message


async def answered_with_an_uncertain_reply(story: Story) -> MessageId:
    message = await story.says(channel="telegram", event="881")
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    await story.sends(ReplyState.PENDING, 10_000, doubts=1, reason="no answer within 10 s", delay_ms=1_000)
    story.passes(1_000)
    await story.sends(
        ReplyState.UNCERTAIN,
        10_000,
        doubts=2,
        reason=f"{NOBODY_KNOWS}: no answer within 10 s",
        vendor=VendorError(status=502, request_id="req_77"),
    )
    return message


async def parked_at_one_provider(story: Story) -> MessageId:
    story.driver.policies = retain("local", "hindsight")
    message = await story.says()
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    await story.delivers("local", DeliveryState.DELIVERED, receipt="row 7")
    dimension = VendorError(status=500, request_id="req_12", code="embedding", extract="embedding dimension mismatch")
    scheduled, why = DeliveryState.SCHEDULED, "the server failed"
    await story.delivers("hindsight", scheduled, reason=why, failing=True, vendor=dimension, delay_ms=1_000)
    story.passes(1_000)
    await story.delivers("hindsight", DeliveryState.PARKED, reason="it is refused", vendor=dimension)
    return message


async def undone(story: Story) -> MessageId:
    story.driver.policies = retain("local")
    message = await story.says()
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    story.passes(60_000)
    await story.driver.command("/undo")
    return message


async def forgotten(story: Story) -> MessageId:
    message = await story.says()
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    story.passes(3_600_000)
    request = ForgetRequest(id=ForgetId("forget_1"), agent=FERN, person=Principal("ada"))
    await story.db.write(begin_forgetting(request))
    return message


async def waiting_for_approval(story: Story) -> MessageId:
    message = await story.says()
    claim, turn = await story.begins()
    turn = await story.calls(claim, turn)
    ask = ApprovalAsk(
        ids=(ApprovalId("K7M2QX"),), call=CALL, reply=ReplyId(story.driver.id("ask")), wait_ms=300_000, salt=b"0" * 16
    )
    await story.step(claim, turn, TurnEvent.ASKED, ask=ask)
    await story.db.write(release_claim(claim))
    story.passes(51_000)
    return message


async def approved(story: Story) -> MessageId:
    message = await waiting_for_approval(story)
    await story.driver.say("/approve K7M2QX", who="ada")
    claim = await story.db.write(claim_mailbox(story.node))
    turn = (await story.db.read(read_mail(claim, limit=1))).turn
    assert turn is not None
    assert turn.approval is not None
    assert turn.approval.decision is Decision.APPROVED
    turn = await story.db.write(resume_turn(claim, turn))
    turn = await story.step(claim, turn, TurnEvent.DECIDED, ToolStarted(call=CALL.id, name=CALL.name), starts=CALL)
    ran = story.did(ActivityKind.TOOL, CALL.name, 400, "ok", call=CALL.id)
    returned = ToolReturned(call=CALL.id, name=CALL.name, text="sent", outcome="ok")
    turn = await story.step(claim, turn, TurnEvent.RETURNED, returned, activities=(ran,))
    await story.answers(claim, turn, story.asked_model())
    return message


async def kept_a_note(story: Story) -> MessageId:
    """The model called the tool for notes, and the provider of MEMORY.md has the note."""
    call = ToolCall(id="call_1", name=NOTES, arguments="{}")
    story.driver.policies = retain("local")
    message = await story.says("My cat is called Byron: remember it.")
    claim, turn = await story.begins()
    called = AssistantSaid(text="", calls=(call,))
    turn = await story.step(claim, turn, TurnEvent.CALLED, called, activities=(story.asked_model(600, "called tools"),))
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.USER, text="The cat is called Byron.")
    batch = MemoryBatch(
        agent=FERN,
        subject="ada",
        origin=f"tool:{turn.session}:{turn.n}:{call.id}",
        changes=(change,),
        principal=Principal("ada"),
        policies=(DeliveryPolicy(provider=FILES, turns=False, memory=True),),
        session=turn.session,
        fence=claim.fence,
    )
    await story.db.write(apply_memory(batch))
    ran = story.did(ActivityKind.TOOL, NOTES, 4, "ok", call=call.id)
    returned = ToolReturned(call=call.id, name=NOTES, text="kept", outcome="ok")
    turn = await story.step(claim, turn, TurnEvent.RETURNED, returned, activities=(ran,))
    await story.answers(claim, turn, story.asked_model())
    await story.delivers("local", DeliveryState.DELIVERED, receipt="row 7")
    key, name = LaneKey(FERN, FILES), story.driver.id("lane")
    (lane,) = await story.db.write(claim_lanes(story.node, key, name=name, lanes=1, renderer="r/1"))
    story.passes(2)
    settled = Settlement(n=lane.packages[0].n, state=DeliveryState.DELIVERED, receipt="USER.md 1")
    await story.db.write(settle_lanes([(lane, [settled])]))
    return message


async def handed_to_another_agent(story: Story) -> MessageId:
    message = await story.says()
    claim, turn = await story.begins()
    turn = await story.calls(claim, turn)
    out = OutgoingMessage(address="agent:moss:agent:dm:fern", text="Where is B-1077?", id=ReplyId("rep_000777"))
    returned = ToolReturned(call=CALL.id, name=CALL.name, text="sent", outcome="ok")
    turn = await story.step(claim, turn, TurnEvent.RETURNED, returned, outgoing=(out,))
    await story.answers(claim, turn, story.asked_model())
    return message


STORIES = {
    story.__name__: story
    for story in (
        answered_over_http,
        refused,
        sent_twice,
        waiting_behind_a_compression,
        waiting_now,
        in_an_interrupted_turn,
        resumed_after_a_kill,
        gateway_dead_now,
        answered_with_an_uncertain_reply,
        parked_at_one_provider,
        undone,
        forgotten,
        waiting_for_approval,
        approved,
        handed_to_another_agent,
        kept_a_note,
    )
}
