"""The promise: `check_provider` passes the local provider, and names the promise that a broken provider breaks.

Each broken provider is the local one with a single fault, and is seen by the check that is about that fault.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.kernel.ids import DeliveryId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import Delivered, Landing, Op, Refused, Unreachable
from holdfast.memory.recall import Recollection
from holdfast.testing import check_provider as suite
from holdfast.testing.check_provider import CHECKS, check_provider, sentence
from tests.support.local_provider import open_local


def making(tmp_path, kind=lambda provider: provider):
    made = iter(range(1_000))

    async def make():
        folder = tmp_path / str(next(made))
        folder.mkdir()
        return kind(open_local(folder))

    return make


async def test_the_local_provider_conforms(tmp_path):
    assert await check_provider(making(tmp_path)) == len(CHECKS)


async def test_a_provider_that_rewords_is_only_asked_for_what_must_not_come_back(tmp_path):
    class Rewording(Faulty):
        async def recall(self, query):
            return [replace(one, text="something was said") for one in await self.inner.recall(query)]

    assert await check_provider(making(tmp_path, Rewording), verbatim=False) == len(CHECKS)


async def test_a_provider_that_takes_its_time_is_waited_for(tmp_path):
    waited = []

    async def settled():
        waited.append(True)

    assert await check_provider(making(tmp_path), settled=settled, checks=(suite.a_note_delivered_twice_is_one_note,))
    assert waited


# --- broken on purpose -----------------------------------------------------------------------------


class Faulty:
    """Everything as it should be; a fault overrides one thing."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def capabilities(self):
        return self.inner.capabilities

    async def deliver(self, parcels):
        return await self.inner.deliver(parcels)

    async def landed(self, parcel):
        return await self.inner.landed(parcel)

    async def recall(self, query):
        return await self.inner.recall(query)

    async def healthy(self):
        return await self.inner.healthy()

    async def close(self):
        await self.inner.close()


class Unhealthy(Faulty):
    async def healthy(self):
        return "not today"


class Stumbling(Faulty):
    async def deliver(self, parcels):
        assert parcels
        return await self.inner.deliver(parcels)


class Boasting(Faulty):
    async def landed(self, parcel):
        return Landing.LANDED


class Lying(Faulty):
    """Acknowledges and keeps nothing."""

    async def deliver(self, parcels):
        return [Delivered() for _ in parcels]


class Doubling(Faulty):
    """A new key per attempt."""

    async def deliver(self, parcels):
        return await self.inner.deliver(
            [one if one.attempt == 1 else replace(one, id=DeliveryId(f"{one.id}/{one.attempt}")) for one in parcels]
        )


class OneOfACall(Faulty):
    """Takes the first parcel of a call and acknowledges all."""

    async def deliver(self, parcels):
        return [*(await self.inner.deliver(parcels[:1])), *(Delivered() for _ in parcels[1:])]


class Exclusive(Faulty):
    """Cannot be called by two at once."""

    busy = False

    async def deliver(self, parcels):
        if self.busy:
            return [Unreachable("busy") for _ in parcels]
        self.busy = True
        outcomes = await self.inner.deliver(parcels)
        await asyncio.sleep(0)
        self.busy = False
        return outcomes


class Curt(Faulty):
    """Refuses what it cannot encode, and does not say why."""

    async def deliver(self, parcels):
        if any("\ud83d" in line.text for one in parcels for turn in one.turns for line in turn.lines):
            return [Refused("") for _ in parcels]
        return await self.inner.deliver(parcels)


class Choking(Faulty):
    async def deliver(self, parcels):
        for line in (line for one in parcels for turn in one.turns for line in turn.lines):
            line.text.encode()
        return await self.inner.deliver(parcels)


class Backwards(Faulty):
    async def deliver(self, parcels):
        return list(await self.inner.deliver(parcels[::-1]))[::-1]


class Clinging(Faulty):
    """Acknowledges that a turn is taken back, and keeps it."""

    async def deliver(self, parcels):
        return await self.inner.deliver([replace(one, gone=()) if one.op is Op.RETRACT else one for one in parcels])


class Grabbing(Faulty):
    """Takes back the whole unit with one of its turns."""

    async def deliver(self, parcels):
        return await self.inner.deliver([replace(one, gone=(1, 2, 3)) if one.gone else one for one in parcels])


class AddingOnly(Faulty):
    async def deliver(self, parcels):
        return await self.inner.deliver(
            [replace(one, note=replace(one.note, op="add")) if one.note else one for one in parcels]
        )


class Deaf(Faulty):
    """Acknowledges an erasure and erases nothing."""

    async def deliver(self, parcels):
        kept = [one for one in parcels if one.op is not Op.ERASE]
        outcomes = iter(await self.inner.deliver(kept))
        return [Delivered() if one.op is Op.ERASE else next(outcomes) for one in parcels]


