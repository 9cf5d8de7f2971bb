"""What each answer on a write to Honcho proves (D47). A status is the server's own only when its body says so; anything
else may come from a proxy that forwards the request later, and is uncertain.

One test per row of the table in providers/honcho/answers.py, through the real SDK over a socket.
"""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.kernel.vendor_error import Meaning, answer_to
from holdfast.memory.delivery import Delivered, DeliveryState, Landing, Outcome, Refused, Uncertain, Unreachable
from holdfast.memory.lane import UNKNOWN, DispatchPolicy, Package, after_asking
from holdfast.providers.honcho.answers import ANSWERS
from holdfast.providers.honcho.provider import HonchoProvider
from tests.support.honcho_kit import note, one, parcel

OWN = {
    400: {"detail": "Cannot create session a with 3 observers."},
    401: {"detail": "Invalid JWT"},
    403: {"detail": "Not authorized to access this resource"},
    404: {"detail": "Session a not found"},
    409: {"detail": "Unable to create or get session: a"},
    422: {"detail": [{"type": "value_error", "loc": ["body", "messages"], "msg": "too long", "input": "my secret"}]},
    500: {"detail": "An unexpected error occurred"},
}
FOREIGN = [
    b"<html><center>nginx</center></html>",
    {"message": "Service Unavailable"},
    {"error": "upstream request timeout"},
    {"detail": "upstream unavailable", "title": "Bad gateway"},
    {"detail": "Service Unavailable"},
]
KINDS: dict[Meaning, tuple[type[Outcome], bool]] = {
    Meaning.REFUSED: (Refused, False),
    Meaning.UNREACHABLE: (Unreachable, False),
    Meaning.SUSPECT: (Unreachable, True),
    Meaning.UNCERTAIN: (Uncertain, False),
    Meaning.UNCERTAIN_SUSPECT: (Uncertain, True),
}
PROXIED = [302, 307, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 499, *range(500, 505), 520, 522, 524, 529, 599]
WRITES: dict[str, Any] = {"/messages$": parcel, "/conclusions$": note}


def statuses(answer):
    """The first and the last status that the row decides."""
    own = bool(answer.own)
    decided = [s for some in answer.statuses for s in some if answer_to(ANSWERS, s, own=own) is answer]
    return decided if len(answer.statuses) > 1 else sorted({decided[0], decided[-1]})


ROWS = [
    (status, body, answer)
    for answer in ANSWERS
    for status in statuses(answer)
    for body in ([OWN[status]] if answer.own else FOREIGN)
]


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{index}" for index, row in enumerate(ROWS)])
async def test_each_answer_means_what_its_row_says(server, provider, path, row):
    status, body, answer = row
    await one(provider, note(provider, 0, "an earlier fact"))
    server.fail_next("status", status=status, path=path, body=body)
    if status == 404 and answer.own and path == "/conclusions$":
        return  # a peer that is not there is made, and the conclusion is sent once more
    outcome = await one(provider, WRITES[path](provider, 1, "my secret"))
    kind, suspect = KINDS[answer.meaning]
    assert type(outcome) is kind
    assert getattr(outcome, "suspect", False) is suspect
    assert "secret" not in repr(outcome)
    assert answer_to(ANSWERS, status, own=answer.own) is answer


def test_every_status_has_a_row():
    for status in range(300, 600):
        for own in (True, False):
            assert answer_to(ANSWERS, status, own=own) is not None


@pytest.mark.parametrize(
    "status",
    [302, 307, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 499, *range(500, 505), 520, 522, 524, 529, 599],
)
@pytest.mark.parametrize("path", WRITES)
async def test_what_a_proxy_answers_and_forwards_later_is_kept_once(server, provider, path, status):
    """The dispatcher's steps: ask, wait for the quiet period, send only what is absent."""
    await one(provider, note(provider, 0, "an earlier fact"))
    given = WRITES[path](provider, 1, "one fact")
    server.fail_next("forward_later", status=status, path=path, body=b"<html>busy</html>")
    outcome = await one(provider, given)
    assert isinstance(outcome, Uncertain), "nothing proves that the request went no further"
    assert server.held
    early = _after(given, await provider.landed(given), waited_ms=1_000)
    assert early.state is DeliveryState.UNCERTAIN
    assert not early.again
    server.forward()
    assert _after(given, await provider.landed(given), waited_ms=5_000).state is DeliveryState.DELIVERED
    assert len(server.messages() + server.conclusions()) == 2


def _after(given, landing: Landing, *, waited_ms: int):
    package = Package(n=1, parcel=given, ask=True, uncertain_for_ms=waited_ms)
    return after_asking(
        package, landing, DispatchPolicy(), quiet_ms=HonchoProvider.capabilities.quiet_ms, chance=0.5, known=UNKNOWN
    )


@pytest.mark.parametrize("path", WRITES)
async def test_a_conflict_at_creation_is_tried_again_and_never_parked(server, provider, path):
    server.creation_conflicts = 1
    given = WRITES[path](provider, 1, "one fact")
    outcome = await one(provider, given)
    assert isinstance(outcome, Unreachable)
    assert not outcome.suspect
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert len(server.messages() + server.conclusions()) == 1


async def test_a_database_that_is_down_leaves_no_unknown_outcome_and_is_unhealthy(server, provider):
    await one(provider, parcel(provider, 0, "hello"))
    server.database_down = True
    outcome = await one(provider, parcel(provider, 1, "one fact"))
    assert isinstance(outcome, Unreachable)
    assert "500" in str(await provider.healthy())
    server.database_down = False
    assert isinstance(await one(provider, replace(parcel(provider, 1, "one fact"), attempt=2)), Delivered)
    assert len(server.messages()) == 2


async def test_what_was_refused_on_the_way_in_company_goes_alone_the_next_time(server, provider):
    """A proxy with a limit of its own refuses a request that holds several parcels, and would take each."""
    given = [parcel(provider, n, f"fact {n}") for n in (1, 2, 3)]
    server.fail_next("status", status=413, path="/messages$", body=b"<html>too large</html>")
    assert {type(outcome) for outcome in await provider.deliver(given)} == {Uncertain}
    sent = server.count("POST", "/messages")
    again = [replace(one_, attempt=2) for one_ in given]
    assert {type(outcome) for outcome in await provider.deliver(again)} == {Delivered}
    assert server.count("POST", "/messages") - sent == len(given)
