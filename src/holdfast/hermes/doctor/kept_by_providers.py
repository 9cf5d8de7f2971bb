"""Comparing a home with what Hindsight and Honcho keep of it, asked with the settings that Hermes has. Only reads.

Rule 1: Hindsight is asked by session, in the bank of Hermes' own plugin and in that of Holdfast's.
Rule 2: Honcho's messages of Holdfast name their session. Hermes' own plugin names a place by the chat's key, or by the
        session id with the strategy per-session; it names a terminal's place by what a home does not store. So a
        terminal's conversation is compared only if Holdfast delivers it, or if the strategy is per-session.
Rule 3: a provider that could not be asked proves nothing, and the report says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.hermes.config_yaml import provider_of
from holdfast.hermes.doctor.examination import Examination, in_order
from holdfast.hermes.doctor.records import ExaminedSession, Records
from holdfast.hermes.doctor.retention import check_retention, conversations
from holdfast.hermes.filing import MAIN, place_of, principal_of
from holdfast.hermes.home import HermesHome
from holdfast.hermes.kept_messages import KeptMessages
from holdfast.hermes.kept_reader import ASKED, AskedSession, ask_provider, place_of_key
from holdfast.hermes.plugin.provider import NAME as HOLDFAST
from holdfast.hermes.provider_config import read_memory
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import SessionId
from holdfast.memory.delivery import NamingInputs

PER_SESSION = "per-session"
SHOWN = {"hindsight": "Hindsight", "honcho": "Honcho"}


async def with_retention(home: HermesHome, examined: Examination, variables: Mapping[str, str]) -> Examination:
    """The examination with what the providers lack; a provider that could not be asked is listed as skipped."""
    records = examined.records
    if records is None:
        return examined
    memory = read_memory(home, variables, Path.home())
    asked, found, unasked = _asked(records), list(examined.findings), list(memory.left_out)
    is_ours = provider_of(home) == HOLDFAST
    for name in ASKED:
        if name not in memory.tables:
            continue
        table = memory.tables[name]
        try:
            kept = await ask_provider(name, table, {**variables, **memory.secrets}, asked)
        except HoldfastError as error:
            unasked.append(f"{name}: {error.context.get('reason') or error}")
            continue
        per_session = table.get("strategy") == PER_SESSION
        places = _places(records, kept, is_known=name == "hindsight" or is_ours, per_session=per_session)
        found += check_retention(records, replace(kept, provider=SHOWN[name]), places)
    files = replace(examined.files, unreadable=(*examined.files.unreadable, *unasked))
    return replace(examined, findings=in_order(found), files=files)


def _asked(records: Records) -> list[AskedSession]:
    return [
        AskedSession(
            id=session.id,
            inputs=tuple(_inputs(records.sessions[root], one) for one in (session, records.sessions[root])),
            in_hermes={
                "session": root,
                "platform": session.source,
                "user": session.user_id or records.sessions[root].user_id or "",
                "profile": "default",
                "workspace": "hermes",
            },
        )
        for root, sessions in conversations(records).items()
        for session in sessions
    ]


def _inputs(root: ExaminedSession, session: ExaminedSession) -> NamingInputs:
    """What Holdfast's plugin names the place of a session by."""
    about = {
        "platform": session.source,
        "user_id": session.user_id or root.user_id or "",
        "chat_id": session.chat_id or root.chat_id or "",
        "gateway_session_key": session.session_key or root.session_key or "",
    }
    return NamingInputs(
        agent=MAIN, session=SessionId(session.id), principal=principal_of(about), address=place_of(about)
    )


def _places(records: Records, kept: KeptMessages, *, is_known: bool, per_session: bool) -> dict[str, Sequence[str]]:
    """Where Hermes' own plugin keeps each session; a session whose place cannot be known is absent."""
    found: dict[str, Sequence[str]] = {}
    for root, sessions in conversations(records).items():
        for session in sessions:
            key = session.session_key or records.sessions[root].session_key or ""
            if key:
                found[session.id] = [place_of_key(key, MAIN)]
            elif per_session:
                ids = {root, session.id}  # Hermes keeps the first id at a rotation, until it is started again
                found[session.id] = [place for place in kept.by_place if _ends_with(place, ids)]
            elif is_known or session.id in kept.by_session:
                found[session.id] = []
    return found


def _ends_with(place: str, ids: set[str]) -> bool:
    """Whether a place is named by one of the ids, with or without the peer in front of it."""
    return place in ids or any(place.endswith(f"-{one}") for one in ids)
