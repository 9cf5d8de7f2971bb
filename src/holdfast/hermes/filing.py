"""Filing: what a record of the spool becomes in the store. Pure: a record in, a turn or an operation on notes out.

Rule 1: the session of a turn is the session of Hermes, under its own id.
Rule 2: the place is the chat, made of its parts: two different chats never get one place, whatever their ids contain.
        A conversation in the terminal has no chat.
Rule 3: the principal is the account on its platform. Without an account it is the owner of the home.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.inbox.address import PART_CHARS_MAX, Address, check_part, is_name
from holdfast.kernel.errors import InvalidName
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.delivery import CallerDirectory, DeliveryPolicy
from holdfast.memory.notes import Capacity, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.visibility import scope_of
from holdfast.turns.journal import AssistantSaid, UserSaid, storable
from holdfast.turns.record_sql import RESERVED
from holdfast.turns.turn import TurnRecord

MAIN = AgentName("main")
OWNER = Principal("owner")  # the person at the terminal
TERMINAL = "terminal"
LOCAL = frozenset({"", "cli", "tui", "local", "terminal", "desktop", "acp"})
ROOMY = Capacity(memory_chars=1_000_000, user_chars=1_000_000)  # the limits of MEMORY.md and USER.md are Hermes'
_DEFAULT = frozenset({"", "default", "main"})
_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Unfilable(Exception):
    """A record that no release can file; it is kept aside."""


def agent_of(about: Mapping[str, str]) -> AgentName:
    """The profile of Hermes; the default profile is `main`."""
    identity = about.get("agent_identity", "")
    if identity in _DEFAULT:
        return MAIN
    return AgentName(identity) if is_name(identity) else AgentName(_name(identity))


def principal_of(about: Mapping[str, str]) -> Principal:
    user = about.get("user_id_alt") or about.get("user_id") or ""
    if not user:
        chat = about.get("chat_id", "")
        return Principal(_part(f"{_platform(about)}:chat:{chat}")) if chat else OWNER
    return Principal(_part(f"{_platform(about)}:{user}"))


def place_of(about: Mapping[str, str]) -> str:
    """The address of the chat. A group that Hermes splits by person has one place for each person."""
    agent, platform, chat = agent_of(about), _platform(about), about.get("chat_id", "")
    if not chat:
        return str(Address(agent=agent, channel=TERMINAL, type="dm", chat=OWNER))
    user = about.get("user_id_alt") or about.get("user_id") or ""
    own = bool(user) and about.get("gateway_session_key", "").endswith(f":{user}") and user != chat
    kind = about.get("chat_type") or "dm"
    return str(
        Address(
            agent=agent,
            channel=platform if is_name(platform) else _name(platform),
            type=kind if is_name(kind) else _name(kind),
            chat=_part(chat),
            thread=_part(about["thread_id"]) if about.get("thread_id") else None,
            user=_part(user) if own else None,
        )
    )


def where_of(content: Mapping[str, Any]) -> CallerDirectory:
    """The working directory, if a person works in it: that of a gateway says nothing about its chats."""
    is_local = about_of(content).get("platform", "") in LOCAL
    return CallerDirectory(directory=_part(str(content.get("cwd") or "")) if is_local and content.get("cwd") else "")


def about_of(content: Mapping[str, Any]) -> dict[str, str]:
    about = content.get("about")
    return {str(name): str(value) for name, value in about.items()} if isinstance(about, dict) else {}


def session_of(content: Mapping[str, Any]) -> SessionId:
    """The session of Hermes. A turn without one gets a session of its writer, so that it is not lost."""
    given = str(content.get("session") or "") or f"hermes-{content.get('w', 'unknown')}"
    return SessionId(f"hermes-{given}" if given.startswith(RESERVED) else _part(given))


def turn_of(content: Mapping[str, Any], key: str, policies: tuple[DeliveryPolicy, ...]) -> TurnRecord:
    """The turn of a record. Raises `Unfilable`."""
    user, assistant = storable(str(content.get("user") or "")), storable(str(content.get("assistant") or ""))
    if not user and not assistant:
        raise Unfilable("the turn has no words")
    about, parent = about_of(content), str(content.get("parent") or "")
    who = principal_of(about)
    said = UserSaid(text=user, principal=who, event_id=key, name=storable(about.get("user_name", "")))
    return TurnRecord(
        session=session_of(content),
        agent=agent_of(about),
        key=key,
        entries=(said, AssistantSaid(text=assistant)),
        principal=who,
        place=place_of(about),
        parent=SessionId(_part(parent)) if parent else None,
        policies=policies,
        where=where_of(content),
    )


def apart(record: TurnRecord) -> TurnRecord:
    """The same turn in a session of its agent alone: another agent has a session of this id."""
    return replace(record, session=SessionId(_part(f"{record.session}@{record.agent}")), parent=None)


def notes_of(content: Mapping[str, Any], key: str, policies: tuple[DeliveryPolicy, ...]) -> MemoryBatch:
    """The operation on notes of a record. Raises `Unfilable`."""
    about = about_of(content)
    try:
        verb, target = MemoryVerb(content.get("action")), Target(content.get("target") or "memory")
    except ValueError as error:
        raise Unfilable(f"an operation {content.get('action')!r} on {content.get('target')!r}") from error
    text, old = storable(str(content.get("text") or "")), storable(str(content.get("old") or ""))
    if verb is MemoryVerb.REMOVE:
        text, old = "", old or text
    who, session = principal_of(about), session_of(content)
    return MemoryBatch(
        agent=agent_of(about),
        subject=scope_of(place_of(about), who, session=session),
        origin=f"hermes:{key}",
        changes=(NoteChange(verb=verb, target=target, text=text, old=old),),
        principal=who,
        capacity=ROOMY,
        policies=policies,
        session="",
    )


def _platform(about: Mapping[str, str]) -> str:
    return about.get("platform") or TERMINAL


def _part(text: str) -> str:
    """A text that an address can hold. One that it cannot is replaced by its hash, so that two never become one."""
    try:
        return check_part("id", text)
    except InvalidName:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{storable(text)[: PART_CHARS_MAX // 4].encode('ascii', 'ignore').decode().strip()}~{digest}"


def _name(text: str) -> str:
    plain = _NOT_OF_A_NAME.sub("-", text).strip("-._")[:40]
    return f"{plain or 'x'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
