"""Every fault of Honcho or of the network gives the attempt a truthful outcome, and loses or doubles nothing."""

import logging
import traceback
from dataclasses import replace

import pytest

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, Uncertain, Unreachable
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import render
from tests.support.honcho_kit import carry, naming, note, one, parcel, provider_on, query
from tests.support.honcho_server import HonchoServer
from tests.support.settled import delivery_reason, logged, says


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 429, 500, 502, 503, 504])
async def test_a_foreign_refusal_shows_no_words_and_the_next_attempt_makes_no_second_copy(server, provider, status):
    given = parcel(provider, 1, "my secret is 1234", "ok")
    server.fail_next("status", status=status, path="/messages", body={"detail": [{"input": "my secret is 1234"}]})
    outcome = await one(provider, given)
    assert isinstance(outcome, Uncertain)
    assert str(status) in outcome.reason
    assert "1234" not in repr(outcome)
    assert server.messages() == []
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages()) == 2


async def test_no_traceback_shows_the_words_that_honcho_refused(server, provider):
    server.poison = {"xyzzy"}
    message = render(parcel(provider, 1, "say xyzzy"), provider.names)[0]
    with pytest.raises(HonchoCallFailed) as raised:
        await provider._client.add("a", [message])
    assert "xyzzy" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("make", [parcel, note])
async def test_a_server_error_after_the_effect_makes_no_second_copy(server, provider, status, make):
    given = make(provider, 1, "one fact")
    await one(provider, make(provider, 0, "an earlier fact"))
    server.fail_next("status", status=status, path="/messages" if make is parcel else "/conclusions", effect=True)
    assert not isinstance(await one(provider, given), Delivered)
    assert await provider.landed(given) is Landing.LANDED
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages() + server.conclusions()) == 2


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [({"retry_after": "7"}, 7_000), ({}, None), ({"retry_after": "soon"}, None), ({"retry_after": "nan"}, None)],
)
async def test_a_wish_to_slow_down_is_heard(server, provider, headers, wait_ms):
    server.fail_next("status", status=429, path="/messages", headers=headers)
    outcome = await one(provider, parcel(provider, 1))
    assert isinstance(outcome, Uncertain)
    assert outcome.retry_after_ms == wait_ms


@pytest.mark.parametrize("fault", ["drop_after", "reset_before"])
@pytest.mark.parametrize("make", [parcel, note])
async def test_an_answer_that_never_came_is_uncertain_until_honcho_is_asked(server, provider, fault, make):
    given = make(provider, 1, "one fact")
    await one(provider, make(provider, 0, "an earlier fact"))
    server.fail_next(fault, path="/messages" if make is parcel else "/conclusions")
    assert isinstance(await one(provider, given), Uncertain)
    assert await provider.landed(given) is (Landing.LANDED if fault == "drop_after" else Landing.ABSENT)
    assert isinstance(await carry(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages() + server.conclusions()) == 2


@pytest.mark.parametrize("effect", [True, False])
async def test_an_answer_that_comes_too_late_is_uncertain(server, effect):
    async with provider_on(server, timeout_s=0.2) as provider:
        given = parcel(provider, 1)
        assert await provider.healthy() is None
        server.fail_next("stall", path="/messages", effect=effect)
        assert isinstance(await one(provider, given), Uncertain)
        server.heal()
        assert await provider.landed(given) is (Landing.LANDED if effect else Landing.ABSENT)
        assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages()) == 2


async def test_the_sdk_never_sends_again_by_itself(server, provider):
    for sent, fault in enumerate(("drop_after", "reset_before", "status"), start=1):
        server.fail_next(fault, path="/messages$", status=503, times=5)
        await one(provider, parcel(provider, sent))
        assert server.count("POST", "/messages") == sent
        server.heal()


@pytest.mark.parametrize("kind", ["lie", "lie_empty"])
@pytest.mark.parametrize("make", [parcel, note])
async def test_a_201_that_lies_is_uncertain_and_nothing_is_lost(server, provider, kind, make):
    given = make(provider, 1, "one fact")
    server.fail_next(kind, path="/messages$" if make is parcel else "/conclusions$")
    assert isinstance(await one(provider, given), Uncertain)
    assert await provider.landed(given) is Landing.ABSENT
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages() + server.conclusions()) == 1


async def test_a_page_instead_of_json_is_uncertain(server, provider):
    assert await provider.healthy() is None
    await one(provider, parcel(provider, 0))
    server.fail_next("html", path="/messages", times=3)
    given = parcel(provider, 1)
    outcome = await one(provider, given)
    assert isinstance(outcome, Uncertain)
    assert "proxy" in outcome.reason
    assert await provider.landed(given) is Landing.POSSIBLE
    server.heal()
    assert isinstance(await carry(provider, replace(given, attempt=2)), Delivered)


