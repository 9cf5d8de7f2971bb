"""The audit: sound records hold, and each way to contradict a promise is found by the check that makes it.

Rules: R24.
"""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import AgentName, Instant, MailboxId, OperationId, Principal, SessionId
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.compression_audit import CHECKS, Audit, Report, SessionFacts
from holdfast.sessions.session import Purpose, Session, SessionState

A, B, C = SessionId("ses_a"), SessionId("ses_b"), SessionId("ses_c")


def session(id: SessionId, **more: object) -> Session:
    base = Session(
        id=id,
        agent=AgentName("main"),
        mailbox=MailboxId("box"),
        principal=Principal("user"),
        purpose=Purpose.CONVERSATION,
        parent=None,
        fork_seq=0,
        title=None,
        state=SessionState.OPEN,
        live=True,
        epoch=1,
        committed_seq=20,
        turns=10,
        summaries=2,
        undo_count=0,
        opened_at=Instant(0),
        active_at=Instant(0),
        closed_at=None,
        reason=None,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def operation(id: str, of: SessionId, fence: int, **more: object) -> Operation:
    base = Operation(
        id=OperationId(id),
        kind="compress",
        session=of,
        owner="node",
        fence=fence,
        started_at=Instant(fence * 100),
        ended_at=Instant(fence * 100 + 50),
        outcome="done",
    )
    return replace(base, **more)  # type: ignore[arg-type]


def summary(of: SessionId, n: int, made_by: str, covers: tuple[int, int], **more: object) -> Summary:
    base = Summary(
        session=of,
        n=n,
        base_n=n - 1,
        covers_from=covers[0],
        covers_through=covers[1],
        head_seq=covers[1] + 2,
        text="- a fact",
        model="practice",
        tokens=3,
        operation=OperationId(made_by),
        at=Instant(0),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def parent() -> SessionFacts:
    """Two compressions, one that had nothing to do, and one whose process died."""
    return SessionFacts(
        session=session(A),
        operations=(
            operation("op_1", A, 1),
            operation("op_2", A, 2, outcome="abandoned", ended_at=Instant(10_000)),
            operation("op_3", A, 3, outcome="nothing"),
            operation("op_4", A, 4),
        ),
        summaries=(summary(A, 1, "op_1", (1, 6)), summary(A, 2, "op_4", (7, 12))),
        entries=20,
        last_seq=20,
    )


def child() -> SessionFacts:
    """A branch after the first summary, with one of its own that builds on it."""
    return SessionFacts(
        session=session(B, parent=A, fork_seq=10, committed_seq=16),
        operations=(operation("op_b", B, 1, kind="branch"), operation("op_5", B, 1)),
        summaries=(summary(B, 2, "op_5", (7, 14)),),
        fork_n=1,
        entries=6,
        last_seq=16,
    )


def grandchild() -> SessionFacts:
    """A branch of the branch, which sees the first summary through two generations after undoing the second."""
    return SessionFacts(
        session=session(C, parent=B, fork_seq=16, committed_seq=22, summaries=3),
        operations=(operation("op_c", C, 1, kind="branch"), operation("op_6", C, 1)),
        summaries=(summary(C, 3, "op_6", (7, 18), base_n=1),),
        fork_n=2,
        entries=6,
        last_seq=22,
    )


def judge(*facts: SessionFacts, log: list[dict[str, object]] | None = None) -> Report:
    audit = Audit()
    for each in facts:
        audit.add(each)
    if log is not None:
        audit.add_log(log)
    return audit.report()


def test_sound_records_hold_in_any_order():
    for order in ((parent(), child(), grandchild()), (grandchild(), child(), parent())):
        report = judge(*order)
        assert report.first is None
        assert report.ok
        assert (report.sessions, report.entries, report.summaries, report.operations) == (3, 32, 4, 8)
        assert all(check.examined for check in report.checks)


def test_nothing_recorded_is_no_contradiction():
    assert judge().ok


def first_of(report: Report) -> str:
    assert report.first is not None
    return report.first.check


def with_operation(facts: SessionFacts, index: int, **more: object) -> SessionFacts:
    operations = list(facts.operations)
    operations[index] = replace(operations[index], **more)  # type: ignore[arg-type]
    return replace(facts, operations=tuple(operations))


def with_summary(facts: SessionFacts, index: int, **more: object) -> SessionFacts:
    summaries = list(facts.summaries)
    summaries[index] = replace(summaries[index], **more)  # type: ignore[arg-type]
    return replace(facts, summaries=tuple(summaries))


BROKEN = [
    ("summary_has_operation", with_summary(parent(), 0, operation=OperationId("op_gone"))),
    ("summary_has_operation", with_summary(parent(), 0, session=B)),
    ("summary_has_operation", with_operation(parent(), 0, session=B)),
    ("summary_has_operation", with_operation(parent(), 0, outcome="failed")),
    ("summary_has_operation", with_operation(parent(), 0, kind="branch")),
    ("operation_has_summary", with_operation(parent(), 2, outcome="done")),
    ("operation_has_summary", with_summary(parent(), 1, operation=OperationId("op_1"))),
    ("operation_has_order", with_operation(parent(), 0, ended_at=Instant(99))),
    ("operation_has_order", with_operation(parent(), 1, ended_at=None)),
    ("one_at_a_time", with_operation(parent(), 2, started_at=Instant(120))),
    ("one_at_a_time", with_operation(parent(), 2, ended_at=None, outcome=None)),
    ("one_at_a_time", with_operation(parent(), 2, fence=4)),
    ("ranges_chain", with_summary(parent(), 1, covers_from=8)),
    ("ranges_chain", with_summary(parent(), 1, covers_from=6)),
    ("ranges_chain", with_summary(parent(), 1, base_n=2)),
    ("ranges_chain", with_summary(parent(), 0, covers_from=2)),
    ("ranges_chain", with_summary(parent(), 1, covers_through=6)),
    ("ranges_chain", with_summary(parent(), 1, head_seq=11)),
    ("numbers_gapless", with_summary(parent(), 1, n=3)),
    ("numbers_gapless", replace(parent(), session=session(A, summaries=3))),
    ("journal_whole", replace(parent(), entries=19)),
    ("journal_whole", replace(parent(), session=session(A, committed_seq=21))),
    ("journal_whole", with_summary(parent(), 1, head_seq=21)),
    ("lineage_recorded", replace(parent(), session=session(A, parent=C))),
    ("lineage_recorded", replace(parent(), session=session(A, purpose=Purpose.COMPRESSION))),
    (
        "lineage_recorded",
        replace(parent(), operations=(*parent().operations, operation("op_x", A, 1, kind="branch"))),
    ),
]


@pytest.mark.parametrize(("check", "facts"), BROKEN)
def test_a_contradiction_is_found_and_named(check, facts):
    report = judge(facts)
    found = {each.name for each in report.checks if each.contradictions}
    assert check in found
    assert report.first is not None
    assert report.first.session == A
    assert report.first.what


def test_every_check_has_a_way_to_fail():
    assert {check for check, _ in BROKEN} | {"log_agrees"} == set(CHECKS)


def test_a_branch_that_builds_on_a_summary_its_parent_never_made_is_found():
    orphaned = replace(parent(), summaries=(), operations=(), session=session(A, summaries=0))
    assert first_of(judge(orphaned, child())) == "ranges_chain"
    assert first_of(judge(child())) == "ranges_chain"


def test_a_lineage_that_goes_round_in_a_circle_ends():
    one = replace(child(), session=session(B, parent=C, fork_seq=10, committed_seq=16))
    assert not judge(one, grandchild()).ok


def line(event: str, operation: str, session: str) -> dict[str, object]:
    return {"event": event, "operation": operation, "session": session}


def test_a_log_that_agrees_holds():
    other: dict[str, object] = {"event": "turn.opened"}
    log = [line("compress.started", "op_1", A), other, line("compress.done", "op_1", A)]
    report = judge(parent(), log=log)
    assert report.ok
    assert report.log_lines == 2


@pytest.mark.parametrize(
    "log",
    [
        [line("compress.started", "op_1", B)],
        [line("compress.started", "op_1", A), line("compress.done", "op_1", B)],
        [line("compress.started", "op_pruned", A), line("compress.done", "op_pruned", B)],
        [line("compress.done", "", A)],
        [{"event": "compress.done", "operation": "op_1"}],
    ],
)
def test_a_log_that_names_another_session_is_found(log):
    assert first_of(judge(parent(), log=log)) == "log_agrees"


def test_each_contradiction_is_counted_once():
    report = judge(replace(parent(), entries=19))
    assert [(each.name, each.contradictions) for each in report.checks if each.contradictions] == [("journal_whole", 1)]


def test_a_branch_that_failed_is_no_branch_record():
    failed = operation("op_x", A, 1, kind="branch", outcome="failed")
    report = judge(replace(parent(), operations=(*parent().operations, failed)))
    assert "lineage_recorded" not in {each.name for each in report.checks if each.contradictions}
