"""A browser that an attacker steers gets nothing: foreign hosts, foreign origins, forged forms, forged forwarding
headers.

Rules: control 15.
"""

import re

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, revoke_token
from holdfast.api.auth.guard import ATTEMPTS_MAX, Names
from holdfast.api.auth.logins import CODE_LASTS_MS, Logins
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import TokenId
from holdfast.testing.clock import ManualClock
from holdfast.testing.entropy import SeededEntropy
from tests.support.live import TOKEN, code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(tmp_path_factory):
    names = Names(("chat.example.org",), ("127.0.0.1",))
    async with serve(tmp_path_factory.mktemp("browser") / "data", names=names) as running:
        running.client.headers.pop("Authorization")
        yield running


@pytest.fixture
def live(server):
    """The one server, to a browser that has not been there yet."""
    server.app._guard._attempts._used.clear()
    server.client.cookies.clear()
    return server


async def login(live, **wish):
    response = await live.client.post("/v1/login", json=wish or {"code": live.app.logins.new_code()})
    assert response.status_code == 200, response.text
    return response


# --- logging in ------------------------------------------------------------------------------------


async def test_a_code_is_exchanged_once_for_a_cookie_that_scripts_and_other_sites_cannot_use(live):
    code = live.app.logins.new_code()
    response = await login(live, code=code)
    kept = response.headers["set-cookie"]
    assert re.search(r"; HttpOnly; SameSite=Strict\Z", kept)
    assert (await live.get("/v1/me")).json()["csrf"] == response.json()["csrf"]
    again = await live.client.post("/v1/login", json={"code": code})
    assert (again.status_code, code_of(again)) == (401, "auth_required")
    assert TOKEN not in response.text + kept


async def test_behind_tls_the_cookie_stays_there(live):
    body = {"code": live.app.logins.new_code()}
    response = await live.client.post("/v1/login", json=body, headers={"X-Forwarded-Proto": "https"})
    assert response.headers["set-cookie"].startswith("__Host-holdfast_")
    assert response.headers["set-cookie"].endswith("; Secure")


async def test_a_token_logs_in_with_its_own_rights_until_it_is_revoked(live):
    token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.READ}), agents=frozenset({"main"}))
    await live.runtime.db.write(add_token(token, hash_token(spell_token(1))))
    me = (await login(live, token=spell_token(1))).json()
    assert (me["token"], me["scopes"], me["agents"]) == ("tok_1", ["metrics", "read"], ["main"])
    await live.runtime.db.write(revoke_token(token.id))
    live.app._guard._keyring._known.clear()  # as if the second were over
    live.app.logins._known.clear()
    response = await live.get("/v1/me")
    assert (response.status_code, code_of(response)) == (401, "login_ended")


async def test_wrong_codes_are_counted_like_wrong_tokens(live):
    answers = [await live.client.post("/v1/login", json={"code": "x"}) for _ in range(ATTEMPTS_MAX + 1)]
    assert [code_of(one) for one in answers] == ["auth_required"] * ATTEMPTS_MAX + ["too_many_attempts"]


async def test_a_login_is_asked_for_by_our_own_page_only(live):
    body = {"code": live.app.logins.new_code()}
    response = await live.client.post("/v1/login", json=body, headers={"Origin": "http://evil.example"})
    assert (response.status_code, code_of(response)) == (403, "origin_not_allowed")


@pytest.mark.parametrize("body", [{}, {"code": "a", "token": "b"}])
async def test_a_login_says_how(live, body):
    response = await live.client.post("/v1/login", json=body)
    assert (response.status_code, code_of(response)) == (400, "invalid_input")


async def test_a_code_lasts_ten_minutes(live):
    clock = ManualClock()
    logins = Logins(TOKEN, live.runtime.db, clock, SeededEntropy(1))
    code, late = logins.new_code(), logins.new_code()
    clock.advance(CODE_LASTS_MS - 1)
    assert logins.take_code(code)
    clock.advance(1)
    assert not logins.take_code(late)


@pytest.mark.parametrize("change", [lambda v: v[:-1] + "0123"[v[-1] == "0"], lambda v: "x" + v, lambda v: "a.1.b.c"])
async def test_a_cookie_that_is_not_ours_is_refused_and_cleared(live, change):
    kept = (await login(live)).headers["set-cookie"].partition(";")[0]
    live.client.cookies.clear()
    name, _, value = kept.partition("=")
    response = await live.client.get("/v1/me", headers={"Cookie": f"{name}={change(value)}"})
    assert (response.status_code, code_of(response)) == (401, "login_ended")
    assert response.headers["set-cookie"].startswith(f"{name}=; Max-Age=0; Path=/;")


