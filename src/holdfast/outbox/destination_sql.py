"""Where the answer to a message goes, for what is shown while its turn runs."""

from typing import NamedTuple

from holdfast.inbox.address import Address, parse
from holdfast.kernel.ids import MessageId
from holdfast.store.script import Script, one, verb

DESTINATION = """
select coalesce(inbound.address, mailbox.address), inbound.event_id
  from inbound join mailbox on mailbox.id = inbound.mailbox where inbound.message = :message"""


class Destination(NamedTuple):
    address: Address
    event_id: str


@verb
def find_destination(message: MessageId) -> Script[Destination | None]:
    """The destination; None if the message was forgotten or pruned meanwhile."""
    row = yield from one(DESTINATION, message=message)
    return None if row is None else Destination(parse(row[0]), row[1])
