"""The verbs of a Hindsight server that the provider needs, through the vendor's client.

Each verb asks once and answers with plain values, or raises `Faulted`. Hindsight older than 0.8.6 is refused: it does
not know operation ids, so an answer that was lost could not be asked for, and a turn might be written twice.
"""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from hindsight_client import Hindsight
from hindsight_client_api.exceptions import OpenApiException
from hindsight_client_api.models.recall_result import RecallResult
from pydantic import ValidationError

from holdfast.kernel.clock import Clock
from holdfast.memory.delivery import Unreachable
from holdfast.providers.hindsight import faults
from holdfast.providers.hindsight.document import MODE, Document
from holdfast.providers.hindsight.faults import Faulted
from holdfast.providers.hindsight.settings import HindsightSettings
from holdfast.providers.hindsight.wire import Wire

OLDEST = (0, 8, 6)
PAGE = 100  # the server's limit
PAGES_MAX = 1_000
UNFINISHED = ("pending", "processing")
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Status:
    state: str  # not_found, pending, processing, completed, failed, cancelled
    resting: bool  # no part of it is at work; a cancelled operation may have parts that are


@dataclass(frozen=True, slots=True)
class Kept:
    """A document as the server has it."""

    sha256: str | None
    text: str | None

    def matches(self, document: Document) -> bool | None:
        """By its hash, or by its text where a server hashes otherwise; None where it shows neither."""
        if self.sha256 is None and self.text is None:
            return None
        return self.sha256 == document.sha256 or self.text == document.content


@dataclass(frozen=True, slots=True)
class Work:
    """An operation on a document."""

    id: str
    document: str
    state: str


class Server:
    def __init__(self, settings: HindsightSettings, key: str | None, clock: Clock) -> None:
        # The client retries no write; with one attempt it retries no question either, so retrying is the courier's.
        self._client = Hindsight(settings.url, api_key=key, timeout=settings.timeout_s, max_attempts=1)
        self._wire = Wire(clock, timeout_s=settings.timeout_s, key_env=settings.api_key_env, key=key)
        self._client.memory.api_client.rest_client = self._wire
        self._budget = settings.recall_budget
        self._max_tokens = settings.recall_max_tokens
        self._is_known = False

    async def close(self) -> None:
        await self._wire.close()

    # --- the server itself

    async def check_version(self) -> None:
        # Read without the vendor's model, which wants every flag that its own version knows.
        api = self._client.memory.api_client
        answer = await api.call_api("GET", f"{api.configuration.host}/version", dict(api.default_headers))
        known = _read_object(await answer.read())
        found = _VERSION.match(str(known.get("api_version", "")))
        if found is None:
            raise faults.not_understood("it does not say its version")
        version = tuple(int(part or 0) for part in found.groups())
        if version < OLDEST:
            shown, oldest = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
            why = "older ones do not know operation ids, so a turn could be kept twice"
            raise Faulted(Unreachable(f"Hindsight {shown} is too old: {oldest} or newer is needed, as {why}"))
        self._is_known = True

    async def ready(self) -> None:
        """Before the first write: nothing is sent to a server that is too old, or to something else."""
        if not self._is_known:
            await self.check_version()

    # --- documents

    async def submit(self, document: Document) -> None:
        """Hand a document over. That it is taken says nothing yet: only its operation's end does."""
        item = {
            "content": document.content,
            "timestamp": document.at,
            "document_id": document.id,
            "metadata": dict(document.metadata),
            "tags": list(document.tags),
            "update_mode": MODE,
        }
        answer = await _asked(
            self._client.aretain_batch(document.bank, [item], retain_async=True, operation_id=document.operation)
        )
        if not answer.success or answer.operation_id != document.operation:
            raise faults.not_understood("it took a delivery under another name than it was given")

    async def document(self, bank: str, document: str) -> Kept | None:
        found = await _found(self._client.documents.get_document(bank, document))
        return None if found is None else Kept(found.content_hash, found.original_text)

    async def delete(self, bank: str, document: str) -> bool:
        """Whether it was there."""
        return await _found(self._client.documents.delete_document(bank, document)) is not None

    async def tagged(self, bank: str, tags: Sequence[str]) -> list[str]:
        """The ids of the documents that have all the tags."""
        ids: list[str] = []
        for page in range(PAGES_MAX):
            found = await _found(
                self._client.documents.list_documents(
                    bank, tags=list(tags), tags_match="all_strict", limit=PAGE, offset=page * PAGE
                )
            )
            # The tags are looked at once more: a server that did not know the filter would list everybody's.
            items = [] if found is None else found.items
            ids += [item.id for item in items if set(tags) <= set(item.tags or ())]
            if len(items) < PAGE:
                return ids
        raise Faulted(Unreachable(f"the bank has more than {PAGE * PAGES_MAX} documents of one session or person"))

    # --- operations

    async def status(self, bank: str, operation: str) -> Status:
        found = await _found(self._client.operations.get_operation_status(bank, operation))
        if found is None:
            return Status("not_found", resting=True)
        parts = [part.status for part in found.child_operations or ()]
        return Status(found.status, resting=not any(state in UNFINISHED for state in parts))

    async def retry(self, bank: str, operation: str) -> None:
        """Queue a failed or cancelled operation again. One that is in neither state is left as it is."""
        try:
            await _found(self._client.operations.retry_operation(bank, operation))
        except Faulted as fault:
            if fault.status != 409:
                raise

    async def drop(self, bank: str, operation: str) -> None:
        """Let the server forget an operation that has ended, with the words that it keeps of it."""
        try:
            await _found(self._client.operations.delete_operation(bank, operation))
        except Faulted as fault:
            if fault.status != 409:
                raise

    async def operations(self, bank: str, state: str | None = None) -> list[Work]:
        works: list[Work] = []
        for page in range(PAGES_MAX):
            found = await _found(
                self._client.operations.list_operations(bank, status=state, limit=PAGE, offset=page * PAGE)
            )
            listed = [] if found is None else found.operations
            works += [Work(work.id, work.document_id or "", work.status) for work in listed]
            if len(listed) < PAGE:
                return works
        raise Faulted(Unreachable(f"the bank has more than {PAGE * PAGES_MAX} operations"))

    # --- memory

    async def recall(self, bank: str, query: str, tags: Sequence[str]) -> list[RecallResult]:
        found = await _found(
            self._client.arecall(
                bank,
                query,
                budget=self._budget,
                max_tokens=self._max_tokens,
                tags=list(tags),
                tags_match="any_strict",
            )
        )
        return [] if found is None else list(found.results)

    async def reflect(self, bank: str, query: str, tags: Sequence[str]) -> str:
        found = await _found(
            self._client.areflect(
                bank,
                query,
                budget=self._budget,
                tags=list(tags),
                tags_match="any_strict",
                exclude_mental_models=True,  # they are made from the whole bank, whoever said it
            )
        )
        return "" if found is None else found.text


def _read_object(raw: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise faults.not_understood("its answer is no JSON object") from error


async def _asked(call: Awaitable[T]) -> T:
    try:
        return await call
    except ValidationError as error:
        raise faults.not_understood("its answer has another shape") from error
    except (OpenApiException, ValueError) as error:  # JSONDecodeError and UnicodeDecodeError among them
        raise faults.not_understood("its answer is no JSON") from error


async def _found(call: Awaitable[Any]) -> Any:  # noqa: ANN401 - the vendor's models, each with its own shape
    """The same, None for a 404: the bank, document or operation is not there."""
    try:
        return await _asked(call)
    except Faulted as fault:
        if fault.status != 404:
            raise
        return None
