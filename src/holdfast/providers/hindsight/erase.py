"""Erasing a session or a person: their documents, and the operations that still hold their text.

Measured (1.1.0): deleting a document deletes its facts and chunks, but leaves the submitted text in the operation that
wrote it, for as long as the server keeps operations (for ever by default). So the operations are deleted as well.

The API cannot erase the server's own traces of its model calls (HINDSIGHT_API_LLM_TRACE_ENABLED, kept for a day by
default), nor names of entities, which the server's maintenance removes later.
"""

from holdfast.memory.delivery import Delivered, Erasure, Landing, Outcome, Unreachable
from holdfast.providers.hindsight.client import UNFINISHED, HindsightClient
from holdfast.providers.hindsight.document import note_id, note_tags, person_tags, session_tags, unit_id
from holdfast.providers.hindsight.document_writer import DocumentWriter
from holdfast.providers.hindsight.naming import bank_of


async def erase(client: HindsightClient, writer: DocumentWriter, erasure: Erasure) -> Outcome:
    """Raises `HindsightCallFailed`. Repeating an erasure is harmless."""
    await client.ready()
    for bank in _banks(erasure):
        documents = sorted({*await _remaining(client, bank, erasure), *_sent(erasure)})
        outcome = await writer.remove(bank, documents)
        if not isinstance(outcome, Delivered):
            return outcome
        if not await _drop_operations(client, bank, documents):
            return Unreachable("Hindsight began to write a document that is to be erased; it is erased after that")
    if await erased(client, writer, erasure) is not Landing.LANDED:
        return Unreachable("Hindsight still has documents that are to be erased")
    return Delivered("erased")


async def erased(client: HindsightClient, writer: DocumentWriter, erasure: Erasure) -> Landing:
    """Raises `HindsightCallFailed`."""
    for bank in _banks(erasure):
        if await _remaining(client, bank, erasure) or not await writer.are_gone(bank, _sent(erasure)):
            return Landing.ABSENT
    return Landing.LANDED


async def _remaining(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    return await _tagged(client, bank, erasure) | await _notes(client, bank, erasure)


async def _notes(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    """Notes of the erased scopes that no longer hold. A note's id is made of its text, which is gone from the journal,
    so these are all notes of the scopes without those that still hold."""
    found: set[str] = set()
    for scope in erasure.scopes:
        for tags in note_tags(erasure.agent, scope):
            found.update(await client.tagged(bank, tags))
    held = {
        note_id(erasure.agent, subject, note.target, note.text)
        for note in erasure.holds
        for subject in (note.scope, note.subject)
    }
    return found - held


async def _tagged(client: HindsightClient, bank: str, erasure: Erasure) -> set[str]:
    """Documents by tag, if the erasure names no delivery. An erasure that names deliveries names all of them, and a
    repetition must spare later documents, which tags cannot tell apart."""
    found: set[str] = set()
    if erasure.deliveries or erasure.shared:
        return found
    if erasure.session is not None:
        found.update(await client.tagged(bank, session_tags(erasure.agent, erasure.session)))
    if erasure.principal is not None:
        found.update(await client.tagged(bank, person_tags(erasure.agent, erasure.principal)))
    return found


async def _drop_operations(client: HindsightClient, bank: str, documents: list[str]) -> bool:
    """False if one of the operations has not ended."""
    wanted = set(documents)
    operations = [one for one in await client.operations(bank) if one.document_id in wanted]
    for operation in operations:
        await client.drop(bank, operation.id)
    return not any(operation.status in UNFINISHED for operation in operations)


def _banks(erasure: Erasure) -> list[str]:
    return sorted({bank_of(place) for place in erasure.places})


def _sent(erasure: Erasure) -> list[str]:
    """One delivery writes a whole document, so a document that others share is erased too."""
    return [unit_id(delivery) for delivery in (*erasure.deliveries, *erasure.shared)]
