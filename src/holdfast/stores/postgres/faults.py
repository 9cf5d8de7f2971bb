"""What asyncpg raises, in our words. The one place where foreign errors of PostgreSQL are translated.

Rule 1: a race is not a fault. `RACES` pass through untouched, for the engine to run the script again.
Rule 2: every other error leaves as a `HoldfastError` that says who must act, with the foreign one as its
        cause. What nobody foresaw is our bug: `InvariantBroken`.
Rule 3: people's words stay in the journal. A DETAIL line quotes column values, and a complaint about a
        value (SQLSTATE class 22, also used by asyncpg for arguments) quotes it: neither enters our message.

Not known here: whether a lost connection had committed. Verbs are idempotent, so the caller repeats them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg  # type: ignore[import-untyped]

from holdfast.core.errors import (
    ConfigInvalid,
    HoldfastError,
    InvariantBroken,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

# Another transaction came between, or a migration made a prepared statement stale; again from the start.
RACES = (
    asyncpg.UniqueViolationError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)

# By SQLSTATE, or by its class (the first two characters) where the whole class means one thing.
BY_SQLSTATE: dict[str, type[HoldfastError]] = {
    "53100": StoreFull,
    "25006": StoreReadOnly,  # a standby, or default_transaction_read_only
    "42501": StoreReadOnly,  # our role lacks a privilege
    "XX001": StoreCorrupt,
    "XX002": StoreCorrupt,
    "25P03": StoreUnavailable,  # idle in transaction too long: this process was paused
    "25P04": StoreUnavailable,  # transaction_timeout
    "55P03": StoreUnavailable,  # lock_timeout
    "3D000": ConfigInvalid,  # no such database
    "08": StoreUnavailable,  # the connection
    "28": ConfigInvalid,  # user or password
    "53": StoreUnavailable,  # memory, connections
    "57": StoreUnavailable,  # shutting down, starting up, cancelled
    "58": StoreUnavailable,  # the server's own input and output
}

QUOTING_CLASS = "22"
CLOSED_WORDS = ("is closed", "is closing")  # asyncpg has no class for using what was closed


@contextmanager
def translated(verb: str) -> Iterator[None]:
    """Let races and our own errors pass; turn every other error of the driver into one of ours."""
    try:
        yield
    except RACES:
        raise
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        OSError,  # refused, reset, unresolved; TimeoutError is one of them
    ) as error:
        raise fault(verb, error) from error


def fault(verb: str, error: Exception) -> HoldfastError:
    """The error of ours that says who must act about `error`."""
    kind = _kind(error)
    return kind(f"{verb}: {_words(error)}", verb=verb, cause=type(error).__name__)


def _kind(error: Exception) -> type[HoldfastError]:
    match error:
        case asyncpg.PostgresError():
            code = error.sqlstate or ""
            return BY_SQLSTATE.get(code) or BY_SQLSTATE.get(code[:2]) or InvariantBroken
        case OSError():
            return StoreUnavailable
        case asyncpg.ClientConfigurationError() | asyncpg.TargetServerAttributeNotMatched():
            return ConfigInvalid
        case asyncpg.InterfaceError() if any(words in str(error) for words in CLOSED_WORDS):
            return StoreUnavailable
    return InvariantBroken


def _words(error: Exception) -> str:
    match error:
        case asyncpg.PostgresError() if (error.sqlstate or "").startswith(QUOTING_CLASS):
            return f"a value does not fit its type ({error.sqlstate})"
        case asyncpg.PostgresError():
            return f"{error.args[0]} ({error.sqlstate})"
        case TimeoutError():
            return "PostgreSQL did not answer in time"
    return str(error) or type(error).__name__
