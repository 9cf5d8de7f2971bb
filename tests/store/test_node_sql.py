"""The promise: a mailbox has one writer. A claim is void as soon as a younger one exists or its node is lost.

Rules: D4, D7.
"""

import pytest

from holdfast.inbox.mailbox_sql import claim_mailbox, claim_mailboxes, read_mail, release_claim
from holdfast.kernel.errors import ClaimLost, NodeLost
from holdfast.kernel.ids import NodeId
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import list_operations
from holdfast.store.node_sql import read_upcoming, reap_nodes, register_node, renew_node, retire_node
from holdfast.turns.open_turn_sql import observe_messages, open_turn
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn
from tests.support.driver import address_of, tool_step

OTHER = NodeId("node_b")
LEASE_MS = 15_000


async def test_the_mailbox_that_was_ready_first_is_claimed_first(driver):
    for chat in ("b", "c", "a"):
        await driver.say("hi", chat=chat)
        driver.clock.advance(1)
    await driver.say("again", chat="b")
    claimed = [(await driver.db.write(claim_mailbox(driver.node))).address for _ in range(3)]
    assert claimed == [address_of(chat) for chat in ("b", "c", "a")]
    assert await driver.db.write(claim_mailbox(driver.node)) is None


async def test_a_claimed_mailbox_is_not_claimed_twice(driver):
    await driver.say("one")
    await driver.claim()
    await driver.say("two")
    assert await driver.db.write(claim_mailbox(driver.node)) is None


async def test_the_fence_grows_with_every_claim(driver):
    await driver.say("one")
    fences = []
    for _ in range(3):
        claim = await driver.claim()
        fences.append(claim.fence)
        await driver.db.write(release_claim(claim))
    assert fences == [1, 2, 3]


async def test_a_released_mailbox_goes_to_the_end_of_the_line_while_it_has_mail(driver):
    for chat in ("a", "b"):
        await driver.say("one", chat=chat)
        await driver.say("two", chat=chat)
        driver.clock.advance(1)
    first = await driver.claim("a")
    await driver.answer(first, await driver.open(first))
    driver.clock.advance(1)
    await driver.db.write(release_claim(first))
    await driver.claim("b")
    await driver.claim("a")


async def test_a_mailbox_without_mail_is_not_claimed(driver):
    await driver.talk("one")
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    assert (await driver.db.read(read_upcoming())).mail_at is None


async def test_a_release_can_ask_for_a_delay(driver):
    await driver.say("one")
    await driver.db.write(release_claim(await driver.claim(), retry_in_ms=500))
    assert (await driver.db.read(read_upcoming())).mail_at == driver.clock.now() + 500
    driver.clock.advance(499)
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    driver.clock.advance(1)
    await driver.claim()


async def test_a_repeated_release_changes_nothing(driver):
    await driver.say("one")
    claim = await driver.claim()
    await driver.db.write(release_claim(claim))
    driver.clock.advance(5)
    await driver.db.write(release_claim(claim, retry_in_ms=1_000))
    await driver.claim()


async def test_a_claim_asked_for_again_by_its_name_is_the_same_claim(driver):
    """After an answer that was lost: otherwise the mailbox would stay taken by a node that does not know it."""
    await driver.say("one", chat="a")
    driver.clock.advance(1)
    await driver.say("one", chat="b")
    first = await driver.db.write(claim_mailbox(driver.node, name="first"))
    assert await driver.db.write(claim_mailbox(driver.node, name="first")) == first
    second = await driver.db.write(claim_mailbox(driver.node, name="second"))
    assert second.address == address_of("b")
    await driver.db.write(release_claim(first))
    again = await driver.db.write(claim_mailbox(driver.node, name="first"))
    assert (again.mailbox, again.fence) == (first.mailbox, first.fence + 1)


