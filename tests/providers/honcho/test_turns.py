"""Turns reach Honcho once each, whole, in order, under their own names; the first of them makes the session.

Rules: R14, R18.
"""

import asyncio
from dataclasses import replace

from holdfast.kernel.ids import SessionId
from holdfast.memory.delivery import Delivered, Landing, Op, Refused, Uncertain, Unreachable
from tests.support.honcho_kit import SAID_AT, carry, chat, naming, note, one, parcel, provider_on


def texts(server, place=None):
    return [row["content"] for row in server.messages(place)]


def turn_ids(server):
    return [row["metadata"]["turn_id"] for row in server.messages()]


async def test_a_turn_becomes_messages_of_the_person_and_the_agent(server, provider):
    sent = parcel(provider, 3, "hello", "hi", inputs=naming(address=chat(), parent="ses_0"))
    outcome = await one(provider, sent)
    assert isinstance(outcome, Delivered)
    assert "2 messages" in outcome.receipt
    said, answered = server.messages("chat-main-telegram-dm-42--")
    assert (said["content"], said["peer_id"]) == ("hello", "user-main-ada")
    assert (answered["content"], answered["peer_id"]) == ("hi", "agent-main")
    assert said["created_at"].startswith("2023-11-14T22:13:23")
    wanted = {"session": "ses_1", "parent": "ses_0", "turn": 3, "platform": "telegram", "user": "ada", "agent": "main"}
    assert wanted.items() <= said["metadata"].items()
    assert said["metadata"]["delivery"] == sent.id
    assert turn_ids(server) == [f"{sent.id}.0", f"{sent.id}.1"]
    assert SAID_AT + 3_000 == 1_700_000_003_000


async def test_the_first_message_makes_the_session_and_no_call_makes_an_empty_one(server, provider):
    given = parcel(provider, 1)
    assert await provider.healthy() is None
    assert await provider.landed(given) is Landing.ABSENT
    assert server.sessions() == []
    await one(provider, given)
    assert server.sessions() == [given.place]
    assert server.made_empty == []


async def test_parcels_of_a_lane_share_a_request_and_keep_their_order(server, provider):
    parcels = [parcel(provider, n) for n in range(1, 21)]
    outcomes = await provider.deliver(parcels)
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert texts(server) == [text for n in range(1, 21) for text in (f"question {n}", f"answer {n}")]
    assert server.count("POST", "/messages") == 1


async def test_more_than_a_hundred_messages_need_several_requests(server, provider):
    long = parcel(provider, 1, *[f"line {n}" for n in range(250)])
    assert isinstance(await one(provider, long), Delivered)
    assert texts(server) == [f"line {n}" for n in range(250)]
    assert server.count("POST", "/messages") == 3


async def test_a_parcel_of_which_a_part_landed_is_completed(server, provider):
    long = parcel(provider, 1, *[f"line {n}" for n in range(150)])
    server.fail_next("status", status=503, path="/messages/list")  # the listing after both requests
    assert isinstance(await one(provider, long), Uncertain)
    second = replace(long, attempt=2)
    server.workspaces["holdfast"].messages[:] = server.messages()[:100]
    assert await provider.landed(second) is Landing.ABSENT
    assert isinstance(await one(provider, second), Delivered)
    assert texts(server) == [f"line {n}" for n in range(150)]


async def test_a_request_that_fails_after_a_part_landed_is_uncertain(server, provider):
    await one(provider, parcel(provider, 9))
    long = parcel(provider, 1, *[f"line {n}" for n in range(150)])
    server.locked = _LockAfter(1)
    assert isinstance(await one(provider, long), Uncertain)
    server.locked = set()
    assert isinstance(await carry(provider, replace(long, attempt=2)), Delivered)
    assert texts(server)[2:] == [f"line {n}" for n in range(150)]


class _LockAfter(set[str]):
    """A session's lock that somebody takes after `free` requests."""

    def __init__(self, free: int) -> None:
        super().__init__()
        self._free = free

    def __contains__(self, _: object) -> bool:
        self._free -= 1
        return self._free < 0


async def test_thirty_thousand_characters_arrive_in_numbered_parts(server, provider):
    long = "ä" * 30_000
    assert isinstance(await one(provider, parcel(provider, 1, long, "ok")), Delivered)
    first, second, answer = server.messages()
    assert first["content"] + second["content"] == long
    assert [(row["metadata"]["part"], row["metadata"]["parts"]) for row in (first, second)] == [(1, 2), (2, 2)]
    assert answer["content"] == "ok"


