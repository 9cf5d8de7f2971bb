"""What was said in a conversation, read back: to catch up after a gap, and to see whether a post has landed.

Rule 1: pages come newest first, or not; everything is read, then put in order.
Rule 2: `conversations.history` has no replies. Threads whose first message is younger than a day before the gap are
        read as well; replies in older threads come only by Slack's own retries.
Rule 3: edits and deletions made during a gap are not told afterwards; a message edited meanwhile is read as it is now.
"""

from holdfast.channels.slack.message import Json, part, parts, position_of, ts_of, word
from holdfast.channels.slack.web import Failure, Kind, Web
from holdfast.core.ids import ID_ALPHABET, ID_RANDOM_BITS, ID_TIME_CHARS, ReplyId
from holdfast.core.outgoing import Post

PAGE = 200
PAGES_MAX = 500
LOOKUP_PAGES_MAX = 20
OVERLAP = 300 * 1_000_000  # microseconds; Slack's last retry comes after five minutes, so order is loose by as much
THREADS_REACH = 86_400 * 1_000_000
SKEW_MS = 600_000  # how far our clock and Slack's may be apart
EVENT_TYPE = "holdfast_reply"


async def missed(web: Web, chat: str, position: int) -> list[Json] | Failure:
    """Messages and replies since shortly before `position`, oldest first."""
    since = max(0, position - OVERLAP)
    top = await _pages(web, "conversations.history", PAGES_MAX, channel=chat, oldest=_oldest(since - THREADS_REACH))
    if isinstance(top, Failure):
        return top
    found = {word(message, "ts"): message for message in top}
    for parent in top:
        if (position_of(word(parent, "latest_reply")) or 0) <= since:
            continue
        ts = word(parent, "ts")
        replies = await _pages(web, "conversations.replies", PAGES_MAX, channel=chat, ts=ts, oldest=_oldest(since))
        if isinstance(replies, Failure):
            return replies
        found |= {word(reply, "ts"): reply for reply in replies}
    recent = {ts: place for ts in found if (place := position_of(ts) or 0) > since}
    return [found[ts] for ts in sorted(recent, key=recent.__getitem__)]


async def landed(web: Web, post: Post) -> str | Failure | None:
    """The `ts` of a piece that an earlier attempt posted; None when it is certainly not there."""
    method, where = "conversations.history", {"channel": post.address.chat}
    if post.address.thread is not None:
        method, where = "conversations.replies", {**where, "ts": post.address.thread}
    oldest = _oldest((made_at_ms(post.reply) - SKEW_MS) * 1000)
    messages = await _pages(web, method, LOOKUP_PAGES_MAX, **where, oldest=oldest, include_all_metadata=True)
    if isinstance(messages, Failure):
        return messages
    return next((word(message, "ts") for message in messages if _nonce(message) == post.nonce), None)


async def _pages(web: Web, method: str, pages_max: int, **params: object) -> list[Json] | Failure:
    messages: list[Json] = []
    cursor = ""
    for _ in range(pages_max):
        paging = {"cursor": cursor} if cursor else {}
        answer = await web.get(method, **params, **paging, limit=PAGE)
        if isinstance(answer, Failure):
            return answer
        messages += parts(answer, "messages")
        cursor = word(part(answer, "response_metadata"), "next_cursor")
        if not cursor:
            return messages
    return Failure(Kind.REFUSED, f"more than {pages_max * PAGE} messages")


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
