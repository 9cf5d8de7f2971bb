"""Id types, so that a session id is never passed where a mailbox id is expected.

The caller makes ids (through the entropy port), never the store, so a verb that is repeated after an unknown commit
refers to the same object instead of creating a second one.
"""

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
