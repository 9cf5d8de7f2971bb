"""Requests without the token, from browsers under a foreign name, or with text that is not Unicode are refused.

Rules: control 1, control 2, control 11, control 14, control 16.
"""

import asyncio
import json
import os
import stat
import sys
from typing import Any, cast

import pytest
import pytest_asyncio

from holdfast.api.auth.guard import ATTEMPTS_MAX, ATTEMPTS_WINDOW_MS, Guard, Names
from holdfast.api.auth.operator_token import Token, load_token
from holdfast.api.errors import TokenTooShort, TooManyAttempts
from holdfast.api.limits.admission import KEYS_MAX, Allowance
from holdfast.api.request import has_lone_surrogate
from holdfast.api.routes.table import ENDPOINTS
from holdfast.kernel.errors import ConfigInvalid, StoreReadOnly
from holdfast.testing.clock import ManualClock
from holdfast.testing.entropy import SeededEntropy
from tests.support.live import BODY_BYTES_MAX, TOKEN, code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
GUARDED = [(one.method, one.path) for one in ENDPOINTS if not one.is_open] + [("GET", "/openapi.json")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("guard") / "data") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(tmp_path):
    async with serve(tmp_path) as running:
        yield running


# --- the token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [*GUARDED, ("GET", "/nowhere"), ("GET", "/healthz/")])
async def test_every_route_but_health_needs_the_token(live, method, path):
    response = await live.client.request(method, path, headers={"Authorization": ""})
    assert (response.status_code, code_of(response)) == (401, "auth_required")
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_health_needs_none(live):
    assert (await live.client.get("/healthz", headers={"Authorization": ""})).status_code == 200


async def test_readiness_says_more_than_health_to_callers_with_a_token(live):
    found = await live.client.get("/readyz")
    assert (found.status_code, set(found.json())) == (200, {"ok", "proved_write_ms", "wal_bytes"})


async def test_what_is_open_to_everybody_is_known():
    """A code or a signature guards the others, since no token can."""
    assert {(one.method, one.path) for one in ENDPOINTS if one.is_open} == {
        ("GET", "/healthz"),
        ("GET", "/"),
        ("POST", "/v1/login"),
        ("POST", "/v1/hooks/{agent}/{channel}"),
    }


@pytest.mark.parametrize(
    "given",
    ["Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", "Bearer \xff"],
)
async def test_a_wrong_token_is_refused(fresh, given):
    response = await fresh.client.get("/v1/sessions", headers={"Authorization": given.encode("latin-1")})
    assert (response.status_code, code_of(response)) == (401, "auth_required")
    assert TOKEN not in response.text


async def test_the_scheme_may_be_written_in_any_case(live):
    assert (await live.client.get("/v1/sessions", headers={"Authorization": f"bearer {TOKEN}"})).status_code == 200


async def test_many_wrong_tokens_are_slowed_down_and_the_owner_is_not_locked_out(fresh):
    wrong = {"Authorization": "Bearer wrong"}
    codes = [code_of(await fresh.client.get("/v1/sessions", headers=wrong)) for _ in range(ATTEMPTS_MAX + 1)]
    assert codes == ["auth_required"] * ATTEMPTS_MAX + ["too_many_attempts"]
    response = await fresh.client.get("/v1/sessions", headers=wrong)
    assert response.status_code == 429
    assert 1 <= int(response.headers["retry-after"]) <= ATTEMPTS_WINDOW_MS // 1000
    assert (await fresh.get("/v1/sessions")).status_code == 200


async def test_the_count_of_wrong_tokens_ends_with_its_window():
    clock, unused = ManualClock(), cast("Any", None)
    guard = Guard(unused, unused, clock, Names())

    def wait_ms(client):
        try:
            guard.failed(client)
        except TooManyAttempts as error:
            return error.context["retry_after_ms"]
        return None

    waits = [wait_ms("a") for _ in range(ATTEMPTS_MAX + 1)]
    assert waits == [None] * ATTEMPTS_MAX + [ATTEMPTS_WINDOW_MS]
    assert wait_ms("b") is None
    clock.advance(ATTEMPTS_WINDOW_MS)
    assert wait_ms("a") is None


async def test_the_count_of_wrong_tokens_has_a_limit_of_its_own():
    attempts = Allowance(ManualClock(), ATTEMPTS_WINDOW_MS)
    for n in range(KEYS_MAX * 2):
        attempts.use(str(n), 1)
    assert len(attempts._used) == KEYS_MAX


@pytest.mark.parametrize("query", ["token=x", "a=1&token=", "Token=x", "access_token=x", "%74oken=x"])
async def test_a_token_in_a_url_is_refused_even_beside_the_right_header(live, query):
    for path in ("/v1/sessions", "/healthz"):
        response = await live.client.get(f"{path}?{query}")
        assert (response.status_code, code_of(response)) == (400, "token_in_url")


async def test_a_token_is_made_once_and_kept_for_its_owner(tmp_path):
    made = load_token(tmp_path, None, SeededEntropy(1))
    assert len(made.value) == 64
    assert made.file == tmp_path / "token"
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert load_token(tmp_path, None, SeededEntropy(2)).value == made.value
    assert made.value not in repr(made)


async def test_an_empty_token_file_is_made_again(tmp_path):
    (tmp_path / "token").write_text("\n")
    assert len(load_token(tmp_path, "", SeededEntropy(1)).value) == 64


async def test_the_operators_token_is_not_written_down(tmp_path):
    assert load_token(tmp_path, TOKEN, SeededEntropy(1)) == Token(TOKEN, None)
    assert list(tmp_path.iterdir()) == []


RANDOM = "3f9c0a7be15d48261c0b9e7fd2a4586d"


