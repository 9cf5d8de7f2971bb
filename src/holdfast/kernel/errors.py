"""Every error says who must act: time, the operator, the caller, or us.

An expected outcome is a value (`Duplicate`, `MailboxFull`), not an error. `code` is stable: people
script against it. The docstring of a class is one sentence an operator can read; the reference page of
errors is made from this module.
"""

from enum import Enum
from typing import ClassVar

from holdfast.kernel.vendor_error import NO_ANSWER, VendorError


class Remedy(Enum):
    RETRY = "retry"  # the same call may succeed later
    CORRECT = "correct"  # the caller must change what it asked for
    REPAIR = "repair"  # the operator must change configuration, disk or data
    REPORT = "report"  # an invariant of ours is broken


class HoldfastError(Exception):
    """Base of every error this package raises."""

    code: ClassVar[str] = "error"
    remedy: ClassVar[Remedy] = Remedy.REPORT
    hint: str = "Please report this."

    def __init__(self, what: str, /, **context: object) -> None:
        """A `hint` in the context replaces the one of the class, where the raiser knows better what to do."""
        super().__init__(what)
        self.context = context
        if hint := context.get("hint"):
            self.hint = str(hint)


def _vendor_of(error: HoldfastError) -> VendorError:
    found = error.context.get("vendor")
    return found if isinstance(found, VendorError) else NO_ANSWER


# --- time will mend it -------------------------------------------------------------------------


class StoreUnavailable(HoldfastError):
    """The store did not answer; nothing was lost and the call may be repeated."""

    code = "store_unavailable"
    remedy = Remedy.RETRY
    hint = "Check that the database is reachable. Accepted messages wait and will be processed."


class ClaimLost(HoldfastError):
    """A younger claim holds the mailbox or the epoch, so this worker's result is void."""

    code = "claim_lost"
    remedy = Remedy.RETRY
    hint = "No action is needed: the younger claim resumes the turn."


class NodeLost(HoldfastError):
    """This node was taken for dead, so its claims are void."""

    code = "node_lost"
    remedy = Remedy.RETRY
    hint = "No action is needed: the node registers again. If it recurs, look for long pauses of the host."


class SummaryStale(HoldfastError):
    """The session changed while a summary was being made, so the summary is void."""

    code = "summary_stale"
    remedy = Remedy.RETRY
    hint = "No action is needed: compression starts again from the present history."


class SessionMoved(HoldfastError):
    """The session has grown since the caller read it."""

    code = "session_moved"
    remedy = Remedy.RETRY
    hint = "Read the session again and repeat the call with the new expected sequence."


class ProviderFailed(HoldfastError):
    """A memory provider gave no usable answer; the turn goes on without it."""

    code = "provider_failed"
    remedy = Remedy.RETRY
    hint = "Look at `holdfast deliveries` and at the provider. Nothing is lost: deliveries wait for it."


class LaneLost(HoldfastError):
    """A younger claim holds the lane, so this courier's result is void."""

    code = "lane_lost"
    remedy = Remedy.RETRY
    hint = "No action is needed: the younger claim asks the provider what has landed."


class ModelFailed(HoldfastError):
    """The model gave no usable answer."""

    code = "model_failed"
    remedy = Remedy.RETRY
    hint = "The turn is retried; when attempts run out it ends as failed and the sender is told."

    @property
    def is_final(self) -> bool:
        """Whether asking the same model the same thing again cannot help."""
        return self.context.get("final") is True

    @property
    def retry_after_ms(self) -> int:
        """How long the vendor asks to be left alone; 0 where it said nothing."""
        wait_ms = self.context.get("retry_after_ms")
        return wait_ms if isinstance(wait_ms, int) else 0

    @property
    def vendor(self) -> VendorError:
        """What the vendor answered, as far as it answered."""
        return _vendor_of(self)

    @property
    def reason(self) -> str:
        """For the operator, in the store. What the sender is told is `str(error)`, which holds no vendor's word."""
        return self.vendor.added_to(str(self))


class ChannelFailed(HoldfastError):
    """A channel lost its platform and cannot go on; it is started again with growing delays."""

    code = "channel_failed"
    remedy = Remedy.RETRY
    hint = "Look at the reason. Messages that were accepted are answered; replies wait for the channel."

    @property
    def vendor(self) -> VendorError:
        """What the platform answered, as far as it answered."""
        return _vendor_of(self)

    @property
    def reason(self) -> str:
        """For the operator; the log gets `str(error)` and `vendor.fields`."""
        return self.vendor.added_to(str(self))


# --- the caller must change the call ------------------------------------------------------------