class Scorched(Faulty):
    """Erases everybody."""

    async def deliver(self, parcels):
        return await self.inner.deliver([self.widened(one) for one in parcels])

    def widened(self, parcel):
        if parcel.op is Op.RETAIN:
            self.sent = (*getattr(self, "sent", ()), parcel.id)
        if parcel.erasure is None:
            return parcel
        return replace(parcel, erasure=replace(parcel.erasure, deliveries=self.sent))


class Repeating(Faulty):
    """Carries a repeated erasure out again."""

    n = 0

    async def deliver(self, parcels):
        self.n += 1
        return await self.inner.deliver(
            [replace(one, id=DeliveryId(f"{one.id}/{self.n}")) if one.op is Op.ERASE else one for one in parcels]
        )


class Blind(Faulty):
    """Recalls everything for everybody."""

    def __init__(self, inner):
        super().__init__(inner)
        self.lines = {}

    async def deliver(self, parcels):
        for one in parcels:
            self.lines.update({(one.id, line.seq): line for turn in one.turns for line in turn.lines})
        return await self.inner.deliver(parcels)

    async def recall(self, query):
        return [
            Recollection(provider=ProviderName("x"), text=one.text)
            for one in self.lines.values()
            if query.text in one.text
        ][:2]


class AllowingPrivate(Faulty):
    async def recall(self, query):
        return await self.inner.recall(replace(query, private_in_groups=True, group=False))


class Generous(Faulty):
    async def recall(self, query):
        return await self.inner.recall(replace(query, limit=20))


class Fragile(Faulty):
    async def recall(self, query):
        query.text.encode()
        return await self.inner.recall(query)


class Slamming(Faulty):
    closed = 0

    async def close(self):
        self.closed += 1
        await self.inner.close()
        if self.closed == 2:
            raise RuntimeError("closed already")


BROKEN = [
    (Unhealthy, suite.it_says_what_it_can_do),
    (Stumbling, suite.an_empty_call_delivers_nothing),
    (Boasting, suite.what_was_not_sent_has_not_landed),
    (Lying, suite.what_was_delivered_has_landed),
    (Doubling, suite.a_parcel_delivered_twice_has_the_effect_of_one),
    (OneOfACall, suite.every_parcel_of_a_call_gets_its_own_outcome),
    (Exclusive, suite.lanes_may_be_carried_side_by_side),
    (Curt, suite.any_text_is_taken_or_refused_with_a_reason),
    (Choking, suite.any_text_is_taken_or_refused_with_a_reason),
    (Backwards, suite.the_order_of_a_lane_is_kept),
    (Clinging, suite.a_turn_that_was_taken_back_is_gone_and_the_others_stay),
    (Grabbing, suite.a_turn_that_was_taken_back_is_gone_and_the_others_stay),
    (AddingOnly, suite.a_note_is_kept_until_it_is_replaced_or_removed),
    (Deaf, suite.an_erased_session_is_gone_and_others_stay),
    (Scorched, suite.an_erased_session_is_gone_and_others_stay),
    (Deaf, suite.an_erased_person_is_gone_and_others_stay),
    (Scorched, suite.an_erased_person_is_gone_and_others_stay),
    (Repeating, suite.an_erasure_delivered_twice_spares_what_was_said_since),
    (Blind, suite.another_agent_recalls_nothing),
    (Blind, suite.nobody_recalls_what_another_said_in_private),
    (Blind, suite.what_was_said_in_private_is_not_recalled_in_a_group),
    (AllowingPrivate, suite.what_was_said_in_private_is_not_recalled_in_a_group),
    (Blind, suite.what_a_group_said_is_not_recalled_by_a_stranger),
    (Blind, suite.what_an_agent_said_is_recalled_in_that_conversation_alone),
    (Generous, suite.no_question_breaks_it_and_the_limit_holds),
    (Fragile, suite.no_question_breaks_it_and_the_limit_holds),
    (Slamming, suite.closing_twice_is_harmless),
]


@pytest.mark.parametrize(("kind", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_broken_provider_is_named(kind, check, tmp_path):
    with pytest.raises(AssertionError, match=f"not so: {sentence(check)}"):
        await check_provider(making(tmp_path, kind), checks=(check,))


async def test_notes_that_double_are_seen(tmp_path):
    class NewKeys(Faulty):
        n = 0

        async def deliver(self, parcels):
            self.n += 1
            return await self.inner.deliver([replace(one, id=DeliveryId(f"{one.id}/{self.n}")) for one in parcels])

        async def landed(self, parcel):
            return Landing.LANDED

    with pytest.raises(AssertionError, match="a note delivered twice is one note"):
        await check_provider(making(tmp_path, NewKeys), checks=(suite.a_note_delivered_twice_is_one_note,))


def test_every_check_has_a_provider_that_it_sees():
    assert {check for _, check in BROKEN} | {suite.a_note_delivered_twice_is_one_note} == set(CHECKS)
