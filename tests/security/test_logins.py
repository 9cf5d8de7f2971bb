"""A browser's login ends by logout, revocation, expiry, or a change of the operator's token.

Everything here is asked over a real socket. The cookie is opaque: nothing that the operator chose can forge one.

Rules: D43.
"""

import asyncio
import hmac
import json
import re
from hashlib import sha256
from typing import Any, cast

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from holdfast.api.auth import guard
from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, end_logins, list_logins, revoke_token, see_login
from holdfast.api.auth.caller import BELIEVED_MS
from holdfast.api.auth.guard import Names
from holdfast.api.auth.login import HOUR_MS, IDLE_MS, LASTS_MS, SEEN_EVERY_MS, LoginEnd
from holdfast.api.auth.logins import Logins
from holdfast.kernel.errors import StoreFull
from holdfast.kernel.ids import Instant, TokenId
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.testing.clock import ManualClock
from holdfast.testing.entropy import SeededEntropy
from tests.security.browsers import MESSAGE, Browser, said
from tests.support.fakes import soon
from tests.support.live import TOKEN, GatedModel, serve
from tests.support.ports import replace_verb
from tests.support.processes import Up, spawn

OTHER_TOKEN = "another-token-that-only-these-tests-know-0123"
NEVER_MS = 3_600_000


async def logged_in(live, **wish):
    browser = Browser(live.url)
    await browser.login(**wish)
    return browser


async def make_token(live, n, *scopes, **more):
    token = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset(scopes or {Scope.READ, Scope.SEND}), **more)
    await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
    return spell_token(n)


def socket_of(browser, **changed):
    headers = browser.headers(X_Holdfast_CSRF=None, **{"Origin": None, **changed})
    origin = changed.get("Origin", browser.url)
    headers.pop("Origin", None)
    return connect(browser.url.replace("http", "ws") + "/v1/ws", proxy=None, origin=origin, additional_headers=headers)


async def closed(socket):
    try:
        while True:
            await soon(socket.recv())
    except ConnectionClosed:
        return socket.close_code, socket.close_reason


# --- the findings, with their inputs ----------------------------------------------------------------


async def test_finding_8_a_cookie_cannot_be_forged_with_the_operators_token(tmp_path):
    """The cookie's signing key was an HMAC of HOLDFAST_TOKEN, so a guessed token signed an operator's cookie."""
    async with serve(tmp_path) as live:
        browser = await logged_in(live)
        key = hmac.digest(TOKEN.encode(), b"holdfast cookie", sha256)
        signed = f"operator.{live.runtime.clock.now() + 3_600_000}.{'0' * 32}"
        forged = f"{signed}.{hmac.digest(key, f'cookie {signed}'.encode(), sha256).hex()}"
        for name in (browser.name, f"holdfast_{sha256(key).hexdigest()[:8]}"):
            assert (await browser.get(Cookie=f"{name}={forged}")).status_code == 401
        assert re.fullmatch("[0-9a-f]{64}", browser.value), "nothing can be read from it, and nothing tried offline"


@pytest.mark.parametrize(
    ("token", "code"), [("hunter2", "token_too_short"), ("a" * 64, "token_too_weak")], ids=["short", "repeated"]
)
async def test_finding_8_a_token_that_can_be_guessed_is_refused_on_loopback_too(tmp_path, token, code):
    process = await spawn(tmp_path, environment={"HOLDFAST_TOKEN": token})
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        assert json.loads(line)["error"]["code"] == code
        assert token.encode() not in line
        assert await process.wait() == 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_finding_9_logout_ends_the_login_and_not_only_the_cookie(tmp_path):
    async with serve(tmp_path) as live:
        browser = await logged_in(live)
        assert (await browser.get()).status_code == 200
        response = await browser.logout()
        assert response.headers["set-cookie"].startswith(f"{browser.name}=; Max-Age=0; Path=/; HttpOnly")
        for again in (await browser.get(), await browser.post("/v1/messages", MESSAGE)):
            assert said(again) == (401, "login_ended")
            assert again.headers["set-cookie"].startswith(f"{browser.name}=; Max-Age=0; Path=/; HttpOnly")
        assert await live.runtime.sessions(chat="c") == []


# --- what ends with a login -------------------------------------------------------------------------


