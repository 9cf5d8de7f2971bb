"""A world for each test, whose loop is closed behind it."""

import pytest

from tests.integration.memory.world import World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    with made.loop:
        yield made
