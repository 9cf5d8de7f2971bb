"""Every bad answer leads to a defined state: nothing lost, nothing guessed, and no key and no message text in the
reason.
"""

import asyncio
import json
import logging
import socket
from dataclasses import replace

import pytest

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.vendor_error import Meaning, answer_to
from holdfast.memory.delivery import Delivered, Landing, Refused, Uncertain, Unreachable
from holdfast.providers.hindsight import make_hindsight
from holdfast.providers.hindsight.answers import ANSWERS
from holdfast.providers.hindsight.provider import HindsightProvider
from tests.support.hindsight_fake import FakeHindsight, Fault
from tests.support.hindsight_parcels import provider, question, retain, setup
from tests.support.settled import delivery_reason, logged, says

SUBMIT = "POST /v1/default/banks/main/memories"
KEY = {"HS_KEY": "sesame-0123"}


async def outcome_of(fault, **settings):
    async with FakeHindsight() as fake, provider(fake.url, **settings) as hindsight:
        fake.faults.append(fault)
        (outcome,) = await hindsight.deliver([retain("private words")])
        assert fake.texts() == []
        (after,) = await hindsight.deliver([retain("private words")])
        assert isinstance(after, Delivered), "the fault is over, and nothing was lost"
    assert not isinstance(outcome, Delivered)
    assert "words" not in outcome.reason
    return outcome


KINDS = {
    Meaning.REFUSED: (Refused, False),
    Meaning.UNREACHABLE: (Unreachable, False),
    Meaning.SUSPECT: (Unreachable, True),
    Meaning.UNCERTAIN: (Uncertain, False),
}
FOREIGN = ["<html>nginx</html>", '{"message": "too busy"}', '{"detail": "no", "title": "no"}', "[]", "null"]


def decided(answer):
    """The first and the last status of each range that the row decides, with bodies that are the server's or not."""
    own = bool(answer.own)
    for some in answer.statuses:
        found = [status for status in some if answer_to(ANSWERS, status, own=own) is answer]
        for status in sorted({found[0], found[-1]}) if found else ():
            yield from ((status, body, answer) for body in ([Fault("").body] if own else FOREIGN))


ROWS = [row for answer in ANSWERS for row in decided(answer)]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{index}" for index, row in enumerate(ROWS)])
async def test_each_answer_means_what_its_row_says(row):
    status, body, answer = row
    kind, suspect = KINDS[answer.meaning]
    content_type = "text/html" if body.startswith("<") else "application/json"
    outcome = await outcome_of(Fault(SUBMIT, status=status, body=body, content_type=content_type))
    assert (type(outcome), getattr(outcome, "suspect", False)) == (kind, suspect)
    assert str(status) in outcome.reason


@pytest.mark.parametrize("status", [408, 413, 429, 500, 502, 503, 504, 524])
async def test_what_a_proxy_answers_and_forwards_later_is_kept_once_and_need_not_wait(status):
    """The same operation does no new work: nothing is doubled, however late the first request arrives."""
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.append(Fault(SUBMIT, status=status, held=True))
        (outcome,) = await hindsight.deliver([retain("once")])
        assert isinstance(outcome, Unreachable | Uncertain)
        assert hindsight.capabilities.repeats
        (again,) = await hindsight.deliver([replace(retain("once"), attempt=2)])
        assert isinstance(again, Delivered)
        await fake.forward()
        assert len(fake.texts()) == 1
        assert [operation.runs for operation in fake.bank("main").operations.values()] == [1]


async def test_a_database_that_is_down_is_the_server_s_trouble_and_health_says_so():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        assert await hindsight.healthy() is None
        fake.database_down = True
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert outcome == Unreachable("Hindsight failed (500)", suspect=True)
        assert await hindsight.healthy() == "Hindsight failed (500)"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_variable_to_set(status):
    outcome = await outcome_of(Fault(SUBMIT, status=status), environment=KEY, api_key_env="HS_KEY")
    assert outcome == Unreachable(f"Hindsight refused the key ({status}); set HS_KEY to one that it accepts")


@pytest.mark.parametrize("status", [404, 405, 418])
async def test_an_address_that_is_no_hindsight_is_named_as_that(status):
    outcome = await outcome_of(Fault(SUBMIT, status=status))
    assert isinstance(outcome, Unreachable)
    assert "hindsight.url" in outcome.reason


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7_000),
        ({"Retry-After": "99999999999999999999"}, 3_600_000),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
    ],
)
async def test_a_busy_server_says_when_to_come_back(status, header, wait_ms):
    outcome = await outcome_of(Fault(SUBMIT, status=status, headers=header))
    assert outcome == Unreachable(f"Hindsight is busy ({status})", retry_after_ms=wait_ms)


async def test_an_internal_error_may_be_about_the_words():
    assert await outcome_of(Fault(SUBMIT, status=500)) == Unreachable("Hindsight failed (500)", suspect=True)


@pytest.mark.parametrize("status", [408, 502, 504])
async def test_a_proxy_that_gave_up_leaves_it_uncertain(status):
    assert isinstance(await outcome_of(Fault(SUBMIT, status=status)), Uncertain)


