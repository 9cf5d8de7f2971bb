"""The promise: a login is found by the hash of its cookie, says why it is over, and stays over since the first time."""

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token
from holdfast.api.auth.access_token_sql import (
    add_login,
    add_token,
    end_login,
    end_logins,
    find_login,
    list_logins,
    revoke_token,
    see_login,
)
from holdfast.api.auth.login import IDLE_MS, KEPT_MS, LASTS_MS, LOGINS_MAX, Login, LoginEnd, hash_cookie, spell_cookie
from holdfast.kernel.ids import Instant, LoginId, TokenId
from tests.support.ports import verb_on


def hashed(n):
    return hash_cookie(spell_cookie(n))


async def begin(driver, n, *, token="tok_1"):
    now = driver.clock.now()
    times = {"made_at": now, "seen_at": now, "ends_at": Instant(now + LASTS_MS)}
    made = Login(id=LoginId(f"log_{n:04d}"), token=TokenId(token), proof=bytes([n % 256]), **times)
    await driver.db.write(add_login(made, hashed(n)))
    return made


async def test_a_login_is_found_by_the_hash_of_its_cookie_and_the_store_never_holds_the_cookie(driver):
    made = await begin(driver, 7)
    assert await driver.db.read(find_login(hashed(7))) == made
    assert await driver.db.read(find_login(hashed(8))) is None
    kept = str(await driver.rows("select id, hash, token, proof, reason from login"))
    assert spell_cookie(7) not in kept


async def test_making_it_again_after_an_answer_that_was_lost_changes_nothing(driver):
    first = await begin(driver, 1)
    driver.clock.advance(5)
    await begin(driver, 1)
    assert await driver.db.read(list_logins()) == [first]


async def test_a_login_that_ended_stays_ended_since_the_first_time(driver):
    await begin(driver, 1)
    await driver.db.write(end_login(hashed(1), LoginEnd.LOGOUT))
    ended = await driver.db.read(find_login(hashed(1)))
    assert (ended.ended_at, ended.end(ended.ended_at)) == (driver.clock.now(), LoginEnd.LOGOUT)
    driver.clock.advance(5)
    await driver.db.write(end_login(hashed(1), LoginEnd.REPLACED))
    assert await driver.db.write(end_logins(LoginEnd.OPERATOR)) == []
    assert await driver.db.read(find_login(hashed(1))) == ended


async def test_one_login_those_of_a_token_or_all_are_ended(driver):
    for n, token in enumerate(("tok_1", "tok_1", "tok_2", "operator", "operator")):
        await begin(driver, n, token=token)
    end = verb_on(driver.db, end_logins)
    assert await end(LoginEnd.OPERATOR, id=LoginId("log_0000")) == ["log_0000"]
    assert await end(LoginEnd.OPERATOR, id=LoginId("log_none")) == []
    assert await end(LoginEnd.OPERATOR, token=TokenId("tok_1")) == ["log_0001"]
    assert (await driver.db.read(find_login(hashed(2)))).ended_at is None
    assert await end(LoginEnd.OPERATOR) == ["log_0002", "log_0003", "log_0004"]


async def test_revoking_a_token_ends_its_logins_in_the_same_transaction(driver):
    token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.READ}))
    await driver.db.write(add_token(token, hash_token("x")))
    await begin(driver, 1)
    await begin(driver, 2, token="tok_2")
    await driver.db.write(revoke_token(token.id))
    now = driver.clock.now()
    assert [one.end(now) for one in await driver.db.read(list_logins())] == [None, LoginEnd.REVOKED]


async def test_a_use_is_noted_and_time_does_not_run_backwards(driver):
    made = await begin(driver, 1)
    later = Instant(made.made_at + 1_000)
    await driver.db.write(see_login(hashed(1), later))
    await driver.db.write(see_login(hashed(1), made.made_at))
    seen = await driver.db.read(find_login(hashed(1)))
    assert seen.seen_at == later
    assert seen.end(Instant(later + IDLE_MS - 1)) is None
    assert seen.end(Instant(later + IDLE_MS)) is LoginEnd.IDLE
    assert seen.end(seen.ends_at) is LoginEnd.EXPIRED


async def test_logins_are_listed_newest_first_and_go_when_they_are_old(driver):
    await begin(driver, 1)
    await begin(driver, 2)
    assert [one.id for one in await driver.db.read(list_logins())] == ["log_0002", "log_0001"]
    assert [one.id for one in await driver.db.read(list_logins(limit=1))] == ["log_0002"]
    driver.clock.advance(LASTS_MS + KEPT_MS + 1)
    await begin(driver, 3)
    assert [one.id for one in await driver.db.read(list_logins())] == ["log_0003"]


async def test_one_token_fills_no_table(driver):
    await begin(driver, 0, token="tok_2")
    for n in range(1, LOGINS_MAX + 3):
        await begin(driver, n)
    kept = await driver.db.read(list_logins())
    assert len(kept) == LOGINS_MAX + 1
    assert {kept[-1].id, kept[-2].id} == {"log_0000", "log_0003"}, "the oldest of that token, and of no other"


async def test_a_token_keeps_its_expiry(driver):
    token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.READ}), expires_at=Instant(5))
    made = await driver.db.write(add_token(token, hash_token("x")))
    assert made.expires_at == 5
    assert (made.has_expired(Instant(4)), made.has_expired(Instant(5))) == (False, True)
