"""The service as seen by a token that is bound to a sender or to chats, and by a relay (token_binding.py).

Rule 1: for a bound token only its own chats exist. Messages, sessions and approvals of other chats are not found; a
        request that names another chat or sender is refused by the name alone (`TokenBound`).
Rule 2: a method that is not listed here is refused, and so is a request that concerns more than the token's chats.
Rule 3: in a chat with several senders, a bound token reads the messages and replies. The model's context and the tool
        calls are not part of the chat.
Rule 4: a relay may use any sender and any chat, and does not find messages of other tokens by id.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from msgspec import structs as bodies

from holdfast.api.auth.access_token import AccessToken
from holdfast.inbox.address import check_part, parse
from holdfast.inbox.mailbox import MailboxView
from holdfast.inbox.message import AcceptOutcome, Conflict, Duplicate
from holdfast.inbox.message_trace import EnclosureView, MessageTrace
from holdfast.kernel.errors import (
    ApprovalNotFound,
    ForgetNotFound,
    IdempotencyConflict,
    MessageNotFound,
    SessionNotFound,
    TokenBound,
)
from holdfast.kernel.ids import ApprovalId, ForgetId, MessageId, Principal, SessionId
from holdfast.kernel.notifier import Feed
from holdfast.memory.forget import ForgetKind, Forgetting
from holdfast.memory.recall import RecallOutcome
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.views import Delta, Health, Prompt
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.session import ChatLine, Session, no_place_after
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.approvals import Approvals
from holdfast.turns.context import Context
from holdfast.turns.journal import AssistantSaid, EntryView, Recalled, ToolReturned, ToolStarted

PAGE = 1_000


class BoundApprovals:
    """Implements `Approvals` for a bound token; approvals of other chats do not exist."""

    def __init__(self, inner: Approvals, token: AccessToken) -> None:
        self._inner = inner
        self._token = token

    async def list(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        """Read as many approvals as it takes to find `limit` of the token's chats."""
        wanted = max(PAGE, limit)
        while True:
            page = await self._inner.list(decided=decided, agent=agent, limit=wanted)
            found = [one for one in page if self._token.binding.holds(one.address)]
            if len(found) >= limit or len(page) < wanted:
                return found[:limit]
            wanted *= 2

    async def find(self, approval: ApprovalId) -> ApprovalView:
        found = await self._inner.find(approval)
        if not self._token.binding.holds(found.address):
            raise ApprovalNotFound(f"there is no approval {approval[:40]!r}", approval=approval[:40])
        return found

    async def decide(
        self, approval: ApprovalId, decision: Decision, *, by: str = "operator", reason: str = "", digest: str = ""
    ) -> ApprovalView:
        await self.find(approval)
        return await self._inner.decide(approval, decision, by=by, reason=reason, digest=digest)