async def test_several_claims_asked_for_again_by_their_name_are_the_same_claims(driver):
    for chat in ("a", "b"):
        await driver.say("one", chat=chat)
    first = await driver.db.write(claim_mailboxes(driver.node, name="first", limit=5))
    assert len(first) == 2
    assert await driver.db.write(claim_mailboxes(driver.node, name="first", limit=5)) == first


async def test_an_unknown_node_claims_nothing(driver):
    await driver.say("one")
    assert await driver.db.write(claim_mailbox(NodeId("node_x"))) is None


# --- void claims -----------------------------------------------------------------------------------


async def stale_claim(driver):
    """A claim with an open turn and mail behind it, and the younger claim that voids it."""
    await driver.db.write(register_node(OTHER, "there", sole=False))
    await driver.say("one")
    await driver.say("/undo")
    await driver.say("two", addressed=False)
    old = await driver.claim()
    turn = await driver.open(old)
    turn = await driver.db.write(append_step(old, turn, tool_step()))
    await driver.db.write(release_claim(old))
    young = await driver.claim(node=OTHER)
    return old, young, turn


async def resumes(driver, claim, turn, _mail):
    await driver.db.write(resume_turn(claim, turn))


async def opens(driver, claim, turn, mail):
    await driver.db.write(open_turn(claim, driver.opening(turn.session, mail.waiting[-1:])))


async def steps(driver, claim, turn, _mail):
    await driver.db.write(append_step(claim, turn, tool_step("c2")))


async def commits(driver, claim, turn, _mail):
    await driver.db.write(commit_turn(claim, turn, driver.commit("stale")))


async def observes(driver, claim, turn, mail):
    await driver.db.write(observe_messages(claim, turn.session, [mail.waiting[-1].message]))


async def commands(driver, claim, _turn, mail):
    await driver.db.write(run_command(claim, driver.command_run(mail.waiting[0].message, "/undo")))


async def reads(driver, claim, _turn, _mail):
    await driver.db.read(read_mail(claim, limit=5))


async def releases(driver, claim, _turn, _mail):
    await driver.db.write(release_claim(claim, retry_in_ms=7_000))
    raise ClaimLost("releasing a void claim is passed over")


VERBS = [resumes, opens, steps, commits, observes, commands, reads, releases]
EVERYTHING = """
select 'mailbox', id, fence, owner, depth, ready_at, session_id from mailbox union all
select 'inbound', message, turn, state, seq, null, session from inbound union all
select 'session', id, last_seq, state, turns, open_turn, reason from session union all
select 'turn', session, n, phase, attempt, fence, reason from turn union all
select 'entry', session, seq, kind, turn, fence, null from entry union all
select 'reply', id, turn, state, at, null, session from reply
order by 1, 2, 3"""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_a_stale_claim_changes_nothing(driver, verb):
    old, young, turn = await stale_claim(driver)
    mail = await driver.db.read(read_mail(young, limit=5))
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await verb(driver, old, turn, mail)
    assert await driver.rows(EVERYTHING) == before


@pytest.mark.parametrize("verb", VERBS[:-1], ids=lambda verb: verb.__name__)
async def test_the_claim_of_a_reaped_node_changes_nothing_even_without_a_newer_claim(driver, verb):
    await driver.db.write(register_node(OTHER, "there", sole=False))
    await driver.say("one")
    await driver.say("/undo")
    await driver.say("two", addressed=False)
    claim = await driver.claim(node=OTHER)
    turn = await driver.open(claim)
    mail = await driver.db.read(read_mail(claim, limit=5))
    driver.clock.advance(LEASE_MS)
    await driver.db.write(renew_node(driver.node))
    reaped = await driver.db.write(reap_nodes(lease_ms=LEASE_MS))
    assert (reaped.nodes, reaped.claims) == (1, 1)
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await verb(driver, claim, turn, mail)
    assert await driver.rows(EVERYTHING) == before


