"""What was said in a conversation, read back: to catch up after a gap, and to see whether a post has landed.

Rule 1: pages come newest first, or not; everything is read, then put in order.
Rule 2: `conversations.history` has no replies. Threads that began, or were read, within a day before the gap are read
        as well; replies in other threads come only by Slack's own retries.
Rule 3: edits and deletions made during a gap are not told afterwards; a message edited meanwhile is read as it is now.
"""

from collections.abc import Mapping
from typing import TypeAlias

from holdfast.channels.slack.message import Json, part, parts, position_of, ts_of, word
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi
from holdfast.kernel.ids import ID_ALPHABET, ID_RANDOM_BITS, ID_TIME_CHARS, ReplyId
from holdfast.outbox.post import Post

PAGE = 200
PAGES_MAX = 500
LOOKUP_PAGES_MAX = 20
OVERLAP = 300 * 1_000_000  # microseconds; Slack's last retry comes after five minutes, so order is loose by as much
THREADS_REACH = 86_400 * 1_000_000
SKEW_MS = 600_000  # how far our clock and Slack's may be apart
EVENT_TYPE = "holdfast_reply"
GONE = frozenset({"thread_not_found", "message_not_found"})

Marks: TypeAlias = Mapping[str | None, int]  # thread, or None for the channel itself, to the newest position read


async def missed(web: SlackWebApi, chat: str, marks: Marks) -> list[Json] | SlackFailure:
    """Messages and replies of a channel since shortly before the marks of the channel and its threads, oldest first."""
    found = await _since_marks(web, chat, marks)
    return found if isinstance(found, SlackFailure) else _in_order(found)


async def unheard(web: SlackWebApi, chat: str, marks: Marks, since: int | None) -> list[Json] | SlackFailure:
    """The same; and of a channel that was never read, or not to its end, everything after `since`."""
    known = await missed(web, chat, marks) if marks else []
    if since is None or isinstance(known, SlackFailure):
        return known
    first = await _since_marks(web, chat, {None: since})
    if isinstance(first, SlackFailure):
        return first
    new = {ts: message for ts, message in first.items() if (position_of(ts) or 0) > since}
    return _in_order({word(message, "ts"): message for message in known} | new)


def put_back(marks: Marks, before: Marks, since: int | None) -> Marks:
    """The marks of a channel as they were before; where there were none, back to `since`, which nobody had heard."""
    first = before.get(None, None if since is None else since + OVERLAP)  # nothing up to `since` is read
    return {where: min(mark, before.get(where, mark if first is None else first)) for where, mark in marks.items()}


def _in_order(found: Mapping[str, Json]) -> list[Json]:
    return [found[ts] for ts in sorted(found, key=lambda ts: position_of(ts) or 0)]


async def _since_marks(web: SlackWebApi, chat: str, marks: Marks) -> dict[str, Json] | SlackFailure:
    top = await _top(web, chat, marks)
    if isinstance(top, SlackFailure):
        return top
    found = {word(message, "ts"): message for message in top if _is_since(message, marks.get(None))}
    for thread, mark in _threads(top, marks).items():
        oldest = _oldest(mark - OVERLAP)
        replies = await pages(web, "conversations.replies", PAGES_MAX, channel=chat, ts=thread, oldest=oldest)
        if isinstance(replies, SlackFailure) and replies.code in GONE:
            continue  # the thread was deleted
        if isinstance(replies, SlackFailure):
            return replies
        newer = {word(reply, "ts"): reply for reply in replies if _is_since(reply, mark)}
        newer.pop(thread, None)  # it comes along with its replies, and belongs to the channel
        found |= newer
    return found


async def _top(web: SlackWebApi, chat: str, marks: Marks) -> list[Json] | SlackFailure:
    if None not in marks:
        return []
    oldest = _oldest(marks[None] - OVERLAP - THREADS_REACH)
    return await pages(web, "conversations.history", PAGES_MAX, channel=chat, oldest=oldest)


def _threads(top: list[Json], marks: Marks) -> dict[str, int]:
    """The threads to read, and from where: those with newer replies, and those that may have some.

    In a thread that was read shortly before the newest mark, a later reply may have overtaken an earlier one.
    """
    latest = {word(parent, "ts"): position_of(word(parent, "latest_reply")) for parent in top}
    known = {thread: mark for thread, mark in marks.items() if thread is not None}
    recent = {thread: mark for thread, mark in known.items() if mark > max(marks.values()) - THREADS_REACH}
    grown = {ts: known.get(ts, marks.get(None, 0)) for ts, reply in latest.items() if reply is not None}
    loose = max(marks.values()) - OVERLAP
    return {ts: mark for ts, mark in (recent | grown).items() if mark > loose or (latest.get(ts) or mark + 1) > mark}


def _is_since(message: Json, mark: int | None) -> bool:
    return mark is not None and (position_of(word(message, "ts")) or 0) > mark - OVERLAP


async def landed(web: SlackWebApi, post: Post) -> str | SlackFailure | None:
    """The `ts` of a piece that an earlier attempt posted; None when it is certainly not there."""
    method, where = "conversations.history", {"channel": post.address.chat}
    if post.address.thread is not None:
        method, where = "conversations.replies", {**where, "ts": post.address.thread}
    oldest = _oldest((made_at_ms(post.reply) - SKEW_MS) * 1000)
    messages = await pages(web, method, LOOKUP_PAGES_MAX, **where, oldest=oldest, include_all_metadata=True)
    if isinstance(messages, SlackFailure):
        return messages
    return next((word(message, "ts") for message in messages if _nonce(message) == post.nonce), None)


async def pages(
    web: SlackWebApi, method: str, pages_max: int, what: str = "messages", **params: object
) -> list[Json] | SlackFailure:
    found: list[Json] = []
    cursor = ""
    for _ in range(pages_max):
        paging = {"cursor": cursor} if cursor else {}
        answer = await web.get(method, **params, **paging, limit=PAGE)
        if isinstance(answer, SlackFailure):
            return answer
        found += parts(answer, what)
        cursor = word(part(answer, "response_metadata"), "next_cursor")
        if not cursor:
            return found
    return SlackFailure(SlackFailureKind.REFUSED, f"more than {pages_max * PAGE} {what}")


def _oldest(position: int) -> str:
    return ts_of(max(0, position))


def _nonce(message: Json) -> str:
    metadata = part(message, "metadata")
    is_ours = word(metadata, "event_type") == EVENT_TYPE
    return word(part(metadata, "event_payload"), "nonce") if is_ours else ""


def made_at_ms(reply: ReplyId) -> int:
    """When the reply was made, which its id begins with; 0, long ago, for an id that tells nothing."""
    digits = reply.rpartition("_")[2]
    if len(digits) != ID_TIME_CHARS + ID_RANDOM_BITS // 5 or not set(digits) <= set(ID_ALPHABET):
        return 0
    value = 0
    for digit in digits[:ID_TIME_CHARS]:
        value = value * 32 + ID_ALPHABET.index(digit)
    return value
