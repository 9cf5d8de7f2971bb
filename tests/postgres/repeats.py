"""Situations in which a verb finds that it, or another, was there before: what was done then stays as it is."""

from holdfast.api.auth import access_token_sql
from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.login import LASTS_MS, Login, LoginEnd
from holdfast.inbox import accept_sql
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel.ids import DeliveryId, Instant, LoginId, NodeId, TokenId
from holdfast.memory import replay_sql
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane_sql import claim_lanes
from holdfast.memory.replay_sql import replay_delivery
from holdfast.outbox.post import OnDoubt
from holdfast.store.node_sql import register_node, retire_node
from holdfast.store.script import Call
from holdfast.turns import open_turn_sql, turn_sql
from tests.postgres.pairs import (
    KEY,
    OTHER,
    SECRET,
    Situation,
    Verbs,
    claim_replies,
    party,
    settled,
)
from tests.support.driver import LIMITS, Driver, retain


async def stopped(driver: Driver) -> Verbs:
    """A turn was told to stop a while ago and is told again."""
    await driver.say("hello")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.accept(driver.arrival("/stop"))
    driver.clock.advance(5)
    return {
        "stop": party(accept_sql.accept_message, driver.arrival("/stop"), LIMITS, SECRET),
        "stop too": party(accept_sql.accept_message, driver.arrival("/stop"), LIMITS, SECRET),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
    }


async def revoked(driver: Driver) -> Verbs:
    """A token was revoked a while ago and is revoked again."""
    token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.READ}))
    await driver.db.write(access_token_sql.add_token(token, b"hash"))
    await driver.db.write(access_token_sql.revoke_token(token.id))
    driver.clock.advance(5)
    return {
        "revoke": party(access_token_sql.revoke_token, token.id),
        "revoke too": party(access_token_sql.revoke_token, token.id),
    }


async def logged_out(driver: Driver) -> Verbs:
    """A login was ended a while ago and is ended again, by its browser and by the operator."""
    now = driver.clock.now()
    ends_at, id_ = Instant(now + LASTS_MS), LoginId("log_1")
    login = Login(id=id_, token=TokenId("tok_1"), proof=b"", made_at=now, seen_at=now, ends_at=ends_at)
    await driver.db.write(access_token_sql.add_login(login, b"hash"))
    await driver.db.write(access_token_sql.end_login(b"hash", LoginEnd.LOGOUT))
    driver.clock.advance(5)
    return {
        "end": party(access_token_sql.end_login, b"hash", LoginEnd.REPLACED),
        "end some": party(access_token_sql.end_logins, LoginEnd.OPERATOR),
    }


async def overheard(driver: Driver) -> Verbs:
    """A worker that did not hear of the end of its first call judges a message anew, and otherwise."""
    message = await driver.say("hello")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(None, mail.waiting)
    return {
        "open": party(open_turn_sql.open_turn, claim, opening),
        "observe": party(open_turn_sql.observe_messages, claim, opening.session, [message]),
    }


async def replayed(driver: Driver) -> Verbs:
    """A delivery that was parked is on its way again."""
    driver.policies = (retain(),)
    await driver.chat("one")
    [lane] = await driver.db.write(claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(Call("park", settled(lane, DeliveryState.PARKED).script))
    delivery = DeliveryId((await driver.rows("select id from delivery where state = 'parked'"))[0][0])
    await driver.db.write(replay_delivery(delivery))
    [again] = await driver.db.write(claim_lanes(driver.node, KEY, name="m", lanes=1, units=1, renderer="r1"))
    driver.clock.advance(5)
    return {"replay": party(replay_sql.replay_delivery, delivery), "settle": settled(again)}


async def parked_and_undone(driver: Driver) -> Verbs:
    """What may have arrived of a delivery that was parked and undone is being retracted."""
    driver.policies = (retain(),)
    await driver.chat("one")
    [lane] = await driver.db.write(claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(Call("park", settled(lane, DeliveryState.PARKED).script))
    delivery = DeliveryId((await driver.rows("select id from delivery where state = 'parked'"))[0][0])
    await driver.command("/undo")
    [back] = await driver.db.write(claim_lanes(driver.node, KEY, name="m", lanes=1, units=1, renderer="r1"))
    assert [package.parcel.op.value for package in back.packages] == ["retract"]
    return {"settle": settled(back), "replay": party(replay_sql.replay_delivery, delivery)}


async def doubtful(driver: Driver) -> Verbs:
    """An uncertain reply is being resent; another node is configured to hold such replies."""
    await driver.db.write(register_node(OTHER, "b", sole=False))
    gone = NodeId("node_c")
    await driver.db.write(register_node(gone, "c", sole=False))
    await driver.say("hello", channel="telegram")
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(Call("claim", claim_replies(gone, "r").script))
    await driver.db.write(retire_node(gone))
    await driver.db.write(Call("claim", claim_replies(driver.node, "r").script))
    return {
        "claim elsewhere": claim_replies(OTHER, "r2", on_doubt=OnDoubt.HOLD),
        "claim again": claim_replies(driver.node, "r"),
    }


SITUATIONS: dict[str, Situation] = {
    situation.__name__: situation
    for situation in (stopped, revoked, logged_out, overheard, replayed, parked_and_undone, doubtful)
}
