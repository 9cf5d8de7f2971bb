"""Speakers of a chat, and whether they are one person (D44).

Linked accounts are one person while they are linked. `mailbox.speaker` is the first account that spoke, and
`linked_speaker` holds the accounts that spoke as the same person since. Every turn compares both, because a link may be
revoked. The sender of a /retry reads the answer too, which is given as to the person who is answered again, so it
counts as a speaker. A shared chat stays shared.
"""

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import Principal
from holdfast.memory.visibility import is_agent
from holdfast.store.script import Query, Row, Script, run
from holdfast.turns.turn import TurnOpening

# An earlier speaker who is another person under the current links can read the answers, so the chat is shared.
PERSON = "coalesce((select person from identity where identity.principal = {0}), {0})"
IS_ANOTHER = f"{PERSON} <> {PERSON.format('cast(:person as text)')}"
ATTENDED = f"""
update mailbox
   set unattended = case when :human = 1 then 0 else unattended + 1 end, speaker = coalesce(speaker, :person),
       shared = case when cast(:person as text) is null then shared
                     when cast(:reader as text) is not null and {IS_ANOTHER.format("cast(:reader as text)")} then 1
                     when speaker is null then shared
                     when speaker <> :person and {IS_ANOTHER.format("speaker")} then 1
                     when exists (select 1 from linked_speaker as other
                                   where other.mailbox = mailbox.id and {IS_ANOTHER.format("other.principal")}) then 1
                     else shared end
 where id = :mailbox returning speaker, shared"""
LINKED_SPEAKER = """
insert into linked_speaker (mailbox, principal) values (:mailbox, :person)
on conflict (mailbox, principal) do nothing"""


def attend_query(claim: Claim, opening: TurnOpening) -> Query:
    """The statement that records the speaker of a new turn; `attend` takes its rows. The caller holds the mailbox."""
    who = {"person": _person(opening.principal), "reader": _person(opening.retried_by)}
    return Query(ATTENDED, {"mailbox": claim.mailbox, "human": int(opening.human), **who})


def attend(claim: Claim, opening: TurnOpening, found: list[Row]) -> Script[bool]:
    """Keep a linked account that spoke or retried, and return whether several people have spoken in the chat."""
    first, shared = found[0] if found else (None, 1)
    accounts = {_person(opening.principal), _person(opening.retried_by)} - {None, first}
    for account in [] if shared else sorted(filter(None, accounts)):
        yield from run(LINKED_SPEAKER, mailbox=claim.mailbox, person=account)
    return bool(shared)


def _person(principal: Principal | None) -> str | None:
    """A speaker of a chat; an agent does not count as one."""
    return None if principal is None or is_agent(principal) else principal
