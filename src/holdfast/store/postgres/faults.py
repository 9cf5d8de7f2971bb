"""What asyncpg raises, in our words. The one place where foreign errors of PostgreSQL are translated.

Rule 1: a race is not a fault. `RACES` pass through untouched, for the engine to run the script again.
Rule 2: every other error leaves as a `HoldfastError` that says who must act, with the foreign one as its
        cause. What nobody foresaw is our bug: `InvariantBroken`.
Rule 3: people's words stay in the journal. A DETAIL line quotes column values, and a complaint about a
        value (SQLSTATE class 22, also used by asyncpg for arguments) quotes it: neither enters our message.

Rule 4: a connection that is lost, broken or closed is `StoreUnavailable`, whatever class the driver gives it.
        A terminated backend reaches the caller as SQLSTATE 57P01, as an `OSError`, as an `InterfaceError`
        ("connection is closed", "another operation is in progress") or as an `InternalClientError` ("cannot
        switch to state 12"), depending on how far asyncpg had read the server's last message.

Not known here: whether a lost connection had committed. Verbs are idempotent, so the caller repeats them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg  # type: ignore[import-untyped]

from holdfast.kernel.errors import (
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
    "42704": ConfigInvalid,  # a setting in the address that does not exist
    "08": StoreUnavailable,  # the connection
    "28": ConfigInvalid,  # user or password
    "53": StoreUnavailable,  # memory, connections
    "57": StoreUnavailable,  # shutting down, starting up, cancelled
    "58": StoreUnavailable,  # the server's own input and output
}

# What to do about an error whose own hint speaks of a folder and its file.
HINTS: dict[type[HoldfastError], str] = {
    StoreFull: "Free disk space on the database server. Holdfast keeps running and accepts again by itself.",
    StoreReadOnly: "Give the role every privilege on the tables of its schema, on a database that accepts writes.",
    StoreCorrupt: "Restore the PostgreSQL database from a backup. Keep the damaged one.",
    ConfigInvalid: "Correct the PostgreSQL address, or create the database, role or schema that the message names.",
}

QUOTING_CLASS = "22"

# The driver's errors about a statement or its arguments: our bug. All its other errors are about the connection.
ABOUT_A_STATEMENT = (asyncpg.DataError, asyncpg.UnsupportedClientFeatureError, asyncpg.UnsupportedServerFeatureError)
ARGUMENT_WORDS = ("the server expects", "the number of query arguments")  # asyncpg has no class for a wrong count

# After one of these the connection's state is unknown, so it does not go back to the pool.
DRIVER_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


@contextmanager
def translated(verb: str) -> Iterator[None]:
    """Let races and our own errors pass; turn every other error of the driver into one of ours."""
    try:
        yield
    except RACES:
        raise
    except (asyncpg.PostgresError, *DRIVER_ERRORS) as error:  # a TimeoutError is an OSError
        raise fault(verb, error) from error


def fault(verb: str, error: Exception) -> HoldfastError:
    """The error of ours that says who must act about `error`."""
    kind = _kind(error)
    return kind(f"{verb}: {_words(error)}", hint=HINTS.get(kind, ""), verb=verb, cause=type(error).__name__)


def _kind(error: Exception) -> type[HoldfastError]:
    match error:
        case asyncpg.PostgresError():
            code = error.sqlstate or ""
            return BY_SQLSTATE.get(code) or BY_SQLSTATE.get(code[:2]) or InvariantBroken
        case asyncpg.ClientConfigurationError() | asyncpg.TargetServerAttributeNotMatched():
            return ConfigInvalid
        case _ if _is_about_a_statement(error):
            return InvariantBroken
        case asyncpg.InterfaceError() | asyncpg.InternalClientError() | OSError():
            return StoreUnavailable
    return InvariantBroken


def _is_about_a_statement(error: Exception) -> bool:
    return isinstance(error, ABOUT_A_STATEMENT) or str(error).startswith(ARGUMENT_WORDS)


def _words(error: Exception) -> str:
    match error:
        case asyncpg.PostgresError() if (error.sqlstate or "").startswith(QUOTING_CLASS):
            return f"a value does not fit its type ({error.sqlstate})"
        case asyncpg.PostgresError():
            return f"{error.args[0]} ({error.sqlstate})"
        case TimeoutError():
            return "PostgreSQL did not answer in time"
    return str(error) or type(error).__name__
