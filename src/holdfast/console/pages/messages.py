"""Messages: the list with its filters, and finding one by any id."""

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import Instant
from holdfast.monitor.message_list import MessageFilter
from holdfast.monitor.message_list_sql import list_messages
from holdfast.monitor.message_outcome_sql import read_outcomes
from holdfast.monitor.session_list import SessionFilter
from holdfast.monitor.session_list_sql import search_sessions
from holdfast.monitor.trace_sql import find_messages

DAY_MS = 86_400_000
SPANS = {"hour": DAY_MS // 24, "day": DAY_MS, "week": 7 * DAY_MS, "": None}
TEXT = {"type": "string", "maxLength": 500}
STATES = [state.value for state in MessageState]
CHOICE = {"type": "string", "maxLength": 40}
QUERY = {
    "q": Param("words, or any id", TEXT, default=""),
    "agent": Param("only this agent's", CHOICE | {"maxLength": 64}, default=""),
    "chat": Param("only of this chat", TEXT, default=""),
    "sender": Param("only of this sender", TEXT, default=""),
    "state": Param("only in this state", CHOICE, default=""),
    "since": Param("how far back", CHOICE, default=""),
    "before": Param("`next` of the page before", CHOICE, default=""),
}
PAGE_SIZE = 50


@page("/console/messages", query=QUERY)
async def get_messages(asked: Asked) -> PageView | Response:
    """Messages, newest first."""
    wanted = asked.query
    text, span = wanted["q"].strip(), SPANS.get(wanted["since"])
    found = await asked.read(
        list_messages(
            MessageFilter(
                agent=wanted["agent"],
                chat=wanted["chat"],
                sender=wanted["sender"],
                state=wanted["state"] if wanted["state"] in STATES else "",
                text=text,
                since=None if span is None else Instant(max(0, asked.status.at - span)),
            ),
            before=wanted["before"],
            limit=PAGE_SIZE,
        )
    )
    return PageView(
        "messages.html",
        "Messages",
        {
            "asked": {**wanted, "q": text},
            "found": found,
            "outcomes": await asked.read(read_outcomes([one.message for one in found.messages])),
            "older": asked.address(before=found.next or ""),
            "agents": asked.runtime.agents(),
            "states": STATES,
            "is_filtered": any(wanted[name] for name in QUERY if name != "before"),
        },
    )


@page("/console/find", query={"q": Param("words, or any id", TEXT, default="")})
async def get_find(asked: Asked) -> PageView | Response:
    """Where a person who typed words or an id wants to go: to the one message or session, or to the list of matches."""
    text = asked.query["q"].strip()
    if text.startswith("ses_") and ":" not in text:
        return await _find_session(asked, text)
    found = await asked.read(find_messages(text)) if text and " " not in text else ()
    target = f"/console/trace/{found[0]}" if len(found) == 1 else "/console/messages"
    return _to(asked, target, is_list=len(found) != 1)


async def _find_session(asked: Asked, text: str) -> Response:
    """To the session that has the id, or the only one whose id begins so."""
    found = (await asked.read(search_sessions(SessionFilter(text=text), limit=2))).sessions
    beginning = [one.id for one in found if one.id.startswith(text)]
    chosen = text if text in beginning else beginning[0] if len(beginning) == 1 else ""
    return _to(asked, f"/console/sessions/{quote(chosen)}" if chosen else "/console/sessions", is_list=not chosen)


def _to(asked: Asked, path: str, *, is_list: bool) -> Response:
    """A redirection; a list gets the words that were looked for."""
    request = asked.call.request.url
    return RedirectResponse(str(request.replace(path=path, query=request.query if is_list else "")), 303)
