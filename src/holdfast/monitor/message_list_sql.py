"""Listing and searching messages, newest first.

Ids of messages sort by time, so a page is read along the primary key. Words are compared here and not in the database:
bodies are bytes. A page looks at a limited number of messages and says how far back it looked.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.kernel.ids import Instant, MessageId
from holdfast.kernel.ports import make_id
from holdfast.monitor.message_list import (
    SCANNED_MAX,
    TEXT_CHARS_MAX,
    ListedMessage,
    MessageFilter,
    MessagePage,
)
from holdfast.store.script import Columns, Query, Script, rows, together, verb

CHUNK_MIN, CHUNK_MAX = 200, 2_000  # messages read at once
SKEW_MS = 300_000  # between the clock that made an id and the one that stamped the row
NEWEST = f"msg_{'z' * 26}"  # after every id, by the collation of any database


class StoredMessage(NamedTuple):
    message: str
    agent: str
    chat: str
    sender: str
    event_id: str
    kind: str
    state: str
    reason: str | None
    accepted_at: Instant
    session: str | None
    turn: int | None
    token: str | None
    body: bytes


STORED = Columns(
    StoredMessage,
    "inbound",
    agent="mailbox.agent",
    chat="inbound.conversation",
    sender="inbound.principal",
    accepted_at="inbound.at",
)
ONE = f"select {STORED} from inbound join mailbox on mailbox.id = inbound.mailbox where inbound.message = :message"
MATCHES = """
       (:agent = '' or mailbox.agent = :agent) and (:chat = '' or inbound.conversation = :chat)
   and (:sender = '' or inbound.principal = :sender) and (:state = '' or inbound.state = :state)"""
PAGE = f"""
select {STORED} from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.message < :before and inbound.message >= :from and {MATCHES}
 order by inbound.message desc limit :limit"""
# Open messages are few, and have an index.
OPEN_PAGE = f"""
select {STORED} from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.state in ('waiting', 'in_turn') and inbound.message < :before and inbound.message >= :from and {MATCHES}
 order by inbound.message desc limit :limit"""
EDGE = "select message from inbound where message < :before order by message desc limit 1 offset cast(:scanned as int8)"


@verb
def list_messages(wanted: MessageFilter, *, before: str = "", limit: int = 50) -> Script[MessagePage]:
    """The newest matching messages before an id. `next` leads on, also if no message of this page matched."""
    page = OPEN_PAGE if wanted.state in {"waiting", "in_turn"} else PAGE
    place, found, scanned, chunk_size = before or NEWEST, list[ListedMessage](), 0, CHUNK_MIN
    if wanted.until is not None:
        place = min(place, make_id("msg", Instant(wanted.until + SKEW_MS), 0))
    first = make_id("msg", Instant(max(0, wanted.since - SKEW_MS)), 0) if wanted.since is not None else ""
    about = {"agent": wanted.agent, "chat": wanted.chat, "sender": wanted.sender, "state": wanted.state, "from": first}
    while len(found) < limit and scanned < SCANNED_MAX:
        # The chunk ends at an edge, so that a filter that matches nothing does not read everything.
        edge = yield from rows(EDGE, before=place, scanned=chunk_size - 1)
        start = max(edge[0][0], first) if edge else first
        chunk = yield from STORED.rows(page, **{**about, "before": place, "from": start, "limit": chunk_size})
        for row in _matching(chunk, wanted):
            found.append(listed_message(row))
            if len(found) == limit:
                return MessagePage(messages=found, next=row.message, searched_back_to=None)
        scanned += chunk_size
        chunk_size = min(CHUNK_MAX, 4 * chunk_size)
        if not edge or start == first:
            return MessagePage(messages=found, next=None, searched_back_to=None)
        place = start
    return MessagePage(messages=found, next=place, searched_back_to=(yield from _time_of(place)))


@verb
def read_listed(messages: Sequence[MessageId]) -> Script[list[ListedMessage]]:
    """The given messages as rows of a list; those that do not exist are left out."""
    found = yield from together(*(Query(ONE, {"message": message}) for message in messages))
    return [listed_message(STORED.value(row)) for one_ in found for row in one_]


TIME = "select at from inbound where message <= :place order by message desc limit 1"


def _time_of(place: str) -> Script[Instant | None]:
    found = yield from rows(TIME, place=place)
    return Instant(found[0][0]) if found else None


def _matching(chunk: Sequence[StoredMessage], wanted: MessageFilter) -> Iterator[StoredMessage]:
    text = wanted.text.casefold()
    for row in chunk:
        if not row.event_id.startswith(wanted.own_id):
            continue
        if (wanted.agents and row.agent not in wanted.agents) or (
            wanted.token and row.token not in {None, wanted.token}
        ):
            continue
        if wanted.since is not None and row.accepted_at < wanted.since:
            continue
        if wanted.until is not None and row.accepted_at > wanted.until:
            continue
        if text and text not in bytes(row.body).decode("utf-8", "replace").casefold():
            continue
        yield row


def listed_message(row: StoredMessage) -> ListedMessage:
    text = " ".join(bytes(row.body).decode("utf-8", "replace").split())
    if len(text) > TEXT_CHARS_MAX:
        text = f"{text[: TEXT_CHARS_MAX - 1]}…"
    fields = {name: value for name, value in row._asdict().items() if name not in {"body", "token"}}
    return ListedMessage(**fields, text=text)
