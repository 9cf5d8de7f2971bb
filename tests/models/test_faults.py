"""Every fault of a vendor becomes a sentence for the sender, without a key, a prompt or a body in it or in the log."""

import json
import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.log import JsonLines
from holdfast.models import pydantic_model
from tests.support.model_asking import LOOK, answer_to, ask, model_at, request, said
from tests.support.model_vendor import (
    CANARY,
    KEY,
    FakeVendor,
    chat,
    chat_calls,
    claude,
    delta,
    event,
    hangs,
    page,
    status,
    streams,
)

SOON = {"first_token_wait_s": 0.3}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": CANARY}}
TOO_LONG = {"error": {"message": CANARY, "type": "invalid_request_error", "code": "context_length_exceeded"}}
PAGE = f"<html><body>{CANARY} 502 Bad Gateway</body></html>"
HALF = event({"id": "1", "choices": [{"index": 0, "delta": {"content": CANARY}}]})[:30]


async def failure(*plays, **settings):
    with pytest.raises(ModelFailed) as caught:
        await answer_to(*plays, **settings)
    error = caught.value
    assert not {CANARY, KEY, "hello", "127.0.0.1"} & set(str(error).split())
    assert CANARY not in str(error)
    assert KEY not in str(error)
    assert error.__cause__ is None, "what is chained is written to the log, and vendors echo what they were sent"
    return error


GPT, CLAUDE = "the model openai:gpt-5.2", "the model anthropic:claude-haiku-5-5"


@pytest.mark.parametrize(
    ("kind", "play", "what", "is_final"),
    [
        ("openai", status(401), "refused our key: the operator must check it", True),
        ("anthropic", status(401), "refused our key: the operator must check it", True),
        ("openai", status(403), "refused our key: the operator must check it", True),
        ("openai", status(404), "does not exist at its vendor, or not for this key", True),
        ("openai", status(400), "rejected the request", True),
        ("openai", status(400, TOO_LONG), "cannot process a conversation of this length", True),
        ("openai", status(402), "has no credit left: its account must be topped up", True),
        ("openai", status(429), "is rate limited", False),
        ("anthropic", status(429), "is rate limited", False),
        ("openai", status(500), "failed at its vendor", False),
        ("openai", status(503), "is overloaded or down", False),
        ("anthropic", status(529, OVERLOADED), "is overloaded or down", False),
    ],
)
async def test_a_status_becomes_a_sentence_and_says_whether_trying_again_helps(kind, play, what, is_final):
    error = await failure(play, kind=kind)
    assert str(error) == f"{CLAUDE if kind == 'anthropic' else GPT} {what}"
    assert error.is_final is is_final


BYRON = "My cat is called Byron."
QUOTES = {
    "quoted": {"error": {"type": "invalid_request_error", "message": f"bad input: '{BYRON}' at messages.0"}},
    "bare": {"error": {"code": "bad_request", "message": f"cannot take {BYRON} for key {KEY}"}},
    "input": {"detail": [{"type": "string_too_long", "loc": ["body", "text"], "msg": "x", "input": "called Byron"}]},
    "echo": {"request": {"messages": [BYRON]}, "message": "no"},
}


@pytest.mark.parametrize(
    ("kind", "header"), [("openai", "x_request_id"), ("anthropic", "request_id"), ("ollama", "x_request_id")]
)
@pytest.mark.parametrize("code", [400, 401, 404, 413, 422, 429, 500, 503, 529])
async def test_the_operator_is_told_status_request_id_and_what_the_vendor_said(kind, header, code):
    body = {"error": {"type": "some_error", "message": f"{CANARY} {KEY}"}}
    error = await failure(status(code, body, **{header: "req_42"}), kind=kind)
    assert error.vendor.fields == {"status": code, "request_id": "req_42", "vendor_error": "some_error"}
    assert error.vendor.extract == f"{CANARY} [hidden]"
    assert error.reason == f"{error} (status {code}; request id req_42; some_error; it said: {CANARY} [hidden])"


@pytest.mark.parametrize("body", QUOTES.values(), ids=QUOTES)
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_what_was_sent_is_not_repeated_whatever_the_vendor_quotes(kind, body):
    asked = request(said("system", "Be brief."), said("user", BYRON))
    error = await failure(status(422, body, x_request_id="req_42"), kind=kind, asked=asked)
    assert error.vendor.status == 422
    for word in ("Byron", "cat", KEY):
        assert word not in error.reason
        assert word not in str(error.vendor.fields)


async def test_an_error_inside_a_stream_is_told_too():
    told = [*claude("a")[:4], event(OVERLOADED, "error")]
    error = await failure(streams(told), kind="anthropic")
    assert error.vendor.code == "overloaded_error"
    assert CANARY in error.vendor.extract


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_redirect_is_refused_and_the_key_goes_to_no_other_host(kind):
    async with FakeVendor([status(200)]) as other:
        error = await failure(status(307, location=f"{other.url}/v1/elsewhere"), kind=kind)
        assert other.asked == []
    assert str(error).endswith("redirects to another address, which is not followed")
    assert error.is_final


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [({"retry_after": "7"}, 7_000), ({"retry_after_ms": "1500"}, 1_500), ({}, 0), ({"retry_after": "soon"}, 0)],
)
async def test_how_long_a_vendor_wants_to_be_left_alone_is_kept(headers, wait_ms):
    assert (await failure(status(429, **headers))).retry_after_ms == wait_ms


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_nothing_before_the_headers_is_not_waited_for_for_ever(kind):
    error = await failure(hangs, kind=kind, **SOON)
    assert str(error).endswith("did not begin to answer within 0.3 s")
    assert not error.is_final


async def test_nothing_after_the_headers_is_not_waited_for_for_ever():
    error = await failure(streams([], end="hang"), **SOON)
    assert str(error) == f"{GPT} did not begin to answer within 0.3 s"


