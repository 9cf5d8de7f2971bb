"""The sender of a command, read in the transaction that runs the command (sessions/command_rights.py).

The caller holds the mailbox. Turns and speakers of its sessions change only under that lock, so these reads stay true
until the transaction ends. Account links may change concurrently: a concurrent link or unlink counts as before or
after.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from holdfast.inbox.identity_sql import KIN, linked_principals
from holdfast.inbox.message import Arrival
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.visibility import AGENTS
from holdfast.sessions import command_rights
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import CommandPlace, Needs, NotAllowed, Rank, Speaker
from holdfast.store.script import Columns, Script, one, rows
from holdfast.turns.journal import UserSaid, decode_body

# Turns of other people in sessions of the chat. An agent that answered a question does not count as a speaker.
OTHERS = f"""
select 1 from session join turn on turn.session = session.id
 where session.mailbox = :mailbox and turn.principal <> :principal and turn.principal not in ({KIN})
   and turn.principal not like :agents limit 1"""
TURNS = "select n, principal, first_seq from turn where session = :session and n >= :first order by n"
SAID = "select turn, body from entry where session = :session and seq >= :seq and kind = 'user'"


@dataclass(frozen=True, slots=True)
class Giver:
    """The sender of a command: the input for `judge`, and all accounts of the person."""

    speaker: Speaker
    accounts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A command as it arrived."""

    mailbox: str
    address: str
    principal: Principal
    human: bool
    rank: Rank = Rank.MEMBER
    operators: Collection[str]


GIVEN_COLUMNS = Columns(Given, without=("operators",), address="coalesce(nullif(address, ''), :address)")
GIVEN = f"select {GIVEN_COLUMNS} from inbound where message = :message"


def given_by(message: str, *, mailbox: str, address: str, operators: Collection[str]) -> Script[Given]:
    """The command of an accepted message; `address` is used for rows of earlier releases, which have no address."""
    row = yield from one(GIVEN, message=message, address=address)
    nobody = Given(mailbox=mailbox, address=address, principal=Principal(""), human=False, operators=operators)
    return GIVEN_COLUMNS.value(row, operators=operators) if row else nobody


def given_now(arrival: Arrival, mailbox: str) -> Given:
    """The command of a signal, which takes effect on arrival."""
    return Given(
        mailbox=mailbox,
        address=str(arrival.address),
        principal=arrival.principal,
        human=arrival.human,
        rank=arrival.rank,
        operators=arrival.operators,
    )


def giver(verb: CommandVerb, given: Given) -> Script[Giver]:
    """Read only the facts that the verb's rule depends on."""
    if not given.human or command_rights.NEEDS[verb] in {Needs.NOTHING, Needs.PERSON}:
        speaker = Speaker(
            human=given.human, place=command_rights.place_of(given.address, several=False), rank=given.rank
        )
        return Giver(speaker, frozenset({given.principal}))
    accounts = frozenset((yield from linked_principals(given.principal)))
    several = False
    if command_rights.is_over_http(given.address):
        several = (
            yield from one(OTHERS, mailbox=given.mailbox, principal=given.principal, agents=f"{AGENTS}%")
        ) is not None
    speaker = Speaker(
        human=True,
        place=command_rights.place_of(given.address, several=several),
        rank=given.rank,
        is_named=not accounts.isdisjoint(given.operators),
    )
    return Giver(speaker, accounts)


def may_decide(verb: CommandVerb, who: Giver, *, asker: str, approvers: Collection[str]) -> NotAllowed | None:
    """Judge `/approve` or `/deny` of a call that `asker` requested."""
    named = not who.accounts.isdisjoint(approvers) if approvers else None
    return command_rights.judge(verb, who.speaker, owns=asker in who.accounts, is_approver=named)


def judge_turns(
    verb: CommandVerb, who: Giver, turns: Sequence[tuple[SessionId, Iterable[int]]]
) -> Script[NotAllowed | None]:
    """Judge a command about turns, which are grouped by the session that holds them."""
    refused = command_rights.judge(verb, who.speaker)
    if refused is None or refused.code == "robot" or who.speaker.place is CommandPlace.PRIVATE:
        return refused
    for session, numbers in turns:
        if not (yield from are_own(who, session, frozenset(numbers))):
            return refused
    return None


def are_own(who: Giver, session: SessionId, numbers: frozenset[int]) -> Script[bool]:
    """Whether the person spoke every message of these turns. Forgotten messages have no owner."""
    if not numbers:
        return True
    found = [row for row in (yield from rows(TURNS, session=session, first=min(numbers))) if row[0] in numbers]
    if {row[0] for row in found} != numbers or not {row[1] for row in found} <= who.accounts:
        return False
    for turn, body in (yield from rows(SAID, session=session, seq=found[0][2])):
        said = decode_body("user", bytes(body)) if turn in numbers and body else None
        if turn in numbers and (not isinstance(said, UserSaid) or said.principal not in who.accounts):
            return False
    return True
