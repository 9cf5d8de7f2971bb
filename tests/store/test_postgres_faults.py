"""Every error of PostgreSQL or its driver becomes an error that names who must act and quotes no data."""

import psycopg
import pytest
from psycopg import errors

from holdfast.kernel.errors import (
    ClaimLost,
    ConfigInvalid,
    InvariantBroken,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store.postgres.faults import BY_SQLSTATE, RACES, fault, translated


def server_error(code, words="the server's words"):
    try:
        return errors.lookup(code)(words)
    except KeyError:
        return type("Unknown", (psycopg.DatabaseError,), {"sqlstate": code})(words)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("53100", StoreFull),
        ("25006", StoreReadOnly),
        ("42501", StoreReadOnly),
        ("XX001", StoreCorrupt),
        ("XX002", StoreCorrupt),
        ("08006", StoreUnavailable),
        ("57P01", StoreUnavailable),
        ("57P03", StoreUnavailable),
        ("57014", StoreUnavailable),
        ("55P03", StoreUnavailable),
        ("25P03", StoreUnavailable),
        ("53300", StoreUnavailable),
        ("53200", StoreUnavailable),
        ("58030", StoreUnavailable),
        ("28P01", ConfigInvalid),
        ("3D000", ConfigInvalid),
        ("42704", ConfigInvalid),
        ("23514", InvariantBroken),
        ("23502", InvariantBroken),
        ("42601", InvariantBroken),
        ("42P18", InvariantBroken),
        ("XX000", InvariantBroken),
        ("ZZ999", InvariantBroken),
    ],
)
def test_a_sqlstate_says_who_must_act(code, kind):
    assert type(fault("commit_turn", server_error(code))) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError("refused"), StoreUnavailable),
        (FileNotFoundError("no such socket"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
        (psycopg.OperationalError("the connection is closed"), StoreUnavailable),
        (psycopg.OperationalError("consuming input failed: server closed the connection"), StoreUnavailable),
        (psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"), StoreUnavailable),
        (psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"), StoreUnavailable),
        (psycopg.InterfaceError("cannot perform operation: another operation is in progress"), StoreUnavailable),
        (ConnectionResetError("reset"), StoreUnavailable),
        (psycopg.ProgrammingError('invalid URI query parameter: "x"'), ConfigInvalid),
        (psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'), ConfigInvalid),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "x"'), ConfigInvalid),
        (psycopg.OperationalError('connection is bad: invalid port number: "99999"'), ConfigInvalid),
        (psycopg.OperationalError("server is not in hot standby mode"), ConfigInvalid),
        (psycopg.DataError("a value that cannot be encoded"), InvariantBroken),
    ],
)
def test_an_error_of_the_driver_says_who_must_act(error, kind):
    assert type(fault("commit_turn", error)) is kind


@pytest.mark.parametrize("code", ["23505", "40001", "40P01"])
def test_a_race_passes_through_for_the_engine_to_run_again(code):
    with pytest.raises(RACES), translated("commit_turn"):
        raise server_error(code)


def test_our_own_errors_pass_through():
    with pytest.raises(ClaimLost), translated("commit_turn"):
        raise ClaimLost("a younger claim")


def test_the_foreign_error_is_the_cause():
    foreign = server_error("53100")
    with pytest.raises(StoreFull) as caught, translated("commit_turn"):
        raise foreign
    assert caught.value.__cause__ is foreign


@pytest.mark.parametrize(
    "error",
    [
        server_error("23514", "check failed\nDETAIL:  Failing row contains (my cat is called Byron)."),
        server_error("22P02", 'invalid input syntax for type bigint: "my cat is called Byron"'),
        psycopg.DataError("invalid input for query argument $1: 'my cat is called Byron'"),
    ],
)
def test_the_words_of_people_are_not_in_the_message(error):
    assert "Byron" not in str(fault("commit_turn", error))


@pytest.mark.parametrize("code", [*BY_SQLSTATE, "ZZ999"])
def test_no_hint_speaks_of_a_folder_or_of_sqlite(code):
    hint = fault("commit_turn", server_error(code.ljust(5, "0"))).hint.lower()
    assert hint
    assert not any(word in hint for word in ("folder", "sqlite", "--data", ".db", "holdfast.toml"))