async def test_bad_characters_are_sent_where_they_can_be_seen(server, provider):
    bad = "lone \ud800, nul \0, token <|endoftext|> and <\\|endoftext|>"
    assert isinstance(await one(provider, parcel(provider, 1, bad, "ok")), Delivered)
    assert texts(server)[0] == "lone \ufffd, nul \u2400, token <\\|endoftext|> and <\\\\|endoftext|>"


async def test_what_honcho_refuses_is_refused_alone(server, provider):
    server.poison = {"xyzzy"}
    parcels = [parcel(provider, 1), parcel(provider, 2, "say xyzzy", "no"), parcel(provider, 3)]
    outcomes = await provider.deliver(parcels)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Refused, Unreachable]
    assert "xyzzy" not in repr(outcomes)
    assert isinstance(await one(provider, parcels[2]), Delivered)
    assert turn_ids(server) == [f"{given.id}.{n}" for given in (parcels[0], parcels[2]) for n in (0, 1)]


async def test_nothing_is_written_for_nothing(server, provider):
    assert isinstance(await one(provider, parcel(provider, 1, "", "")), Delivered)
    assert server.requests == []


async def test_what_was_undone_cannot_be_taken_back(provider):
    assert not provider.capabilities.retracts
    assert isinstance(await one(provider, replace(parcel(provider, 1), op=Op.RETRACT)), Refused)


async def test_a_chat_keeps_its_session_across_new_sessions_and_restarts(server):
    for session in ("ses_1", "ses_2", "ses_3"):
        async with provider_on(server) as restarted:
            await one(restarted, parcel(restarted, 1, inputs=naming(session, address=chat())))
    assert server.sessions() == ["chat-main-telegram-dm-42--"]


async def test_what_was_stored_and_not_derived_is_still_delivered(server, provider):
    """The measured loss: Honcho is killed after its 201. Its picture of the person lacks the words; they are kept."""
    server.lose_derivation = True
    given = parcel(provider, 1)
    assert isinstance(await one(provider, given), Delivered)
    server.run_deriver()
    assert server.conclusions() == []
    assert await provider.landed(given) is Landing.LANDED


# --- the incident: fifty at once ---------------------------------------------------------------------------


async def test_fifty_concurrent_conclusions_and_turns_all_land_and_make_one_session(server, provider):
    inputs = naming(address=chat())
    turns = [parcel(provider, n, inputs=replace(inputs, session=SessionId(f"ses_{n}"))) for n in range(50)]
    notes = [note(provider, n, f"fact {n}") for n in range(50)]
    outcomes = await asyncio.gather(
        *(one(provider, given) for pair in zip(turns, notes, strict=True) for given in pair)
    )
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert server.sessions() == ["chat-main-telegram-dm-42--"]
    assert server.made_empty == []
    assert sorted(turn_ids(server)) == sorted(f"{given.id}.{n}" for given in turns for n in (0, 1))
    assert sorted(row["content"] for row in server.conclusions()) == sorted(f"fact {n}" for n in range(50))


# --- the incident: answers that are lost ---------------------------------------------------------------------


async def test_one_request_in_five_fails_and_every_turn_is_there_once(server):
    async with provider_on(server, timeout_s=0.3) as provider:
        faults = (
            {"kind": "drop_after"},
            {"kind": "reset_before"},
            {"kind": "status", "status": 500, "effect": True},
            {"kind": "status", "status": 502, "effect": True},
            {"kind": "status", "status": 503},
            {"kind": "html", "effect": True},
            {"kind": "lie", "path": "/messages$"},
            {"kind": "lie_empty", "path": "/messages$"},
        )
        server.fail_often(0.2, seed=7, faults=faults)
        lanes = [[parcel(provider, n, inputs=naming(f"ses_{lane}")) for n in range(6)] for lane in range(6)]

        async def run(lane):
            return [await carry(provider, given) for given in lane]

        outcomes = await asyncio.gather(*(run(lane) for lane in lanes))
    assert all(isinstance(outcome, Delivered) for lane in outcomes for outcome in lane)
    for lane in lanes:
        kept = [row["metadata"]["turn_id"] for row in server.messages(lane[0].place)]
        assert kept == [f"{given.id}.{n}" for given in lane for n in (0, 1)]


async def test_one_request_in_five_fails_and_every_note_is_there_once(server, provider):
    faults = ({"kind": "drop_after"}, {"kind": "reset_before"}, {"kind": "status", "status": 503})
    server.fail_often(0.2, seed=3, faults=faults)
    for n in range(30):
        assert isinstance(await carry(provider, note(provider, n, f"fact {n}")), Delivered)
    assert sorted(row["content"] for row in server.conclusions()) == sorted(f"fact {n}" for n in range(30))
