"""Id types, so that a session id is never passed where a mailbox id is expected.

The caller makes ids (through the entropy port), never the store, so a verb that is repeated after an unknown commit
refers to the same object instead of creating a second one.
"""

from base64 import b32encode
from typing import NewType

AgentName = NewType("AgentName", str)
MailboxId = NewType("MailboxId", str)
MessageId = NewType("MessageId", str)  # the id of one accepted message
SessionId = NewType("SessionId", str)
OperationId = NewType("OperationId", str)
ReplyId = NewType("ReplyId", str)
DraftId = NewType("DraftId", str)  # one message that shows a reply while it is generated
NodeId = NewType("NodeId", str)  # one run of one process; a restart is another node
Principal = NewType("Principal", str)  # a sender
Provider = NewType("Provider", str)  # the configured name of a memory provider
DeliveryId = NewType("DeliveryId", str)  # one unit on a lane; its idempotency key for the provider
ApprovalId = NewType("ApprovalId", str)  # one tool call that awaits a human; people type it
ForgetId = NewType("ForgetId", str)  # one request to forget a person or a session
TokenId = NewType("TokenId", str)  # one access token; not its secret
LoginId = NewType("LoginId", str)  # one login of a browser; not its cookie
Instant = NewType("Instant", int)  # milliseconds since the Unix epoch, UTC

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
ID_TIME_CHARS = 9
ID_RANDOM_BITS = 80
_ID_CHARS = ID_TIME_CHARS + ID_RANDOM_BITS // 5
_ID_BYTES = -(-_ID_CHARS * 5 // 8)
_PADDING_BITS = _ID_BYTES * 8 - _ID_CHARS * 5
_TIME_MASK, _RANDOM_MASK = (1 << ID_TIME_CHARS * 5) - 1, (1 << ID_RANDOM_BITS) - 1
_TO_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ID_ALPHABET.encode())


def make_id(prefix: str, now: Instant, chance: int) -> str:
    """A sortable id: `prefix_` + time + 80 random bits.

    The caller draws `chance`; only its low 80 bits are used.
    """
    value = (int(now) & _TIME_MASK) << ID_RANDOM_BITS | chance & _RANDOM_MASK
    digits = b32encode((value << _PADDING_BITS).to_bytes(_ID_BYTES, "big"))[:_ID_CHARS]
    return f"{prefix}_{digits.translate(_TO_CROCKFORD).decode()}"