@pytest.mark.parametrize(
    ("kind", "told"), [("openai", chat("so far ", "so good")[:3]), ("anthropic", claude("so far ", "so good")[:4])]
)
async def test_a_stream_that_pauses_in_the_middle_is_given_up(kind, told, monkeypatch):
    monkeypatch.setattr(pydantic_model, "PAUSE_WAIT_S", 0.3)
    error = await failure(streams(told, end="hang"), kind=kind)
    assert str(error).endswith("stopped in the middle of its answer: nothing came for 0.3 s")


async def test_a_refused_connection_is_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        vendor = FakeVendor()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with model_at_url(url) as model:
            with pytest.raises(ModelFailed, match="could not be reached, or the connection broke") as caught:
                await ask(model)
    assert vendor.asked == []
    assert caught.value.__cause__ is None


def model_at_url(url):
    at: Any = SimpleNamespace(url=url.removesuffix("/v1"))
    return model_at(at)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_page_for_people_is_no_answer(kind):
    error = await failure(page(PAGE), kind=kind)
    assert not error.is_final


BROKEN = {
    "half a JSON, then the end": streams([HALF]),
    "half a JSON, then an event": streams([HALF, b"\n\n", *chat("x")]),
    "half a JSON, then the connection": streams([HALF], end="cut"),
    "words, then the connection": streams(chat("so far")[:2], end="cut"),
    "words, then the end": streams(chat("so far", reason=None)[:2]),
    "no reason why it ended": streams(chat("so far", reason=None)),
    "nothing at all": streams([]),
    "no words": streams(chat()),
    "JSON of another kind": streams([event(["no", "chunk"]), event(7)]),
    "bytes that are no text": streams([b"data: \xff\xfe\xff\n\n"]),
    "an error in the stream": streams([event({"error": {"message": CANARY, "type": "server_error"}})]),
    "arguments that break off": streams(chat_calls(("c1", "look", ['{"what": "b']))),
    "arguments that are no object": streams(chat_calls(("c1", "look", ["[1, 2]"]))),
    "the same call twice": streams(chat_calls(("c1", "look", ["{}"]), ("c1", "look", ["{}"]))),
    "a lone surrogate": streams([delta({"content": "x"}).replace(b'"x"', b'"\\ud800"'), *chat("b")[1:]]),
}


@pytest.mark.parametrize("play", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_answer_is_a_failure_and_may_be_tried_again(play):
    error = await failure(play, asked=request(tools=(LOOK,)))
    assert not error.is_final


BROKEN_CLAUDE = {
    "half a JSON": streams([*claude("a")[:3], b'event: content_block_delta\ndata: {"type": "content_bl\n\n']),
    "the connection breaks": streams(claude("a")[:4], end="cut"),
    "no end": streams(claude("a")[:4]),
    "an error in the stream": streams([*claude("a")[:4], event(OVERLOADED, "error")]),
    "arguments that break off": streams(claude(reason="tool_use", call=("c1", "look", ['{"what": "b']))),
}


@pytest.mark.parametrize("play", BROKEN_CLAUDE.values(), ids=list(BROKEN_CLAUDE))
async def test_a_broken_answer_of_anthropic_is_a_failure_and_may_be_tried_again(play):
    error = await failure(play, kind="anthropic", asked=request(tools=(LOOK,)))
    assert not error.is_final


@pytest.mark.parametrize(
    ("kind", "play", "what"),
    [
        ("openai", streams(chat("I can", reason="content_filter")), "refused to answer this"),
        ("anthropic", streams(claude("I can", reason="refusal")), "refused to answer this"),
        ("openai", streams(chat("so long", reason="length")), "reached its token limit in the middle of the answer"),
        (
            "anthropic",
            streams(claude("so", reason="max_tokens")),
            "reached its token limit in the middle of the answer",
        ),
    ],
)
async def test_a_refusal_is_final_is_not_taken_elsewhere_and_was_paid_for(kind, play, what):
    error = await failure(play, kind=kind)
    assert str(error).endswith(what)
    assert (error.is_final, error.context["elsewhere"]) == (True, False)
    assert isinstance(error.context["cost_micros"], int)
    assert error.context["cost_micros"] > 0


@pytest.mark.parametrize(
    ("kind", "told", "end"),
    [
        ("openai", chat("word " * 100)[:2], "cut"),
        ("openai", chat("word " * 100, reason=None)[:2], "clean"),
        ("anthropic", claude("word " * 100)[:4], "cut"),
    ],
)
async def test_an_answer_that_broke_off_was_paid_for_as_far_as_it_was_heard(kind, told, end):
    asked = request(said("user", "word " * 1_000))
    error = await failure(
        streams(told, end=end), kind=kind, asked=asked, input_usd_per_million=1.0, output_usd_per_million=100.0
    )
    assert isinstance(error.context["cost_micros"], int)
    assert error.context["cost_micros"] >= 100 * 100


async def test_an_answer_that_never_began_cost_nothing():
    assert "cost_micros" not in (await failure(status(500))).context


async def test_a_spoken_refusal_of_openai_is_a_refusal():
    told = [delta({"role": "assistant", "refusal": "I will not"}), delta({}, "stop"), *chat("x")[-2:]]
    error = await failure(streams(told))
    assert str(error).endswith("refused to answer this")


async def test_the_log_of_a_failure_has_no_word_of_the_vendor(caplog):
    caplog.set_level(logging.DEBUG)
    for play in (status(401), page(PAGE), streams([HALF])):
        await failure(play)
    lines = "".join(JsonLines().format(record) for record in caplog.records)
    assert CANARY not in lines
    assert KEY not in lines
    assert json.dumps("hello") not in lines
