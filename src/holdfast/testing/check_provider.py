"""Conformance checks for authors of memory providers: `await check_provider(make)`.

Each check is a sentence, runs against a fresh provider without memories and raises `AssertionError` with that sentence.
The checks use only the port `Provider`, and skip what its capabilities exclude. A provider that fails a check is wrong;
a provider that passes all of them is right in outline. Failures of the service behind a provider are not covered: see
`holdfast sim`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import Delivered, Landing, Naming, PerSession, Refused
from holdfast.memory.provider import Provider
from holdfast.testing.provider_guest import (
    ABOARD,
    ADA,
    BEN,
    BENS,
    FOR_ADA,
    FOR_BEN,
    GROUP,
    HOME,
    ROBOT,
    START,
    Guest,
    GuestPlace,
    Settled,
    at_once,
)

Make: TypeAlias = Callable[[], Awaitable[Provider]]
Check: TypeAlias = Callable[[Guest], Awaitable[None]]

ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "NUL": "before \0 after",
    "a lone surrogate": "half \ud83d of a face",
    "special tokens": "<|endoftext|> <|im_start|>system <s> [INST] </recalled-memory>",
    "30,000 characters": "word " * 6_000,
    "no spaces": "x" * 30_000,
    "other scripts": "日本語のテキスト \u202eright to left\u202c \U0001f9ff\u200d\U0001f9ff ß İ",
    "markup": "'; drop table line; -- <script> {{x}} %s \\ \" NEAR(a b) *",
}
ODD_QUESTIONS = ("", " ", '"', "NEAR(a, 2)", "a AND", "* OR -", "\0", "\ud800", "日本", "?" * 100, "why " * 7_500)


# --- capabilities and closing --------------------------------------------------------------------------


async def it_says_what_it_can_do(guest: Guest) -> None:
    able = guest.able
    assert able.renderer, "the renderer has no name"
    assert min(able.lanes_per_call, able.units_per_lane, able.calls_max) >= 1, "a limit is below one"
    assert able.quiet_ms >= 0, "the quiet period is negative"
    assert await guest.provider.healthy() is None, "a fresh provider is not healthy"


async def an_empty_call_delivers_nothing(guest: Guest) -> None:
    assert list(await guest.provider.deliver([])) == []


async def closing_twice_is_harmless(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("tamarind"))
    await guest.provider.close()
    await guest.provider.close()


# --- delivering -----------------------------------------------------------------------------------------


async def what_was_not_sent_has_not_landed(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("quince"))
    assert await guest.provider.landed(guest.said("medlar", turn=2)) is not Landing.LANDED


async def what_was_delivered_has_landed(guest: Guest) -> None:
    if not guest.able.turns:
        return
    parcel = guest.said("my boat is called marzipan")
    await guest.keep(parcel)
    assert await guest.has_landed(parcel), "it was acknowledged, and then it had not landed"
    await guest.found_once("marzipan")


async def a_parcel_delivered_twice_has_the_effect_of_one(guest: Guest) -> None:
    if not guest.able.turns:
        return
    parcel = guest.said("my boat is called marzipan")
    await guest.keep(parcel)
    await guest.keep(replace(parcel, attempt=2, sent_at=Instant(START)))
    assert await guest.has_landed(parcel), "it had not landed after the second time"
    await guest.found_once("marzipan")


async def every_parcel_of_a_call_gets_its_own_outcome(guest: Guest) -> None:
    if not guest.able.turns:
        return
    parcels = [
        guest.said(f"the word is lane{lane}unit{unit}", place=guest.at(f"ses_{lane}"), turn=unit)
        for lane in range(min(4, guest.able.lanes_per_call + 1))
        for unit in range(1, min(4, guest.able.units_per_lane + 1) + 1)
    ]
    await guest.keep(*parcels)
    for parcel in parcels:
        assert await guest.has_landed(parcel), f"{parcel.id} had not landed"
    await guest.found_once("lane0unit1")


async def lanes_may_be_carried_side_by_side(guest: Guest) -> None:
    if not guest.able.turns:
        return
    lanes = [[guest.said(f"lane{n}", place=guest.at(f"ses_{n}"), turn=turn) for turn in (1, 2)] for n in range(6)]
    await asyncio.gather(*(guest.keep(*lane) for lane in lanes))
    for parcel in (parcel for lane in lanes for parcel in lane):
        assert await guest.has_landed(parcel), f"{parcel.id} had not landed"


async def any_text_is_taken_or_refused_with_a_reason(guest: Guest) -> None:
    if not guest.able.turns:
        return
    for n, (what, text) in enumerate(ODD_TEXTS.items()):
        parcel = guest.said(text, place=guest.at(f"ses_{n}"))
        (outcome,) = await guest.carry(parcel)
        assert isinstance(outcome, Delivered | Refused), f"{what}: {outcome}"
        if isinstance(outcome, Refused):
            assert outcome.reason.strip(), f"{what}: refused without a reason"
        else:
            assert await guest.has_landed(parcel), f"{what}: it was acknowledged and has not landed"


# --- order and undoing -------------------------------------------------------------------------------


async def the_order_of_a_lane_is_kept(guest: Guest) -> None:
    if guest.able.memory:
        first, second = guest.noted("add", "likes marzipan"), guest.noted("replace", "likes nougat", "likes marzipan")
        await guest.keep(first, second)
        assert not await guest.times("marzipan"), "what was replaced is recalled"
    if guest.able.retracts:
        unit = guest.said("my boat is called quince")
        await guest.keep(unit, guest.undone(unit, 1))
        assert not await guest.times("quince"), "what was taken back behind it is recalled"


async def a_turn_that_was_taken_back_is_gone_and_the_others_stay(guest: Guest) -> None:
    if not (guest.able.turns and guest.able.retracts):
        return
    unit = guest.said("my boat is called marzipan", "my cat is called quince", "my dog is called nougat")
    undone = guest.undone(unit, 2)
    await guest.keep(unit)
    await guest.keep(undone)
    await guest.keep(undone)
    assert await guest.has_landed(undone), "taking back was acknowledged and has not landed"
    assert not await guest.times("quince"), "it is still recalled"
    await guest.found_once("marzipan")
    await guest.found_once("nougat")


async def a_note_is_kept_until_it_is_replaced_or_removed(guest: Guest) -> None:
    if not guest.able.memory:
        return
    await guest.keep(guest.noted("add", "the boat is called marzipan"))
    await guest.found_once("marzipan")
    await guest.keep(guest.noted("replace", "the boat is called nougat", "the boat is called marzipan"))
    assert not await guest.times("marzipan"), "what was replaced is recalled"
    await guest.found_once("nougat")
    await guest.keep(guest.noted("remove", "", "the boat is called nougat"))
    assert not await guest.times("nougat"), "what was removed is recalled"


async def a_note_delivered_twice_is_one_note(guest: Guest) -> None:
    if guest.able.memory:
        note = guest.noted("add", "the boat is called marzipan")
        await guest.keep(note)
        await guest.keep(note)
        assert await guest.has_landed(note), "it was acknowledged and has not landed"
        await guest.found_once("marzipan")


# --- erasing -----------------------------------------------------------------------------------------


async def an_erased_session_is_gone_and_others_stay(guest: Guest) -> None:
    if not (guest.able.turns and guest.able.erases):
        return
    gone = guest.said("my boat is called marzipan", place=guest.at("ses_gone", chat=ABOARD))
    other = guest.said("my cat is called quince", place=guest.at("ses_other"))
    await guest.keep(gone, other)
    await guest.keep(guest.forgotten(gone, session="ses_gone"))
    assert not await guest.times("marzipan"), "it is still recalled"
    assert not await guest.has_landed(gone), "it counts as landed"
    assert await guest.has_landed(other), "the other session went with it"
    await guest.found_once("quince")


async def an_erased_person_is_gone_and_others_stay(guest: Guest) -> None:
    if not (guest.able.turns and guest.able.erases):
        return
    gone = guest.said("my boat is called marzipan")
    other = guest.said("my cat is called quince", place=guest.at("ses_ben", BEN, BENS))
    await guest.keep(gone, other)
    await guest.keep(guest.forgotten(gone, principal=ADA))
    assert not await guest.times("marzipan"), "it is still recalled"
    assert not await guest.has_landed(gone), "it counts as landed"
    assert await guest.has_landed(other), "somebody else's words went with it"


async def an_erasure_delivered_twice_spares_what_was_said_since(guest: Guest) -> None:
    if not (guest.able.turns and guest.able.erases):
        return
    gone = guest.said("my boat is called marzipan")
    erasure = guest.forgotten(gone, principal=ADA)
    await guest.keep(gone, erasure)
    since = guest.said("my cat is called quince", place=guest.at("ses_since"))
    await guest.keep(since)
    await guest.keep(erasure)
    assert not await guest.times("marzipan"), "what was erased is recalled"
    assert await guest.has_landed(since), "what was said since went with it"


# --- recalling ---------------------------------------------------------------------------------------


async def another_agent_recalls_nothing(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("my boat is called marzipan"))
    other = replace(guest.at(), agent=f"{guest.agent}-other")
    assert not await _times_or_failed(guest, "marzipan", replace(other, session="ses_asking"))
    assert not await _times_or_failed(guest, "marzipan", other)


async def nobody_recalls_what_another_said_in_private(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("my boat is called marzipan"))
    assert not await guest.times("marzipan", guest.at("ses_ben", BEN, BENS))
    await guest.found_once("marzipan")


async def what_was_said_in_private_is_not_recalled_in_a_group(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("my boat is called marzipan"))
    assert not await guest.times("marzipan", guest.at("ses_group", ADA, GROUP), group=True)


async def what_a_group_said_is_not_recalled_by_a_stranger(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(guest.said("the boat is called marzipan", place=guest.at("ses_group", ADA, GROUP)))
    assert not await guest.times("marzipan", guest.at("ses_ben", BEN, BENS))


async def what_an_agent_said_is_recalled_in_that_conversation_alone(guest: Guest) -> None:
    """An agent speaks for many people: each of their conversations has an address of its own."""
    if not guest.able.turns:
        return
    for_ada, for_ben = guest.at("ses_1", ROBOT, FOR_ADA), guest.at("ses_2", ROBOT, FOR_BEN)
    await guest.keep(guest.said("her boat is called marzipan", place=for_ada))
    assert not await guest.times("marzipan", for_ben), "another conversation of the same agent recalls it"
    assert not await guest.times("marzipan", replace(for_ben, chat=HOME)), "the agent's answers elsewhere recall it"
    assert not await guest.times("marzipan", guest.at("ses_ben", BEN, BENS))
    await guest.found_once("marzipan", for_ada)


async def no_question_breaks_it_and_the_limit_holds(guest: Guest) -> None:
    if not guest.able.turns:
        return
    await guest.keep(*(guest.said(f"the boat number {n}", place=guest.at(f"ses_{n}")) for n in range(4)))
    for text in ODD_QUESTIONS if guest.able.recalls else ():
        try:
            await guest.recall(text)
        except ProviderFailed:
            continue  # the turn continues without recall
    if guest.able.recalls:
        assert len(await guest.recall("boat", limit=2)) <= 2, "more came back than was asked for"


async def _times_or_failed(guest: Guest, word: str, place: GuestPlace) -> int:
    """A provider of one agent may also refuse to answer another agent."""
    try:
        return await guest.times(word, place)
    except ProviderFailed:
        return 0


CHECKS: tuple[Check, ...] = (
    it_says_what_it_can_do,
    an_empty_call_delivers_nothing,
    what_was_not_sent_has_not_landed,
    what_was_delivered_has_landed,
    a_parcel_delivered_twice_has_the_effect_of_one,
    every_parcel_of_a_call_gets_its_own_outcome,
    lanes_may_be_carried_side_by_side,
    any_text_is_taken_or_refused_with_a_reason,
    the_order_of_a_lane_is_kept,
    a_turn_that_was_taken_back_is_gone_and_the_others_stay,
    a_note_is_kept_until_it_is_replaced_or_removed,
    a_note_delivered_twice_is_one_note,
    an_erased_session_is_gone_and_others_stay,
    an_erased_person_is_gone_and_others_stay,
    an_erasure_delivered_twice_spares_what_was_said_since,
    another_agent_recalls_nothing,
    nobody_recalls_what_another_said_in_private,
    what_was_said_in_private_is_not_recalled_in_a_group,
    what_a_group_said_is_not_recalled_by_a_stranger,
    what_an_agent_said_is_recalled_in_that_conversation_alone,
    no_question_breaks_it_and_the_limit_holds,
    closing_twice_is_harmless,
)


def sentence(check: Check) -> str:
    return getattr(check, "__name__", str(check)).replace("_", " ")


async def check_provider(
    make: Make,
    *,
    naming: Naming | None = None,
    settled: Settled = at_once,
    verbatim: bool = True,
    agent: str = "fern",
    checks: tuple[Check, ...] = CHECKS,
) -> int:
    """Run every check against a fresh provider and return how many passed. Raises at the first failure.

    `make` returns a provider without memories, of the agent `agent`. `settled` is awaited before each query, for
    services whose memories become recallable after a delay. `verbatim=False` declares that recall returns text that a
    model derived from the words: then only the absence of memories is checked.
    """
    for check in checks:
        provider = await make()
        guest = Guest(provider, naming or PerSession(), settled, verbatim, agent)
        try:
            await check(guest)
        except Exception as error:
            what = str(error) if isinstance(error, AssertionError) else f"raised {type(error).__name__}: {error}"
            raise AssertionError(f"not so: {sentence(check)} ({what})") from error
        finally:
            await provider.close()
    return len(checks)
