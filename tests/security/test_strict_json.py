"""A body is one JSON value of one meaning, in UTF-8, and said to be JSON: what two readers could understand differently
is refused, over HTTP, over WebSocket and at webhooks."""

import json

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.kernel.errors import DuplicateKey, HoldfastError, InvalidJson, InvalidUnicode, UnsupportedMediaType
from holdfast.kernel.json_body import DEPTH_MAX, check_json, check_json_type
from tests.support.live import TOKEN, code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
GOOD = b'{"chat": "c", "id": "1", "text": "hello"}'
ROUTES = [
    ("/v1/messages", GOOD),
    ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "hello"}]}'),
    ("/v1/responses", b'{"input": "hello"}'),
    ("/v1/login", b'{"token": "x"}'),
    ("/v1/forget", b'{"person": "ada"}'),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("json") / "data") as running:
        yield running


async def post(live, path, body, media_type):
    request = live.client.build_request("POST", path, content=body)
    del request.headers["Content-Type"]
    if media_type is not None:
        request.headers["Content-Type"] = media_type
    return await live.client.send(request)


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize(
    "media_type",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/plain, application/json",
        "application/json, text/plain",
        "application/json; charset=utf-16",
        "application/json; charset=latin1",
        'application/json; charset="utf-7"',
    ],
)
async def test_a_body_that_is_not_said_to_be_json_in_utf8_is_refused(live, path, body, media_type):
    """Finding 14: Content-Type is not checked."""
    response = await post(live, path, body, media_type)
    assert (response.status_code, code_of(response)) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON; charset=UTF-8",
        'application/json;charset="utf-8"',
        "application/json; v=1",
    ],
)
async def test_json_in_utf8_is_taken(live, media_type):
    response = await post(live, "/v1/messages", GOOD, media_type)
    assert response.status_code in {200, 202}


async def test_a_request_without_a_body_needs_no_content_type(live):
    assert (await post(live, "/v1/logout", b"", None)).status_code == 200


@pytest.mark.parametrize(("path", "body"), ROUTES)
async def test_a_key_that_is_given_twice_is_refused_by_its_name(live, path, body):
    """Finding 14: duplicate JSON keys pass."""
    name = json.loads(body).popitem()[0]
    response = await post(live, path, body[:-1] + b", " + body[1:], "application/json")
    assert (response.status_code, code_of(response)) == (400, "duplicate_key")
    assert name in response.json()["error"]["message"] or next(iter(json.loads(body))) in response.text


async def test_of_two_chats_in_one_message_neither_is_spoken_in(live):
    body = b'{"chat": "mine", "chat": "yours", "id": "1", "text": "/delete"}'
    response = await post(live, "/v1/messages", body, "application/json")
    assert (response.status_code, code_of(response)) == (400, "duplicate_key")
    assert "'chat'" in response.json()["error"]["message"]
    assert not [one for one in await live.runtime.sessions() if one.address.endswith((":mine", ":yours"))]


@pytest.mark.parametrize(
    "value", [b"NaN", b"Infinity", b"-Infinity", b"[" * 200 + b"]" * 200, b'{"a":' * 90 + b"1" + b"}" * 90]
)
async def test_what_is_no_json_or_nests_too_deep_is_refused_where_fields_are_passed_over(live, value):
    body = b'{"messages": [{"role": "user", "content": "hello"}], "extra": ' + value + b"}"
    response = await post(live, "/v1/chat/completions", body, "application/json")
    assert (response.status_code, code_of(response)) == (400, "invalid_json")


async def test_a_frame_with_a_key_twice_is_refused_and_the_connection_goes_on(live):
    url = live.url.replace("http", "ws", 1) + "/v1/ws"
    async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, proxy=None) as socket:
        assert json.loads(await socket.recv())["type"] == "ready"
        await socket.send('{"type": "send", "chat": "mine", "chat": "yours", "id": "1", "text": "hello"}')
        told = json.loads(await socket.recv())
        assert (told["type"], told["error"]["code"]) == ("error", "duplicate_key")
        await socket.send('{"type": "ping"}')
        assert json.loads(await socket.recv())["type"] == "pong"


# --- the rules themselves --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"a": 1, "a": 1}', DuplicateKey),
        (b'{"a": {"b": 1, "c": [{"d": 1, "d": 2}]}}', DuplicateKey),
        (b'{"a": 1, "\\u0061": 2}', DuplicateKey),
        (b'{"a": NaN}', InvalidJson),
        (b'{"a": "\xff"}', InvalidUnicode),
        (b"\xef\xbb\xbf{}", InvalidJson),
        (b"{} {}", InvalidJson),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), InvalidJson),
        (b"[" * 1_000_000, InvalidJson),
        (b'{"a": ' + b"9" * 5_000 + b"}", InvalidJson),
        (b'{"a": "' + b"[" * 100, InvalidJson),
    ],
)
async def test_what_two_readers_could_understand_differently_is_refused(body, error):
    with pytest.raises(error):
        check_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}',
        b"[" * DEPTH_MAX + b"]" * DEPTH_MAX,
        b'{"a": "' + b"[{" * 500 + b'"}',
        b'{"a": "\\"' + b"[" * 500 + b'\\\\"}',
        b"[" + b"[]," * 500 + b"[]]",
    ],
)
async def test_what_has_one_meaning_passes(body):
    check_json(body)


async def test_every_refusal_says_what_was_given():
    for header in ("text/plain", "application/json; charset=koi8-r"):
        with pytest.raises(UnsupportedMediaType) as raised:
            check_json_type(header)
        assert isinstance(raised.value, HoldfastError)
        assert header.rpartition("=")[2] in str(raised.value)