async def test_json_of_another_shape_is_uncertain(server, provider):
    for body in ({"hello": 1}, [1, 2], [{"id": "x"}], "words", None):
        server.fail_next("status", status=200, path="/messages$", body=body)
        assert isinstance(await one(provider, parcel(provider, 1)), Uncertain)


async def test_a_redirect_is_not_followed(server, provider):
    async with HonchoServer() as elsewhere:
        server.fail_next("redirect", location=f"{elsewhere.url}/v3/workspaces")
        outcome = await one(provider, parcel(provider, 1))
        assert elsewhere.requests == []
    assert isinstance(outcome, Unreachable)
    assert "redirect" in outcome.reason


async def test_a_server_that_is_down_is_unreachable_however_long(provider, server):
    await one(provider, parcel(provider, 0))
    url = server.url
    await server.__aexit__(None, None, None)
    try:
        for attempt in (1, 2):
            outcome = await one(provider, replace(parcel(provider, 1), attempt=attempt))
            assert isinstance(outcome, Unreachable)
            assert url not in outcome.reason
            assert await provider.landed(parcel(provider, 1)) is Landing.POSSIBLE
        assert "cannot be reached" in str(await provider.healthy())
        with pytest.raises(ProviderFailed, match="cannot be reached"):
            await provider.recall(query("anything", naming()))
    finally:
        await server.__aenter__()


async def test_a_database_that_is_down_is_seen_by_health(server, provider):
    assert await provider.healthy() is None
    server.database_down = True
    assert "500" in str(await provider.healthy())
    assert isinstance(await one(provider, parcel(provider, 1)), Unreachable)


async def test_a_lock_that_is_held_too_long_stores_nothing(server, provider):
    given = parcel(provider, 1)
    server.locked = {given.place}
    assert isinstance(await one(provider, given), Unreachable)
    server.locked = set()
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages()) == 2


async def test_a_wrong_url_says_so(server):
    async with provider_on(server, url=f"{server.url}/elsewhere") as provider:
        outcome = await one(provider, parcel(provider, 1))
    assert isinstance(outcome, Unreachable)
    assert "check url" in outcome.reason


# --- keys -------------------------------------------------------------------------------------------------


async def test_the_key_opens_honcho_and_a_wrong_one_is_named_by_its_variable():
    async with HonchoServer(key="sesame") as server:
        async with provider_on(server, api_key_env="HONCHO_KEY") as provider:
            assert isinstance(await one(provider, parcel(provider, 1)), Delivered)
            server.key = "changed"
            outcome = await one(provider, parcel(provider, 2))
            assert isinstance(outcome, Unreachable)
            assert "HONCHO_KEY" in outcome.reason
            assert "sesame" not in repr(outcome)
        assert len(server.messages()) == 2


async def test_without_api_key_env_no_key_of_the_process_is_sent(monkeypatch):
    monkeypatch.setenv("HONCHO_API_KEY", "sesame")
    async with HonchoServer(key="sesame") as server, provider_on(server) as provider:
        assert "set api_key_env" in str(await provider.healthy())


async def test_a_key_for_another_workspace_is_refused_as_measured():
    async with HonchoServer() as server:
        server.workspace_keys = {"sesame": "other"}
        async with provider_on(server, api_key_env="HONCHO_KEY") as provider:
            assert "401" in str(await provider.healthy())
        async with provider_on(server, api_key_env="HONCHO_KEY", workspace="other") as provider:
            assert await provider.healthy() is None


# --- what an operator is told -----------------------------------------------------------------------------

SENT = "my cat is called Byron and he bites"


ANSWERED = [
    (422, {"detail": [{"type": "too_long", "loc": ["body"], "msg": f"{SENT} is too long", "input": SENT}]}, "too_long"),
    (500, {"detail": f"failed on {SENT} with sesame: it is too long"}, ""),
    (503, b"<p>no upstream, it is too long</p>", ""),
]


@pytest.mark.parametrize("answered", ANSWERED, ids=lambda one: str(one[0]))
@pytest.mark.parametrize("make", [parcel, note])
async def test_the_reason_of_a_delivery_has_status_code_and_request_id(server, caplog, make, answered):
    """Honcho names no request id itself; what stands before it may."""
    caplog.set_level(logging.INFO)
    status, body, code = answered
    path = "/messages" if make is parcel else "/conclusions"
    async with provider_on(server, api_key_env="HONCHO_KEY") as provider:
        server.fail_next("status", status=status, path=path, body=body, headers={"x_request_id": "req-7"})
        reason = await delivery_reason(provider, make(provider, 1, SENT))
    says(
        reason,
        logged(caplog, "delivery.settled"),
        ids={"status": status, "request_id": "req-7"} | ({"vendor_error": code} if code else {}),
        extract="too long",
        hidden=("Byron", "sesame"),
    )