class InvalidInput(HoldfastError):
    """A value in the call is not acceptable."""

    code = "invalid_input"
    remedy = Remedy.CORRECT
    hint = "Correct the value that the message names and send it again."


class InvalidUnicode(InvalidInput):
    """The text holds a lone surrogate, which no store or provider can keep."""

    code = "invalid_unicode"
    hint = "Send well-formed Unicode (UTF-8 without lone surrogates)."


class InvalidJson(InvalidInput):
    """The body is not JSON in UTF-8."""

    code = "invalid_json"
    hint = "Send one JSON object, encoded as UTF-8."


class DuplicateKey(InvalidJson):
    """An object in the body names a key twice, and readers disagree about which of the two counts."""

    code = "duplicate_key"
    hint = "Name each key of an object once."


class UnsupportedMediaType(InvalidInput):
    """The body is not of a media type that is read here."""

    code = "unsupported_media_type"
    hint = "Send JSON in UTF-8 with the header `Content-Type: application/json`."


class InvalidName(InvalidInput):
    """A name or key is malformed."""

    code = "invalid_name"
    hint = "Names are 1 to 64 characters: letters, digits, '.', '_' and '-', starting with a letter or digit."


class InvalidAddress(InvalidInput):
    """An address is not of the form agent:<agent>:<channel>:<type>:<chat>[:<thread>][:<user>]."""

    code = "invalid_address"
    hint = "Write the address as agent:<agent>:<channel>:<type>:<chat>, each part percent-escaped."


class EmptyMessage(InvalidInput):
    """The message has no text."""

    code = "empty_message"
    hint = "Send at least one visible character."


class MessageTooLarge(InvalidInput):
    """The message is larger than the configured limit."""

    code = "message_too_large"
    hint = "Split the message, or raise the limit in the configuration."


class TooManyHops(InvalidInput):
    """The message went from agent to agent more often than `hops_max` allows."""

    code = "too_many_hops"
    hint = "Agents are answering each other in a circle. Begin anew without the hop count, or raise `hops_max`."


class SessionNotFound(HoldfastError):
    """No such session is visible to the caller."""

    code = "session_not_found"
    remedy = Remedy.CORRECT
    hint = "List the sessions of the chat with `holdfast sessions`."


class MessageNotFound(HoldfastError):
    """No such message was accepted here."""

    code = "message_not_found"
    remedy = Remedy.CORRECT
    hint = "Use the message id that accepting returned."


class AttachmentNotFound(HoldfastError):
    """Nobody sent such an attachment here, or it was forgotten."""

    code = "attachment_not_found"
    remedy = Remedy.CORRECT
    hint = "Use a hash as `holdfast trace` shows it, whole."


class AgentNotFound(HoldfastError):
    """The configuration has no such agent."""

    code = "agent_not_found"
    remedy = Remedy.CORRECT
    hint = "Use one of the configured agents, or add this one to the configuration."


class DeliveryNotFound(HoldfastError):
    """There is no such delivery."""

    code = "delivery_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast deliveries`."


class ForgetNotFound(HoldfastError):
    """Nobody asked to forget anything under this id."""

    code = "forget_not_found"
    remedy = Remedy.CORRECT
    hint = "Use the id that `holdfast forget` printed."


class MemoryWriteBlocked(InvalidInput):
    """The text cannot be kept in memory: it has invisible characters or pretends to be something it is not."""

    code = "memory_write_blocked"
    hint = "Write it in plain words, without invisible characters and without role markers or memory tags."


class SessionLive(HoldfastError):
    """The session is live in a mailbox, so a writer without a mailbox may not touch it."""

    code = "session_live"
    remedy = Remedy.CORRECT
    hint = "Send the message to the chat where the session is live, or branch the session."


class OperationBusy(HoldfastError):
    """An operation of this kind is already running for the session."""

    code = "operation_busy"
    remedy = Remedy.RETRY
    hint = "Wait for the running operation to finish."


class Refused(HoldfastError):
    """The mailbox did not take the message; nothing was written."""

    code = "refused"
    remedy = Remedy.RETRY
    hint = "Wait until the agent has caught up, then send the message again with the same id."


class MailboxIsFull(Refused):
    """More messages wait than the mailbox takes."""

    code = "mailbox_full"


class RateLimited(Refused):
    """Messages come faster than the mailbox takes them."""

    code = "rate_limited"


class IdempotencyConflict(HoldfastError):
    """The message id was used before with another text or sender."""

    code = "idempotency_conflict"
    remedy = Remedy.CORRECT
    hint = "Use a new id for a new message; repeat an id only with the same text and sender."


