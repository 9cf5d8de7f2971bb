"""Sessions: the list with its search, one row for each, and how full the model's window is."""

from dataclasses import dataclass

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.monitor.session_list import ListedSession, SessionFilter
from holdfast.monitor.session_list_sql import search_sessions
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.session import SessionState

TEXT = {"type": "string", "maxLength": 200}
CHOICE = {"type": "string", "maxLength": 64}
STATES = ["running", *(state.value for state in SessionState)]
QUERY = {
    "q": Param("a part of the title or the chat, a principal, or the beginning of an id", TEXT, default=""),
    "agent": Param("only this agent's", CHOICE, default=""),
    "state": Param("only in this state", CHOICE, default=""),
    "after": Param("`next` of the page before", CHOICE, default=""),
}
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Fullness:
    """Tokens against the window of the model, and the thresholds of compression, in per cent of the window."""

    used: int
    window: int
    soft: float
    hard: float

    @property
    def share(self) -> float:
        return min(100.0, 100 * self.used / self.window)

    @property
    def rank(self) -> str:
        return "hard" if self.share >= self.hard else "soft" if self.share >= self.soft else ""


def fullness(used: int, thresholds: Thresholds) -> Fullness:
    return Fullness(used, thresholds.context_tokens, 100 * thresholds.soft, 100 * thresholds.hard)


@page("/console/sessions", query=QUERY)
async def get_sessions(asked: Asked) -> PageView:
    """Sessions, those that were opened last first."""
    wanted = {**asked.query, "q": asked.query["q"].strip()}
    state = wanted["state"] if wanted["state"] in STATES else ""
    filtered = SessionFilter(agent=wanted["agent"], state=state, text=wanted["q"])
    found = await asked.read(search_sessions(filtered, after=wanted["after"], limit=PAGE_SIZE))
    return PageView(
        "sessions.html",
        "Sessions",
        {
            "asked": wanted,
            "found": [(one, _fullness(asked.runtime, one)) for one in found.sessions],
            "older": asked.address(after=found.next) if found.next else "",
            "agents": asked.runtime.agents(),
            "states": STATES,
            "is_filtered": any(wanted[name] for name in ("q", "agent", "state")),
        },
    )


def _fullness(runtime: Runtime, session: ListedSession) -> Fullness | None:
    policy, used = runtime.policy(session.agent), session.used_tokens
    return fullness(used, policy.thresholds) if policy is not None and used is not None else None
