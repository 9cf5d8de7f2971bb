"""Asking Hindsight and Honcho what they have of Hermes' sessions. Only reads.

Rule 1: Hindsight is asked in the banks of each session: those that Holdfast names by the settings, and for Hermes' own
        plugin the one that it names by the same template. What is on another server or in another bank is not seen.
Rule 2: a workspace of Honcho is read whole. Messages that name their session were delivered by Holdfast; the others
        are known by their place alone.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.hermes.kept_messages import CONTINUED, KeptMessages, joined_parts, messages_of_document
from holdfast.kernel.errors import ConfigInvalid, HermesEvidenceMissing
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.kernel.machine import SystemClock
from holdfast.kernel.settings_table import read_key, read_table
from holdfast.memory.delivery import NamingInputs
from holdfast.providers.hindsight.document import tag
from holdfast.providers.hindsight.factory import HindsightSettings
from holdfast.providers.hindsight.naming import BankTemplate
from holdfast.providers.honcho.factory import HonchoSettings
from holdfast.providers.honcho.naming import HonchoNames

if TYPE_CHECKING:
    from honcho.message import Message  # type: ignore[import-untyped]

    from holdfast.providers.hindsight.client import HindsightClient
    from holdfast.providers.honcho.client import HonchoClient

PREFIX = "hermes-"  # of an imported session's id
MAIN = AgentName("main")
ASKED = ("hindsight", "honcho")
ASSISTANT = "hermes"  # the peer of Hermes' answers, if honcho.json names no other one


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSession:
    """A session that is asked for: its id in Hermes, and what a provider names its place by.

    The second inputs are those of the conversation's first session: Hermes does not rename a bank at a rotation.
    """

    id: str
    inputs: tuple[NamingInputs, ...]
    in_hermes: Mapping[str, str] = field(default_factory=dict)  # what Hermes' plugin names its bank by, if asked


def place_of_key(key: str, agent: AgentName) -> str:
    """The name of Hermes' session at Honcho for a chat's key."""
    named = NamingInputs(agent=agent, session=SessionId(""), principal=Principal(""), address=key)
    return HonchoNames(compat=True).place(named) if key else ""


def bank_in_hermes(template: str, values: Mapping[str, str]) -> str:
    """The bank of Hermes' own plugin: values without other characters, and runs of `-` and `_` made one."""
    plain = {name: re.sub(r"[^\w-]+", "-", value).strip("-_") for name, value in values.items()}
    named = re.sub(r"\{(\w+)\}", lambda found: plain.get(found[1], ""), template)
    return re.sub("_{2,}", "_", re.sub("-{2,}", "-", named)).strip("-_") if named != template else template


async def ask_providers(
    tables: Mapping[str, Mapping[str, object]], variables: Mapping[str, str], sessions: Sequence[AskedSession]
) -> list[KeptMessages]:
    """What the agent's Hindsight and Honcho have. Raises `HermesEvidenceMissing` and `ConfigInvalid`."""
    return [await ask_provider(name, tables[name], variables, sessions) for name in ASKED if name in tables]


async def ask_provider(
    name: str, table: Mapping[str, object], variables: Mapping[str, str], sessions: Sequence[AskedSession]
) -> KeptMessages:
    """What one of them has. Raises `HermesEvidenceMissing` and `ConfigInvalid`."""
    ask = _ask_hindsight if name == "hindsight" else _ask_honcho
    try:
        return await ask(table, variables, sessions)
    except ModuleNotFoundError as error:
        what = f"the client library is not installed ({error.name}); install holdfast[{name}]"
        raise ConfigInvalid(f"{name}: {what}", key=name, reason=what) from error


