"""Reading what became of the notes that a turn changed: their deliveries to providers that mirror notes, such as files.

The tool for notes stores its changes under the name of its call. They are looked for in the scopes that the speaker of
the turn could write to.
"""

from collections.abc import Iterable, Sequence

from holdfast.inbox.mailbox import MessageTrace
from holdfast.kernel.ids import Principal
from holdfast.memory.notes import stream_of
from holdfast.memory.visibility import Audience
from holdfast.monitor.trace import TracedSend, TracedTurn
from holdfast.sessions.history_sql import DELIVERY
from holdfast.store.script import Query, Script, together
from holdfast.turns.activity import Activity, ActivityKind

TOOL = "memory"
CALLS_MAX = 20
BATCH = "select stream, seqs from memory_batch where stream = :stream and origin = :origin"
SENT = f"""
select sent_at, settled_at, {DELIVERY} from delivery
 where stream = :stream and op = 'remember' and from_seq = :seq order by provider"""


def read_note_deliveries(
    message: MessageTrace, turn: TracedTurn | None, done: Sequence[Activity]
) -> Script[Sequence[TracedSend]]:
    """In the order of the changes; nothing if the turn did not call the tool for notes."""
    calls = [one.call for one in done if one.kind is ActivityKind.TOOL and one.name == TOOL and one.call][:CALLS_MAX]
    if turn is None or message.session is None or not calls:
        return ()
    streams = _streams(message, turn)
    origins = [f"tool:{message.session}:{turn.n}:{call}" for call in calls]
    batches = yield from together(
        *(Query(BATCH, {"stream": stream, "origin": origin}) for origin in origins for stream in streams)
    )
    changes = [(stream, int(seq)) for found in batches for stream, seqs in found for seq in seqs.split(",")]
    sent = yield from together(*(Query(SENT, {"stream": stream, "seq": seq}) for stream, seq in changes if seq))
    return [
        TracedSend(view=DELIVERY.value(tuple(view)), sent_at=sent_at, settled_at=settled_at)
        for found in sent
        for sent_at, settled_at, *view in found
    ]


def _streams(message: MessageTrace, turn: TracedTurn) -> Iterable[str]:
    """Whether the chat was a group then is not stored, so both are looked for."""
    readers = [
        Audience(
            agent=message.agent,
            principal=Principal(turn.principal),
            address=message.address,
            session=message.session or "",
            is_group=is_group,
            private_in_groups=True,
        )
        for is_group in (False, True)
    ]
    return dict.fromkeys(stream_of(message.agent, scope) for one in readers for scope in (one.own, *one.scopes))
