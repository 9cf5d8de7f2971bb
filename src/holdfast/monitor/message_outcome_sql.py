"""What became of the messages of one page of a list: the state of their replies, and when their turns ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.store.script import Columns, Script, verb

ASKED_MAX = 50  # messages of one page
PLACES = ", ".join(f":m{n}" for n in range(ASKED_MAX))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOutcome:
    message: str
    reply: str | None  # the state of the newest reply to it; None if it has none of its own
    closed_at: Instant | None  # of its turn


# The question of an approval is no answer.
REPLY = """
select reply.state from reply
 where reply.message = inbound.message and substr(reply.id, 1, 4) <> 'ask_' order by reply.n desc limit 1"""
OUTCOME = Columns(
    MessageOutcome,
    "inbound",
    reply=f"({REPLY})",
    closed_at="turn.closed_at",
)
OUTCOMES = f"""
select {OUTCOME} from inbound left join turn on turn.session = inbound.session and turn.n = inbound.turn
 where inbound.message in ({PLACES})"""


@verb
def read_outcomes(messages: Sequence[str]) -> Script[Mapping[str, MessageOutcome]]:
    """The outcomes of at most `ASKED_MAX` messages, by their ids."""
    asked = {f"m{n}": message for n, message in enumerate([*messages, *[""] * ASKED_MAX][:ASKED_MAX])}
    found = yield from OUTCOME.rows(OUTCOMES, **asked)
    return {one.message: one for one in found}
