"""One cabinet per test, over a real SQLite file."""

import pytest

from tests.providers.files.cabinet import Cabinet, NoteStore, open_store


@pytest.fixture
async def notes(tmp_path):
    store, database = await open_store(tmp_path)
    yield NoteStore(store)
    await database.close()


@pytest.fixture
def cabinet(tmp_path, notes):
    return Cabinet(tmp_path, notes)
