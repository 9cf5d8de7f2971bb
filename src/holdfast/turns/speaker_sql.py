"""Speakers of a chat, and whether they are one person (D44).

Linked accounts are one person while they are linked. `mailbox.speaker` is the first account that spoke, and
`linked_speaker` holds the accounts that spoke as the same person since. Every turn compares both, because a link may be
revoked. A shared chat stays shared.
"""

from holdfast.inbox.mailbox import Claim
from holdfast.memory.visibility import is_agent
from holdfast.store.script import Query, Row, Script, run
from holdfast.turns.turn import TurnOpening

# An earlier speaker who is another person under the current links can read the answers, so the chat is shared.
PERSON = "coalesce((select person from identity where identity.principal = {0}), {0})"
IS_ANOTHER = f"{PERSON} <> {PERSON.format(':person')}"
ATTENDED = f"""
update mailbox
   set unattended = case when :human = 1 then 0 else unattended + 1 end, speaker = coalesce(speaker, :person),
       shared = case when cast(:person as text) is null or speaker is null then shared
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
    return Query(ATTENDED, {"mailbox": claim.mailbox, "human": int(opening.human), "person": _person(opening)})


def attend(claim: Claim, opening: TurnOpening, found: list[Row]) -> Script[bool]:
    """Keep a linked account that spoke, and return whether several people have spoken in the chat."""
    person = _person(opening)
    first, shared = found[0] if found else (None, 1)
    if person is not None and person != first and not shared:
        yield from run(LINKED_SPEAKER, mailbox=claim.mailbox, person=person)
    return bool(shared)


def _person(opening: TurnOpening) -> str | None:
    """The speaker of a turn; an agent does not count as one."""
    return None if is_agent(opening.principal) else opening.principal
