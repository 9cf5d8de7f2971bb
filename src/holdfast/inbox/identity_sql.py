"""Identity: links between principals, and aliases of addresses. Each change is one transaction with its audit row.

Both ends of a link have a row while the link is checked, locked in the order of their names, so one of two
contradicting links is refused. A mailbox always has an address: an address in use is never reassigned, and an unused
mailbox is deleted when its address moves.
"""

from collections.abc import Mapping

import msgspec

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, ActorKind, By
from holdfast.inbox.access import LISTED_MAX
from holdfast.inbox.address import Address, parse
from holdfast.inbox.identity import ChatMove, Link, LinkRequest, Moved, check_move, why_not_linked
from holdfast.kernel.errors import AddressNotFound, AddressTaken, IdentityConflict, InvalidAddress
from holdfast.kernel.ids import AgentName, Instant, OperationId, Principal
from holdfast.store.script import Row, Script, locked_verb, one, rows, run, verb

# All principals of one person, the given one included; empty for an unlinked principal.
KIN = """
select kin.principal from identity as me join identity as kin on kin.person = me.person
 where me.principal = :principal"""
OWN_ROW = """
insert into identity (principal, person, at) values (:principal, :principal, :now) on conflict (principal) do nothing"""
LOCK_BOTH = """
select principal, person, at from identity where principal in (:principal, :person) order by principal /*lock*/"""
FOLLOWERS = "select principal from identity where person = :principal and principal <> :principal order by principal"
SET_PERSON = "update identity set person = :person, at = :now where principal = :principal"
LINKED = "select person, at from identity where principal = :principal and person <> principal /*lock*/"
UNLINK = "delete from identity where principal = :principal"
LINKS = """
select principal, person, at from identity where person <> principal order by person, principal limit :limit"""
RECORD = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, '', :by, 0, :now, :now, 'done', :detail) on conflict (id) do nothing"""

BOX_OF = "select mailbox_id from address where address = :address"
NEW_ALIAS = """
insert into address (address, mailbox_id) values (:address, :mailbox)
on conflict (address) do nothing returning address"""
LOCK_BOXES = "select id, last_seq, session_id from mailbox where id in (:mine, :theirs) order by id /*lock*/"
HAS_SESSION = "select id from session where mailbox = :mailbox limit 1"
REHOME_REPLIES = "update reply set mailbox = :mine where mailbox = :theirs"
POINT = "update address set mailbox_id = :mine where mailbox_id = :theirs"
DROP_BOX = "delete from mailbox where id = :theirs"
OF_CHAT = "select address, mailbox_id from address where address like :pattern escape '!' order by address"
# Unanswered messages are answered at the new address, because the platform no longer accepts the old one. A reply in
# progress moves too, so that later replies cannot overtake it. A draft stays: at the new address its number may be
# another message's.
LOCK_BOX = "select id from mailbox where id = :mailbox /*lock*/"
# The first of two moves may be reported again: it does not send the chat back.
MOVED_TO = """
update address set moved_to = case when address = :new then null else cast(:new as text) end
 where (address in (:old, :new) or moved_to = :old)
   and not exists (select 1 from address as known where known.address = :new and known.moved_to <> :old)"""
REDIRECT_MAIL = """
update inbound set address = :new where mailbox = :mailbox and state in ('waiting', 'in_turn') and address = :old"""
REDIRECT_REPLIES = """
update reply
   set address = :new, draft = case when draft = 'standing' then 'gone' else draft end,
       doubts = case when state = 'pending' and draft = 'standing' and doubts = 0 then 1 else doubts end
 where address = :old and state in ('pending', 'attempting')"""

# No process reuses instructions rendered before this.
WITHDRAW = """
insert into withdrawal (agent, n) values (:agent, 1) on conflict (agent) do update set n = withdrawal.n + 1"""


# --- links -------------------------------------------------------------------------------------------


@verb
def link_principals(request: LinkRequest, by: By = PROGRAM) -> Script[Link]:
    """Create a link; an existing one is returned unchanged. Raises `IdentityConflict`."""
    ends = {"principal": request.principal, "person": request.person}
    before = yield from action_sql.start_operation(request.operation, "link", request.by)
    if before is not None:  # a repeated operation; the link may be gone since
        return Link(principal=request.principal, person=request.person, at=Instant(before["at"]))
    found = yield from _lock_both(ends)
    own, theirs = found[request.principal], found[request.person]
    followers = [row[0] for row in (yield from rows(FOLLOWERS, principal=request.principal))]
    why = why_not_linked(request, own[1], theirs[1], followers)
    if why is not None:
        raise IdentityConflict(why, principal=request.principal, person=request.person)
    changed = own[1] != request.person
    if changed:
        yield from run(SET_PERSON, **ends)
        yield from withdraw("")
    made = yield from one(LINKED, principal=request.principal)
    assert made is not None  # noqa: S101 - written above, or read under lock
    yield from action_sql.finish_operation(request.operation, {**ends, "at": made[1]}, changed=changed)
    if changed:
        yield from action_sql.record(Act.IDENTITY_LINKED, by, request.principal, person=request.person)
    return Link(principal=request.principal, person=request.person, at=Instant(made[1]))


def _lock_both(ends: Mapping[str, str]) -> Script[dict[str, Row]]:
    """Insert the missing rows of both ends and lock both. An unlink may delete a row before it is locked."""
    found: dict[str, Row] = {}
    while len(found) < len(set(ends.values())):
        for end in sorted(ends.values()):
            yield from run(OWN_ROW, principal=end)
        found = {row[0]: row for row in (yield from rows(LOCK_BOTH, **ends))}
    return found


@verb
def unlink_principal(
    principal: Principal, *, named: str, operation: OperationId, by: By = PROGRAM
) -> Script[Link | None]:
    """Delete a link and return it, or None if there was none."""
    before = yield from action_sql.start_operation(operation, "unlink", named)
    if before is not None:
        return Link(principal=principal, person=before["person"], at=Instant(before["at"])) if before else None
    row = yield from one(LINKED, principal=principal)
    if row is None:
        return None
    yield from run(UNLINK, principal=principal)
    yield from action_sql.finish_operation(operation, {"principal": principal, "person": row[0], "at": row[1]})
    yield from withdraw("")
    yield from action_sql.record(Act.IDENTITY_UNLINKED, by, principal, person=row[0])
    return Link(principal=principal, person=Principal(row[0]), at=Instant(row[1]))


@verb
def list_links(*, limit: int = LISTED_MAX) -> Script[tuple[Link, ...]]:
    found = yield from rows(LINKS, limit=limit)
    return tuple(Link(principal=Principal(who), person=Principal(person), at=Instant(at)) for who, person, at in found)


@verb
def linked_principals(principal: Principal) -> Script[tuple[Principal, ...]]:
    """All principals of the same person, the given one included."""
    found = {row[0] for row in (yield from rows(KIN, principal=principal))} | {principal}
    return tuple(Principal(name) for name in sorted(found))


def withdraw(agent: AgentName | str) -> Script[None]:
    """Void an agent's rendered instructions; an empty agent means all.

    Only the audit trail is locked after this row.
    """
    yield from run(WITHDRAW, agent=agent)


def record(operation: OperationId, kind: str, by: str, detail: Mapping[str, object]) -> Script[None]:
    """Record an operation: the act, the actor and the time, by ids only."""
    yield from run(RECORD, id=operation, kind=kind, by=by, detail=msgspec.json.encode(detail))


# --- addresses ---------------------------------------------------------------------------------------


def moving(agent: str) -> str:
    """The lock name that serialises an agent's chat moves, because each reads addresses that others create."""
    return f"move:{agent}"


