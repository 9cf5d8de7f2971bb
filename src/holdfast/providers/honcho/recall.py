"""What Honcho remembers, within the boundaries of memory/recall.py.

Rule 1: in a group only what was said in that very chat, the group's own notes and shared ones. Honcho's picture of a
        person is drawn from all their sessions, so it is not asked for there, unless the operator allows private words
        in groups.
Rule 2: in private, what was said by this person to this agent, what was concluded about this person, and notes that
        memory/visibility.py allows. A conclusion has no metadata: the pair of peers that it is of says whose it is.
        What Honcho derived about the agent is never asked for: it may be from anybody's words.
Rule 3: each message is checked here by its metadata, whatever the server's filter let through. In compat mode the
        messages that Hermes wrote have none, and count as this chat's when its key names the session, or as this
        person's when they or the agent said them.
"""

from collections.abc import Mapping

from holdfast.kernel.ids import Provider, SessionId
from holdfast.memory.notes import Target
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.memory.visibility import CHAT, SESSION, person_of
from holdfast.providers.honcho.client import Calls, Kept
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.providers.honcho.remember import pair_of
from holdfast.providers.honcho.words import QUERY_CHARS_MAX, heard, said


async def recall(calls: Calls, names: HonchoNames, provider: Provider, query: RecallQuery) -> list[Recollection]:
    """Best first: Honcho gives an order, not scores, so its lists are merged by rank."""
    text = said(query.text)[:QUERY_CHARS_MAX].strip()
    if not text:
        return []
    pairs = _pairs(names, query)
    lists: list[tuple[str | None, list[Kept]]] = [(None, await _said(calls, names, query, text))]
    for pair, scope in pairs.items():
        lists.append((scope, await _concluded(calls, *pair, text, query.limit)))
    ranked = [(rank, scope, kept) for scope, found in lists for rank, kept in enumerate(found)]
    ranked.sort(key=lambda one: one[0])  # stable: of equal rank in the order of the lists
    return [_recollection(provider, kept, rank, scope) for rank, scope, kept in ranked][: query.limit]


def _pairs(names: HonchoNames, query: RecallQuery) -> dict[tuple[str, str], str]:
    """The pairs of peers that are asked, each with the scope that its conclusions are of.

    Each is a request of its own, so in private the notes of the chat and of the session are left to the instructions.
    """
    found: dict[tuple[str, str], str] = {}
    for scope in query.audience.scopes:
        if scope.startswith(SESSION) or (scope.startswith(CHAT) and not query.group):
            continue
        pairs = [pair_of(names, query.agent, scope, target.value) for target in Target]
        if (person := person_of(scope)) is not None:
            peer = names.person_peer(query.agent, person)
            pairs.append((peer, peer))
        for pair in pairs:
            found.setdefault(pair, scope)
    return found


async def _said(calls: Calls, names: HonchoNames, query: RecallQuery, text: str) -> list[Kept]:
    asked = None if names.compat or (query.group and query.private_in_groups) else _wanted(query)
    try:
        found = await calls.search(names.place(query.naming), text, asked, query.limit)
    except CallFailed as failure:
        if failure.status == 404:
            return []  # no such session yet
        raise
    return [kept for kept in found if may_show(kept, names, query)]


async def _concluded(calls: Calls, observer: str, observed: str, text: str, limit: int) -> list[Kept]:
    try:
        return await calls.query(observer, observed, text, limit)
    except CallFailed as failure:
        if failure.status == 404:
            return []  # no such peer yet
        raise


def _wanted(query: RecallQuery) -> dict[str, object]:
    if query.group:
        return {"agent": query.agent, "chat": said(query.naming.address)}
    if query.audience.sees_all:
        return {"agent": query.agent}
    if len(query.askers) > 1:
        return {"agent": query.agent}  # whose words they are is judged here
    return {"agent": query.agent, "user": said(query.naming.principal)}


def _people(names: HonchoNames, query: RecallQuery) -> tuple[str, ...]:
    """The peers that the asker is; two principals may share one."""
    return tuple(dict.fromkeys(names.person_peer(query.agent, who) for who in query.askers))


def may_show(kept: Kept, names: HonchoNames, query: RecallQuery) -> bool:
    """Whether what was said then may be shown to whoever asks now."""
    if names.compat and "agent" not in kept.metadata:
        known = {names.agent_peer(query.agent), *_people(names, query)}
        return names.chat(query.naming) is not None or (not query.group and kept.peer in known)
    if query.audience.sees_all:
        return _has(kept.metadata, {"agent": query.agent})
    own = any(_has(kept.metadata, {"agent": query.agent, "user": said(who)}) for who in query.askers)
    if query.group:
        return _has(kept.metadata, _wanted(query)) or (query.private_in_groups and own)
    return own


def _has(metadata: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())


def _recollection(provider: Provider, kept: Kept, rank: int, scope: str | None) -> Recollection:
    session, turn, speaker = (kept.metadata.get(key) for key in ("session", "turn", "speaker"))
    return Recollection(
        provider=provider,
        text=heard(kept.text),
        score=1 / (1 + rank),
        session=SessionId(session) if isinstance(session, str) and session else None,
        turn=turn if isinstance(turn, int) else None,
        speaker=speaker if isinstance(speaker, str) else "",
        at=kept.at,
        ref=kept.id,
        scope=scope,
    )