class BadSignature(HoldfastError):
    """A webhook's signature is missing, wrong or stale, so the request was not read."""

    code = "bad_signature"
    remedy = Remedy.CORRECT
    hint = "Check that the platform and holdfast.toml have the same secret, and that the clocks agree."


class ReplyNotFound(HoldfastError):
    """There is no such reply."""

    code = "reply_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast replies`."


class FinalisationNotFound(HoldfastError):
    """There is no such finalisation."""

    code = "finalisation_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast finalisations`."


class ApprovalNotFound(HoldfastError):
    """Nothing waits for an approval under this id."""

    code = "approval_not_found"
    remedy = Remedy.CORRECT
    hint = "Use the id that the agent named when it asked."


class ApprovalChanged(HoldfastError):
    """The digest is not that of the call that waits under this id."""

    code = "approval_changed"
    remedy = Remedy.CORRECT
    hint = "Look at the call again with `holdfast approvals show ID` and name the digest that it shows."


class ApprovalDigestNeeded(HoldfastError):
    """The question left out a part of the arguments, so approving it takes the digest that the full view shows."""

    code = "approval_digest_needed"
    remedy = Remedy.CORRECT
    hint = "Read the whole call with `holdfast approvals show ID` and name the digest that it shows."


class TokenNotFound(HoldfastError):
    """There is no such token."""

    code = "token_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast token list`."


class LoginNotFound(HoldfastError):
    """There is no such login of a browser, or it has ended."""

    code = "login_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast logins list --all`."


class ConfirmationRequired(HoldfastError):
    """What was asked for cannot be taken back, and nobody is there to be asked whether it is meant."""

    code = "confirmation_required"
    remedy = Remedy.CORRECT
    hint = "Nothing was changed. Add --yes if it is meant."


class ScopeRequired(HoldfastError):
    """The token is valid, but not for this."""

    code = "scope_required"
    remedy = Remedy.CORRECT
    hint = "Make a token with the scope that the message names: `holdfast token new --scope ...`."


class BindingRequired(HoldfastError):
    """A token that sends has to say for whom it speaks."""

    code = "binding_required"
    remedy = Remedy.CORRECT
    hint = (
        "Add --sender NAME (one person), --chat NAME (that chat; may be repeated), or --relay (a backend that speaks "
        "for its users, in any chat)."
    )


class TokenBound(HoldfastError):
    """The token speaks for one sender or for some chats, and this is not among them."""

    code = "token_bound"
    remedy = Remedy.CORRECT
    hint = "Nothing was changed. Use one of the token's own chats, or ask the operator for another token."


class RobotRefused(HoldfastError):
    """A program asked for what only a person may decide."""

    code = "robot_refused"
    remedy = Remedy.CORRECT
    hint = "Nothing was changed. A person decides: in the chat, on the page, or with a token made without --robot."


class AllowlistNotImmutable(HoldfastError):
    """An allowlist names somebody by a name that its owner can change."""

    code = "allowlist_not_immutable"
    remedy = Remedy.REPAIR
    hint = "Write the platform's own id, as in telegram:123456789; `holdfast pairs` shows those who asked."


class PairingNotFound(HoldfastError):
    """Nobody waits to be let in under this code, or it has expired."""

    code = "pairing_not_found"
    remedy = Remedy.CORRECT
    hint = "List them with `holdfast pairs`; a code is good for a day."


class IdentityConflict(HoldfastError):
    """The link would leave it open who somebody is."""

    code = "identity_conflict"
    remedy = Remedy.CORRECT
    hint = "Look at `holdfast links` and take the old link back with `holdfast unlink` first."


class AddressNotFound(HoldfastError):
    """Nothing was ever said at this address."""

    code = "address_not_found"
    remedy = Remedy.CORRECT
    hint = "Use an address as `holdfast trace` shows it."


class AddressTaken(HoldfastError):
    """The address has a history of its own, which moving another one there would orphan."""

    code = "address_taken"
    remedy = Remedy.CORRECT
    hint = "Leave both as they are, and link the people instead: /resume reaches the sessions of either place."


# --- the operator must act -----------------------------------------------------------------------


class StoreFull(HoldfastError):
    """The disk is full; nothing was acknowledged and nothing acknowledged was lost."""

    code = "store_full"
    remedy = Remedy.REPAIR
    hint = "Free disk space. Holdfast keeps running and accepts again by itself."


class StoreReadOnly(HoldfastError):
    """The data folder or database cannot be written."""

    code = "store_read_only"
    remedy = Remedy.REPAIR
    hint = "Make the data folder writable for this user, or choose another with --data."