async def test_a_redirect_is_named_and_not_followed():
    async with FakeHindsight() as elsewhere:
        fault = Fault(SUBMIT, status=307, headers={"Location": f"{elsewhere.url}/x?token=secret"})
        outcome = await outcome_of(fault)
        assert elsewhere.requests == []
    assert isinstance(outcome, Unreachable)
    assert "redirects (307) to http://127.0.0.1" in outcome.reason
    assert "secret" not in outcome.reason


@pytest.mark.parametrize(
    "fault",
    [
        Fault(SUBMIT, body="<h1>Sign in</h1>", content_type="text/html"),
        Fault(SUBMIT, body="{not json"),
        Fault(SUBMIT, body='{"success": "of course"}'),
        Fault(SUBMIT, body='["success"]'),
        Fault(SUBMIT, body=""),
        Fault(
            SUBMIT, body='{"success": true, "bank_id": "main", "items_count": 1, "async": true, "operation_id": "x"}'
        ),
    ],
    ids=["html", "broken", "shape", "list", "empty", "another-operation"],
)
async def test_an_answer_that_is_no_hindsights_is_no_delivery(fault):
    assert isinstance(await outcome_of(fault), Unreachable)


async def test_a_dead_address_is_unreachable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with provider(url) as hindsight:
            (outcome,) = await hindsight.deliver([retain("hello")])
            assert isinstance(outcome, Unreachable)
            assert await hindsight.landed(retain("hello")) is Landing.POSSIBLE
            assert await hindsight.healthy() == outcome.reason
            with pytest.raises(ProviderFailed):
                await hindsight.recall(question("hello"))


async def test_an_unknown_host_is_unreachable():
    async with provider("http://no-such-host.invalid") as hindsight:
        (outcome,) = await hindsight.deliver([retain("hello")])
    assert isinstance(outcome, Unreachable)


@pytest.mark.parametrize("version", ["0.8.5", "0.5", "v0.1.0"])
async def test_a_hindsight_that_is_too_old_gets_nothing_and_is_told_why(version):
    async with FakeHindsight(version) as fake, provider(fake.url) as hindsight:
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Unreachable)
        assert "too old: 0.8.6 or newer is needed" in outcome.reason
        assert await hindsight.healthy() == outcome.reason
        assert fake.sent("memories") == 0
        fake.version = "0.8.6"
        assert isinstance((await hindsight.deliver([retain("hello")]))[0], Delivered)


async def test_a_version_that_is_none_is_no_hindsight():
    async with FakeHindsight("unknown") as fake, provider(fake.url) as hindsight:
        assert "not Hindsight" in str(await hindsight.healthy())


async def test_health_needs_the_right_key():
    async with FakeHindsight(key="right") as fake:
        async with provider(fake.url, KEY, api_key_env="HS_KEY") as hindsight:
            why = await hindsight.healthy()
            assert why == "Hindsight refused the key (401); set HS_KEY to one that it accepts"
            assert KEY["HS_KEY"] not in repr(hindsight)
        async with provider(fake.url, {"HS_KEY": "right"}, api_key_env="HS_KEY") as hindsight:
            assert await hindsight.healthy() is None


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        assert isinstance((await hindsight.deliver([retain("hello")]))[0], Delivered)


def test_one_provider_works_in_one_event_loop_after_another():
    made = make_hindsight(setup("http://127.0.0.1:9")).provider
    assert isinstance(made, HindsightProvider)

    async def deliver() -> None:
        async with FakeHindsight() as fake:
            made._client._client.memory.api_client.configuration.host = fake.url
            assert isinstance((await made.deliver([retain("hello")]))[0], Delivered)

    async def end() -> None:
        await deliver()
        await made.close()

    asyncio.run(deliver())
    asyncio.run(end())


SENT = "my cat is called Byron and he bites"


@pytest.mark.parametrize(
    ("status", "body", "ids"),
    [
        (
            422,
            {"detail": [{"type": "too_long", "loc": ["body"], "msg": f"{SENT} is too long", "input": SENT}]},
            "too_long",
        ),
        (500, {"detail": f"failed on {SENT} with sesame-0123: it is too long"}, ""),
    ],
)
async def test_the_reason_of_a_delivery_has_status_code_and_request_id(caplog, status, body, ids):
    """Hindsight names no request id itself; what stands before it may."""
    caplog.set_level(logging.INFO)
    async with FakeHindsight() as fake, provider(fake.url, KEY, api_key_env="HS_KEY") as hindsight:
        fake.faults.append(Fault(SUBMIT, status=status, body=json.dumps(body), headers={"X-Request-Id": "req-7"}))
        reason = await delivery_reason(hindsight, retain(SENT))
    says(
        reason,
        logged(caplog, "delivery.settled"),
        ids={"status": status, "request_id": "req-7"} | ({"vendor_error": ids} if ids else {}),
        extract="too long",
        hidden=("Byron", "sesame-0123"),
    )


async def test_the_page_of_a_proxy_before_hindsight_keeps_its_status(caplog):
    caplog.set_level(logging.INFO)
    fault = Fault(SUBMIT, status=502, body="<p>no upstream</p>", content_type="text/html", headers={"cf-ray": "9a-FRA"})
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.append(fault)
        reason = await delivery_reason(hindsight, retain(SENT))
    ids = {"status": 502, "request_id": "9a-FRA"}
    says(reason, logged(caplog, "delivery.settled"), ids=ids, extract="no upstream", hidden=("Byron",))