@pytest.mark.parametrize("verb", [resumes, steps, commits], ids=lambda verb: verb.__name__)
async def test_a_claim_on_one_mailbox_cannot_write_to_the_session_of_another(driver, verb):
    """Both claims have the same fence number, so only the session tells them apart."""
    await driver.say("one", chat="a")
    mine = await driver.claim("a")
    await driver.open(mine)
    await driver.say("one", chat="b")
    theirs = await driver.claim("b")
    turn = await driver.open(theirs)
    assert mine.fence == theirs.fence
    before = await driver.rows(EVERYTHING)
    with pytest.raises(ClaimLost):
        await verb(driver, mine, turn, None)
    assert await driver.rows(EVERYTHING) == before


# --- nodes -----------------------------------------------------------------------------------------


async def test_a_node_that_proves_life_keeps_its_claims(driver):
    await driver.say("one")
    claim = await driver.claim()
    for _ in range(3):
        driver.clock.advance(LEASE_MS - 1)
        await driver.db.write(renew_node(driver.node))
        assert (await driver.db.write(reap_nodes(lease_ms=LEASE_MS))).nodes == 0
    await driver.answer(claim, await driver.open(claim))


async def test_a_node_taken_for_dead_learns_it_and_its_mail_is_claimed_by_another(driver):
    await driver.say("one")
    old = await driver.claim()
    driver.clock.advance(LEASE_MS)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    await driver.db.write(reap_nodes(lease_ms=LEASE_MS))
    with pytest.raises(NodeLost):
        await driver.db.write(renew_node(driver.node))
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    assert (await driver.claim(node=OTHER)).fence > old.fence


async def test_reaping_twice_is_reaping_once(driver):
    await driver.say("one")
    await driver.claim()
    driver.clock.advance(LEASE_MS)
    await driver.db.write(reap_nodes(lease_ms=LEASE_MS))
    again = await driver.db.write(reap_nodes(lease_ms=LEASE_MS))
    assert (again.nodes, again.claims, again.operations) == (0, 0, 0)


async def test_a_claim_committed_while_its_node_was_reaped_is_voided_by_the_next_reaping(driver):
    """The claim and the reaping do not see each other; without a second check the mailbox would never be freed."""
    await driver.say("one")
    await driver.claim()
    await driver.write("delete from node where id = :node", node=driver.node)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    assert (await driver.db.write(reap_nodes(lease_ms=LEASE_MS))).claims == 1
    await driver.claim(node=OTHER)


async def test_an_operation_begun_while_its_node_was_reaped_is_ended_by_the_next_reaping(driver):
    session = await driver.chat("one")
    await driver.begin(session)
    await driver.write("delete from node where id = :node", node=driver.node)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    assert (await driver.db.write(reap_nodes(lease_ms=LEASE_MS))).operations == 1


async def test_a_sole_registration_voids_every_earlier_claim_at_once(driver):
    await driver.say("one")
    old = await driver.claim()
    turn = await driver.open(old)
    operation = await driver.begin(turn.session)
    await driver.db.write(register_node(OTHER, "here", sole=True))
    with pytest.raises(ClaimLost):
        await driver.answer(old, turn)
    with pytest.raises(NodeLost):
        await driver.db.write(renew_node(driver.node))
    assert (await driver.claim(node=OTHER)).fence == old.fence + 2
    (ended,) = await driver.db.read(list_operations(session=turn.session))
    assert (ended.id, ended.outcome) == (operation.id, "abandoned")


async def test_registering_again_keeps_ones_own_claims(driver):
    await driver.say("one")
    claim = await driver.claim()
    await driver.db.write(register_node(driver.node, "here", sole=True))
    await driver.answer(claim, await driver.open(claim))


async def test_a_node_that_leaves_gives_its_claims_and_operations_back(driver):
    session = await driver.chat("zero")
    await driver.say("one")
    claim = await driver.claim()
    await driver.begin(session)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    await driver.db.write(retire_node(driver.node))
    with pytest.raises(ClaimLost):
        await driver.open(claim)
    await driver.claim(node=OTHER)
    await driver.begin(session, node=OTHER)