class StoreCorrupt(HoldfastError):
    """The database is damaged; it was left untouched."""

    code = "store_corrupt"
    remedy = Remedy.REPAIR
    hint = "Restore a backup, or copy the file and run `sqlite3 copy.db .recover`. Do not delete the original."


class EncryptionKeyInvalid(HoldfastError):
    """What was given as the encryption key cannot be one; nothing was changed."""

    code = "encryption_key_invalid"
    remedy = Remedy.REPAIR
    hint = "Make one with `holdfast encrypt --new-key FILE`, or give at least 32 random characters."


class EncryptionKeyMissing(HoldfastError):
    """The data folder is encrypted and its key was not found; nothing was opened or made."""

    code = "encryption_key_missing"
    remedy = Remedy.REPAIR
    hint = "Put the key back where it was, or name another place: HOLDFAST_KEY_FILE=/path holdfast ..."


class EncryptionKeyWrong(HoldfastError):
    """The key that was found is not the one the data folder was encrypted with; nothing was changed."""

    code = "encryption_key_wrong"
    remedy = Remedy.REPAIR
    hint = (
        "Give the key that `holdfast encrypt` or `holdfast rekey` was given last. Without it the data cannot be read."
    )


class EncryptionUnavailable(HoldfastError):
    """The SQLite library in use cannot encrypt."""

    code = "encryption_unavailable"
    remedy = Remedy.REPAIR
    hint = "Run `pip uninstall -y apsw`, then `pip install apsw-sqlite3mc cryptography`; see `holdfast version`."


class EncryptionUnfinished(HoldfastError):
    """The key of the data folder was being changed when the process ended; every file is whole."""

    code = "encryption_unfinished"
    remedy = Remedy.REPAIR
    hint = "Run the same command again: it goes on where it ended."


class StoreNewer(HoldfastError):
    """The database was written by a newer Holdfast; it was left untouched."""

    code = "store_newer"
    remedy = Remedy.REPAIR
    hint = "Upgrade Holdfast, or restore a backup made by this version."


class StorePathInvalid(HoldfastError):
    """The path given for the store cannot hold one."""

    code = "store_path_invalid"
    remedy = Remedy.REPAIR
    hint = "Give a folder on a local disk; the database file is made inside it."


class DataFolderForeign(HoldfastError):
    """The data folder, or a file in it, belongs to another user; nothing was changed."""

    code = "data_folder_foreign"
    remedy = Remedy.REPAIR
    hint = "Run Holdfast as the user that the message names, or give yours the folder with `chown -R`."


class DataFolderUnsafe(HoldfastError):
    """Others could read or redirect what would be kept in the data folder; nothing was changed."""

    code = "data_folder_unsafe"
    remedy = Remedy.REPAIR
    hint = "Give a folder of its own with --data, or `chmod 700` this one; put a plain file in the place of a link."


class StoreBroken(HoldfastError):
    """A commit failed in a way that leaves the outcome unknown; the process must stop."""

    code = "store_broken"
    remedy = Remedy.REPAIR
    hint = "Look at the disk and the kernel log, then start Holdfast again: it recovers by itself."


class EngineUnsafe(HoldfastError):
    """The SQLite library in use can corrupt databases."""

    code = "engine_unsafe"
    remedy = Remedy.REPAIR
    hint = "Install the locked version of apsw, which brings its own SQLite."


class StoreOwned(HoldfastError):
    """Another Holdfast process already runs on this data folder."""

    code = "store_owned"
    remedy = Remedy.REPAIR
    hint = "Stop the other process, or choose another data folder with --data."


class ConfigInvalid(HoldfastError):
    """The configuration has an error."""

    code = "config_invalid"
    remedy = Remedy.REPAIR
    hint = "Do what the message says; `holdfast config check` shows everything that is wrong with holdfast.toml."


class PlainHttpRefused(ConfigInvalid):
    """A key would leave this machine over plain http, where it can be read on its way."""

    code = "plain_http_refused"
    hint = "Use https, or an address of this machine; to accept the risk for this one, send_key_over_plain_http = true."


class ProviderUrlForbidden(ConfigInvalid):
    """An address leads to where machines answer about themselves, with secrets of their own; nothing was sent there."""

    code = "provider_url_forbidden"
    hint = "Name the service itself by its host name or its own address, which is not link-local."


# --- we must act -----------------------------------------------------------------------------------


class InvariantBroken(HoldfastError):
    """The runtime reached a state it promises never to reach."""

    code = "invariant_broken"
    remedy = Remedy.REPORT
    hint = "Please report this with the output of `holdfast audit --json`."