async def test_logout_ends_open_sockets_and_streams_of_that_login_at_once_and_of_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "RECHECK_EVERY_MS", NEVER_MS)  # nothing is noticed by looking again
    model = GatedModel()
    async with serve(tmp_path, model=model) as live:
        browser, other = await logged_in(live), await logged_in(live)
        async with socket_of(browser) as mine, socket_of(other) as theirs:
            assert json.loads(await mine.recv())["type"] == json.loads(await theirs.recv())["type"] == "ready"
            message = (await browser.post("/v1/messages", MESSAGE)).json()["message"]
            await soon(model.asked.wait())
            headers = {"Cookie": browser.cookie}
            async with browser.stream(f"/v1/messages/{message}/stream", headers) as lines:
                assert "state" in await soon(anext(lines))
                await browser.logout()
                rest = [line async for line in lines]
            assert "event: error" in rest
            assert '"login_ended"' in rest[rest.index("event: error") + 1]
            assert await closed(mine) == (4401, "login_ended")
            await theirs.send(json.dumps({"type": "ping"}))
            assert json.loads(await soon(theirs.recv()))["type"] == "pong"
        model.gate.set()


@pytest.mark.parametrize(("by", "code"), [("token", "auth_required"), ("cookie", "login_ended")])
async def test_a_revoked_token_ends_its_streams_and_those_of_its_logins(tmp_path, monkeypatch, by, code):
    monkeypatch.setattr(guard, "RECHECK_EVERY_MS", 1)
    model, clock = GatedModel(), ManualClock()
    async with serve(tmp_path, model=model, clock=clock) as live:
        secret = await make_token(live, 1)
        browser = await logged_in(live, token=secret)
        message = (await browser.post("/v1/messages", MESSAGE)).json()["message"]
        headers = {"Authorization": f"Bearer {secret}"} if by == "token" else {"Cookie": browser.cookie}
        async with browser.stream(f"/v1/messages/{message}/stream", headers) as lines:
            assert "state" in await soon(anext(lines))
            await live.runtime.db.write(revoke_token(TokenId("tok_1")))
            clock.advance(BELIEVED_MS)
            assert f'"{code}"' in "".join([line async for line in lines])
        assert said(await browser.get()) == (401, "login_ended")
        model.gate.set()


async def test_the_operator_ends_logins_from_another_process_within_a_second(tmp_path):
    clock = ManualClock()
    async with (
        serve(tmp_path, clock=clock) as live,
        await open_runtime(tmp_path, agents=make_agents(), serve=False) as other,
    ):
        browser = await logged_in(live)
        assert (await browser.get()).status_code == 200
        [login] = await other.db.read(list_logins())
        assert await other.db.write(end_logins(LoginEnd.OPERATOR)) == [login.id]
        clock.advance(BELIEVED_MS)
        assert said(await browser.get()) == (401, "login_ended")


async def test_a_login_outlives_kill_9_and_not_a_change_of_the_operators_token(tmp_path):
    up = await Up.start(tmp_path)
    try:
        browser = Browser(up.url)
        await browser.login()
        again = ("--port", up.url.rpartition(":")[2])
        await up.kill()
        up = await Up.start(tmp_path, *again)
        assert (await browser.get()).json()["token"] == "operator"
        await up.kill()
        up = await Up.start(tmp_path, *again, environment={"HOLDFAST_TOKEN": OTHER_TOKEN})
        response = await browser.get()
        assert said(response) == (401, "login_ended")
        assert response.headers["set-cookie"].startswith(f"{browser.name}=; Max-Age=0")
    finally:
        await up.kill()


# --- time -------------------------------------------------------------------------------------------


async def test_a_login_ends_after_a_week_however_much_it_is_used(tmp_path):
    clock = ManualClock()
    async with serve(tmp_path, clock=clock) as live:
        browser = Browser(live.url)
        kept = (await browser.login()).headers["set-cookie"]
        assert f"Max-Age={LASTS_MS // 1000};" in kept
        for _ in range(7 * 2 - 1):
            clock.advance(12 * HOUR_MS)
            assert (await browser.get()).status_code == 200
        clock.advance(12 * HOUR_MS)
        response = await browser.get()
        assert said(response) == (401, "login_expired")
        assert "Max-Age=0" in response.headers["set-cookie"]


