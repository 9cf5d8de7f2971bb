"""Guarantees of approvals, broken on purpose."""

from collections.abc import Sequence

from holdfast.core.journal import ToolCall
from holdfast.loops import acting
from holdfast.loops.run import Run
from holdfast.stores.verbs import nodes
from holdfast.testing.mutant import Patch, mutant


@mutant("I19", budget=20)
def approval_ignored() -> Sequence[Patch]:
    """A dangerous call is run without anybody's yes."""

    def broken(_run: Run, _call: ToolCall) -> bool:
        return False

    return [(acting, "is_feared", broken)]


@mutant("I15", budget=30)
def approval_holds_claim() -> Sequence[Patch]:
    """A turn that waits for a human keeps its mailbox claimed, so nobody can go on when it is decided."""
    kept = "owner = case when waits_until is null then null else owner end,"
    return [(nodes, "RELEASE", nodes.RELEASE.replace("owner = null,", kept))]
