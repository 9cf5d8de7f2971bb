"""Forgetting a person follows their words through messages between agents: the message, the turn that answers it, the
answer, and the turn that the answer causes, across all agents, including messages that are still on their way.
"""

import pytest

from holdfast.inbox.address import Address, parse
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail, release_claim
from holdfast.inbox.message import Accepted, Arrival, Duplicate, MessageKind, Unfit
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import AgentName, MailboxId, MessageId, Principal, Provider, ReplyId
from holdfast.memory.delivery import DeliveryState, Op
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.sessions.command_rights import Rank
from holdfast.store.script import Call, rows
from holdfast.store.upkeep_sql import prune_messages
from holdfast.turns.journal import AssistantSaid, ToolCall, ToolReturned, UserSaid, decode_body
from holdfast.turns.open_turn_sql import open_turn
from holdfast.turns.turn import OutgoingMessage, Step, TurnEvent, TurnOpening
from holdfast.turns.turn_sql import append_step
from tests.memory.test_forget_sql import CANARY, EACH, carry_all, found_in, person
from tests.support.driver import LIMITS, SECRET

FERN, MOSS, REED = "fern", "moss", "reed"
HOME = str(Address(agent=AgentName(FERN), channel="http", type="chat", chat="home"))


class Post:
    """Agents that write to each other, step by step."""

    def __init__(self, driver):
        self.driver = driver

    async def write(self, claim, turn, to, text):
        """A turn writes to another agent; the id of the message."""
        call = AssistantSaid(
            text="", calls=(ToolCall(id="c1", name="send_message", arguments=f'{{"text": "{text}"}}'),)
        )
        turn = await self.driver.db.write(append_step(claim, turn, Step(event=TurnEvent.CALLED, entries=(call,))))
        address = Address(agent=AgentName(to), channel="agent", type="dm", chat=claim.address)
        letter = OutgoingMessage(id=ReplyId(self.driver.id("letter")), address=str(address), text=text)
        said = ToolReturned(call="c1", name="send_message", text=f"Sent to {to}.")
        step = Step(event=TurnEvent.RETURNED, entries=(said,), outgoing=(letter,))
        return letter.id, await self.driver.db.write(append_step(claim, turn, step))

    async def claimed(self, agent):
        taken = await self.driver.db.write(claim_mailbox(self.driver.node))
        assert taken is not None, "nothing is ready"
        assert taken.agent == agent
        return taken

    def arrival(self, letter, sender, address, text):
        """A message of the channel between agents (channels/agent.py)."""
        return Arrival(
            message=MessageId(self.driver.id("msg")),
            address=parse(address),
            account=f"agent:{sender}",
            conversation=address[-512:],
            event_id=f"{letter}.0",
            principal=Principal(f"agent:{sender}"),
            text=f"[a message from the agent {sender}]\n{text}",
            kind=MessageKind.TEXT,
            human=False,
            hop=1,
            reply=ReplyId(self.driver.id("rep")),
            new_mailbox=MailboxId(self.driver.id("box")),
        )

    async def hand_over(self, letter, sender, address=None, text=None):
        """Deliver what the reply row says; the outcome."""
        ((body, sent_to),) = await self.driver.rows("select body, address from reply where id = :id", id=letter)
        target = parse(sent_to)
        address = address or (target.chat if target.agent == sender else sent_to)
        return await self.driver.accept(self.arrival(letter, sender, address, text or bytes(body).decode()), LIMITS)

    async def answer(self, agent, text):
        """The turn of the next message of an agent, answered; the answer's id as a message back."""
        claim = await self.claimed(agent)
        turn = await self.driver.open(claim)
        await self.driver.answer(claim, turn, text)
        await self.driver.db.write(release_claim(claim))
        found = await self.driver.rows(
            "select id from reply where session = :s and turn = :n order by n desc limit 1", s=turn.session, n=turn.n
        )
        return turn, found[0][0]

    async def ask(self, who, text, to, passed):
        """Somebody says something, and fern passes it on; the message's id and the turn."""
        await self.driver.say(text, who=who)
        claim = await self.claimed(FERN)
        turn = await self.driver.open(claim)
        letter, turn = await self.write(claim, turn, to, passed)
        await self.driver.answer(claim, turn, "I asked.")
        await self.driver.db.write(release_claim(claim))
        return letter, turn


@pytest.fixture
def post(driver):
    driver.policies = EACH
    return Post(driver)


