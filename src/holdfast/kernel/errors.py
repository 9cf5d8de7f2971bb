"""The errors of Holdfast; api/errors.py has those of HTTP. A remedy says whether to retry, or who must act.

An expected outcome is a returned value (`Duplicate`, `MailboxFull`), not an error. `code` is stable because scripts
compare it: the code of `ClaimLost` is `claim_lost`, so renaming a class is a change for users. The docstring of a class
is one sentence for operators; docs/reference/errors.md is generated from them.
"""

import re
from enum import Enum
from typing import ClassVar

from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

_CAPITAL = re.compile("(?<!^)([A-Z])")


class Remedy(Enum):
    RETRY = "retry"  # the same call may succeed later
    CORRECT = "correct"  # the caller must change what it asked for
    REPAIR = "repair"  # the operator must change configuration, disk or data
    REPORT = "report"  # the maintainers must fix a bug


class HoldfastError(Exception):
    """Base of every error this package raises."""

    code: ClassVar[str] = "error"
    remedy: ClassVar[Remedy] = Remedy.REPORT
    hint: str = "Please report this."
    others: tuple["HoldfastError", ...] = ()  # found together with this one, as in a configuration with several errors

    def __init_subclass__(cls, *, remedy: Remedy | None = None) -> None:
        """A class without a code of its own is coded by its name, and one without a remedy has that of its base."""
        if "code" not in cls.__dict__:
            cls.code = _CAPITAL.sub(r"_\1", cls.__name__).lower()
        if remedy is not None:
            cls.remedy = remedy

    def __init__(self, what: str, /, **context: object) -> None:
        """A `hint` in the context replaces the hint of the class."""
        super().__init__(what)
        self.context = context
        if hint := context.get("hint"):
            self.hint = str(hint)

    @property
    def vendor(self) -> VendorError:
        """The error response of a vendor or platform; `NO_ANSWER` if there was none."""
        found = self.context.get("vendor")
        return found if isinstance(found, VendorError) else NO_ANSWER

    @property
    def reason(self) -> str:
        """The message for operators. Senders and the log get `str(error)`, without the vendor's words."""
        return self.vendor.added_to(str(self))


# --- retry later -------------------------------------------------------------------------


class StoreUnavailable(HoldfastError, remedy=Remedy.RETRY):
    """The store did not respond. Nothing was lost, and the call may be repeated."""

    hint = "Check that the database is reachable. Accepted messages are kept and will be processed."


class ClaimLost(HoldfastError, remedy=Remedy.RETRY):
    """A newer claim holds the mailbox or the epoch, so this worker's result is discarded."""

    hint = "No action is needed: the newer claim resumes the turn."


class NodeLost(HoldfastError, remedy=Remedy.RETRY):
    """Other nodes considered this node dead, so its claims are void."""

    hint = "No action is needed: the node registers again. If this recurs, check the host for long pauses."


class SummaryStale(HoldfastError, remedy=Remedy.RETRY):
    """The session changed while its summary was being written, so the summary is discarded."""

    hint = "No action is needed: compression starts again from the current history."


class SessionMoved(HoldfastError, remedy=Remedy.RETRY):
    """The session has new entries since the caller last read it."""

    hint = "Read the session again and repeat the call with the new expected sequence number."


class ProviderFailed(HoldfastError, remedy=Remedy.RETRY):
    """A memory provider gave no usable answer; the turn continues without it."""

    hint = (
        "Check the provider and run `holdfast deliveries`. Nothing is lost: deliveries wait until the provider is back."
    )


class LaneLost(HoldfastError, remedy=Remedy.RETRY):
    """A newer claim holds the lane, so this dispatcher's result is discarded."""

    hint = "No action is needed: the newer claim asks the provider which deliveries arrived."


class ModelFailed(HoldfastError, remedy=Remedy.RETRY):
    """The model gave no usable answer."""

    hint = "The turn is retried. After the last attempt it ends as failed and the sender is notified."

    @property
    def is_final(self) -> bool:
        """Whether repeating the request to the same model is pointless."""
        return self.context.get("final") is True

    @property
    def retry_after_ms(self) -> int:
        """The pause that the vendor asked for; 0 if it named none."""
        wait_ms = self.context.get("retry_after_ms")
        return wait_ms if isinstance(wait_ms, int) else 0


