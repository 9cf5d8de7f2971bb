"""A stranger's request is recorded once and answered through the reply ledger in the same transaction. It grants
nothing by itself, expires, is bounded in number, and is decided once, on record.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.access import HOUR_MS, PAIRING, Pairing, PairingAsk, PairingDecision, PairingPolicy, spelt
from holdfast.inbox.access_sql import ask_pairing, decide_pairing, is_admitted, list_pairings, unpair
from holdfast.inbox.address import Address
from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals, unlink_principal
from holdfast.inbox.mailbox_sql import claim_mailbox
from holdfast.kernel.errors import PairingNotFound
from holdfast.kernel.ids import AgentName, ForgetId, MailboxId, OperationId, Principal, ReplyId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.sessions.history_sql import find_mailbox, list_operations
from holdfast.turns.policy import DAY_MS

FERN = AgentName("fern")
BOB = Principal("telegram:7")
CODE = "7K2MPQ9X"


def where(chat="7", agent="fern"):
    return str(Address(agent=AgentName(agent), channel="telegram", type="dm", chat=chat))


def ask(driver, code=CODE, *, who=BOB, agent="fern", name="Bob"):
    return PairingAsk(
        agent=AgentName(agent),
        channel="telegram",
        principal=Principal(who),
        address=where(who.partition(":")[2], agent),
        code=code,
        reply=ReplyId(driver.id("rep")),
        new_mailbox=MailboxId(driver.id("box")),
        name=name,
    )


def verdict(driver, code=CODE, *, admit=True):
    operation, reply = OperationId(driver.id("op")), ReplyId(driver.id("rep"))
    return PairingDecision(code=code, admit=admit, by="the command line", operation=operation, reply=reply)


async def notices(driver):
    found = await driver.rows("select body, address, state, agent, channel from reply order by n")
    return [(bytes(body).decode(), *rest) for body, *rest in found]


async def audit(driver):
    return [(one.kind, one.detail) for one in await driver.db.read(list_operations())]


async def test_a_stranger_is_put_on_record_and_told_at_once(driver):
    asked = await driver.db.write(ask_pairing(ask(driver)))
    assert (asked.code, asked.told) == (CODE, True)
    ((text, address, state, agent, channel),) = await notices(driver)
    assert spelt(CODE) in text
    assert (address, state, agent, channel) == (where(), "pending", "fern", "telegram")
    (seen,) = await driver.db.read(list_pairings())
    assert (seen.code, seen.principal, seen.name, seen.state) == (CODE, BOB, "Bob", Pairing.ASKING)
    assert not await driver.db.read(is_admitted(FERN, BOB))
    assert await driver.rows("select message from inbound") == []


async def test_a_request_that_is_repeated_keeps_its_code_and_tells_nothing_twice(driver):
    first = ask(driver)
    await driver.db.write(ask_pairing(first))
    for again in (first, ask(driver, "22222222")):
        asked = await driver.db.write(ask_pairing(again))
        assert (asked.code, asked.told) == (CODE, False)
    assert len(await notices(driver)) == 1


async def test_a_stranger_who_keeps_writing_is_told_once_an_hour(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    driver.clock.advance(HOUR_MS - 1)
    assert not (await driver.db.write(ask_pairing(ask(driver, "22222222")))).told
    driver.clock.advance(1)
    asked = await driver.db.write(ask_pairing(ask(driver, "22222222")))
    assert (asked.code, asked.told) == (CODE, True)
    assert len(await notices(driver)) == 2
    driver.clock.advance(HOUR_MS - 1)
    assert not (await driver.db.write(ask_pairing(ask(driver, "22222222")))).told, "an hour after they were told last"


async def test_a_code_expires_after_a_day_and_the_next_message_gets_another(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    driver.clock.advance(DAY_MS)
    assert [one.state for one in await driver.db.read(list_pairings())] == [Pairing.EXPIRED]
    with pytest.raises(PairingNotFound):
        await driver.db.write(decide_pairing(verdict(driver)))
    asked = await driver.db.write(ask_pairing(ask(driver, "22222222")))
    assert (asked.code, asked.told) == ("22222222", True)
    assert [one.code for one in await driver.db.read(list_pairings())] == ["22222222"]


async def test_strangers_beyond_the_limit_are_refused_in_silence(driver):
    few = PairingPolicy(open_max=2)
    codes = ["22222222", "33333333", "44444444"]
    asked = [
        await driver.db.write(ask_pairing(ask(driver, code, who=f"telegram:{n}"), policy=few))
        for n, code in enumerate(codes, 1)
    ]
    assert [one.told for one in asked] == [True, True, False]
    assert asked[-1].code == ""
    assert len(await notices(driver)) == 2
    other = await driver.db.write(ask_pairing(ask(driver, "55555555", agent="moss"), policy=few))
    assert other.told, "the limit is each agent's own"


async def test_only_requests_that_wait_count_for_the_limit(driver):
    few = PairingPolicy(open_max=1)
    await driver.db.write(ask_pairing(ask(driver), policy=few))
    await driver.db.write(decide_pairing(verdict(driver)))
    assert (await driver.db.write(ask_pairing(ask(driver, "22222222", who="telegram:8"), policy=few))).told


async def test_a_request_of_one_agent_clears_none_of_anothers(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    driver.clock.advance(DAY_MS)
    await driver.db.write(ask_pairing(ask(driver, "22222222", agent="moss")))
    assert [(one.agent, one.state) for one in await driver.db.read(list_pairings())] == [
        ("moss", Pairing.ASKING),
        ("fern", Pairing.EXPIRED),
    ]


async def test_a_code_that_is_somebody_elses_already_is_not_given_twice(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    asked = await driver.db.write(ask_pairing(ask(driver, CODE, who="telegram:8")))
    assert (asked.code, asked.told) == ("", False)
    assert [one.principal for one in await driver.db.read(list_pairings())] == [BOB]


async def test_an_admission_is_told_and_on_record_and_holds_for_its_agent_only(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    decision = verdict(driver)
    seen = await driver.db.write(decide_pairing(decision))
    assert (seen.state, seen.principal) == (Pairing.ADMITTED, BOB)
    assert await driver.db.read(is_admitted(FERN, BOB))
    assert not await driver.db.read(is_admitted(AgentName("moss"), BOB))
    assert not await driver.db.read(is_admitted(FERN, Principal("telegram:70")))
    assert await driver.db.write(decide_pairing(decision)) == seen
    assert [state for _, _, state, _, _ in await notices(driver)] == ["pending", "pending"]
    assert await audit(driver) == [("pair", {"agent": "fern", "principal": BOB})]


async def test_a_request_shows_when_it_was_made_and_when_it_was_decided(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    made = driver.clock.now()
    (seen,) = await driver.db.read(list_pairings())
    assert (seen.asked_at, seen.decided_at) == (made, None)
    driver.clock.advance(5)
    seen = await driver.db.write(decide_pairing(verdict(driver)))
    assert (seen.asked_at, seen.decided_at) == (made, made + 5)


async def test_who_was_denied_is_refused_in_silence_until_the_operator_thinks_again(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    await driver.db.write(decide_pairing(verdict(driver, admit=False)))
    driver.clock.advance(2 * DAY_MS)
    asked = await driver.db.write(ask_pairing(ask(driver, "22222222")))
    assert (asked.code, asked.told) == ("", False)
    assert len(await notices(driver)) == 1, "a denial is not told"
    await driver.db.write(decide_pairing(verdict(driver)))
    assert await driver.db.read(is_admitted(FERN, BOB))
    await driver.db.write(decide_pairing(verdict(driver, admit=False)))
    assert not await driver.db.read(is_admitted(FERN, BOB))
    assert [kind for kind, _ in await audit(driver)] == ["deny", "pair", "deny"]


async def test_taking_an_admission_back_shuts_the_door_and_lets_them_ask_again(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    await driver.db.write(decide_pairing(verdict(driver)))
    gone = await driver.db.write(unpair(BOB, named="the command line", operation=OperationId("op_a")))
    assert list(gone) == ["fern"]
    assert not await driver.db.read(is_admitted(FERN, BOB))
    assert list(await driver.db.write(unpair(BOB, named="the command line", operation=OperationId("op_b")))) == []
    assert (await driver.db.write(ask_pairing(ask(driver, "22222222")))).told
    assert [kind for kind, _ in await audit(driver)] == ["pair", "unpair"]


async def test_a_decision_that_is_heard_again_after_another_one_changes_nothing(driver):
    """A process may be paused with a request while another one executes it."""
    await driver.db.write(ask_pairing(ask(driver)))
    yes, no = verdict(driver), verdict(driver, admit=False)
    await driver.db.write(decide_pairing(yes))
    assert (await driver.db.write(decide_pairing(no))).state is Pairing.DENIED
    assert (await driver.db.write(decide_pairing(yes))).state is Pairing.DENIED
    assert not await driver.db.read(is_admitted(FERN, BOB))
    off = OperationId(driver.id("op"))
    assert list(await driver.db.write(unpair(BOB, named="test", operation=off))) == ["fern"]
    await driver.db.write(ask_pairing(ask(driver, "22222222")))
    await driver.db.write(decide_pairing(verdict(driver, "22222222")))
    assert list(await driver.db.write(unpair(BOB, named="test", operation=off))) == ["fern"]
    assert await driver.db.read(is_admitted(FERN, BOB)), "they were admitted since"
    assert [kind for kind, _ in await audit(driver)] == ["pair", "deny", "unpair", "pair"]


async def test_an_admission_that_one_agent_takes_back_stays_at_the_others(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    await driver.db.write(ask_pairing(ask(driver, "22222222", agent="moss")))
    for code in (CODE, "22222222"):
        await driver.db.write(decide_pairing(verdict(driver, code)))
    gone = await driver.db.write(unpair(BOB, agent=AgentName("moss"), named="test", operation=OperationId("op_a")))
    assert list(gone) == ["moss"]
    assert await driver.db.read(is_admitted(FERN, BOB))
    assert not await driver.db.read(is_admitted(AgentName("moss"), BOB))
    assert [one.agent for one in await driver.db.read(list_pairings())] == ["fern"]


async def test_an_unknown_code_admits_no_sender(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    with pytest.raises(PairingNotFound):
        await driver.db.write(decide_pairing(verdict(driver, "22222222")))
    assert not await driver.db.read(is_admitted(FERN, BOB))


async def test_a_token_for_some_agents_decides_about_their_strangers_only(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    elsewhere = replace(verdict(driver), agents=frozenset({"moss", "reed"}))
    with pytest.raises(PairingNotFound) as there:
        await driver.db.write(decide_pairing(elsewhere))
    with pytest.raises(PairingNotFound) as nowhere:
        await driver.db.write(decide_pairing(replace(elsewhere, code="22222222")))
    assert str(there.value).replace(CODE, "22222222") == str(nowhere.value)
    assert not await driver.db.read(is_admitted(FERN, BOB))
    assert await audit(driver) == []
    await driver.db.write(decide_pairing(replace(elsewhere, agents=frozenset({"fern"}))))
    assert await driver.db.read(is_admitted(FERN, BOB))


async def test_who_is_linked_to_somebody_admitted_is_admitted_while_the_link_holds(driver):
    ada = Principal("discord:12345")
    await driver.db.write(ask_pairing(ask(driver)))
    await driver.db.write(decide_pairing(verdict(driver)))
    assert not await driver.db.read(is_admitted(FERN, ada))
    await driver.db.write(
        link_principals(LinkRequest(principal=ada, person=BOB, by="test", operation=OperationId("op_l")))
    )
    assert await driver.db.read(is_admitted(FERN, ada))
    await driver.db.write(unlink_principal(ada, named="test", operation=OperationId("op_u")))
    assert not await driver.db.read(is_admitted(FERN, ada))


async def test_the_mailbox_of_a_stranger_takes_their_mail_once_they_are_in(driver):
    await driver.db.write(ask_pairing(ask(driver)))
    before = await driver.db.read(find_mailbox(where()))
    assert before is not None
    assert (before.depth, before.session) == (0, None)
    assert await driver.db.write(claim_mailbox(driver.node)) is None, "there is nothing to answer"


async def test_a_forgotten_strangers_shown_name_goes(driver):
    await driver.db.write(ask_pairing(ask(driver, name="marmalade")))
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), person=BOB)))
    assert [one.name for one in await driver.db.read(list_pairings())] == [""]


async def test_the_defaults_are_a_day_an_hour_and_twenty():
    assert (PAIRING.lasts_ms, PAIRING.told_every_ms, PAIRING.open_max) == (86_400_000, 3_600_000, 20)
