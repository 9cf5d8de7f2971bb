"""Which turns of a session Hermes has undone. Pure: stored turns and rows of state.db in, the numbers of turns out.

Hermes calls `on_session_switch(rewound=True)` without the number of turns that an undo took, and its gateway calls
nothing. Its database says it: the rows of an undone turn are inactive, and were not archived by a compaction.

Rule 1: a turn and an exchange of state.db are the same if the words of both speakers are equal without outer blanks,
        and the message came after the previous turn with the same words and before this turn was filed.
Rule 2: a turn that is not found in state.db counts as kept. A wrong guess would retract words that a person still sees.
Rule 3: an undo takes the last turns, so the first turn that was kept ends the search.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of a person in state.db and an answer to it. A message with tool calls may have several."""

    user: str
    assistant: str
    at: int  # of the person's message, in milliseconds
    is_undone: bool


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of Hermes in the store. `at` is the time of its filing, which follows its end."""

    n: int
    user: str
    assistant: str
    at: int
    is_undone: bool

    @property
    def words(self) -> tuple[str, str]:
        return self.user.strip(), self.assistant.strip()


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A row of the table messages that a person or the model wrote."""

    is_user: bool
    text: str
    at: int
    is_undone: bool


def exchanges_of(rows: Iterable[MessageRow]) -> list[Exchange]:
    """The exchanges of a session, in the order of their rows. One is undone if both of its rows are."""
    found: list[Exchange] = []
    asked: MessageRow | None = None
    for row in rows:
        if row.is_user:
            asked = row
        elif asked is not None and row.text.strip():
            exchange = Exchange(asked.text.strip(), row.text.strip(), asked.at, asked.is_undone and row.is_undone)
            found.append(exchange)
    return found


def undone_turns(turns: Sequence[StoredTurn], exchanges: Sequence[Exchange]) -> list[int]:
    """The numbers of the last effective turns that Hermes has undone. Both sequences are in order, oldest first."""
    undone: list[int] = []
    for position in range(len(turns) - 1, -1, -1):
        turn = turns[position]
        if turn.is_undone:
            continue
        after = max((one.at for one in turns[:position] if one.words == turn.words), default=-1)
        same = [one for one in exchanges if (one.user, one.assistant) == turn.words and after < one.at <= turn.at]
        if not same or not same[-1].is_undone:
            break
        undone.append(turn.n)
    return undone
