"""The calls of a Hindsight server that the provider needs, through the vendor's client.

Each method sends one request and raises `HindsightCallFailed`. Hindsight older than 0.8.6 is refused: it has no
operation ids, so a lost response could not be looked up, and a turn might be written twice.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from hindsight_client import Hindsight
from hindsight_client_api.exceptions import OpenApiException
from hindsight_client_api.models.document_response import DocumentResponse
from hindsight_client_api.models.operation_response import OperationResponse
from hindsight_client_api.models.recall_result import RecallResult
from pydantic import ValidationError

from holdfast.kernel.ports import Clock
from holdfast.memory.delivery import Unreachable
from holdfast.providers.hindsight.document import MODE, Document
from holdfast.providers.hindsight.factory import HindsightSettings
from holdfast.providers.hindsight.transport import HindsightCallFailed, HindsightTransport, not_understood

OLDEST = (0, 8, 6)
PAGE = 100  # the server's limit
PAGES_MAX = 1_000
UNFINISHED = ("pending", "processing")
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OperationStatus:
    state: str  # not_found, pending, processing, completed, failed, cancelled
    resting: bool  # no part of it is running; a cancelled operation may have running parts


class HindsightClient:
    def __init__(self, settings: HindsightSettings, key: str | None, clock: Clock) -> None:
        # The vendor's client retries no write, and with one attempt no read either: the dispatcher owns retries.
        self._client = Hindsight(settings.url, api_key=key, timeout=settings.timeout_s, max_attempts=1)
        self._transport = HindsightTransport(settings, key, clock)
        self._client.memory.api_client.rest_client = self._transport
        self._budget = settings.recall_budget
        self._max_tokens = settings.recall_max_tokens
        self._version_is_checked = False

    async def close(self) -> None:
        await self._transport.close()

    async def check_version(self) -> None:
        # Read without the vendor's model, which requires every flag of its own version.
        api = self._client.memory.api_client
        answer = await api.call_api("GET", f"{api.configuration.host}/version", dict(api.default_headers))
        found = _VERSION.match(str(_read_object(await answer.read()).get("api_version", "")))
        if found is None:
            raise not_understood("it does not state its version")
        version = tuple(int(part or 0) for part in found.groups())
        if version < OLDEST:
            shown, oldest = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
            why = "older ones have no operation ids, so a turn could be stored twice"
            reason = f"Hindsight {shown} is too old: {oldest} or newer is needed, as {why}"
            raise HindsightCallFailed(Unreachable(reason))
        self._version_is_checked = True

    async def ready(self) -> None:
        """Called before the first write, so that no document goes to an old Hindsight or to another server."""
        if not self._version_is_checked:
            await self.check_version()

    # --- documents

    async def submit(self, document: Document) -> None:
        """Hand over a document. Acceptance proves nothing; only the end of its operation does."""
        item = {
            "content": document.content,
            "timestamp": document.at,
            "document_id": document.id,
            "metadata": dict(document.metadata),
            "tags": list(document.tags),
            "update_mode": MODE,
        }
        answer = await _call(
            self._client.aretain_batch(document.bank, [item], retain_async=True, operation_id=document.operation)
        )
        if not answer.success or answer.operation_id != document.operation:
            raise not_understood("it accepted a delivery under another operation id")

    async def document(self, bank: str, document: str) -> DocumentResponse | None:
        found: DocumentResponse | None = await _find(self._client.documents.get_document(bank, document))
        return found

    async def delete(self, bank: str, document: str) -> None:
        await _find(self._client.documents.delete_document(bank, document))

    async def tagged(self, bank: str, tags: Sequence[str]) -> list[str]:
        """The ids of the documents that have all the tags."""
        listing = partial(self._client.documents.list_documents, bank, tags=list(tags), tags_match="all_strict")
        rows = await _all_rows(listing, "items", "documents of one session or person")
        # The tags are checked again: a server that ignores the filter would list other people's documents.
        return [row.id for row in rows if set(tags) <= set(row.tags or ())]

    # --- operations

    async def status(self, bank: str, operation: str) -> OperationStatus:
        found = await _find(self._client.operations.get_operation_status(bank, operation))
        if found is None:
            return OperationStatus("not_found", resting=True)
        parts = [part.status for part in found.child_operations or ()]
        return OperationStatus(found.status, resting=not any(state in UNFINISHED for state in parts))

    async def retry(self, bank: str, operation: str) -> None:
        """Queue a failed or cancelled operation again. An operation in another state stays as it is."""
        await _find(self._client.operations.retry_operation(bank, operation), also=409)

    async def drop(self, bank: str, operation: str) -> None:
        """Delete an operation that has ended, and the text that the server keeps with it."""
        await _find(self._client.operations.delete_operation(bank, operation), also=409)

    async def operations(self, bank: str, state: str | None = None) -> list[OperationResponse]:
        listing = partial(self._client.operations.list_operations, bank, status=state)
        return await _all_rows(listing, "operations", "operations")

    # --- memory

    async def recall(self, bank: str, query: str, tags: Sequence[str]) -> list[RecallResult]:
        within: dict[str, Any] = {"budget": self._budget, "tags": list(tags), "tags_match": "any_strict"}
        found = await _find(self._client.arecall(bank, query, max_tokens=self._max_tokens, **within))
        return [] if found is None else list(found.results)


def _read_object(raw: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_understood("its response is not a JSON object") from error


async def _call(call: Awaitable[T]) -> T:
    try:
        return await call
    except ValidationError as error:
        raise not_understood("its response has another shape") from error
    except (OpenApiException, ValueError) as error:  # JSONDecodeError and UnicodeDecodeError among them
        raise not_understood("its response is not JSON") from error


async def _find(call: Awaitable[Any], *, also: int = 404) -> Any:  # noqa: ANN401 - each of the vendor's models has its own shape
    """The same, but None for a 404 (the bank, document or operation does not exist) and for the status `also`."""
    try:
        return await _call(call)
    except HindsightCallFailed as failure:
        if failure.status not in (404, also):
            raise
        return None


async def _all_rows(listing: Callable[..., Awaitable[Any]], field: str, what: str) -> list[Any]:
    """The rows in the field of every page. A bank with more of them than the limit fails."""
    rows: list[Any] = []
    for number in range(PAGES_MAX):
        page = await _find(listing(limit=PAGE, offset=number * PAGE))
        found = [] if page is None else getattr(page, field)
        rows += found
        if len(found) < PAGE:
            return rows
    raise HindsightCallFailed(Unreachable(f"the bank has more than {PAGE * PAGES_MAX} {what}"))
