"""One cabinet per test, over a real SQLite file."""

import pytest

from tests.providers.files.cabinet import Cabinet, Keeper, open_store


@pytest.fixture
async def keeper(tmp_path):
    store, database = await open_store(tmp_path)
    yield Keeper(store)
    await database.close()


@pytest.fixture
def cabinet(tmp_path, keeper):
    return Cabinet(tmp_path, keeper)
