"""The gateway: makes a received message durable before its channel acknowledges it."""

import os
from dataclasses import replace
from pathlib import Path

from holdfast.audit.action import PROGRAM
from holdfast.audit.actor import acting
from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.address import check_part
from holdfast.inbox.message import (
    Accepted,
    AcceptOutcome,
    Arrival,
    Duplicate,
    Limits,
    MessageKind,
    check_text,
    kind_of,
)
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput, TooManyHops
from holdfast.kernel.ids import MailboxId, MessageId, ReplyId
from holdfast.kernel.notifier import Event, Topic
from holdfast.memory.delivery import NOWHERE, CallerDirectory
from holdfast.sessions.command_rights import Rank
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.worker import TurnLimit

PATH_CHARS_MAX = 4_096
REPOSITORY_MARK = ".git"  # a directory, or a file in a worktree


class Gateway:
    def __init__(self, ports: Ports, agents: Agents) -> None:
        self._ports = ports
        self._agents = agents
        self.turn_limit = TurnLimit()  # observed by the worker of this process

    def new_message(self) -> MessageId:
        """An id for a message, so that its caller can subscribe before accepting it."""
        return MessageId(self._ports.new_id("msg"))

    async def accept(self, arrival: Arrival) -> AcceptOutcome:
        """Accept a message; it is durable once this returns `Accepted`.

        A message that can never be accepted is recorded as refused (`Unfit`) if its platform cannot report the error.
        Otherwise this raises and writes nothing.
        """
        policy = self._agents.policy(arrival.address.agent)
        if arrival.hop > policy.hops_max:
            raise TooManyHops(
                f"the message went from agent to agent {arrival.hop} times; the limit is {policy.hops_max}"
            )
        arrival = self._completed(_as_kept(arrival, policy.limits), policy.access.operators)
        began = self._ports.clock.now()
        via = acting() if arrival.kind is MessageKind.SIGNAL else PROGRAM  # other messages perform no privileged act
        outcome = await self._ports.db.write(accept_message(arrival, policy.limits, self._ports.secret, via))
        now = self._ports.clock.now()
        self.turn_limit.accepted(now, now - began)
        if isinstance(outcome, Accepted):
            log.info(
                "accept.accepted",
                message=outcome.message,
                mailbox=outcome.mailbox,
                behind=outcome.queued_behind,
            )
            self._ports.notifier.publish(
                Event(
                    name="message.accepted",
                    mailbox=outcome.mailbox,
                    messages=(outcome.message,),
                    fields={"agent": arrival.address.agent},
                )
            )
            self._ports.notifier.wake(Topic.MAIL)  # for signals too: /stop ends a retry delay
            if arrival.kind is MessageKind.SIGNAL:
                self._ports.notifier.wake(Topic.REPLY)
        elif not isinstance(outcome, Duplicate):
            log.info("accept.refused", address=str(arrival.address), outcome=type(outcome).__name__)
        return outcome

    def _completed(self, arrival: Arrival, operators: frozenset[str]) -> Arrival:
        """The message with its defaults, its kind and its ids. Raises `InvalidName` for a malformed id or sender."""
        message = arrival.message or self.new_message()
        suffix = message.partition("_")[2]  # unique, so one draw of an id serves for all
        kind = kind_of(arrival.text, addressed=arrival.addressed, human=arrival.human)
        check_part("message id", arrival.event_id)
        check_part("sender", arrival.principal)
        return replace(
            arrival,
            message=message,
            kind=kind,
            account=arrival.account or arrival.address.agent,
            conversation=arrival.conversation or arrival.address.chat,
            rank=arrival.rank if kind in {MessageKind.COMMAND, MessageKind.SIGNAL} else Rank.MEMBER,
            reply=ReplyId(f"rep_{suffix}"),
            new_mailbox=MailboxId(f"box_{suffix}"),
            operators=operators,
        )


def _as_kept(arrival: Arrival, limits: Limits) -> Arrival:
    """The message itself, or the record of a message that cannot be stored, which never has its text."""
    try:
        if not arrival.unfit:
            check_text(arrival.text, limits)
            return arrival
        unfit = arrival.unfit
    except InvalidInput as error:
        if not arrival.refuse_durably:
            raise
        unfit = error.code
    return replace(arrival, text="", unfit=unfit, enclosures=())


def locate(directory: Path | str | None) -> CallerDirectory:
    """A caller's working directory and the repository around it. Raises `InvalidInput` for an impossible path.

    The path is absolute and free of symbolic links, so two directories never share a name.
    """
    if directory is None or not str(directory):
        return NOWHERE
    try:
        path = Path(directory).expanduser().resolve()
        repo = next((above for above in (path, *path.parents) if (above / REPOSITORY_MARK).exists()), None)
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, an unknown home, a NUL byte
        raise InvalidInput(f"the directory {str(directory)[:80]!r} cannot be found: {error}") from error
    return CallerDirectory(_text(path), _text(repo) if repo is not None else "")


def _text(path: Path) -> str:
    """The path as text. A path that is not UTF-8 is written in hexadecimal, which no absolute path resembles."""
    try:
        text = str(path)
        text.encode()
    except UnicodeEncodeError:
        text = f"bytes:{os.fsencode(path).hex()}"
    if len(text) > PATH_CHARS_MAX:
        raise InvalidInput(f"the directory has {len(text)} characters; the limit is {PATH_CHARS_MAX}")
    return text