class ChannelFailed(HoldfastError, remedy=Remedy.RETRY):
    """A channel lost the connection to its platform; it reconnects with increasing delays."""

    hint = "Check the reason in the message. Accepted messages are still answered; replies wait for the channel."


# --- the caller must change the request ------------------------------------------------------------


class InvalidInput(HoldfastError, remedy=Remedy.CORRECT):
    """The request contains a value that is not valid."""

    hint = "Correct the value that the message names, then repeat the request."


class InvalidUnicode(InvalidInput):
    """The text contains a lone surrogate, which cannot be stored."""

    hint = "Send well-formed Unicode (UTF-8 without lone surrogates)."


class InvalidJson(InvalidInput):
    """The body is not valid JSON in UTF-8."""

    hint = "Send one JSON object, encoded as UTF-8."


class DuplicateKey(InvalidJson):
    """An object in the body contains the same key twice, which parsers interpret differently."""

    hint = "Use each key of an object once."


class UnsupportedMediaType(InvalidInput):
    """The server does not accept bodies of this media type."""

    hint = "Send JSON in UTF-8 with the header `Content-Type: application/json`."


class InvalidName(InvalidInput):
    """A name or key is malformed."""

    hint = "Use 1 to 64 characters: letters, digits, '.', '_' and '-', starting with a letter or digit."


class InvalidAddress(InvalidInput):
    """The address does not have the form agent:<agent>:<channel>:<type>:<chat>[:<thread>][:<user>]."""

    hint = "Write the address as agent:<agent>:<channel>:<type>:<chat>, with each part percent-encoded."


class EmptyMessage(InvalidInput):
    """The message has no text."""

    hint = "Send at least one visible character."


class MessageTooLarge(InvalidInput):
    """The message is larger than the configured limit."""

    hint = "Split the message, or raise `limits.message_bytes` of the agent in holdfast.toml."


class TooManyHops(InvalidInput):
    """The message was passed from agent to agent more often than `hops_max` allows."""

    hint = (
        "The agents are probably answering each other in a loop. Start a new message without a hop count, or raise "
        "`hops_max`."
    )


class SessionNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """The session does not exist, or the caller may not see it."""

    hint = "List the sessions of the chat with `holdfast sessions`."


class MessageNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No message with this id was accepted."""

    hint = "Use the message id that was returned when the message was accepted."


class AttachmentNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No attachment has this hash, or the attachment was erased."""

    hint = "Use the complete hash that `holdfast trace` shows."


class AgentNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """The configuration does not list this agent."""

    hint = "Use one of the configured agents, or add this one to holdfast.toml."


class DeliveryNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No delivery has this id."""

    hint = "List the deliveries with `holdfast deliveries`."


class ForgetNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No erasure has this id."""

    hint = "Use the id that `holdfast forget` printed."


class MemoryWriteBlocked(InvalidInput):
    """The text cannot be stored in memory: it contains invisible characters, role markers or memory tags."""

    hint = "Use plain text without invisible characters, role markers or memory tags."


class SessionLive(HoldfastError, remedy=Remedy.CORRECT):
    """The session is live in a chat, so only messages of that chat may change it."""

    hint = "Send the message to the chat where the session is live, or branch the session."


class OperationBusy(HoldfastError, remedy=Remedy.RETRY):
    """An operation of this kind is already running for the session."""

    hint = "Wait until the running operation has finished, then repeat the request."


class MessageRefused(HoldfastError, remedy=Remedy.RETRY):
    """The mailbox did not accept the message; nothing was written."""

    code = "refused"
    hint = "Wait until the agent has caught up, then send the message again with the same id."


class MailboxIsFull(MessageRefused):
    """The mailbox holds the maximum number of waiting messages."""

    code = "mailbox_full"


class RateLimited(MessageRefused):
    """The chat sent more messages within a minute than its limit allows."""


class IdempotencyConflict(HoldfastError, remedy=Remedy.CORRECT):
    """The message id was already used with a different text or sender."""

    hint = "Use a new id for a new message; repeat an id only with the same text and sender."


class BadSignature(HoldfastError, remedy=Remedy.CORRECT):
    """The signature of a webhook request is missing, wrong or expired; the request was not read."""

    hint = "Check that the platform and holdfast.toml use the same secret and that both clocks are correct."


class ReplyNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No reply has this id."""

    hint = "List the replies with `holdfast replies`."


class FinalisationNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No extraction has this id."""

    hint = "List the extractions with `holdfast extractions`."


class ApprovalNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No tool call waits for approval under this id."""

    hint = "Use the id from the approval request, or list the waiting calls with `holdfast approvals`."


class ApprovalChanged(HoldfastError, remedy=Remedy.CORRECT):
    """The digest does not match the tool call that waits under this id."""

    hint = "Review the call with `holdfast approvals show ID` and pass the digest that it shows."


class ApprovalDigestNeeded(HoldfastError, remedy=Remedy.CORRECT):
    """The approval request showed shortened arguments, so approving the call requires its digest."""

    hint = "Review the complete call with `holdfast approvals show ID` and pass the digest that it shows."


class TokenNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No token has this id."""

    hint = "List the tokens with `holdfast token list`."


class LoginNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No browser login has this id, or the login has already ended."""

    hint = "List the logins with `holdfast logins list --all`."


class ConfirmationRequired(HoldfastError, remedy=Remedy.CORRECT):
    """The command cannot be undone and requires confirmation, but no terminal is attached."""

    hint = "Nothing was changed. Add --yes to confirm."


class ScopeRequired(HoldfastError, remedy=Remedy.CORRECT):
    """The token is valid, but it lacks the scope that the request requires."""

    hint = "Create a token with the scope that the message names: `holdfast token new --scope ...`."


class BindingRequired(HoldfastError, remedy=Remedy.CORRECT):
    """A token that can send messages must state whom it speaks for."""

    hint = (
        "Add --sender NAME (one person), --chat NAME (one chat; may be repeated), or --relay (a backend that speaks "
        "for any user in any chat)."
    )


class TokenBound(HoldfastError, remedy=Remedy.CORRECT):
    """The token is bound to one sender or to certain chats, and the request is outside of them."""

    hint = "Nothing was changed. Use a chat of this token, or ask the operator for another token."


class RobotRefused(HoldfastError, remedy=Remedy.CORRECT):
    """The request came from a program, but only a person may make this decision."""

    hint = "Nothing was changed. Decide in the chat, on the web page, or with a token created without --robot."


class AllowlistNotImmutable(HoldfastError, remedy=Remedy.REPAIR):
    """An allowlist entry uses a name that its owner can change."""

    hint = (
        "Use the platform's numeric or internal id, as in telegram:123456789; `holdfast pairs` lists the ids of "
        "people who requested access."
    )


class PairingNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No access request has this code, or the code has expired."""

    hint = "List the requests with `holdfast pairs`. A code is valid for one day."


class IdentityConflict(HoldfastError, remedy=Remedy.CORRECT):
    """The link contradicts an existing link of the same account or person."""

    hint = "Run `holdfast links`, remove the old link with `holdfast unlink`, then repeat the command."


class AddressNotFound(HoldfastError, remedy=Remedy.CORRECT):
    """No message was ever exchanged at this address."""

    hint = "Use an address that `holdfast trace` shows."


class AddressTaken(HoldfastError, remedy=Remedy.CORRECT):
    """The new address already has a history, which the move would make unreachable."""

    hint = (
        "Leave both addresses as they are and link the accounts with `holdfast link`: /resume then reaches the "
        "sessions of both."
    )


class HermesHomeInvalid(HoldfastError, remedy=Remedy.CORRECT):
    """The folder is not a home of Hermes Agent; nothing was read or changed."""

    hint = "Name the folder that has Hermes' config.yaml and state.db, or set HERMES_HOME."


class HermesDatabaseMissing(HoldfastError, remedy=Remedy.CORRECT):
    """The home of Hermes has no state.db that can be read."""

    hint = "Name another home, or run Hermes once; check that you may read the file."


class HermesSchemaUnknown(HoldfastError, remedy=Remedy.CORRECT):
    """The state.db of Hermes has a schema that this release of Holdfast does not know; nothing was changed."""

    hint = "Schemas of Hermes 0.13 to 0.19 are known. Update Holdfast, or open the database once with Hermes 0.19."


# --- the operator must act -----------------------------------------------------------------------


