"""Retries and fallbacks are bounded, are tried only where they can help, and discard the output of a failed attempt."""

import pytest

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.models.choose import Fallback
from holdfast.turns.model import ModelAnswer, TextDelta
from holdfast.turns.model_call import ModelCaller, Patience
from holdfast.turns.policy import TurnPolicy
from tests.support.model_asking import ask, model_at, request
from tests.support.model_vendor import FakeVendor, chat, claude, status, streams


class NotedTasks(AsyncTasks):
    """Sleeping takes no time; the delays are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_ms: list[float] = []

    async def sleep(self, delay_ms: float) -> None:
        self.slept_ms.append(delay_ms)


async def persist(model, policy=None, patience=None):
    """What is asked as a turn asks it: the answer or the failure, what was heard last, and the waits."""
    tasks = NotedTasks()
    heard: list[str] = []
    found: ModelAnswer | ModelFailed
    asker = ModelCaller(SystemClock(), SystemEntropy(), tasks)
    try:
        found = await asker.ask(model, request(), policy or TurnPolicy(), heard.append, heard.clear, patience=patience)
    except ModelFailed as error:
        found = error
    return found, "".join(heard), tasks.slept_ms


async def at_vendor(*plays, **more):
    async with FakeVendor(list(plays)) as vendor, model_at(vendor) as model:
        return (*await persist(model, **more), len(vendor.asked))


# --- again -----------------------------------------------------------------------------------------


async def test_what_may_help_is_tried_again_within_the_attempts():
    found, heard, slept, asked = await at_vendor(status(500), status(503), streams(chat("at last")))
    assert isinstance(found, ModelAnswer)
    assert (found.text, heard, len(slept), asked) == ("at last", "at last", 2, 3)
    found, _, slept, asked = await at_vendor(status(500))
    assert isinstance(found, ModelFailed)
    assert (len(slept), asked) == (2, 3)


@pytest.mark.parametrize("code", [400, 401, 403, 404])
async def test_what_cannot_help_is_not_tried_again(code):
    found, _, slept, asked = await at_vendor(status(code), streams(chat("never")))
    assert isinstance(found, ModelFailed)
    assert (slept, asked) == ([], 1)


async def test_a_vendor_that_wants_to_be_left_alone_is():
    found, _, slept, _ = await at_vendor(status(429, retry_after="9"), streams(chat("ok")))
    assert isinstance(found, ModelAnswer)
    assert slept == [9_000]


async def test_a_wait_that_is_longer_than_the_patience_ends_the_asking_at_once():
    found, _, slept, asked = await at_vendor(status(429, retry_after="3600"), streams(chat("never")))
    assert str(found) == "the model openai:gpt-5.2 is rate limited"
    assert (slept, asked) == ([], 1)


async def test_the_questions_of_one_turn_share_their_retries():
    patience = Patience(retries=3, wait_ms=60_000)
    *_, asked = await at_vendor(status(500), patience=patience)
    assert (asked, patience.retries) == (3, 1)
    *_, asked = await at_vendor(status(500), patience=patience)
    assert (asked, patience.retries) == (2, 0)
    *_, asked = await at_vendor(status(500), patience=patience)
    assert asked == 1


async def test_what_was_heard_of_a_broken_answer_is_void():
    found, heard, *_ = await at_vendor(streams(chat("wrong ", "start")[:3], end="cut"), streams(chat("right")))
    assert isinstance(found, ModelAnswer)
    assert (found.text, heard) == ("right", "right")


# --- elsewhere -------------------------------------------------------------------------------------


async def two(first, second):
    """GPT at one vendor, Claude at another, in that order: asked once."""
    async with (
        FakeVendor([first]) as one,
        FakeVendor([second]) as other,
        model_at(one) as gpt,
        model_at(other, "anthropic") as haiku,
    ):
        heard: list[str] = []
        found: ModelAnswer | ModelFailed
        try:
            found = await ask(Fallback([gpt, haiku]), heard=heard)
        except ModelFailed as error:
            found = error
        return found, "".join(heard), (len(one.asked), len(other.asked))


@pytest.mark.parametrize("code", [401, 403, 404, 400, 402, 429, 500])
async def test_the_next_model_answers_when_one_cannot_and_is_named(code):
    found, heard, asked = await two(status(code), streams(claude("from elsewhere")))
    assert (found.text, found.model, heard) == ("from elsewhere", "anthropic:claude-haiku-5-5", "from elsewhere")
    assert asked == (1, 1)


async def test_a_model_that_broke_off_in_the_middle_is_followed_by_one_that_begins_anew():
    found, heard, _ = await two(streams(chat("wrong ", "start")[:3], end="cut"), streams(claude("right")))
    assert (found.text, heard) == ("right", "right")


async def test_a_refusal_is_not_taken_elsewhere():
    found, _, asked = await two(streams(chat("no", reason="content_filter")), streams(claude("yes")))
    assert str(found).endswith("refused to answer this")
    assert asked == (1, 0)


@pytest.mark.parametrize(
    ("first", "second", "is_final", "wait_ms"),
    [
        (status(401), status(401), True, 0),
        (status(401), status(429, retry_after="5"), False, 5_000),
        (status(429, retry_after="5"), status(401), False, 5_000),
        (status(429, retry_after="5"), status(429, retry_after="3"), False, 3_000),
        (status(429, retry_after="5"), status(500), False, 0),
    ],
)
async def test_when_none_can_answer_it_is_final_only_for_all(first, second, is_final, wait_ms):
    found, *_ = await two(first, second)
    assert (found.is_final, found.retry_after_ms) == (is_final, wait_ms)


async def test_the_stream_of_the_first_model_is_passed_on_as_it_comes():
    async with FakeVendor([streams(chat("a", "b"))]) as vendor, model_at(vendor) as model:
        events = [event async for event in Fallback([model, model]).ask(request())]
    assert events[:2] == [TextDelta("a"), TextDelta("b")]
    assert isinstance(events[-1], ModelAnswer)
