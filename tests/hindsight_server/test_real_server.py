"""What the fake promises, the real Hindsight keeps: delivered once, found again, taken back, erased, killed and well.

Run by `make test-hindsight`: it needs the server's own packages and takes about a minute.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.ids import Provider
from holdfast.kernel.machine import AsyncTasks, SystemClock
from holdfast.memory.delivery import Delivered, Landing, Uncertain, Unreachable
from holdfast.providers.hindsight import make_hindsight
from holdfast.providers.hindsight.naming import BankTemplate
from holdfast.testing import ManualClock
from holdfast.testing.check_provider import CHECKS, check_provider
from holdfast.testing.inline_database import InlineDatabase
from tests.hindsight_server.proxy import Proxy
from tests.hindsight_server.server import RealHindsight
from tests.support.delivery_by_hand import stepped
from tests.support.hindsight_parcels import GROUP, erase, inputs, note, question, retain, retract, setup

pytestmark = [pytest.mark.hindsight, pytest.mark.timeout(300)]
KEY = "sesame-0123"


@pytest.fixture(scope="module")
def server():
    running = RealHindsight(KEY)
    yield running
    running.stop()


@pytest.fixture
def bank(request):
    """A bank of its own for each test, by the name of the test."""
    return request.node.name.replace("_", "")[:60]


@asynccontextmanager
async def connected(server, bank, key=KEY, **settings):
    asked = setup(server.url, {"HS_KEY": key}, bank=bank, api_key_env="HS_KEY", **settings)
    made = make_hindsight(replace(asked, tasks=AsyncTasks(), clock=SystemClock())).provider
    try:
        yield made
    finally:
        await made.close()


def at(bank, parcel):
    return replace(parcel, place=f"{bank}/{parcel.place.partition('/')[2]}")


async def delivered(hindsight, bank, *parcels):
    outcomes = await hindsight.deliver([at(bank, parcel) for parcel in parcels])
    assert [type(outcome) for outcome in outcomes] == [Delivered] * len(parcels), outcomes
    return outcomes


async def count(server, sql, *values):
    connection = await asyncpg.connect(server.dsn)
    try:
        return await connection.fetchval(sql, *values)
    finally:
        await connection.close()


async def documents(server, bank):
    return await count(server, "select count(*) from documents where bank_id = $1", bank)


async def test_a_turn_is_kept_once_however_often_it_is_delivered(server, bank):
    async with connected(server, bank) as hindsight:
        assert await hindsight.healthy() is None
        first = await delivered(hindsight, bank, retain("my cat is called Byron"))
        again = await asyncio.gather(*(delivered(hindsight, bank, retain("my cat is called Byron")) for _ in range(5)))
        assert [one for (one,) in again] == [first[0]] * 5
        assert await hindsight.landed(at(bank, retain("my cat is called Byron"))) is Landing.LANDED
    assert await documents(server, bank) == 1
    assert await count(server, "select count(*) from memory_units where bank_id = $1", bank) == 2  # one per line


@pytest.mark.parametrize("text", ["a\x00b\x07", "half \ud83d", "<|endoftext|>", "é" * 30_000, "x\r\n\ty", "  "])
async def test_odd_words_are_kept_under_the_hash_they_were_sent_with(server, text):
    async with connected(server, "odd") as hindsight:
        await delivered(hindsight, "odd", retain(text, id=f"d_{len(text)}_{ord(text[0])}"))


async def test_recall_keeps_people_and_groups_apart(server, bank):
    async with connected(server, bank) as hindsight:
        group = retain("the picnic cat meets on Sunday", id="d_g", naming=inputs("bob", "s_3", GROUP))
        bobs = retain("my cat hides from vets", id="d_b", naming=inputs("bob", "s_2"))
        await delivered(hindsight, bank, retain("my cat is called Byron"), bobs, group)

        async def seen(query):
            return {memory.ref for memory in await hindsight.recall(query)}

        assert await seen(question("cat", "ada")) == {"unit-d_1"}
        assert await seen(question("cat", "bob")) == {"unit-d_b", "unit-d_g"}
        assert await seen(question("cat", "ada", group=True)) == {"unit-d_g"}


async def test_what_is_taken_back_is_gone(server, bank):
    async with connected(server, bank) as hindsight:
        await delivered(hindsight, bank, retain("keep", "drop"), retract("d_1", "keep"))
        assert await hindsight.landed(at(bank, retract("d_1", "keep"))) is Landing.LANDED
        text = await count(server, "select original_text from documents where bank_id = $1", bank)
        assert "keep" in text
        assert "drop" not in text
        await delivered(hindsight, bank, retract("d_1", id="d_10"), retract("d_1", id="d_11"))
    assert await documents(server, bank) == 0


async def test_a_deletion_waits_for_the_write_before_it(server, bank):
    async with connected(server, bank, settle_s=1) as hindsight:
        server.model.hold()
        (outcome,) = await hindsight.deliver([at(bank, retain("hello"))])
        assert isinstance(outcome, Uncertain)
        assert await hindsight.landed(at(bank, retain("hello"))) is Landing.POSSIBLE
        (outcome,) = await hindsight.deliver([at(bank, retract("d_1"))])
        assert isinstance(outcome, Unreachable)
        server.model.release()
    async with connected(server, bank) as hindsight:
        await delivered(hindsight, bank, retract("d_1"))
    assert await documents(server, bank) == 0


async def test_notes_come_and_go(server, bank):
    async with connected(server, bank) as hindsight:
        await delivered(hindsight, bank, note("add", "likes tea", id="d_1"))
        await delivered(hindsight, bank, note("replace", "likes coffee", "likes tea", id="d_2"))
        await delivered(hindsight, bank, note("replace", "likes tea", "likes coffee", id="d_3"))
        assert await documents(server, bank) == 1
        await delivered(hindsight, bank, note("remove", "", "likes tea", id="d_4"))
    assert await documents(server, bank) == 0


async def test_an_erased_session_leaves_no_word_in_documents_facts_or_operations(server, bank):
    async with connected(server, bank) as hindsight:
        other = retain("about bob", id="d_2", naming=inputs("bob", "s_2"))
        await delivered(hindsight, bank, retain("the word is xylophant"), other)
        await delivered(hindsight, bank, erase("d_1", session="s_1", bank=bank))
        assert await hindsight.landed(erase("d_1", session="s_1", bank=bank)) is Landing.LANDED
    for table in ("documents", "memory_units", "chunks", "async_operations"):
        assert await count(server, f"select count(*) from {table} t where t::text ilike '%xylophant%'") == 0, table
    assert await documents(server, bank) == 1


async def test_an_operation_that_failed_is_taken_up_again(server, bank):
    async with connected(server, bank) as hindsight:
        server.model.failures = 12  # more than the server and its model's client try by themselves
        await delivered(hindsight, bank, retain("hello again"))
        server.model.failures = 0
    assert await documents(server, bank) == 1


async def test_a_wrong_key_is_named_and_nothing_is_sent(server, bank):
    async with connected(server, bank, key="wrong") as hindsight:
        (outcome,) = await hindsight.deliver([at(bank, retain("hello"))])
        assert outcome == Unreachable("Hindsight refused the key (401); set HS_KEY to one that it accepts")
        assert await hindsight.healthy() == outcome.reason
    assert await documents(server, bank) == 0


async def test_a_server_killed_in_the_middle_keeps_the_turn_once(server, bank):
    async with connected(server, bank, settle_s=1) as hindsight:
        server.model.hold()
        (outcome,) = await hindsight.deliver([at(bank, retain("hello after the crash"))])
        assert isinstance(outcome, Uncertain)
        assert server.model.asked.is_set(), "it was killed in the middle of its work"
        server.kill()
        assert await hindsight.landed(at(bank, retain("hello after the crash"))) is Landing.POSSIBLE
        (outcome,) = await hindsight.deliver([at(bank, retain("hello after the crash"))])
        assert isinstance(outcome, Unreachable)
        server.model.release()
        server.start()
    async with connected(server, bank) as hindsight:
        await delivered(hindsight, bank, retain("hello after the crash"))
    assert await documents(server, bank) == 1
    assert await count(server, "select count(*) from memory_units where bank_id = $1", bank) == 2


@pytest.mark.parametrize("status", [502, 503])
async def test_what_a_proxy_answers_and_forwards_later_is_kept_once(server, status):
    bank = f"proxied{status}"
    async with Proxy(server.url) as proxy, connected(proxy, bank) as hindsight:
        proxy.answers.append(status)
        proxy.holds = True
        (outcome,) = await hindsight.deliver([at(bank, retain("once and no more"))])
        assert isinstance(outcome, Unreachable | Uncertain)
        await delivered(hindsight, bank, replace(retain("once and no more"), attempt=2))
        await proxy.forward()
        await delivered(hindsight, bank, replace(retain("once and no more"), attempt=3))
    assert await documents(server, bank) == 1
    assert await count(server, "select count(*) from memory_units where bank_id = $1", bank) == 2


async def test_no_good_note_is_parked_after_500s_and_by_a_half_healthy_way_to_the_server(server, bank, tmp_path):
    """270 s of 500s by the dispatcher's clock, then four writes in ten fail."""
    clock, name = ManualClock(), Provider("hindsight")
    async with Proxy(server.url) as proxy:
        asked = setup(proxy.url, {"HS_KEY": KEY}, bank=bank, api_key_env="HS_KEY")
        configured = make_hindsight(replace(asked, tasks=AsyncTasks(), clock=SystemClock()))
        database = InlineDatabase(tmp_path / "holdfast.db", clock, synchronous="off")
        by_hand = await stepped(database, clock, configured, name)
        proxy.down = True
        for n in range(18):
            await by_hand.note(n, f"fact number {n}", subject=f"person-{n % 6}")
        await by_hand.run_for(270_000)
        assert await by_hand.states() == {"scheduled": 18}
        proxy.down, proxy.share = False, 0.4
        await by_hand.until_rest()
        assert await by_hand.states() == {"delivered": 18}
        await by_hand.providers.close()
        await by_hand.db.close()
    assert await documents(server, bank) == 18


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_suite_for_third_parties_passes_on_the_real_server(server, check):
    """Each check in banks of its own. The stub model extracts by rule, so words come back in its wording."""
    template = f"{check.__name__.replace('_', '-')[:60]}-{{agent}}"
    async with AsyncExitStack() as stack:

        async def make():
            return await stack.enter_async_context(connected(server, template))

        naming = BankTemplate(template)
        assert await check_provider(make, naming=naming, verbatim=False, checks=(check,)) == 1
