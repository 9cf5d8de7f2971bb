"""Who has spoken in a chat, and whether that is one person (D44).

Linked accounts are one person while they are linked. `mailbox.speaker` is the first account that spoke, and
`linked_speaker` has those that spoke as the same person since. Both are compared at every turn, because a link may be
taken back. A chat that is shared stays so.
"""

from holdfast.inbox.mailbox import Claim
from holdfast.memory.visibility import is_agent
from holdfast.store.script import Script, one, run
from holdfast.turns.turn import TurnOpening

# Whoever spoke in the chat before and is another person now, by the links of this moment, reads what is answered.
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


def attend(claim: Claim, opening: TurnOpening) -> Script[None]:
    """Take note of whose turn begins. The caller holds the mailbox; an agent is nobody."""
    person = None if is_agent(opening.principal) else opening.principal
    row = yield from one(ATTENDED, mailbox=claim.mailbox, human=int(opening.human), person=person)
    first, shared = row or (None, 1)
    if person is not None and person != first and not shared:
        yield from run(LINKED_SPEAKER, mailbox=claim.mailbox, person=person)