# --- forged requests ---------------------------------------------------------------------------------


async def test_a_cross_site_form_changes_nothing(live):
    await login(live)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.example"}
    body = b'{"chat": "forged", "id": "1", "text": "forged"}'
    response = await live.client.post("/v1/messages", content=body, headers=form)
    assert (response.status_code, code_of(response)) == (403, "csrf_token_missing")
    assert (await live.get("/v1/sessions", chat="forged")).json() == {"sessions": []}


async def test_with_the_header_that_only_our_page_knows_the_cookie_works(live):
    csrf = (await login(live)).json()["csrf"]
    body = {"chat": "c", "id": "1", "text": "hello"}
    for wrong in ("", "x", csrf[:-1]):
        response = await live.client.post(
            "/v1/messages", json=body, headers={"X-Holdfast-CSRF": wrong, "Origin": live.url}
        )
        assert (response.status_code, code_of(response)) == (403, "csrf_token_missing")
    ours = {"X-Holdfast-CSRF": csrf, "Origin": live.url}
    assert (await live.client.post("/v1/messages", json=body, headers=ours)).status_code == 202


@pytest.mark.parametrize("origin", ["http://localhost:3000", "null", "https://evil.example"])
async def test_a_cookie_counts_for_no_page_of_another_origin_even_to_look(live, origin):
    """A page on another port of this machine is of the same site, so its browser sends the cookie along."""
    csrf = (await login(live)).json()["csrf"]
    for response in (
        await live.client.get("/v1/sessions", headers={"Origin": origin}),
        await live.client.post("/v1/logout", headers={"Origin": origin, "X-Holdfast-CSRF": csrf}),
    ):
        assert (response.status_code, code_of(response)) == (403, "origin_not_allowed")
    assert (await live.client.get("/v1/sessions", headers={"Origin": live.url})).status_code == 200


async def test_one_logins_header_is_no_good_for_another(live):
    first = (await login(live)).json()["csrf"]
    await login(live)
    response = await live.client.post("/v1/logout", headers={"X-Holdfast-CSRF": first, "Origin": live.url})
    assert (response.status_code, code_of(response)) == (403, "csrf_token_missing")


async def test_logging_out_ends_it(live):
    csrf = (await login(live)).json()["csrf"]
    ours = {"X-Holdfast-CSRF": csrf, "Origin": live.url}
    assert (await live.client.post("/v1/logout", headers=ours)).status_code == 200
    assert (await live.get("/v1/me")).status_code == 401


# --- the page ------------------------------------------------------------------------------------------


async def test_the_page_runs_its_own_script_and_nothing_else(live):
    response = await live.get("/")
    policy = response.headers["content-security-policy"]
    assert response.status_code == 200
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    foreign = r"""(src|href)=["'](?!#|/console")|@import|url\(|innerHTML|\beval\b|\son\w+=|style="""
    assert not re.search(foreign, response.text)
    assert "http://" not in response.text
    assert "https://" not in response.text
    assert TOKEN not in response.text


# --- names and proxies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("chat.example.org", 200),
        ("CHAT.example.org:443", 200),
        ("chat.example.org.evil.example", 400),
        ("chatxexample.org", 400),
        ("evil.example", 400),
    ],
)
async def test_only_the_hosts_that_were_named_are_this_server(live, host, status):
    response = await live.client.get("/healthz", headers={"Host": host})
    assert response.status_code == status
    if status == 400:
        assert code_of(response) == "host_not_allowed"


async def test_a_trusted_proxy_says_who_the_client_is_and_the_client_cannot(live):
    """The nearest address that no trusted proxy speaks for counts; earlier ones are a client's claims."""
    for n in range(ATTEMPTS_MAX + 1):
        headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"10.0.0.{n}, 192.0.2.7, 127.0.0.1"}
        response = await live.client.get("/v1/sessions", headers=headers)
    assert code_of(response) == "too_many_attempts"
    other = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.8"}
    assert code_of(await live.client.get("/v1/sessions", headers=other)) == "auth_required"


@pytest.mark.parametrize(
    "names", [{"public_hosts": ("http://x",)}, {"public_hosts": ("",)}, {"trusted_proxies": ("x",)}]
)
async def test_names_that_cannot_be_right_are_refused(names):
    with pytest.raises(ConfigInvalid):
        Names(**names)
