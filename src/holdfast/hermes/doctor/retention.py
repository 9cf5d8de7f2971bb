"""Which turns the memory providers have: the words of each conversation compared with those that a provider keeps.

A conversation is a session with its continuations. Only turns that Hermes offers to a provider count: answered, not
taken back, no command, and not of a scheduled or delegated run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, finding
from holdfast.hermes.doctor.records import ExaminedMessage, ExaminedSession, Records

NOT_OFFERED = frozenset({"cron", "tool", "subagent", "recovered"})
EXAMPLES_MAX = 10


@dataclass(frozen=True, slots=True)
class RetainedTexts:
    """What one provider keeps, by session of Hermes. A session that could not be asked about is absent."""

    provider: str
    texts: Mapping[str, Sequence[str]]


def check_retention(records: Records, retained: RetainedTexts) -> Iterator[HermesFinding]:
    for root, sessions in conversations(records).items():
        asked = [one for one in sessions if one.id in retained.texts]
        turns = [turn for one in sessions for turn in offered_turns(records, one)]
        if not turns or len(asked) < len(sessions):
            continue
        kept = "\n".join(text for one in asked for text in retained.texts[one.id])
        missing = _distinct(turn for turn in turns if not is_kept(turn.text, kept))
        if not missing:
            continue
        finalised = [one.id for one in sessions if one.is_finalised]
        is_empty = bool(finalised) and not kept.strip()
        what = f"{retained.provider} lacks {len(missing)} of {len(_distinct(turns))} turns of {root}"
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


def is_kept(text: str, kept: str) -> bool:
    """Whether a provider's text contains the words, as they are or inside JSON."""
    forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return any(form in kept for form in forms)


def _distinct(turns: "Iterator[ExaminedMessage] | Sequence[ExaminedMessage]") -> list[ExaminedMessage]:
    """Each text once: carried copies repeat it."""
    return list({turn.text: turn for turn in reversed(list(turns))}.values())[::-1]
