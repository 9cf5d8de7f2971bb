"""Translates asyncpg's errors. No other module interprets errors of PostgreSQL.

Rule 1: a race is not a fault. `RACES` pass through unchanged, and the engine runs the script again.
Rule 2: every other error becomes a `HoldfastError` that says who must act, with the original as its
        cause. An unexpected error is a bug of Holdfast: `InvariantBroken`.
Rule 3: error messages contain no user content. A DETAIL line quotes column values, and an error about a
        value (SQLSTATE class 22, also used by asyncpg for arguments) quotes it: our message omits both.

Rule 4: a lost, broken or closed connection is `StoreUnavailable`, whichever class the driver raises.
        A terminated backend reaches the caller as SQLSTATE 57P01, as an `OSError`, as an `InterfaceError`
        ("connection is closed", "another operation is in progress") or as an `InternalClientError` ("cannot
        switch to state 12"), depending on how far asyncpg had read the server's last message.

This module cannot tell whether a lost connection had committed. Verbs are idempotent, so the caller repeats them.
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

# A concurrent transaction interfered, or a migration made a prepared statement stale; the script runs again.
RACES = (
    asyncpg.UniqueViolationError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)

# By SQLSTATE, or by its class (the first two characters) if all codes of the class mean the same.
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

# Hints for errors whose default hint is about a folder and its file.
HINTS: dict[type[HoldfastError], str] = {
    StoreFull: "Free disk space on the database server. Holdfast keeps running and accepts again by itself.",
    StoreReadOnly: "Give the role every privilege on the tables of its schema, on a database that accepts writes.",
    StoreCorrupt: "Restore the PostgreSQL database from a backup. Keep the damaged one.",
    ConfigInvalid: "Correct the PostgreSQL address, or create the database, role or schema that the message names.",
}

QUOTING_CLASS = "22"

# The driver's errors about a statement or its arguments are bugs of Holdfast; all others are about the connection.
ABOUT_A_STATEMENT = (asyncpg.DataError, asyncpg.UnsupportedClientFeatureError, asyncpg.UnsupportedServerFeatureError)
ARGUMENT_WORDS = ("the server expects", "the number of query arguments")  # asyncpg has no class for this

# After one of these errors the connection's state is unknown, so it is not returned to the pool.
DRIVER_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


@contextmanager
def translated(verb: str) -> Iterator[None]:
    """Pass races and `HoldfastError` through; translate every other error of the driver."""
    try:
        yield
    except RACES:
        raise
    except (asyncpg.PostgresError, *DRIVER_ERRORS) as error:  # a TimeoutError is an OSError
        raise fault(verb, error) from error


def fault(verb: str, error: Exception) -> HoldfastError:
    """The `HoldfastError` for a driver error."""
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
