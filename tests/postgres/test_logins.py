"""Two gateways on one database know the same logins: a logout at one is seen by the other."""

from holdfast.api.auth.caller import BELIEVED_MS
from holdfast.testing.clock import ManualClock
from tests.security.browsers import Browser, said
from tests.support.live import serve


async def test_a_logout_at_one_gateway_is_seen_by_the_other(address):
    clock = ManualClock()
    async with serve(address, clock=clock) as one, serve(address, clock=clock) as two:
        browser, other = Browser(one.url), Browser(two.url)
        await browser.login()
        other.cookie = f"holdfast_{two.url.rpartition(':')[2]}={browser.value}"
        assert (await other.get()).json()["token"] == "operator"
        await browser.logout()
        clock.advance(BELIEVED_MS)
        response = await other.get()
        assert said(response) == (401, "login_ended")
        assert response.headers["set-cookie"].startswith(f"{other.name}=; Max-Age=0")
