"""The viewer: the runtime as one access token may use it. Handlers have a viewer and not the runtime.

Rule 1: a viewer offers only what is defined here. What concerns every agent and every chat is reached through `whole`,
        which refuses a token that names agents (`ScopeRequired`) and a bound token (`TokenBound`). So a new route is
        closed to both until this file opens it.
Rule 2: for a token that names agents only those agents exist. For a bound token only its own chats exist
        (`Binding`). Data elsewhere and data that does not exist get the same answer.
Rule 3: a request of a bound token that names another chat or sender is refused by the name alone (`TokenBound`).
Rule 4: in a chat with several senders, a bound token reads the messages and replies. The model's context and the tool
        calls are not part of the chat.
Rule 5: a relay may use any sender and any chat, and does not find messages of other tokens by id.
Rule 6: a caller other than the operator starts a limited number of new chats per hour.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypedDict, TypeVar, Unpack

from msgspec import structs as bodies

from holdfast.api.auth.access_token import AccessToken
from holdfast.api.auth.overview import PAGE, Overview, filled, per_agent
from holdfast.api.errors import AuthRequired
from holdfast.inbox.address import Address, agent_name, check_part, parse
from holdfast.inbox.attachment_sql import find_attachment, read_attachment
from holdfast.inbox.identity_sql import linked_principals
from holdfast.inbox.mailbox import EnclosureView, MailboxView, MessageTrace
from holdfast.inbox.message import AcceptOutcome, Conflict, Duplicate, Origin
from holdfast.kernel import errors
from holdfast.kernel.ids import ApprovalId, ForgetId, MessageId, Principal, SessionId
from holdfast.kernel.notifier import Feed
from holdfast.memory.forget import ForgetKind, Forgetting
from holdfast.memory.recall import RecallOutcome
from holdfast.monitor.trace import TraceFacts
from holdfast.monitor.trace_sql import read_trace
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.views import Health, Prompt
from holdfast.sessions import history_sql
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.session import ChatLine, Session, no_place_after
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.journal import AssistantSaid, EntryView, Recalled, ToolReturned, ToolStarted

Exists: TypeAlias = Callable[[], Awaitable[bool]]
OfChat = TypeVar("OfChat", Session, ApprovalView)
AdmitChat: TypeAlias = Callable[[str, Exists], Awaitable[None]]  # raises `TooManyChats` for a chat that does not exist


class Sending(TypedDict, total=False):
    """How a message is accepted; see `Runtime.accept`."""

    agent: str | None
    sender: str | None
    id: str
    channel: str
    message: MessageId
    origin: Origin
    request: str


class Viewer:
    def __init__(self, runtime: Runtime, token: AccessToken | None, admit_chat: AdmitChat | None = None) -> None:
        self._runtime = runtime
        self._given = token
        self._admit_chat = admit_chat

    @property
    def token(self) -> AccessToken:
        """The token of the request. Raises `AuthRequired` on a route that needs none."""
        if self._given is None:
            raise AuthRequired("this needs a bearer token")
        return self._given

    def logged_in(self, token: AccessToken) -> "Viewer":
        """The viewer of a token that the request has proved."""
        return Viewer(self._runtime, token, self._admit_chat)

    def whole(self, what: str) -> Runtime:
        """The runtime, for what concerns every agent and every chat. Raises `TokenBound` and `ScopeRequired`."""
        self.token.check_everything(what)
        return self._runtime

    def overview(self, what: str) -> Overview:
        """What the token's agents have in all of their chats. Raises `TokenBound`."""
        self.token.check_all_chats(what)
        return Overview(self._runtime, self.token)

    # --- the process

    async def health(self) -> Health:
        return await self._runtime.health()

    def agents(self) -> Sequence[str]:
        return sorted(self.token.agents) or self._runtime.agents()

    @property
    def default_agent(self) -> str:
        """The default agent, or the token's only agent if the token does not see the default one."""
        usual, seen = self._runtime.default_agent, self.token.agents
        return next(iter(seen)) if len(seen) == 1 and usual not in seen else usual

    def _asked_agent(self, agent: str | None) -> str | None:
        """The agent of a request; None is the default agent of a token for all of them.

        Raises `AgentNotFound`, without the names of other agents if the token names some.
        """
        if not self.token.agents:
            return agent
        asked = self.default_agent if agent is None else agent
        self.token.check_agent(asked)
        try:
            self._runtime.named(asked)
        except errors.AgentNotFound as error:
            raise errors.AgentNotFound(f"there is no agent {asked[:80]!r} any more") from error
        return asked

    # --- messages

    async def linked(self, principal: Principal) -> Sequence[Principal]:
        """The accounts of the same person; they decide for whom a caller may speak, and are not shown."""
        return await self._runtime.db.read(linked_principals(principal))

    def new_message(self) -> MessageId:
        return self._runtime.gateway.new_message()

    async def accept(self, chat: str, text: str, **how: Unpack[Sending]) -> AcceptOutcome:
        """Accept a message as the runtime does. Raises `TooManyChats` before a chat beyond the limit is created.

        Raises `IdempotencyConflict` for an id that another token used in this chat.
        """
        binding = self.token.binding
        binding.check_chat(chat)
        if binding.is_bound:
            how["sender"] = binding.speaker(how.get("sender"), chat)
        await self._admit(chat, how)
        how["agent"] = self._asked_agent(how.get("agent"))
        outcome = await self._runtime.accept(chat, text, **how)
        if isinstance(outcome, Duplicate | Conflict) and not self.token.finds_all:
            earlier = await self._runtime.db.read(history_sql.trace_message(outcome.message))
            if not self.token.finds(earlier.token):
                raise errors.IdempotencyConflict(
                    "this id belongs to a message of another token in this chat; use another id"
                )
        return outcome

    async def _admit(self, chat: str, how: Sending) -> None:
        if self._admit_chat is None:
            return
        agent = how.get("agent")
        whom = agent_name(self.default_agent if agent is None else agent)
        address = str(Address(agent=whom, channel=how.get("channel", "http"), type="dm", chat=chat))

        async def exists() -> bool:
            return await self.mailbox(address) is not None

        await self._admit_chat(address, exists)

    async def unanswered(self, chat: str, request: str, *, agent: str, channel: str) -> MessageId | None:
        if chat:
            self.token.binding.check_chat(chat)
        found = await self._runtime.unanswered(chat, request, agent=self._asked_agent(agent), channel=channel)
        if found is not None and self.token.binding.is_bound:
            await self.trace(found)
        return found

    def listen(self, *, message: str | None = None, mailbox: str | None = None) -> Feed:
        """Ids cannot be guessed; a caller that has one was allowed to see it."""
        if message is None and mailbox is None:
            return self.whole("events").events()
        return self._runtime.ports.notifier.subscribe(message=message, mailbox=mailbox)

    async def trace(self, message: MessageId) -> MessageTrace:
        """A message by its id, with its deliveries. Raises `MessageNotFound`."""
        return self._own(await self._runtime.trace(message), by_id=True)

    async def timeline(self, message: MessageId) -> TraceFacts:
        """The facts about a message, for its timeline. A bound token is not told what the agent did in between."""
        self.token.check_all_chats("timelines")
        await self.trace(message)
        return await self._runtime.db.read(read_trace(message))

    async def message(self, message: MessageId) -> MessageTrace:
        """A message of a chat that the caller reads, from any token. Raises `MessageNotFound`."""
        return self._own(await self._runtime.db.read(history_sql.trace_message(message)))

    def _own(self, found: MessageTrace, *, by_id: bool = False) -> MessageTrace:
        is_found = self.token.finds(found.token) or not by_id
        if not (is_found and self.token.sees_chat(found.agent, found.address)):
            raise errors.MessageNotFound(f"no message {found.message!r} was accepted here", message=found.message)
        return found

    async def mailbox(self, address: str) -> MailboxView | None:
        self.token.check_address(address)
        return await self._runtime.db.read(history_sql.find_mailbox(address))

    async def conversation(self, address: str, *, before: int, limit: int) -> Sequence[ChatLine]:
        """The newest messages of an HTTP chat before a position, with their replies, oldest first."""
        self.token.check_address(address)
        return await self._runtime.db.read(history_sql.read_conversation(address, before=before, limit=limit))

    async def attachment(self, hash: str) -> tuple[EnclosureView, bytes] | None:
        """An attachment under the name that it has for the first of the token's agents that received it.

        None for a bound token: only messages of platforms have attachments, and a platform's chat belongs to no token.
        """
        if self.token.binding.is_bound:
            return None
        agents: Sequence[str | None] = sorted(self.token.agents) or [None]
        for name in agents:
            found = await self._runtime.db.read(find_attachment(hash, agent=name))
            body = None if found is None else await self._runtime.db.read(read_attachment(hash))
            if found is not None and body is not None:
                return found, body
        return None

    # --- sessions

    async def session(self, session: SessionId) -> Session:
        """Raises `SessionNotFound`."""
        found = await self._runtime.db.read(history_sql.read_session(session))
        if not self.token.sees_chat(found.agent, found.address):
            raise errors.SessionNotFound(f"there is no session {session}", session=session)
        return found

    async def _check_session(self, session: SessionId) -> str | None:
        """The agent of the session, if the token is limited. Raises `SessionNotFound`."""
        return (await self.session(session)).agent if self.token.is_limited else None

    async def sessions(
        self, *, agent: str | None = None, chat: str | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Session]:
        """Sessions, newest first. A chat of another token has no sessions, like a chat that does not exist."""
        if after:
            try:
                await self._check_session(SessionId(after))
            except errors.SessionNotFound:
                raise no_place_after(after) from None
        if chat is not None and not self.token.binding.allows(check_part("chat", chat)):
            return []
        if chat is not None and self.token.agents and agent is None:
            agent = self.default_agent

        async def read(after: str, limit: int) -> Sequence[Session]:
            of = partial(self._runtime.sessions, chat=chat, after=after, limit=limit)
            found = await per_agent(self.token, agent, of, order=lambda one: (one.opened_at, one.id), reverse=True)
            return found[:limit]

        if chat is not None:
            return await read(after, limit)
        return await filled(read, self._held, lambda one: one.id, after=after, limit=limit)

    def _held(self, found: Sequence[OfChat]) -> Sequence[OfChat]:
        return [one for one in found if self.token.binding.holds(one.address)]

    async def history(self, session: SessionId, *, after: int, limit: int) -> Sequence[EntryView]:
        shown = list if await self._is_alone(session) else said_in
        read = partial(self._runtime.history, session)
        return await filled(read, shown, lambda view: view.entry.seq, after=after, limit=limit)

    async def _is_alone(self, session: SessionId) -> bool:
        """Whether the token may read everything in the session: it is not bound, or no other person has spoken there.

        Raises `SessionNotFound`.
        """
        await self._check_session(session)
        binding = self.token.binding
        if not binding.is_bound:
            return True
        found = await self.session(session)
        speaker = binding.speaker(None, parse(found.address or "").chat)
        context = await self._runtime.context(session)
        return not context.shared and found.principal in await self.linked(Principal(speaker))

    async def prompt(self, session: SessionId) -> Prompt:
        if not await self._is_alone(session):
            raise self.token.beyond("what the model is shown where others speak")
        self._asked_agent(await self._check_session(session))
        return await self._runtime.prompt(session)

    async def begin_compression(self, session: SessionId) -> Operation:
        self._asked_agent(await self._check_session(session))
        return await self._runtime.begin_compression(session)

    async def snapshot(self, session: SessionId, n: int) -> tuple[Summary, Sequence[EntryView]]:
        is_alone = await self._is_alone(session)
        summary, covered = await self._runtime.db.read(history_sql.read_snapshot(session, n))
        return summary, covered if is_alone else said_in(covered)

    async def operations(self, *, session: SessionId | None, after: str, limit: int) -> Sequence[Operation]:
        if session is None:
            self.token.check_all_chats("operations of all sessions")
            if self.token.agents:
                raise errors.InvalidInput("this token is for some agents only: say whose operations, with `session`")
        else:
            await self._check_session(session)
        return await self._runtime.db.read(history_sql.list_operations(session=session, after=after, limit=limit))

    # --- memory

    async def recall(
        self, text: str, *, agent: str | None = None, chat: str = "", sender: str | None = None
    ) -> RecallOutcome:
        """Recall on behalf of a bound token's sender, or of the chat if the token has no sender."""
        binding = self.token.binding
        if binding.is_bound:
            chat = chat if chat or binding.sender is not None else binding.usual_chat("")
            if chat:
                binding.check_chat(chat)
            sender = binding.speaker(sender, chat)
        return await self._runtime.recall(text, agent=self._asked_agent(agent), chat=chat, sender=sender)

    async def forget(self, *, session: str | None, person: str | None, agent: str | None, id: str | None) -> Forgetting:
        if session is not None:
            await self._check_session(SessionId(session))
        else:
            self.token.check_all_chats("forgetting a person")
        if agent is not None:
            self.token.check_agent(agent)
        elif person is not None and self.token.agents:
            raise errors.ScopeRequired(
                "this token is for some agents only: say which of them is to forget, with `agent`"
            )
        return await self._runtime.forget(session=session, person=person, agent=agent, id=id)

    async def forget_status(self, id: str) -> Forgetting:
        found = await self._runtime.forget_status(id)
        if not await self._sees_forgetting(found):
            raise errors.ForgetNotFound(f"nothing was asked to be forgotten under {id!r}", forget=ForgetId(id))
        return found

    async def _sees_forgetting(self, found: Forgetting) -> bool:
        if not self.token.is_limited:
            return True
        if found.kind is not ForgetKind.SESSION:
            return not self.token.binding.is_bound and found.agent is not None and self.token.sees(found.agent)
        try:
            await self.session(SessionId(found.subject))
        except errors.SessionNotFound:
            return False
        return True

    # --- approvals

    async def approvals(self, *, decided: bool = False, limit: int = 100) -> Sequence[ApprovalView]:
        """Read as many approvals as it takes to find `limit` of the token's chats."""
        wanted = limit
        while True:
            of = partial(self._runtime.approvals.list, decided=decided, limit=wanted)
            page = await per_agent(self.token, None, of, order=lambda one: (one.asked_at, one.id), reverse=decided)
            found = self._held(page[:wanted])
            if len(found) >= limit or len(page) < wanted:
                return found[:limit]
            wanted = max(PAGE, 2 * wanted)

    async def approval(self, approval: ApprovalId) -> ApprovalView:
        """Raises `ApprovalNotFound`."""
        found = await self._runtime.approvals.find(approval)
        if not self.token.sees_chat(found.agent, found.address):
            raise errors.ApprovalNotFound(f"there is no approval {approval[:40]!r}", approval=approval[:40])
        return found

    async def decide(self, approval: ApprovalId, decision: Decision, *, reason: str, digest: str) -> ApprovalView:
        if self.token.is_limited:
            await self.approval(approval)
        by = f"token:{self.token.id}"
        return await self._runtime.approvals.decide(approval, decision, by=by, reason=reason, digest=digest)


def said_in(entries: Sequence[EntryView]) -> list[EntryView]:
    """The messages and replies, without the model's context and the tool calls."""
    kept = [view for view in entries if not isinstance(view.entry.body, Recalled | ToolStarted | ToolReturned)]
    return [
        replace(view, entry=replace(view.entry, body=bodies.replace(view.entry.body, calls=())))
        if isinstance(view.entry.body, AssistantSaid)
        else view
        for view in kept
    ]