@verb
def move_address(old: Address, new: Address, *, named: str, operation: OperationId, by: By = PROGRAM) -> Script[Moved]:
    """Move an address. Repeating it does nothing. Raises `AddressNotFound`, `AddressTaken` and `InvalidInput`."""
    check_move(old, new)
    row = yield from one(BOX_OF, address=str(old))
    if row is None:
        raise AddressNotFound(f"nothing was ever said at {old}", address=str(old))
    outcome = yield from _alias(row[0], str(new))
    if outcome is None:
        raise AddressTaken(f"{new} has a conversation of its own", address=str(new))
    if not outcome:
        return Moved()
    yield from record(operation, "move", named, {"from": str(old), "to": str(new)})
    yield from action_sql.record(Act.ADDRESS_MOVED, by, str(new), old=str(old))
    return Moved(aliases=(str(new),))


@locked_verb(lambda move: moving(move.agent))
def move_chat(move: ChatMove) -> Script[Moved]:
    """Move every address of the chat; the result names those that stay because they are in use."""
    aliases, refused = list[str](), list[str]()
    for old, mailbox in (yield from _addresses(move)):
        new = str(move.renamed(old))
        if new == str(old):
            continue
        outcome = yield from _alias(mailbox, new)
        if outcome is None:
            refused.append(new)
            continue
        aliases += [new] if outcome else []
        yield from run(LOCK_BOX, mailbox=mailbox)  # no message is accepted between the redirection and the commit
        yield from run(MOVED_TO, old=str(old), new=new)
        yield from run(REDIRECT_MAIL, mailbox=mailbox, old=str(old), new=new)
        yield from run(REDIRECT_REPLIES, old=str(old), new=new)
    if aliases:
        chats = {"agent": move.agent, "channel": move.channel, "from": move.old_chat, "to": move.new_chat}
        yield from record(move.operation, "move", move.by, {**chats, "aliases": aliases, "refused": refused})
        platform = By(kind=ActorKind.SYSTEM, id=move.channel, origin=f"{move.agent} at {move.channel}")
        yield from action_sql.record(Act.ADDRESS_MOVED, platform, move.new_chat, agent=move.agent, old=move.old_chat)
    return Moved(aliases=tuple(aliases), refused=tuple(refused))


