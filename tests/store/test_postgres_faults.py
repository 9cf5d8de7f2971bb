"""Every error of PostgreSQL or its driver becomes an error that names who must act and quotes no data."""

import asyncpg  # type: ignore[import-untyped]
import pytest

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


def server_error(code, **fields):
    return asyncpg.PostgresError.new({"C": code, "M": "the server's words", "S": "ERROR", **fields})


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
        (asyncpg.InterfaceError("connection is closed"), StoreUnavailable),
        (asyncpg.InterfaceError("pool is closing"), StoreUnavailable),
        (asyncpg.InterfaceError("cannot perform operation: another operation is in progress"), StoreUnavailable),
        (asyncpg.InterfaceError("cannot call Connection.fetch(): it has been released back"), StoreUnavailable),
        (asyncpg.InterfaceError("cannot commit; the transaction is in error state"), StoreUnavailable),
        (asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in"), StoreUnavailable),
        (asyncpg.InternalClientError("got result for unknown protocol state 0"), StoreUnavailable),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle"), StoreUnavailable),
        (ConnectionResetError("reset"), StoreUnavailable),
        (asyncpg.ClientConfigurationError("invalid DSN"), ConfigInvalid),
        (asyncpg.DataError("invalid input for query argument $1: 'my cat'"), InvariantBroken),
        (asyncpg.ProtocolError("unexpected message"), StoreUnavailable),
        (asyncpg.InterfaceError("the server expects 2 arguments for this query, 1 was passed"), InvariantBroken),
        (asyncpg.UnsupportedClientFeatureError("no encoder"), InvariantBroken),
        (asyncpg.TargetServerAttributeNotMatched("none is writable"), ConfigInvalid),
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
        server_error("23514", D="Failing row contains (my cat is called Byron)."),
        asyncpg.DataError("invalid input for query argument $1: 'my cat is called Byron'"),
    ],
)
def test_the_words_of_people_are_not_in_the_message(error):
    assert "Byron" not in str(fault("commit_turn", error))


@pytest.mark.parametrize("code", [*BY_SQLSTATE, "ZZ999"])
def test_no_hint_speaks_of_a_folder_or_of_sqlite(code):
    hint = fault("commit_turn", server_error(code.ljust(5, "0"))).hint.lower()
    assert hint
    assert not any(word in hint for word in ("folder", "sqlite", "--data", ".db", "holdfast.toml"))
