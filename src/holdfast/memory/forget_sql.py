"""Forgetting: one transaction that blanks the words and schedules the erasures, and the receipts that follow (D25).

The request and every receipt are rows, so that any process can continue after a crash with the remaining work: bytes to
scrub, erasures to deliver, and copies that recall made before a provider erased the words.

At the providers, unsent units are dropped, and for sent units an erasure is appended to their lane. A unit that is
being sent, or may have landed, stays on its lane: the erasure is sent after the unit is settled, so that
a late request cannot restore the words. Lanes are locked before the check which units were sent.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.identity_sql import linked_principals, withdraw
from holdfast.kernel.errors import ForgetNotFound, IdempotencyConflict, SessionNotFound
from holdfast.kernel.ids import AgentName, ForgetId, SessionId
from holdfast.memory.cursor_sql import DROP, LOCK_LANE, STANDING, UNIT, DeliveryRow, add_deliveries
from holdfast.memory.forget import ErasurePart, ForgetRequest, Forgetting
from holdfast.memory.forget_person_sql import FORGOTTEN, Blanked, blank_person, halt_turn, leave_mailbox
from holdfast.memory.notes import stream_of
from holdfast.memory.parcel_sql import ERASE_PERSON, ERASE_SESSION, ERASE_UNITS
from holdfast.memory.provenance_sql import Found, Trail, find_unreadable, follow
from holdfast.memory.quotation_sql import find_quotations
from holdfast.memory.visibility import person_scope
from holdfast.sessions.session_sql import blank_session, lock_line
from holdfast.store.agent_lock_sql import hold_agents
from holdfast.store.script import Columns, Script, many, one, plain, rows, run, verb

COUNTS = msgspec.json.Decoder(dict[str, int])
FORGETTING = Columns(
    Forgetting,
    without=("parts",),
    agent="nullif(agent, '')",
    blanked=("blanked", COUNTS.decode),
    kept=("kept", COUNTS.decode),
)
PART = Columns(ErasurePart, "delivery", delivery="delivery.id")
BY_ID = f"select {FORGETTING} from forget where id = :id"
NEW = """
insert into forget (id, agent, kind, subject, requested_at, blanked)
values (:id, :agent, :kind, :subject, :now, '{}') on conflict (id) do nothing returning id"""
# If nothing was ever sent, recall cannot return the words, and no sweep is needed.
BLANKED = """
update forget
   set blanked = :blanked, kept = :kept,
       swept_at = case when exists (select 1 from forget_part where forget_part.forget = :id) then null
                       else requested_at end
 where id = :id"""
PARTS = f"""
select {PART}
  from forget_part join delivery on delivery.n = forget_part.n
 where forget_part.forget = :id order by delivery.n"""
AGENTS = """
select agent from session union select agent from mailbox union select agent from memory order by agent"""
SESSION_AGENT = "select agent from session where id = :session"
LOCK_LIVE = "select id from mailbox where session_id = :session order by id /*lock*/"
WORDS = "select count(*) from entry where session = :session and kind <> 'undo' and length(body) > 0"
ECHOES = """
update entry set body = :blank, tokens = 0
 where kind in ('observed', 'recall') and kind = 'recall' and length(body) > 0
   and session in (select id from session where agent = :agent) returning seq"""
NEWEST = "select id from forget order by requested_at desc, id desc limit 1"
OPEN = "select id from forget where scrubbed_at is null or swept_at is null order by requested_at limit :limit"
OPEN_MAX = 1_000
UNSCRUBBED = "select id from forget where scrubbed_at is null order by requested_at"
SCRUBBED = "update forget set scrubbed_at = :now, scrub_receipt = :receipt where id = :id and scrubbed_at is null"
SETTLED = """
select id, agent from forget
 where swept_at is null and not exists (
   select 1 from forget_part join delivery on delivery.n = forget_part.n
    where forget_part.forget = forget.id
      and (delivery.state <> 'delivered'
           or delivery.settled_at > cast(:now as int8) - cast(:quiet_ms as int8)))
 order by requested_at limit :limit /*skip locked*/"""
SWEPT = """
update forget set swept_at = :now, scrubbed_at = case when :found > 0 then null else scrubbed_at end where id = :id"""


@verb
def begin_forgetting(request: ForgetRequest, by: By = PROGRAM) -> Script[Forgetting]:
    """Blank the words and schedule the erasures.

    Raises `SessionNotFound`, and `IdempotencyConflict` for an id of another request.
    """
    agent = (yield from _agent(request)) if request.session is not None else request.agent or ""
    made = yield from one(NEW, id=request.id, agent=agent, kind=request.kind.value, subject=request.subject)
    if made is None:
        return (yield from _repeated(request))
    counts, kept = Counter[str](), dict[str, int]()
    every = yield from _agents()
    agents = [AgentName(agent)] if agent else every
    yield from hold_agents({*agents, *(every if request.person is not None else ())})
    if request.session is not None:
        counts += yield from _forget_session(request.id, AgentName(agent), request.session)
    if request.person is not None:
        people = yield from linked_principals(request.person)  # includes the person's accounts on other platforms
        trail = Trail(frozenset(people), frozenset(agents), set(every))
        counts += yield from _forget_person(request.id, trail)
        agents = [AgentName(name) for name in trail.reached]
        kept = {"answers": trail.kept_answers, "others_words": trail.others_words}
    for name in sorted(agents):
        yield from withdraw(name)
    yield from run(BLANKED, id=request.id, blanked=_encoded(counts), kept=_encoded(kept))
    act = Act.SESSION_FORGOTTEN if request.session is not None else Act.PERSON_FORGOTTEN
    yield from action_sql.record(act, by, request.subject, forget=request.id, agent=agent)
    return (yield from read_forgetting(request.id))


def _agent(request: ForgetRequest) -> Script[str]:
    row = yield from one(SESSION_AGENT, session=request.session)
    if row is None or request.agent not in (None, row[0]):
        raise SessionNotFound(f"there is no session {request.session}", session=request.session)
    return str(row[0])


def _agents() -> Script[list[AgentName]]:
    return [AgentName(agent) for (agent,) in (yield from rows(AGENTS))]


def _repeated(request: ForgetRequest) -> Script[Forgetting]:
    known = yield from read_forgetting(request.id)
    same = (known.kind, known.subject) == (request.kind, request.subject)
    if not same or (request.agent or (known.agent if request.session else None)) != known.agent:
        raise IdempotencyConflict(
            f"{request.id} was used before to forget another {known.kind.value}", forget=request.id
        )
    return known


def _forget_session(id_: ForgetId, agent: AgentName, session: SessionId) -> Script[Counter[str]]:
    yield from rows(LOCK_LIVE, session=session)
    yield from lock_line(session)
    yield from halt_turn(session)
    yield from leave_mailbox(session)
    (words,) = (yield from one(WORDS, session=session)) or (0,)
    units = yield from units_of(session)
    dropped = yield from erase_units(id_, f"{ERASE_SESSION}{session}", "", units)
    yield from blank_session(session)
    echoes = yield from _blank_echoes(agent)
    return Counter({"sessions": 1, "entries": words, "recalls": echoes, "cancelled": dropped})


def _forget_person(id_: ForgetId, trail: Trail) -> Script[Counter[str]]:
    yield from follow(trail)
    yield from find_unreadable(trail)
    search = yield from find_quotations(trail)
    blanked = yield from blank_person(trail, search)
    for agent in trail.reached:
        blanked.counts["recalls"] += yield from _blank_echoes(AgentName(agent))
    spared: set[int] = set()
    for stream, principal, units, shared in (yield from _erasures(id_, trail, blanked, spared)):
        blanked.counts["cancelled"] += yield from erase_units(id_, stream, principal, units, shared, spared=spared)
    return blanked.counts


def _erasures(
    id_: ForgetId, trail: Trail, blanked: Blanked, spared: set[int]
) -> Script[list[tuple[str, str, list[DeliveryRow], list[DeliveryRow]]]]:
    """The units to erase and the shared units, by the stream of the erasure. Adds to `spared` the numbers of units with
    quoting answers in turns of other people.

    An agent that only received the words from another agent has providers that do not know the person: their erasures
    name units.
    """
    first = min(trail.people)
    whose = {f"{ERASE_PERSON}{person}": person for person in sorted(trail.people)} | {f"{ERASE_UNITS}{id_}": ""}
    units = {stream: list[DeliveryRow]() for stream in whose}
    shared = {stream: list[DeliveryRow]() for stream in whose}

    def stream_for(unit: DeliveryRow) -> str:
        if unit.agent not in trail.agents:
            return f"{ERASE_UNITS}{id_}"
        return f"{ERASE_PERSON}{unit.principal if unit.principal in trail.people else first}"

    for session, found in sorted(trail.sessions.items()):
        for unit in (yield from units_of(session)):
            if goes_whole(unit, found, trail.people if unit.agent in trail.agents else frozenset()):
                units[stream_for(unit)].append(unit)
                spared |= {unit.n} if unit.turns & found.quoted else set()
            elif unit.turns & (found.heard | found.turns):
                (shared if unit.agent in trail.agents else units)[stream_for(unit)].append(unit)
    own = {stream_of(AgentName(agent), person_scope(who)): who for agent in trail.agents for who in trail.people}
    for stream in sorted({*own, *blanked.notes}):
        noted = blanked.notes.get(stream, set())
        for unit in (yield from units_of(stream)):
            if stream in own or unit.from_seq in noted:
                whom = f"{ERASE_PERSON}{own[stream]}" if stream in own else stream_for(unit)
                units[whom].append(unit)
    return [(stream, whose[stream], units[stream], shared[stream]) for stream in whose]


def goes_whole(unit: DeliveryRow, found: Found, people: frozenset[str]) -> bool:
    """Whether a provider erases a whole unit: it is entirely the person's, or it contains an answer to a passed-on
    message, an answer that repeats the words, or an unreadable answer. An answer cannot be erased by speaker."""
    if unit.principal in people or unit.turns <= found.turns:
        return True
    return bool(unit.turns & (found.passed | found.quoted | found.unreadable))


def _encoded(counts: Mapping[str, int]) -> str:
    return msgspec.json.encode(dict(counts)).decode()


def _blank_echoes(agent: AgentName) -> Script[int]:
    """Blank every recalled text of an agent: its sources are unknown, and its time does not tell whether it was
    committed before the request."""
    return len((yield from rows(ECHOES, agent=agent, blank=b"")))


# --- completion --------------------------------------------------------------------------------------


@verb
def find_newest_forgetting() -> Script[ForgetId | None]:
    row = yield from one(NEWEST)
    return None if row is None else ForgetId(row[0])


@verb
def list_open_forgettings() -> Script[tuple[ForgetId, ...]]:
    return tuple(ForgetId(id_) for (id_,) in (yield from rows(OPEN, limit=OPEN_MAX)))


@verb
def list_unscrubbed() -> Script[tuple[ForgetId, ...]]:
    """Requests whose words may still be in the store's files."""
    return tuple(ForgetId(id_) for (id_,) in (yield from rows(UNSCRUBBED)))


