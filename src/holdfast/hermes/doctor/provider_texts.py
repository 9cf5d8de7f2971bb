"""Asking Hindsight and Honcho what they keep of a home's sessions, with the settings that Hermes has. Only reads.

Hermes' own plugin tags Hindsight's documents with `session:<id>`; Honcho's sessions are named by the chat's key, or by
the session id with the strategy per-session. A conversation without either cannot be compared with Honcho.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.hermes.doctor.examination import Examination, in_order
from holdfast.hermes.doctor.records import ExaminedSession, Records
from holdfast.hermes.doctor.retention import RetainedTexts, check_retention, conversations
from holdfast.hermes.home import HermesHome
from holdfast.hermes.provider_config import HermesMemory, read_memory
from holdfast.kernel.machine import SystemClock
from holdfast.providers.hindsight.factory import HindsightSettings
from holdfast.providers.honcho.factory import HonchoSettings

if TYPE_CHECKING:
    from holdfast.providers.hindsight.client import HindsightClient

NAME_CHARS_MAX = 100
T = TypeVar("T")
NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9_-]")


async def ask_providers(
    home: HermesHome, records: Records, variables: Mapping[str, str], user_home: Path
) -> tuple[list[RetainedTexts], list[str]]:
    """What each configured provider keeps, and a reason for each one that could not be asked."""
    memory = read_memory(home, variables, user_home)
    found: list[RetainedTexts] = []
    unasked = list(memory.left_out)
    for name, ask in (("hindsight", _ask_hindsight), ("honcho", _ask_honcho)):
        if name not in memory.tables:
            continue
        try:
            answer = await ask(memory, records)
        except ModuleNotFoundError as error:
            answer = f"the client library is not installed ({error.name}); install holdfast[{name}]"
        if isinstance(answer, RetainedTexts):
            found.append(answer)
        else:
            unasked.append(f"{name}: {answer}")
    return found, unasked


async def with_retention(home: HermesHome, examined: Examination, variables: Mapping[str, str]) -> Examination:
    """The examination with what the providers lack; a provider that could not be asked is listed as skipped."""
    if examined.records is None:
        return examined
    retained, unasked = await ask_providers(home, examined.records, variables, Path.home())
    more = [one for kept in retained for one in check_retention(examined.records, kept)]
    files = replace(examined.files, unreadable=(*examined.files.unreadable, *unasked))
    return replace(examined, findings=in_order([*examined.findings, *more]), files=files)


async def _ask_hindsight(memory: HermesMemory, records: Records) -> RetainedTexts | str:
    """What Hindsight keeps, or why it could not be asked."""
    from holdfast.providers.hindsight.client import HindsightClient  # noqa: PLC0415 - seconds of imports
    from holdfast.providers.hindsight.transport import HindsightCallFailed  # noqa: PLC0415

    settings, key = _settings(memory, "hindsight", HindsightSettings)
    client = HindsightClient(settings, key, SystemClock())
    texts: dict[str, list[str]] = {}
    try:
        for root, sessions in conversations(records).items():
            for session in sessions:
                bank = _bank(settings.bank, records.sessions[root], session)
                texts[session.id] = await _documents(client, bank, session.id)
    except HindsightCallFailed as failure:
        return failure.problem.reason
    finally:
        await client.close()
    return RetainedTexts("Hindsight", texts)


async def _documents(client: "HindsightClient", bank: str, session: str) -> list[str]:
    ids = await client.tagged(bank, [f"session:{session}"])
    found = [await client.document(bank, one) for one in ids]
    return [str(one.original_text or "") for one in found if one is not None]


def _bank(template: str, root: ExaminedSession, session: ExaminedSession) -> str:
    """Hermes resolves the template when it starts a session, and not again at a rotation."""
    values = {"session": root.id, "platform": session.source, "user": root.user_id or "", "profile": "default"}
    return re.sub(r"\{(\w+)\}", lambda part: values.get(part[1], "hermes"), template)


async def _ask_honcho(memory: HermesMemory, records: Records) -> RetainedTexts | str:
    """What Honcho keeps, or why it could not be asked."""
    from holdfast.providers.honcho.client import HonchoClient  # noqa: PLC0415 - seconds of imports
    from holdfast.providers.honcho.faults import HonchoCallFailed  # noqa: PLC0415

    settings, key = _settings(memory, "honcho", HonchoSettings)
    client = HonchoClient(settings, key)
    texts: dict[str, list[str]] = {}
    try:
        for root, sessions in conversations(records).items():
            for session in sessions:
                place = _place(records.sessions[root], session, per_session=settings.strategy.value == "per-session")
                if place:
                    texts[session.id] = await client.texts(place)
    except HonchoCallFailed as failure:
        return failure.outcome.reason
    finally:
        await client.close()
    return RetainedTexts("Honcho", texts)


def _place(root: ExaminedSession, session: ExaminedSession, *, per_session: bool) -> str:
    key = session.session_key or root.session_key or ""
    if not key:
        return NOT_OF_AN_ID.sub("-", root.id) if per_session else ""
    name = NOT_OF_AN_ID.sub("-", key)
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{name[: NAME_CHARS_MAX - len(digest) - 1]}-{digest}"


def _settings(memory: HermesMemory, name: str, shape: type[T]) -> tuple[T, str | None]:
    table = memory.tables[name]
    settings = msgspec.convert(dict(table), shape)
    return settings, memory.secrets.get(str(table.get("api_key_env", "")))
