"""What the tests of the contract do to a store, as short sentences: say, claim, open, answer, talk, command."""

import re
from collections.abc import Sequence

from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.address import Address
from holdfast.inbox.mailbox import Claim
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Accepted, AcceptOutcome, Arrival, Limits, kind_of
from holdfast.kernel.ids import (
    AgentName,
    MailboxId,
    MessageId,
    NodeId,
    OperationId,
    Principal,
    Provider,
    ReplyId,
    SessionId,
)
from holdfast.memory.delivery import DeliveryPolicy, PerAddress
from holdfast.sessions.command import parse_command
from holdfast.sessions.command_rights import Rank, delete_word
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.compression import COMPRESS, Operation, Summary, SummaryDraft
from holdfast.sessions.history_sql import read_session, trace_message
from holdfast.sessions.session import CommandDone, CommandRun
from holdfast.sessions.summary_sql import begin_operation, commit_summary
from holdfast.store.ports import Database
from holdfast.store.script import Call, Row, rows
from holdfast.testing import ManualClock
from holdfast.turns.context_sql import read_context
from holdfast.turns.journal import AnyBody, AssistantSaid, ToolCall, ToolReturned, ToolStarted, UserSaid
from holdfast.turns.open_turn_sql import open_turn
from holdfast.turns.turn import Committed, NewReply, Step, Turn, TurnCommit, TurnEvent, TurnOpening, TurnRecord, Usage
from holdfast.turns.turn_sql import commit_turn

LIMITS = Limits()
SECRET = b"a secret of the tests"


class Driver:
    """One node and its people. Ids are numbered, so that they sort by the order in which they were made."""

    node = NodeId("node_a")

    def __init__(self, db: Database, clock: ManualClock) -> None:
        self.db = db
        self.clock = clock
        self.policies: tuple[DeliveryPolicy, ...] = ()
        self._made = 0

    def id(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}_{self._made:06d}"

    # --- accepting

    def arrival(
        self,
        text: str,
        *,
        chat: str = "home",
        who: str = "ada",
        event: str | None = None,
        agent: str = "fern",
        account: str | None = None,
        addressed: bool = True,
        human: bool = True,
        refuse_durably: bool = False,
        channel: str = "http",
        type: str = "chat",
        user: str | None = None,
        rank: Rank = Rank.MEMBER,
        operators: frozenset[str] = frozenset(),
    ) -> Arrival:
        message = MessageId(self.id("msg"))
        return Arrival(
            message=message,
            address=Address(agent=AgentName(agent), channel=channel, type=type, chat=chat, user=user),
            account=account or agent,
            conversation=chat,
            event_id=event or f"event of {message}",
            principal=Principal(who),
            text=text,
            kind=kind_of(text, addressed=addressed),
            human=human,
            reply=ReplyId(self.id("rep")),
            new_mailbox=MailboxId(self.id("box")),
            refuse_durably=refuse_durably,
            rank=rank,
            operators=operators,
        )

    async def accept(self, arrival: Arrival, limits: Limits = LIMITS) -> AcceptOutcome:
        return await self.db.write(accept_message(arrival, limits, SECRET))

    async def say(self, text: str, **options: object) -> MessageId:
        """A message that must be accepted."""
        outcome = await self.accept(self.arrival(text, **options))  # type: ignore[arg-type]
        assert isinstance(outcome, Accepted), outcome
        return outcome.message

    # --- turns

    async def claim(self, chat: str = "home", *, node: NodeId | None = None) -> Claim:
        taken = await self.db.write(claim_mailbox(node or self.node))
        assert taken is not None, "nothing is ready"
        assert taken.address.endswith(f":{chat}"), f"{taken.address} came before {chat}"
        return taken

    async def open(self, claim: Claim, count: int = 1, *, retry: bool = False) -> Turn:
        """A turn over the next `count` messages."""
        mail = await self.db.read(read_mail(claim, limit=count))
        turn = await self.db.write(open_turn(claim, self.opening(mail.session, mail.waiting, retry=retry)))
        assert isinstance(turn, Turn), turn
        return turn

    def opening(self, session: SessionId | None, items: Sequence[object], *, retry: bool = False) -> TurnOpening:
        return TurnOpening(
            session=session or SessionId(self.id("ses")),
            messages=tuple(item.message for item in items),  # type: ignore[attr-defined]
            entries=tuple(item.said() for item in items),  # type: ignore[attr-defined]
            principal=items[0].principal,  # type: ignore[attr-defined]
            human=any(item.human for item in items),  # type: ignore[attr-defined]
            retry=retry,
        )

    def commit(
        self, text: str = "ok", *, event: TurnEvent = TurnEvent.ANSWERED, reason: str | None = None
    ) -> TurnCommit:
        return TurnCommit(
            event=event,
            entries=(AssistantSaid(text=text),),
            replies=(NewReply(id=ReplyId(self.id("rep")), text=text),),
            usage=Usage(tokens_in=10, tokens_out=5, estimated_in=10),
            reason=reason,
            policies=self.policies,
        )

    async def answer(self, claim: Claim, turn: Turn, text: str = "ok") -> Committed:
        return await self.db.write(commit_turn(claim, turn, self.commit(text)))

    async def talk(
        self, text: str, reply: str | None = None, *, chat: str = "home", who: str = "ada", **options: object
    ) -> Turn:
        """A whole turn, from a message to its reply."""
        await self.say(text, chat=chat, who=who, **options)
        claim = await self.claim(chat)
        turn = await self.open(claim)
        await self.answer(claim, turn, reply or f"re: {text}")
        await self.db.write(release_claim(claim))
        return turn

    async def chat(self, *texts: str, chat: str = "home") -> SessionId:
        """Several turns; the session they are in."""
        turns = [await self.talk(text, chat=chat) for text in texts]
        return turns[-1].session

    # --- commands

    def command_run(self, message: MessageId, text: str, *, who: str = "ada", answer: str | None = None) -> CommandRun:
        command = parse_command(text)
        assert command is not None
        return CommandRun(
            message=message,
            command=command,
            principal=Principal(who),
            new_session=SessionId(self.id("ses")),
            operation=OperationId(self.id("op")),
            reply=ReplyId(self.id("rep")),
            answer=answer,
            policies=self.policies,
        )

    async def command(self, text: str, *, chat: str = "home", who: str = "ada", **options: object) -> CommandDone:
        """A whole command, from its message to its reply."""
        message = await self.say(text, chat=chat, who=who, **options)
        claim = await self.claim(chat)
        done = await self.db.write(run_command(claim, self.command_run(message, text, who=who)))
        await self.db.write(release_claim(claim))
        return done

    async def delete(self, *, chat: str = "home", who: str = "ada") -> CommandDone:
        """`/delete`, and the word that it asks for."""
        asked = await self.command("/delete", chat=chat, who=who)
        return await self.command(confirmed(asked.text), chat=chat, who=who)

    async def delete_text(self, session: SessionId, who: str = "ada") -> str:
        """What deletes the session as it stands, without asking first."""
        return f"/delete {delete_word(session, (await self.db.read(read_session(session))).committed_seq, who)}"

    # --- summaries

    async def begin(self, session: SessionId, *, node: NodeId | None = None) -> Operation:
        operation = OperationId(self.id("op"))
        begun = await self.db.write(begin_operation(operation, COMPRESS, session, node or self.node))
        assert isinstance(begun, Operation), begun
        return begun

    async def draft(self, session: SessionId, *, through: int | None = None, text: str = "so far") -> SummaryDraft:
        context = await self.db.read(read_context(session))
        return SummaryDraft(
            base_n=context.summary.n if context.summary else 0,
            undo_count=context.undo_count,
            covers_from=context.covers_through + 1,
            covers_through=through or context.committed_seq,
            head_seq=context.last_seq,
            text=text,
            model="practice",
        )

    async def summarise(self, session: SessionId, *, through: int | None = None, text: str = "so far") -> Summary:
        operation = await self.begin(session)
        return await self.db.write(commit_summary(operation, await self.draft(session, through=through, text=text)))

    # --- looking

    async def texts(self, session: SessionId) -> list[str]:
        """What the model would see after the summary."""
        return [entry.text for entry in (await self.db.read(read_context(session))).entries]

    async def rows(self, sql: str, **params: object) -> list[Row]:
        return await self.db.read(Call("look", lambda: rows(sql, **params)))

    async def write(self, sql: str, **params: object) -> None:
        """What a loop would do; used for the dispatcher."""
        await self.db.write(Call("poke", lambda: rows(sql, **params)))

    async def state(self, message: MessageId) -> str:
        return (await self.db.read(trace_message(message))).state.value


