"""Replies to platforms: those that wait for a decision, and the newest ones."""

from collections import Counter

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.kernel.ids import ReplyId
from holdfast.monitor.status import plural
from holdfast.monitor.undecided_sql import list_undecided_replies
from holdfast.outbox.post import PULLED, ReplyState
from holdfast.outbox.reply_sql import list_replies, read_reply

STATES = [state.value for state in ReplyState]
QUERY = {
    "state": Param("only in this state", {"type": "string", "maxLength": 20}, default=""),
    "agent": Param("only this agent's", {"type": "string", "maxLength": 64}, default=""),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}, default=0),
}
PAGE_SIZE = 50


@page("/console/replies", query=QUERY)
async def get_replies(asked: Asked) -> PageView:
    """Replies, newest first."""
    state = asked.query["state"] if asked.query["state"] in STATES else ""
    agent, after = asked.query["agent"], asked.query["after"]
    undecided = await asked.read(list_undecided_replies(limit=PAGE_SIZE))
    found = await asked.read(list_replies(state=state or None, agent=agent or None, after=after, limit=PAGE_SIZE))
    counts: Counter[str] = Counter()
    for queue in asked.status.queues.replies.values():
        counts.update(queue.states)
    told = [
        ("hot", plural(counts["uncertain"], "reply uncertain", "replies uncertain")),
        ("hot", plural(counts["failed"], "reply not taken", "replies not taken")),
        ("quiet", plural(counts["pending"] + counts["attempting"], "on its way", "on their way")),
    ]
    return PageView(
        "replies.html",
        "Replies",
        {
            "first": [one for one in told if one[1]] or [("", "Every reply arrived")],
            "undecided": undecided,
            "found": found,
            "asked": {"state": state, "agent": agent, "after": after},
            "older": asked.address(after=str(found[-1].n)) if len(found) == PAGE_SIZE else "",
            "states": STATES,
            "agents": asked.runtime.agents(),
            "pulled": PULLED,
        },
    )


@page("/console/replies/resend/{reply}")
async def get_resend(asked: Asked) -> PageView:
    """What resending a reply would do."""
    return PageView(
        "resend.html", "Resend a reply", {"one": await asked.read(read_reply(ReplyId(asked.call.id("reply"))))}
    )
