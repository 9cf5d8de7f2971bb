"""Where Hermes' sessions belong: the chat, the sender and the lineage of each, and the chat that uses it last.

Rule 1: a session without chat or user has those of its lineage: rotation wrote children without them.
Rule 2: a routing entry that names a session which a compression ended means the child that continues it; one that
        names a child which a killed compression left without words of its own means its parent.
Rule 3: an id that no address can hold is no reason to lose a session: the session is imported without a chat.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.hermes.routing_index import RoutingEntry
from holdfast.inbox.address import Address, sender_of_chat
from holdfast.inbox.chat_message import principal_of
from holdfast.kernel.errors import InvalidName
from holdfast.kernel.ids import AgentName, Principal
from holdfast.sessions.session import Purpose

COMPRESSED = "compression"  # the end reason of a session that was rotated
RETIRED = "orphaned_compression"  # the end reason of a continuation that leads nowhere
TYPES = {"private": "dm", "supergroup": "group", "forum": "group", "thread": "group"}  # Hermes' words to Holdfast's
TERMINAL = "terminal"  # the chat of `holdfast chat`
AUTOMATIC = {"cron": Purpose.SCHEDULED, "subagent": Purpose.SUBAGENT, "delegate": Purpose.SUBAGENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesOrigin:
    """The chat and the sender of a session, as Hermes names them."""

    platform: str = ""
    chat: str = ""
    type: str = "dm"
    thread: str = ""
    user: str = ""
    team: str = ""  # Slack's workspace or Discord's guild
    parent_chat: str = ""  # the channel of a Discord thread
    key: str = ""  # the session key

    @property
    def is_per_user(self) -> bool:
        """Whether the key of a group ends with the user: each member has a session of their own."""
        return self.type != "dm" and bool(self.user) and self.key.endswith(f":{self.user}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesSession:
    id: str
    source: str = "cli"
    user: str = ""
    parent: str = ""
    title: str = ""
    model: str = ""
    directory: str = ""
    started_ms: int = 0
    ended_ms: int | None = None
    end_reason: str = ""
    origin: HermesOrigin | None = None
    delegated: bool = False

    @property
    def is_rotated(self) -> bool:
        return self.end_reason == COMPRESSED

    @property
    def purpose(self) -> Purpose:
        if self.delegated:
            return Purpose.SUBAGENT
        return AUTOMATIC.get(self.source, Purpose.CONVERSATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesRoute:
    """One entry of the routing index."""

    key: str
    session: str
    origin: HermesOrigin
    finished: bool = False  # its session was finalised or suspended: the next message begins another


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """The sender, the address and the chat of a session in Holdfast."""

    principal: Principal
    place: str
    chat: Address | None = None
    goes_on: bool = False


def origin_of(raw: Mapping[str, object], key: str = "") -> HermesOrigin:
    """The origin in a routing entry or in a session's row."""

    def text(*names: str) -> str:
        return next((str(raw[name]) for name in names if raw.get(name) not in (None, "")), "")

    return HermesOrigin(
        platform=text("platform", "source"),
        chat=text("chat_id"),
        type=text("chat_type") or "dm",
        thread=text("thread_id"),
        user=text("user_id_alt", "user_id") if key.endswith(text("user_id_alt") or "\n") else text("user_id"),
        team=text("scope_id", "guild_id"),
        parent_chat=text("parent_chat_id"),
        key=key or text("session_key"),
    )


def route_of(entry: RoutingEntry) -> HermesRoute:
    """The chat of a routing entry; what the entry does not say is in its key."""
    values = entry.values
    origin = values.get("origin") if isinstance(values.get("origin"), dict) else {}
    known = {"platform": values.get("platform"), "chat_type": values.get("chat_type"), **_from_key(entry.key)}
    merged = {**known, **{name: value for name, value in (origin or {}).items() if value is not None}}
    finished = entry.is_finalised or bool(values.get("suspended"))
    return HermesRoute(key=entry.key, session=entry.session, origin=origin_of(merged, entry.key), finished=finished)


def _from_key(key: str) -> dict[str, str]:
    """The chat that a session key names, for an entry without an origin."""
    parts = key.split(":")
    return {"platform": parts[2], "chat_type": parts[3], "chat_id": parts[4]} if len(parts) > 4 else {}


def _standing(session: HermesSession) -> tuple[int, int, str]:
    return 2 if session.is_rotated else 1 if session.ended_ms is None else 0, session.started_ms, session.id


