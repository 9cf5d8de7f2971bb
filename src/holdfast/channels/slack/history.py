"""Reads conversations back: to catch up after an outage, and to find out whether a post has arrived.

Rule 1: pages may come in any order; all are read, then sorted.
Rule 2: `conversations.history` holds no replies. Threads that began, or were read, within a day before the outage are
        read as well; replies in other threads arrive only by Slack's own retries.
Rule 3: Slack does not report edits and deletions made during an outage. A message edited meanwhile is read as it is
        now.
Rule 4: Slack lists conversations by type, and each type needs a scope of its own (channels:read, groups:read, im:read
        and mpim:read). A type that is not granted is skipped and logged; its events are still received.
"""

from collections.abc import Mapping
from typing import TypeAlias

from holdfast.channels.slack.message import Json, mapping, mappings, position_of, string, ts_of
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi
from holdfast.kernel.ids import ReplyId
from holdfast.kernel.ports import ID_ALPHABET, ID_RANDOM_BITS, ID_TIME_CHARS
from holdfast.outbox.post import Post

PAGE = 200
PAGES_MAX = 500
LOOKUP_PAGES_MAX = 20
LIST_PAGES_MAX = 100
TYPES = ("im", "mpim", "private_channel", "public_channel")
OVERLAP = 300_000_000  # microseconds; Slack's last retry comes after five minutes, and events may come out of order
THREAD_AGE = 86_400 * 1_000_000
SKEW_MS = 600_000  # the largest difference expected between our clock and Slack's
EVENT_TYPE = "holdfast_reply"
GONE = frozenset({"thread_not_found", "message_not_found"})

# The newest position read in each thread, and under None in the channel itself.
Positions: TypeAlias = Mapping[str | None, int]
Listing: TypeAlias = list[Json] | SlackFailure


async def missed(web: SlackWebApi, chat: str, positions: Positions, since: int | None) -> Listing:
    """Messages and replies since shortly before the positions, oldest first. With `since`, also everything after it,
    for a channel that has no position."""
    found = await _after(web, chat, positions) if positions else {}
    if since is not None and not isinstance(found, SlackFailure):
        first = await _after(web, chat, {None: since})
        if isinstance(first, SlackFailure):
            return first
        found |= {ts: message for ts, message in first.items() if (position_of(ts) or 0) > since}
    if isinstance(found, SlackFailure):
        return found
    return [found[ts] for ts in sorted(found, key=lambda ts: position_of(ts) or 0)]


def earlier_of(positions: Positions, before: Positions, since: int | None) -> Positions:
    """The positions, none later than it was before. A conversation that had none goes back to `since`."""
    first = before.get(None, None if since is None else since + OVERLAP)  # reading starts an overlap before a position
    return {where: min(now, before.get(where, now if first is None else first)) for where, now in positions.items()}


async def _after(web: SlackWebApi, chat: str, positions: Positions) -> dict[str, Json] | SlackFailure:
    top = await _top(web, chat, positions)
    if isinstance(top, SlackFailure):
        return top
    found = {string(message, "ts"): message for message in top if _is_since(message, positions.get(None))}
    for thread, position in _threads(top, positions).items():
        oldest = _oldest(position - OVERLAP)
        replies = await pages(web, "conversations.replies", PAGES_MAX, channel=chat, ts=thread, oldest=oldest)
        if isinstance(replies, SlackFailure) and replies.code in GONE:
            continue
        if isinstance(replies, SlackFailure):
            return replies
        newer = {string(reply, "ts"): reply for reply in replies if _is_since(reply, position)}
        newer.pop(thread, None)  # Slack lists it with its replies; it belongs to the channel
        found |= newer
    return found


async def _top(web: SlackWebApi, chat: str, positions: Positions) -> Listing:
    if None not in positions:
        return []
    oldest = _oldest(positions[None] - OVERLAP - THREAD_AGE)
    return await pages(web, "conversations.history", PAGES_MAX, channel=chat, oldest=oldest)


def _threads(top: list[Json], positions: Positions) -> dict[str, int]:
    """The threads to read and their positions: those with newer replies, and those that may have some.

    In a thread that was read shortly before the newest position, a later reply may have overtaken an earlier one.
    """
    latest = {string(parent, "ts"): position_of(string(parent, "latest_reply")) for parent in top}
    known = {thread: position for thread, position in positions.items() if thread is not None}
    recent = {thread: position for thread, position in known.items() if position > max(positions.values()) - THREAD_AGE}
    grown = {ts: known.get(ts, positions.get(None, 0)) for ts, reply in latest.items() if reply is not None}
    loose = max(positions.values()) - OVERLAP
    return {
        ts: position
        for ts, position in (recent | grown).items()
        if position > loose or (latest.get(ts) or position + 1) > position
    }


def _is_since(message: Json, position: int | None) -> bool:
    return position is not None and (position_of(string(message, "ts")) or 0) > position - OVERLAP


async def find_post(web: SlackWebApi, post: Post) -> str | SlackFailure | None:
    """The `ts` of a post that an earlier attempt made; None if it is certainly not there."""
    method, where = "conversations.history", {"channel": post.address.chat}
    if post.address.thread is not None:
        method, where = "conversations.replies", {**where, "ts": post.address.thread}
    oldest = _oldest((made_at_ms(post.reply) - SKEW_MS) * 1000)
    messages = await pages(web, method, LOOKUP_PAGES_MAX, **where, oldest=oldest, include_all_metadata=True)
    if isinstance(messages, SlackFailure):
        return messages
    return next((string(message, "ts") for message in messages if _nonce(message) == post.nonce), None)


async def pages(web: SlackWebApi, method: str, pages_max: int, what: str = "messages", **params: object) -> Listing:
    """The objects in the field `what` of all pages of a paginated method."""
    found: list[Json] = []
    cursor = ""
    for _ in range(pages_max):
        paging = {"cursor": cursor} if cursor else {}
        answer = await web.get(method, **params, **paging, limit=PAGE)
        if isinstance(answer, SlackFailure):
            return answer
        found += mappings(answer, what)
        cursor = string(mapping(answer, "response_metadata"), "next_cursor")
        if not cursor:
            return found
    return SlackFailure(SlackFailureKind.REFUSED, f"more than {pages_max * PAGE} {what}")


def _oldest(position: int) -> str:
    return ts_of(max(0, position))


def _nonce(message: Json) -> str:
    metadata = mapping(message, "metadata")
    is_ours = string(metadata, "event_type") == EVENT_TYPE
    return string(mapping(metadata, "event_payload"), "nonce") if is_ours else ""


def made_at_ms(reply: ReplyId) -> int:
    """The time in the reply's id; 0 if the id holds none."""
    digits = reply.rpartition("_")[2]
    if len(digits) != ID_TIME_CHARS + ID_RANDOM_BITS // 5 or not set(digits) <= set(ID_ALPHABET):
        return 0
    value = 0
    for digit in digits[:ID_TIME_CHARS]:
        value = value * 32 + ID_ALPHABET.index(digit)
    return value


async def listed(web: SlackWebApi, kind: str) -> Listing:
    """The conversations of one type that the bot is in."""
    return await pages(web, "users.conversations", LIST_PAGES_MAX, "channels", types=kind, exclude_archived="true")
