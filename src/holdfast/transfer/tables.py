"""The tables of an export: their columns, their keys, and what of a row belongs to its process and stays behind.

An exported row is at rest. A claim, a lease and a due time of work are left out; a reply or a delivery that is open
becomes uncertain, because the store that it comes from may still send it. So an import delivers nothing that was
delivered, and an export of what was imported equals the first one.

A column is text unless a sign says otherwise: `#` an integer, `~` a float, `*` bytes. `?` may be null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OPEN_WHEN_EXPORTED = "it was open when it was exported, and may have been sent since"


@dataclass(frozen=True, slots=True)
class ExportColumn:
    name: str
    kind: type
    is_optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTable:
    name: str
    columns: Sequence[ExportColumn]
    key: Sequence[str]  # empty if its rows are only inserted together with their session
    given: Mapping[str, str] = field(default_factory=dict)  # expressions instead of columns
    fixed: Mapping[str, object] = field(default_factory=dict)  # columns that are not exported, as they are inserted
    left_out: frozenset[str] = frozenset()  # columns that get their default

    @property
    def selected(self) -> str:
        return ", ".join(self.given.get(one.name, f"{self.name}.{one.name}") for one in self.columns)

    @property
    def found(self) -> str:
        """The row of a key, to be compared with an imported one."""
        where = " and ".join(f"{self.name}.{name} = :{name}" for name in self.key)
        return f"select {self.selected} from {self.name} where {where}"  # noqa: S608 - names of the table below

    @property
    def inserted(self) -> str:
        names = ", ".join([*(one.name for one in self.columns), *self.fixed])
        values = ", ".join(f":{name}" for name in [*(one.name for one in self.columns), *self.fixed])
        return f"insert into {self.name} ({names}) values ({values})"  # noqa: S608


KINDS = {"#": int, "~": float, "*": bytes}


def _columns(text: str) -> tuple[ExportColumn, ...]:
    return tuple(map(_column, text.split()))


def _column(word: str) -> ExportColumn:
    bare = word.rstrip("?")
    return ExportColumn(bare.rstrip("#~*"), KINDS.get(bare[-1], str), word.endswith("?"))


_OPEN_REPLY = "reply.state in ('pending', 'attempting')"
_OPEN_DELIVERY = "delivery.state in ('scheduled', 'sending', 'uncertain')"

TABLES: Mapping[str, ExportTable] = {
    one.name: one
    for one in (
        ExportTable(name="identity", columns=_columns("principal person at#"), key=("principal",)),
        ExportTable(name="attachment", columns=_columns("hash size# at# body*"), key=("hash",)),
        ExportTable(
            name="mailbox",
            columns=_columns("id agent address session_id? fence# last_seq# unattended# speaker? shared#"),
            key=("id",),
            left_out=frozenset(
                [
                    *("owner", "claim", "claimed_at", "depth", "ready_at", "waits_until", "yields", "paused"),
                    *("window_at", "window_count"),
                ]
            ),
        ),
        ExportTable(name="address", columns=_columns("address mailbox_id moved_to?"), key=("address",)),
        ExportTable(name="linked_speaker", columns=_columns("mailbox principal"), key=("mailbox", "principal")),
        ExportTable(
            name="inbound",
            columns=_columns(
                "message mailbox seq# account conversation event_id principal channel kind human# hop# body* state"
                " reason? session? turn#? at# address? sender_name? directory? repo? chain? rank? repeats#"
                " repeated_at#?"
            ),
            key=("message",),
            fixed={"body_hash": b""},  # made with the secret of its store: known by its id alone
            left_out=frozenset({"token", "request"}),
        ),
        ExportTable(name="enclosure", columns=_columns("message n# hash name media_type size#"), key=("message", "n")),
        ExportTable(
            name="reply",
            columns=_columns(
                "id mailbox session? turn#? message agent channel address hop# state attempt# part# doubts# sent_at#?"
                " settled_at#? receipt? reason? at# body* chain? decided_by?"
            ),
            key=("id",),
            given={
                "state": f"case when {_OPEN_REPLY} then 'uncertain' else reply.state end",
                "doubts": f"case when {_OPEN_REPLY} then 2 else reply.doubts end",
                "settled_at": f"case when {_OPEN_REPLY} then reply.at else reply.settled_at end",
                "reason": f"case when {_OPEN_REPLY} then '{OPEN_WHEN_EXPORTED}' else reply.reason end",
            },
            left_out=frozenset({"n", "due_at", "owner", "claim", "draft", "draft_id"}),
        ),
        ExportTable(name="memory", columns=_columns("stream agent subject head#"), key=("stream",)),
        ExportTable(name="memory_batch", columns=_columns("stream origin seqs at#"), key=("stream", "origin")),
        ExportTable(
            name="memory_op",
            columns=_columns(
                "stream seq# agent subject target op place# text* old_text* origin position# written_by principal live#"
                " at#"
            ),
            key=("stream", "seq"),
        ),
        ExportTable(
            name="session",
            columns=_columns(
                "id agent mailbox? principal purpose parent_id? fork_seq# fork_n# fork_turn# title? title_key? state"
                " epoch# last_seq# committed_seq# turns# summaries# undo_count# token_ratio~ opened_at# active_at#"
                " closed_at#? reason? several# idle_from#"
            ),
            key=("id",),
            given={
                "last_seq": "session.committed_seq",
                "turns": "session.turns - case when session.open_turn is null then 0 else 1 end",
                "idle_from": "session.active_at",
            },
            left_out=frozenset({"open_turn"}),
        ),
        ExportTable(
            name="turn",
            columns=_columns(
                "session n# key? phase attempt# fence# lease_fence# mailbox? place principal first_seq# last_seq#"
                " tokens_in# tokens_out# stop_at#? reason? opened_at# closed_at#? title? places? directory? repo?"
                " chain?"
            ),
            key=("session", "n"),
            left_out=frozenset({"approval", "node"}),
        ),
        ExportTable(
            name="entry",
            columns=_columns("session seq# turn# kind ref#? tokens# fence# lease_fence# at# body*"),
            key=("session", "seq"),
        ),
        ExportTable(
            name="summary",
            columns=_columns(
                "session n# base_n# covers_from# covers_through# head_seq# model tokens# operation at# body*"
            ),
            key=("session", "n"),
        ),
        ExportTable(
            name="operation",
            columns=_columns("id kind session owner fence# started_at# ended_at#? outcome? detail*?"),
            key=("id",),
        ),
        ExportTable(
            name="finalisation",
            columns=_columns(
                "id session epoch# cause from_seq# through_seq# said_at# step attempts# fence# due_at# started_at#"
                " ended_at#? model? reason? answer*? result*?"
            ),
            key=("id",),
            left_out=frozenset({"owner", "claim"}),
        ),
        ExportTable(
            name="activity",
            columns=_columns(
                "session turn# fence# kind name started_at# ended_at# outcome call? tokens_in#? tokens_out#? detail*"
            ),
            key=(),
            left_out=frozenset({"n"}),
        ),
        ExportTable(
            name="cursor",
            columns=_columns("provider stream scheduled_seq# settled_seq# due_at#?"),
            key=("provider", "stream"),
        ),
        ExportTable(
            name="delivery",
            columns=_columns(
                "id agent provider place stream from_seq# through_seq# from_turn# through_turn# op principal state"
                " attempt# late# due_at# sent_at#? uncertain_at#? settled_at#? receipt? reason? at# decided_by?"
            ),
            key=("stream", "provider", "from_seq", "op"),
            given={
                "state": f"case when {_OPEN_DELIVERY} then 'uncertain' else delivery.state end",
                "uncertain_at": f"""
                    case when {_OPEN_DELIVERY} then coalesce(delivery.uncertain_at, delivery.at)
                         else delivery.uncertain_at end""",
                "reason": f"case when {_OPEN_DELIVERY} then '{OPEN_WHEN_EXPORTED}' else delivery.reason end",
            },
            left_out=frozenset(
                ["n", "suspect", "suspected_at", "failing_at", "payload_hash", "renderer", "fence", "lease_fence"]
            ),
        ),
    )
}
