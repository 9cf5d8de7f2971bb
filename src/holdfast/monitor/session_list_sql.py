"""Listing and searching sessions, those that were opened last first, with one statement per page."""

from holdfast.monitor.session_list import ListedSession, SessionFilter, SessionPage
from holdfast.sessions.session import title_key
from holdfast.store.script import Columns, Script, verb

# The newest request to the model whose tokens are known; the index of a session's activities leads to it.
NEWEST_REQUEST = """
(select {} from activity
  where activity.session = session.id and activity.kind = 'model' and activity.tokens_in is not null
  order by activity.turn desc, activity.n desc limit 1)"""
LISTED = Columns(
    ListedSession,
    "session",
    chat="(select conversation from inbound where inbound.session = session.id order by turn desc limit 1)",
    address="place.address",
    is_live="case when place.session_id = session.id then 1 else 0 end",
    phase="(select phase from turn where turn.session = session.id and turn.n = session.open_turn)",
    snapshots="session.summaries",
    parent="session.parent_id",
    tokens_in=NEWEST_REQUEST.format("tokens_in"),
    asked_at=NEWEST_REQUEST.format("ended_at"),
    compressed_at="(select max(summary.at) from summary where summary.session = session.id)",
)
PAGE = f"""
select {LISTED} from session left join mailbox place on place.id = session.mailbox
 where (:agent = '' or session.agent = :agent)
   and (:state = '' or session.state = :state or (:state = 'running' and session.open_turn is not null))
   and (:text = '' or session.title_key like :part escape '!' or session.principal = :text
        or session.id like :beginning escape '!' or place.address like :place escape '!')
   and (:after = '' or (session.opened_at, session.id) < (select opened_at, id from session where id = :after))
 order by session.opened_at desc, session.id desc limit :limit"""


@verb
def search_sessions(wanted: SessionFilter, *, after: str = "", limit: int = 50) -> Script[SessionPage]:
    found = yield from LISTED.rows(
        PAGE,
        agent=wanted.agent,
        state=wanted.state,
        text=wanted.text,
        part=f"%{_literal(title_key(wanted.text))}%",
        beginning=f"{_literal(wanted.text)}%",
        place=f"%{_literal(wanted.text)}%",
        after=after,
        limit=limit + 1,
    )
    shown = found[:limit]
    return SessionPage(sessions=shown, next=shown[-1].id if len(found) > limit else None)


def _literal(text: str) -> str:
    """The text with the signs of `like` escaped."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
