"""What a platform posts reaches its channel byte for byte, and is acknowledged only when the channel has it."""

import hashlib
import hmac

import pytest
import pytest_asyncio

from holdfast.inbox.channel import WebhookAnswer
from holdfast.kernel.errors import BadSignature, StoreUnavailable
from tests.support.live import BODY_BYTES_MAX, code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
BODY = b'{"a":  1,\r\n"b": "\xff"}'  # neither tidy nor UTF-8: a signature is about bytes


class Platform:
    """One channel of the agent `main`, whose platform signs with a shared secret."""

    def __init__(self):
        self.taken = []
        self.fault = None

    def check_head(self, agent, channel, headers):
        return (agent, channel) == ("main", "telegram")

    async def hook(self, agent, channel, request):
        if (agent, channel) != ("main", "telegram"):
            return None
        if not hmac.compare_digest(request.headers.get("x-signature", ""), signed(request.body)):
            raise BadSignature("the signature does not fit the body")
        if self.fault is not None:
            raise self.fault
        self.taken.append(request.body)
        return WebhookAnswer(status=200, body=b"seen", media_type="text/plain")


def signed(body):
    return hmac.new(b"secret", body, hashlib.sha256).hexdigest()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    platform = Platform()
    async with serve(tmp_path_factory.mktemp("hooks") / "data", hooks=platform) as running:
        running.side = platform
        running.client.headers.pop("Authorization")
        yield running


async def post(live, body=BODY, *, path="main/telegram", signature=None):
    headers = {"X-Signature": signed(body) if signature is None else signature}
    return await live.client.post(f"/v1/hooks/{path}", content=body, headers=headers)


async def test_the_channel_gets_the_raw_bytes_without_a_token(live):
    response = await post(live)
    assert (response.status_code, live.side.taken[-1]) == (200, BODY)


async def test_the_channel_says_what_is_answered(live):
    response = await post(live)
    assert (response.content, response.headers["content-type"]) == (b"seen", "text/plain; charset=utf-8")
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_second_signature_does_not_stand_beside_the_one_that_is_checked(live):
    before = list(live.side.taken)
    for pair in ((signed(BODY), "x"), ("x", signed(BODY)), (signed(BODY), signed(BODY))):
        headers = [("X-Signature", signature) for signature in pair]
        response = await live.client.post("/v1/hooks/main/telegram", content=BODY, headers=headers)
        assert (response.status_code, code_of(response)) == (401, "bad_signature")
    assert live.side.taken == before


async def test_what_was_tampered_with_is_not_read(live):
    before = list(live.side.taken)
    for signature in ("", "x", signed(BODY + b" ")):
        response = await post(live, signature=signature)
        assert (response.status_code, code_of(response)) == (401, "bad_signature")
    assert live.side.taken == before


@pytest.mark.parametrize("path", ["main/slack", "ada/telegram"])
async def test_a_channel_that_is_not_there_is_not_found(live, path):
    response = await post(live, path=path)
    assert (response.status_code, code_of(response)) == (404, "not_found")


async def test_a_name_that_cannot_be_one_is_refused(live):
    response = await post(live, path="main/%2e%2e")
    assert (response.status_code, code_of(response)) == (400, "invalid_name")


async def test_a_body_beyond_the_limit_is_refused(live):
    response = await post(live, b" " * (BODY_BYTES_MAX + 1))
    assert (response.status_code, code_of(response)) == (413, "message_too_large")


async def test_what_could_not_be_kept_is_not_acknowledged(live):
    live.side.fault = StoreUnavailable("locked")
    response = await post(live)
    live.side.fault = None
    assert (response.status_code, code_of(response)) == (503, "store_unavailable")
