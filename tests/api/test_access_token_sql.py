"""The promise: a token is found by its hash until it is revoked, and the store never holds the token itself."""

from dataclasses import replace

import pytest

from holdfast.api.auth.access_token import UNSAID, AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, find_token, get_token, list_tokens, revoke_token
from holdfast.kernel.errors import TokenNotFound
from holdfast.kernel.ids import TokenId
from holdfast.sessions.history_sql import trace_message
from tests.support.ports import verb_on

SECRET = spell_token(7)


def token(id="tok_1", **more):
    return AccessToken(id=TokenId(id), scopes=frozenset({Scope.SEND, Scope.READ}), **more)


async def test_a_token_is_found_by_its_hash_with_everything_it_was_made_with(driver):
    wanted = {"label": "web", "agents": frozenset({"ada", "fern"}), "robot": True}
    made = await driver.db.write(add_token(token(**wanted), hash_token(SECRET)))
    assert made == token(**wanted, made_at=driver.clock.now())
    assert await driver.db.read(find_token(hash_token(SECRET))) == made
    assert await driver.db.read(get_token(TokenId("tok_1"))) == made
    assert await driver.db.read(find_token(hash_token("another"))) is None


@pytest.mark.parametrize(
    "binding",
    [
        UNSAID,
        Binding(relay=True),
        Binding(sender="ada"),
        Binding(chats=frozenset({"a b", "ü:x", "ada/y"})),
        Binding(sender="ada", chats=frozenset({"family"})),
    ],
    ids=lambda one: one.told,
)
async def test_a_token_keeps_for_whom_it_speaks(driver, binding):
    made = await driver.db.write(add_token(token(binding=binding), hash_token(SECRET)))
    assert made.binding == binding
    assert (await driver.db.read(find_token(hash_token(SECRET)))) == made
    assert [one.binding for one in await driver.db.read(list_tokens())] == [binding]


async def test_a_message_keeps_the_token_that_it_came_with(driver):
    with_token = replace(driver.arrival("one"), token="tok_1")
    await driver.accept(with_token)
    without = await driver.say("two")
    traces = [await driver.db.read(trace_message(message)) for message in (with_token.message, without)]
    assert [one.token for one in traces] == ["tok_1", ""]


async def test_making_it_again_after_an_answer_that_was_lost_changes_nothing(driver):
    first = await driver.db.write(add_token(token(label="one"), hash_token(SECRET)))
    driver.clock.advance(5)
    assert await driver.db.write(add_token(token(label="two"), hash_token(SECRET))) == first


async def test_a_revoked_token_stays_revoked_since_the_first_time(driver):
    await driver.db.write(add_token(token(), hash_token(SECRET)))
    driver.clock.advance(5)
    revoked = await driver.db.write(revoke_token(TokenId("tok_1")))
    assert revoked.revoked_at == driver.clock.now()
    driver.clock.advance(5)
    assert await driver.db.write(revoke_token(TokenId("tok_1"))) == revoked
    assert await driver.db.read(find_token(hash_token(SECRET))) == revoked


async def test_tokens_are_listed_oldest_first_in_pages(driver):
    for n in range(3):
        await driver.db.write(add_token(token(f"tok_{n}"), hash_token(str(n))))
    page = await driver.db.read(list_tokens(limit=2))
    rest = await driver.db.read(list_tokens(after=page[-1].id))
    assert [one.id for one in [*page, *rest]] == ["tok_0", "tok_1", "tok_2"]


async def test_a_token_that_is_not_there_is_said(driver):
    for question in (verb_on(driver.db, revoke_token), verb_on(driver.db, get_token, reads=True)):
        with pytest.raises(TokenNotFound):
            await question(TokenId("tok_never"))
