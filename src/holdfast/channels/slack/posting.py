"""Posts one part of a reply, and decides what the answer proves.

Rule 1: Slack does not refuse a repeated nonce. Ours travels in the message's metadata, and before a doubtful post is
        repeated, the conversation is searched for it. If it is found, nothing is sent.
Rule 2: an unsuccessful search proves absence only after a quiet time: Slack may still be processing a request whose
        answer was lost.
Rule 3: an edit is idempotent. A missing or uneditable message is a refusal. An edit turns names into mentions unless
        `parse` is none, and formats *stars* in any case.
Rule 4: where the search is not allowed (no history scope), the post is sent, once more at most, as the outbox decides.
"""

from holdfast.channels.slack.history import EVENT_TYPE, find_post
from holdfast.channels.slack.message import escape, string
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi
from holdfast.inbox.address import Address
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent

GONE = "message_not_found"
QUIET_MS = 30_000  # as long as we wait for an answer


async def send_post(web: SlackWebApi, post: Post) -> SendOutcome:
    is_absent = False
    if post.doubtful:
        found = await find_post(web, post)
        if isinstance(found, str):
            return Sent(found, proved=True)
        if isinstance(found, SlackFailure) and found.is_temporary:
            why = f"Slack could not be searched for an earlier attempt: {found.code}"
            return NotSent(why, found.retry_after_ms, vendor=found.vendor)
        is_absent = found is None and post.doubtful_for_ms >= QUIET_MS
    answer = await web.post("chat.postMessage", _body(post))
    if isinstance(answer, SlackFailure):
        return _outcome(answer)
    receipt = string(answer, "ts")
    return Sent(receipt, proved=is_absent) if receipt else Doubtful("Slack answered ok without a message id")


async def edit_post(web: SlackWebApi, address: Address, receipt: str, text: str) -> SendOutcome:
    body: dict[str, object] = {"channel": address.chat, "ts": receipt, "text": escape(text), "parse": "none"}
    answer = await web.post("chat.update", body)
    return _outcome(answer) if isinstance(answer, SlackFailure) else Sent(receipt)


async def delete_post(web: SlackWebApi, address: Address, receipt: str) -> SendOutcome:
    answer = await web.post("chat.delete", {"channel": address.chat, "ts": receipt})
    if isinstance(answer, SlackFailure) and answer.code != GONE:
        return _outcome(answer)
    return Sent(receipt)


def _body(post: Post) -> dict[str, object]:
    body: dict[str, object] = {
        "channel": post.address.chat,
        "text": escape(post.text),
        "mrkdwn": False,  # a model's *stars* differ from Slack's, so its text is shown as written
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {"nonce": post.nonce}},
    }
    return body if post.address.thread is None else {**body, "thread_ts": post.address.thread}


def _outcome(failure: SlackFailure) -> SendOutcome:
    match failure.kind:
        case SlackFailureKind.UNREACHED:
            return NotSent(failure.code, vendor=failure.vendor)
        case SlackFailureKind.LIMITED:
            return NotSent(failure.code, failure.retry_after_ms, vendor=failure.vendor)
        case SlackFailureKind.BAD_TOKEN:
            what = f"Slack does not accept the bot token ({failure.code}); check the token and the app's scopes"
            return NotSent(what, whole_account=True, vendor=failure.vendor)
        case SlackFailureKind.REFUSED:
            return Declined(failure.code, vendor=failure.vendor)
        case SlackFailureKind.UNCLEAR:
            return Doubtful(failure.code, vendor=failure.vendor)
