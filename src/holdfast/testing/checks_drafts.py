"""I24: a draft is recorded before it is shown, is shown once, and is replaced by its reply."""

from collections import Counter

from holdfast.outbox.draft import MARK
from holdfast.outbox.post import Post
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.chats import receipt_of
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row

LEFT_STANDING = frozenset({"standing", "gone", "unknown"})  # outcomes after which an unfinished text may remain


def drafts_are_on_record_first(evidence: Evidence) -> Found:
    """I24: no draft is sent before it is recorded, and none is posted twice."""
    if evidence.company is None or not evidence.has(ChannelArea.DRAFTS):
        return
    drafts = evidence.company.drafts
    yield from (f"{draft} left before it was on record" for draft in drafts.unrecorded)
    for draft, times in Counter(post.reply for post in drafts.posts).items():
        if times > 1:
            yield f"{draft} is shown {times} times"


def drafts_give_way(evidence: Evidence) -> Found:
    """I24: at rest every unfinished text in a chat has a recorded outcome, and no older text replaces a reply."""
    if evidence.company is None or not evidence.has(ChannelArea.DRAFTS):
        return
    drafts = evidence.company.drafts
    waiting = {row["id"] for row in evidence.more["draft"]}
    for post in drafts.posts:
        receipt = receipt_of(post)
        replies = _replies(evidence, post)
        fates = {row["draft"] for row in replies}
        text = drafts.chats.texts[receipt]
        if any(row["draft"] == "replaced" and row["draft_id"] == receipt for row in replies) and text.endswith(MARK):
            yield f"{post.reply} shows {text!r} although its reply took its place"
        is_over = receipt in drafts.retracted or post.reply in waiting or bool(fates & LEFT_STANDING)
        if text.endswith(MARK) and not is_over and not _is_let_go(evidence, post, replies):
            yield f"{post.reply} shows {text!r}; the replies of its turn say {sorted(map(str, fates))}"


def _is_let_go(evidence: Evidence, post: Post, replies: list[Row]) -> bool:
    """Whether the draft's id was never learned, and its turn ended without a reply to replace it."""
    return post.reply in _unknown(evidence) or not replies


def _unknown(evidence: Evidence) -> set[str]:
    return evidence.company.drafts.unanswered if evidence.company is not None else set()


def _replies(evidence: Evidence, post: Post) -> list[Row]:
    """The replies of the turn that the draft was shown for."""
    turns = {(row["session"], row["turn"]) for row in evidence.rows["inbound"] if row["message"] == post.message}
    return [row for row in evidence.rows["reply"] if (row["session"], row["turn"]) in turns]
