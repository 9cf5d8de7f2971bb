"""Whatever the document allows is served as it says, and whatever it forbids is refused: never a fault of ours."""

import asyncio
import threading
from concurrent.futures import Future

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from holdfast.channels.http.openapi import document
from holdfast.channels.http.table import ENDPOINTS
from tests.live import TOKEN, serve

schema = schemathesis.openapi.from_dict(document(ENDPOINTS, "0"))
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A real server, on an event loop of its own thread."""
    ready: Future[str] = Future()
    over = asyncio.Event()

    async def run():
        async with serve(tmp_path_factory.mktemp("fuzz") / "data") as live:
            ready.set_result(live.url)
            await over.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    yield ready.result(timeout=30)
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


@schema.parametrize()
@settings(max_examples=8, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_the_api_is_what_its_document_says(case, url):
    case.call_and_validate(base_url=url, headers=BEARER)
