"""Effects at the providers: each turn once, in order and at its place (I7), of its speaker (I5), under a fence (I14).

The effects on the simulated servers are compared with the journal, not with the runtime's own ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from holdfast.memory.delivery import Op, Parcel
from holdfast.memory.lane import LaneKey
from holdfast.testing.checks_work import place_of, undone_turns
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.providers import ABLE
from holdfast.testing.rows import Row, body_of
from holdfast.testing.servers import Server
from holdfast.turns.journal import AssistantSaid, UserSaid

LANDED = frozenset({"delivered", "retracted"})
RETRY = "/retry"


def _effects(evidence: Evidence) -> Iterator[tuple[LaneKey, Parcel]]:
    for lane, server in evidence.servers.items():
        for parcel in server.effects:
            yield lane, parcel


def _units(evidence: Evidence) -> dict[str, Row]:
    return {row["id"]: row for row in evidence.rows["delivery"]}


# --- I7: once, in order --------------------------------------------------------------------------------------------


def effects_happen_at_the_providers_once(evidence: Evidence) -> Found:
    """I7: a delivered unit took effect once, a parked one at most once, a dropped one never."""
    times: Counter[str] = Counter(parcel.id for _, parcel in _effects(evidence))
    units = _units(evidence)
    for known, count in times.items():
        if known not in units:
            yield f"{known} took effect and is no delivery"
        elif count > 1:
            yield f"{known} ({units[known]['state']}) took effect {count} times"
    for id_, unit in units.items():
        if unit["state"] in LANDED and not times[id_]:
            yield f"{id_} is {unit['state']} and never took effect"
        was_in_doubt = unit["late"] or (unit["reason"] == "undone" and unit["attempt"])
        if unit["state"] == "dropped" and times[id_] and not was_in_doubt:
            yield f"{id_} is dropped ({unit['reason']}) and took effect"


def effects_follow_the_journal(evidence: Evidence) -> Found:
    """I7: at each place effects follow the order of the turns, except units that were once parked."""
    units = _units(evidence)
    for lane, server in evidence.servers.items():
        by_place: dict[str, list[Parcel]] = defaultdict(list)
        for parcel in server.effects:
            unit = units.get(parcel.id)
            if unit is not None and not unit["late"] and unit["state"] != "parked":
                by_place[parcel.place].append(parcel)
        for place, parcels in by_place.items():
            if any(units[b.id]["n"] <= units[a.id]["n"] for a, b in pairwise(parcels)):
                yield f"{lane.provider} has at {place} {[parcel.id for parcel in parcels]}"
            yield from _turns_in_order(parcels, place)


def _turns_in_order(parcels: list[Parcel], place: str) -> Found:
    said: dict[str, list[int]] = defaultdict(list)
    for parcel in parcels:
        if parcel.op is Op.RETAIN:
            said[parcel.session].extend(turn.n for turn in parcel.turns)
    for session, numbers in said.items():
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            yield f"the turns of {session} reached {place} as {numbers}"


# --- I7: the state at rest ----------------------------------------------------------------------------------


def providers_hold_what_counts(evidence: Evidence) -> Found:
    """I7: at rest each provider has every valid turn, and no undone turn if it supports retraction."""
    turns, units = evidence.rows.by("turn", "session"), evidence.rows.by("delivery", "stream", "provider")
    for session in evidence.rows["session"]:
        for policy in evidence.policies[session["agent"]].deliveries:
            server = evidence.servers.get(LaneKey(session["agent"], policy.provider))
            if session["purpose"] != "conversation":
                if server is not None and server.remembered(session["id"]):
                    yield f"{policy.provider} has turns of {session['id']}, a {session['purpose']}"
            elif session["state"] != "deleted" and server is not None:
                yield from _wrong_turns(
                    evidence,
                    session,
                    turns.get(session["id"], []),
                    units.get((session["id"], policy.provider), []),
                    server,
                )


def _wrong_turns(evidence: Evidence, session: Row, turns: list[Row], units: list[Row], server: Server) -> Found:
    there, undone = server.remembered(session["id"]), undone_turns(evidence, session["id"])
    for turn in turns:
        n = turn["n"]
        holding = [unit for unit in units if unit["from_turn"] <= n <= unit["through_turn"]]
        unit = next((one for one in holding if one["op"] == "retain" and one["state"] != "dropped"), None)
        if n in undone:
            if there[n] and not any(_is_visible(one) for one in holding):
                yield f"turn {n} of {session['id']} was undone and is there still: {[one['id'] for one in holding]}"
        elif unit is None:
            if there[n]:
                yield f"turn {n} of {session['id']} is there and in no unit"
        elif unit["state"] in LANDED and there[n] != 1:
            yield f"turn {n} of {session['id']} is {unit['state']} and there {there[n]} times"


def _is_visible(unit: Row) -> bool:
    """Whether a failed retraction explains that an undone turn is there."""
    if unit["op"] == "retain":
        return bool(unit["state"] == "parked")
    return unit["state"] == "parked" or (unit["state"] == "dropped" and not ABLE[unit["provider"]].retracts)


def lost_indexes_are_filled_again(evidence: Evidence) -> Found:
    """I7: a rebuilt index has every delivered unit, in order and once."""
    units = _units(evidence)
    for lane, server in evidence.servers.items():
        if not server.refills and not server.lost:
            continue
        at = [unit for unit in units.values() if _is_at(unit, lane) and unit["op"] != "erase"]  # leaves no unit
        landed = {unit["id"] for unit in at if unit["state"] in LANDED}
        if server.lost and landed:
            yield f"the index of {lane.provider} of {lane.agent} was lost and never filled again"
        missing = sorted(landed - server.index)
        if missing:
            yield f"the index of {lane.provider} of {lane.agent} lacks {missing}"
        for filled in server.refills:
            numbers = [units[id_]["n"] if id_ in units else -1 for id_ in filled]
            if any(later <= earlier for earlier, later in pairwise([0, *numbers])):
                yield f"the index of {lane.provider} of {lane.agent} was filled with {filled}"


def _is_at(unit: Row, lane: LaneKey) -> bool:
    return (unit["agent"], unit["provider"]) == (lane.agent, lane.provider)


def effects_are_what_was_said(evidence: Evidence) -> Found:
    """I7: a unit has the session, the place, the names and the words of its turns."""
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    entries = evidence.rows.by("entry", "session", "turn")
    for lane, parcel in _effects(evidence):
        unit = _units(evidence).get(parcel.id)
        if unit is None:
            continue
        where = (lane.agent, lane.provider, parcel.place, parcel.session)
        if where != (unit["agent"], unit["provider"], unit["place"], unit["stream"]):
            yield f"{parcel.id} of {unit['stream']} for {unit['place']} took effect at {where}"
        if parcel.op is Op.RETAIN and [turn.n for turn in parcel.turns] != _numbers(unit) and not unit["late"]:
            yield f"{parcel.id} holds the turns {[turn.n for turn in parcel.turns]}, not {_numbers(unit)}"
        for said in parcel.turns:
            turn = turns.get((unit["stream"], said.n))
            if turn is None:
                yield f"{parcel.id} holds turn {said.n}, which {unit['stream']} does not have"
                continue
            if (parcel.place, parcel.naming.address) != (place_of(turn, lane.provider, parcel.place), turn["place"]):
                yield f"turn {said.n} of {unit['stream']} was said in {turn['place']}; it is in {parcel.place}"
            words = [line for row in entries[unit["stream"], said.n] if (line := _words(row, lane.agent))]
            blank = evidence.lineage.sessions[unit["stream"]]["state"] == "deleted"
            if not blank and [(line.speaker, line.text) for line in said.lines] != words:
                yield f"{parcel.id} says other words than turn {said.n}"


def _numbers(unit: Row) -> list[int]:
    return list(range(unit["from_turn"], unit["through_turn"] + 1))


def _words(entry: Row, agent: str) -> tuple[str, str] | None:
    body = body_of(entry) if entry["kind"] in {"user", "assistant"} else None
    if isinstance(body, UserSaid):
        return body.principal, body.text
    if isinstance(body, AssistantSaid) and body.text.strip():
        return agent, body.text
    return None


def marks_are_true(evidence: Evidence) -> Found:
    """I7: the settled mark is before every open delivery and, at rest, equals the scheduled mark."""
    for cursor in evidence.rows["cursor"]:
        session = evidence.lineage.sessions.get(cursor["stream"])
        is_deleted = session is not None and session["state"] == "deleted"
        if cursor["settled_seq"] != cursor["scheduled_seq"] and not is_deleted:
            name = f"{cursor['provider']} of {cursor['stream']}"
            yield f"{name} is settled up to {cursor['settled_seq']} and scheduled up to {cursor['scheduled_seq']}"


# --- I5 ------------------------------------------------------------------------------------------------------------


def speakers_stay_the_same(evidence: Evidence) -> Found:
    """I5: the principal is the same in a message, its turn, its deliveries and their effects.

    A `/retry` may repeat the words of another person: the turn stays that person's.
    """
    turns = {(row["session"], row["n"]): row["principal"] for row in evidence.rows["turn"]}
    for row in evidence.rows["inbound"]:
        speaker = turns.get((row["session"], row["turn"]))
        if speaker is not None and speaker != row["principal"] and evidence.texts.get(row["event_id"]) != RETRY:
            yield f"{row['event_id']} of {row['principal']} is in a turn of {speaker}"
    for row in evidence.rows["entry"]:
        said = body_of(row) if row["kind"] == "user" else None
        speaker = turns.get((row["session"], row["turn"]))
        if not isinstance(said, UserSaid) or speaker is None or not said.message:
            continue  # a recorded turn has the principal that the program named
        if said.principal != speaker:
            yield f"entry {row['seq']} of {row['session']} by {said.principal} is in a turn of {speaker}"
    for unit in evidence.rows["delivery"]:
        speakers = {turns.get((unit["stream"], n)) for n in _numbers(unit)}
        if speakers != {unit["principal"]}:
            yield f"{unit['id']} of {unit['principal']} holds turns of {sorted(map(str, speakers))}"
    for _, parcel in _effects(evidence):
        speakers = {turns.get((parcel.session, turn.n)) for turn in parcel.turns}
        if speakers and speakers != {parcel.principal}:
            yield f"{parcel.id} took effect for {parcel.principal}; it was said by {sorted(map(str, speakers))}"


# --- I14 -----------------------------------------------------------------------------------------------------------


def lanes_are_fenced(evidence: Evidence) -> Found:
    """I14: every write to a delivery has the fence of its lane; a fence has one owner."""
    for unit in evidence.rows["delivery"]:
        if unit["fence"] != unit["lease_fence"]:
            yield f"{unit['id']} was written with fence {unit['fence']} while its lane had {unit['lease_fence']}"
    owners: dict[tuple[LaneKey, str, int], set[str]] = defaultdict(set)
    for claim in evidence.lane_claims:
        owners[claim.key, claim.place, claim.fence].add(claim.node)
    for (lane, place, fence), nodes in owners.items():
        if len(nodes) > 1:
            yield f"fence {fence} of {lane.provider} at {place} was given to {len(nodes)} nodes"