def confirmed(text: str) -> str:
    """What to send after the answer to a first `/delete`."""
    found = re.search(r"send: (/delete \w{4})$", text)
    assert found is not None, text
    return found[1]


def address_of(chat: str, agent: str = "fern") -> str:
    return str(Address(agent=AgentName(agent), channel="http", type="chat", chat=chat))


def retain(provider: str = "mem", *, every_turns: int = 1) -> DeliveryPolicy:
    return DeliveryPolicy(provider=Provider(provider), every_turns=every_turns, naming=PerAddress())


def tool_step(call: str = "c1") -> Step:
    body = AssistantSaid(text="let me look", calls=(ToolCall(id=call, name="clock"),))
    return Step(event=TurnEvent.CALLED, entries=(body,))


def started(call: str = "c1") -> Step:
    return Step(event=TurnEvent.STEPPED, entries=(ToolStarted(call=call, name="clock"),))


def returned(call: str = "c1", text: str = "noon") -> Step:
    return Step(event=TurnEvent.RETURNED, entries=(ToolReturned(call=call, name="clock", text=text),))


def record(
    key: str,
    *,
    session: str = "hermes-1",
    text: str = "hello",
    agent: str = "fern",
    place: str = "desk",
    who: str = "ada",
    purpose: str = "conversation",
    parent: str | None = None,
    expected_seq: int | None = None,
    policies: tuple[DeliveryPolicy, ...] = (),
) -> TurnRecord:
    entries: tuple[AnyBody, ...] = (UserSaid(text=text, principal=who), AssistantSaid(text=f"re: {text}"))
    return TurnRecord(
        session=SessionId(session),
        agent=agent,
        key=key,
        entries=entries,
        principal=Principal(who),
        place=place,
        purpose=purpose,
        parent=SessionId(parent) if parent else None,
        expected_seq=expected_seq,
        policies=policies,
    )
