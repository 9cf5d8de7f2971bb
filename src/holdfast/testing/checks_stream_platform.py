"""A platform without redelivery (I23), chats with new ids (I27) and attachments (I28)."""

from holdfast.inbox.chat_message import hash_of
from holdfast.inbox.identity import Moved
from holdfast.kernel.errors import AddressTaken
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.stream_platform import ACCOUNT, GONE, HALL, NEW_HALL, STRANGER, Spoken, is_whole

# --- I23 -----------------------------------------------------------------------------------------------------------


def marks_follow_what_was_taken(evidence: Evidence) -> Found:
    """I23: every message before a watermark was accepted once, or was ignored on purpose."""
    if evidence.company is None or not evidence.has(ChannelArea.STREAM):
        return
    yield from sorted(evidence.company.stream.passed_over)
    taken = {row["event_id"] for row in evidence.rows["inbound"] if row["account"] == ACCOUNT}
    marks = {row["conversation"]: row["position"] for row in evidence.more["watermark"] if not is_whole(row)}
    for sent in evidence.sent:
        spoken = _spoken(evidence, sent.say.event_id)
        if spoken is not None and spoken.position <= marks.get(spoken.chat, 0) and sent.say.event_id not in taken:
            yield f"{sent.say.event_id} was not taken, and {spoken.chat} was read up to {marks[spoken.chat]}"


def everything_said_was_read(evidence: Evidence) -> Found:
    """I23: at rest each chat was read to its end, and no message of a sender without access is in a mailbox."""
    if evidence.company is None or not evidence.has(ChannelArea.STREAM):
        return
    expected = {sent.say.event_id for sent in evidence.sent}
    marks = {row["conversation"]: row["position"] for row in evidence.more["watermark"] if not is_whole(row)}
    for spoken in evidence.company.stream.history:
        if spoken.say.event_id in expected and marks.get(spoken.chat, 0) < spoken.position:
            yield f"{spoken.say.event_id} stands behind the mark of {spoken.chat}, {marks.get(spoken.chat)}"
    for row in evidence.rows["inbound"]:
        if row["account"] == ACCOUNT and row["principal"].endswith(STRANGER):
            yield f"{row['event_id']} of a stranger is in {row['mailbox']}"


def _spoken(evidence: Evidence, event_id: str) -> Spoken | None:
    return evidence.company.stream.spoken.get(event_id) if evidence.company is not None else None


# --- I27 -----------------------------------------------------------------------------------------------------------


def moved_chats_go_on(evidence: Evidence) -> Found:
    """I27: a chat with a new id keeps its mailbox, unless messages had already arrived at the new address."""
    homes = {row["address"]: row["mailbox_id"] for row in evidence.rows["address"]}
    boxes = {row["id"] for row in evidence.rows["mailbox"]}
    yield from (f"{address} leads to {box}, which does not exist" for address, box in homes.items() if box not in boxes)
    for row in evidence.rows["inbound"]:
        if homes.get(row["address"]) != row["mailbox"]:
            yield f"{row['event_id']} is in {row['mailbox']}; {row['address']} leads to {homes.get(row['address'])}"
    if evidence.company is None:
        return
    old, new = str(HALL.address), str(NEW_HALL.address)
    is_apart = _heard_first(evidence, homes.get(new), homes.get(old))
    if old in homes and new in homes and homes[old] != homes[new] and not is_apart:
        yield f"{new} has another mailbox than {old}, which it was before"
    for row in evidence.rows["reply"]:
        if GONE in (row["reason"] or "") and row["state"] == "failed" and not is_apart:
            yield f"reply {row['n']} was sent to {row['address']} only, which the platform no longer knows"
    yield from _moved_by_hand(evidence, homes)


def _heard_first(evidence: Evidence, one: str | None, other: str | None) -> bool:
    """Whether the one mailbox had a message before the other had any.

    A process that connects after a move receives only messages of the new chat, while a process that was paused may
    still have to process messages of the old chat and the move.
    """
    since = {row["mailbox"]: row["at"] for row in sorted(evidence.rows["inbound"], key=lambda row: -row["at"])}
    return one in since and since[one] < since.get(other, since[one])


def _moved_by_hand(evidence: Evidence, homes: dict[str, str]) -> Found:
    log = evidence.company.identities if evidence.company is not None else None
    if log is None or log.move is None:
        return
    old, new = log.move
    if isinstance(log.moved, Moved) and homes.get(new) != homes.get(old):
        yield f"{new} was moved to {old}, and leads to {homes.get(new)} instead of {homes.get(old)}"
    if isinstance(log.moved, AddressTaken):
        said = [row for row in evidence.rows["inbound"] if row["mailbox"] == homes.get(new)]
        if homes.get(new) == homes.get(old) or not said:
            yield f"{new} was called taken; it leads to {homes.get(new)} with {len(said)} messages"


# --- I28 -----------------------------------------------------------------------------------------------------------


def attachments_can_be_read(evidence: Evidence) -> Found:
    """I28: the attachments of a kept message can be read byte by byte, and no other attachment is kept."""
    if evidence.company is None or not evidence.has(ChannelArea.STREAM):
        return
    bodies = {row["hash"]: bytes(row["body"]) for row in evidence.more["attachment"]}
    enclosed = {(row["message"], row["hash"]) for row in evidence.more["enclosure"]}
    yield from (f"{hash_} is kept with other bytes" for hash_, body in bodies.items() if hash_of(body) != hash_)
    needed = {hash_ for _, hash_ in enclosed}
    yield from (f"{hash_} is gone; a message still has it" for hash_ in needed - set(bodies))
    yield from (f"{hash_} is kept; no message has it" for hash_ in set(bodies) - needed)
    deleted = {row["id"] for row in evidence.rows["session"] if row["state"] == "deleted"}
    for row in evidence.more["inbound"]:
        spoken = _spoken(evidence, row["event_id"]) if row["account"] == ACCOUNT else None
        if spoken is None or spoken.file is None or row["state"] == "refused" or row["session"] in deleted:
            continue
        if (row["message"], hash_of(spoken.file)) not in enclosed:
            yield f"{row['event_id']} ({row['state']}) came with a file, and has none"