@verb
def mark_scrubbed(requests: Sequence[ForgetId], receipt: str) -> Script[None]:
    yield from many(SCRUBBED, [{"id": id_, "receipt": plain(receipt)} for id_ in requests])


SWEPT_MAX = 100  # requests per transaction


@verb
def sweep_forgotten(*, quiet_ms: int, limit: int = SWEPT_MAX) -> Script[int]:
    """Blank the copies that recall made between a request and its last provider receipt; the number of requests.

    If copies were found, the files are scrubbed again.
    """
    found = yield from rows(SETTLED, quiet_ms=quiet_ms, limit=limit)
    for id_, agent in found:
        echoes = 0
        for name in [AgentName(agent)] if agent else (yield from _agents()):
            echoes += yield from _blank_echoes(name)
        yield from run(SWEPT, id=id_, found=echoes)
    return len(found)


@verb
def read_forgetting(id_: ForgetId) -> Script[Forgetting]:
    row = yield from one(BY_ID, id=id_)
    if row is None:
        raise ForgetNotFound(f"nothing was asked to be forgotten under {id_!r}", forget=id_)
    return FORGETTING.value(row, parts=tuple((yield from PART.rows(PARTS, id=id_))))


# --- erasure at the providers -----------------------------------------------------------------------

UNITS = f"select {UNIT} from delivery where stream = :stream order by n"
# A unit in state sending or uncertain loses its hash when it is settled, before its erasure (lane_sql.py).
UNHASH = """
update delivery set payload_hash = null
 where n = :n and payload_hash is not null and state not in ('sending', 'uncertain')"""