class HermesDatabaseCorrupt(HoldfastError, remedy=Remedy.REPAIR):
    """The state.db of Hermes is damaged so far that it cannot be read; nothing was changed."""

    hint = "Copy state.db and state.db-wal, then recover the copy: `sqlite3 copy.db .recover | sqlite3 recovered.db`."


class HermesRunning(HoldfastError, remedy=Remedy.REPAIR):
    """Hermes uses the home at this moment, so its database cannot be changed."""

    hint = "Stop Hermes (`hermes gateway stop`, and close its terminals), then repeat the command."


class HermesEvidenceMissing(HoldfastError, remedy=Remedy.REPAIR):
    """A memory provider could not be asked which turns of Hermes it has; nothing was imported."""

    hint = "Start the provider and repeat the import, or add --redeliver to deliver every turn without asking."


class HermesHomeReadOnly(HoldfastError, remedy=Remedy.REPAIR):
    """The home of Hermes cannot be written, so it cannot be repaired in place."""

    hint = "Make the folder writable, or repair a copy of it: leave out --in-place."


class HermesImportMismatch(HoldfastError, remedy=Remedy.REPAIR):
    """A session that was read back after its import is not the one that Hermes has; no chat goes on with it."""

    hint = "Stop Hermes, which may have changed the session meanwhile, and repeat the import."


class StoreFull(HoldfastError, remedy=Remedy.REPAIR):
    """The disk is full. The write was not acknowledged; everything acknowledged earlier is safe."""

    hint = "Free disk space. Holdfast keeps running and resumes accepting messages automatically."


class StoreReadOnly(HoldfastError, remedy=Remedy.REPAIR):
    """The data folder or the database is not writable."""

    hint = "Make the data folder writable for this user, or choose another folder with --data."


class StoreCorrupt(HoldfastError, remedy=Remedy.REPAIR):
    """The database is damaged; it was left unchanged."""

    hint = "Restore a backup, or copy the file and run `sqlite3 copy.db .recover`. Do not delete the original."


class EncryptionKeyInvalid(HoldfastError, remedy=Remedy.REPAIR):
    """The encryption key is malformed; nothing was changed."""

    hint = "Create a key with `holdfast encrypt --new-key FILE`, or supply at least 32 random characters."


class EncryptionKeyMissing(HoldfastError, remedy=Remedy.REPAIR):
    """The data folder is encrypted and its key was not found; nothing was opened or created."""

    hint = "Restore the key to its location, or name another one: HOLDFAST_KEY_FILE=/path holdfast ..."


class EncryptionKeyWrong(HoldfastError, remedy=Remedy.REPAIR):
    """The data folder was encrypted with a different key; nothing was changed."""

    hint = (
        "Supply the key that was last used with `holdfast encrypt` or `holdfast rekey`. Without it the data cannot be "
        "read."
    )


class EncryptionUnavailable(HoldfastError, remedy=Remedy.REPAIR):
    """The installed SQLite library does not support encryption."""

    hint = (
        "Run `pip uninstall -y apsw`, then `pip install apsw-sqlite3mc cryptography`; `holdfast version` shows the "
        "library in use."
    )


class EncryptionUnfinished(HoldfastError, remedy=Remedy.REPAIR):
    """The process ended while the encryption of the data folder was being changed; every file is intact."""

    hint = "Run the same command again: it continues where it stopped."


class StoreNewer(HoldfastError, remedy=Remedy.REPAIR):
    """A newer version of Holdfast wrote the database; it was left unchanged."""

    hint = "Upgrade Holdfast, or restore a backup made by this version."


class StorePathInvalid(HoldfastError, remedy=Remedy.REPAIR):
    """The path cannot be used as a data folder."""

    hint = "Use a folder on a local disk; Holdfast creates the database file in it."


class DataFolderForeign(HoldfastError, remedy=Remedy.REPAIR):
    """The data folder, or a file in it, belongs to another user; nothing was changed."""

    hint = "Run Holdfast as the user that the message names, or change the owner with `chown -R`."


class DataFolderUnsafe(HoldfastError, remedy=Remedy.REPAIR):
    """Other users could read or redirect files in the data folder; nothing was changed."""

    hint = (
        "Use a separate folder with --data, or run `chmod 700` on this one; replace symbolic links with regular files."
    )


class StoreBroken(HoldfastError, remedy=Remedy.REPAIR):
    """A commit failed and its outcome is unknown, so the process must stop."""

    hint = "Check the disk and the system log, then start Holdfast again: it recovers automatically."


