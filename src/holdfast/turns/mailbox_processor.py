"""The mailbox processor: processes the items of one claimed mailbox in order until the mailbox is empty.

It chooses the session of an item when it processes the item: commands switch the session, messages use it.
"""

from collections.abc import Callable
from itertools import takewhile

from holdfast.inbox.mail_sql import read_mail
from holdfast.inbox.mailbox import Claim, Mail, take
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel import log
from holdfast.kernel.errors import InvariantBroken
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
from holdfast.turns.runner import TurnRunner
from holdfast.turns.turn import TurnOpening
from holdfast.turns.turn_sql import observe_messages, open_turn

MAIL_READ_MAX = 64
ITEMS_PER_CLAIM_MAX = 32  # then the claim is released, so that no mailbox starves the others


class MailboxProcessor:
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

    async def serve(self, claim: Claim, enough: Callable[[int], bool]) -> None:
        """`enough` receives the number of processed items and returns whether to stop."""
        for taken in range(ITEMS_PER_CLAIM_MAX):
            if enough(taken):
                return
            mail = await self._ports.db.read(read_mail(claim, limit=MAIL_READ_MAX))
            if not await self._take_next(claim, mail):
                return

    async def _take_next(self, claim: Claim, mail: Mail) -> bool:
        """Process one turn, one command or one run of observed messages.

        Returns False if no item waits, or if the open turn waits for a human.
        """
        if mail.turn is not None and mail.turn.waits:
            return False  # later mail waits behind this turn; the claim is released meanwhile (D9)
        if mail.turn is not None:
            await self._runner.resume(claim, mail.turn)
            return True
        if not mail.waiting:
            return False
        head = mail.waiting[0]
        match head.kind:
            case MessageKind.OBSERVED:
                run = list(takewhile(lambda item: item.kind is MessageKind.OBSERVED, mail.waiting))
                await self._observe(claim, mail, run, held=None)
            case _ if self._is_held(claim, mail, head):
                await self._observe(claim, mail, [head], held="loop_guard")
            case MessageKind.COMMAND:
                await self._command(claim, mail, head)
            case _:
                await self._open(claim, mail, take(mail.waiting, self._agents.policy(claim.agent).turn.arrivals))
        return True

    def _is_held(self, claim: Claim, mail: Mail, head: Inbound) -> bool:
        """The loop guard: too many turns in a row without a human (D12). Among commands, only /retry opens a turn."""
        takes_turn = head.command is None or head.command.verb is CommandVerb.RETRY
        return takes_turn and not head.human and mail.unattended >= self._agents.policy(claim.agent).turn.unattended_max

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

    async def _open(self, claim: Claim, mail: Mail, items: tuple[Inbound, ...]) -> None:
        opening = TurnOpening(
            session=mail.session or self._new_session(),
            messages=tuple(item.message for item in items),
            entries=tuple(item.said() for item in items),
            principal=items[0].principal,
            human=any(item.human for item in items),
            where=items[0].where,
            chain=items[0].chain,
        )
        turn = await self._ports.db.write(open_turn(claim, opening))
        if isinstance(turn, NotAllowed):
            raise InvariantBroken(f"plain messages of {claim.mailbox} were refused as a command ({turn.code})")
        await self._runner.start(claim, turn)

    async def _retry(self, claim: Claim, mail: Mail, head: Inbound) -> str | None:
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
        again = tuple(
            UserSaid(
                text=entry.body.text,
                principal=entry.body.principal,
                message=head.message,
                event_id=head.event_id,
                name=entry.body.name,
            )
            for entry in spoken
            if isinstance(entry.body, UserSaid) and entry.turn == last_turn
        )
        opening = TurnOpening(
            session=mail.session,
            messages=(head.message,),
            entries=again,
            principal=Principal(again[-1].principal),
            human=head.human,
            retry=True,
            operators=self._agents.policy(claim.agent).access.operators,
            where=head.where,
            repeats=(SessionId(spoken[-1].session or mail.session), last_turn),
        )
        turn = await self._ports.db.write(open_turn(claim, opening))
        if isinstance(turn, NotAllowed):
            return turn.text
        await self._runner.start(claim, turn)
        return None

    # --- commands

    async def _command(self, claim: Claim, mail: Mail, head: Inbound) -> None:
        command = head.command or Command(CommandVerb.HELP)
        answer = None
        match command.verb:
            case CommandVerb.RETRY:
                answer = await self._retry(claim, mail, head)
                if answer is None:
                    return
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
            operation=OperationId(self._id("op")),
            reply=ReplyId(self._id("rep")),
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
        return SessionId(self._id("ses"))

    def _id(self, prefix: str) -> str:
        return self._ports.new_id(prefix)