def _addresses(move: ChatMove) -> Script[list[tuple[Address, str]]]:
    """The addresses of the old chat. The SQL pattern preselects; the parsed address decides."""
    whole = Address(agent=move.agent, channel=move.channel, type="any", chat=move.old_chat)
    chat = str(whole).rpartition(":")[2]
    sieve = "".join(f"!{char}" if char in "!%_" else char for char in f"agent:{move.agent}:{move.channel}:\n:{chat}")
    found: list[Row] = yield from rows(OF_CHAT, pattern=sieve.replace("\n", "%") + "%")
    kept = []
    for text, mailbox in found:
        try:
            address = parse(text)
        except InvalidAddress:  # a name that an earlier release accepted
            continue
        if (address.agent, address.channel, address.chat) == (move.agent, move.channel, move.old_chat):
            kept.append((address, str(mailbox)))
    return kept


def _alias(mine: str, new: str) -> Script[bool | None]:
    """Whether the address became an alias of the mailbox; None if it has messages of its own."""
    if (yield from one(NEW_ALIAS, address=new, mailbox=mine)) is not None:
        return True
    while True:
        theirs = ((yield from one(BOX_OF, address=new)) or ("",))[0]
        if theirs == mine:
            return False
        locked = {row[0]: row for row in (yield from rows(LOCK_BOXES, mine=mine, theirs=theirs))}
        if theirs in locked or mine not in locked:
            break  # otherwise another move deleted the mailbox before its lock was acquired: retry
    row = locked.get(theirs)
    if row is None or mine not in locked or row[1] or row[2] is not None:
        return None
    if (yield from one(HAS_SESSION, mailbox=theirs)) is not None:
        return None
    yield from run(REHOME_REPLIES, mine=mine, theirs=theirs)
    yield from run(POINT, mine=mine, theirs=theirs)
    yield from run(DROP_BOX, theirs=theirs)  # a transaction that waits for its lock looks the address up again
    return True