class BoundService:
    """Implements the part of `Runtime` that a bound token may use."""

    def __init__(self, service: Runtime, token: AccessToken) -> None:
        self._inner = service
        self._token = token
        self._binding = token.binding
        self.approvals = BoundApprovals(service.approvals, token)

    def __getattr__(self, name: str) -> NoReturn:
        refuse(self._token, name)

    def agents(self) -> Sequence[str]:
        return self._inner.agents()

    @property
    def default_agent(self) -> str:
        return self._inner.default_agent

    async def health(self) -> Health:
        return await self._inner.health()

    def new_message(self) -> MessageId:
        return self._inner.new_message()

    async def accept(
        self,
        chat: str,
        text: str,
        *,
        sender: str | None = None,
        **more: Any,  # noqa: ANN401 - as the service takes it
    ) -> AcceptOutcome:
        self._binding.check_chat(chat)
        return await self._inner.accept(chat, text, sender=self._binding.speaker(sender, chat), **more)

    async def unanswered(
        self, chat: str, request: str, *, agent: str | None = None, channel: str = "http"
    ) -> MessageId | None:
        if chat:
            self._binding.check_chat(chat)
        found = await self._inner.unanswered(chat, request, agent=agent, channel=channel)
        return None if found is None else (await self.trace(found)).message

    def listen(self, *, message: str | None = None, mailbox: str | None = None) -> Feed:
        """Ids cannot be guessed; a caller that has one was shown it."""
        if message is None and mailbox is None:
            refuse(self._token, "events")
        return self._inner.listen(message=message, mailbox=mailbox)

    def follow(self, message: MessageId, feed: Feed) -> AsyncIterator[Delta]:
        return self._inner.follow(message, feed)

    async def trace(self, message: MessageId) -> MessageTrace:
        return self._own(await self._inner.trace(message))

    async def message(self, message: MessageId) -> MessageTrace:
        return self._own(await self._inner.message(message))

    def _own(self, found: MessageTrace) -> MessageTrace:
        if not self._binding.holds(found.address):
            raise no_message(found.message)
        return found

    async def sessions(
        self,
        *,
        agent: str | None = None,
        chat: str | None = None,
        channel: str = "http",
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Session]:
        """Sessions, newest first. A chat of another token has no sessions, like a chat that does not exist."""
        await self._check_place(after)
        if chat is not None:
            if not self._binding.allows(check_part("chat", chat)):
                return []
            return await self._inner.sessions(agent=agent, chat=chat, channel=channel, after=after, limit=limit)
        found: list[Session] = []
        while len(found) < limit:
            page = await self._inner.sessions(agent=agent, after=after, limit=PAGE)
            found += [one for one in page if self._binding.holds(one.address)]
            if len(page) < PAGE:
                break
            after = page[-1].id
        return found[:limit]

    async def _check_place(self, after: str) -> None:
        """Raises `SessionNotFound` for a session of another chat, as for a session that does not exist."""
        if after:
            try:
                await self.session(SessionId(after))
            except SessionNotFound:
                raise no_place_after(after) from None

    async def history(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        if await self._is_own(session):
            return await self._inner.history(session, after=after, limit=limit)
        found: list[EntryView] = []
        while len(found) < limit:
            page = await self._inner.history(session, after=after, limit=PAGE)
            found += said_in(page)
            if len(page) < PAGE:
                break
            after = page[-1].entry.seq
        return found[:limit]

    async def context(self, session: SessionId) -> Context:
        await self._check_own(session)
        return await self._inner.context(session)

    async def prompt(self, session: SessionId) -> Prompt:
        await self._check_own(session)
        return await self._inner.prompt(session)

    async def _check_own(self, session: SessionId) -> None:
        if not await self._is_own(session):
            refuse(self._token, "what the model is shown where others speak")

    async def begin_compression(self, session: SessionId) -> Operation:
        await self.session(session)
        return await self._inner.begin_compression(session)

    async def recall(
        self, text: str, *, agent: str | None = None, chat: str = "", sender: str | None = None, channel: str = "http"
    ) -> RecallOutcome:
        """Recall on behalf of the token's sender, or of the chat if the token has no sender."""
        place = chat if chat or self._binding.sender is not None else self._binding.usual_chat("")
        if place:
            self._binding.check_chat(place)
        who = self._binding.speaker(sender, place)
        return await self._inner.recall(text, agent=agent, chat=place, sender=who, channel=channel)

    async def forget(
        self, *, session: str | None = None, person: str | None = None, agent: str | None = None, id: str | None = None
    ) -> Forgetting:
        if session is None:
            refuse(self._token, "forgetting a person")
        await self.session(SessionId(session))
        return await self._inner.forget(session=session, person=person, agent=agent, id=id)

    async def forget_status(self, id: str) -> Forgetting:
        found = await self._inner.forget_status(id)
        missing = ForgetNotFound(f"nothing was asked to be forgotten under {id!r}", forget=ForgetId(id))
        if found.kind is not ForgetKind.SESSION:
            raise missing
        try:
            await self.session(SessionId(found.subject))
        except SessionNotFound:
            raise missing from None
        return found

    async def mailbox(self, address: str) -> MailboxView | None:
        self._token.binding.check_chat(parse(address).chat)
        return await self._inner.mailbox(address)

    async def conversation(self, address: str, *, before: int, limit: int) -> Sequence[ChatLine]:
        self._token.binding.check_chat(parse(address).chat)
        return await self._inner.conversation(address, before=before, limit=limit)

    async def linked(self, principal: Principal) -> Sequence[Principal]:
        """Used to check for whom a caller may speak; the links are not shown."""
        return await self._inner.linked(principal)

    async def session(self, session: SessionId) -> Session:
        found = await self._inner.session(session)
        if not self._token.binding.holds(found.address):
            raise SessionNotFound(f"there is no session {session}", session=session)
        return found

    async def find_attachment(self, hash: str, *, agent: str | None = None) -> EnclosureView | None:  # noqa: ARG002
        """None: only messages of platforms have attachments, and a platform's chat never belongs to a token."""
        return None

    async def snapshot(self, session: SessionId, n: int) -> tuple[Summary, Sequence[EntryView]]:
        is_own = await self._is_own(session)
        summary, covered = await self._inner.snapshot(session, n)
        return summary, covered if is_own else said_in(covered)

    async def _is_own(self, session: SessionId) -> bool:
        """Whether only the token's own person has spoken in the session and in its chat."""
        found = await self.session(session)
        speaker = self._token.binding.speaker(None, parse(found.address or "").chat)
        context = await self._inner.context(session)
        return not context.shared and found.principal in await self._inner.linked(Principal(speaker))

    async def operations(
        self, *, session: SessionId | None = None, after: str = "", limit: int = 1_000
    ) -> Sequence[Operation]:
        if session is None:
            refuse(self._token, "operations of all sessions")
        await self.session(session)
        return await self._inner.operations(session=session, after=after, limit=limit)


class RelayService:
    """The whole service except for the messages of other tokens."""

    def __init__(self, service: Runtime, token: AccessToken) -> None:
        self._inner = service
        self._token = token

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the service
        return getattr(self._inner, name)

    async def trace(self, message: MessageId) -> MessageTrace:
        found = await self._inner.trace(message)
        if not self._token.finds(found.token):
            raise no_message(message)
        return found

    async def accept(self, chat: str, text: str, **more: Any) -> AcceptOutcome:  # noqa: ANN401
        """Raises `IdempotencyConflict` for an id that another token used in this chat."""
        outcome = await self._inner.accept(chat, text, **more)
        if isinstance(outcome, Duplicate | Conflict) and not await self._is_own(outcome.message):
            raise IdempotencyConflict("this id belongs to a message of another token in this chat; use another id")
        return outcome

    async def _is_own(self, message: MessageId) -> bool:
        try:
            await self.trace(message)
        except MessageNotFound:
            return False
        return True


def bound(service: Runtime, token: AccessToken) -> object:
    """The service as the token may use it."""
    if token.binding.is_bound:
        return BoundService(service, token)
    return service if token.finds_all else RelayService(service, token)


def said_in(entries: Sequence[EntryView]) -> list[EntryView]:
    """The messages and replies, without the model's context and the tool calls."""
    kept = [view for view in entries if not isinstance(view.entry.body, Recalled | ToolStarted | ToolReturned)]
    return [
        replace(view, entry=replace(view.entry, body=bodies.replace(view.entry.body, calls=())))
        if isinstance(view.entry.body, AssistantSaid)
        else view
        for view in kept
    ]


def no_message(message: MessageId) -> MessageNotFound:
    return MessageNotFound(f"no message {message!r} was accepted here", message=message)


def refuse(token: AccessToken, what: str) -> NoReturn:
    raise TokenBound(f"this concerns more than the token is for ({what}); it is for {token.binding.told}")
