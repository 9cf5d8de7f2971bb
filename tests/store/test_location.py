"""The promise: an address is never taken for a folder, and no message repeats a password."""

from pathlib import Path

import pytest

from holdfast.kernel.errors import StorePathInvalid
from holdfast.store.location import postgres_address


@pytest.mark.parametrize(
    "scheme",
    [
        "postgresql",
        "postgres",
        "POSTGRESQL",
        "postgresql+asyncpg",
        "postgres+asyncpg",
        "postgresql+psycopg2",
        " postgresql",
    ],
)
def test_every_way_to_write_a_postgresql_address_is_understood(scheme):
    assert postgres_address(f"{scheme}://ada:s3same@db:5433/chat?x=1") == "postgresql://ada:s3same@db:5433/chat?x=1"


@pytest.mark.parametrize(
    "rest", ["/chat", "db", "db:5432/chat", "[::1]:5432/chat", "a:1,b:2/chat", "/x?host=/tmp/s", "x@/chat?port=5432"]
)
def test_what_the_driver_reads_is_passed_on_as_it_is(rest):
    assert postgres_address(f"postgresql://{rest}") == f"postgresql://{rest}"


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ada:s3same@db/chat",
        "sqlite:///s3same/chat.db",
        "sqlite+aiosqlite:///s3same",
        "file:///s3same",
        "https://s3same.example.org",
        "redis://:s3same@db",
        "pg://s3same",
        "postgresql2://s3same",
        "postgresql:s3same",
        "postgres:/s3same",
        "postgresql+asyncpg:/s3same",
        "host=db dbname=chat password=s3same",
        "dbname = s3same",
        "postgresql://ada:s3same@db:port/chat",
        "postgresql://ada:s3same@db:99999/chat",
        "postgresql://ada:s3same@db:0/chat",
        "postgresql://ada:s3same@db:-1/chat",
        "postgresql://ada:s3same@db:5432:5432/chat",
        "postgresql://a:5432,b:s3same/chat",
        "postgresql://ada:s3/same@db/chat",
        "postgresql://[::1/s3same",
        "postgresql://db/chat?port=s3same",
        "postgresql://db/chat?s3same",
    ],
)
def test_everything_else_with_a_scheme_is_refused_and_not_repeated(address):
    with pytest.raises(StorePathInvalid) as caught:
        postgres_address(address)
    assert "s3same" not in str(caught.value)
    assert "postgresql://user:password@host:5432/database" in caught.value.hint


@pytest.mark.parametrize(
    "address", ["postgresql://db/chat", "postgresql+asyncpg://db/chat", "postgres://db", "mysql://db/chat"]
)
def test_an_address_that_became_a_path_is_no_folder(address):
    with pytest.raises(StorePathInvalid):
        postgres_address(Path(address))


@pytest.mark.parametrize(
    "folder",
    ["data", "/var/lib/holdfast", "C:/data", "C:\\data", "/srv/mysql:/x", "a:b", "notes:2026", "x=y"],
)
def test_a_folder_is_a_folder(folder):
    assert postgres_address(folder) is None
    assert postgres_address(Path(folder)) is None
