"""I6: a recollection belongs to the turn that requested it, and is used nowhere else.

A recollection of a simulated provider contains the key of its lookup, so its origin is known wherever it appears.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.inbox.agent_chain import PRINCIPALS
from holdfast.memory.recall import RecallQuery
from holdfast.memory.visibility import is_group
from holdfast.testing.clock import START_MS
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row, body_of
from holdfast.turns.journal import Recalled
from holdfast.turns.model import ModelTask

TOKEN = re.compile(r"<(\d+)\|([^|>]+)\|(\d+)\|(\d+)\|([^|>]+)>")


@dataclass(frozen=True, slots=True)
class Key:
    session: str
    epoch: int
    head_seq: int
    principal: str


def _tokens(text: str) -> Iterator[tuple[int, Key]]:
    for n, session, epoch, head, principal in TOKEN.findall(text):
        yield int(n), Key(session, int(epoch), int(head), principal)


def recalls_belong_to_their_turn(evidence: Evidence) -> Found:
    """A recall has the session, epoch, head and principal of its turn, and one lookup serves one turn."""
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    users: dict[int, set[tuple[str, int]]] = defaultdict(set)
    epochs: dict[str, int] = {}
    for entry in sorted(evidence.rows["entry"], key=lambda row: (row["session"], row["seq"])):
        body = body_of(entry) if entry["kind"] == "recall" else None
        if not isinstance(body, Recalled):
            continue
        turn = turns[entry["session"], entry["turn"]]
        key = Key(body.session, body.epoch, body.head_seq, body.principal)
        yield from _wrong_key(entry, turn, key)
        if key.epoch < epochs.get(key.session, 1) or key.epoch > evidence.lineage.sessions[entry["session"]]["epoch"]:
            yield f"entry {entry['seq']} of {entry['session']} was recalled in epoch {key.epoch}"
        epochs[key.session] = key.epoch
        for n, fetched_for in _tokens(body.text):
            users[n].add((entry["session"], entry["turn"]))
            if fetched_for != key:
                yield f"entry {entry['seq']} of {entry['session']} shows what was recalled for {fetched_for}"
    yield from (f"lookup {n} is shown in {sorted(several)}" for n, several in users.items() if len(several) > 1)


def _wrong_key(entry: Row, turn: Row, key: Key) -> Found:
    expected = (turn["session"], turn["first_seq"] - 1, turn["principal"])
    if (key.session, key.head_seq, key.principal) != expected:
        yield f"entry {entry['seq']} of {entry['session']} was recalled for {key}, not for {expected}"


def recalls_stay_where_they_are(evidence: Evidence) -> Found:
    """No recollection is delivered, summarised, sent, or shown to the model in another turn."""
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    for server in evidence.servers.values():
        for parcel in server.effects:
            if any(TOKEN.search(line.text) for turn in parcel.turns for line in turn.lines):
                yield f"{parcel.id} delivers what was recalled"
    for row in evidence.rows["summary"]:
        if TOKEN.search(bytes(row["body"]).decode()):
            yield f"summary {row['n']} of {row['session']} holds what was recalled"
    for asked in evidence.asked:
        turn = turns.get((asked.session, asked.turn))
        for n, key in (found for message in asked.messages for found in _tokens(message.content)):
            in_vain = turn is None or (turn["closed_at"] is not None and asked.at_ms >= turn["closed_at"])
            if asked.task is not ModelTask.REPLY or key.session != asked.session:
                yield f"lookup {n} for {key.session} is shown to a {asked.task.value} of {asked.session}"
            elif turn is not None and not in_vain and key.head_seq != turn["first_seq"] - 1:
                yield f"lookup {n} for entry {key.head_seq} is shown in turn {asked.turn} of {asked.session}"


def lookups_say_who_reads(evidence: Evidence) -> Found:
    """A provider is given the true principal and audience of a query, because it filters its results by them."""
    homes = {row["address"]: row["id"] for row in evidence.rows["mailbox"]}
    turns = evidence.rows.by("turn", "mailbox")
    retries = _retries(evidence)
    shown = {n for entry in evidence.rows["entry"] for n in _shown_by(entry)}
    for lookup in evidence.lookups:
        query = lookup.query
        is_operators = not query.key.session  # a query outside any conversation
        if query.agent != lookup.lane.agent or (query.naming.address not in homes and not is_operators):
            yield f"lookup {lookup.n} for {query.naming.address} was asked of {lookup.lane.agent}"
        is_agents = query.key.principal.startswith(PRINCIPALS)  # an agent acts for many people
        here = [] if is_operators else turns.get(homes.get(query.naming.address, ""), [])
        readers = [*here, *(one for row in here for one in retries.get((row["session"], row["n"]), ()))]
        alone = _is_chat_alone(evidence, query, readers, shown=lookup.n in shown)
        if query.group not in alone or (is_agents and query.askers):
            yield f"lookup {lookup.n} for {query.naming.address} says that it is for that chat alone: {query.group}"
        if (query.naming.session, query.naming.principal) != (query.key.session, query.key.principal):
            yield f"lookup {lookup.n} for {query.key.session} names {query.naming.session}"


def _retries(evidence: Evidence) -> dict[tuple[str, int], list[Row]]:
    """By turn: the sender of the /retry that opened it, as a speaker before it. No other command opens a turn."""
    opened = {(row["session"], row["n"]): row["opened_at"] for row in evidence.rows["turn"]}
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in evidence.rows["inbound"]:
        turn = row["session"], row["turn"]
        if row["kind"] == "command" and turn in opened:
            seen = {"session": "", "n": 0, "first_seq": 0, "principal": row["principal"], "opened_at": opened[turn] - 1}
            found[turn].append(seen)
    return found


def _shown_by(entry: Row) -> Iterator[int]:
    """The lookups whose answers a turn was shown."""
    body = body_of(entry) if entry["kind"] == "recall" else None
    return (n for n, _ in _tokens(body.text)) if isinstance(body, Recalled) else iter(())


def _is_chat_alone(evidence: Evidence, query: RecallQuery, here: Sequence[Row], *, shown: bool) -> set[bool]:
    """Whether recall is limited to the words of the chat: in a group, for an agent, and once others have spoken there.

    Both answers are possible if others spoke at another time than the querying turn, or were linked to its speaker for
    a while. The recollections shown in a turn are judged by the links at its beginning: those prefetched before an
    unlink are not shown. Those that are not shown may have been prefetched at the end of the turn before, when others
    had not spoken yet.
    """
    if is_group(query.naming.address) or query.key.principal.startswith(PRINCIPALS):
        return {True}
    me = query.key.principal
    others = [row for row in here if row["principal"] != me and not row["principal"].startswith(PRINCIPALS)]
    if not others:
        return {False}
    asking = [
        row["opened_at"]
        for row in here
        if (row["session"], row["first_seq"] - 1, row["principal"]) == (query.key.session, query.key.head_seq, me)
    ]
    if asking and not shown:
        ends = (query.key.session, query.key.head_seq)
        before = [row for row in here if row.get("closed_at") and (row["session"], row["last_seq"]) == ends]
        asking += [row["closed_at"] for row in before]

    def is_shared(at: int) -> bool:
        when = at if shown else None
        return any(row["opened_at"] < at and not _may_be_linked(evidence, me, row["principal"], when) for row in others)

    return {True} if asking and all(map(is_shared, asking)) else {True, False}


def _may_be_linked(evidence: Evidence, one: str, other: str, at_ms: int | None) -> bool:
    """Whether the two may have been linked at that time, or ever."""
    since, until = (0, float("inf")) if at_ms is None else (_seconds(at_ms), _seconds(at_ms + 1))
    company = evidence.company
    return company is not None and company.identities.may_be_one(one, other, since, until)


def _seconds(at_ms: int) -> float:
    return (at_ms - START_MS) / 1000