async def test_a_login_that_is_not_used_for_a_day_ends_and_an_open_socket_is_not_a_use(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "RECHECK_EVERY_MS", 1)
    clock = ManualClock()
    async with serve(tmp_path, clock=clock) as live:
        browser = await logged_in(live)
        async with socket_of(browser) as socket:
            assert json.loads(await socket.recv())["type"] == "ready"
            clock.advance(IDLE_MS - 1)
            await socket.send(json.dumps({"type": "ping"}))
            assert json.loads(await soon(socket.recv()))["type"] == "pong"
            clock.advance(IDLE_MS - 1)  # a frame is a use
            assert (await browser.get()).status_code == 200
            clock.advance(IDLE_MS)
            assert await closed(socket) == (4401, "login_expired")
        assert said(await browser.get()) == (401, "login_expired")


async def test_a_use_is_written_down_every_few_minutes_and_not_with_every_request(tmp_path):
    clock = ManualClock()
    async with serve(tmp_path, clock=clock) as live:
        browser = await logged_in(live)
        seen = []
        for step in (0, SEEN_EVERY_MS - 1, 1, 0, SEEN_EVERY_MS - 1):
            clock.advance(step)
            assert (await browser.get()).status_code == 200
            seen.append((await live.runtime.db.read(list_logins()))[0].seen_at - clock.now())
        assert seen == [0, -(SEEN_EVERY_MS - 1), 0, 0, -(SEEN_EVERY_MS - 1)]


async def test_a_full_disk_ends_no_login(tmp_path, monkeypatch):
    async def refuse(*_args):
        raise StoreFull("no room")

    clock = ManualClock()
    async with serve(tmp_path, clock=clock) as live:
        browser = await logged_in(live)
        replace_verb(monkeypatch, live.runtime.db, see_login, refuse)
        clock.advance(SEEN_EVERY_MS)
        assert (await browser.get()).status_code == 200


async def test_a_token_is_refused_from_its_expiry_on_and_its_login_ends_with_it(tmp_path):
    clock = ManualClock()
    async with serve(tmp_path, clock=clock) as live:
        secret = await make_token(live, 1, expires_at=Instant(clock.now() + HOUR_MS))
        browser, bearer = Browser(live.url), {"Authorization": f"Bearer {secret}"}
        assert "Max-Age=3600;" in (await browser.login(token=secret)).headers["set-cookie"]
        clock.advance(HOUR_MS - 1)
        assert (await browser.get()).status_code == 200
        assert (await browser.get(Cookie=None, **bearer)).status_code == 200
        clock.advance(1)
        assert said(await browser.get(Cookie=None, **bearer)) == (401, "token_expired")
        assert said(await browser.get()) == (401, "login_expired")
        assert said(await browser.post("/v1/login", {"token": secret}, Cookie=None)) == (401, "token_expired")
        async with connect(live.url.replace("http", "ws") + "/v1/ws", proxy=None, additional_headers=bearer) as socket:
            assert await closed(socket) == (4401, "token_expired")


# --- whose request it is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"Origin": None}, "origin_not_allowed"),
        ({"Origin": None, "Sec_Fetch_Site": "same-origin"}, "origin_not_allowed"),
        ({"Sec_Fetch_Site": "same-site"}, "origin_not_allowed"),
        ({"Sec_Fetch_Site": "cross-site"}, "origin_not_allowed"),
        ({"Origin": "null"}, "origin_not_allowed"),
        ({"X_Holdfast_CSRF": None}, "csrf_token_missing"),
        ({"Origin": None, "X_Holdfast_CSRF": None}, "csrf_token_missing"),
    ],
)
async def test_a_cookie_without_our_origin_and_header_changes_nothing(tmp_path, changed, code):
    async with serve(tmp_path) as live:
        browser = await logged_in(live)
        for path, body in (("/v1/messages", MESSAGE), ("/v1/logout", None), ("/v1/forget", {"person": "ada"})):
            assert said(await browser.post(path, body, **changed)) == (403, code)
        assert await live.runtime.sessions() == []
        assert (await browser.get()).status_code == 200, "and the login holds"
        assert (await browser.post("/v1/messages", MESSAGE)).status_code == 202


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
async def test_a_page_of_another_origin_cannot_even_look_or_log_in(tmp_path, site):
    async with serve(tmp_path) as live:
        browser = await logged_in(live)
        assert said(await browser.get(Sec_Fetch_Site=site)) == (403, "origin_not_allowed")
        response = await browser.post("/v1/login", {"token": TOKEN}, Origin=None, Sec_Fetch_Site=site)
        assert said(response) == (403, "origin_not_allowed")
        for own in ("same-origin", "none"):
            assert (await browser.get(Sec_Fetch_Site=own)).status_code == 200


