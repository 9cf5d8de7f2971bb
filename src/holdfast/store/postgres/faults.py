"""Translates psycopg's errors. No other module interprets errors of PostgreSQL.

Rule 1: a race is not a fault. `RACES` pass through unchanged, and the engine runs the script again.
Rule 2: every other error becomes a `HoldfastError` that says who must act, with the original as its
        cause. An unexpected error is a bug of Holdfast: `InvariantBroken`.
Rule 3: error messages contain no user content. A DETAIL line quotes column values, and an error about a
        value (SQLSTATE class 22) quotes it: our message omits both.
Rule 4: a lost, broken or closed connection is `StoreUnavailable`. It is an error without SQLSTATE, an `OSError`, or one
        of the classes 08 and 57.

This module cannot tell whether a lost connection had committed. Verbs are idempotent, so the caller repeats them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

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
    errors.UniqueViolation,
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.FeatureNotSupported,  # "cached plan must not change result type"
    errors.InvalidSqlStatementName,
)
STALE = (errors.FeatureNotSupported, errors.InvalidSqlStatementName)  # its connection is replaced

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
# libpq reports a refused connection as a sentence without SQLSTATE. These are about the address or the role.
CONFIGURATION_WORDS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied for database",
    "unrecognized configuration parameter",
    "invalid ",  # a port, an option of the address, an authorisation
    "does not support SSL",
    "certificate",
    "session is not read-only",
    "session is read-only",
    "hot standby mode",
)

DRIVER_ERRORS = (psycopg.Error, OSError)  # a TimeoutError is an OSError


@contextmanager
def translated(verb: str) -> Iterator[None]:
    """Pass races and `HoldfastError` through; translate every other error of the driver."""
    try:
        yield
    except RACES:
        raise
    except DRIVER_ERRORS as error:
        raise fault(verb, error) from error


def fault(verb: str, error: Exception) -> HoldfastError:
    """The `HoldfastError` for a driver error."""
    kind = _kind(error)
    return kind(f"{verb}: {_words(error)}", hint=HINTS.get(kind, ""), verb=verb, cause=type(error).__name__)


def _kind(error: Exception) -> type[HoldfastError]:
    match error:
        case psycopg.Error(sqlstate=str(code)):
            return BY_SQLSTATE.get(code) or BY_SQLSTATE.get(code[:2]) or InvariantBroken
        case psycopg.OperationalError() if any(words in str(error) for words in CONFIGURATION_WORDS):
            return ConfigInvalid
        case psycopg.OperationalError() | psycopg.InterfaceError() | OSError():
            return StoreUnavailable
        case psycopg.ProgrammingError():  # an address that libpq cannot read
            return ConfigInvalid
    return InvariantBroken


def _words(error: Exception) -> str:
    match error:
        case psycopg.Error(sqlstate=str(code)) if code.startswith(QUOTING_CLASS):
            return f"a value does not fit its type ({code})"
        case psycopg.Error(sqlstate=str(code)):
            return f"{error.diag.message_primary or type(error).__name__} ({code})"
        case psycopg.DataError():
            return "a value does not fit its type"
        case TimeoutError():
            return "PostgreSQL did not answer in time"
    return str(error).strip() or type(error).__name__
