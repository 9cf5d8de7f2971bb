"""A message keeps the chain of agents it came through: from the reply that sends it, through the mailbox and the turn,
to the turn's own messages and its answer, also when another worker resumes the turn.
"""

from dataclasses import replace

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import UNKNOWN, chain_of_turn, extended, loaded, reachable, stored
from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.kernel.ids import AgentName, OperationId, Principal, ReplyId
from holdfast.outbox.reply_sql import claim_replies
from holdfast.turns.open_turn_sql import open_turn
from holdfast.turns.turn import OutgoingMessage
from holdfast.turns.turn_sql import append_step, resume_turn
from tests.support.driver import returned, tool_step

ADA, BEN, FERN = AgentName("ada"), AgentName("ben"), AgentName("fern")
ASKING = "agent:ben:http:chat:home"


def from_ben(driver, chain=(ADA, BEN), **more):
    """What ben asks fern, on behalf of ada."""
    arrival = driver.arrival("what is the weather?", who="agent:ben", chat=ASKING, channel="agent", human=False, **more)
    return replace(arrival, account="agent:ben", chain=chain, hop=2)


async def opened(driver, claim):
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = replace(driver.opening(mail.session, mail.waiting), chain=mail.waiting[0].chain)
    return await driver.db.write(open_turn(claim, opening))


async def claimed(driver):
    return await driver.db.write(claim_mailbox(driver.node))


async def test_a_turn_has_the_chain_of_its_message_also_when_it_is_resumed(driver):
    await driver.accept(from_ben(driver))
    claim = await claimed(driver)
    (waiting,) = (await driver.db.read(read_mail(claim, limit=1))).waiting
    assert waiting.chain == (ADA, BEN)
    turn = await opened(driver, claim)
    assert turn.chain == (ADA, BEN)
    assert (await driver.db.write(append_step(claim, turn, tool_step()))).chain == (ADA, BEN)
    await driver.db.write(release_claim(claim))
    again = await claimed(driver)
    mail = await driver.db.read(read_mail(again, limit=1))
    assert mail.turn is not None
    assert (await driver.db.write(resume_turn(again, mail.turn))).chain == (ADA, BEN)


async def test_a_retried_turn_keeps_its_chain_for_any_sender_of_the_retry(driver):
    await driver.accept(from_ben(driver))
    claim = await claimed(driver)
    turn = await opened(driver, claim)
    await driver.answer(claim, turn, "rain")
    await driver.db.write(release_claim(claim))
    await driver.accept(replace(from_ben(driver, chain=()), text="/retry", human=True))
    claim = await claimed(driver)
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    again = await driver.db.write(open_turn(claim, replace(opening, repeats=(turn.session, turn.n))))
    assert (again.n, again.chain) == (turn.n + 1, (ADA, BEN))


async def test_what_a_turn_sends_and_answers_carries_its_chain_and_only_the_answer_is_one(driver):
    await driver.accept(from_ben(driver))
    claim = await claimed(driver)
    turn = await driver.db.write(append_step(claim, await opened(driver, claim), tool_step()))
    to_moss = Address(agent=AgentName("moss"), channel="agent", type="dm", chat=claim.address)
    sent = OutgoingMessage(address=str(to_moss), text="weather?", id=ReplyId("rep_sent"))
    turn = await driver.db.write(append_step(claim, turn, replace(returned(), outgoing=(sent,))))
    await driver.answer(claim, turn, "rain")
    claims = await driver.db.write(claim_replies(driver.node, FERN, "agent", name="t", limit=9))
    found = {one.text: (one.chain, one.is_answer, one.hop) for one in claims}
    assert found == {"weather?": ((ADA, BEN), False, 3), "rain": ((ADA, BEN), True, 2)}
    post = claims[0].post((claims[0].text,))
    assert (post.chain, post.is_answer) == (claims[0].chain, claims[0].is_answer)


async def test_an_answer_is_known_as_one_after_its_question_was_pruned(driver):
    await driver.accept(from_ben(driver))
    claim = await claimed(driver)
    await driver.answer(claim, await opened(driver, claim), "rain")
    await driver.write("delete from inbound")
    (answer,) = await driver.db.write(claim_replies(driver.node, FERN, "agent", name="t", limit=9))
    assert (answer.is_answer, answer.chain) == (True, (ADA, BEN))


async def test_a_persons_message_has_no_chain(driver):
    await driver.say("hello")
    claim = await driver.claim()
    assert (await opened(driver, claim)).chain == ()
    assert await driver.rows("select chain from inbound union all select chain from turn") == [(None,), (None,)]


async def test_an_agents_message_belongs_to_no_person_although_its_name_was_linked(driver):
    link = LinkRequest(
        principal=Principal("agent:ben"), person=Principal("bob"), by="t", operation=OperationId(driver.id("op"))
    )
    await driver.db.write(link_principals(link))
    await driver.accept(from_ben(driver))
    await driver.accept(driver.arrival("hello", who="agent:ben"))
    assert await driver.rows("select principal, chain from inbound order by message") == [
        ("agent:ben", "ada ben"),
        ("bob", None),
    ]


def test_a_chain_is_stored_as_names_and_grows_once_by_each_sender():
    assert extended((), ADA) == (ADA,)
    assert extended((ADA, BEN), FERN) == (ADA, BEN, FERN)
    assert extended((ADA, BEN), ADA) == (ADA, BEN)
    assert stored((ADA, BEN)) == "ada ben"
    assert (loaded(None), loaded("ada ben")) == ((), (ADA, BEN))


def test_the_senders_of_an_earlier_releases_message_are_unknown():
    assert chain_of_turn("", "agent:ben") == (UNKNOWN,)
    assert chain_of_turn("ada ben", "agent:ben") == (ADA, BEN)
    assert chain_of_turn("", "ben") == ()


def test_an_agent_reaches_those_on_its_list_whom_each_of_its_chain_may_message_or_is():
    lists = {ADA: ("ben", "fern"), BEN: ("ada", "fern", "moss"), FERN: ()}
    assert reachable(BEN, (), lists.get) == ("ada", "fern", "moss")
    assert reachable(BEN, (ADA,), lists.get) == ("ada", "fern")
    assert reachable(BEN, (ADA, BEN), lists.get) == ("ada", "fern")
    assert reachable(BEN, (FERN,), lists.get) == ("fern",)
    assert reachable(BEN, (UNKNOWN,), lists.get) == ()
    assert reachable(AgentName("gone"), (), lists.get) == ()