NEXT_SEQ = "select coalesce(max(from_seq), 0) + 1 from delivery where stream = :stream and provider = :provider"
NUMBER = """
select n from delivery where stream = :stream and provider = :provider and from_seq = :seq and op = 'erase'"""
NAME_UNIT = "insert into erased_unit (erasure, unit, shared) values (:erasure, :unit, :shared)"
NEW_PART = "insert into forget_part (forget, n) values (:forget, :n)"


def units_of(stream: str) -> Script[list[DeliveryRow]]:
    """All units that were ever scheduled of a stream."""
    return (yield from UNIT.rows(UNITS, stream=stream))


def erase_units(
    forget: ForgetId,
    stream: str,
    principal: str,
    units: Sequence[DeliveryRow],
    shared: Sequence[DeliveryRow] = (),
    *,
    spared: Collection[int] = (),
) -> Script[int]:
    """Drop or erase the units; the number of dropped units. `stream` names the subject of the erasure.

    `spared` are numbers of units that also contain other speakers: if unsent, they are sent later without the blanked
    words. `shared` units contain other speakers too: they are not dropped, and their providers erase by speaker.
    """
    for agent, provider, place in sorted({unit.lane for unit in (*units, *shared)}):
        yield from run(LOCK_LANE, agent=agent, provider=provider, place=place)
    dropped, sent = 0, dict[tuple[str, str, str], list[tuple[str, int]]]()
    for unit in units:
        state, attempt = (yield from one(STANDING, n=unit.n)) or ("dropped", 0)
        if state == "scheduled" and (attempt or unit.n not in spared):
            yield from run(DROP, n=unit.n, reason=FORGOTTEN)
            dropped += 1
        if attempt and unit.op in {"retain", "remember"}:
            sent.setdefault(unit.lane, []).append((unit.id, 0))
    yield from many(UNHASH, [{"n": unit.n} for unit in (*units, *shared)])
    for unit in shared:
        if ((yield from one(STANDING, n=unit.n)) or ("", 0))[1]:
            sent.setdefault(unit.lane, []).append((unit.id, 1))
    for lane, ids in sorted(sent.items()):
        yield from _erase(forget, stream, principal, lane, ids)
    return dropped


def _erase(
    forget: ForgetId, stream: str, principal: str, lane: tuple[str, str, str], units: Sequence[tuple[str, int]]
) -> Script[None]:
    agent, provider, place = lane
    ((seq,),) = yield from rows(NEXT_SEQ, stream=stream, provider=provider)
    erasure = f"{provider}:{stream}:{seq}"
    delivery = DeliveryRow(
        id=erasure,
        agent=agent,
        provider=provider,
        place=place,
        stream=stream,
        from_seq=seq,
        through_seq=seq,
        op="erase",
        principal=principal,
    )
    yield from add_deliveries([delivery])
    ((n,),) = yield from rows(NUMBER, stream=stream, provider=provider, seq=seq)
    yield from many(NAME_UNIT, [{"erasure": erasure, "unit": unit, "shared": shared} for unit, shared in units])
    yield from run(NEW_PART, forget=forget, n=n)