class HermesLineage:
    """The sessions of a home, by parent and by chat."""

    def __init__(
        self,
        sessions: Iterable[HermesSession],
        routes: Iterable[HermesRoute],
        agent: AgentName,
        *,
        unfinished: frozenset[str] = frozenset(),
    ) -> None:
        """`unfinished` are sessions without words of their own that a stopped Hermes left; they are not imported."""
        self._agent = agent
        self.unfinished = unfinished
        self.sessions = {one.id: one for one in sessions}
        self._children: dict[str, list[HermesSession]] = {}
        for one in self.sessions.values():
            self._children.setdefault(one.parent, []).append(one)
        self._routes = {self.tip(route.session): route for route in routes}

    def tip(self, session: str) -> str:
        """The session in which a chat goes on that used this one last."""
        found = self.sessions.get(session)
        if found is not None and found.id in self.unfinished and found.parent in self.sessions:
            parent = self.sessions[found.parent]
            return parent.id if parent.is_rotated and parent.id not in self.unfinished else session
        seen = {session}
        while found is not None and (child := self.child_of(found)) is not None and child.id not in seen:
            found = child
            seen.add(child.id)
        return found.id if found is not None else session

    def child_of(self, session: HermesSession) -> HermesSession | None:
        """The session in which a rotated one goes on: of several, one that rotated again, then a live one, a newer one.

        One that was ended because it leads nowhere is none of them.
        """
        if not session.is_rotated:
            return None
        children = [one for one in self._children.get(session.id, ()) if one.id not in self.unfinished]
        return max((one for one in children if one.end_reason != RETIRED), key=_standing, default=None)

    def in_order(self) -> list[HermesSession]:
        """Parents before children, older ones first. A cycle is cut where it is entered."""
        done: dict[str, HermesSession] = {}
        for session in sorted(self.sessions.values(), key=lambda one: (one.started_ms, one.id)):
            for one in reversed(self._ancestry(session)):
                done.setdefault(one.id, one)
        return [one for one in done.values() if one.id not in self.unfinished]

    def parent_of(self, session: HermesSession) -> HermesSession | None:
        """The nearest ancestor with messages; None if there is none, or if the session is its own ancestor."""
        _, *line = self._ancestry(session)
        return next((one for one in line if one.id not in self.unfinished), None)

    def _ancestry(self, session: HermesSession) -> list[HermesSession]:
        """The session and its ancestors. A line that returns to itself is cut at its oldest session."""
        line, seen = [session], {session.id}
        while (parent := self.sessions.get(line[-1].parent)) is not None and parent.id not in seen:
            line.append(parent)
            seen.add(parent.id)
        if parent is not None:
            oldest = min(line[line.index(parent) :], key=lambda one: (one.started_ms, one.id))
            line = line[: line.index(oldest) + 1]
        return line

    def key_of(self, session: HermesSession) -> str:
        """The session key of the chat; empty for a terminal, and for an old session without a routing entry."""
        origin = self._origin_of(session)
        return origin.key if origin is not None else ""

    def root_of(self, session: HermesSession) -> HermesSession:
        """The session that the conversation began with."""
        return self._ancestry(session)[-1]

    def _origin_of(self, session: HermesSession) -> HermesOrigin | None:
        route = self._routes.get(session.id)
        return route.origin if route is not None else self._origin(session)

    def where(self, session: HermesSession) -> SessionPlace:
        """The sender, the address and the chat of a session."""
        route, origin = self._routes.get(session.id), self._origin_of(session)
        if origin is None or origin.platform in {"", "cli", "local"}:
            return self._terminal()
        try:
            user = self._sender(origin, session)
            chat = self._address(origin)
            goes_on = route is not None and not route.finished
            return SessionPlace(principal=user, place=str(chat), chat=chat, goes_on=goes_on)
        except InvalidName:
            return self._terminal()

    def _terminal(self) -> SessionPlace:
        place = Address(agent=self._agent, channel="http", type="dm", chat=TERMINAL)
        return SessionPlace(principal=Principal(sender_of_chat(TERMINAL)), place=str(place))

    def _origin(self, session: HermesSession) -> HermesOrigin | None:
        """The origin of the session, of its nearest ancestor or of a descendant."""
        for one in self._ancestry(session):
            if one.origin is not None and one.origin.chat:
                return one.origin
        tip = self._routes.get(self.tip(session.id))
        return tip.origin if tip is not None else session.origin

    def _sender(self, origin: HermesOrigin, session: HermesSession) -> Principal:
        users = [origin.user, *(one.user for one in self._ancestry(session)), origin.chat]
        user = next(filter(None, users), "")
        is_member = origin.platform == "slack" and origin.team and "." not in user
        return principal_of(origin.platform, f"{origin.team}.{user}" if is_member else user)

    def _address(self, origin: HermesOrigin) -> Address:
        chat, thread = origin.chat or origin.user, origin.thread or None
        if origin.platform == "discord" and origin.type == "thread":
            chat, thread = origin.parent_chat or chat, origin.thread or chat
        return Address(
            agent=self._agent,
            channel=origin.platform,
            type=TYPES.get(origin.type, origin.type),
            chat=chat,
            thread=thread,
            user=origin.user if origin.is_per_user else None,
        )
