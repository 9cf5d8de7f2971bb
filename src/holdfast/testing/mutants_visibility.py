"""Mutants of visibility: who sees what (I33), and what is system text (I34). They are detected in histories in which
people who may not see each other's words share one agent."""

from collections.abc import Sequence
from typing import Any

import apsw

from holdfast.kernel.ids import Principal
from holdfast.memory import recaller, visibility
from holdfast.memory.recall import RecallQuery
from holdfast.memory.visibility import SHARED, Audience, chat_scope, person_scope, session_scope
from holdfast.providers.local import postings, search
from holdfast.sessions import command_sql, extraction_sql
from holdfast.sessions.finalisation import Finalisation
from holdfast.store.script import Script
from holdfast.testing.areas import Area
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.mutant import RARE_BUDGET, Patch, mutant
from holdfast.turns import context, open_turn_sql, runner
from holdfast.turns.context import NOTES, RECALL, ModelMessage

BUDGET = 30
AGENTS_OWN = "line.agent = :agent"  # the condition without people and chats


# --- notes ---------------------------------------------------------------------------------------------------------


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=12)
def visibility_ignored() -> Sequence[Patch]:
    """Everyone is shown everything that the agent remembers, in groups too."""
    return [(Audience, "sees_all", property(lambda _audience: True))]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=30)
def principal_dropped_at_extraction() -> Sequence[Patch]:
    """An extracted note has no owner, so it counts as shared."""

    def broken(_held: Finalisation) -> Script[tuple[str, Principal]]:
        yield from ()
        return SHARED, Principal("")

    return [(extraction_sql, "_origin", broken)]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=12)
def group_note_taken_for_private() -> Sequence[Patch]:
    """A note made in a group belongs to the person who spoke, who is shown it in private."""

    def of_the_speaker(_address: str, principal: str, *, session: str = "") -> str:
        return person_scope(principal) if principal else session_scope(session)

    own = property(lambda audience: person_scope(audience.principal))
    return [(visibility, "scope_of", of_the_speaker), (Audience, "own", own)]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=112)
def private_note_taken_for_the_chats() -> Sequence[Patch]:
    """A note made in private belongs to the chat, so another person who speaks there is shown it."""

    def of_the_chat(address: str, _principal: str, *, session: str = "") -> str:
        return chat_scope(address) if address else session_scope(session)

    return [(visibility, "scope_of", of_the_chat)]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=12)
def private_notes_shown_in_groups() -> Sequence[Patch]:
    """A speaker's own notes are shown in a group without the setting that allows it."""
    honest: Any = Audience.scopes

    def broken(audience: Audience) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*honest.func(audience), person_scope(audience.principal))))

    return [(Audience, "scopes", property(broken))]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=30)
def shared_chat_taken_for_private() -> Sequence[Patch]:
    """A private chat in which others speak too is shown the private notes and words of each speaker."""
    return [(open_turn_sql, "ATTENDED", open_turn_sql.ATTENDED.replace("then 1", "then 0"))]


@mutant("I6", budget=60, area=ChannelArea.LINKS, first=362)
def linked_speakers_forgotten() -> Sequence[Patch]:
    """A person who spoke in a chat while linked to its first speaker is not counted after the unlink."""
    forgotten = "delete from linked_speaker where mailbox = :mailbox and principal = :person"
    return [(open_turn_sql, "LINKED_SPEAKER", forgotten)]


@mutant("I6", budget=150, area=ChannelArea.LINKS, first=362)
def asked_ahead_for_fewer_readers() -> Sequence[Patch]:
    """Recollections prefetched in private are shown in a chat that counts as a group since an unlink."""
    return [(recaller._Asked, "is_like", lambda asked, other: asked.kin == other.kin)]  # noqa: SLF001


@mutant("I33", budget=60, area=Area.STRANGERS, short=59)
def listed_notes_stay_shown() -> Sequence[Patch]:
    """Notes that the tool listed for one speaker are shown to the next one who speaks in the chat."""
    return [(context, "_lists_notes", lambda _result: False)]


# --- what was said -------------------------------------------------------------------------------------------------


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=30)
def recall_ignores_scope() -> Sequence[Patch]:
    """The local index finds lines of everyone who talks to the agent."""
    visible = search._VISIBLE  # noqa: SLF001

    def everything(db: apsw.Connection, query: RecallQuery) -> search.AskedScopes:
        return search.all_scopes(db, query.agent)

    return [
        (search, "asked_scopes", everything),
        (search, "_FRESH", search._FRESH.replace(visible, AGENTS_OWN)),  # noqa: SLF001
        (search, "_LINES", search._LINES.replace(visible, AGENTS_OWN)),  # noqa: SLF001
    ]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=12)
def recall_finds_private_words_in_groups() -> Sequence[Patch]:
    """In a group a speaker's private words are found without the setting that allows it."""
    honest: Any = search.IndexSearch._scope  # noqa: SLF001
    honest_scopes = search.named_scopes

    def in_private(searching: search.IndexSearch) -> dict[str, str | int]:
        return {**honest.func(searching), "private": True}

    def more(query: RecallQuery) -> search.NamedScopes:
        people = [postings.IndexScope(query.agent, "person", asker) for asker in query.askers]
        found = honest_scopes(query)
        return found._replace(partial=[*found.partial, *people])

    return [(search.IndexSearch, "_scope", property(in_private)), (search, "named_scopes", more)]


@mutant("I33", budget=60, area=Area.STRANGERS, short=30)
def resume_takes_anybodys_session() -> Sequence[Patch]:
    """`/resume` searches the sessions of everyone who talks to the agent."""
    return [(command_sql, "FIND_TITLE", command_sql.FIND_TITLE.replace("principal = :principal", "principal <> ''"))]


@mutant("I33", budget=60, area=Area.STRANGERS, short=12)
def resume_brings_private_words_before_others() -> Sequence[Patch]:
    """A private session can be resumed in a chat in which another person has spoken."""
    return [(command_sql, "OTHERS_SPOKE", "select 1 where :mailbox = '' and :principal = ''")]


@mutant("I33", budget=BUDGET, area=Area.STRANGERS, short=12)
def resume_brings_private_words_into_groups() -> Sequence[Patch]:
    """A private session can be resumed in a group."""
    return [(command_sql, "FIND_TITLE", command_sql.FIND_TITLE.replace(":alone = 1", ":alone >= 0"))]


@mutant(
    "I33",
    budget=RARE_BUDGET,
    area=Area.STRANGERS,
    rare="tests/sessions/test_command_sql.py"
    "::test_a_session_of_a_group_stays_there_although_one_member_alone_spoke_in_it",
)
def resume_takes_a_groups_session_away() -> Sequence[Patch]:
    """The only speaker of a group's session can resume it in private."""
    return [(command_sql, "stays", lambda _address: False)]


# --- roles and speakers --------------------------------------------------------------------------------------------


@mutant("I34", budget=BUDGET, area=Area.STRANGERS, short=30)
def words_of_people_are_system_text() -> Sequence[Patch]:
    """Notes and recollections are sent with the role of the operator's instructions."""

    def broken(*, role: str, data: str = "", **more: Any) -> ModelMessage:  # noqa: ANN401
        shown = "system" if data in {NOTES, RECALL} else role
        return ModelMessage(role=shown, data=data, **more)

    return [(context, "ModelMessage", broken)]


@mutant("I9", budget=BUDGET, area=Area.STRANGERS, short=30)
def speakers_are_not_named() -> Sequence[Patch]:
    """The model is not shown the speakers of a conversation of two people."""
    return [(runner, "is_named", lambda _context, _address: False)]