async def round_trip(post, who="ada", word=CANARY, to=MOSS):
    """Said to fern, passed on, answered, and handed back: three turns."""
    letter, first = await post.ask(who, f"ask about {word}", to, f"what of {word}?")
    assert isinstance(await post.hand_over(letter, FERN), Accepted)
    second, answer = await post.answer(to, f"{word} is well")
    assert isinstance(await post.hand_over(answer, to), Accepted)
    third, _ = await post.answer(FERN, f"they say that {word} is well")
    return first, second, third


async def test_words_that_were_passed_on_go_at_the_other_agent_and_when_they_come_back(post, driver):
    _, second, third = await round_trip(post)
    assert {"entry", "inbound", "reply"} <= set(await found_in(driver))
    done = await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []
    assert done.blanked["passed_on"] == 2
    ((entries,),) = await driver.rows(
        "select count(*) from entry where length(body) > 0 and session in (:a, :b)", a=second.session, b=third.session
    )
    assert entries == 0


async def test_provenance_crosses_agents_also_where_one_agent_is_asked(post, driver):
    """The words are those that were said to fern; what was said to moss itself is moss's own affair."""
    await round_trip(post)
    await driver.say("my dog is Rex", agent=MOSS, chat="den")
    await post.answer(MOSS, "Rex it is")
    await driver.db.write(begin_forgetting(person(agent=FERN)))
    assert await found_in(driver) == []
    assert set(await found_in(driver, "Rex")) == {"entry", "inbound", "reply"}
    carried = await carry_all(driver)
    assert [one for one in carried if one.erasure is not None] == []


async def test_a_chain_of_agents_is_followed_to_its_end_and_a_circle_ends(post, driver):
    letter, _ = await post.ask("ada", "hello", MOSS, "please go on")
    await post.hand_over(letter, FERN)
    claim = await post.claimed(MOSS)
    turn = await driver.open(claim)
    onward, turn = await post.write(claim, turn, REED, f"it is {CANARY}")
    back, turn = await post.write(claim, turn, FERN, f"do you know {CANARY}?")
    await driver.answer(claim, turn, "one moment")
    await driver.db.write(release_claim(claim))
    await post.hand_over(onward, MOSS)
    await post.hand_over(back, MOSS)
    for agent in (REED, FERN):
        _, answer = await post.answer(agent, f"yes, {CANARY}")
        await post.hand_over(answer, agent)
        await post.answer(MOSS, f"so {CANARY} it is")
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []


async def test_what_bob_had_passed_on_in_the_same_conversation_stays(post, driver):
    await round_trip(post)
    _, second, third = await round_trip(post, "bob", "Rex")
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []
    kept = [text for turn in (second, third) for text in await driver.texts(turn.session) if "Rex" in text]
    assert kept[0] == "[a message from the agent fern]\nwhat of Rex?"
    assert "Rex is well" in kept
    assert "they say that Rex is well" in kept


async def test_a_message_of_a_person_whose_id_names_one_between_agents_stays(post, driver):
    """A client chooses the ids of its messages."""
    letter, first = await post.ask("ada", f"ask about {CANARY}", MOSS, f"what of {CANARY}?")
    await driver.talk("my dog is Rex", "good Rex", who="bob", event=f"{letter}.0")
    await post.hand_over(letter, FERN)
    _, answer = await post.answer(MOSS, f"{CANARY} is well")
    await post.hand_over(answer, MOSS)
    await post.answer(FERN, f"they say that {CANARY} is well")
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []
    assert [text for text in await driver.texts(first.session) if text] == ["my dog is Rex", "good Rex"]


async def test_the_same_words_that_were_passed_on_again_for_somebody_else_go_too(post, driver):
    """Bob has the agent repeat, word for word and in a turn of his own, what ada had it pass on."""
    for who, text in (("ada", f"ask about {CANARY}"), ("bob", "ask again")):
        letter, _ = await post.ask(who, text, MOSS, f"what of {CANARY}?")
        assert isinstance(await post.hand_over(letter, FERN), Accepted)
        await post.answer(MOSS, f"{CANARY} is well")
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []


async def test_a_message_on_its_way_is_cancelled_and_cannot_arrive(post, driver):
    letter, _ = await post.ask("ada", f"{CANARY}", MOSS, f"what of {CANARY}?")
    ((text,),) = await driver.rows("select body from reply where id = :id", id=letter)
    await driver.db.write(begin_forgetting(person()))
    ((state, body),) = await driver.rows("select state, body from reply where id = :id", id=letter)
    assert (state, bytes(body)) == ("failed", b"")
    late = await post.hand_over(letter, FERN, text=bytes(text).decode())  # its channel had read it before
    assert late == Unfit("its words were forgotten on their way")
    assert await found_in(driver) == []


