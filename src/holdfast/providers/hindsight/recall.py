"""Recall: the tags that a query may match, and results with their provenance.

Rule 1: the tags of a document name the scopes that may see it: the agent with one person, with one group, with each
        speaker of a group, or with everybody. A query names its scopes and never matches untagged memories, so a bank
        may be shared with other agents or other programs.
Rule 2: results are checked against the same tags again, so a server that ignores the filter reveals nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from hindsight_client_api.models.recall_result import RecallResult

from holdfast.kernel.ids import Instant, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.hindsight.document import scope_tag, tag, visible

QUERY_CHARS_MAX = 2_000  # embedding models read no more


def query_tags(query: RecallQuery) -> tuple[str, ...]:
    """The scopes that the audience may see, as tags.

    A group sees its own turns, and the asker's private turns if the operator allows it. A private conversation sees the
    asker's turns, in groups too; a conversation with an agent only that chat. All see the notes of their scopes.
    """
    agent = query.agent
    if query.audience.sees_all:
        return (tag("agent", agent),)
    notes = tuple(scope_tag("note", agent, scope) for scope in query.audience.scopes)
    private = tuple(scope_tag("private", agent, who) for who in query.askers)
    if not query.group:
        return (*notes, *private, *(scope_tag("spoken", agent, who) for who in query.askers))
    group = (*notes, scope_tag("group", agent, query.naming.address or query.naming.session))
    return (*group, *private) if query.private_in_groups else group


def query_text(query: RecallQuery) -> str:
    return visible(query.text.strip())[:QUERY_CHARS_MAX]


def recollections(
    provider: ProviderName, results: Iterable[RecallResult], tags: Sequence[str], limit: int
) -> tuple[Recollection, ...]:
    allowed = set(tags)
    seen = [result for result in results if allowed & set(result.tags or ())]
    return tuple(_recollection(provider, result) for result in seen[:limit])


def _recollection(provider: ProviderName, result: RecallResult) -> Recollection:
    known = result.metadata or {}
    session, turn = known.get("session"), known.get("from_turn", "")
    return Recollection(
        provider=provider,
        text=result.text,
        score=float(result.scores.final) if result.scores else 0.0,
        session=SessionId(session) if session else None,
        turn=int(turn) if turn.isascii() and turn.isdigit() else None,
        speaker=known.get("user", known.get("subject", "")),
        at=_instant(result.mentioned_at),
        ref=result.document_id or result.id,
        scope=known.get("subject", "") if "target" in known else None,
    )


def _instant(text: str | None) -> Instant | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Instant(int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000))
