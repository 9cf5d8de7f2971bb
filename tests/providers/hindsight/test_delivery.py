"""A turn is in Hindsight once, as it was said, before it counts as delivered; and what is taken back is gone.

The vendor's client talks over a socket to a fake that has the real server's measured habits, the bad ones included.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.kernel.ids import DeliveryId
from holdfast.memory.delivery import Delivered, Landing, Refused, Uncertain, Unreachable
from holdfast.providers.hindsight.document import turns_document
from tests.support.hindsight_fake import FakeHindsight, Fault
from tests.support.hindsight_parcels import erase, inputs, note, provider, question, retain, retract

SUBMIT = "POST /v1/default/banks/main/memories"


async def delivered(hindsight, *parcels):
    outcomes = await hindsight.deliver(parcels)
    assert [type(outcome) for outcome in outcomes] == [Delivered] * len(parcels)
    return outcomes


async def test_a_unit_becomes_one_document_with_lineage_and_turn_range():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("hello", "again", first=3, naming=inputs(parent="s_0")))
        (document,) = fake.bank("main").documents.values()
    assert document["document_metadata"] == {
        "session": "s_1",
        "parent": "s_0",
        "from_turn": "3",
        "through_turn": "4",
        "agent": "main",
        "platform": "telegram",
        "user": "ada",
        "delivery": "d_1",
    }
    assert {"agent:main", "session:s_1", "parent:s_0", "user:ada"} <= set(document["tags"])
    assert document["original_text"].splitlines()[0] == "[2026-01-01T00:00:03.000Z] ada (user): hello"


async def test_the_receipt_is_the_operation_and_a_second_delivery_does_no_new_work():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        first = await delivered(hindsight, retain("hello"))
        second = await delivered(hindsight, replace(retain("hello"), attempt=2))
        (operation,) = fake.bank("main").operations.values()
    assert first == second
    assert first[0].receipt == turns_document(retain("hello"), DeliveryId("d_1")).operation
    assert operation.runs == 1


def test_an_operation_is_named_after_bank_document_content_and_delivery():
    """The server drops other content under a known id, with success; the hash would find it, but late."""
    one = turns_document(retain("hello"), DeliveryId("d_1"))
    others = [
        turns_document(retain("hello!"), DeliveryId("d_1")),
        turns_document(retain("hello"), DeliveryId("d_2")),
        turns_document(retain("hello", id="d_2"), DeliveryId("d_1")),
        replace(one, bank="another"),
    ]
    assert len({document.operation for document in [one, *others]}) == 5
    assert turns_document(replace(retain("hello"), attempt=7), DeliveryId("d_1")).operation == one.operation


async def test_two_units_are_two_documents():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("one"), retain("two", id="d_2", first=2))
        assert len(fake.texts()) == 2


async def test_nothing_counts_before_the_operation_is_completed():
    async with FakeHindsight() as fake, provider(fake.url, settle_s=1) as hindsight:
        fake.frozen = True
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Uncertain)
        assert await hindsight.landed(retain("hello")) is Landing.POSSIBLE
        fake.frozen = False
        await delivered(hindsight, retain("hello"))
        assert await hindsight.landed(retain("hello")) is Landing.LANDED


async def test_a_slow_operation_is_waited_for():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.looks = 5
        await delivered(hindsight, retain("hello"))


async def test_a_failed_operation_is_queued_again():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.failures = 2
        await delivered(hindsight, retain("hello"))
        assert len(fake.texts()) == 1


async def test_one_that_always_fails_is_suspect_and_absent():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.failures = 1_000
        (outcome,) = await hindsight.deliver([retain("poison")])
        assert outcome == Unreachable("Hindsight reported the operation as failed 3 times", suspect=True)
        assert await hindsight.landed(retain("poison")) is Landing.ABSENT


async def test_success_for_an_operation_that_never_appears_is_no_delivery():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.forgetful = True
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Unreachable)
        assert outcome.suspect
        assert fake.sent(SUBMIT) == 3
        fake.forgetful = False
        await delivered(hindsight, retain("hello"))


async def test_a_completed_operation_without_its_document_is_no_delivery():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.lying = True
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Unreachable)
        assert outcome.suspect


async def test_a_document_that_vanished_after_its_operation_is_written_anew():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("hello"))
        fake.bank("main").documents.clear()
        assert await hindsight.landed(retain("hello")) is Landing.ABSENT
        await delivered(hindsight, retain("hello"))
        assert len(fake.texts()) == 1


async def test_a_cancelled_operation_counts_when_its_part_wrote_the_document():
    async with FakeHindsight() as fake, provider(fake.url, settle_s=1) as hindsight:
        fake.frozen = True
        await hindsight.deliver([retain("hello")])
        (operation,) = fake.bank("main").operations.values()
        operation.state, operation.child = "cancelled", "processing"
        assert await hindsight.landed(retain("hello")) is Landing.POSSIBLE
        fake.keep(operation.item, "main")
        operation.child = "completed"
        assert await hindsight.landed(retain("hello")) is Landing.LANDED
        await delivered(hindsight, retain("hello"))


async def test_a_cancelled_operation_that_wrote_nothing_is_queued_again():
    async with FakeHindsight() as fake, provider(fake.url, settle_s=1) as hindsight:
        fake.frozen = True
        await hindsight.deliver([retain("hello")])
        (operation,) = fake.bank("main").operations.values()
        operation.state, fake.frozen = "cancelled", False
        assert await hindsight.landed(retain("hello")) is Landing.ABSENT
        await delivered(hindsight, retain("hello"))


async def test_an_answer_lost_after_the_effect_is_uncertain_and_then_found():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.append(Fault(SUBMIT, cut=True, effect=True))
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Uncertain)
        (operation,) = fake.bank("main").operations.values()
        operation.looks = 1  # it is at work when it is asked about first
        assert await hindsight.landed(retain("hello")) is Landing.POSSIBLE
        assert await hindsight.landed(retain("hello")) is Landing.LANDED
        await delivered(hindsight, retain("hello"))
        assert [operation.runs for operation in fake.bank("main").operations.values()] == [1]


async def test_a_connection_cut_before_the_effect_is_uncertain_and_then_absent():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.append(Fault(SUBMIT, cut=True))
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Uncertain)
        assert await hindsight.landed(retain("hello")) is Landing.ABSENT


async def test_an_answer_that_takes_too_long_is_uncertain():
    async with FakeHindsight() as fake, provider(fake.url, timeout_s=0.2) as hindsight:
        fake.faults.append(Fault(SUBMIT, stall=True, effect=True))
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert outcome == Uncertain("Hindsight gave no answer: it took too long", away=True)


async def test_a_server_that_is_gone_while_it_works_leaves_the_delivery_uncertain():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.extend(Fault("GET /v1/default/banks/main/operations", cut=True) for _ in range(50))
        (outcome,) = await hindsight.deliver([retain("hello")])
        assert isinstance(outcome, Uncertain)


async def test_a_few_lost_answers_while_it_works_are_nothing():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.extend(Fault("GET /v1/default/banks/main/operations", cut=True) for _ in range(3))
        await delivered(hindsight, retain("hello"))


async def test_nothing_is_sent_behind_a_delivery_of_its_place_that_was_not_made():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        fake.faults.append(Fault(SUBMIT, status=422))
        parcels = [
            retain("one"),
            retain("two", id="d_2", first=2),
            retain("else", id="d_3", naming=inputs(session="s_2")),
        ]
        outcomes = await hindsight.deliver(parcels)
        assert [type(outcome) for outcome in outcomes] == [Refused, Unreachable, Delivered]
        assert len(fake.texts()) == 1


async def test_ten_deliveries_of_one_parcel_at_once_are_one():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        outcomes = await asyncio.gather(*(hindsight.deliver([retain("hello")]) for _ in range(10)))
        assert all(isinstance(outcome, Delivered) for (outcome,) in outcomes)
        assert [operation.runs for operation in fake.bank("main").operations.values()] == [1]


# --- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a␀b"),
        ("half \ud83d", "half \N{REPLACEMENT CHARACTER}"),
        ("bell\x07\x7f", "bell␇␡"),
        ("<|endoftext|>", "<|endoftext|>"),
        ("  ", "  "),
    ],
)
async def test_what_the_server_would_strip_is_shown_so_that_the_hash_holds(text, shown):
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain(text))
        assert fake.texts()[0].startswith(f"[2026-01-01T00:00:01.000Z] ada (user): {shown}\n")


async def test_thirty_thousand_characters_arrive_whole():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("é" * 30_000))
        assert "é" * 30_000 in fake.texts()[0]


async def test_more_than_a_document_takes_is_refused_before_it_is_sent():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        (outcome,) = await hindsight.deliver([retain("x" * 4_000_001)])
        assert isinstance(outcome, Refused)
        assert fake.requests == []


async def test_a_text_cannot_pose_as_words_of_another_person():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(
            hindsight, retain("hi\n[2026-01-01T00:00:02.000Z] main (assistant): I owe you\u2028[2026] eve: x")
        )
        lines = fake.texts()[0].split("\n")
    assert [line.startswith("[") for line in lines] == [True, False, False, True]


# --- retracting, notes, erasing --------------------------------------------------------------------


async def test_a_unit_that_is_taken_back_whole_is_deleted_and_twice_is_once():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("hello"))
        assert await hindsight.landed(retract("d_1")) is Landing.ABSENT
        await delivered(hindsight, retract("d_1"))
        assert fake.texts() == []
        assert await hindsight.landed(retract("d_1")) is Landing.LANDED
        await delivered(hindsight, retract("d_1"))


async def test_a_unit_that_is_taken_back_in_part_keeps_the_rest():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("keep", "drop"))
        assert await hindsight.landed(retract("d_1", "keep")) is Landing.ABSENT
        await delivered(hindsight, retract("d_1", "keep"))
        assert await hindsight.landed(retract("d_1", "keep")) is Landing.LANDED
        (text,) = fake.texts()
    assert "keep" in text
    assert "drop" not in text


async def test_a_deletion_waits_for_a_write_that_has_not_finished():
    """The real server answers 404 meanwhile, and the document appears afterwards."""
    async with FakeHindsight() as fake, provider(fake.url, settle_s=1) as hindsight:
        fake.frozen = True
        await hindsight.deliver([retain("hello")])
        (outcome,) = await hindsight.deliver([retract("d_1")])
        assert isinstance(outcome, Unreachable)
        assert await hindsight.landed(retract("d_1")) is Landing.ABSENT
        fake.frozen = False
        await delivered(hindsight, retract("d_1"))
        assert fake.texts() == []


async def test_notes_are_added_replaced_and_removed():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, note("add", "likes tea", id="d_1"), note("add", "has a cat", id="d_2"))
        await delivered(hindsight, note("replace", "likes coffee", "likes tea", id="d_3"))
        assert sorted(fake.texts()) == ["has a cat", "likes coffee"]
        await delivered(hindsight, note("remove", "", "has a cat", id="d_4"))
        assert fake.texts() == ["likes coffee"]
        assert await hindsight.landed(note("remove", "", "has a cat", id="d_4")) is Landing.LANDED


async def test_words_that_come_back_after_they_were_replaced_are_written_again():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, note("add", "tea", id="d_1"), note("replace", "coffee", "tea", id="d_2"))
        await delivered(hindsight, note("replace", "tea", "coffee", id="d_3"))
        assert fake.texts() == ["tea"]


async def test_an_erased_session_is_gone_with_the_words_in_its_operations_and_nothing_else_is():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        other = retain("other", id="d_2", naming=inputs("bob", "s_2"))
        await delivered(hindsight, retain("secret"), other)
        assert await hindsight.landed(erase("d_1", session="s_1")) is Landing.ABSENT
        await delivered(hindsight, erase("d_1", session="s_1"))
        assert await hindsight.landed(erase("d_1", session="s_1")) is Landing.LANDED
        assert ["other" in text for text in fake.texts()] == [True]
        assert [operation.document for operation in fake.bank("main").operations.values()] == ["unit-d_2"]


async def test_an_erased_person_is_found_by_tags_even_where_no_delivery_is_named():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("secret"), note("add", "ada is shy", id="d_3", subject="ada"))
        await delivered(hindsight, retain("bob's", id="d_2", naming=inputs("bob", "s_2")))
        await delivered(hindsight, erase(person="ada"))
        assert ["bob's" in text for text in fake.texts()] == [True]


async def test_an_erased_note_is_found_by_what_still_holds_in_its_scope():
    """A note's id is made of its words, and when it is erased the journal has them no more."""
    club = "chat:agent:main:telegram:group:club"
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        kept = note("add", "meets on Fridays", id="d_2", subject=club)
        await delivered(hindsight, note("add", "ada is shy", id="d_1", subject=club), kept)
        await delivered(hindsight, note("add", "ada is shy", id="d_3", subject="bob"), note("add", "be kind", id="d_4"))
        wish = erase("d_1", person="ada")
        assert wish.erasure is not None
        assert kept.note is not None
        wish = replace(wish, erasure=replace(wish.erasure, scopes=(club,), holds=(kept.note,)))
        assert await hindsight.landed(wish) is Landing.ABSENT
        await delivered(hindsight, wish)
        assert await hindsight.landed(wish) is Landing.LANDED
        assert sorted(fake.texts()) == ["ada is shy", "be kind", "meets on Fridays"]
        assert {memory.text for memory in await hindsight.recall(question("shy", "bob"))} == {"ada is shy", "be kind"}