@pytest.mark.parametrize("where", ["environment", "file"])
@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("hunter2", "token_too_short"),
        (RANDOM[:31], "token_too_short"),
        ("a" * 64, "token_too_weak"),
        ("0123456" * 5, "token_too_weak"),
        ("correct-horse-battery" * 2, "token_too_weak"),
        (RANDOM[:16] * 2, "token_too_weak"),
        (RANDOM, ""),
        (RANDOM + RANDOM[:4], ""),
    ],
)
async def test_a_token_that_can_be_guessed_is_refused_wherever_it_stands(tmp_path, where, token, code):
    (tmp_path / "token").write_text(f"{token}\n")
    given = token if where == "environment" else None
    if not code:
        assert load_token(tmp_path, given, SeededEntropy(1)).value == token
        return
    with pytest.raises(TokenTooShort) as caught:
        load_token(tmp_path, given, SeededEntropy(1))
    assert caught.value.code == code
    assert token not in str(caught.value)
    assert (tmp_path / "token").read_text() == f"{token}\n", "the file is left as it is"


@pytest.mark.parametrize("given", ["two words", "tab\there", "ü", "x" * 2_000, "line\n"])
async def test_a_token_that_no_header_can_carry_is_refused(tmp_path, given):
    with pytest.raises(ConfigInvalid):
        load_token(tmp_path, given, SeededEntropy(1))


@pytest.mark.skipif(not hasattr(os, "symlink") or sys.platform == "win32", reason="links")
async def test_a_token_is_not_written_through_a_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").symlink_to(elsewhere)
    load_token(data, None, SeededEntropy(1))
    assert elsewhere.read_text() == ""


async def test_a_token_that_cannot_be_kept_is_an_error_of_ours(tmp_path):
    (tmp_path / "token").mkdir()
    with pytest.raises(StoreReadOnly):
        load_token(tmp_path, None, SeededEntropy(1))


# --- the host --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "0.0.0.0", "evil@127.0.0.1", ""]
)
async def test_a_foreign_host_is_refused_before_the_token_is_looked_at(live, host):
    for headers in ({"Host": host}, {"Host": host, "Authorization": ""}):
        response = await live.client.get("/healthz", headers=headers)
        assert (response.status_code, code_of(response)) == (400, "host_not_allowed")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:7420", "LOCALHOST", "[::1]", "[::1]:7420"])
async def test_loopback_by_any_of_its_names_is_allowed(live, host):
    assert (await live.client.get("/healthz", headers={"Host": host})).status_code == 200


async def test_a_client_cannot_say_who_it_is(fresh):
    """Forwarded addresses are not believed: every wrong token counts for the real client."""
    for n in range(ATTEMPTS_MAX):
        headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"10.0.0.{n}"}
        await fresh.client.get("/v1/sessions", headers=headers)
    response = await fresh.client.get("/v1/sessions", headers={"Authorization": "Bearer wrong"})
    assert code_of(response) == "too_many_attempts"


# --- the body --------------------------------------------------------------------------------------


def body(text: bytes) -> bytes:
    return b'{"chat": "c", "id": "1", "text": "' + text + b'"}'


@pytest.mark.parametrize(
    "text", [rb"\ud800", rb"\udc00", rb"a\uD83Dz", rb"\ude00\ud83d", rb"\ud800\ud800\udc00", rb"\ud800\n", rb"\\\ud800"]
)
async def test_a_lone_surrogate_is_refused(live, text):
    response = await live.client.post("/v1/messages", content=body(text))
    assert (response.status_code, code_of(response)) == (400, "invalid_unicode")


@pytest.mark.parametrize("field", ["chat", "id", "sender", "agent"])
async def test_a_lone_surrogate_is_refused_in_every_field(live, field):
    sent = {"chat": "c", "id": "1", "text": "x", field: "\ud800"}
    response = await live.client.post("/v1/messages", content=json.dumps(sent).encode())
    assert (response.status_code, code_of(response)) == (400, "invalid_unicode")


@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"caf\xe9"])
async def test_what_is_not_utf8_is_refused(live, text):
    response = await live.client.post("/v1/messages", content=body(text))
    assert (response.status_code, code_of(response)) == (400, "invalid_unicode")


async def test_a_query_that_is_not_utf8_is_refused(live):
    response = await live.client.get("/v1/sessions?chat=%ff")
    assert (response.status_code, code_of(response)) == (400, "invalid_unicode")


async def test_pairs_and_escaped_backslashes_are_no_lone_surrogates():
    for sound in (rb"\ud83d\ude00", rb"\\ud800", rb"\\\\ud800", rb"\u0041\ud83d\ude00\ud83d\ude00", b"plain", rb"\n"):
        assert not has_lone_surrogate(sound)


async def test_a_body_beyond_the_limit_is_refused_by_its_announcement(live):
    response = await live.client.post("/v1/messages", content=b" " * (BODY_BYTES_MAX + 1))
    assert (response.status_code, code_of(response)) == (413, "message_too_large")


async def test_a_body_beyond_the_limit_is_refused_while_it_is_read(live):
    async def endless():
        for _ in range(BODY_BYTES_MAX // 1_000 + 2):
            yield b" " * 1_000

    response = await live.client.post("/v1/messages", content=endless())
    assert (response.status_code, code_of(response)) == (413, "message_too_large")
    assert (await live.get("/healthz")).status_code == 200


async def test_a_client_that_disconnects_during_a_request_disturbs_no_other(live):
    host, port = live.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 500\r\n\r\n"
    writer.write(head.encode() + b'{"chat"')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await live.get("/healthz")).status_code == 200


async def test_bytes_that_are_not_http_get_an_answer_and_disturb_no_other(live):
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x16\x03\x01 hello\r\n\r\n")
    assert b"400" in await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert (await live.get("/healthz")).status_code == 200
