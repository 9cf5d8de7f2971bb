"""The table of all pages: the endpoints of these modules. The API's document does not list them."""

from holdfast.api.endpoint import Endpoint
from holdfast.console.pages import (
    agents,
    approvals,
    deliveries,
    finish,
    health,
    memory,
    messages,
    overview,
    people,
    repair,
    replies,
    session,
    sessions,
    spend,
    static,
    trace,
)

MODULES = (
    *(overview, messages, sessions, session, trace, approvals, replies, repair, agents),
    *(deliveries, memory, finish, people, spend, health, static),
)
PAGES = tuple(one for module in MODULES for one in vars(module).values() if isinstance(one, Endpoint))
