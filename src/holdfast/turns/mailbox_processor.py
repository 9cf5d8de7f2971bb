"""The mailbox processor: processes the items of one claimed mailbox in order until the mailbox is empty.

It chooses the session of an item when it processes the item: commands switch the session, messages use it.
"""

from collections.abc import Callable
from itertools import takewhile

from msgspec.structs import replace

from holdfast.inbox.mailbox import Claim, Mail
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel import log
from holdfast.kernel.errors import AgentNotFound, InvariantBroken
from holdfast.kernel.ids import OperationId, Principal, ReplyId, SessionId
from holdfast.kernel.notifier import Event, Topic
from holdfast.sessions import system_messages
from holdfast.sessions.command import Command, CommandVerb, help_text
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.compressor import Compressor
from holdfast.sessions.session import CommandDone, CommandRun
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.journal import UserSaid, effective
from holdfast.turns.open_turn_sql import observe_messages, open_turn
from holdfast.turns.runner import TurnRunner
from holdfast.turns.turn import Committed, Turn, TurnOpening
from holdfast.turns.turn_run import ClaimRun, MailboxWatch
from holdfast.turns.work_sql import MAIL_READ_MAX, EndedTurn, Planner, Work, is_unattended, mail_needed, opening_of

ITEMS_PER_CLAIM_MAX = 32  # then the claim is released, so that no mailbox starves the others


