"""Which turns the memory providers have: the words of each conversation compared with those that a provider keeps.

A conversation is a session with its continuations. Only turns that Hermes offers to a provider count: answered, not
taken back, no command, and not of a scheduled or delegated run. A provider has a turn if it keeps the user's message
as a whole. A document of an unknown form is searched for the words, unless they are so short that chance finds them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, finding
from holdfast.hermes.doctor.records import ExaminedMessage, ExaminedSession, Records
from holdfast.hermes.kept_messages import SHORT_CHARS_MAX, KeptMessages, fingerprint

NOT_OFFERED = frozenset({"cron", "tool", "subagent", "recovered"})
EXAMPLES_MAX = 10


def check_retention(
    records: Records, kept: KeptMessages, places: Mapping[str, Sequence[str]]
) -> Iterator[HermesFinding]:
    """Compare the conversations. `places` has the provider's places of each session that can be compared."""
    for root, sessions in conversations(records).items():
        turns = [turn for one in sessions for turn in offered_turns(records, one)]
        if not turns or any(one.id not in places for one in sessions):
            continue
        has = _kept_of(kept, [one.id for one in sessions], [place for one in sessions for place in places[one.id]])
        missing = _distinct(turn for turn in turns if not has.holds(turn.text))
        if not missing:
            continue
        finalised = [one.id for one in sessions if one.is_finalised]
        is_empty = bool(finalised) and has.is_empty
        what = f"{kept.provider} lacks {len(missing)} of {len(_distinct(turns))} turns of {root}"
        yield finding(
            "finalised_without_turns" if is_empty else "turns_not_retained",
            what,
            *(finalised if is_empty else dict.fromkeys(turn.session for turn in missing)),
            certainty=Certainty.LIKELY,
            evidence=FindingEvidence(tuple(map(str, missing[:EXAMPLES_MAX]))),
        )


def conversations(records: Records) -> dict[str, list[ExaminedSession]]:
    """Sessions by the session that their conversation began with."""
    found: dict[str, list[ExaminedSession]] = {}
    for session in records.sessions.values():
        root, seen = session, {session.id}
        while not root.is_branch and (parent := records.sessions.get(root.parent or "")) and parent.id not in seen:
            root = parent
            seen.add(root.id)
        if session.source not in NOT_OFFERED:
            found.setdefault(root.id, []).append(session)
    return found


def offered_turns(records: Records, session: ExaminedSession) -> list[ExaminedMessage]:
    """The user's messages of a session that were answered."""
    spoken = [row for row in records.said_in(session.id) if row.is_spoken and not row.is_undone]
    answered = [first for first, second in pairwise(spoken) if first.role == "user" and second.role == "assistant"]
    return [row for row in answered if not row.text.startswith("/")]


class _ConversationAtProvider:
    """What a provider keeps of one conversation."""

    def __init__(self, messages: Iterable[str], unread: Sequence[str]) -> None:
        self._messages = {fingerprint(text) for text in messages}
        self._unread = "\n".join(unread)

    @property
    def is_empty(self) -> bool:
        return not self._messages and not self._unread.strip()

    def holds(self, text: str) -> bool:
        if fingerprint(text) in self._messages:
            return True
        forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        return len(text) > SHORT_CHARS_MAX and any(form in self._unread for form in forms)


def _kept_of(kept: KeptMessages, sessions: Sequence[str], places: Sequence[str]) -> _ConversationAtProvider:
    of_sessions = [text for one in sessions for text in kept.by_session.get(one, ())]
    of_places = [text for place in dict.fromkeys(places) for text in kept.by_place.get(place, ())]
    return _ConversationAtProvider(
        [*of_sessions, *of_places], [text for one in sessions for text in kept.unread.get(one, ())]
    )


def _distinct(turns: Iterable[ExaminedMessage]) -> list[ExaminedMessage]:
    """Each text once: carried copies repeat it."""
    return list({turn.text: turn for turn in reversed(list(turns))}.values())[::-1]