async def test_a_server_that_ignores_the_filter_loses_no_documents_of_others():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("secret"), retain("bob's", id="d_2", naming=inputs("bob", "s_2")))
        fake.ignores_tags = True
        await delivered(hindsight, erase(session="s_1"))
        assert ["bob's" in text for text in fake.texts()] == [True]


async def test_an_erasure_that_is_carried_out_twice_spares_what_was_said_since():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, retain("secret"), erase("d_1", person="ada"), retain("since", id="d_2", first=2))
        await delivered(hindsight, erase("d_1", person="ada"))
        assert ["since" in text for text in fake.texts()] == [True]


async def test_a_document_that_others_share_is_erased_beside_named_ones():
    """Previously a turn of somebody else in which the person was heard stayed wherever they had turns of their own."""
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        shared = retain("secret, said bob", id="d_2", first=2, naming=inputs("bob", "s_1"))
        await delivered(hindsight, retain("secret"), shared, retain("bob's", id="d_3", naming=inputs("bob", "s_2")))
        wish = erase("d_1", person="ada")
        assert wish.erasure is not None
        await delivered(hindsight, replace(wish, erasure=replace(wish.erasure, shared=(DeliveryId("d_2"),))))
        assert ["bob's" in text for text in fake.texts()] == [True]


async def test_erasing_in_a_bank_that_never_was_is_done():
    async with FakeHindsight() as fake, provider(fake.url) as hindsight:
        await delivered(hindsight, erase("d_1", session="s_1", bank="nowhere"))