class MailboxProcessor:
    """Implements `Planner`, so that the transactions that claim and end can open the next turn."""

    def __init__(
        self,
        ports: Ports,
        contexts: ContextCache,
        *,
        agents: Agents,
        runner: TurnRunner,
        compressor: Compressor,
    ) -> None:
        self._ports = ports
        self._contexts = contexts
        self._agents = agents
        self._runner = runner
        self._compressor = compressor

    # --- planning, inside a transaction

    def mail_max(self, claim: Claim) -> int:
        try:
            return mail_needed(self._agents.policy(claim.agent).turn)
        except AgentNotFound:
            return 1

    def opening(self, claim: Claim, mail: Mail) -> TurnOpening | None:
        try:
            return opening_of(mail, self._agents.policy(claim.agent).turn, self._new_session)
        except AgentNotFound:
            return None  # `serve` reports it

    # --- serving

    async def serve(self, work: Work, watch: MailboxWatch, enough: Callable[[int], bool]) -> Committed | None:
        """Process the items of a claimed mailbox; return its state if the last transaction released the claim.

        `enough` receives the number of processed items and returns whether to stop.
        """
        claim, taken = work.claim, 0

        def onward() -> Planner | None:
            return None if taken >= ITEMS_PER_CLAIM_MAX or enough(taken) else self

        serving, following = ClaimRun(claim, watch, onward), work
        while onward() is not None:
            taken += 1
            if following.turn is not None and following.context is not None:
                self._contexts.keep(following.context)
                ended = await self._runner.start(serving, following.turn, following.context)
            else:
                mail = await self._read_mail(following)
                if _waits(mail):
                    return None
                ended = await self._take_next(serving, mail)
            if ended is None:  # a command, observed messages, or a turn that now waits for a human
                following = Work(claim=claim)
            elif ended.next is None:
                return ended.committed
            else:
                following = ended.next
        return None

    async def _read_mail(self, work: Work) -> Mail:
        """The mail of a claim; it is read unless the claiming transaction has read as much as is needed."""
        mail = work.mail
        if mail is None or (mail.waiting and mail.waiting[0].kind is MessageKind.OBSERVED):
            mail = await self._ports.db.read(read_mail(work.claim, limit=MAIL_READ_MAX))
        return mail

    async def _take_next(self, serving: ClaimRun, mail: Mail) -> EndedTurn | None:
        """Process one turn, one command or one run of observed messages."""
        if mail.turn is not None:
            return await self._runner.resume(serving, mail.turn)
        claim, head = serving.claim, mail.waiting[0]
        match head.kind:
            case MessageKind.OBSERVED:
                run = list(takewhile(lambda item: item.kind is MessageKind.OBSERVED, mail.waiting))
                await self._observe(claim, mail, run, held=None)
            case _ if is_unattended(mail, head, self._agents.policy(claim.agent).turn):
                await self._observe(claim, mail, [head], held="loop_guard")
            case MessageKind.COMMAND:
                return await self._command(serving, mail, head)
            case _:
                return await self._open(serving, mail)
        return None

    async def _observe(self, claim: Claim, mail: Mail, run: list[Inbound], *, held: str | None) -> None:
        session = mail.session or self._new_session()
        await self._ports.db.write(observe_messages(claim, session, [item.message for item in run], held=held))
        log.info("message.observed", session=session, count=len(run), held=held)
        self._ports.notifier.publish(
            Event(
                name="message.observed",
                session=session,
                mailbox=claim.mailbox,
                messages=tuple(item.message for item in run),
                fields={"held": held},
            )
        )

    # --- turns

    async def _open(self, serving: ClaimRun, mail: Mail) -> EndedTurn | None:
        claim = serving.claim
        opening = opening_of(mail, self._agents.policy(claim.agent).turn, self._new_session)
        if opening is None:
            raise InvariantBroken(f"the first message of {claim.mailbox} opens no turn", mailbox=claim.mailbox)
        turn = await self._ports.db.write(open_turn(claim, opening))
        if isinstance(turn, NotAllowed):
            raise InvariantBroken(f"plain messages of {claim.mailbox} were refused as a command ({turn.code})")
        return await self._start(serving, turn)

    async def _start(self, serving: ClaimRun, turn: Turn) -> EndedTurn | None:
        return await self._runner.start(serving, turn, await self._contexts.read(turn.session))

    async def _retry(self, claim: Claim, mail: Mail, head: Inbound) -> Turn | str:
        """Undo the last turn and open a new one that the /retry message owns; return the reason if that is impossible.

        The new turn belongs to the person whose words are answered again, not to the sender of /retry, and has the
        tools of the undone turn.
        """
        if mail.session is None:
            return system_messages.NOTHING_TO_RETRY
        context = await self._contexts.read(mail.session)
        spoken = [entry for entry in effective(context.entries) if isinstance(entry.body, UserSaid)]
        if not spoken:
            return system_messages.NOTHING_TO_RETRY
        last_turn = spoken[-1].turn
        said = [one.body for one in spoken if one.turn == last_turn and isinstance(one.body, UserSaid)]
        again = tuple(replace(body, message=head.message, event_id=head.event_id) for body in said)
        opening = TurnOpening(
            session=mail.session,
            messages=(head.message,),
            entries=again,
            principal=Principal(again[-1].principal),
            human=head.human,
            retry=True,
            retried_by=head.principal,
            operators=self._agents.policy(claim.agent).access.operators,
            where=head.where,
            repeats=(SessionId(spoken[-1].session or mail.session), last_turn),
        )
        turn = await self._ports.db.write(open_turn(claim, opening))
        return turn.text if isinstance(turn, NotAllowed) else turn

    # --- commands

    async def _command(self, serving: ClaimRun, mail: Mail, head: Inbound) -> EndedTurn | None:
        claim, command = serving.claim, head.command or Command(CommandVerb.HELP)
        answer = None
        match command.verb:
            case CommandVerb.RETRY:
                retried = await self._retry(claim, mail, head)
                if isinstance(retried, Turn):
                    return await self._start(serving, retried)
                answer = retried
            case CommandVerb.HELP:
                answer = help_text()
            case CommandVerb.COMPRESS if head.human:  # `run_command` refuses programs
                answer = await self._compress(claim, mail, command)
        done = await self._ports.db.write(run_command(claim, self._run(claim, head, command, answer)))
        for topic in (Topic.DELIVERY, Topic.FINISH, Topic.REPLY):
            self._ports.notifier.wake(topic)
        if done.switched and mail.session is not None:
            self._runner.left(mail.session)
        self._tell(claim, mail, head, command, done)
        return None

    async def _compress(self, claim: Claim, mail: Mail, command: Command) -> str:
        if mail.session is None:
            return system_messages.NO_SESSION
        result = await self._compressor.compress(
            mail.session, claim.agent, focus=command.argument, forced=True, insisted=True
        )
        if result.summary is not None:
            return (
                f"Compressed entries {result.summary.covers_from} to {result.summary.covers_through} into "
                f"{mail.session}.snapshot.{result.summary.n}. The session stays the same."
            )
        return f"Nothing was compressed ({result.outcome}): {result.reason}."

    def _run(self, claim: Claim, head: Inbound, command: Command, answer: str | None) -> CommandRun:
        return CommandRun(
            message=head.message,
            command=command,
            principal=head.principal,
            new_session=self._new_session(),
            operation=OperationId(self._ports.new_id("op")),
            reply=ReplyId(self._ports.new_id("rep")),
            answer=answer,
            policies=self._agents.policy(claim.agent).deliveries,
            operators=self._agents.policy(claim.agent).access.operators,
        )

    def _tell(self, claim: Claim, mail: Mail, head: Inbound, command: Command, done: CommandDone) -> None:
        known = {"command": command.verb.value, "session": done.session}
        if done.refused:
            log.info("command.refused", **known, code=done.refused)
        else:
            log.info("command.done", **known, switched=done.switched)
        if command.verb is CommandVerb.BRANCH and done.switched:
            log.info("session.branched", session=done.session, parent=mail.session)
        self._ports.notifier.publish(
            Event(
                name="command.done",
                session=done.session or "",
                mailbox=claim.mailbox,
                messages=(head.message,),
                text=done.text,
                fields={"command": command.verb.value, "switched": done.switched},
            )
        )

    def _new_session(self) -> SessionId:
        return SessionId(self._ports.new_id("ses"))


def _waits(mail: Mail) -> bool:
    """Whether there is nothing to do: no item waits, the agent is paused, or the open turn waits for a human.

    Later mail waits behind such a turn; the claim is released meanwhile (D9).
    """
    return mail.turn.waits if mail.turn is not None else mail.is_paused or not mail.waiting
