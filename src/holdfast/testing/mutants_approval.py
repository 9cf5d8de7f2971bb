"""Guarantees of approvals, broken on purpose."""

from collections.abc import Sequence

import msgspec

from holdfast.inbox import mailbox_sql
from holdfast.testing.mutant import Patch, mutant
from holdfast.turns import approval_sql, tool_calls
from holdfast.turns.approval import Approval, Proof
from holdfast.turns.journal import ToolCall
from holdfast.turns.turn import OpenCall, Phase
from holdfast.turns.turn_run import Interruption, TurnRun


@mutant("I19", budget=20, short=4)
def approval_ignored() -> Sequence[Patch]:
    """A dangerous call is run without an approval."""

    def broken(_run: TurnRun, _call: ToolCall) -> bool:
        return False

    return [(tool_calls, "is_feared", broken)]


@mutant("I15", budget=30, short=4)
def approval_holds_claim() -> Sequence[Patch]:
    """A turn that waits for an approval keeps its mailbox claimed, so no worker can continue after the decision."""
    kept = "owner = case when waits_until is null then null else owner end,"
    return [(mailbox_sql, "RELEASE", mailbox_sql.RELEASE.replace("owner = null,", kept))]


@mutant("I19", budget=40, short=15)
def approved_call_changed() -> Sequence[Patch]:
    """A call that changed after it was asked about is run: the store does not compare it with what was approved."""
    honest = tool_calls.ToolCaller.act

    async def broken(actor: tool_calls.ToolCaller, run: TurnRun, calls: tuple[OpenCall, ...]) -> Interruption | None:
        if run.turn.phase is Phase.AWAITING:
            other = msgspec.structs.replace(calls[0].call, arguments="{ }")
            calls = (OpenCall(other, calls[0].started), *calls[1:])
        return await honest(actor, run, calls)

    def unchecked(_approval: Approval, _starts: ToolCall | None) -> None:
        return None

    return [(tool_calls.ToolCaller, "act", broken), (approval_sql, "_require_same", unchecked)]


@mutant("I19", budget=60, first=7)
def digest_ignored() -> Sequence[Patch]:
    """An approval counts although it names the digest of another call."""

    def broken(_typed: str, _digest: str, *, cut: bool) -> Proof:
        del cut
        return Proof.HOLDS

    return [(approval_sql, "check_proof", broken)]