async def _ask_hindsight(
    table: Mapping[str, object], variables: Mapping[str, str], sessions: Sequence[AskedSession]
) -> KeptMessages:
    from holdfast.providers.hindsight.client import HindsightClient  # noqa: PLC0415 - seconds of imports
    from holdfast.providers.hindsight.transport import HindsightCallFailed  # noqa: PLC0415

    settings = read_table("hindsight", table, HindsightSettings)
    plain_http = settings.send_key_over_plain_http
    key = read_key("hindsight", settings.url, settings.api_key_env, variables, plain_http=plain_http)
    naming = BankTemplate(settings.bank)
    client = HindsightClient(settings, key, SystemClock())
    kept: dict[str, list[str]] = {one.id: [] for one in sessions}
    unread: dict[str, list[str]] = {one.id: [] for one in sessions}
    try:
        if not any(session.in_hermes for session in sessions):
            await client.ready()  # Hermes' own plugin writes to older servers too, and they can be read
        for session in sessions:
            banks = [naming.bank(inputs) for inputs in session.inputs]
            banks += [bank_in_hermes(settings.bank, session.in_hermes)] if session.in_hermes else []
            for bank in filter(None, dict.fromkeys(banks)):
                for text in await _documents(client, bank, session.id):
                    said = messages_of_document(text)
                    kept[session.id] += said
                    unread[session.id] += [] if said else [text]
    except HindsightCallFailed as failure:
        raise _silent("hindsight", failure.problem.reason) from failure
    finally:
        await client.close()
    return KeptMessages("hindsight", by_session=kept, unread=unread)


async def _documents(client: "HindsightClient", bank: str, session: str) -> list[str]:
    """The documents of a session: those that Hermes delivered, and those of an earlier import."""
    found: list[str] = []
    for name in (session, f"{PREFIX}{session}"):
        for one in await client.tagged(bank, [tag("session", name)]):
            document = await client.document(bank, one)
            found += [str(document.original_text)] if document is not None and document.original_text else []
    return found


async def _ask_honcho(
    table: Mapping[str, object],
    variables: Mapping[str, str],
    sessions: Sequence[AskedSession],  # noqa: ARG001 - a workspace is read whole
) -> KeptMessages:
    from holdfast.providers.honcho.client import HonchoClient  # noqa: PLC0415 - seconds of imports
    from holdfast.providers.honcho.faults import HonchoCallFailed  # noqa: PLC0415

    settings = read_table("honcho", table, HonchoSettings)
    plain_http = settings.send_key_over_plain_http
    key = read_key("honcho", settings.url, settings.api_key_env, variables, plain_http=plain_http)
    client = HonchoClient(settings, key)
    try:
        return await _messages_of_workspace(client, {ASSISTANT, settings.names().agent_peer(MAIN)})
    except HonchoCallFailed as failure:
        raise _silent("honcho", failure.outcome.reason) from failure
    finally:
        await client.close()


async def _messages_of_workspace(client: "HonchoClient", assistants: Set[str]) -> KeptMessages:
    by_session: dict[str, list[str]] = {}
    by_place: dict[str, list[str]] = {}
    for place in await client.places():
        rows = await client.messages(place)
        of_hermes = [row for row in rows if "session" not in (row.metadata or {}) and row.peer_id not in assistants]
        by_place[place] = joined_parts((str(row.content), str(row.content).startswith(CONTINUED)) for row in of_hermes)
        for session, said in _by_session(rows).items():
            by_session.setdefault(session, []).extend(said)
    return KeptMessages("honcho", by_session=by_session, by_place=by_place)


def _by_session(rows: Sequence["Message"]) -> dict[str, list[str]]:
    """The users' messages that Holdfast delivered, by session of Hermes."""
    from holdfast.providers.honcho.messages import decode_text  # noqa: PLC0415 - an extra

    parts: dict[str, list[tuple[str, bool]]] = {}
    for row in rows:
        about = row.metadata or {}
        if "session" in about and about.get("role") == "user":
            session = decode_text(str(about["session"])).removeprefix(PREFIX)
            parts.setdefault(session, []).append((decode_text(str(row.content)), int(about.get("part", 1)) > 1))
    return {session: joined_parts(said) for session, said in parts.items()}


def _silent(provider: str, reason: str) -> HermesEvidenceMissing:
    what = f"{provider} does not say which turns it has: {reason}"
    return HermesEvidenceMissing(what, provider=provider, reason=reason)
