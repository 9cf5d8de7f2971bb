"""Every request that the OpenAPI document allows is served as documented, and every other one is refused: none is
answered with 500.
"""

import asyncio
import threading
from concurrent.futures import Future

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from holdfast.api.openapi import document
from holdfast.api.routes.table import ENDPOINTS
from tests.support.live import TOKEN, serve
from tests.support.patience import HANGS_S

config = schemathesis.Config.from_dict({"phases": {"coverage": {"unexpected-methods": ["PATCH"]}}})  # one says it
schema = schemathesis.openapi.from_dict(document(ENDPOINTS, "0"), config=config)
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
    yield ready.result(timeout=HANGS_S)
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


# Routes whose rules no schema can say, so that what it allows may still be refused.
BEYOND_SCHEMAS = {
    "/v1/messages": "a text needs a visible character",
    "/v1/chat/completions": "the last message must be the user's, with a visible character",
    "/v1/responses": "the input must be text of the user, with a visible character",
    "/v1/forget": "either a session or a person",
    "/v1/login": "either a code or a token",
    "/v1/addresses/move": "addresses have one spelling",
    "/v1/links": "a principal is <channel>:<id>",
    "/v1/unlink": "a principal is <channel>:<id>",
    "/v1/unpair": "a principal is <channel>:<id>",
    **{
        f"/v1/{path}": "ids, a filter, or all of them"
        for path in (
            *("deliveries/replay", "deliveries/drop", "deliveries/settle"),
            *("replies/resend", "replies/drop", "replies/settle", "messages/drop"),
        )
    },
}


@pytest.fixture(scope="module")
def session():
    with requests.Session() as kept:
        yield kept


@schema.parametrize()
@settings(max_examples=3, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_the_api_is_what_its_document_says(case, url, session):
    """Who may ask is shown elsewhere, on every route, and would cost two more requests for each of these."""
    unsayable = [positive_data_acceptance] if case.operation.path in BEYOND_SCHEMAS else []
    case.call_and_validate(base_url=url, headers=BEARER, session=session, excluded_checks=[ignored_auth, *unsayable])


def test_every_route_is_tried():
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    tried = {f"{one.method.upper()} {one.path}" for one in found}
    assert tried == {f"{one.method} {one.path}" for one in ENDPOINTS} | {"GET /openapi.json"}
