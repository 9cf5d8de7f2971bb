"""Recall from Honcho, within the boundaries of memory/recall.py.

Rule 1: a group is shown only messages of that chat, the group's own notes and shared ones. Honcho's model of a person
        is drawn from all their sessions, so a group does not query it, unless the operator allows private memories in
        groups.
Rule 2: a private conversation is shown this person's messages to this agent, conclusions about this person, and the
        notes that memory/visibility.py allows. A conclusion has no metadata: its pair of peers says whose it is.
        Conclusions that Honcho derived about the agent are never queried: they may come from any person's words.
Rule 3: each message is checked here by its metadata; the server's filter is not trusted. In compat mode the messages
        that Hermes wrote have no metadata. They belong to this chat if its key names the session, or to this person if
        they or the agent wrote them.
"""

from collections.abc import Mapping

from honcho.conclusions import Conclusion  # type: ignore[import-untyped]
from honcho.message import Message  # type: ignore[import-untyped]

from holdfast.kernel.ids import Provider, SessionId
from holdfast.memory.notes import Target
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.memory.visibility import CHAT, SESSION, person_of
from holdfast.providers.honcho.client import HonchoClient, instant
from holdfast.providers.honcho.messages import QUERY_CHARS_MAX, decode_text, encode_text
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.providers.honcho.remember import pair_of


async def recall(
    client: HonchoClient, names: HonchoNames, provider: Provider, query: RecallQuery
) -> list[Recollection]:
    """Best first. Honcho gives an order and no scores, so its lists are merged by rank."""
    text = encode_text(query.text)[:QUERY_CHARS_MAX].strip()
    if not text:
        return []
    is_unfiltered = names.compat or (query.group and query.private_in_groups)
    wanted = None if is_unfiltered else _metadata_of(query)
    found = await client.search(names.place(query.naming), text, wanted, query.limit)
    recollections = [
        _of_message(provider, message, rank)
        for rank, message in enumerate(message for message in found if _may_show(message, names, query))
    ]
    for pair, scope in _pairs(names, query).items():
        concluded = await client.query(*pair, text, query.limit)
        recollections += [_of_conclusion(provider, one, rank, scope) for rank, one in enumerate(concluded)]
    recollections.sort(key=lambda one: -one.score)  # stable: equal ranks keep the order of the lists
    return recollections[: query.limit]


def _pairs(names: HonchoNames, query: RecallQuery) -> dict[tuple[str, str], str]:
    """The pairs of peers to query, each with the scope of its conclusions.

    Each pair is a request, so a private conversation does not query the notes of the chat and of the session: its
    instructions show them.
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


def _metadata_of(query: RecallQuery) -> dict[str, object]:
    if query.group:
        return {"agent": query.agent, "chat": encode_text(query.naming.address)}
    if query.audience.sees_all or len(query.askers) > 1:
        return {"agent": query.agent}  # `_may_show` checks which of the askers wrote a message
    return {"agent": query.agent, "user": encode_text(query.naming.principal)}


def _may_show(message: Message, names: HonchoNames, query: RecallQuery) -> bool:
    metadata = message.metadata or {}
    if names.compat and "agent" not in metadata:
        people = {names.person_peer(query.agent, who) for who in query.askers}
        known = {names.agent_peer(query.agent), *people}
        return names.chat(query.naming) is not None or (not query.group and message.peer_id in known)
    if query.audience.sees_all:
        return _has(metadata, {"agent": query.agent})
    own = any(_has(metadata, {"agent": query.agent, "user": encode_text(who)}) for who in query.askers)
    if query.group:
        return _has(metadata, _metadata_of(query)) or (query.private_in_groups and own)
    return own


def _has(metadata: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())


def _of_message(provider: Provider, message: Message, rank: int) -> Recollection:
    session, turn, speaker = ((message.metadata or {}).get(key) for key in ("session", "turn", "speaker"))
    return Recollection(
        provider=provider,
        text=decode_text(message.content),
        score=1 / (1 + rank),
        session=SessionId(session) if isinstance(session, str) and session else None,
        turn=turn if isinstance(turn, int) else None,
        speaker=speaker if isinstance(speaker, str) else "",
        at=instant(message.created_at),
        ref=message.id,
    )


def _of_conclusion(provider: Provider, conclusion: Conclusion, rank: int, scope: str) -> Recollection:
    return Recollection(
        provider=provider,
        text=decode_text(conclusion.content),
        score=1 / (1 + rank),
        at=instant(conclusion.created_at),
        ref=conclusion.id,
        scope=scope,
    )