class EngineUnsafe(HoldfastError, remedy=Remedy.REPAIR):
    """The installed SQLite library has a known bug that corrupts databases."""

    hint = "Install the pinned version of apsw, which includes its own SQLite."


class BackupInvalid(HoldfastError, remedy=Remedy.REPAIR):
    """The backup is damaged, incomplete or was changed; nothing was restored."""

    hint = "Use another backup. `holdfast restore --dry-run` verifies one and changes nothing."


class BackupNewer(HoldfastError, remedy=Remedy.REPAIR):
    """A newer Holdfast made the backup; nothing was restored."""

    hint = "Upgrade Holdfast, then repeat the command."


class ExportInvalid(HoldfastError, remedy=Remedy.CORRECT):
    """The export is damaged, cut, or was changed; nothing was imported."""

    hint = "Export again, and import the new file."


class ExportNewer(HoldfastError, remedy=Remedy.CORRECT):
    """A newer Holdfast made the export; nothing was imported."""

    hint = "Upgrade Holdfast, then repeat the command."


class ImportConflict(HoldfastError, remedy=Remedy.CORRECT):
    """Something in the export is in the store with other content; nothing was imported."""

    hint = "The store went on since the export, or has something else under this id. Import into an empty data folder."


class FolderNotEmpty(HoldfastError, remedy=Remedy.CORRECT):
    """The data folder contains data already, so nothing was restored into it."""

    hint = "Name a new folder with --data, or move the present one aside first."


class StoreOwned(HoldfastError, remedy=Remedy.REPAIR):
    """Another Holdfast process is using this data folder."""

    hint = "Stop the other process, or choose another data folder with --data."


class SpoolNewer(HoldfastError, remedy=Remedy.REPAIR):
    """A newer plugin wrote the spool in the home of Hermes; it was left unchanged."""

    hint = "Upgrade Holdfast; the turns in the spool wait."


class HermesServed(HoldfastError, remedy=Remedy.REPAIR):
    """Another Holdfast process takes the turns of this home of Hermes."""

    hint = "Nothing needs to be done: one process is enough. `holdfast hermes status` shows it."


class HermesNotFound(HoldfastError, remedy=Remedy.REPAIR):
    """The Python interpreter of Hermes was not found; nothing was changed."""

    hint = "Name it with --python, as in --python ~/.hermes/hermes-agent/venv/bin/python."


class HermesUnsupported(HoldfastError, remedy=Remedy.REPAIR):
    """The plugin does not support this version of Hermes; nothing was changed."""

    hint = "Use a version of Hermes that `holdfast hermes install --help` names."


class HermesConfigInvalid(HoldfastError, remedy=Remedy.REPAIR):
    """The config.yaml of Hermes cannot be changed safely; nothing was changed."""

    hint = "Correct the file, or set `provider: holdfast` below `memory:` by hand, then run the command again."


class HermesProviderSet(HoldfastError, remedy=Remedy.CORRECT):
    """Hermes uses another memory provider; nothing was changed."""

    hint = (
        "Add --replace: Holdfast then delivers to Hindsight and Honcho itself, and `uninstall` restores the provider."
    )


class HermesPluginForeign(HoldfastError, remedy=Remedy.REPAIR):
    """The plugin folder in the home of Hermes has files that Holdfast did not write; nothing was changed."""

    hint = "Move the folder away, then run the command again."


class ConfigInvalid(HoldfastError, remedy=Remedy.REPAIR):
    """The configuration is invalid."""

    hint = "Correct the key that the message names; `holdfast config check` lists every error in holdfast.toml."


class PlainHttpRefused(ConfigInvalid):
    """An API key would be sent to another machine over unencrypted HTTP."""

    hint = "Use https or a loopback address. To accept the risk for this server, set send_key_over_plain_http = true."


class ProviderUrlForbidden(ConfigInvalid):
    """The URL is a link-local address, where cloud metadata services expose credentials; no request was sent."""

    hint = "Use the host name of the service, or an address of it that is not link-local."


# --- the maintainers must act -----------------------------------------------------------------------------------


class InvariantBroken(HoldfastError, remedy=Remedy.REPORT):
    """The runtime reached a state that must be impossible."""

    hint = "Please report this with the output of `holdfast audit --json`."