async def test_behind_tls_only_the_cookie_and_the_origin_of_tls_count(tmp_path):
    async with serve(tmp_path, names=Names(("chat.example.org",), ("127.0.0.1",))) as live:
        browser, tls = Browser(live.url), {"Host": "chat.example.org", "X_Forwarded_Proto": "https"}
        ours = {**tls, "Origin": "https://chat.example.org"}
        response = await browser.post("/v1/login", {"token": TOKEN}, **ours)
        browser.cookie, _, rest = response.headers["set-cookie"].partition("; ")
        browser.csrf = response.json()["csrf"]
        assert browser.name == "__Host-holdfast_443"
        assert rest == f"Max-Age={LASTS_MS // 1000}; Path=/; HttpOnly; SameSite=Strict; Secure"
        assert (await browser.get(**tls)).status_code == 200
        plain = f"holdfast_443={browser.value}"
        assert said(await browser.get(Cookie=plain, **tls)) == (401, "auth_required")
        downgraded = {**tls, "Origin": "http://chat.example.org"}
        assert said(await browser.post("/v1/messages", MESSAGE, **downgraded)) == (403, "origin_not_allowed")
        assert (await browser.post("/v1/messages", MESSAGE, **ours)).status_code == 202


async def test_two_servers_of_one_machine_keep_their_logins_apart(tmp_path):
    """A browser sends the cookies of a host to each of its ports."""
    async with serve(tmp_path / "one") as one, serve(tmp_path / "two") as two:
        first, second = await logged_in(one), await logged_in(two)
        assert first.name == f"holdfast_{one.url.rpartition(':')[2]}"
        assert first.name != second.name
        both = f"{first.cookie}; {second.cookie}"
        assert (await first.get(Cookie=both)).status_code == (await second.get(Cookie=both)).status_code == 200
        await first.post("/v1/logout", Cookie=both)
        assert said(await first.get(Cookie=both)) == (401, "login_ended")
        assert (await second.get(Cookie=both)).status_code == 200
        foreign = await second.get(Cookie=f"{second.name}={first.value}")
        assert said(foreign) == (401, "login_ended")
        assert foreign.headers["set-cookie"].startswith(f"{second.name}=; Max-Age=0")


async def test_every_login_is_a_new_one_and_ends_the_one_before_in_that_browser(tmp_path):
    async with serve(tmp_path) as live:
        browser = Browser(live.url)
        planted = "ab" * 32
        browser.cookie = f"holdfast_{live.url.rpartition(':')[2]}={planted}"  # by somebody who waits for a login
        await browser.login()
        assert browser.value != planted
        assert said(await browser.get(Cookie=f"{browser.name}={planted}")) == (401, "login_ended")
        before = browser.cookie
        await browser.login()
        assert said(await browser.get(Cookie=before)) == (401, "login_ended")
        assert (await browser.get()).status_code == 200
        twice = await browser.get(Cookie=f"{browser.cookie}; {before}")
        assert said(twice) == (401, "login_ended"), "it is unknown which of them is the owner's"


async def test_the_store_cannot_log_anybody_in(tmp_path):
    async with serve(tmp_path) as live:
        browser = await logged_in(live)
    for file in tmp_path.iterdir():
        if file.is_file():
            assert browser.value.encode() not in file.read_bytes()
            assert bytes.fromhex(browser.value) not in file.read_bytes()


class SlowReader:
    """The store's answer about a login, which is on its way for as long as the gate is shut."""

    def __init__(self, db):
        self._db = db
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def write(self, call):
        return await self._db.write(call)

    async def read(self, call):
        found = await self._db.read(call)
        self.asked.set()
        await self.gate.wait()
        return found


async def test_an_answer_from_before_a_logout_is_not_believed_after_it(tmp_path):
    async with await open_runtime(tmp_path, agents=make_agents(), serve=False) as runtime:
        reader = SlowReader(runtime.db)
        logins = Logins(TOKEN, cast("Any", reader), ManualClock(), SeededEntropy(1))
        cookie, _ = await logins.begin(AccessToken(id=TokenId("operator"), scopes=frozenset({Scope.ADMIN})))
        asking = asyncio.create_task(logins.read(cookie))
        await soon(reader.asked.wait())
        await logins.end(cookie, LoginEnd.LOGOUT)
        reader.gate.set()
        for question in (asking, logins.read(cookie)):
            with pytest.raises(Exception, match="logged out"):
                await soon(question)