async def test_a_message_that_waits_at_the_other_agent_is_not_answered(post, driver):
    letter, _ = await post.ask("ada", f"{CANARY}", MOSS, f"what of {CANARY}?")
    await post.hand_over(letter, FERN)
    await driver.db.write(begin_forgetting(person()))
    assert await found_in(driver) == []
    ((state, reason),) = await driver.rows("select state, reason from inbound where principal = 'agent:fern'")
    assert (state, reason) == ("interrupted", "forgotten")
    assert await driver.db.write(claim_mailbox(driver.node)) is None
    assert isinstance(await post.hand_over(letter, FERN, text="whatever"), Duplicate)


async def test_a_turn_of_another_agent_that_is_open_with_the_words_ends(post, driver):
    letter, _ = await post.ask("ada", f"{CANARY}", MOSS, f"what of {CANARY}?")
    await post.hand_over(letter, FERN)
    claim = await post.claimed(MOSS)
    turn = await driver.open(claim)
    await driver.db.write(begin_forgetting(person()))
    with pytest.raises(ClaimLost):
        await driver.answer(claim, turn, f"{CANARY}!")
    assert await found_in(driver) == []


async def test_it_is_followed_where_the_rows_of_the_messages_were_pruned(post, driver):
    await round_trip(post)
    driver.clock.advance(10_000)
    assert await driver.db.write(prune_messages(older_than_ms=1, limit=100, secret=SECRET)) > 0
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []


async def test_a_turn_that_somebody_tried_again_with_an_answer_of_another_agent_goes(post, driver):
    await round_trip(post)
    message = await driver.say("/retry", who="bob", rank=Rank.OPERATOR)
    claim = await post.claimed(FERN)
    mail = await driver.db.read(read_mail(claim, limit=1))
    ((_, body),) = await driver.rows(
        "select seq, body from entry where session = :s and kind = 'user' order by seq desc limit 1", s=mail.session
    )
    said = decode_body("user", bytes(body))
    assert isinstance(said, UserSaid)
    again = UserSaid(text=said.text, principal=said.principal, message=message, event_id="of the retry")
    opening = TurnOpening(
        session=mail.session, messages=(message,), entries=(again,), principal=Principal(said.principal), retry=True
    )
    turn = await driver.db.write(open_turn(claim, opening))
    await driver.answer(claim, turn, f"again: {CANARY} is well")
    await driver.db.write(release_claim(claim))
    await driver.db.write(begin_forgetting(person(agent=None)))
    assert await found_in(driver) == []


async def test_providers_of_the_other_agent_erase_what_they_were_sent(post, driver):
    await round_trip(post)
    carried = []
    for agent in (FERN, MOSS, FERN, MOSS):
        key = LaneKey(AgentName(agent), Provider("mem"))
        while claims := await driver.db.write(claim_lanes(driver.node, key, lanes=9, units=9, renderer="r1")):
            for claim in claims:
                done = [Settlement(n=one.n, state=DeliveryState.DELIVERED) for one in claim.packages]
                await driver.db.write(settle_lanes([(claim, done)]))
                carried += [(agent, one.parcel) for one in claim.packages]
        if agent == MOSS and not any(parcel.op is Op.ERASE for _, parcel in carried):
            await driver.db.write(begin_forgetting(person(agent=FERN)))
    erased = {agent: parcel.erasure for agent, parcel in carried if parcel.op is Op.ERASE}
    sent = {
        agent: [parcel.id for who, parcel in carried if who == agent and parcel.op is Op.RETAIN] for agent in erased
    }
    assert set(erased) == {FERN, MOSS}
    assert {agent: sorted(one.deliveries) for agent, one in erased.items()} == {a: sorted(s) for a, s in sent.items()}
    assert (erased[FERN].principal, erased[MOSS].principal) == ("ada", None)


async def test_no_hash_of_a_message_between_agents_is_left(post, driver):
    await round_trip(post)
    await driver.db.write(begin_forgetting(person(agent=None)))
    hashes = await driver.db.read(Call("look", lambda: rows("select body_hash from inbound")))
    assert {bytes(one) for (one,) in hashes} == {b""}
