"""Situations in which somebody repairs, or pauses an agent, while the work goes on."""

from holdfast.inbox import accept_sql, mailbox_sql
from holdfast.kernel.ids import DeliveryId, ReplyId
from holdfast.memory import lane_sql
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.replay_sql import replay_delivery
from holdfast.repair.plan import RepairSubject, RepairVerb
from holdfast.repair.repair_sql import repair_batch
from holdfast.store.script import Call
from holdfast.turns import agent_pause_sql, turn_sql
from tests.postgres import pairs, repeats
from tests.postgres.interleaving import Party
from tests.postgres.pairs import FERN, KEY, SECRET, Situation, Verbs, party, settled
from tests.support.driver import LIMITS, Driver, retain


def repair(verb: RepairVerb, subject: RepairSubject, ident: str, *, reply: str = "rep_given_up") -> Party:
    return party(repair_batch, verb, subject, [ident], [ReplyId(reply)])


async def _only(driver: Driver, query: str) -> str:
    ((found,),) = await driver.rows(query)
    return str(found)


async def undecided(driver: Driver) -> Verbs:
    """Nobody knows whether a delivery arrived, and its session goes on."""
    driver.policies = (retain(),)
    await driver.chat("one")
    [lane] = await driver.db.write(lane_sql.claim_lanes(driver.node, KEY, name="l", lanes=1, units=1, renderer="r1"))
    await driver.db.write(Call("doubt", settled(lane, DeliveryState.UNCERTAIN).script))
    delivery = await _only(driver, "select id from delivery where state = 'uncertain'")
    await driver.say("two")
    claim = await driver.claim()
    turn = await driver.open(claim)
    driver.clock.advance(5)
    return {
        "give up": repair(RepairVerb.DROP, RepairSubject.DELIVERY, delivery),
        "settle as arrived": repair(RepairVerb.SETTLE, RepairSubject.DELIVERY, delivery),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "claim": pairs.claim_lanes(driver.node, ""),
    }


async def doubtfully_undone(driver: Driver) -> Verbs:
    """A delivery was parked and undone, and nobody knows whether its retraction arrived."""
    await repeats.parked_and_undone(driver)
    parked = await _only(driver, "select id from delivery where state = 'parked'")
    back = await _only(driver, "select id from delivery where op like 'retract:%'")
    await driver.write("update delivery set state = 'uncertain', uncertain_at = 1 where op like 'retract:%'")
    await driver.write("update lane set owner = null, claim = null")
    return {
        "settle as arrived": repair(RepairVerb.SETTLE, RepairSubject.DELIVERY, back),
        "replay": party(replay_delivery, DeliveryId(parked)),
        "replay by repair": repair(RepairVerb.REPLAY, RepairSubject.DELIVERY, parked),
    }


async def failed(driver: Driver) -> Verbs:
    """A reply failed, and two people decide about it."""
    verbs = await pairs.sent(driver)
    reply = await _only(driver, "select id from reply where state = 'failed'")
    return {
        "send again": repair(RepairVerb.RESEND, RepairSubject.REPLY, reply),
        "give up": repair(RepairVerb.DROP, RepairSubject.REPLY, reply),
        **{name: verbs[name] for name in ("resend", "forget the person", "claim elsewhere", "move")},
    }


async def waiting(driver: Driver) -> Verbs:
    """A message waits in a claimed mailbox: its turn is about to begin, its agent to be paused."""
    verbs = await repeats.overheard(driver)
    message = await _only(driver, "select message from inbound where state = 'waiting'")
    return {
        "give up": repair(RepairVerb.DROP, RepairSubject.MESSAGE, message),
        "give up too": repair(RepairVerb.DROP, RepairSubject.MESSAGE, message, reply="rep_given_up_too"),
        "pause": party(agent_pause_sql.pause_agent, FERN),
        "pause too": party(agent_pause_sql.pause_agent, FERN),
        "resume": party(agent_pause_sql.resume_agent, FERN),
        "forget the person": pairs.person("forget_1"),
        **verbs,
    }


async def paused(driver: Driver) -> Verbs:
    """An agent was paused during a turn, and mail has come to another chat of it."""
    await driver.say("hello")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.db.write(agent_pause_sql.pause_agent(FERN))
    await driver.say("hello", chat="there")
    driver.clock.advance(5)
    return {
        "resume": party(agent_pause_sql.resume_agent, FERN),
        "resume too": party(agent_pause_sql.resume_agent, FERN),
        "pause": party(agent_pause_sql.pause_agent, FERN),
        "commit": party(turn_sql.commit_turn, claim, turn, driver.commit("ok")),
        "claim": party(mailbox_sql.claim_mailbox, driver.node),
        "accept": party(accept_sql.accept_message, driver.arrival("new", chat="new"), LIMITS, SECRET),
        "forget the person": pairs.person("forget_1"),
    }


async def unpaused(driver: Driver) -> Verbs:
    """An agent is paused while its mail is claimed, and while mail comes to a new chat of it."""
    await driver.say("hello")
    return {
        "pause": party(agent_pause_sql.pause_agent, FERN),
        "claim": party(mailbox_sql.claim_mailbox, driver.node),
        "accept": party(accept_sql.accept_message, driver.arrival("new", chat="new"), LIMITS, SECRET),
    }


SITUATIONS: dict[str, Situation] = {
    situation.__name__: situation for situation in (undecided, doubtfully_undone, failed, waiting, paused, unpaused)
}
